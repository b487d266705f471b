"""A row that cannot be read is set aside with its place and the reason; the others are computed with.
A run in which every row failed raises.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import semgraph as sg
from semgraph.errors import InputError, RowError
from semgraph.frontend.inputs import read_inputs
from tests.llm.server import Answer, ModelServer
from tests.served import served

PLAN = """
plan: p
inputs: {notes: {id: string, n: double null, at: timestamp null, j: json null}}
steps: {kept: [{from: notes}]}
returns: [kept]
"""
GOOD = '{"id": "a"}\n'
CSV = "id,n,at\na,1,\n"


@pytest.fixture
def session(tmp_path: Path) -> sg.Session:
    (tmp_path / "p.yaml").write_text(PLAN)
    return sg.Session(store="memory", llm="openai:x@http://localhost:1", folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.jsonl", GOOD + '{"id": "b"\n{"id": "c"}\n', "a.jsonl:2: this line is no JSON"),
        ("a.jsonl", GOOD + '[1]\n{"id": "c"}\n', "a.jsonl:2: this line is no JSON object, but a list of 1"),
        ("a.jsonl", GOOD + '{"id": "\\ud83d"}\n{"id": "c"}\n', "row 2, column id: the text holds half a character"),
        ("a.jsonl", (GOOD + '{"id": "caf\xe9"}\n{"id": "c"}\n').encode("latin-1"), "a.jsonl:2: byte 11 is not UTF-8. If it is Latin-1"),
        ("a.jsonl", GOOD + '{"id": "b", "n": NaN}\n{"id": "c"}\n', "row 2, column n: nan is not a number"),
        ("a.jsonl", GOOD + f'{{"id": "b", "n": {"9" * 400}}}\n{{"id": "c"}}\n', "row 2, column n: 9"),
        ("a.jsonl", GOOD + f'{{"id": "b", "n": {"9" * 5000}}}\n{{"id": "c"}}\n', "a.jsonl:2: this line is no JSON"),
        ("a.jsonl", GOOD + '{"n": 1}\n{"id": "c"}\n', "row 2, column id: is NULL"),
        ("a.jsonl", GOOD + '{"id": "b", "at": "9999-12-31T23:59:59-10:00"}\n{"id": "c"}\n', "row 2, column at: "),
        ("a.jsonl", "\ufeff" + GOOD.replace("\n", "\r\n") + '{"id": 1.5}\r\n{"id": "c"}\r\n', "row 2, column id: 1.5 is not text"),
        ("a.json", '[{"id": "a"}, 3, {"id": "c"}]', "a.json: item 2 of the list is no JSON object, but 3"),
        ("a.csv", CSV + "b,2,3,4\nc,,\n", "a.csv: row 3 has 4 cells, and the first line 3"),
        ("a.csv", CSV + '"b,2,\nc,,\n', "a.csv:3: a double quote is opened in this row and never closed"),
        ("a.csv", (CSV + "caf\xe9,2,\nc,,\n").encode("latin-1"), "a.csv:3: byte 16 is not UTF-8. If it is Latin-1"),
        ("a.csv", (CSV + "caf\xe9,2\nc,,\n").encode("latin-1"), "a.csv: row 3 has 2 cells"),
        ("a.csv", "\ufeff" + CSV.replace("\n", "\r\n") + "b,x,\r\nc,,\r\n", 'row 2, column n: "x" is not a number'),
    ],
)  # fmt: skip
def test_one_row_of_a_file_is_set_aside(
    session: sg.Session, tmp_path: Path, name: str, content: str | bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with session:
        (given,) = read_inputs([f"notes={path}"], session.prepare("p")).values()
        result = session.run("p", notes=given.rows)
    assert result.to_arrow().column("id").to_pylist() == ["a", "c"]
    (failure,) = result.failed
    assert said in failure.error
    assert result.exit_code == 3
    assert result.record is not None
    line = (result.record / "failed.jsonl").read_bytes().decode()  # UTF-8, whatever the row holds
    assert json.loads(line)["_step"] == "notes"
    assert any(note.startswith("input notes: 1 row set aside, first: ") for note in result.notes)


def test_a_quote_that_is_open_before_many_rows_costs_its_row_alone(
    session: sg.Session, tmp_path: Path
) -> None:
    path = tmp_path / "a.csv"
    path.write_text('id\n"open\n' + "x\n" * 100_000 + "y\n")
    with session:
        result = session.run("p", notes=sg.read_csv(path))
    assert result.to_arrow().num_rows == 100_001
    assert "a.csv:2: a double quote is opened in this row" in result.failed[0].error


def test_parquet_with_a_text_that_is_no_utf8_costs_that_row(
    session: sg.Session, tmp_path: Path
) -> None:
    ids = pa.array([b"a", b"caf\xe9", b"c"]).view(pa.string())
    pq.write_table(pa.table({"id": ids}), tmp_path / "a.parquet")
    with session:
        for rows in (sg.read_parquet(tmp_path / "a.parquet"), pa.table({"id": ids})):
            result = session.run("p", notes=rows)
            assert result.to_arrow().column("id").to_pylist() == ["a", "c"]
            assert "row 2, column id: b'caf\\xe9' is not UTF-8" in result.failed[0].error


def test_a_data_frame_with_half_a_character_costs_that_row(session: sg.Session) -> None:
    frame = pd.DataFrame({"id": ["a", "x\ud83d", "c"], "n": [1, 2, 3]}, dtype=object)
    with session:
        for rows in (frame, sg.table(frame)):
            result = session.run("p", notes=rows)
            assert result.to_arrow().column("id").to_pylist() == ["a", "c"]
            assert "row 2, column id" in result.failed[0].error


def test_a_row_of_several_megabytes_is_read(session: sg.Session, tmp_path: Path) -> None:
    long = "x" * 5_000_000
    (tmp_path / "a.csv").write_text(f'id\na\n"{long}"\nc\n')
    with session:
        assert session.run("p", notes=sg.read_csv(tmp_path / "a.csv")).to_arrow().num_rows == 3


def test_columns_of_mixed_types_are_read_as_json_where_that_is_declared(
    session: sg.Session, tmp_path: Path
) -> None:
    values = [5, "5", "five", ["a"], {"b": None}, True, None]
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"id": str(i), "j": v} for i, v in enumerate(values)]))
    with session:
        result = session.run("p", notes=sg.read_json(path, types={"j": "json"}))
    found = result.to_arrow().column("j").to_pylist()
    assert [None if text is None else json.loads(text) for text in found] == values
    with pytest.raises(InputError) as caught:
        sg.read_json(path)
    assert str(caught.value) == (
        'input a, column "j": int in row 1 and a text in row 2 and a list in row 4 and an object in '
        'row 5 and true or false in row 6. types={"j": "json"} reads it as JSON. Give each column '
        "values of one type"
    )


def test_rows_that_no_run_can_be_without_are_refused(session: sg.Session, tmp_path: Path) -> None:
    with session, pytest.raises(InputError, match=r"row 1, column n: .*\n.*row 2, column n: "):
        session.run("p", notes=[{"id": "a", "n": "x"}, {"id": "b", "n": "y"}])
    with pytest.raises(InputError, match='"a" names row 1 already'):
        sg.table([{"id": "a"}, {"id": "a"}], key="id")


async def refused(_: dict[str, Any]) -> Answer:
    return Answer(None, refusal="I would rather not say.")


async def with_a_nul(_: dict[str, Any]) -> str:
    return '{"k": "x\\u0000y"}'


def test_an_answer_with_a_nul_is_no_answer(tmp_path: Path) -> None:
    server = ModelServer(with_a_nul)
    asked = sg.table([{"a": "x"}]).sem_map("{a}?", returns={"k": "string"})
    with (
        served(server),
        sg.Session(llm=f"openai:x@{server.base_url}", store="memory", folder=tmp_path) as session,
        pytest.raises(RowError, match="every row failed"),
    ):
        session.run(asked)


def test_a_run_in_which_every_row_failed_raises_with_its_result(tmp_path: Path) -> None:
    server = ModelServer(refused)
    asked = sg.table([{"a": "x"}, {"a": "y"}], name="t").sem_map("{a}?", returns={"k": "int64"})
    with (
        served(server),
        sg.Session(llm=f"openai:x@{server.base_url}", store="memory", folder=tmp_path) as session,
    ):
        with pytest.raises(RowError, match=r"every row failed \(2\), the first: ") as caught:
            session.run(asked)
        kept = session.run(asked, on_error="null")
    assert len(caught.value.result.failed) == 2
    assert caught.value.result.exit_code == 3
    assert kept.to_arrow().column("k").to_pylist() == [None, None]


def test_times_outside_the_years_of_python_are_text(session: sg.Session) -> None:
    late = datetime(9999, 12, 31, tzinfo=UTC)
    frame = sg.table([{"at": late}]).add(
        {"later": "at + INTERVAL 9000 YEARS", "day": "DATE '9999-12-31' + 400"}
    )
    with session:
        result = session.run(frame)
    (row,) = result.rows()
    assert row["later"].startswith("18999-12-31 00:00:00")
    assert row["day"] == "10001-02-03"
    assert result.to_json()["tables"]["step1"][0]["day"] == "10001-02-03"
    assert result.to_pandas().shape == result.to_polars().shape == (1, 3)
    assert "18999-12-31" in result._repr_html_()
    assert result.record is not None
    assert session.report(result, to="report.html").exists()


def test_names_have_letters_of_any_script_and_words_of_sql(session: sg.Session) -> None:
    frame = sg.table([{"drop": 1, "描述": 2, "order": 3}]).filter('drop < 描述 AND "order" > drop')
    with session:
        assert session.run(frame).rows() == [{"drop": 1, "描述": 2, "order": 3}]


@pytest.mark.parametrize(
    "where",
    [
        "drop IS NOT NULL", "drop IN (1, 2)", "drop BETWEEN 0 AND 1", "set AND drop = 1", "show LIKE 'x%'",
        "NOT show IS NULL",
    ],
)  # fmt: skip
def test_a_column_may_be_called_as_a_statement(session: sg.Session, where: str) -> None:
    row = {"drop": 1, "show": "x1", "set": True}
    with session:
        assert session.run(sg.table([row]).filter(where)).rows() == [row]


@pytest.mark.parametrize("name", ["描 述", "1st", "a.b", "e\u0301", "🙂", "", "drop it!"])
def test_the_rename_that_is_proposed_works(name: str) -> None:
    rows = pd.DataFrame({name: [1]})
    with pytest.raises(InputError) as caught:
        sg.table(rows)
    rename = str(caught.value).split("Rename: df.", 1)[1]
    renamed: Any = eval(f"rows.{rename}", {"rows": rows})
    assert sg.table(renamed).to_plan()
