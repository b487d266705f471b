"""Rows that are wrong: told with file, row and column, and set aside; where no other row is left, the
input is refused, exit code 2: nothing is asked, nothing is made. No rows: nothing to do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import semgraph
from semgraph.errors import InputError
from tests.bad_input.conftest import Serving, episode, held, quiet, told
from tests.cli.conftest import Project

GOOD = episode("Ann(user): I live in Rome.")
CASES: dict[str, tuple[dict[str, Any], str]] = {
    "bad date": ({"valid_at": "2025-02-30"}, 'column valid_at: "2025-02-30"'),
    "date that may be two": ({"valid_at": "03/04/25"}, "day or month first?"),
    "date in words": ({"valid_at": "yesterday"}, 'column valid_at: "yesterday"'),
    "list for text": ({"content": ["a"]}, "column content"),
    "lone surrogate": ({"content": "I live \ud83d here."}, "column content: the text holds half a character (U+D83D), at 7"),
    "lone surrogate in the group": ({"group_id": "\udc00"}, "column group_id: the text holds half a character"),
    "duplicate uuid": ({"uuid": "u1"}, 'column uuid: "u1" names row 1 already'),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("untouched")
def test_the_row_is_named(project: Project, case: str) -> None:
    change, said = CASES[case]
    first = GOOD | ({"uuid": "u1"} if "uuid" in change else {})
    doubled = "uuid" in change
    rows = [first, GOOD | change] if doubled else [GOOD | change]
    err = quiet(project(*told(project, rows)), 2)
    assert err.startswith(f"episodes.jsonl: input episodes, row {len(rows)}, "), err
    assert said in err
    assert len(err.splitlines()) == 1


def test_a_bad_date_in_a_csv_file_costs_its_row_alone(project: Project) -> None:
    lines = [f"g,2025-01-{day:02},I live in Rome." for day in range(1, 3)]
    project.write(
        "chat.csv",
        "\n".join(["group_id,valid_at,content", *lines, "g,2025-01-32,I work at Luma.", ""]),
    )
    err = quiet(project("run", "add_episode", "-i", "episodes=chat.csv"), 3)
    assert 'chat.csv: input episodes, row 3, column valid_at: "2025-01-32"' in err, err
    assert len(held(project, "Episodic")) == 2
    (record,) = (project.folder / ".semgraph" / "runs").iterdir()
    (line,) = map(json.loads, (record / "failed.jsonl").read_text().splitlines())
    assert (line["valid_at"], line["content"]) == ("2025-01-32", "I work at Luma.")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("group_id,valid_at,content,content\ng,2025-01-15,a,b\n", "twice"),
        ("", "chat.csv"),
        ("group_id,valid_at,content\ng,2025-01-15\n", "row"),
        (b"group_id,valid_at,content\ng,2025-01-15,caf\xe9\n", "UTF-8"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "It holds binary data: name a text file"),
    ],
    ids=["column twice", "no header", "ragged", "Latin-1", "binary"],
)  # fmt: skip
@pytest.mark.usefixtures("untouched")
def test_malformed_csv_files_are_rejected(
    project: Project, content: str | bytes, said: str
) -> None:
    (project.folder / "chat.csv").write_bytes(
        content.encode() if isinstance(content, str) else content
    )
    err = quiet(project("run", "add_episode", "-i", "episodes=chat.csv"), 2)
    assert err.startswith("chat.csv:"), err
    assert said in err


def test_a_quote_that_nothing_closes_takes_no_other_rows_with_it(project: Project) -> None:
    project.write(
        "chat.csv",
        'group_id,valid_at,content\ng,2025-01-15,"I live\nhere."\ng,2025-01-16,"I work\ng,2025-01-17,Fine.\n',
    )
    err = quiet(project("run", "add_episode", "-i", "episodes=chat.csv"), 3)
    assert "chat.csv:4: a double quote is opened in this row and never closed. Close it" in err, err
    assert len(held(project, "Episodic")) == 2


def test_a_lone_quote_inside_a_cell_is_a_letter(project: Project) -> None:
    project.write(
        "plan.yaml", "plan: p\ninputs: {t: {text: string}}\nsteps: {a: [{from: t}]}\nreturns: [a]\n"
    )
    project.write("inches.csv", 'text\na pipe of 5" or so\n')
    assert 'a pipe of 5" or so' in project("run", "plan.yaml", "-i", "t=inches.csv").out


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("chat.csv", "group_id;valid_at;content\ng;2025-01-15;I live\n", "between semicolons, and those of a .csv between commas"),
        ("chat.csv", "group_id\tvalid_at\tcontent\n", "between tabs, and those of a .csv between commas"),
        ("chat.tsv", "group_id,valid_at,content\n", "between commas, and those of a .tsv between tabs"),
    ],
    ids=["semicolons", "tabs", "commas in a .tsv"],
)  # fmt: skip
@pytest.mark.usefixtures("untouched")
def test_cells_between_other_separators_are_told_as_such(
    project: Project, name: str, content: str, said: str
) -> None:
    project.write(name, content)
    err = quiet(project("run", "add_episode", "-i", f"episodes={name}"), 2)
    assert err.startswith(f"{name}: its cells stand "), err
    assert said in err
    assert "Save it with commas as .csv, or with tabs as .tsv" in err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"valid_at": None}, "an episode needs valid_at, its time"),
        ({"content": None, "uuid": "u9"}, "no episode u9 is stored in group"),
        ({"group_id": "a/b"}, 'invalid group_id "a/b": use letters, digits, "-" and "_"'),
    ],
    ids=["no date", "no text", "odd group"],
)
def test_a_row_that_cannot_be_an_episode_is_set_aside(
    project: Project, change: dict[str, Any], said: str
) -> None:
    ended = project(*told(project, [GOOD, GOOD | change]))
    assert ended.code == 3
    assert said in ended.out + ended.err


def test_other_columns_than_the_input_needs(project: Project) -> None:
    project.write("questions.csv", "group_id,text\ng,Where does Ann live?\n")
    err = quiet(project("run", "search", "-i", "queries=questions.csv"), 2)
    assert (
        'questions.csv: input queries needs column "query" (string); found: group_id, text' in err
    )


@pytest.mark.usefixtures("untouched")
def test_a_missing_file_is_reported(project: Project) -> None:
    assert "gone.csv" in quiet(project("run", "add_episode", "-i", "episodes=gone.csv"), 2)
    Path(project.folder / "folder.csv").mkdir()
    assert "folder.csv" in quiet(project("run", "add_episode", "-i", "episodes=folder.csv"), 2)
    project.write("x.parquet", "no parquet at all")
    assert "x.parquet" in quiet(project("run", "add_episode", "-i", "episodes=x.parquet"), 2)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("none.csv", "group_id,valid_at,content\n"),
        ("none.jsonl", ""),
        ("none.jsonl", "\n\n"),
        ("none.json", "[]"),
    ],
)
def test_an_input_without_rows_does_nothing(
    project: Project, serving: Serving, name: str, content: str
) -> None:
    project.write(name, content)
    ended = project("run", "add_episode", "-i", f"episodes={name}")
    quiet(ended, 0)
    assert ended.out.startswith("no rows of episodes: nothing to do"), ended.out
    assert serving.requests == 0
    assert held(project, "Episodic") == []


def test_a_session_accepts_an_input_without_rows(project: Project, serving: Serving) -> None:
    empty: list[Any] = [
        [],
        pd.DataFrame(),
        pd.DataFrame({"content": [], "valid_at": []}),
        pa.table({}),
    ]
    with semgraph.Session(folder=project.folder, store="memory", runs="", journal=False) as session:
        for rows in empty:
            result = session.run("add_episode", episodes=rows)
            assert result.exit_code == 0
            assert [table.num_rows for table in result.tables.values()] == [0, 0, 0, 0]
    assert serving.requests == 0


def test_no_questions_find_nothing(project: Project, serving: Serving) -> None:
    project.write("none.jsonl", "")
    ended = project("run", "search", "--store", "memory", "-i", "queries=none.jsonl")
    quiet(ended, 0)
    assert ended.out.startswith("edges: 0 rows")
    quiet(project("run", "search", "--store", "memory", "-i", "queries= "), 0)
    assert serving.requests == 0


def test_a_session_says_the_same(project: Project, serving: Serving) -> None:
    with semgraph.Session(folder=project.folder, store="memory", runs="", journal=False) as session:
        with pytest.raises(InputError, match=r"input episodes, row 1, column valid_at: \"soon\""):
            session.run("add_episode", episodes=[GOOD | {"valid_at": "soon"}])
        frame = pd.DataFrame([GOOD | {"content": "half \ud800"}], dtype=object)
        with pytest.raises(
            InputError, match=r"row 1, column content: the text holds half a character"
        ):
            session.run("add_episode", episodes=frame)
    assert serving.requests == 0


def test_rows_that_say_the_same_at_the_same_time_are_rows_of_their_own(
    project: Project, serving: Serving
) -> None:
    quiet(project(*told(project, [GOOD, GOOD])), 0)
    assert len(held(project, "Episodic")) == 2
    assert len(held(project, "RELATES_TO")) == 1


def refused(project: Project, name: str, content: str | bytes) -> str:
    """What a run says about an input file with this content."""
    (project.folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return quiet(project("run", "add_episode", "-i", f"episodes={name}"), 2).strip()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "", "a.csv: the file is empty. Its first line names the columns"),
        ("a.xlsx", b"PK\x03\x04", "a.xlsx: spreadsheets are not supported. Save the sheet as CSV"),
        ("a.csv.gz", b"\x1f\x8b", "a.csv.gz: packed files are not supported. Unpack it"),
        ("a.csv", b"content\ncaf\xe9\n", "a.csv:2: byte 11 is not UTF-8. If it is Latin-1: iconv -f latin1 -t utf-8 a.csv"),
        ("a.csv", b"content\n\x93hi\x94\n", "If it is Windows-1252: iconv -f windows-1252 -t utf-8 a.csv"),
        ("a.jsonl", '{"a": "x"}\n'.encode("utf-16"), "If it is UTF-16: iconv -f utf-16 -t utf-8 a.jsonl"),
        ("a.csv", "content,at\na,b,c\n", "a.csv:2: this row has 3 cells, and the first line 2"),
        ("a.jsonl", '[\n {"content": "x"}\n]\n', "a.jsonl:1: this line is no JSON: expecting value at column 1. One object on each line; a file with a list of objects ends in .json"),
        ("a.jsonl", '[{"content": "x"}]\n', "a.jsonl:1: this line is no JSON object, but a list of 1. One object on each line"),
        ("a.jsonl", '{"content": "x"},\n', "extra data at column 17. Delete the comma behind the last value"),
        ("a.json", '[{"content": "x",}]', "Delete the comma behind the last value"),
        ("a.json", '[{"content": "x"},]', "Delete the comma behind the last value"),
        ("a.jsonl", "{'content': 'x'}\n", "at column 2. Texts and names in JSON have double quotes"),
        ("a.json", '{"rows": []}', "a.json: this is no list of JSON objects, but an object with rows. Write ["),
        ("a.json", "[3]", "a.json: item 1 of the list is no JSON object, but 3"),
        ("a.csv", "valid_at\n24.11.2026\n", '"24.11.2026" is not ISO 8601: day or month first? Write year-month-day: 2025-01-15'),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("untouched")
def test_a_file_that_cannot_be_read_says_what_to_do(
    project: Project, name: str, content: str | bytes, said: str
) -> None:
    message = refused(project, name, content)
    assert said in message
    assert message.startswith(name)
    assert len(message.splitlines()) == 1


@pytest.mark.usefixtures("untouched")
def test_a_folder_of_files_is_named_with_a_pattern(project: Project) -> None:
    (project.folder / "chats").mkdir()
    err = quiet(project("run", "add_episode", "-i", "episodes=chats"), 2)
    assert err == "chats: is a folder. Name files in it: -i episodes='chats/*.jsonl'\n"


@pytest.mark.usefixtures("untouched")
def test_a_file_that_is_saved_by_an_editor_of_windows_is_read(project: Project) -> None:
    row = '{"group_id":"g","valid_at":"2025-01-15","content":"Fine."}'
    (project.folder / "a.jsonl").write_bytes(b"\xef\xbb\xbf" + row.encode() + b"\r\n")
    err = project("run", "add_episode", "-i", "episodes=a.jsonl", "--set", "window=x").err
    assert "a.jsonl" not in err


@pytest.mark.parametrize("number", ["1.234,5", "1,234.5", "1 234"])
@pytest.mark.usefixtures("untouched")
def test_a_number_of_another_country_is_refused_with_the_form_that_is_read(
    project: Project, number: str
) -> None:
    project.write(
        "n.yaml", "plan: n\ninputs: {rows: {n: double}}\nsteps: {a: [{from: rows}]}\nreturns: [a]\n"
    )
    project.write("n.csv", f'n\n"{number}"\n')
    err = quiet(project("run", "n.yaml", "-i", "rows=n.csv"), 2)
    assert err.startswith(f'n.csv: input rows, row 1, column n: "{number}" is not a number'), err
    assert err.endswith("Write it with digits and at most one point: 1234.5\n")


PLAN = """
plan: p
inputs: {notes: {id: string, n: double null}}
steps: {kept: [{from: notes}]}
returns: [kept]
"""


def test_the_command_line_sets_the_row_aside(project: Project) -> None:
    project.write("p.yaml", PLAN)
    project.write("a.jsonl", '{"id": "a"}\n' + '{"id": "b", "n": "x"}\n{"id": "\\ud83d"}\n')
    ended = project("run", "p.yaml", "-i", "notes=a.jsonl", "--store", "memory", "--format", "json")
    assert ended.code == 3
    told = json.loads(ended.out)
    assert [row["id"] for row in told["tables"]["kept"]] == ["a"]
    assert [each["row"]["id"] for each in told["failed"]] == ["b", "\ud83d"]
    assert 'row 2, column n: "x" is not a number' in ended.err
