"""Palimpzest and the search of semgraph over the same draws of labelled rows: a filter, models only."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from benchmarks.frame.processes import request
from benchmarks.frame.serving import serving
from benchmarks.tune.offline import ROWS, Found, drawn, filtered, search
from benchmarks.tune.tables import MANY, PLANS, SHARE, Model, messages, noises

FLOOR, LABELS, SEEDS = 0.95, 800, 40
Figures = dict[str, float]


def right(f1: float) -> float:
    """The share of right rows at an F1, if errors are as frequent in both kinds of rows: Palimpzest scores
    rows.

    >>> round(right(0.95), 4)
    0.9661
    """
    true = 2 / SHARE
    return 1 - true * (1 - f1) / (f1 + true * (1 - f1))


def f1_of(model: Model) -> float:
    """The expected F1 of a model: it answers rows one by one, with its rate of errors."""
    rate = float(model.noise.partition("verdict=")[2])
    true = 2 / SHARE * (1 - rate)
    return true / (true + rate)


def _figures(chosen: list[Model], dollars: list[float]) -> Figures:
    good = [model for model in MANY.values() if f1_of(model) >= FLOOR]
    cheapest, reference = min(m.price for m in good)[0], MANY["default"]
    return {
        "searches": len(chosen),
        "wrong": sum(f1_of(model) < FLOOR for model in chosen),
        "cost": round(fmean(m.price[0] for m in chosen) / cheapest, 3),
        "kept": sum(model is reference for model in chosen) / len(chosen),
        "usd": round(fmean(dollars), 4),
    }


def ours(seed: int, number: int = SEEDS) -> Figures:
    """The walk, over known answers."""
    known, models = filtered(seed, beside=True), list(MANY.values())
    found = [search(known, FLOOR, LABELS, "row", "walk", _seed(seed, n)) for n in range(number)]

    def of(each: Found) -> Model:
        return models[known.index(each.choice)]

    return _figures([of(each) for each in found], [each.usd for each in found])


def palimpzest(usd: float, seed: int, number: int = SEEDS) -> Figures:
    """Palimpzest, with the dollars of a search. Raises Unmeasured if it is not installed."""
    rows, models = messages(ROWS, seed), {m.palimpzest: m for m in MANY.values()}
    rules = (PLANS / "prompts" / "says_moved.md").read_text(encoding="utf-8")
    rules = rules.partition("# rules\n")[2].partition("# item\n")[0].strip()
    job: dict[str, Any] = {
        "prices": {name: model.price for name, model in models.items()},
        "asked": f"{rules}\n\nThe text says that somebody moved.",
        "quality": right(FLOOR),
        "usd": usd,
    }
    chosen, dollars = [], []
    with serving("--latency", "0") as server:
        server.reset(noise=noises(MANY, seed))
        for each in (_seed(seed, n) for n in range(number)):
            draw = [rows[n] for n in drawn(ROWS, LABELS, each)]
            job |= {"url": server.url, "rows": draw, "seed": each}
            reply = request("benchmarks.tune.palimpzest_itself", job, peer="palimpzest")
            chosen.append(models[reply["model"]])
            dollars.append(reply["usd"])
    return _figures(chosen, dollars)


def _seed(seed: int, number: int) -> int:
    return 100_000 * seed + number
