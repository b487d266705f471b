"""The cost of the engine itself: of a call, many episodes, a start, a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from benchmarks.engine import own
from benchmarks.engine.calls import WAYS as CALLS
from benchmarks.engine.calls import cpu_of
from benchmarks.engine.growth import grown
from benchmarks.frame import Benchmark, Case, Chart, Table
from benchmarks.search.bench import LARGE

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
CALL, GROWTH, COMMAND, START, PLAN = "CPU of a call", "many episodes", "command", "start", "plan"
EPISODES = {100: 10, 1_000: 10, 3_000: 30, 10_000: 100}
"""The number of episodes, and of groups: from 1,000 on, a hundred episodes of each group."""


def cases() -> Sequence[Case]:
    """All cases; those that take long with --full only."""
    found = [*_many()]
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
    return found


def _many() -> Iterator[Case]:
    """Growing numbers of episodes over an empty store, over one that holds many facts, and over one
    whose groups hold what a hundred episodes stated.
    """
    empty, earlier = "an empty store", "100 episodes in each group before"
    for episodes, facts, before, kind in (
        (100, 0, 0, empty),
        (1_000, 0, 0, empty),
        (3_000, 0, 0, empty),
        (3_000, LARGE, 0, f"{LARGE:,} facts at the start"),
        (3_000, 0, 100, earlier),
        (10_000, 0, 0, empty),
    ):
        way, groups = f"{episodes:,} of {EPISODES[episodes]} groups", EPISODES[episodes]
        key = {"way": way, "kind": kind, "episodes": episodes}
        yield _grown(key, episodes, groups, facts, before)
    fresh = "groups that begin empty"
    for episodes, groups, before, kind in (
        (500, 5, 0, fresh),
        (10_000, 1_000, 0, fresh),
        (10_000, 100, 100, earlier),
    ):
        key = {"way": f"{episodes:,} episodes of {groups:,} groups", "kind": kind}
        yield _grown(key, episodes, groups, 0, before, quick=episodes < 1_000)


def _grown(key: Mapping[str, Any], episodes: int, *of: int, quick: bool = False) -> Case:
    more: dict[str, Any] = {
        "trials": 3 if episodes == 100 else 1,
        "quick": quick,
        "full": episodes > 3_000,
    }
    run = partial(grown, episodes, *of)
    return Case({"what": GROWTH, **key}, run, seconds=7_200, **more)


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
    sources=(*Benchmark.sources, "benchmarks/ingest", "benchmarks/search", "benchmarks/graphiti_itself.py"),
)  # fmt: skip
