"""The cases: streams, plans and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from benchmarks.ingest.growing import grown, grown_by_graphiti
from benchmarks.ingest.ours import graphiti, run
from benchmarks.ingest.streams import MADE
from benchmarks.suite import Case

STORES = {"SQLite": "memory", "Neo4j": "neo4j-local"}
LATENCY = 0.2
"""Latency of the model in seconds: longer than the work between calls, so that rounds are calls
that wait for each other.
"""


@dataclass(frozen=True)
class Way:
    """A plan with its options."""

    plan: str = "add_episode"
    options: Mapping[str, Any] = field(default_factory=dict)


SHIPPED = "as shipped"
WAYS = {
    SHIPPED: Way(),
    "asking as Graphiti": Way(options={"preset": "graphiti"}),
    "similar 0.2": Way(options={"params": {"similar": 0.2}}),
    "dates fused": Way(options={"use": {"ask": "ask_together"}}),
    "combined": Way(options={"preset": "combined"}),
    "combined, dates fused": Way(options={"preset": "combined", "use": {"ask": "ask_together"}}),
    "fused": Way(options={"preset": "fused"}),
    "lean": Way(options={"preset": "lean"}),
    "window: ready": Way(options={"preset": "ready"}),
    "bulk": Way(options={"preset": "bulk"}),
    "bulk, packed by 5": Way(options={"preset": "bulk", "use": {"graphs": "packed(rows=5)"}}),
}
GRAPHITI = "graphiti-core"
PEERS: dict[str, dict[str, Any]] = {
    GRAPHITI: {},
    "graphiti-core, bulk": {"bulk": True},
    "graphiti-core, bulk, 100 at once": {"bulk": True, "environment": {"SEMAPHORE_LIMIT": "100"}},
}
"""graphiti-core with its defaults: one episode after another, as its documentation demands; in
bulk; and with a higher limit.
"""
SHORT: dict[str, tuple[str, ...]] = {
    "turns dated": (
        SHIPPED,
        "asking as Graphiti",
        "dates fused",
        "combined",
        "fused",
        "lean",
        "bulk",
    ),
    "turns undated": (SHIPPED, "asking as Graphiti", "dates fused", "fused", "bulk"),
    "dense dated": (SHIPPED, "similar 0.2", "combined, dates fused", "fused", "lean"),
    "dense undated": (SHIPPED, "dates fused", "combined, dates fused", "fused", "lean"),
}
EMBEDDED = {SHIPPED: False, "combined": True, "lean": True, "bulk": False}
"""Of the same turns over SQLite, and whether with --full only: the calls are those over Neo4j."""
STREAM = (SHIPPED, "combined, dates fused", "fused", "lean", "window: ready", "bulk")
SMALL = (*STREAM, "bulk, packed by 5")
AT_ONCE = ("bulk", "bulk, packed by 5")
WORLDS = ("small world", "world 0", "world 1", "world 2")
GROWN = {10: 3, 100: 3, 1_000: 1, 10_000: 1}
"""How many messages of a world, and how often."""
GROWING = {SHIPPED: 100, "bulk": 1_000, "lean": 0}
"""How many of them by default; more with --full, ten of each with --quick."""


@cache
def stream_of(short: str) -> str:
    """A stream's name in the tables."""
    return MADE[short](0).name


def _case(stream: str, name: str, store: str, latency: float, **more: Any) -> Case:
    way = WAYS[name]
    measure = partial(run, way.plan, stream, STORES[store], way.options, latency)
    settings = {"plan": way.plan, "latency_s": latency, **way.options}
    return Case(
        {"stream": stream_of(stream), "way": name, "store": store}, measure, settings, **more
    )


def _peer(stream: str, name: str, latency: float, **more: Any) -> Case:
    measure = partial(graphiti, stream, PEERS[name], latency)
    key = {"stream": stream_of(stream), "way": name, "store": "Neo4j"}
    return Case(key, measure, {"latency_s": latency, **PEERS[name]}, **more)


def cases() -> Sequence[Case]:
    """A few messages, a stream, very many at once, growing streams, and worlds with a known truth."""
    found = [
        _case("turns dated", way, "SQLite", LATENCY, quick=not full, full=full, seconds=120)
        for way, full in EMBEDDED.items()
    ]
    for stream, ways in SHORT.items():
        found += [_case(stream, way, "Neo4j", LATENCY, seconds=180) for way in ways]
        found.append(_peer(stream, GRAPHITI, LATENCY, seconds=180))
    found.append(_peer("turns dated", "graphiti-core, bulk", LATENCY, seconds=180))
    found += [_case("meetings 20", way, "Neo4j", LATENCY, seconds=300) for way in STREAM]
    found += [_peer("meetings 20", way, LATENCY, seconds=300) for way in PEERS]
    found += [
        _case("meetings 1000", way, "Neo4j", LATENCY, trials=1, seconds=900) for way in AT_ONCE
    ]
    found += _growing()
    found += [_case("small world", way, "SQLite", 0, seconds=300) for way in SMALL]
    found += [
        _peer("small world", way, 0, seconds=300) for way in (GRAPHITI, "graphiti-core, bulk")
    ]
    found += [
        _case(stream, way, "SQLite", 0, full=True, seconds=900)
        for stream in WORLDS[1:]
        for way in WAYS
    ]
    found += [
        _peer(stream, name, 0, full=True, seconds=1800) for stream in WORLDS[1:] for name in PEERS
    ]
    return found


def _growing() -> Sequence[Case]:
    """Each in its own process, for a measure of its memory; larger ones once, the largest with
    --full only.
    """
    found = []
    for count, trials in GROWN.items():
        for way, most in GROWING.items():
            key = {"what": "growth", "episodes": count, "way": way, "store": "SQLite"}
            measure = partial(grown, way, count)
            more: dict[str, Any] = {
                "trials": trials,
                "full": count > most,
                "seconds": 60 + 2 * count,
            }
            found.append(
                Case(key, measure, {"latency_s": 0, **WAYS[way].options}, quick=count == 10, **more)
            )
        key = {"what": "growth", "episodes": count, "way": GRAPHITI, "store": "Neo4j"}
        more = {
            "trials": 1 if count > 10 else trials,
            "full": count > 10,
            "seconds": 60 + 4 * count,
        }
        found.append(Case(key, partial(grown_by_graphiti, count), {"latency_s": 0}, **more))
    return found
