"""Rows that are wrong: told with file, row and column, exit code 2; nothing is asked, nothing is
made. No rows: nothing to do.
"""

from __future__ import annotations

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
    err = quiet(project(*told(project, [first, episode("Fine.", 1), GOOD | change])), 2)
    assert err.startswith("episodes.jsonl: input episodes, row 3, "), err
    assert said in err
    assert len(err.splitlines()) == 1


@pytest.mark.usefixtures("untouched")
def test_a_bad_date_in_a_csv_file_is_reported_with_its_row_and_column(project: Project) -> None:
    lines = [f"g,2025-01-{day:02},I live in Rome." for day in range(1, 18)]
    project.write(
        "chat.csv",
        "\n".join(["group_id,valid_at,content", *lines, "g,2025-01-32,I work at Luma.", ""]),
    )
    err = quiet(project("run", "add_episode", "-i", "episodes=chat.csv"), 2)
    assert err.startswith('chat.csv: input episodes, row 18, column valid_at: "2025-01-32"'), err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("group_id,valid_at,content,content\ng,2025-01-15,a,b\n", "twice"),
        ("", "chat.csv"),
        ("group_id,valid_at,content\ng,2025-01-15\n", "row"),
        (b"group_id,valid_at,content\ng,2025-01-15,caf\xe9\n", "UTF-8"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "chat.csv"),
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
    assert err.startswith("chat.csv: "), err
    assert said in err


@pytest.mark.usefixtures("untouched")
def test_a_quote_that_nothing_closes_takes_no_other_rows_with_it(project: Project) -> None:
    project.write(
        "chat.csv",
        'group_id,valid_at,content\ng,2025-01-15,"I live\nhere."\ng,2025-01-16,"I work\ng,2025-01-17,Fine.\n',
    )
    err = quiet(project("run", "add_episode", "-i", "episodes=chat.csv"), 2)
    assert err.startswith(
        "chat.csv:4: a double quote is opened in this row and never closed. Close it"
    ), err


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
        with pytest.raises(InputError, match=r"input episodes, row 2, column valid_at: \"soon\""):
            session.run("add_episode", episodes=[GOOD, GOOD | {"valid_at": "soon"}])
        frame = pd.DataFrame([GOOD, GOOD | {"content": "half \ud800"}], dtype=object)
        with pytest.raises(
            InputError, match=r"row 2, column content: the text holds half a character"
        ):
            session.run("add_episode", episodes=frame)
    assert serving.requests == 0


def test_rows_that_say_the_same_at_the_same_time_are_rows_of_their_own(
    project: Project, serving: Serving
) -> None:
    quiet(project(*told(project, [GOOD, GOOD])), 0)
    assert len(held(project, "Episodic")) == 2
    assert len(held(project, "RELATES_TO")) == 1
