"""A row with the character NUL in a text is set aside, and the others are computed with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.errors import InputError

GRAPH = "graph: notes\nnodes:\n  Note: {properties: {text: string}}\n"
PLAN = """
plan: notes
graph: graph.yaml
inputs: {notes: {id: string, group_id: string, text: string, tags: list<string> null}, words: {word: string}}
optional: [words]
WINDOWS
steps:
  told: [{from: notes}, {add: {size: length(text)}}]
returns: [told]
writes: [{merge: {from: told, node: Note, key: id, create: {text}}}]
"""
WINDOWS = "windows: {input: notes, partition: group_id, key: id}"
NOTES: list[dict[str, Any]] = [
    {"id": "a", "group_id": "g", "text": "fine"},
    {"id": "b", "group_id": "g", "text": "cut\0here"},
    {"id": "c", "group_id": "g\0", "text": "fine"},
    {"id": "d", "group_id": "g", "text": "fine", "tags": ["x", "y\0"]},
    {"id": "e", "group_id": "g", "text": "fine"},
]


def session(folder: Path, windows: str) -> semgraph.Session:
    (folder / "graph.yaml").write_text(GRAPH)
    (folder / "notes.yaml").write_text(PLAN.replace("WINDOWS", windows))
    return semgraph.Session(store="memory", journal=False, folder=folder)


@pytest.mark.parametrize("windows", ["", WINDOWS], ids=["at once", "in windows"])
def test_a_row_with_a_nul_is_set_aside_and_the_others_are_written(
    tmp_path: Path, windows: str
) -> None:
    with session(tmp_path, windows) as opened:
        result = opened.run(tmp_path / "notes.yaml", notes=NOTES)
    assert result.tables["told"].column("id").to_pylist() == ["a", "e"]
    assert [(f.step, f.row["id"], f.error.split(":")[0]) for f in result.failed] == [
        ("notes", "b", "column text"),
        ("notes", "c", "column group_id"),
        ("notes", "d", "column tags"),
    ]
    assert (result.written, result.exit_code) == ({"Note": 2}, 3)
    assert result.record is not None
    lines = (result.record / "failed.jsonl").read_text().splitlines()
    assert [json.loads(line)["text"] for line in lines] == ["cut\0here", "fine", "fine"]


def test_a_row_that_belongs_to_no_window_is_refused(tmp_path: Path) -> None:
    with (
        session(tmp_path, WINDOWS) as opened,
        pytest.raises(InputError, match="input words, column word: the text holds"),
    ):
        opened.run(tmp_path / "notes.yaml", notes=NOTES, words=[{"word": "a\0"}])


def test_the_report_counts_rows_that_failed_outside_of_questions(tmp_path: Path) -> None:
    with session(tmp_path, WINDOWS) as opened:
        result = opened.run(tmp_path / "notes.yaml", notes=NOTES)
        page = opened.report(result, to="report.html").read_text()
    assert "3 rows failed" in page
