"""Each implementation of each operator over one task, LOTUS beside it, the quality lost by sharing a
call, and the quality won by asking several times.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

from benchmarks.frame import Benchmark, Case, Chart, Table
from benchmarks.frame.processes import request
from benchmarks.frame.serving import serving
from benchmarks.operators.cases import LOTUS, MARK, WAYS
from benchmarks.operators.measure import Figures, way_of

LATENCY = 0.05
JOINED, FILTERED = "sem_join 20 x 20", "sem_filter 100 rows"
RATES, GROWTHS, SIZES = (0.01, 0.05), (0.0, 0.02, 0.1), (1, 2, 5, 10, 20)
VOTED, SAMPLES = (0.05, 0.2), (1, 3, 5, 9)
SLOW = (
    *(f'lotus(method="{method}")' for method in ("heap", "naive", "quick-sem")),
    "LOTUS (naive)",
)
"""Implementations that are measured with --full only, like `lotus` on variants of a task."""


def _run(task: str, way: str, latency: float, noise: str, trial: int) -> Figures:
    with serving("--latency", str(latency), "--refuse", MARK) as server:
        server.reset(noise=f"{noise},seed={trial + 1}" if noise else "", refuse=MARK)
        if way.lower().startswith("lotus"):
            job = {"url": server.url, "task": task, "way": way}
            return request("benchmarks.operators.measure", job, peer="lotus")
        return way_of(server, task, way)


def cases() -> Sequence[Case]:
    """Each implementation of each task, those of LOTUS in its environment; then implementations
    that share a call or ask several times, with a noisy model.
    """
    settings = {"latency_s": LATENCY, "in_flight": 64}
    found: list[Case] = []
    for task, ways in WAYS.items():
        for way in (*ways, *LOTUS.get(task, ())):
            run = partial(_run, task, way, LATENCY, "")
            quick = task == FILTERED and not way.startswith(("cascade", "lotus", "LOTUS"))
            full = way in SLOW or (way == "lotus" and "," in task)
            more: dict[str, Any] = {
                "quick": quick,
                "full": full,
                "trials": 1 if "256" in task else 3,
            }
            found.append(Case(_key(task, way), run, settings, **more))
    return [*found, *_sharing(), *_voting()]


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
            key = _key(task, way.partition("(")[0], name, size=size)
            quick = task == FILTERED and rate == RATES[0] and growth == GROWTHS[-1]
            yield _noisy(key, way, noise, quick=quick)


def _voting() -> Iterator[Case]:
    """How often each row is asked about, times how often the model errs; each draw errs by itself."""
    for rate, samples in product(VOTED, SAMPLES):
        way = "per_row" if samples == 1 else f"vote(samples={samples})"
        key = _key(FILTERED, "vote", f"{100 * rate:g} % of draws", samples=samples)
        yield _noisy(key, way, f"verdict={rate}")


def _noisy(key: Mapping[str, Any], way: str, noise: str, *, quick: bool = False) -> Case:
    settings = {"way": way, "latency_s": 0, "in_flight": 64, "noise": noise}
    return Case(key, partial(_run, key["task"], way, 0, noise), settings, quick=quick)


def _key(task: str, way: str, noise: str = "none", **more: int) -> dict[str, Any]:
    return {"task": task, "way": way, "noise": noise, **more}


BENCHMARK = Benchmark(
    "operators",
    "What does each implementation of each operator cost, and how good are its answers?",
    cases,
    (
        Table(
            "What does each implementation cost, with a model that makes no mistakes?", "task, way",
            """calls; rounds; tokens in=tokens_in; s=seconds:.2f; CPU ms a call=cpu_ms_per_call:.1f; recall=recall:.2f;
            precision=precision:.2f; paid again=paid_again; ends with=error""",
            {"noise": "none"},
            note="The model takes 50 ms a call, 64 are in flight. `lotus` is LOTUS's code over semgraph's models, LOTUS "
            "the library with its data frames, prompts and litellm. Rounds: chats that began with none in flight. "
            "Paid again: calls of a second run, after the refused row is answered.",
        ),
        Table(
            "What does sharing a call cost, with a model that errs?", "task, noise, size",
            "calls; tokens in=tokens_in; F1=f1:.3f", {"size": SIZES},
            note="“1 %, growing 0.1”: 1 % of answers are wrong; with b items in a call, a share of 0.01 (1 + 0.1 (b - 1)); "
            "for sem_join b is the number of pairs. Measure how the errors of a real model grow.",
        ),
        Table(
            "What does asking several times buy, with a model that errs?", "task, noise, samples",
            "calls; tokens in=tokens_in; recall=recall:.3f; precision=precision:.3f; F1=f1:.3f", {"samples": SAMPLES},
            note="1 is `per_row`, the rest `vote(samples=N)`. The errors of two draws are independent here; those of a "
            "real model are not, so it gains less.",
        ),
    ),
    (
        Chart(
            "packed", f"{FILTERED}: quality by items in a call", "size", "f1", "noise", ("rows in a call", "F1"),
            {"task": FILTERED, "size": SIZES}, "x", note="Bars: all trials, each with a noise of its own.",
        ),
    ),
)  # fmt: skip
