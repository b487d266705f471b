"""The cost of ingesting messages and the quality of the graph, for variants of add_episode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.ingest.cases import (
    GRAPHITI,
    LATENCY,
    PEERS,
    SHIPPED,
    SHORT,
    WORLDS,
    cases,
    stream_of,
)
from benchmarks.suite import Benchmark, Chart, Column, Contest, Entry, Table, Target

COSTS = {
    "calls": "calls", "rounds": "rounds", "tokens_in": "tokens in", "tokens_out": "tokens out", "seconds": "s",
    "queries": "store queries", "cpu_ms": "CPU ms", "peak_mib": "memory MiB",
}  # fmt: skip
QUALITIES = {
    "entities_f1": "entities F1", "facts_f1": "facts F1", "valid_f1": "validity F1",
    "ended_precision": "ended P", "ended_recall": "ended R",
}  # fmt: skip
CALLS = (
    Column("calls", "calls", ratio=True),
    Column("rounds", "rounds"),
    Column("tokens_in", "tokens in", ratio=True),
    Column("tokens_out", "out"),
    Column("usd", "$ at gpt-4.1-mini", "{:.4f}"),
    Column("queries", "store queries"),
    Column("seconds", "s", "{:.2f}", ratio=True),
    Column("cpu_ms", "CPU ms", ratio=True),
    Column("graph", "in the store"),
)
QUALITY = (
    Column("calls", "calls", ratio=True),
    Column("tokens_in", "tokens in", ratio=True),
    Column("usd", "$ at gpt-4.1-mini", "{:.4f}"),
    *(Column(name, title, "{:.3f}") for name, title in QUALITIES.items()),
)
GROWTH = (
    Column("ms_each", "ms an episode", "{:.0f}"),
    Column("calls_each", "calls", "{:.2f}"),
    Column("cpu_ms_each", "CPU ms", "{:.0f}"),
    Column("queries_each", "store queries", "{:.2f}"),
    Column("tokens_in_each", "tokens in", "{:,.0f}"),
    Column("peak_mib", "memory MiB, whole process", "{:,.0f}"),
    Column("entities", "entities"),
    Column("facts", "facts"),
    Column("entities_f1", "entities F1", "{:.3f}"),
    Column("facts_f1", "facts F1", "{:.3f}"),
)
NOTE = (
    "× is the multiple of graphiti-core's defaults in the same trials, with its 95 % interval. graphiti-core runs on the same "
    "Neo4j with the same server, embeddings and messages; “bulk” is its add_episode_bulk, “100 at once” SEMAPHORE_LIMIT=100. "
    "Its 0.6 of similarity on Neo4j is a raw cosine of 0.2: “similar 0.2” is as shipped with that."
)
TOLD = tuple(map(stream_of, SHORT))
STREAMED, AT_ONCE = stream_of("meetings 20"), stream_of("meetings 1000")
OTHERS = tuple(map(stream_of, WORLDS))


def _key(stream: str, way: str) -> Mapping[str, Any]:
    return {"stream": stream_of(stream), "way": way, "store": "Neo4j"}


def _target(stream: str, way: str, figure: str, most: float) -> Target:
    what = f"{stream_of(stream)}, {way}: {TITLES.get(figure, figure)}"
    others = _key(stream, "graphiti-core, bulk" if way.startswith("bulk") else GRAPHITI)
    known = {"stream": stream_of("small world"), "way": way, "store": "SQLite"}
    return Target(
        what,
        _key(stream, way),
        figure,
        most,
        others=others,
        quality="facts_f1",
        quality_where=known,
    )


def _calls(stream: str, ways: Mapping[str, int]) -> tuple[Target, ...]:
    return tuple(_target(stream, way, "calls", most) for way, most in ways.items())


def _entry(way: str, **more: bool) -> Entry:
    """A row of the overview: a stream of messages, with the F1 of a small world."""
    world = {
        "stream": stream_of("small world"),
        "way": way,
        "store": "Neo4j" if way in PEERS else "SQLite",
    }
    engine = way if way in PEERS else f"semgraph, {way}"
    task = f"{STREAMED}, Neo4j"
    return Entry(task, engine, _key("meetings 20", way), "facts_f1", world, **more)


TITLES = {
    "seconds": "s",
    "queries": "store round trips",
    "queries_each": "store round trips an episode",
}
TARGETS = (
    *_calls(
        "turns dated",
        {
            SHIPPED: 8,
            "dates fused": 8,
            "asking as Graphiti": 9,
            "combined": 5,
            "fused": 5,
            "lean": 3,
            "bulk": 4,
        },
    ),
    *_calls(
        "turns undated",
        {SHIPPED: 11, "dates fused": 9, "asking as Graphiti": 13, "fused": 6, "bulk": 5},
    ),
    _target("turns dated", "bulk", "rounds", 2),
    _target("turns undated", "bulk", "rounds", 2),
    *_calls("dense dated", {SHIPPED: 4, "combined, dates fused": 2, "fused": 2, "lean": 2}),
    *_calls(
        "dense undated",
        {SHIPPED: 5, "combined, dates fused": 2, "fused": 2, "lean": 2},
    ),
    _target("dense undated", SHIPPED, "rounds", 3),
    *_calls("meetings 20", {SHIPPED: 80}),
    _target("meetings 20", SHIPPED, "queries_each", 5),
    *_calls("meetings 20", {"combined, dates fused": 42, "fused": 42, "lean": 26}),
    _target("meetings 20", "combined, dates fused", "seconds", 6),
    *_calls("meetings 1000", {"bulk": 1200, "bulk, packed by 5": 400}),
    _target("meetings 1000", "bulk", "rounds", 3),
)

BENCHMARK = Benchmark(
    name="ingest",
    question="What does it cost to ingest messages, and how good is the graph?",
    kind="simulated",
    cases=cases,
    sources=(*Benchmark.sources, "benchmarks/graphiti_core.py"),
    tables=(
        Table(
            "What do a few messages cost in each variant?",
            ("stream", "way", "store"),
            CALLS,
            where={"stream": TOLD},
            baseline={"way": GRAPHITI, "store": "Neo4j"},
            note=f"The model takes {1000 * LATENCY:g} ms a call. {NOTE}",
        ),
        Table(
            "What does a stream of messages of one group cost, on a warm Neo4j?",
            ("stream", "way"),
            CALLS,
            where={"stream": STREAMED},
            baseline={"way": GRAPHITI},
            note=f"The model takes {1000 * LATENCY:g} ms a call. {NOTE}",
        ),
        Table(
            "And a thousand messages of one group at once?",
            ("stream", "way"),
            CALLS,
            where={"stream": AT_ONCE},
            note=f"The model takes {1000 * LATENCY:g} ms a call, 64 are in flight. Measured once.",
        ),
        Table(
            "What does an episode cost as the graph grows?",
            ("episodes", "way", "store"),
            GROWTH,
            where={"what": "growth"},
            note="The first messages of a world as large as they need; the model answers immediately, so the time is that of "
            "engine, store and simulator. Each row is a process of its own; from 1,000 on (graphiti-core: 100) once.",
        ),
        Table(
            "Is the graph right?",
            ("stream", "way"),
            QUALITY,
            where={"stream": OTHERS},
            baseline={"way": SHIPPED, "store": "SQLite"},
            note="Each trial is another world. F1 of pairs of mentions, facts, facts at times; P, R of ended facts. × is "
            "the multiple of “as shipped”.",
        ),
    ),
    charts=(
        *(
            Chart(
                f"growth-{figure}", f"{title}, as the graph grows", "episodes", figure, "way", ("episodes", title),
                where={"what": "growth"}, log="xy", grows=True,
                note="Both axes are logarithmic; x^e is fitted to all trials, with the 95 % interval of e. Bars: all trials.",
            )
            for figure, title in (
                ("ms_each", "ms an episode"), ("cpu_ms_each", "CPU ms an episode"), ("calls_each", "calls an episode"),
                ("queries_each", "store queries an episode"), ("peak_mib", "memory of the process, MiB"),
            )
        ),
        Chart("quality", "Quality and cost, a world of three people", "calls", "facts_f1", "way", ("calls", "facts F1"),
              where={"stream": OTHERS[0]}, joined=False, note="Each point is the median of the trials with as many calls."),
    ),
    targets=TARGETS,
    overview=(
        _entry(GRAPHITI, baseline=True),
        _entry("graphiti-core, bulk"),
        _entry(SHIPPED, charted=True),
        _entry("window: ready", charted=True),
    ),
    contests=(
        Contest("way", tuple(PEERS), COSTS, QUALITIES, where={"stream": (*TOLD, STREAMED, *OTHERS), "store": "Neo4j"}),
        Contest("way", tuple(PEERS), {}, QUALITIES, where={"stream": OTHERS, "store": "SQLite"}, instead={"store": "Neo4j"}),
        Contest("way", (GRAPHITI,), {k: v for k, v in COSTS.items() if k not in {"rounds", "seconds"}}, QUALITIES,
                where={"what": "growth"}, instead={"store": "Neo4j"}),
    ),
    loses="For growth and worlds, semgraph writes to SQLite and graphiti-core to Neo4j.",
)  # fmt: skip
