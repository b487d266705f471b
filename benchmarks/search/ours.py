"""The whole plan `search`, as its users run it, beside graphiti-core's own: its hits and its time.

The first searches run one by one, then all of them at once; those hits are compared with the
relevant rows.
"""

from __future__ import annotations

import asyncio
import math
import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from benchmarks.frame.processes import Watch, request
from benchmarks.frame.serving import Server, on_wire, same_as_counted, serving, session_at
from benchmarks.search.memory import DIMENSIONS, GROUP, SCOPES, Asked, memory_of
from benchmarks.search.stored import bolt, graph, store_of
from semgraph.execution.result import Result
from semgraph.meter import StepMetrics
from semgraph.stores.base import Store

AT_ONCE, ALONE, K = 100, 20, 10
MORE = {"EDGE_HYBRID_SEARCH_RRF, similar 0.2": {"similar": 0.2}}
"""Recipes with a parameter changed, beside the shipped ones."""
_TABLES = dict(zip(SCOPES, ("edges", "nodes", "episodes", "communities"), strict=True))
Figures = dict[str, Any]


def ranked(pairs: Iterable[tuple[Sequence[str], Collection[str]]]) -> Figures:
    """Means over the questions with relevant items: recall, nDCG and reciprocal rank of the first
    ten hits, each hit 1 or 0. Raises ValueError if no question has any.
    """
    asked = [(found[:K], set(gold)) for found, gold in pairs if gold]
    if not asked:
        raise ValueError("no question has anything that is to be found")

    def gain(places: Iterable[int]) -> float:
        return sum(1 / math.log2(place + 2) for place in places)

    places = [[i for i, one in enumerate(found) if one in gold] for found, gold in asked]
    return {
        "recall": fmean(len(set(found) & gold) / len(gold) for found, gold in asked),
        "ndcg": fmean(
            gain(own) / gain(range(min(K, len(gold))))
            for own, (_, gold) in zip(places, asked, strict=True)
        ),
        "mrr": fmean(1 / (own[0] + 1) if own else 0.0 for own in places),
        "gold": fmean(len(gold) for _, gold in asked),
        "questions": len(asked),
    }


@dataclass
class Seen:
    """The cost of searches, of either engine.

    Args:
        wall: Seconds of each search alone; `cpu` likewise, of this process.
        statements: Statements of a search alone, to the store.
        calls: Model calls of a search alone, without embeddings.
        all_at_once: Seconds of all searches at once.
        hits: Their hits, by scope and question: uuids, best first.
    """

    wall: list[float]
    cpu: list[float]
    statements: float
    calls: float
    all_at_once: float
    hits: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    def figures(self, asked: Sequence[Asked]) -> Figures:
        """The line of results; scopes that were not searched have none."""
        found: Figures = {
            "p50_ms": 1e3 * statistics.median(self.wall),
            "p95_ms": 1e3 * sorted(self.wall)[math.ceil(0.95 * len(self.wall)) - 1],
            "cpu_ms": 1e3 * statistics.median(self.cpu),
            "each_ms": 1e3 * self.all_at_once / len(asked),
            "statements": self.statements,
            "calls": self.calls,
        }
        for scope, hits in self.hits.items():
            pairs = ((one, q.gold[scope]) for one, q in zip(hits, asked, strict=True))
            found |= {f"{scope}_{name}": value for name, value in ranked(pairs).items()}
        return {name: round(x, 4) if isinstance(x, float) else x for name, x in found.items()}


def semgraph(recipe: str, kind: str, facts: int, trial: int) -> Figures:
    """Search a store of a kind by a recipe, with questions that differ from trial to trial."""
    opened, asked = store_of(kind, facts), _asked(facts, trial)
    with serving() as server:
        return asyncio.run(_semgraph(recipe, opened(), asked, server)).figures(asked)


def _asked(facts: int, trial: int) -> list[Asked]:
    """The questions of a trial; the world that they are about is whole in a memory of 1,000 facts
    already.
    """
    return memory_of(min(facts, 1_000)).asked(AT_ONCE, trial + 1)


async def _semgraph(recipe: str, store: Store, asked: Sequence[Asked], server: Server) -> Seen:
    preset, params = recipe.partition(",")[0], MORE.get(recipe)
    near = "DISTANCE" in recipe
    rows = [
        {"id": str(n), "query": q.text, "group_id": GROUP, "center": q.center if near else None}
        for n, q in enumerate(asked)
    ]
    total, watches = StepMetrics(), list[Watch]()
    async with aclosing(store):
        await store.ensure(graph(), DIMENSIONS)
        async with session_at(server.url, store) as session:

            async def search(some: Sequence[Mapping[str, Any]]) -> Result:
                with Watch() as watch:
                    result = await session.arun(
                        "search", preset=preset, params=params, queries=some
                    )
                watches.append(watch)
                total.add(result.meter.total())
                return result

            await search(rows[-1:])  # imports, and statements that are prepared once
            server.reset()
            total, watches = StepMetrics(), []
            for row in rows[:ALONE]:
                await search([row])
            trips, calls = total.round_trips / ALONE, server.counted()["calls"] / ALONE
            result = await search(rows)
            same_as_counted(total, on_wire(server))
    *alone, whole = watches
    times = [one.seconds for one in alone], [one.cpu for one in alone]
    return Seen(*times, trips, calls, whole.seconds, _hits(result, len(rows)))


def _hits(result: Result, questions: int) -> dict[str, list[list[str]]]:
    """Hits by scope and question, best first."""
    found: dict[str, list[list[str]]] = {}
    for scope, name in _TABLES.items():
        if name in result.tables:
            found[scope] = [[] for _ in range(questions)]
            for row in sorted(result.tables[name].to_pylist(), key=lambda row: row["rank"]):
                found[scope][int(row["id"])].append(row["uuid"])
    return found


def graphiti(recipe: str, facts: int, trial: int) -> Figures:
    """The same of graphiti-core, over the same rows of the same Neo4j, with the same server."""
    asked = _asked(facts, trial)
    with serving() as server:
        job = {
            "do": "search", "url": server.url, "bolt": bolt(facts), "dimensions": DIMENSIONS, "recipe": recipe,
            "group": GROUP, "alone": ALONE, "questions": [{"text": q.text, "center": q.center} for q in asked],
        }  # fmt: skip
        environment = {"EMBEDDING_DIM": str(DIMENSIONS)}
        module = "benchmarks.graphiti_itself"
        found = request(module, job, peer="graphiti-core", environment=environment)
    return Seen(**found).figures(asked)
