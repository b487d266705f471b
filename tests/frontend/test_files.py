"""What `-i` takes: files by their ending, standard input, a text, and renames behind a colon."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

from semgraph.errors import InputError, PlanError
from semgraph.frontend.load import load_plan
from semgraph.frontend.row_files import BATCH, read_inputs
from semgraph.frontend.rows import set_aside
from semgraph.logical.plan import LogicalPlan

PLAN = """
plan: notes
inputs:
  notes: {id: string null, content: string, at: timestamp, n: int64 null, tags: list<string> null}
  asked: {id: string null, query: string}
  pairs: {left: string, right: string}
  counted: {text: string, n: int64}
steps:
  long: [{from: notes}, {filter: "n > 1"}]
returns: [long]
"""
ROWS = [
    {"content": "Ann moved to Rome.", "at": "2025-01-15T09:00:00Z", "n": 2, "tags": ["a", "b"]},
    {"content": "Rain, again.", "at": "2025-01-16", "n": None, "tags": None},
]


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LogicalPlan:
    (tmp_path / "notes.yaml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return load_plan("notes.yaml")


def rows(plan: LogicalPlan, option: str) -> list[dict[str, Any]]:
    (given,) = read_inputs([option], plan).values()
    assert given.rows.schema == plan.inputs[given.name].schema
    return given.rows.to_pylist()


def problem(plan: LogicalPlan, option: str) -> str:
    """What is wrong with an input, or with those of its rows that are set aside."""
    try:
        (given,) = read_inputs([option], plan).values()
    except PlanError as error:
        return str(error)
    bad = set_aside(given.rows)
    assert bad
    return "\n".join(error for error, _ in bad)


def test_json_lines_a_json_list_csv_and_parquet_hold_the_same_rows(plan: LogicalPlan) -> None:
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n\n" for row in ROWS))
    Path("a.json").write_text(json.dumps(ROWS))
    Path("a.csv").write_text(
        'content,at,n,tags\nAnn moved to Rome.,2025-01-15T09:00:00Z,2,"[""a"", ""b""]"\n"Rain, again.",2025-01-16,,\n'
    )
    Path("a.tsv").write_text(
        'content\tat\tn\ttags\nAnn moved to Rome.\t2025-01-15T09:00:00Z\t2\t"[""a"", ""b""]"\nRain, again.\t2025-01-16\t\t\n'
    )
    pq.write_table(pa.Table.from_pylist(ROWS), "a.parquet")
    found = [
        rows(plan, f"notes=a.{ending}") for ending in ("jsonl", "json", "csv", "tsv", "parquet")
    ]
    assert found[0][0]["content"] == "Ann moved to Rome."
    assert found[0][0]["tags"] == ["a", "b"]
    assert found[0][1]["n"] is None
    assert all(table == found[0] for table in found[1:])


def test_a_csv_file_of_windows_with_a_byte_order_mark_and_lines_inside_cells(
    plan: LogicalPlan,
) -> None:
    Path("a.csv").write_bytes('\ufeffcontent,at\r\n"two\nlines",2025-01-15\r\n'.encode())
    assert rows(plan, "notes=a.csv")[0]["content"] == "two\nlines"


def test_an_empty_cell_is_null_and_quotes_make_an_empty_text(plan: LogicalPlan) -> None:
    Path("a.csv").write_text('id,content,at\n,"",2025-01-15\n')
    assert rows(plan, "notes=a.csv")[0] | {"at": 0, "n": 0, "tags": 0} == {
        "id": None, "content": "", "at": 0, "n": 0, "tags": 0,
    }  # fmt: skip


def test_numbers_of_a_csv_file_stay_text_where_the_plan_says_so(plan: LogicalPlan) -> None:
    Path("a.csv").write_text("id,content,at\n007,42,2025-01-15\n")
    row = rows(plan, "notes=a.csv")[0]
    assert (row["id"], row["content"]) == ("007", "42")


def test_columns_are_renamed_behind_a_colon(plan: LogicalPlan) -> None:
    Path("chat.csv").write_text("ts,text\n2025-01-15,hello\n")
    Path("chat.jsonl").write_text('{"ts": "2025-01-15", "text": "hello"}\n')
    for file in ("chat.csv", "chat.jsonl"):
        row = rows(plan, f"notes={file}:at=ts,content=text")[0]
        assert (row["content"], str(row["at"])) == ("hello", "2025-01-15 00:00:00+00:00")


def test_a_rename_replaces_the_column_of_that_name(plan: LogicalPlan) -> None:
    Path("chat.csv").write_text("content,body,at\nshort,long,2025-01-15\n")
    assert rows(plan, "notes=chat.csv:content=body")[0]["content"] == "long"


def test_renames_that_cannot_be_read_are_refused(plan: LogicalPlan) -> None:
    Path("chat.csv").write_text("content,at\nhello,2025-01-15\n")
    assert 'chat.csv: cannot read the renames "content"' in problem(plan, "notes=chat.csv:content")


def test_a_json_file_of_several_objects_is_refused_with_the_line(plan: LogicalPlan) -> None:
    Path("chat.json").write_text('{"content": "hello"}\n{"content": "again"}\n')
    assert "chat.json:2: this is no JSON: extra data at column 1" in problem(
        plan, "notes=chat.json"
    )


@pytest.mark.parametrize("name", ["a:b.csv", "a:content=x.csv", "a=b.csv"])
def test_a_file_name_may_hold_a_colon_or_an_equals_sign(plan: LogicalPlan, name: str) -> None:
    Path(name).write_text("content,at\nhello,2025-01-15\n")
    assert rows(plan, f"notes={name}")[0]["content"] == "hello"
    assert rows(plan, f"notes={name}:id=content,content=content")[0]["id"] == "hello"


def test_a_rename_to_an_unknown_column_says_what_there_is(plan: LogicalPlan) -> None:
    Path("chat.csv").write_text("ts,text\n2025-01-15,hello\n")
    told = problem(plan, "notes=chat.csv:contnt=text,at=tz")
    assert 'input notes has no column "contnt"' in told
    assert 'Did you mean "content"?' in told
    assert 'the file has no column "tz". It has: ts, text' in told


def test_a_missing_column_is_told_with_the_rename_that_mends_it(plan: LogicalPlan) -> None:
    Path("chat.csv").write_text("id,ts,text\n1,2025-01-15,hello\n")
    told = problem(plan, "notes=chat.csv")
    assert 'input notes needs column "at" (timestamp); found: id, ts, text' in told
    assert "-i notes=chat.csv:content=" in told


def test_a_date_that_may_be_two_is_set_aside_with_its_row(plan: LogicalPlan) -> None:
    lines = ["2025-01-15"] * 17 + ["03/04/25"]
    Path("chat.csv").write_text("content,at\n" + "".join(f"hello,{at}\n" for at in lines))
    told = problem(plan, "notes=chat.csv")
    assert told.startswith("chat.csv: input notes, row 18, column at: ")
    assert '"03/04/25" is not ISO 8601: day or month first?' in told


def test_a_line_that_is_no_json_is_told_by_its_number(plan: LogicalPlan) -> None:
    Path("a.jsonl").write_text('{"content": "x", "at": "2025-01-15"}\n{"content": \n')
    assert problem(plan, "notes=a.jsonl").startswith("a.jsonl:2: this line is no JSON")
    Path("a.jsonl").write_text("[1]\n")
    assert problem(plan, "notes=a.jsonl").startswith("a.jsonl:1: this line is no JSON object")
    Path("a.json").write_text('{"content": "x"}')
    assert "this is no list of JSON objects" in problem(plan, "notes=a.json")


def test_a_ragged_row_of_a_csv_file_is_set_aside(plan: LogicalPlan) -> None:
    Path("a.csv").write_text("content,at\nhello,2025-01-15\nhello\n")
    assert "a.csv:3: this row has 1 cell, and the first line 2" in problem(plan, "notes=a.csv")


def test_files_that_are_none_of_these(plan: LogicalPlan) -> None:
    Path("a.xlsx").write_bytes(b"PK")
    assert "a.xlsx: spreadsheets are not supported" in problem(plan, "notes=a.xlsx")
    Path("a.parquet").write_bytes(b"no parquet at all")
    assert "this is no Parquet file" in problem(plan, "notes=a.parquet")
    pq.write_table(
        pa.table([pa.array([1])], schema=pa.schema([pa.field(b"\xff", pa.int64())])), "a.parquet"
    )
    assert "a.parquet: column 1 has a name that is not UTF-8" in problem(plan, "notes=a.parquet")
    Path("a.jsonl").write_bytes(b'{"content": "\xff"}')
    assert "byte 13 is not UTF-8" in problem(plan, "notes=a.jsonl")
    assert "there is no such file" in problem(plan, "notes=gone.csv")
    assert "there is no such file" in problem(plan, "notes=there/gone")
    Path("folder.csv").mkdir()
    assert "folder.csv: is a folder" in problem(plan, "notes=folder.csv")


def test_a_text_is_one_row(plan: LogicalPlan) -> None:
    assert rows(plan, "asked=Who leads Project Phoenix?") == [
        {"id": None, "query": "Who leads Project Phoenix?"}
    ]
    assert rows(plan, "asked=Phoenix")[0]["query"] == "Phoenix"
    assert rows(plan, "asked=is 1:a=b true?")[0]["query"] == "is 1:a=b true?"


def test_two_brackets_are_no_rows(plan: LogicalPlan) -> None:
    (given,) = read_inputs(["notes=[]"], plan).values()
    assert (given.rows.num_rows, given.source) == (0, "no rows")
    assert given.rows.schema == plan.inputs["notes"].schema


def test_standard_input_is_one_text(plan: LogicalPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BytesIO("Wer führt?\nUnd wann?\n".encode()))
    )
    assert rows(plan, "asked=-")[0]["query"] == "Wer führt?\nUnd wann?"


def piped(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_json_lines_on_standard_input_are_rows_if_they_are_called_so(
    plan: LogicalPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "".join(
        json.dumps(row, ensure_ascii=False) + "\n"
        for row in [*ROWS, {**ROWS[0], "content": "a\u2028b"}]
    )
    piped(monkeypatch, lines)
    (given,) = read_inputs(["notes=-.jsonl"], plan).values()
    assert given.rows.column("content").to_pylist() == [
        "Ann moved to Rome.",
        "Rain, again.",
        "a\u2028b",
    ]
    assert given.source == "standard input"
    piped(monkeypatch, '{"said": "Rain."}\n')
    assert rows(plan, "asked=-.jsonl:query=said") == [{"id": None, "query": "Rain."}]
    piped(monkeypatch, '{"query": "Rain."}\nand more\n')
    assert "standard input:2: this line is no JSON" in problem(plan, "asked=-.jsonl")


@pytest.mark.parametrize(
    "text",
    ['{"query": "Who leads?"}\n', '{"said": "Who leads?"}\n{"said": "Since when?"}\n'],
    ids=["its column", "lines"],
)
def test_json_lines_are_not_taken_for_a_text(
    plan: LogicalPlan, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    piped(monkeypatch, text)
    assert problem(plan, "asked=-") == (
        "standard input holds JSON objects, one a line, which would be read as one text. "
        "The text of asked is its column query. As rows: -i asked=-.jsonl"
    )


@pytest.mark.parametrize(
    "text", ['{"from": "Ann", "to": "Bob"}', "[1, 2]", '{"a": 1}\nand more', "12"]
)
def test_a_text_that_is_json_is_a_text(
    plan: LogicalPlan, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    piped(monkeypatch, text)
    assert rows(plan, "asked=-")[0]["query"] == text


def test_nothing_on_standard_input_is_an_error(
    plan: LogicalPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\n")))
    assert "there is no text" in problem(plan, "asked=-")


def test_a_text_that_could_be_any_of_several_columns_is_refused(plan: LogicalPlan) -> None:
    told = problem(plan, "pairs=a and b")
    assert "several text columns" in told
    assert "left, right" in told


def test_a_text_does_not_fill_other_columns_that_have_to_be_there(plan: LogicalPlan) -> None:
    assert 'needs column "n"' in problem(plan, "counted=hello world")


def test_a_text_was_said_when_it_is_read(plan: LogicalPlan) -> None:
    before = datetime.now(UTC)
    (row,) = rows(plan, "notes=hello world")
    assert row["content"] == "hello world"
    assert before <= row["at"] <= datetime.now(UTC)


def test_an_option_that_names_no_input(plan: LogicalPlan) -> None:
    assert 'Did you mean "notes"?' in problem(plan, "note=a.csv")
    assert "Write -i notes=FILE" in problem(plan, "a.csv")
    Path("a.csv").write_text("content,at\nhello,2025-01-15\n")
    with pytest.raises(PlanError, match="given twice"):
        read_inputs(["notes=a.csv", "notes=a.csv"], plan)


def test_rows_that_were_set_aside_can_be_given_again(plan: LogicalPlan) -> None:
    Path("failed.jsonl").write_text(json.dumps(ROWS[0] | {"_step": "long", "_error": "cut"}) + "\n")
    assert rows(plan, "notes=failed.jsonl")[0]["content"] == "Ann moved to Rome."


def test_wrong_rows_are_an_input_error_with_exit_code_2(plan: LogicalPlan) -> None:
    Path("a.csv").write_text("content\nhello\n")
    with pytest.raises(InputError) as caught:
        read_inputs(["notes=a.csv"], plan)
    assert caught.value.exit_code == 2


def test_a_pattern_names_several_files_in_the_order_of_their_names(plan: LogicalPlan) -> None:
    for name, text in (("b", "second"), ("a", "first"), ("c", "third")):
        Path(f"{name}.jsonl").write_text(json.dumps({"said": text}) + "\n")
    loaded = read_inputs(["asked=[ab].jsonl:query=said"], plan)["asked"]
    assert loaded.rows["query"].to_pylist() == ["first", "second"]  # type: ignore[index]
    assert loaded.source == "[ab].jsonl:query=said (2 files)"
    assert "none*.jsonl: no file has such a name" in problem(plan, "asked=none*.jsonl")


MANY = BATCH + 5
"""Rows of a file that is read in two batches."""


def many_rows() -> list[dict[str, Any]]:
    return [{"id": f"i{row}", "query": f"question {row}"} for row in range(MANY)]


def write_rows(rows: list[dict[str, Any]], ending: str) -> str:
    path = Path(f"many.{ending}")
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif ending == "csv":
        csv.write_csv(pa.Table.from_pylist(rows), path)
    elif ending == "json":
        path.write_text(json.dumps(rows))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"asked={path}"


@pytest.mark.parametrize("ending", ["jsonl", "parquet", "csv", "json"])
def test_a_file_of_many_rows_is_read_in_batches(plan: LogicalPlan, ending: str) -> None:
    given = many_rows()
    assert rows(plan, write_rows(given, ending)) == given
    given[-1]["query"] = None
    what = f"many.{ending}: input asked, row {MANY}, column query: is NULL"
    assert what in problem(plan, write_rows(given, ending))


def test_columns_of_later_batches_can_be_renamed(plan: LogicalPlan) -> None:
    given = [{"query": row["query"]} for row in many_rows()]
    given[-1]["name"] = "last"
    named = rows(plan, write_rows(given, "jsonl") + ":id=name")
    assert [row["id"] for row in named[-2:]] == [None, "last"]
    assert 'the file has no column "nam"' in problem(plan, "asked=many.jsonl:id=nam")


def test_a_broken_last_line_is_set_aside(plan: LogicalPlan) -> None:
    option = write_rows(many_rows(), "jsonl")
    with Path("many.jsonl").open("a") as file:
        file.write('{"query": ')
    assert f"many.jsonl:{MANY + 1}: this line is no JSON" in problem(plan, option)


def test_a_column_that_later_rows_lack_is_told_with_the_first_of_them(plan: LogicalPlan) -> None:
    given = many_rows()[:BATCH] + [{"id": "late"}] * 5
    what = (
        f'many.jsonl: input asked, from row {BATCH + 1}: needs column "query" (string); found: id'
    )
    assert what in problem(plan, write_rows(given, "jsonl"))


def test_a_parquet_file_without_rows_needs_its_columns_too(plan: LogicalPlan) -> None:
    pq.write_table(pa.schema([("query", pa.string())]).empty_table(), "empty.parquet")
    assert rows(plan, "asked=empty.parquet") == []
    assert 'needs column "content"' in problem(plan, "notes=empty.parquet")


KEYED = """
plan: told
inputs: {told: {uuid: string, group_id: string, text: string}}
windows: {input: told, partition: group_id, key: uuid}
steps: {kept: [{from: told}]}
returns: [kept]
"""


def test_a_key_names_one_row_of_all_files(plan: LogicalPlan) -> None:
    Path("told.yaml").write_text(KEYED)
    keyed = load_plan("told.yaml")
    given = [{"uuid": f"u{row}", "group_id": "g", "text": "t"} for row in range(MANY)]
    given[-1]["uuid"] = "u7"
    write_rows(given, "parquet")
    expected = f'input told, row {MANY}, column uuid: "u7" names row 8 already'
    assert expected in problem(keyed, "told=many.parquet")
    given[-1]["uuid"] = given[-2]["uuid"]  # of one batch
    write_rows(given, "jsonl")
    expected = f'row {MANY}, column uuid: "u{MANY - 2}" names row {MANY - 1} already'
    assert expected in problem(keyed, "told=many.jsonl")
    for name in ("a", "b"):
        Path(f"{name}.jsonl").write_text(json.dumps(given[0]))
    found = problem(keyed, "told=[ab].jsonl")
    assert '[ab].jsonl (2 files): input told, row 2, column uuid: "u0" names row 1 already' in found
