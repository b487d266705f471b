"""Searches over answers that exist already: every candidate has answered every row once, and a search
draws its labelled rows from them, so that hundreds of searches take seconds.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import fmean, median
from typing import Any, Literal

from benchmarks.frame.serving import Server, serving
from benchmarks.tune.tables import (
    JOINERS,
    MANY,
    PAIR,
    PLANS,
    Model,
    lists,
    messages,
    noises,
    session_of,
)
from semgraph.tune.walk import Counted, Counts, Entry, Measure, Walk

Rule = Literal["walk", "point estimate"]
ROWS, LISTS, LIST = 4000, 20, 20
SEARCHES = 200
SIZES = (1, 2, 5, 10, 20, 40)
_ERROR = 0.05
_MEASURE = Measure(exists=True)


@dataclass(frozen=True)
class Known:
    """The answers of a candidate to all rows.

    Args:
        name: Its name.
        cost: The dollars of a row.
        wide: The rows that share a call.
        counts: The counts of each row: of a join, of each of its pairs.
    """

    name: str
    cost: float
    wide: int
    counts: Sequence[Sequence[Counts]]

    def over(self, rows: Sequence[int]) -> list[Counts]:
        """The counts of some rows."""
        return [count for row in rows for count in self.counts[row]]

    @property
    def f1(self) -> float:
        """Its true F1: that of all rows."""
        return _MEASURE.f1(self.over(range(len(self.counts)))) or 0.0


@dataclass(frozen=True)
class Found:
    """The outcome of a search: the choice, or the reference, and the dollars that it took."""

    choice: Known
    usd: float


@cache
def filtered(seed: int, beside: bool = False) -> Sequence[Known]:
    """The candidates of the filter, the reference first: sizes of `packed` and two models, or `beside`
    Palimpzest only the models.
    """
    models = MANY if beside else PAIR
    ways = [
        (f"packed(rows={size})" if size > 1 else "per_row", role, size)
        for role in models
        for size in (SIZES[:1] if beside else SIZES)
    ]
    rows = messages(ROWS, seed)
    given = {"messages": [{name: row[name] for name in ("id", "text")} for row in rows]}
    keep = [row["keep"] for row in rows]

    def counts(found: Sequence[Mapping[str, Any]]) -> list[list[Counts]]:
        kept = {row["id"] for row in found}
        own = [number in kept for number in range(len(rows))]
        return [[(int(a and b), int(a), int(b))] for a, b in zip(own, keep, strict=True)]

    return asyncio.run(_answered(seed, models, "filter", "good", ways, given, counts))


@cache
def joined(seed: int) -> Sequence[Known]:
    """The candidates of the join, the reference first."""
    names, others = lists(LISTS, LIST, seed)
    ways = [
        (way, role, wide)
        for role in JOINERS
        for way, wide in (
            ("nested_loop", 1), ("block(left=5)", 5), ("block(left=10)", 10), ("block", LIST),
            *((f"cascade(reject={reject})", 1) for reject in (0.1, 0.25, 0.4)),
        )
    ]  # fmt: skip

    def counts(found: Sequence[Mapping[str, Any]]) -> list[list[Counts]]:
        of: dict[int, list[Counts]] = {row["id"]: [] for row in names}
        pairs = {(row["id"], row["other"]) for row in found}
        for left, right in pairs | {(number, number) for number in of}:
            own, true = (left, right) in pairs, left == right
            of[left].append((int(own and true), int(own), int(true)))
        return list(of.values())

    return asyncio.run(
        _answered(seed, JOINERS, "join", "pairs", ways, {"names": names, "others": others}, counts)
    )


async def _answered(
    seed: int, models: Mapping[str, Model], plan: str, step: str, ways: Any, given: Any, counts: Any
) -> Sequence[Known]:
    found: list[Known] = []
    with serving("--latency", "0") as server:
        server.reset(noise=noises(models, seed))
        for way, role, wide in ways:
            server.reset()
            async with session_of(server, {"default": models[role]}) as session:
                ran = await session.arun(PLANS / f"{plan}.yaml", use={step: way}, **given)
            rows = counts(ran[step].to_pylist())
            cost = _dollars(server, models[role]) / len(rows)
            name = way if role == "default" else f"{way} @ {role}"
            found.append(Known(name, cost, wide, rows))
    return found


def _dollars(server: Server, model: Model) -> float:
    counted = server.counted()
    sent, said = model.price
    return (counted["tokens_in"] * sent + counted["tokens_out"] * said) / 1e6


def drawn(rows: int, number: int, seed: int) -> list[int]:
    """The labelled rows of a search."""
    return random.Random(seed).choices(range(rows), k=number)


def search(
    known: Sequence[Known], floor: float, labels: int, unit: str, rule: Rule, seed: int
) -> Found:
    """One search with so many labelled rows, drawn from all."""
    reference = known[0]
    rows = drawn(len(reference.counts), labels, seed)
    cheaper = sorted((k for k in known[1:] if k.cost < reference.cost), key=lambda k: k.cost)
    if rule == "point estimate":
        spent = 0.0
        for each in cheaper:
            spent += each.cost * labels
            if (_MEASURE.f1(each.over(rows)) or 0.0) >= floor:
                return Found(each, spent)
        return Found(reference, spent)
    wide = {each.name: each.wide if unit == "call" else 1 for each in cheaper}
    most = {each.name: min(labels, len(each.counts) // wide[each.name]) for each in cheaper}
    true = sum(own[2] for own in reference.over(rows)) / labels
    needed = _MEASURE.needed(floor, _ERROR / (2 * len(cheaper)))
    able = [each for each in cheaper if most[each.name] * true >= needed]
    entries = [Entry(each.name, each.cost, most[each.name]) for each in able]
    walk = Walk(entries, _MEASURE, floor, _ERROR, labels)
    asked, by_name = dict[str, int](), {each.name: each for each in able}
    steps = walk.steps()
    ask = next(steps, None)
    while ask is not None:
        asked[ask.name] = ask.units
        try:
            ask = steps.send(Counted(by_name[ask.name].over(rows[: ask.units])))
        except StopIteration:
            ask = None
    spent = sum(by_name[name].cost * units * wide[name] for name, units in asked.items())
    return Found(by_name.get(walk.chosen, reference), spent)


def searches(
    known: Sequence[Known],
    floor: float,
    labels: int,
    unit: str,
    rule: Rule,
    seed: int,
    number: int = SEARCHES,
) -> dict[str, float]:
    """The figures of many searches, each with rows of its own."""
    reference = known[0]
    optimal = min((each for each in known if each.f1 >= floor), key=lambda each: each.cost)
    found = [
        search(known, floor, labels, unit, rule, 100_000 * seed + each) for each in range(number)
    ]
    return {
        "searches": number,
        "below": sum(each.choice.f1 < floor for each in found) / number,
        "typical": round(median(each.choice.cost for each in found) / optimal.cost, 3),
        "cost": round(fmean(each.choice.cost for each in found) / optimal.cost, 3),
        "cheaper": round(reference.cost / fmean(each.choice.cost for each in found), 2),
        "kept": sum(each.choice is reference for each in found) / number,
        "rows": round(fmean(each.usd for each in found) / reference.cost),
        "usd": round(fmean(each.usd for each in found), 5),
    }
