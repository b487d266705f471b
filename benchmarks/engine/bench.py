"""The cost of the engine itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from benchmarks.engine import goals, own
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
CALL, START, PLAN = "CPU of a call", "start", "plan"


def cases() -> Sequence[Case]:
    """The goals; CPU for each call, start-up, planning."""
    found = [*goals.cases()]
    found += [
        Case({"what": CALL, "way": way}, lambda _, way=way: cpu_of(way), seconds=120)
        for way in WAYS
    ]
    found += [
        Case({"what": START, "way": name}, partial(own.started, words), quick=True)
        for name, words in STARTS.items()
    ]
    found += [
        Case({"what": START, "way": name}, partial(own.imported, *of), trials=1)
        for name, of in IMPORTS.items()
    ]
    return [*found, *_plans()]


def _plans() -> Iterator[Case]:
    for steps in STEPS:
        key = {
            "what": PLAN,
            "way": f"{steps} steps" if steps else "add_episode",
            "kind": "a chain of steps",
            "steps": steps,
        }
        yield Case(key, partial(planned, steps), quick=steps <= 10, full=steps > 100)


def _chart(name: str, title: str, what: str, x: str, figure: str, axis: str) -> Chart:
    note = "Both axes are logarithmic; x^e is fitted to all trials, with the 95 % interval of e. Bars: all trials."
    where = {"what": what, x: tuple(STEPS[1:]) if x == "steps" else tuple(goals.EPISODES)}
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
            "How much CPU does one more episode take, and how much without the executor for few rows?",
            ("way",),
            (
                Column("own_ms", "own ms", "{:.1f}"),
                Column("model_ms", "model layer ms", "{:.1f}"),
                Column("store_ms", "store ms", "{:.1f}"),
                Column("duckdb_ms", "own ms, DuckDB alone", "{:.1f}"),
                Column("ratio", "ratio", "{:.2f}"),
            ),
            where={"what": goals.EXECUTORS},
            note="add_episode as shipped, a store in memory; costs that occur once in a run are excluded. Medians of three "
            "runs of each, in turn, in one process.",
        ),
        Table(
            "How long does a stream of messages take on Neo4j, and how much CPU of the client?",
            ("stream", "way"),
            (
                Column("seconds", "s", "{:.2f}", ratio=True),
                Column("cpu_ms", "CPU ms", ratio=True),
                Column("calls", "calls"),
                Column("queries", "store queries"),
            ),
            where={"what": goals.STREAM},
            baseline={"way": goals.GRAPHITI},
            note="The model takes 200 ms a call. × is the multiple of graphiti-core, in the same trials.",
        ),
        Table(
            "What do many episodes cost, at the beginning and at the end, and running them again?",
            ("way", "kind"),
            (
                Column("seconds", "s", "{:.1f}"),
                Column("cpu_ms_each", "CPU ms an episode", "{:.1f}"),
                Column("first_ms", "first tenth", "{:.1f}"),
                Column("last_ms", "last tenth", "{:.1f}"),
                Column("growth", "last / first", "{:.2f}"),
                Column("first_mib", "MiB after the first tenth"),
                Column("last_mib", "at the end"),
                Column("peak_mib", "peak"),
                Column("calls", "calls"),
                Column("again_s", "second run: s", "{:.1f}"),
                Column("again_calls", "calls"),
            ),
            where={"what": goals.GROWTH},
            note="An SQLite file, a model that answers immediately; from 3,000 episodes on measured once. Facts at the start "
            "belong to another group. In groups that begin empty an episode has more candidates at the end than at the "
            "beginning; where each had 100 episodes before, the graph hardly grows. The messages of a group name fourteen "
            "people, four in each.",
        ),
        Table(
            "How long does a search take?",
            ("way", "part", "facts"),
            (
                Column("p50_ms", "ms p50", "{:.1f}"),
                Column("cpu_ms", "CPU ms", "{:.1f}"),
                Column("each_ms", "ms each, 100 at once", "{:.1f}"),
            ),
            where={"what": goals.SEARCH},
            note=f"{goals.RECIPE} in a warm session, queries one by one; the store alone: per query, 100 in one request. "
            "The benchmark `search` has the quality, all recipes and sizes.",
        ),
        Table(
            "How long does a command take, as a whole process?",
            ("way",),
            (Column("ms", "ms"), Column("cpu_ms", "CPU ms")),
            where={"what": goals.COMMAND},
            note="The best of five, with the start of Python; recorded answers, a store in memory.",
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
    ),
    charts=(
        _chart("planning", "ms to plan", PLAN, "steps", "total_ms", "steps of the plan"),
        _chart("cpu", "CPU ms an episode", goals.GROWTH, "episodes", "cpu_ms_each", "episodes"),
        _chart("memory", "peak memory, MiB", goals.GROWTH, "episodes", "peak_mib", "episodes"),
    ),
    targets=(
        *goals.TARGETS,
        Target(
            "CPU of a call, all included, against the SDK's", {"way": WHOLE}, "cpu_ms_per_call", 0.75, of={"way": SDK},
        ),
        Target("import semgraph: s", {"way": "import semgraph"}, "seconds", 0.3, others={"way": "import lotus"}),
        Target("semgraph --help: s", {"way": "semgraph --help"}, "seconds", 0.5, others={"way": "import lotus"}),
    ),
    targets_note="“must” is what every release reaches, “aim” what to work towards. “others” is graphiti-core in the same "
    "trials (for imports: LOTUS); its search among 100,000 facts is measured with `--full` only, as are 10,000 episodes. "
    "F1 is that of the facts of a small world ingested in the same way. Each row is measured alone by "
    "`--where`: `--where what=stream`, `--where what=search`.",
    contests=(
        Contest("way", (SDK, "bare aiohttp and json"), {"cpu_ms_per_call": "CPU ms a call", "seconds": "s"},
                where={"what": CALL}, ours=tuple(way for way in WAYS if way.startswith("semgraph"))),
        Contest("way", tuple(IMPORTS), {"seconds": "s"}, where={"what": START}),
    ),
    sources=(*Benchmark.sources, "benchmarks/ingest", "benchmarks/search", "benchmarks/graphiti_core.py"),
)  # fmt: skip
