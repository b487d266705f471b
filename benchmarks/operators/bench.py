"""Every implementation of every operator over one task each, LOTUS beside, and what sharing a call costs in quality."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from benchmarks.operators.cases import LOTUS, WAYS
from benchmarks.operators.measure import Figures, way_of
from benchmarks.suite import Benchmark, Case, Chart, Column, Table, Target
from benchmarks.suite.peers import asked
from benchmarks.suite.serving import serving

LATENCY = 0.05
JOINED, FILTERED = "sem_join 20 x 20", "sem_filter 100 rows"
NOISES = {"2 %": "verdict=0.02", "2 %, growing": "verdict=0.02,growth=0.05"}
SIZES = (1, 2, 5, 10, 20)


def _ours(task: str, way: str, noise: str, trial: int) -> Figures:
    with serving(*_options(noise, trial), module="benchmarks.operators.server") as server:
        return way_of(server, task, way)


def _peer(task: str, way: str, trial: int) -> Figures:
    with serving(*_options("", trial), module="benchmarks.operators.server") as server:
        return asked("lotus", "benchmarks.operators.measure", [server.url, task, way])


def _options(noise: str, trial: int) -> list[str]:
    return ["--latency", str(LATENCY), *(["--noise", f"{noise},seed={trial + 1}"] if noise else [])]


def cases() -> Sequence[Case]:
    """Each way of each task, those that need LOTUS in its environment; then ways that share a call, with a model that errs."""
    settings = {"latency_s": LATENCY, "in_flight": 64}
    found: list[Case] = []
    for task, ways in WAYS.items():
        trials = 1 if "256" in task else 3
        for way in ways:
            quick = task == FILTERED and not way.startswith("cascade")
            run = partial(_ours, task, way, "")
            found.append(Case(_key(task, way), run, settings, quick=quick, trials=trials))
        found += [Case(_key(task, way), partial(_peer, task, way), settings) for way in LOTUS.get(task, ())]
    for name, noise in NOISES.items():
        shared = settings | {"noise": noise}
        for size in SIZES:
            for task, way in ((FILTERED, f"packed(rows={size})"), (JOINED, f"block(left={size}, right={size})")):
                key = _key(task, way, noise=name) | {"size": size}
                found.append(Case(key, partial(_ours, task, way, noise), shared))
    return found


def _key(task: str, way: str, noise: str = "none") -> dict[str, str | int]:
    return {"task": task, "way": way, "noise": noise}


COST = (
    Column("calls", "calls"),
    Column("rounds", "rounds"),
    Column("tokens_in", "tokens in"),
    Column("seconds", "s", "{:.2f}"),
    Column("cpu_ms_per_call", "CPU ms a call", "{:.1f}"),
    Column("recall", "recall", "{:.2f}"),
    Column("precision", "precision", "{:.2f}"),
    Column("paid_again", "paid again"),
    Column("error", "ends with"),
)


def _target(what: str, task: str, way: str, figure: str, limit: float) -> Target:
    return Target(what, _key(task, way), figure, limit)


BENCHMARK = Benchmark(
    name="operators",
    question="What does each way of each operator cost, and what is it worth?",
    kind="simulated",
    cases=cases,
    tables=(
        Table(
            "What does each way take, with a model that makes no mistakes of its own?",
            ("task", "way"),
            COST,
            where={"noise": "none"},
            note="The model takes 50 ms a call, 64 are in flight. `lotus` is LOTUS's code over semgraph's models, LOTUS what "
            "its users run: its data frames, its prompts, litellm. Rounds: how often a chat came while none was under way. "
            "Paid again: calls of a second run, after the row that was refused is answered.",
        ),
        Table(
            "What does it cost in quality to share a call, with a model that errs in 2 % of verdicts?",
            ("task", "noise", "size"),
            (Column("calls", "calls"), Column("tokens_in", "tokens in"), Column("f1", "F1", "{:.3f}")),
            where={"noise": tuple(NOISES)},
            note="Growing: with b items in a call the rate is 0.02 (1 + 0.05 (b - 1)). A real model's noise "
            "has to be measured.",
        ),
    ),
    charts=tuple(
        Chart(name, title, "size", "f1", "noise", ("rows, or rows of a side, in a call", "F1"), {"task": task}, "x")
        for name, title, task in (
            ("packed", "Rows that share a call: quality", FILTERED),
            ("block", "Pairs that share a call: quality", JOINED),
        )
    ),
    targets=(
        _target("sem_filter, 100 rows, one by one: seconds", FILTERED, "per_row", "seconds", 0.25),
        _target("sem_filter, packed by 10: calls", FILTERED, "packed(rows=10)", "calls", 10),
        _target("sem_filter, packed by 10: seconds", FILTERED, "packed(rows=10)", "seconds", 0.10),
        _target("sem_filter, 10 distinct of 100: calls", f"{FILTERED}, 10 distinct", "per_row", "calls", 10),
        _target("sem_filter, one refused of 100: paid again", f"{FILTERED}, one refused", "per_row", "paid_again", 1),
        _target("sem_join 20 × 20, pair by pair: seconds", JOINED, "nested_loop", "seconds", 0.65),
        _target("sem_join 20 × 20, blocks of 10 × 10: calls", JOINED, "block(left=10, right=10)", "calls", 4),
        _target("sem_join 256 × 256: calls", "sem_join 256 x 256", "block(left=32, right=16)", "calls", 128),
        _target("sem_topk, pointwise: calls", "sem_topk 5 of 50", "pointwise", "calls", 50),
        _target("sem_topk, pointwise: rounds", "sem_topk 5 of 50", "pointwise", "rounds", 1),
        _target("sem_topk, listwise: calls", "sem_topk 5 of 50", "listwise", "calls", 9),
        _target("sem_topk, tournament: calls", "sem_topk 5 of 50", "tournament", "calls", 80),
        _target("sem_topk, tournament: rounds", "sem_topk 5 of 50", "tournament", "rounds", 18),
    ),
    loses="Sharing a call is not free where a model errs more the more it is asked at once: the second table has the size at "
    "which F1 falls.",
)
