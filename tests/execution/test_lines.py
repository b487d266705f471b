"""A line of metrics for each operator that asks, and rows in and out of those that ask nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import RowError
from semgraph.execution.record import Run, read_rows
from semgraph.execution.result import Result
from semgraph.render.outcome import run_page, step_columns

PLAN = """
plan: lines
inputs: {notes: {id: int64, text: string}}
steps:
  short: [{from: notes}, {filter: length(text) < 9}]
  told: [{from: short}, {sem_filter: {prompt: "Nice: {text}"}}, {filter: id > 0}, {sem_map: {prompt: "Code: {text}", returns: {code: string}}}]
  counted: [{from: told}, {aggregate: {by: [code], add: {n: count(*)}}}]
returns: [told, short, counted]
"""
MIND = Mind(
    answer=lambda text: (
        {"code": "c"} if text.startswith("Code") else {"answer": "no" if "2" in text else "yes"}
    )
)


@pytest.fixture
async def result(tmp_path: Path) -> Result:
    (tmp_path / "lines.yaml").write_text(PLAN, encoding="utf-8")
    notes = [{"id": i, "text": f"note {i}"} for i in range(1, 5)] + [
        {"id": 9, "text": "a longer note"}
    ]
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
    assert (second.operator, second.rows_in, second.rows_out, second.calls_issued) == (
        "sem_map",
        3,
        3,
        3,
    )
    whole = result.meter.steps["told"]
    assert (whole.operator, whole.how, whole.rows_in, whole.rows_out) == (
        "sem_filter, sem_map",
        "per_row",
        7,
        3,
    )
    assert whole.calls_issued == result.meter.total().calls_issued == 7


def test_rows_come_into_steps_that_ask_nothing_too(result: Result) -> None:
    assert [
        (s.rows_in, s.rows_out)
        for s in (result.meter.steps["short"], result.meter.steps["counted"])
    ] == [
        (5, 4),
        (3, 1),
    ]


def test_tables_have_a_line_for_each_operator(result: Result) -> None:
    names, operators, *_ = step_columns(result.meter.lines())
    assert list(names.cells) == ["told.1", "told.2"]
    assert list(operators.cells) == ["sem_filter", "sem_map"]
    assert result.record is not None
    lines = [line.split() for line in run_page(Run(result.record), 200)]
    assert [line[:2] for line in lines if line and line[0].startswith("told.")] == [
        ["told.1", "sem_filter"],
        ["told.2", "sem_map"],
    ]


WINDOWED = """
plan: windowed
graph: graph.yaml
inputs: {notes: {uuid: string, group_id: string, text: string, at: timestamp}}
windows: {input: notes, partition: group_id, order: [at], key: uuid, key_of: [text], size: 3}
steps:
  seen: [{from: notes}, {search: {over: Note, alias: hit, k: 1, order: hit.at, how: left}}, {filter: "hit IS NULL OR length(text) > 0"}]
  nice: [{from: seen}, {sem_filter: {prompt: "Nice: {text}"}}]
writes: [{merge: {from: nice, node: Note}}]
returns: [nice]
"""


async def test_rows_of_a_window_that_is_run_again_without_a_member_are_counted_once(
    tmp_path: Path,
) -> None:
    graph = "graph: g\nkey: uuid\npartition: group_id\nnodes: {Note: {properties: {text: string, at: timestamp}}}\n"
    (tmp_path / "graph.yaml").write_text(graph, encoding="utf-8")
    (tmp_path / "windowed.yaml").write_text(WINDOWED, encoding="utf-8")

    def refused(text: str) -> dict[str, str]:
        if "3" in text:
            raise RowError("refused", "no")
        return {"answer": "yes"}

    notes = [
        {"uuid": f"n{i}", "group_id": "g", "text": f"note {i}", "at": f"2025-01-0{i + 1}"}
        for i in range(6)
    ]
    async with semgraph.Session(
        llm=Oracle(Mind(answer=refused)),
        store="memory",
        journal=False,
        folder=tmp_path,
        runs=tmp_path / "runs",
    ) as session:
        result = await session.arun(tmp_path / "windowed.yaml", notes=notes)
    assert (result.committed, len(result.failed)) == (5, 1)
    nice, seen = result.meter.steps["nice"], result.meter.steps["seen"]
    assert (nice.rows_in, nice.rows_out, nice.rows_failed) == (6, 5, 1)
    assert (seen.rows_in, seen.rows_out) == (6, 6)
    assert result.record is not None
    assert sorted(row["_m"] for row in read_rows(result.record, "answers", "nice")) == [
        0,
        1,
        2,
        3,
        4,
        5,
    ]
    assert sorted(row["_m"] for row in read_rows(result.record, "steps", "nice")) == [0, 1, 2, 4, 5]
