"""Rows that Python gives: a path is a file, a text is a row, and a text is never a path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import semgraph
from semgraph.errors import InputError, RowError

ONE = "inputs: {tickets: {body: string}}"
TWO = "inputs: {tickets: {id: string, body: string}}"
WINDOWED = "inputs: {tickets: {id: string null, at: timestamp null, body: string, group_id: string null}}\nwindows: {input: tickets, order: [at], key: id, key_of: [body]}"
STEPS = "steps: {read: [{from: tickets}, {add: {n: length(body)}}]}\nreturns: [read]\n"
ROWS = [{"id": "a", "body": "It leaks"}, {"id": "b", "body": "Thanks"}]


def read(folder: Path, head: str, tickets: Any) -> list[dict[str, Any]]:
    (folder / "plan.yaml").write_text(f"plan: read\n{head}\n{STEPS}")
    with semgraph.Session(store="memory", folder=folder, runs="") as session:
        return session.run(folder / "plan.yaml", tickets=tickets).rows()


def bodies(rows: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(row["body"], row["n"]) for row in rows]


@pytest.mark.parametrize("ending", ["csv", "tsv", "json", "jsonl", "ndjson", "parquet"])
def test_a_path_is_read_as_the_command_line_reads_it(tmp_path: Path, ending: str) -> None:
    between = {"csv": ",", "tsv": "\t"}.get(ending, "")
    lines = [between.join(row.values()) for row in [{"id": "id", "body": "body"}, *ROWS]]
    objects = map(json.dumps, ROWS)
    text = {"json": json.dumps(ROWS)}.get(ending, "\n".join(lines if between else objects))
    file = tmp_path / f"rows.{ending}"
    file.write_text(text)
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), file)
    assert bodies(read(tmp_path, TWO, file)) == [("It leaks", 8), ("Thanks", 6)]


def test_a_json_file_may_have_several_inputs_by_name(tmp_path: Path) -> None:
    file = tmp_path / "inputs.json"
    file.write_text(json.dumps({"tickets": ROWS, "others": []}))
    assert bodies(read(tmp_path, TWO, file)) == [("It leaks", 8), ("Thanks", 6)]


def test_a_row_of_a_file_that_cannot_be_read_is_set_aside_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text('{"id": "a", "body": "It leaks"}\nnonsense\n')
    with semgraph.Session(store="memory", folder=tmp_path, runs="") as session:
        (tmp_path / "plan.yaml").write_text(f"plan: read\n{TWO}\n{STEPS}")
        result = session.run(tmp_path / "plan.yaml", tickets=file)
    assert len(result.rows()) == 1
    assert f"{file}:2: this line is no JSON" in result.failed[0].error


def test_a_text_is_a_row_and_texts_are_rows(tmp_path: Path) -> None:
    assert bodies(read(tmp_path, ONE, "It leaks")) == [("It leaks", 8)]
    assert bodies(read(tmp_path, ONE, ["It leaks", "Thanks"])) == [("It leaks", 8), ("Thanks", 6)]
    assert bodies(read(tmp_path, ONE, [])) == []


def test_a_text_of_a_windowed_input_has_the_time_of_reading(tmp_path: Path) -> None:
    (row,) = read(tmp_path, WINDOWED, "It leaks")
    assert row["body"] == "It leaks"
    assert row["at"] is not None


def test_a_text_is_never_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("body\nIt leaks\n")
    assert bodies(read(tmp_path, ONE, "rows.csv")) == [("rows.csv", 8)]
    with pytest.raises(InputError) as caught:
        read(tmp_path, TWO, "rows.csv")
    assert str(caught.value) == (
        "input tickets has several text columns, so a bare text may be any. Columns that must be there: "
        "id, body. A file: tickets=Path('rows.csv'); rows: tickets=[{...}]"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("none.csv", "none.csv: there is no such file"),
        ("rows.xlsx", "spreadsheets are not supported"),
        (".", ": is a folder"),
    ],
)
def test_a_path_that_cannot_be_read_is_named(tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "rows.xlsx").write_text("x")
    with pytest.raises(InputError, match=said):
        read(tmp_path, TWO, tmp_path / name)


def test_a_table_takes_a_path_and_no_text_as_a_path(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("body\nIt leaks\n")
    assert semgraph.table(tmp_path / "rows.csv").columns == ["body"]
    with pytest.raises(InputError, match=r"rows are no text. The rows of a file: Path\("):
        semgraph.table(str(tmp_path / "rows.csv"))


def test_texts_among_rows_are_refused(tmp_path: Path) -> None:
    with pytest.raises((InputError, RowError), match="row 2 is str, not a mapping"):
        read(tmp_path, ONE, [{"body": "It leaks"}, "Thanks"])
