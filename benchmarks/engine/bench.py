"""What the engine itself takes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.engine import own
from benchmarks.engine.calls import WAYS, cpu_of
from benchmarks.suite import Benchmark, Case, Column, Table, Target

SDK, WHOLE = "openai: chat.completions.create", "semgraph: sem_filter, all included"
STARTS = {"import semgraph": ("-c", "import semgraph"), "semgraph --help": ("-m", "semgraph", "--help")}


def cases() -> Sequence[Case]:
    """CPU a call and a window, starting, planning, many episodes."""
    found = [Case({"what": "CPU of a call", "way": way}, lambda _, way=way: cpu_of(way)) for way in WAYS]
    found += [
        Case({"what": "CPU of an episode", "way": _groups(n)}, partial(own.window, n), quick=n == 1) for n in (1, 100)
    ]
    found += [
        Case({"what": "start", "way": name}, partial(own.started, words), quick=True) for name, words in STARTS.items()
    ]
    found.append(Case({"what": "plan", "way": "add_episode"}, own.planned, quick=True))
    for episodes, full in ((1_000, False), (10_000, True)):
        key = {"what": "many episodes", "way": f"{episodes:,} of 100 groups"}
        found.append(Case(key, partial(own.many, episodes, 100), full=full, trials=1, seconds=3600))
    return found


def _groups(number: int) -> str:
    return "one group" if number == 1 else f"{number} groups in a wave"


BENCHMARK = Benchmark(
    name="engine",
    question="What does semgraph take of its own, besides models and stores?",
    kind="simulated",
    cases=cases,
    tables=(
        Table(
            "How much CPU does a model call take?",
            ("way",),
            (Column("cpu_ms_per_call", "ms a call", "{:.3f}", ratio=True), Column("seconds", "s", "{:.2f}")),
            where={"what": "CPU of a call"},
            baseline={"way": SDK},
            note="1,500 calls of 50 ms, 64 in flight, the server in another process. × is the multiple of the SDK's own way.",
        ),
        Table(
            "How much CPU does an episode more take?",
            ("way",),
            (
                Column("own_ms", "own ms", "{:.1f}"),
                Column("model_ms", "model layer ms", "{:.1f}"),
                Column("store_ms", "store ms", "{:.1f}"),
            ),
            where={"what": "CPU of an episode"},
            note="add_episode as shipped, a store in memory; what a run takes once is not in it.",
        ),
        Table(
            "How long does it take to start, beyond Python's own start?",
            ("way",),
            (Column("seconds", "s", "{:.3f}"), Column("python_s", "Python alone s", "{:.3f}")),
            where={"what": "start"},
        ),
        Table(
            "How long does it take to plan?",
            ("way",),
            (Column("load_ms", "read and bind ms", "{:.0f}"), Column("optimize_ms", "optimize ms", "{:.0f}")),
            where={"what": "plan"},
        ),
        Table(
            "What do many episodes take, and the same again?",
            ("way",),
            (
                Column("seconds", "s", "{:.0f}"),
                Column("peak_gib", "peak GiB", "{:.2f}"),
                Column("calls", "calls"),
                Column("again_s", "again: s", "{:.1f}"),
                Column("again_calls", "calls"),
            ),
            where={"what": "many episodes"},
        ),
    ),
    targets=(
        Target(
            "CPU of a call, all included, against the SDK's", {"way": WHOLE}, "cpu_ms_per_call", 0.75, of={"way": SDK}
        ),
        Target("own CPU of an episode, one group: ms", {"way": _groups(1)}, "own_ms", 60),
        Target("own CPU of an episode, 100 groups: ms", {"way": _groups(100)}, "own_ms", 2),
        Target("import semgraph: s", {"way": "import semgraph"}, "seconds", 0.3),
        Target("semgraph --help: s", {"way": "semgraph --help"}, "seconds", 0.5),
    ),
)
