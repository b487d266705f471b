"""The goals of the engine: what must be reached, what to aim for, and the cases that measure it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from benchmarks.engine import own
from benchmarks.engine.growth import grown
from benchmarks.ingest.cases import GRAPHITI, LATENCY, PEERS, SHIPPED, WAYS, stream_of
from benchmarks.ingest.ours import graphiti, run
from benchmarks.search import ours
from benchmarks.search.bench import FACTS, KINDS
from benchmarks.search.embedded import measured
from benchmarks.suite import Case, Target

EXECUTORS, STREAM, WORLD, GROWTH, SEARCH, COMMAND = (
    "CPU of an episode against DuckDB",
    "stream",
    "graph of a world",
    "many episodes",
    "search",
    "command",
)
TURNS, TWENTY = "turns dated", "meetings 20"
STREAMS: Mapping[str, tuple[str, ...]] = {
    TURNS: (SHIPPED,),
    TWENTY: (SHIPPED, "combined", "fused", "window: ready", "lean"),
}
"""The variants of add_episode measured with each stream; graphiti-core is measured beside."""
EPISODES = {100: 10, 3_000: 30, 10_000: 100}
"""The number of episodes, and of groups: from 3,000 on, a hundred episodes of each group."""
FILLED = 100
"""Episodes of a group before those that are measured: its graph hardly grows from then on, so what
an episode costs more at the end grows with the run, not with the graph.
"""
LARGE, RECIPE = 100_000, FACTS[0]
COMMANDS = {
    "semgraph run add_episode": ("run", "add_episode", "--llm", "recorded", "--store", "memory"),
    "semgraph plans check add_episode": ("plans", "check", "add_episode"),
}


def groups_in(number: int) -> str:
    """The name of a run over so many groups."""
    return "one group" if number == 1 else f"{number} groups in a wave"


def cases() -> Iterator[Case]:
    """The cases of all goals; 10,000 episodes, and graphiti-core's search, with --full only."""
    for number in (1, 100):
        key = {"what": EXECUTORS, "way": groups_in(number)}
        yield Case(key, partial(own.against_duckdb, number), trials=1, seconds=900)
    yield from _streams()
    yield from _many()
    yield from _searches()
    for name, words in COMMANDS.items():
        yield Case({"what": COMMAND, "way": name}, partial(own.command, words), trials=1)


def _streams() -> Iterator[Case]:
    settings = {"latency_s": LATENCY}
    for stream, ways in STREAMS.items():
        for name in ways:
            plan, options = WAYS[name].plan, WAYS[name].options
            measure = partial(run, plan, stream, "neo4j-local", options, LATENCY)
            yield Case(_stream(stream, name), measure, {**settings, **options})
        beside = partial(graphiti, stream, PEERS[GRAPHITI], LATENCY)
        yield Case(_stream(stream, GRAPHITI), beside, settings)
    for name in STREAMS[TWENTY]:
        world = partial(run, WAYS[name].plan, "small world", "memory", WAYS[name].options, 0)
        yield Case({"what": WORLD, "way": name}, world, {"latency_s": 0}, trials=1)


def _stream(stream: str, name: str) -> dict[str, str | int | float]:
    return {"what": STREAM, "stream": stream_of(stream), "way": name}


def _many() -> Iterator[Case]:
    """Growing numbers of episodes over an empty store, over one that holds many facts, and over one
    whose groups hold what a hundred episodes stated.
    """
    kinds = ((100, 0, 0), (3_000, 0, 0), (3_000, LARGE, 0), (3_000, 0, FILLED), (10_000, 0, 0))
    for episodes, facts, before in kinds:
        yield Case(
            _episodes(episodes, facts, before),
            partial(grown, episodes, EPISODES[episodes], facts, before),
            full=episodes > 3_000,
            trials=3 if episodes < 1_000 else 1,
            seconds=3600,
        )


def _episodes(episodes: int, facts: int = 0, before: int = 0) -> dict[str, str | int | float]:
    way = f"{episodes:,} of {EPISODES[episodes]} groups"
    kind = f"{facts:,} facts at the start" if facts else "an empty store"
    if before:
        kind = f"{before} episodes in each group before"
    return {"what": GROWTH, "way": way, "kind": kind, "episodes": episodes}


def _search(way: str, facts: int, words: str = "") -> dict[str, str | int | float]:
    part = f"the store alone, 100 at once, {words}" if words else "the whole plan"
    return {"what": SEARCH, "way": way, "part": part, "facts": facts}


def _searches() -> Iterator[Case]:
    for facts, way in ((1_000, "SQLite"), (LARGE, "SQLite"), (LARGE, "Neo4j")):
        search = partial(ours.semgraph, RECIPE, way, facts)
        yield Case(_search(way, facts), search, seconds=1800)
    for words in KINDS:
        yield Case(_search("SQLite", LARGE, words), partial(measured, LARGE, words, 100), trials=1)
    beside = partial(ours.graphiti, RECIPE, LARGE)
    yield Case(_search(GRAPHITI, LARGE), beside, full=True, trials=1, seconds=1800)


def _against_duckdb(number: int, must: float) -> Target:
    what = f"own CPU of an episode, {groups_in(number)}, against DuckDB alone"
    return Target(what, {"what": EXECUTORS, "way": groups_in(number)}, "ratio", must, 0.3)


def _seconds(name: str, must: float) -> Target:
    return Target(
        f"20 messages into one group, Neo4j, {name}: s",
        _stream(TWENTY, name),
        "seconds",
        must,
        others=_stream(TWENTY, GRAPHITI),
        quality="facts_f1",
        quality_where={"what": WORLD, "way": name},
    )


def _client(stream: str, name: str, must: float) -> Target:
    return Target(
        f"client CPU of {stream_of(stream)}, {name}, against graphiti-core",
        _stream(stream, name),
        "cpu_ms",
        must,
        of=_stream(stream, GRAPHITI),
        quality="facts_f1",
        quality_where={"what": WORLD, "way": name},
    )


def _ms(what: str, where: Mapping[str, Any], figure: str, must: float, **more: Any) -> Target:
    return Target(
        f"{what}: ms", where, figure, must, form="{:,.0f}" if must > 100 else "{:,.3g}", **more
    )


def _command(name: str, must: float) -> Target:
    return _ms(f"{name}, whole process", {"what": COMMAND, "way": name}, "ms", must)


TARGETS = (
    _against_duckdb(1, 0.45),
    _against_duckdb(100, 0.6),
    _seconds(SHIPPED, 6.8),
    _seconds("combined", 6),
    _seconds("fused", 6.5),
    _seconds("window: ready", 3),
    Target("3,000 episodes: CPU of an episode, last tenth against the first", _episodes(3_000), "growth", 1.15),
    Target("3,000 episodes, groups filled before: CPU of an episode, last tenth against the first",
           _episodes(3_000, before=FILLED), "growth", 1.15),
    Target("10,000 episodes: CPU of an episode, last tenth against the first", _episodes(10_000), "growth", 1.15),
    Target("3,000 episodes: CPU with 100,000 facts in the store, against an empty one", _episodes(3_000, LARGE),
           "cpu_ms_each", 1.15, of=_episodes(3_000)),
    _ms("search among 1,000 facts, SQLite", _search("SQLite", 1_000), "p50_ms", 8),
    _ms("search among 100,000 facts, SQLite", _search("SQLite", LARGE), "p50_ms", 40),
    _ms("100 searches at once, the store alone, each", _search("SQLite", LARGE, KINDS[0]), "p50_ms", 5),
    _ms("100 searches at once, the store alone, any words, each", _search("SQLite", LARGE, KINDS[1]), "p50_ms", 10),
    _ms("search among 100,000 facts, Neo4j", _search("Neo4j", LARGE), "p50_ms", 40, others=_search(GRAPHITI, LARGE)),
    _command("semgraph run add_episode", 1_200),
    _command("semgraph plans check add_episode", 800),
    _client(TURNS, SHIPPED, 1),
    *(_client(TWENTY, name, 0.5) for name in (SHIPPED, "lean", "fused")),
)  # fmt: skip
