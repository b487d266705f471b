"""The cost of ingesting messages and the quality of the graph, for variants of add_episode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any

from benchmarks.frame import Benchmark, Case, Chart, Table
from benchmarks.ingest.ours import graphiti, grown, refreshed, run
from benchmarks.ingest.streams import made

STORES = {"SQLite": "memory", "Neo4j": "neo4j-local"}
LATENCY = 0.2
"""Latency of the model in seconds: longer than the work between calls, so that rounds are calls
that wait for each other.
"""
SHIPPED, GRAPHITI = "as shipped", "graphiti-core"
WAYS: dict[str, dict[str, Any]] = {
    SHIPPED: {},
    "asking as Graphiti": {"preset": "graphiti"},
    "similar 0.2": {"params": {"similar": 0.2}},
    "dates fused": {"use": {"ask": "ask_together"}},
    "combined": {"preset": "combined"},
    "combined, dates fused": {"preset": "combined", "use": {"ask": "ask_together"}},
    "fused": {"preset": "fused"},
    "lean": {"preset": "lean"},
    "window: ready": {"preset": "ready"},
    "bulk": {"preset": "bulk"},
    "bulk, packed by 5": {"preset": "bulk", "use": {"graphs": "packed(rows=5)"}},
}
"""Variants of add_episode, with their options."""
SUMMARIES: dict[str, dict[str, Any]] = {
    "appended": {},
    "always": {"preset": "summaries_always"},
    "always, one by one": {"preset": "summaries_always", "use": {"from_messages": "per_row"}},
    "always, from facts": {"use": {"describe": "describe_by_model(by=facts)"}},
    "gated": {"preset": "summaries_gated"},
    "gated, one by one": {"preset": "summaries_gated", "use": {"written": "per_row"}},
}
"""Variants of its summaries."""
TOLD = {"forty messages of a world": "grown 40", "twenty meetings in twenty minutes": "meetings 20"}
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
STREAM = (SHIPPED, "combined, dates fused", "fused", "lean", "window: ready", "bulk")
WORLDS = ("small world", "world 0", "world 1", "world 2")
GROWN = {10: 3, 100: 3, 1_000: 1, 10_000: 1}
"""How many messages of a world, and how often."""
REFRESHED = {12: 3, 100: 1, 1_000: 1}
"""How many messages are refreshed, and how often."""
GROWING = {SHIPPED: 1_000, "bulk": 1_000, "lean": 100}
"""How many of them by default; more with --full, ten of each with --quick."""


@cache
def stream_of(short: str) -> str:
    """A stream's name in the tables."""
    return made(short, 0).name


def _case(stream: str, name: str, store: str, latency: float, **more: Any) -> Case:
    key = {"stream": stream_of(stream), "way": name, "store": store}
    if name in PEERS:
        measure = partial(graphiti, stream, PEERS[name], latency)
        return Case(key, measure, {"latency_s": latency, **PEERS[name]}, **more)
    measure = partial(run, "add_episode", stream, STORES[store], WAYS[name], latency)
    return Case(key, measure, {"plan": "add_episode", "latency_s": latency, **WAYS[name]}, **more)


def cases() -> Sequence[Case]:
    """A few messages, a stream, very many at once, growing streams, and worlds with a known truth."""
    few = (SHIPPED, "bulk")
    found = [
        _case("turns dated", way, "SQLite", LATENCY, quick=way in few, full=way not in few)
        for way in (SHIPPED, "combined", "lean", "bulk")
    ]
    for stream, ways in SHORT.items():
        found += [_case(stream, way, "Neo4j", LATENCY) for way in (*ways, GRAPHITI)]
    found.append(_case("turns dated", "graphiti-core, bulk", "Neo4j", LATENCY))
    found += [_case("meetings 20", way, "Neo4j", LATENCY) for way in (*STREAM, *PEERS)]
    many = ("bulk", "bulk, packed by 5")
    found += [_case("meetings 1000", way, "Neo4j", LATENCY, trials=1, seconds=900) for way in many]
    found += _growing()
    found += _summaries()
    found += _refreshes()
    found += [_case("small world", way, "SQLite", 0) for way in (*STREAM, "bulk, packed by 5")]
    found += [_case("small world", way, "Neo4j", 0) for way in (GRAPHITI, "graphiti-core, bulk")]
    for stream in WORLDS[1:]:
        found += [_case(stream, way, "SQLite", 0, full=True, seconds=900) for way in WAYS]
        found += [_case(stream, name, "Neo4j", 0, full=True, seconds=1800) for name in PEERS]
    return found


def _growing() -> Iterator[Case]:
    """Each in its own process, for a measure of its memory."""
    for count, trials in GROWN.items():
        for way, most in GROWING.items():
            measure: Any = partial(grown, "add_episode", count, WAYS[way])
            more: dict[str, Any] = {
                "trials": trials,
                "full": count > most,
                "seconds": 60 + 2 * count,
            }
            settings = {"latency_s": 0, **WAYS[way]}
            yield Case(_grown(count, way, "SQLite"), measure, settings, quick=count == 10, **more)
        measure = partial(graphiti, f"grown {count}", {}, 0, alone=True)
        once = count > 10
        more = {"trials": 1 if once else trials, "full": count > 1_000, "seconds": 60 + 4 * count}
        yield Case(_grown(count, GRAPHITI, "Neo4j"), measure, {"latency_s": 0}, **more)


def _summaries() -> Iterator[Case]:
    """A message of a world every day or so, and a burst."""
    for told, stream in TOLD.items():
        for way, options in SUMMARIES.items():
            key = {"what": "summaries", "stream": told, "way": way, "store": "SQLite"}
            measure = partial(run, "add_episode", stream, STORES["SQLite"], options, 0)
            yield Case(key, measure, {"plan": "add_episode", "latency_s": 0, **options})


def _refreshes() -> Iterator[Case]:
    """Few messages, and many."""
    for count, trials in REFRESHED.items():
        for way in (SHIPPED, "bulk") if count < 1_000 else (SHIPPED,):
            key = {"what": "refresh", "episodes": count, "way": way, "store": "SQLite"}
            measure: Any = partial(refreshed, "add_episode", count, WAYS[way])
            more: dict[str, Any] = {"trials": trials, "full": count >= 1_000, "seconds": 300}
            yield Case(key, measure, {"latency_s": 0, **WAYS[way]}, quick=count == 12, **more)


def _grown(count: int, way: str, store: str) -> Mapping[str, Any]:
    return {"what": "growth", "episodes": count, "way": way, "store": store}


CALLS = """calls ×; rounds; tokens in=tokens_in ×; out=tokens_out; $ at gpt-4.1-mini=usd:.4f; store queries=queries;
    s=seconds:.2f ×; CPU ms=cpu_ms ×; in the store=graph"""
SAME = (
    "× is the multiple of graphiti-core's defaults in the same trials, with the lowest and the highest. graphiti-core runs on "
    "the same Neo4j with the same server, embeddings and messages; “bulk” is its add_episode_bulk, “100 at once” "
    "SEMAPHORE_LIMIT=100. Its 0.6 of similarity on Neo4j is a raw cosine of 0.2: “similar 0.2” is as shipped with that."
)
BENCHMARK = Benchmark(
    "ingest",
    "What does it cost to ingest messages, and how good is the graph?",
    cases,
    (
        Table(
            "What do a few messages cost in each variant?", "stream, way, store", CALLS,
            {"stream": tuple(map(stream_of, SHORT))}, {"way": GRAPHITI, "store": "Neo4j"},
            f"The model takes {1000 * LATENCY:g} ms a call. {SAME}",
        ),
        Table(
            "What does a stream of messages of one group cost, on a warm Neo4j?", "stream, way", CALLS,
            {"stream": stream_of("meetings 20")}, {"way": GRAPHITI}, f"The model takes {1000 * LATENCY:g} ms a call. {SAME}",
        ),
        Table(
            "And a thousand messages of one group at once?", "stream, way", CALLS, {"stream": stream_of("meetings 1000")},
            note=f"The model takes {1000 * LATENCY:g} ms a call, 64 are in flight. Measured once.",
        ),
        Table(
            "What does an episode cost as the graph grows?", "episodes, way, store",
            """ms an episode=ms_each; calls=calls_each:.2f; CPU ms=cpu_ms_each; store queries=queries_each:.2f;
            tokens in=tokens_in_each; memory MiB, whole process=peak_mib; entities; facts; entities F1=entities_f1:.3f;
            facts F1=facts_f1:.3f""",
            {"what": "growth"},
            note="The first messages of a world as large as they need; the model answers immediately, so the time is that of "
            "engine, store and simulator. Each row is a process of its own; from 1,000 on (graphiti-core: 100) once. "
            "semgraph writes to SQLite, graphiti-core to Neo4j.",
        ),
        Table(
            "What do summaries cost, and how many are stale?", "stream, way",
            """calls; calls for summaries=summary_calls; tokens in=tokens_in; tokens for summaries=summary_tokens;
            stale=stale:.2f; missing=missing:.2f; outdated=outdated:.2f""",
            {"what": "summaries"},
            note="Windows of one message. Stale: the share of the entities with facts whose summary, at the end, misses a "
            "fact that holds or has one that ended. The simulated model writes facts in their own words, so this can be "
            "counted. “Always” is a call for the entities of a message; “one by one” a call for each entity.",
        ),
        Table(
            "What does a refresh cost?", "episodes, way",
            """calls of the run=calls; CPU ms of the run=cpu_ms; CPU ms to refresh=refresh_cpu_ms; ratio=ratio:.2f;
            sure after an edit=sure; expected=expected:.0f; asked=asked; rows changed=changes; CPU ms to apply=applied_ms""",
            {"what": "refresh"},
            note="Messages of a world are added, then refreshed unchanged: the journal answers all. Then one message, a "
            "third of the way, is edited: “sure” and “expected” are what a dry run says, “asked” is what the refresh sends.",
        ),
        Table(
            "Is the graph right?", "stream, way",
            """calls ×; tokens in=tokens_in ×; $ at gpt-4.1-mini=usd:.4f; entities F1=entities_f1:.3f; facts F1=facts_f1:.3f;
            validity F1=valid_f1:.3f; ended P=ended_precision:.3f; ended R=ended_recall:.3f""",
            {"stream": tuple(map(stream_of, WORLDS))}, {"way": SHIPPED, "store": "SQLite"},
            "Each trial is another world. F1 of pairs of mentions, facts, facts at times; P, R of ended facts. × is the "
            "multiple of “as shipped”. semgraph writes to SQLite, graphiti-core to Neo4j.",
        ),
    ),
    (
        Chart(
            "growth", "CPU ms an episode, as the graph grows", "episodes", "cpu_ms_each", "way",
            ("episodes", "CPU ms an episode"), {"what": "growth"}, "xy",
        ),
    ),
    sources=(*Benchmark.sources, "benchmarks/graphiti_itself.py"),
)  # fmt: skip
