"""What it takes to remember messages, and what the memory is worth: ways of add_episode side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.ingest.ours import graphiti, run
from benchmarks.ingest.streams import MADE
from benchmarks.suite import Benchmark, Case, Chart, Column, Table, Target

STORES = {"SQLite": "memory", "Neo4j": "neo4j-local"}
LATENCY = 0.2


@dataclass(frozen=True)
class Way:
    """A plan with what is chosen in it."""

    plan: str = "add_episode"
    options: Mapping[str, Any] = field(default_factory=dict)


WAYS = {
    "as shipped": Way(),
    "asking as Graphiti": Way(options={"preset": "graphiti"}),
    "dates fused": Way(options={"params": {"fuse_dates": True}}),
    "combined": Way(options={"preset": "combined"}),
    "bulk": Way(options={"preset": "bulk"}),
    "lean": Way("add_episode_lean"),
}
PEERS = {"graphiti-core": {}, "graphiti-core, bulk": {"bulk": True}}
"""graphiti-core with its defaults, one episode after another as it asks for; and all at once."""
SHORT = ("turns dated", "turns undated", "dense dated", "dense undated")
WORLDS = ("world 0", "world 1", "world 2")


def _case(stream: str, name: str, store: str, **more: Any) -> Case:
    way = WAYS[name]
    measure = partial(run, way.plan, stream, STORES[store], way.options, LATENCY)
    settings = {"plan": way.plan, "latency_s": LATENCY, **way.options}
    return Case({"stream": MADE[stream](0).name, "way": name, "store": store}, measure, settings, **more)


def _peer(stream: str, name: str, **more: Any) -> Case:
    measure = partial(graphiti, stream, PEERS[name], LATENCY)
    key = {"stream": MADE[stream](0).name, "way": name, "store": "Neo4j"}
    return Case(key, measure, {"latency_s": LATENCY, **PEERS[name]}, **more)


def cases() -> Sequence[Case]:
    """Short streams by every way on both stores; the long ones on Neo4j; worlds, of which the truth is known, in memory."""
    found = [
        _case(stream, way, store, quick=way == "as shipped" and store == "SQLite")
        for stream in SHORT
        for way in WAYS
        for store in STORES
    ]
    found += [_peer(stream, "graphiti-core") for stream in SHORT]
    found += [_peer(stream, "graphiti-core, bulk") for stream in ("turns dated", "turns undated")]
    found += [_case("meetings 20", way, "Neo4j") for way in WAYS]
    found += [_peer("meetings 20", way) for way in PEERS]
    found.append(_case("meetings 1000", "bulk", "Neo4j", full=True, trials=1, seconds=3600))
    found += [_case(stream, way, "SQLite", full=True) for stream in WORLDS for way in WAYS]
    found += [_peer(stream, "graphiti-core", full=True) for stream in WORLDS]
    return found


def _stream(short: str) -> str:
    return MADE[short](0).name


def _target(stream: str, way: str, figure: str, most: float) -> Target:
    name = _stream(stream)
    return Target(f"{name}, {way}: {figure}", {"stream": name, "way": way, "store": "Neo4j"}, figure, most)


def _calls(stream: str, way: str, most: int) -> Target:
    return _target(stream, way, "calls", most)


DATED = {"as shipped": 8, "dates fused": 8, "asking as Graphiti": 9, "combined": 5, "lean": 3, "bulk": 4}
UNDATED = {"as shipped": 11, "dates fused": 9, "asking as Graphiti": 13, "bulk": 5}
"""Calls for the three turns."""
CALLS = (
    Column("calls", "calls", ratio=True),
    Column("rounds", "rounds"),
    Column("tokens_in", "tokens in", ratio=True),
    Column("tokens_out", "out"),
    Column("usd", "$ at gpt-4.1-mini", "{:.4f}", ratio=True),
    Column("queries", "store queries"),
    Column("seconds", "s", "{:.2f}", ratio=True),
    Column("cpu_ms", "CPU ms"),
    Column("graph", "written"),
)
WORTH = (
    Column("calls", "calls", ratio=True),
    Column("tokens_in", "tokens in", ratio=True),
    Column("entities_f1", "entities F1", "{:.3f}"),
    Column("facts_f1", "facts F1", "{:.3f}"),
    Column("valid_f1", "validity F1", "{:.3f}"),
    Column("ended_precision", "ended P", "{:.3f}"),
    Column("ended_recall", "ended R", "{:.3f}"),
)

BENCHMARK = Benchmark(
    name="ingest",
    question="What does it take to remember messages, and what is the memory worth?",
    kind="simulated",
    cases=cases,
    tables=(
        Table(
            "What do a few messages cost by each way?",
            ("stream", "way", "store"),
            CALLS,
            where={"stream": tuple(map(_stream, (*SHORT, "meetings 20", "meetings 1000")))},
            baseline={"way": "as shipped"},
            note=f"The model takes {1000 * LATENCY:g} ms a call. × is the multiple of “as shipped” over the same store. "
            "graphiti-core 0.31.2 runs on the same Neo4j with the same server, embeddings and messages.",
        ),
        Table(
            "Is the graph right?",
            ("stream", "way"),
            WORTH,
            where={"stream": tuple(map(_stream, WORLDS))},
            baseline={"way": "as shipped"},
            note="Each trial is another world. F1 of pairs of mentions, facts, facts at times; P and R of what had ended.",
        ),
    ),
    charts=(
        Chart(
            "worth",
            "Facts F1 and calls, worlds of six people",
            "calls",
            "facts_f1",
            "way",
            ("calls", "facts F1"),
            where={"stream": tuple(map(_stream, WORLDS))},
        ),
    ),
    targets=(
        *(_calls("turns dated", way, most) for way, most in DATED.items()),
        *(_calls("turns undated", way, most) for way, most in UNDATED.items()),
        _calls("dense dated", "as shipped", 4),
        _calls("dense undated", "as shipped", 5),
        _target("dense undated", "as shipped", "rounds", 3),
        _target("meetings 20", "as shipped", "seconds", 9),
        _calls("meetings 20", "combined", 42),
        _target("meetings 20", "combined", "seconds", 6),
        _calls("meetings 20", "lean", 26),
        _calls("meetings 1000", "bulk", 1200),
    ),
    loses="On the graph of a few messages, semgraph's own CPU is several times that of graphiti-core: see CPU ms.",
)
