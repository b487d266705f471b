"""What it takes to remember messages, and what the memory is worth: ways of add_episode side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from benchmarks.ingest.ours import run
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
}
SHORT = ("turns dated", "turns undated", "dense dated", "dense undated")
WORLDS = ("world 0", "world 1", "world 2")


def _case(stream: str, name: str, store: str, **more: Any) -> Case:
    way = WAYS[name]
    measure = partial(run, way.plan, stream, STORES[store], way.options, LATENCY)
    settings = {"plan": way.plan, "latency_s": LATENCY, **way.options}
    return Case({"stream": MADE[stream](0).name, "way": name, "store": store}, measure, settings, **more)


def cases() -> Sequence[Case]:
    """Short streams by every way on both stores; the long ones on Neo4j; worlds, of which the truth is known, in memory."""
    found = [
        _case(stream, way, store, quick=way == "as shipped" and store == "SQLite")
        for stream in SHORT
        for way in WAYS
        for store in STORES
    ]
    found += [_case("meetings 20", way, "Neo4j") for way in WAYS]
    found += [_case(stream, way, "SQLite", full=True) for stream in WORLDS for way in WAYS]
    return found


def _stream(short: str) -> str:
    return MADE[short](0).name


CALLS = (
    Column("calls", "calls", ratio=True),
    Column("rounds", "rounds"),
    Column("tokens_in", "tokens in", ratio=True),
    Column("tokens_out", "out"),
    Column("usd", "$ at gpt-4.1-mini", "{:.4f}", ratio=True),
    Column("queries", "store queries"),
    Column("seconds", "s", "{:.2f}", ratio=True),
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
            where={"stream": tuple(map(_stream, (*SHORT, "meetings 20")))},
            baseline={"way": "as shipped"},
            note=f"The model takes {1000 * LATENCY:g} ms a call. × is the multiple of “as shipped” in the same trial.",
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
        Target("three turns, dated: calls", {"stream": _stream("turns dated"), "way": "as shipped"}, "calls", 8),
        Target("three turns, undated: calls", {"stream": _stream("turns undated"), "way": "as shipped"}, "calls", 11),
        Target("dense, dated: calls", {"stream": _stream("dense dated"), "way": "as shipped"}, "calls", 4),
        Target("dense, undated: calls", {"stream": _stream("dense undated"), "way": "as shipped"}, "calls", 5),
        Target("dense: rounds", {"stream": _stream("dense undated"), "way": "as shipped"}, "rounds", 3),
        Target("stream of 20, Neo4j: seconds", {"stream": _stream("meetings 20"), "way": "as shipped"}, "seconds", 9),
        Target("stream of 20: calls", {"stream": _stream("meetings 20"), "way": "as shipped"}, "calls", 60),
    ),
)
