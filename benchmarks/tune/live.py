"""Searches as a user starts them: `session.tune` at the model server, and the truth about what it chose."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from itertools import product
from typing import Any

from benchmarks.frame.serving import DIMENSIONS, Server, serving
from benchmarks.tune.tables import (
    JOINERS,
    LARGE,
    PAIR,
    PLANS,
    Model,
    Row,
    lists,
    messages,
    noises,
    session_of,
)
from benchmarks.world.world import World
from semgraph.scores import Score
from semgraph.session import Session
from semgraph.tune.tuning import Tuning

FRESH = 2000  # rows on which a choice is checked
_MOST = 60  # plans that are run for the cheapest one
Figures = dict[str, float | int | str | None]
Tuned = Callable[[Session, Server], Coroutine[Any, Any, Figures]]


def filter_tuned(floor: float, labels: int, rows: int, units: str, trial: int) -> Figures:
    """Tune the filter with labels, and check the choice on fresh rows."""

    async def tuned(session: Session, server: Server) -> Figures:
        given = messages(rows, 10 + trial)
        truth = [{"id": row["id"]} for row in given if row["keep"]]
        found = await session.atune(
            PLANS / "filter.yaml", steps="good", models=list(PAIR), floor=floor, sample=labels, units=units,
            truth=truth, seed=trial, say=None, messages=_asked(given),
        )  # fmt: skip
        figures, fresh = _found(found, server), messages(FRESH, 1000 + trial)
        ran = await session.arun(
            PLANS / "filter.yaml", use=dict(found.choices), messages=_asked(fresh)
        )
        kept = {row["id"] for row in ran["good"].to_pylist()}
        true = {row["id"] for row in fresh if row["keep"]}
        return figures | _true(found, Score.of(len(kept & true), len(kept), len(true)).f1, floor)

    return _at_server(PAIR, trial, tuned)


def join_tuned(floor: float, number: int, trial: int) -> Figures:
    """Tune the join of so many lists of 20 names, and check the choice on fresh lists."""

    async def tuned(session: Session, server: Server) -> Figures:
        names, others = lists(number, 20, 10 + trial)
        truth = [{"id": row["id"], "c.id": row["id"]} for row in names]
        found = await session.atune(
            PLANS / "join.yaml", steps="pairs", models=list(JOINERS), floor=floor, sample=len(names), units="row",
            truth=truth, seed=trial, say=None, names=names, others=others,
        )  # fmt: skip
        figures, (names, others) = _found(found, server), lists(20, 20, 1000 + trial)
        use = dict(found.choices)
        ran = await session.arun(PLANS / "join.yaml", use=use, names=names, others=others)
        pairs = [(row["id"], row["other"]) for row in ran["pairs"].to_pylist()]
        hits = sum(left == right for left, right in pairs)
        return figures | _true(found, Score.of(hits, len(pairs), len(names)).f1, floor)

    return _at_server(JOINERS, trial, tuned)


def pipeline_tuned(plan: str, models: Sequence[str], rows: int, trial: int) -> Figures:
    """Tune both steps of a pipeline without labels; check the choice on fresh rows, and find the cheapest
    plan that is good enough there.
    """
    floor, path = 0.95, PLANS / f"{plan}.yaml"

    async def tuned(session: Session, server: Server) -> Figures:
        given = _asked(messages(rows, 10 + trial))
        found = await session.atune(
            path, models=models, floor=floor, sample=rows, seed=trial, say=None, messages=given
        )
        figures = _found(found, server)
        if found.status != "shown":
            return figures
        fresh = _asked(messages(FRESH, 1000 + trial))
        reference = await _returned(session, path, {}, fresh)

        async def f1(use: Mapping[str, str]) -> float:
            own = await _returned(session, path, use, fresh)
            return Score.of((own & reference).total(), own.total(), reference.total()).f1 or 0.0

        figures |= _true(found, await f1(_steps(found.choices)), floor)
        return figures | {"cost": await _to_cheapest(found, f1, floor)}

    return _at_server(PAIR, trial, tuned)


def episodes_tuned(worlds: int, people: int, trial: int) -> Figures:
    """Tune add_episode over worlds, each a group of its own, by their true graphs."""

    async def tuned(session: Session, server: Server) -> Figures:
        made = [World.make(100 * trial + n, people, 1, group=f"w{n}") for n in range(1, worlds + 1)]
        nodes, edges = list[Row](), list[Row]()
        for world in made:
            gold, own = world.gold(), world.group
            nodes += [
                {"key": f"{own} {e.key}", "name": e.name, "members": list(e.episodes)}
                for e in gold.entities
            ]
            edges += [
                {"source": f"{own} {f.source}", "target": f"{own} {f.target}", "label": f.relation,
                 "start": f.valid_at.isoformat(), "end": f.invalid_at and f.invalid_at.isoformat()}
                for f in gold.facts
            ]  # fmt: skip
        rows = [row for world in made for row in world.rows]
        found = await session.atune(
            "add_episode", floor=0.9, truth={"nodes": nodes, "edges": edges}, sample=worlds, seed=trial,
            say=None, episodes=rows,
        )  # fmt: skip
        return _found(found, server)

    return _at_server({"default": LARGE}, trial, tuned)


def _at_server(models: Mapping[str, Model], trial: int, tuned: Tuned) -> Figures:
    """The figures of a tuning, and what it sent."""

    async def run(server: Server) -> Figures:
        embedder = f"openai:stand-in@{server.url}?dimensions={DIMENSIONS}&price=0.02"
        async with session_of(server, models, embedder=embedder) as session:
            return await tuned(session, server)

    with serving("--latency", "0") as server:
        server.reset(noise=noises(models, trial + 1))
        return asyncio.run(run(server))


def _asked(rows: Sequence[Row]) -> list[Row]:
    return [{"id": row["id"], "text": row["text"]} for row in rows]


async def _returned(
    session: Session, path: Any, use: Mapping[str, str], rows: Sequence[Row]
) -> Counter[Any]:
    ran = await session.arun(path, use=dict(use), messages=rows)
    return Counter(tuple(row.values()) for row in ran["who"].to_pylist())


def _steps(choices: Mapping[str, str]) -> dict[str, str]:
    return {step: way for step, way in choices.items() if step in {"good", "who"}}


async def _to_cheapest(found: Tuning, f1: Any, floor: float) -> float | None:
    """The cost of the choice, as a multiple of that of the cheapest plan that is good enough on fresh
    rows; None: none is among the cheapest ones, and the choice is not either.
    """
    steps: dict[str, list[Any]] = {}
    for loss in found.losses:
        steps.setdefault(loss.step, []).append(loss)
    plans = sorted(product(*steps.values()), key=lambda plan: sum(each.cost or 0 for each in plan))
    chosen = sum(each.cost or 0 for each in found.losses if each.chosen)
    for plan in plans[:_MOST]:
        if sum(each.cost or 0 for each in plan) >= chosen:
            return 1.0
        use = {each.step: each.name.partition("=")[2] for each in plan if "=" in each.name}
        if await f1(use) >= floor:
            return round(chosen / sum(each.cost or 0 for each in plan), 3)
    return None


def _found(found: Tuning, server: Server) -> Figures:
    """What a tuning found, and what it took."""
    reference, best, counted = found.reference.cost, found.best, server.counted()
    taken = found.spent.dollars or 0.0
    return {
        "status": found.status,
        "choice": found.chosen or found.reason,
        "f1": _rounded(best and best.f1),
        "at_least": _rounded(best and best.at_least),
        "cheaper": round(reference / best.cost, 2) if best and best.cost and reference else None,
        "rows": round(1000 * taken / reference) if reference else None,
        "usd": round(taken, 5),
        "calls": counted["calls"],
        "seconds": round(found.seconds, 2),
        "tried": sum(each.f1 is not None for each in found.tried),
    }


def _true(found: Tuning, f1: float | None, floor: float) -> Figures:
    """The true F1 of a choice; where the reference stays, that of the reference."""
    below = int((f1 or 0.0) < floor) if found.status == "shown" else 0
    return {"true_f1": _rounded(f1), "below": below}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
