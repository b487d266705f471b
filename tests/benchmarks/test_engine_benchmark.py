"""The benchmark of the engine: every goal has a case, and growth is measured within one run."""

from __future__ import annotations

import asyncio

import pytest

from benchmarks.engine import growth
from benchmarks.engine.bench import BENCHMARK
from benchmarks.engine.goals import TARGETS
from benchmarks.engine.growth import Tenths
from benchmarks.suite import Line
from semgraph.execution.result import Progress
from semgraph.meter import Meter

CASES = [case.key for case in BENCHMARK.cases()]


def _cases_of(where: object) -> int:
    return sum(Line("engine", key, 0, {}).is_of(where) for key in CASES)  # type: ignore[arg-type]


def test_every_case_is_of_one_row_and_stands_in_a_table_or_beside_a_target() -> None:
    assert len({str(key) for key in CASES}) == len(CASES)
    beside = [target.quality_where for target in BENCHMARK.targets if target.quality_where]
    for key in CASES:
        line = Line("engine", key, 0, {})
        assert key in beside or any(
            line.is_of(table.where) and set(table.rows) <= set(key) for table in BENCHMARK.tables
        ), key


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.what)
def test_every_goal_is_measured_by_one_case(target: object) -> None:
    for name in ("where", "of", "others", "quality_where"):
        if (where := getattr(target, name)) is not None:
            assert _cases_of(where) == 1, (name, where)


def test_growth_compares_the_last_tenth_with_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([1.0, *(2.0 + n for n in range(9)), 13.0])
    monkeypatch.setattr(growth.time, "process_time", lambda: next(clock))
    tenths = Tenths(1_000)
    for done in range(0, 1_001, 50):
        tenths.note(Progress("", done, 1_000, Meter()))
        tenths.note(Progress("resolved", done, 1_000, Meter()))
    figures = tenths.figures()
    assert (figures["first_ms"], figures["last_ms"], figures["growth"]) == (10, 30, 3)


@pytest.mark.parametrize("before", [0, 5])
def test_episodes_are_measured_in_one_run_and_known_in_the_next(before: int) -> None:
    figures = asyncio.run(growth.measured(20, 2, "", before))
    assert figures["calls"] > 20
    assert figures["again_calls"] == 0
    assert figures["first_ms"] > 0
    assert 0 < figures["first_mib"] <= figures["last_mib"] + 50
