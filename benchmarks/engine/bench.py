"""The cost of the engine itself: of a call, an episode, many of them, a search, a start, a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.engine import own, workers
from benchmarks.engine.calls import WAYS as CALLS
from benchmarks.engine.calls import cpu_of
from benchmarks.engine.growth import grown
from benchmarks.frame import Benchmark, Case, Chart, Table
from benchmarks.ingest.bench import GRAPHITI, LATENCY, PEERS, SHIPPED, WAYS, stream_of
from benchmarks.ingest.ours import graphiti, run
from benchmarks.search import ours
from benchmarks.search.bench import FACTS, KINDS, LARGE
from benchmarks.search.embedded import measured

SDK = "openai: chat.completions.create"
STARTS = {
    "import semgraph": partial(own.started, ("-c", "import semgraph")),
    "semgraph --help": partial(own.started, ("-m", "semgraph", "--help")),
    "import lotus": partial(own.imported, "lotus", "lotus"),
    "import graphiti_core": partial(own.imported, "graphiti-core", "graphiti_core"),
}
COMMANDS = {
    "semgraph run add_episode": ("run", "add_episode", "--llm", "recorded", "--store", "memory"),
    "semgraph plans check add_episode": ("plans", "check", "add_episode"),
}
STEPS = (0, 10, 30, 100, 300)
"""Of plans; 0: the shipped add_episode."""
EXECUTORS, STREAM, WORLD, GROWTH = (
    "CPU of an episode against DuckDB", "stream", "graph of a world", "many episodes"
)  # fmt: skip
CALL, SEARCH, COMMAND, START, PLAN, MARKERS = (
    "CPU of a call",
    "search",
    "command",
    "start",
    "plan",
    "markers",
)
TWO = "two workers"
STREAMS: Mapping[str, tuple[str, ...]] = {
    "turns dated": (SHIPPED,),
    "meetings 20": (SHIPPED, "combined", "fused", "window: ready", "lean"),
}
"""The variants of add_episode measured with each stream; graphiti-core is measured beside."""
EPISODES = {100: 10, 3_000: 30, 10_000: 100}
"""The number of episodes, and of groups: from 3,000 on, a hundred episodes of each group."""


def cases() -> Sequence[Case]:
    """All cases; those that take long with --full only."""
    found = [*_episodes(), *_streams(), *_many(), *_searches()]
    found += [Case({"what": CALL, "way": way}, partial(cpu_of, way)) for way in CALLS]
    for name, words in COMMANDS.items():
        found.append(Case({"what": COMMAND, "way": name}, partial(own.command, words), trials=1))
    for name, start in STARTS.items():
        ours = "semgraph" in name
        found.append(Case({"what": START, "way": name}, start, quick=ours, trials=3 if ours else 1))
    for steps in STEPS:
        way = f"{steps} steps" if steps else "add_episode"
        key = {"what": PLAN, "way": way, "kind": "a chain of steps", "steps": steps}
        found.append(Case(key, partial(own.planned, steps), quick=steps <= 10, full=steps > 100))
    for count in (10, 100_000):
        key = {"what": MARKERS, "way": f"{count:,} rows committed"}
        found.append(Case(key, partial(own.looked_up, count), quick=True))
    settings = {"latency_s": workers.LATENCY, "in_flight": workers.FLIGHT, "store": "Neo4j"}
    for engine in (workers.ALONE, "ray?workers=1", "ray?workers=2"):
        run = partial(workers.measured, engine)
        found.append(Case({"what": TWO, "way": engine}, run, settings, full=True, trials=1))
    return found


def _episodes() -> Iterator[Case]:
    for number, name in ((1, "one group"), (100, "100 groups in a wave")):
        run = partial(own.against_duckdb, number)
        yield Case({"what": EXECUTORS, "way": name}, run, trials=1, seconds=900)


def _streams() -> Iterator[Case]:
    settings = {"latency_s": LATENCY}
    for stream, ways in STREAMS.items():
        key = {"what": STREAM, "stream": stream_of(stream)}
        for name in ways:
            measure = partial(run, "add_episode", stream, "neo4j-local", WAYS[name], LATENCY)
            yield Case({**key, "way": name}, measure, {**settings, **WAYS[name]})
        beside = partial(graphiti, stream, PEERS[GRAPHITI], LATENCY)
        yield Case({**key, "way": GRAPHITI}, beside, settings)
    for name in STREAMS["meetings 20"]:
        world = partial(run, "add_episode", "small world", "memory", WAYS[name], 0)
        yield Case({"what": WORLD, "way": name}, world, {"latency_s": 0}, trials=1)


def _many() -> Iterator[Case]:
    """Growing numbers of episodes over an empty store, over one that holds many facts, and over one
    whose groups hold what a hundred episodes stated.
    """
    for episodes, facts, before in (
        (100, 0, 0),
        (3_000, 0, 0),
        (3_000, LARGE, 0),
        (3_000, 0, 100),
        (10_000, 0, 0),
    ):
        kind = f"{facts:,} facts at the start" if facts else "an empty store"
        kind = f"{before} episodes in each group before" if before else kind
        key = {
            "way": f"{episodes:,} of {EPISODES[episodes]} groups",
            "kind": kind,
            "episodes": episodes,
        }
        yield _grown(key, episodes, EPISODES[episodes], facts, before)
    for episodes, number, before in (
        (500, 5, 0),
        (10_000, 1_000, 0),
        (10_000, 100, 100),
        (100_000, 1_000, 0),
    ):
        kind = f"{before} episodes in each group before" if before else "groups that begin empty"
        key = {"way": f"{episodes:,} episodes of {number:,} groups", "kind": kind}
        yield _grown(key, episodes, number, 0, before, quick=episodes < 1_000)


def _grown(key: Mapping[str, Any], episodes: int, *of: int, quick: bool = False) -> Case:
    more: dict[str, Any] = {
        "trials": 3 if episodes == 100 else 1,
        "quick": quick,
        "full": episodes > 3_000,
    }
    return Case({"what": GROWTH, **key}, partial(grown, episodes, *of), seconds=7_200, **more)


def _searches() -> Iterator[Case]:
    def key(way: str, facts: int, part: str = "the whole plan") -> Mapping[str, Any]:
        return {"what": SEARCH, "way": way, "part": part, "facts": facts}

    for facts, way in ((1_000, "SQLite"), (LARGE, "SQLite"), (LARGE, "Neo4j")):
        yield Case(key(way, facts), partial(ours.semgraph, FACTS[0], way, facts), seconds=1800)
    for words in KINDS:
        alone = key("SQLite", LARGE, f"the store alone, 100 at once, {words}")
        yield Case(alone, partial(measured, LARGE, words, 100), trials=1)
    beside = partial(ours.graphiti, FACTS[0], LARGE)
    yield Case(key(GRAPHITI, LARGE), beside, full=True, trials=1, seconds=1800)


BENCHMARK = Benchmark(
    "engine",
    "What does semgraph itself cost, without models and stores?",
    cases,
    (
        Table(
            "How much CPU does a model call take?", "way", "ms a call=cpu_ms_per_call:.3f ×; s=seconds:.2f", {"what": CALL},
            {"way": SDK},
            "1,000 calls of 50 ms, 64 in flight, the server in another process. × is the multiple of the SDK's own call.",
        ),
        Table(
            "How much CPU does one more episode take, and how much without the executor for few rows?", "way",
            """own ms=own_ms:.1f; model layer ms=model_ms:.1f; store ms=store_ms:.1f; own ms, DuckDB alone=duckdb_ms:.1f;
            ratio=ratio:.2f""",
            {"what": EXECUTORS},
            note="add_episode as shipped, a store in memory; costs that occur once in a run are excluded. Medians of three "
            "runs of each, in turn, in one process.",
        ),
        Table(
            "How long does a stream of messages take on Neo4j, and how much CPU of the client?", "stream, way",
            "s=seconds:.2f ×; CPU ms=cpu_ms ×; calls; store queries=queries", {"what": STREAM}, {"way": GRAPHITI},
            "The model takes 200 ms a call. × is the multiple of graphiti-core, in the same trials.",
        ),
        Table(
            "Is the graph of these variants right?", "way", "calls; entities F1=entities_f1:.3f; facts F1=facts_f1:.3f",
            {"what": WORLD}, note="A small world, SQLite; its truth is known.",
        ),
        Table(
            "Do CPU and memory stay flat over many episodes?", "way, kind",
            """s=seconds:.1f; CPU ms an episode=cpu_ms_each:.1f; first tenth=first_ms:.1f; last tenth=last_ms:.1f;
            last / first=growth:.2f; MiB after the first tenth=first_mib; at the end=last_mib; peak=peak_mib; calls;
            second run: s=again_s:.1f; calls=again_calls""",
            {"what": GROWTH},
            note="One process, an SQLite file, a model that answers immediately; from 500 episodes on measured once. Facts at "
            "the start belong to another group. In groups that begin empty an episode has more candidates at the end than at "
            "the beginning; where each had 100 episodes before, the graph hardly grows, and what grows is the run. The peak "
            "includes the episodes before. The messages of a group name fourteen people, four in each.",
        ),
        Table(
            "How much faster are two workers than one?", "way", "s=seconds:.1f ×; CPU s=cpu_s:.1f ×; calls", {"what": TWO},
            {"way": "ray?workers=1"},
            f"add_episode, {workers.EPISODES:,} episodes of {workers.GROUPS} groups, {workers.FLIGHT} requests at one time; "
            "the model takes 200 ms a call. The model server takes one of the two cores when it is asked.",
        ),
        Table(
            "How long does a search take?", "way, part, facts",
            "ms p50=p50_ms:.1f; CPU ms=cpu_ms:.1f; ms each, 100 at once=each_ms:.1f",
            {"what": SEARCH},
            note=f"{FACTS[0]} in a warm session, queries one by one; the store alone: per query, 100 in one request. "
            "The benchmark `search` has the quality, all recipes and sizes.",
        ),
        Table(
            "How long does a run look for one new row among the committed rows of its group?", "way", "CPU ms=cpu_ms:.3f",
            {"what": MARKERS}, note="The store alone, an SQLite file; the median of 200 lookups.",
        ),
        Table(
            "How long does a command take, as a whole process?", "way", "ms; CPU ms=cpu_ms", {"what": COMMAND},
            note="The best of five, with the start of Python; recorded answers, a store in memory.",
        ),
        Table(
            "How long does it take to start, beyond Python's own start?", "way", "s=seconds:.3f; Python alone s=python_s:.3f",
            {"what": START}, note="The imports of other engines are measured once, after one that fills the disk cache.",
        ),
        Table(
            "How long does it take to plan?", "way", "read and bind ms=load_ms; optimize ms=optimize_ms", {"what": PLAN},
            note="These plans are chains: each step has a filter and an expression, every tenth a model call.",
        ),
    ),
    (
        Chart(
            "cpu", "CPU ms an episode", "episodes", "cpu_ms_each", "kind", ("episodes", "CPU ms an episode"),
            {"what": GROWTH, "episodes": tuple(EPISODES)}, "xy",
        ),
    ),
    sources=(*Benchmark.sources, "benchmarks/ingest", "benchmarks/search", "benchmarks/graphiti_core.py"),
)  # fmt: skip
