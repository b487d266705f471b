"""The folder that a run leaves behind: parts, several questions of a step, and finding runs again."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from semgraph.errors import PlanError
from semgraph.execution.record import RunRecord, new_run, read_rows
from semgraph.execution.runs import all_runs, find_run


def kept(runs: Path, name: str, started: str, **facts: object) -> RunRecord:
    record = RunRecord(runs / name)
    record.describe(started=started, **facts)
    return record


def test_rows_are_read_back_in_the_order_they_came(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "7f3a")
    for i in range(600):
        record.rows("steps", "outer/inner", pa.table({"n": [i]}))
    record.flush()
    assert len(list((tmp_path / "7f3a" / "steps" / "outer" / "inner").iterdir())) == 3
    assert [row["n"] for row in read_rows(tmp_path / "7f3a", "steps", "outer/inner")] == list(range(600))
    assert read_rows(tmp_path / "7f3a", "steps", "outer") == []


def test_a_step_may_ask_several_questions(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "7f3a")
    record.rows("answers", "told", pa.table({"_m": [0], "keep": [True]}))
    record.rows("answers", "told", pa.table({"_m": [0], "product": ["kettle"]}))
    record.rows("answers", "told", pa.table({"_m": [1], "keep": [False]}))
    record.flush()
    found = read_rows(tmp_path / "7f3a", "answers", "told")
    assert sorted(map(json.dumps, found)) == sorted(
        map(json.dumps, [{"_m": 0, "keep": True}, {"_m": 1, "keep": False}, {"_m": 0, "product": "kettle"}])
    )


def test_runs_are_found_by_the_beginning_of_their_names_or_as_the_last(tmp_path: Path) -> None:
    kept(tmp_path, "7f3a", "2026-01-02T00:00:00+00:00")
    kept(tmp_path, "7f4b", "2026-01-03T00:00:00+00:00")
    kept(tmp_path, "7f", "2026-01-01T00:00:00+00:00")
    assert [run.name for run in all_runs(tmp_path)] == ["7f4b", "7f3a", "7f"]
    assert find_run("last", tmp_path).name == "7f4b"
    assert find_run("7f3", tmp_path).name == "7f3a"
    assert find_run("7f", tmp_path).name == "7f"
    with pytest.raises(PlanError, match="begins several runs"):
        find_run("7", tmp_path)
    with pytest.raises(PlanError, match="there is no run"):
        find_run("", tmp_path)


def test_a_record_that_was_cut_short_is_no_error(tmp_path: Path) -> None:
    record = kept(tmp_path, "7f3a", "2026-01-02T00:00:00+00:00")
    (record.folder / "run.json").write_text("{")
    (run,) = all_runs(tmp_path)
    assert (run.facts, run.metrics, run.started) == ({}, {}, "")


def test_a_removed_record_is_gone(tmp_path: Path) -> None:
    kept(tmp_path, "7f3a", "2026-01-02T00:00:00+00:00")
    find_run("7f3a", tmp_path).remove()
    assert all_runs(tmp_path) == []


def test_names_of_runs_are_new(tmp_path: Path) -> None:
    names = {new_run(tmp_path) for _ in range(50)}
    assert all(len(name) >= 4 for name in names)
    for name in names:
        (tmp_path / name).mkdir()
    assert new_run(tmp_path) not in names
