"""The cost of the engine itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.engine import own
from benchmarks.engine.calls import WAYS, cpu_of
from benchmarks.engine.planning import planned
from benchmarks.suite import Benchmark, Case, Chart, Column, Contest, Table, Target

SDK, WHOLE = "openai: chat.completions.create", "semgraph: sem_filter, all included"
STARTS = {
    "import semgraph": ("-c", "import semgraph"),
    "semgraph --help": ("-m", "semgraph", "--help"),
}
IMPORTS = {
    "import lotus": ("lotus", "lotus"),
    "import graphiti_core": ("graphiti-core", "graphiti_core"),
}
STEPS = (0, 10, 30, 100, 300)
"""Of plans; 0: the shipped add_episode."""
EPISODES = {100: 10, 1_000: 100, 10_000: 100}
"""The number of episodes, and of groups."""
CALL, EPISODE, EXECUTORS, START, PLAN, MANY = (
    "CPU of a call",
    "CPU of an episode",
    "CPU of an episode against DuckDB",
    "start",
    "plan",
    "many episodes",
)


def cases() -> Sequence[Case]:
    """CPU for each call and window, start-up, planning, many episodes."""
    found = [
        Case({"what": CALL, "way": way}, lambda _, way=way: cpu_of(way), seconds=120)
        for way in WAYS
    ]
    found += [
        Case({"what": EPISODE, "way": _groups(n)}, partial(own.window, n), quick=n == 1)
        for n in (1, 100)
    ]
    found += [
        Case(
            {"what": EXECUTORS, "way": _groups(n)},
            partial(own.against_duckdb, n),
            trials=1,
            seconds=900,
        )
        for n in (1, 100)
    ]
    found += [
        Case({"what": START, "way": name}, partial(own.started, words), quick=True)
        for name, words in STARTS.items()
    ]
    found += [
        Case({"what": START, "way": name}, partial(own.imported, *of), trials=1)
        for name, of in IMPORTS.items()
    ]
    return [*found, *_growing()]


def _growing() -> Iterator[Case]:
    for steps in STEPS:
        key = {
            "what": PLAN,
            "way": f"{steps} steps" if steps else "add_episode",
            "kind": "a chain of steps",
            "steps": steps,
        }
        yield Case(key, partial(planned, steps), quick=steps <= 10, full=steps > 100)
    for episodes, number in EPISODES.items():
        key = {
            "what": MANY,
            "way": f"{episodes:,} of {number} groups",
            "kind": "as shipped",
            "episodes": episodes,
        }
        full = episodes > 1_000
        yield Case(
            key,
            partial(own.many, episodes, number),
            full=full,
            trials=3 if episodes < 1_000 else 1,
            seconds=3600,
        )


def _groups(number: int) -> str:
    return "one group" if number == 1 else f"{number} groups in a wave"


def _chart(name: str, title: str, what: str, x: str, figure: str, axis: str) -> Chart:
    note = "Both axes are logarithmic; x^e is fitted to all trials, with the 95 % interval of e. Bars: all trials."
    where = {"what": what, x: tuple(STEPS[1:]) if x == "steps" else tuple(EPISODES)}
    return Chart(name, title, x, figure, "kind", (axis, title), where, "xy", grows=True, note=note)


BENCHMARK = Benchmark(
    name="engine",
    question="What does semgraph itself cost, without models and stores?",
    kind="simulated",
    cases=cases,
    tables=(
        Table(
            "How much CPU does a model call take?",
            ("way",),
            (Column("cpu_ms_per_call", "ms a call", "{:.3f}", ratio=True), Column("seconds", "s", "{:.2f}")),
            where={"what": CALL},
            baseline={"way": SDK},
            note="1,000 calls of 50 ms, 64 in flight, the server in another process. × is the multiple of the SDK's own call.",
        ),
        Table(
            "How much CPU does one more episode take?",
            ("way",),
            (
                Column("own_ms", "own ms", "{:.1f}"),
                Column("model_ms", "model layer ms", "{:.1f}"),
                Column("store_ms", "store ms", "{:.1f}"),
            ),
            where={"what": EPISODE},
            note="add_episode as shipped, a store in memory; costs that occur once in a run are excluded.",
        ),
        Table(
            "How much of it do relational steps and searches over few rows save, computed without DuckDB?",
            ("way",),
            (
                Column("own_ms", "own ms", "{:.1f}"),
                Column("duckdb_ms", "own ms, DuckDB alone", "{:.1f}"),
                Column("ratio", "ratio", "{:.2f}"),
            ),
            where={"what": EXECUTORS},
            note="Medians of three runs of each, in turn, in one process.",
        ),
        Table(
            "How long does it take to start, beyond Python's own start?",
            ("way",),
            (Column("seconds", "s", "{:.3f}"), Column("python_s", "Python alone s", "{:.3f}")),
            where={"what": START},
            note="The imports of other engines are measured once, after one that fills the disk cache.",
        ),
        Table(
            "How long does it take to plan?",
            ("way",),
            (Column("load_ms", "read and bind ms", "{:.0f}"), Column("optimize_ms", "optimize ms", "{:.0f}")),
            where={"what": PLAN},
            note="These plans are chains: each step has a filter and an expression, every tenth a model call.",
        ),
        Table(
            "What do many episodes cost, and running them again?",
            ("way",),
            (
                Column("seconds", "s", "{:.1f}"),
                Column("ms_each", "ms an episode", "{:.1f}"),
                Column("cpu_ms_each", "CPU ms an episode", "{:.1f}"),
                Column("peak_mib", "peak MiB"),
                Column("calls", "calls"),
                Column("again_s", "second run: s", "{:.1f}"),
                Column("again_calls", "calls"),
            ),
            where={"what": MANY},
            note="An SQLite file, a model that answers immediately; from 1,000 episodes on measured once.",
        ),
    ),
    charts=(
        _chart("planning", "ms to plan", PLAN, "steps", "total_ms", "steps of the plan"),
        _chart("cpu", "CPU ms an episode", MANY, "episodes", "cpu_ms_each", "episodes"),
        _chart("memory", "peak memory, MiB", MANY, "episodes", "peak_mib", "episodes"),
    ),
    targets=(
        Target(
            "CPU of a call, all included, against the SDK's", {"way": WHOLE}, "cpu_ms_per_call", 0.75, of={"way": SDK},
            headline=True,
        ),
        Target("own CPU of an episode, one group: ms", {"what": EPISODE, "way": _groups(1)}, "own_ms", 60),
        Target("own CPU of an episode, 100 groups: ms", {"what": EPISODE, "way": _groups(100)}, "own_ms", 2),
        Target("the same against DuckDB alone, one group", {"what": EXECUTORS, "way": _groups(1)}, "ratio", 0.45),
        Target("the same against DuckDB alone, 100 groups", {"what": EXECUTORS, "way": _groups(100)}, "ratio", 0.6),
        Target("import semgraph: s", {"way": "import semgraph"}, "seconds", 0.3, others={"way": "import lotus"},
               headline=True),
        Target("semgraph --help: s", {"way": "semgraph --help"}, "seconds", 0.5, others={"way": "import lotus"}),
    ),
    contests=(
        Contest("way", (SDK, "bare aiohttp and json"), {"cpu_ms_per_call": "CPU ms a call", "seconds": "s"},
                where={"what": CALL}, ours=tuple(way for way in WAYS if way.startswith("semgraph"))),
        Contest("way", tuple(IMPORTS), {"seconds": "s"}, where={"what": START}),
    ),
    sources=("semgraph", "operators", "plans", "benchmarks/world", "benchmarks/ingest/messages.py"),
)  # fmt: skip
