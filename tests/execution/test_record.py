"""The folder that a run leaves behind: parts, several questions of a step, and finding runs
again.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import semgraph
from semgraph.errors import PlanError
from semgraph.execution.record import (
    RunLineage,
    RunRecord,
    all_runs,
    find_run,
    new_run,
    read_rows,
    recorded_parts,
    recorded_steps,
)
from semgraph.execution.result import Progress
from semgraph.relational.batch import Batch


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
    assert [row["n"] for row in read_rows(tmp_path / "7f3a", "steps", "outer/inner")] == list(
        range(600)
    )
    assert read_rows(tmp_path / "7f3a", "steps", "outer") == []


def test_a_step_may_ask_several_questions(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "7f3a")
    record.rows("answers", "told", pa.table({"_m": [0], "keep": [True]}))
    record.rows("answers", "told", pa.table({"_m": [0], "product": ["kettle"]}))
    record.rows("answers", "told", pa.table({"_m": [1], "keep": [False]}))
    record.flush()
    found = read_rows(tmp_path / "7f3a", "answers", "told")
    assert sorted(map(json.dumps, found)) == sorted(
        map(
            json.dumps,
            [{"_m": 0, "keep": True}, {"_m": 1, "keep": False}, {"_m": 0, "product": "kettle"}],
        )
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


@pytest.mark.parametrize("window", [1, 3])
def test_the_rows_of_a_window_are_on_disk_before_it_is_reported_as_committed(
    tmp_path: Path, window: int
) -> None:
    (tmp_path / "graph.yaml").write_text(
        "graph: notes\nnodes:\n  Note: {properties: {text: string}}\n"
    )
    (tmp_path / "notes.yaml").write_text(f"""
plan: notes
graph: graph.yaml
inputs: {{notes: {{id: string, group_id: string, text: string}}}}
windows: {{input: notes, partition: group_id, key: id, size: {window}}}
steps:
  told: [{{from: notes}}, {{add: {{size: length(text)}}}}]
  seen: [{{from: told}}, {{match: {{pattern: "(n:Note {{uuid: id}})", how: left}}}}]
returns: [seen]
writes: [{{merge: {{from: told, node: Note, key: id, create: {{text}}}}}}]
""")
    notes = [{"id": f"n{i}", "group_id": "g", "text": "x" * i} for i in range(6)]
    on_disk: list[tuple[int, int, int]] = []

    def look(progress: Progress) -> None:
        if not progress.step and progress.done:
            (run,) = all_runs(tmp_path / "runs")
            seen = {row["id"] for row in read_rows(run.folder, "steps", "seen")}
            assert recorded_steps(run.folder, "steps") == ["seen", "told"]
            on_disk.append((progress.done, len(seen), len(read_rows(run.folder, "steps", "told"))))

    with semgraph.Session(
        store="memory", journal=False, runs=tmp_path / "runs", folder=tmp_path
    ) as session:
        result = session.run(tmp_path / "notes.yaml", notes=notes, progress=look)
    assert [(done, seen) for done, seen, _ in on_disk] == [(n, n) for n in range(window, 7, window)]
    assert all(told >= done for done, _, told in on_disk)
    assert result.record is not None
    assert (
        len(read_rows(result.record, "steps", "seen"))
        == len(read_rows(result.record, "steps", "told"))
        == 6
    )
    assert not (result.record / "pending.arrow").exists()


def test_pending_rows_that_were_cut_off_while_written_are_left_out(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "7f3a")
    for number in range(3):
        record.rows("steps", "told", pa.table({"_m": [number]}))
        record.keep()
    pending = record.folder / "pending.arrow"
    whole = pending.read_bytes()
    assert [row["_m"] for row in read_rows(record.folder, "steps", "told")] == [0, 1, 2]
    pending.write_bytes(whole[:-20])
    assert [row["_m"] for row in read_rows(record.folder, "steps", "told")] == [0, 1]
    pending.write_bytes(whole)
    record.flush()
    assert [row["_m"] for row in read_rows(record.folder, "steps", "told")] == [0, 1, 2]
    assert sorted(path.name for path in record.folder.rglob("*.*")) == ["00001.parquet"]


def test_lineage_is_kept_and_taken_back_with_the_rows(tmp_path: Path) -> None:
    record = RunRecord(tmp_path / "7f3a")
    lineage = RunLineage(record, {"notes": 2, "others": 3})
    assert (lineage.first, lineage.ids_of("others", [0, 2])) == ({"notes": 0, "others": 2}, [2, 4])
    assert lineage.ids(2) == range(5, 7)

    def made(*sources: tuple[int, ...]) -> None:
        rows = Batch.of_tuples([()] * len(sources), pa.schema([])).with_sources(sources)
        lineage.add(rows.with_ids(lineage.ids(len(sources))))

    def recorded() -> dict[int, list[int]]:
        rows = [r for table in recorded_parts(record.folder, "lineage") for r in table.to_pylist()]
        return {row["_o"]: row["_from"] for row in rows}

    made((0,), (1, 2))
    record.begin()
    made((7,))
    record.keep()
    assert recorded() == {7: [0], 8: [1, 2], 9: [7]}
    record.take_back()
    made((8,), ())
    record.end()
    assert recorded() == {7: [0], 8: [1, 2], 10: [8], 11: []}
    record.flush()
    assert recorded() == {7: [0], 8: [1, 2], 10: [8], 11: []}
    assert sorted(path.name for path in record.folder.rglob("*.*")) == ["00001.parquet"]


def test_a_result_that_a_step_before_it_begins_with_is_recorded_under_its_own_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "plan.yaml").write_text(
        "plan: shared\n"
        "inputs: {people: {id: int64}}\n"
        "steps:\n"
        "  some: [{from: people}, {add: {n: id + 1}}, {filter: n > 2}]\n"
        "  all: [{from: people}, {add: {n: id + 1}}]\n"
        "returns: [some, all]\n"
    )
    with semgraph.Session(runs=tmp_path / "runs") as session:
        result = session.run(tmp_path / "plan.yaml", people=[{"id": 1}, {"id": 2}])
    assert result.record is not None
    recorded = {step: read_rows(result.record, "steps", step) for step in ("some", "all")}
    assert {step: [row["n"] for row in rows] for step, rows in recorded.items()} == {
        "some": [3],
        "all": [2, 3],
    }
