"""A line of metrics for each operator that asks, and rows in and out of those that ask nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import semgraph
from semgraph.checking.oracle import Mind, Oracle
from semgraph.execution.result import Result
from semgraph.execution.runs import Run
from semgraph.report.outcome import step_columns
from semgraph.report.runs import page

PLAN = """
plan: lines
inputs: {notes: {id: int64, text: string}}
steps:
  short: [{from: notes}, {filter: length(text) < 9}]
  told: [{from: short}, {sem_filter: {prompt: "Nice: {text}"}}, {filter: id > 0}, {sem_map: {prompt: "Code: {text}", add: {code: string}}}]
  counted: [{from: told}, {aggregate: {by: [code], add: {n: count(*)}}}]
returns: [told, short, counted]
"""
MIND = Mind(
    answer=lambda text: {"code": "c"} if text.startswith("Code") else {"answer": "no" if "2" in text else "yes"}
)


@pytest.fixture
async def result(tmp_path: Path) -> Result:
    (tmp_path / "lines.yaml").write_text(PLAN, encoding="utf-8")
    notes = [{"id": i, "text": f"note {i}"} for i in range(1, 5)] + [{"id": 9, "text": "a longer note"}]
    async with semgraph.Session(
        llm=Oracle(MIND), store="memory", journal=False, folder=tmp_path, runs=tmp_path / "runs"
    ) as session:
        return await session.arun(tmp_path / "lines.yaml", notes=notes)


def test_each_operator_of_a_step_has_its_counters_and_the_step_their_sum(result: Result) -> None:
    first, second = result.meter.operators()["told"]
    assert (first.operator, first.how, first.rows_in, first.rows_out, first.calls_issued) == (
        "sem_filter",
        "per_row",
        4,
        3,
        4,
    )
    assert (second.operator, second.rows_in, second.rows_out, second.calls_issued) == ("sem_map", 3, 3, 3)
    whole = result.meter.steps["told"]
    assert (whole.operator, whole.how, whole.rows_in, whole.rows_out) == ("sem_filter, sem_map", "per_row", 7, 3)
    assert whole.calls_issued == result.meter.total().calls_issued == 7


def test_rows_come_into_steps_that_ask_nothing_too(result: Result) -> None:
    assert [(s.rows_in, s.rows_out) for s in (result.meter.steps["short"], result.meter.steps["counted"])] == [
        (5, 4),
        (3, 1),
    ]


def test_tables_have_a_line_for_each_operator(result: Result) -> None:
    names, operators, *_ = step_columns(result.meter.lines())
    assert list(names.cells) == ["told.1", "told.2"]
    assert list(operators.cells) == ["sem_filter", "sem_map"]
    assert result.record is not None
    lines = [line.split() for line in page(Run(result.record), 200)]
    assert [line[:2] for line in lines if line and line[0].startswith("told")] == [
        ["told.1", "sem_filter"],
        ["told.2", "sem_map"],
    ]
