"""Each implementation of each operator over one task, LOTUS beside it, the quality lost by sharing a
call, and the quality won by asking several times.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import product

from benchmarks.operators.cases import LOTUS, WAYS
from benchmarks.operators.measure import Figures, way_of
from benchmarks.suite import (
    Benchmark,
    BreakEven,
    Case,
    Chart,
    Column,
    Contest,
    Entry,
    Table,
    Target,
)
from benchmarks.suite.peers import request
from benchmarks.suite.serving import serving

LATENCY = 0.05
JOINED, FILTERED, RANKED = "sem_join 20 x 20", "sem_filter 100 rows", "sem_topk 5 of 50"
RATES, GROWTHS, SIZES = (0.01, 0.05), (0.0, 0.02, 0.1), (1, 2, 5, 10, 20)
VOTED, SAMPLES = (0.05, 0.2), (1, 3, 5, 9)
SLOW = (
    'lotus(method="heap")',
    'lotus(method="naive")',
    'lotus(method="quick-sem")',
    "LOTUS (naive)",
)
"""Implementations that are measured with --full only, like `lotus` on variants of a task."""


def _ours(task: str, way: str, latency: float, noise: str, trial: int) -> Figures:
    with serving("--latency", str(latency), module="benchmarks.operators.server") as server:
        server.reset(noise=f"{noise},seed={trial + 1}" if noise else "")
        return way_of(server, task, way)


def _peer(task: str, way: str, trial: int) -> Figures:  # noqa: ARG001 - nothing is drawn
    with serving("--latency", str(LATENCY), module="benchmarks.operators.server") as server:
        server.reset(noise="")
        return request(
            "lotus", "benchmarks.operators.measure", {"url": server.url, "task": task, "way": way}
        )


def cases() -> Sequence[Case]:
    """Each implementation of each task, those of LOTUS in its environment; then implementations
    that share a call or ask several times, with a noisy model.
    """
    settings = {"latency_s": LATENCY, "in_flight": 64}
    found: list[Case] = []
    for task, ways in WAYS.items():
        trials = 1 if "256" in task else 3
        for way in ways:
            quick = task == FILTERED and not way.startswith("cascade")
            run = partial(_ours, task, way, LATENCY, "")
            found.append(
                Case(_key(task, way), run, settings, quick=quick, trials=trials, seconds=120)
            )
        found += [
            Case(
                _key(task, way),
                partial(_peer, task, way),
                settings,
                full=_slow(task, way),
                seconds=240,
            )
            for way in LOTUS.get(task, ())
        ]
    return [*found, *_sharing(), *_voting()]


def _slow(task: str, way: str) -> bool:
    return way in SLOW or (way == "lotus" and "," in task)


def _sharing() -> Iterator[Case]:
    """How many share a call, times how often the model errs, times how much more it errs the more
    share it.
    """
    for rate, growth, size in product(RATES, GROWTHS, SIZES):
        name, noise = f"{100 * rate:g} %, growing {growth:g}", f"verdict={rate},growth={growth}"
        for task, way in (
            (FILTERED, f"packed(rows={size})"),
            (JOINED, f"block(left={size}, right={size})"),
        ):
            key = _key(task, way.partition("(")[0], noise=name) | {"size": size}
            quick = task == FILTERED and rate == RATES[0] and growth == GROWTHS[-1]
            settings = {"way": way, "latency_s": 0, "in_flight": 64, "noise": noise}
            yield Case(key, partial(_ours, task, way, 0, noise), settings, quick=quick, seconds=120)


def _voting() -> Iterator[Case]:
    """How often each row is asked about, times how often the model errs; each draw errs by itself."""
    for rate, samples in product(VOTED, SAMPLES):
        way = "per_row" if samples == 1 else f"vote(samples={samples})"
        name, noise = f"{100 * rate:g} % of draws", f"verdict={rate}"
        key = _key(FILTERED, "vote", noise=name) | {"samples": samples}
        settings = {"way": way, "latency_s": 0, "in_flight": 64, "noise": noise}
        yield Case(key, partial(_ours, FILTERED, way, 0, noise), settings, seconds=120)


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


def _target(
    what: str,
    task: str,
    way: str,
    figure: str,
    limit: float,
    others: str = "",
) -> Target:
    beside = _key(task, others) if others else None
    return Target(what, _key(task, way), figure, limit, others=beside, quality="f1")


TARGETS = (
    _target("sem_filter, 100 rows, one by one: s", FILTERED, "per_row", "seconds", 0.25, "LOTUS"),
    _target("sem_filter, packed by 10: calls", FILTERED, "packed(rows=10)", "calls", 10, "LOTUS"),
    _target("sem_filter, packed by 10: s", FILTERED, "packed(rows=10)", "seconds", 0.10, "LOTUS"),
    _target("sem_filter, 10 distinct of 100: calls", f"{FILTERED}, 10 distinct", "per_row", "calls", 10, "LOTUS"),
    _target(
        "sem_filter, one refused of 100: paid again", f"{FILTERED}, one refused", "per_row", "paid_again", 1, "LOTUS"
    ),
    _target("sem_join 20 × 20, pair by pair: s", JOINED, "nested_loop", "seconds", 0.65, "LOTUS"),
    _target("sem_join 20 × 20, blocks of 10: calls", JOINED, "block(left=10, right=10)", "calls", 4, "LOTUS"),
    _target("sem_join 256 × 256: calls", "sem_join 256 x 256", "block(left=32, right=16)", "calls", 128),
    _target("sem_topk 5 of 50, pointwise: calls", RANKED, "pointwise", "calls", 50, "LOTUS (quick)"),
    _target("sem_topk 5 of 50, pointwise: rounds", RANKED, "pointwise", "rounds", 1, "LOTUS (quick)"),
    _target("sem_topk 5 of 50, listwise: calls", RANKED, "listwise", "calls", 9, "LOTUS (quick)"),
    _target("sem_topk 5 of 50, tournament: calls", RANKED, "tournament", "calls", 80, "LOTUS (heap)"),
    _target("sem_topk 5 of 50, tournament: rounds", RANKED, "tournament", "rounds", 18, "LOTUS (heap)"),
    Target("sem_filter, one refused of 100: recall of the rest", _key(f"{FILTERED}, one refused", "per_row"), "recall", 1,
           least=True, others=_key(f"{FILTERED}, one refused", "LOTUS")),
)  # fmt: skip


def _entries(task: str, lotus: str, way: str) -> tuple[Entry, ...]:
    """LOTUS and semgraph over one task, for the overview."""
    return (
        Entry(task, lotus, _key(task, lotus), "f1", baseline=True),
        Entry(task, f"semgraph, {way}", _key(task, way), "f1", charted=True),
    )


COSTS = {
    "calls": "calls", "rounds": "rounds", "tokens_in": "tokens in", "seconds": "s", "cpu_ms_per_call": "CPU ms a call",
    "paid_again": "paid again",
}  # fmt: skip
QUALITY = {"recall": "recall", "precision": "precision", "f1": "F1"}

BENCHMARK = Benchmark(
    name="operators",
    question="What does each implementation of each operator cost, and how good are its answers?",
    kind="simulated",
    cases=cases,
    tables=(
        Table(
            "What does each implementation cost, with a model that makes no mistakes?",
            ("task", "way"),
            COST,
            where={"noise": "none"},
            note="The model takes 50 ms a call, 64 are in flight. `lotus` is LOTUS's code over semgraph's models, LOTUS "
            "the library with its data frames, prompts and litellm. Rounds: chats that began with none in flight. "
            "Paid again: calls of a second run, after the refused row is answered.",
        ),
        BreakEven(
            "How many items may share a call before F1 falls by more than 0.02, with a model that errs?",
            ("task", "noise"),
            "size",
            "f1",
            "calls",
            note="“1 %, growing 0.1”: 1 % of answers are wrong; with b items in a call, a share of 0.01 (1 + 0.1 (b - 1)); "
            "for sem_join b is the number of pairs. Measure how the errors of a real model grow.",
        ),
        Table(
            "What does each size cost, and how good are its answers?",
            ("task", "noise", "size"),
            (Column("calls", "calls"), Column("tokens_in", "tokens in"), Column("f1", "F1", "{:.3f}")),
            where={"size": SIZES},
        ),
        Table(
            "What does asking several times buy, with a model that errs?",
            ("task", "noise", "samples"),
            (
                Column("calls", "calls"), Column("tokens_in", "tokens in"), Column("recall", "recall", "{:.3f}"),
                Column("precision", "precision", "{:.3f}"), Column("f1", "F1", "{:.3f}"),
            ),
            where={"samples": SAMPLES},
            note="1 is `per_row`, the rest `vote(samples=N)`. The errors of two draws are independent here; those of a "
            "real model are not, so it gains less.",
        ),
    ),
    charts=(
        *(
            Chart(
                name, f"{task}: quality by items in a call", "size", "f1", "noise", (f"{what} in a call", "F1"),
                {"task": task, "size": SIZES}, "x", note="Bars: all trials, each with a noise of its own.",
            )
            for task, what, name in ((FILTERED, "rows", "packed"), (JOINED, "rows of a side", "block"))
        ),
        Chart(
            "calls", "Calls by items in a call", "size", "calls", "task",
            ("rows, or rows of a side, in a call", "calls"), {"size": SIZES}, "xy", note="Independent of the noise.",
        ),
    ),
    targets=TARGETS,
    overview=(
        *_entries(FILTERED, "LOTUS", "packed(rows=10)"),
        *_entries(JOINED, "LOTUS", "block(left=10, right=10)"),
        *_entries(RANKED, "LOTUS (quick)", "listwise"),
    ),
    contests=(
        Contest("way", ("LOTUS", "LOTUS (quick)", "LOTUS (heap)"), COSTS, QUALITY, where={"noise": "none"}),
    ),
)  # fmt: skip
