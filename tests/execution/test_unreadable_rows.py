"""A row that cannot be read is set aside with its place and the reason; the others are computed with.
A run in which every row failed raises.
"""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import semgraph as sg
from semgraph.errors import InputError, RowError
from semgraph.frontend import row_files
from semgraph.frontend.row_files import read_inputs
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
        ("a.csv", CSV + "b,2,3,4\nc,,\n", "a.csv:3: this row has 4 cells, and the first line 3"),
        ("a.csv", CSV + '"b,2,\nc,,\n', "a.csv:3: a double quote is opened in this row and never closed"),
        ("a.csv", (CSV + "caf\xe9,2,\nc,,\n").encode("latin-1"), "a.csv:3: byte 16 is not UTF-8. If it is Latin-1"),
        ("a.csv", (CSV + "caf\xe9,2\nc,,\n").encode("latin-1"), "a.csv:3: this row has 2 cells"),
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
        result = session.run("p", notes=given)
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
    values = [5, '"5"', ["a"], {"b": None}, True, None]
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"id": str(i), "j": v} for i, v in enumerate(values)]))
    with session:
        result = session.run("p", notes=sg.read_json(path, types={"j": "json"}))
    found = result.to_arrow().column("j").to_pylist()
    assert [text and json.loads(text) for text in found] == [5, "5", *values[2:]]
    with pytest.raises(InputError) as caught:
        sg.read_json(path)
    assert str(caught.value) == (
        'input a, column "j": int64 in row 1 and string in row 2 and list in row 3 and json in row 4 '
        'and boolean in row 5. types={"j": "json"} reads them. Give each column values of one type'
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


HALF = "x\ud800"
LATE = datetime(9999, 12, 31, 23, tzinfo=timezone(-timedelta(hours=5)))
EARLY = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))
LATIN = pa.array([b"caf\xe9"]).view(pa.string())


def nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
PLAN_OF_ALL = """
plan: all
inputs: {notes: {id: string, n: double null, at: timestamp null, j: json null, l: list<string> null}}
steps: {kept: [{from: notes}]}
returns: [kept]
"""


def failed_of(session: sg.Session, rows: Any, plan: str = PLAN_OF_ALL) -> sg.Result:
    """A run in which row `a` is read and one row is set aside."""
    (Path(session.folder or ".") / "all.yaml").write_text(plan)
    with session:
        result = session.run("all", notes=rows)
        assert session.report(result, to=Path(session.folder or ".") / "report.html").exists()
    assert result.to_arrow().column("id").to_pylist() == ["a"]
    assert len(result.failed) == 1
    assert result.record is not None
    result.failed[0].error.encode()
    (line,) = (result.record / "failed.jsonl").read_bytes().decode().splitlines()
    json.loads(line)
    json.dumps(result.to_json())
    return result


@pytest.mark.parametrize(
    "bad",
    [
        {"n": HALF}, {"at": HALF}, {"l": [HALF]}, {"l": HALF}, {"j": {"k": HALF}}, {"j": HALF}, {"id": HALF},
        {"n": "?", HALF: 1}, {"n": "?", "extra": HALF},
        {"at": EARLY}, {"at": LATE}, {"n": "?", "extra": EARLY}, {"id": None, "at": pd.NaT},
        {"n": ENDLESS}, {"l": ENDLESS}, {"j": ENDLESS}, {"n": "?", "extra": ENDLESS},
        {"n": nested(900)}, {"j": nested(900)}, {"n": "?", "extra": nested(900)}, {"n": "?", "extra": nested(450)},
        {"n": 10**5000}, {"id": 10**5000}, {"at": 10**5000},
    ],
    ids=lambda bad: "-".join(bad).encode(errors="replace").decode(),
)  # fmt: skip
def test_no_value_ends_the_run(session: sg.Session, bad: dict[str, Any]) -> None:
    result = failed_of(session, [{"id": "a"}, {"id": "b"} | bad])
    assert "row 2, column " in result.failed[0].error


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", b'{"id": "a"}\n{"id": "b", "n": "\\ud800"}\n'),
        ("a.json", b'[{"id": "a"}, {"id": "b", "n": "\xe9"}]'),
        ("a.jsonl", b'{"id": "a"}\n{"id": "b", "n": ' + b"[" * 900 + b"]" * 900 + b"}\n"),
    ],
)
def test_no_line_ends_the_run(
    session: sg.Session, tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    for rows in (
        read_inputs([f"notes={tmp_path / name}"], session.prepare("p"))["notes"],
        sg.read_json(tmp_path / name, types={"n": "double"}),
    ):
        failed_of(session, rows)


def test_a_value_that_is_nested_too_deeply_costs_its_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a", "l": [1]}\n{"id": "b", "l": ' + "[" * 900 + "]" * 900 + "}\n")
    for frame in (
        sg.read_json(path),
        sg.table([{"id": "a", "l": [1]}, {"id": "b", "l": ENDLESS}]),
        sg.table(pd.DataFrame({"id": ["a", "b"], "l": [[1], ENDLESS]})),
    ):
        assert next(iter(frame.tables.values())).to_pylist() == [{"id": "a", "l": [1]}]


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("l", pa.ListArray.from_arrays([0, 0, 1], LATIN)),
        ("s", pa.StructArray.from_arrays([pa.concat_arrays([pa.array(["x"]), LATIN])], names=["b"])),
        ("t", pa.ListArray.from_arrays([0, 0, 1], pa.StructArray.from_arrays([LATIN], names=["b"]))),
    ],
)  # fmt: skip
def test_bytes_inside_lists_and_structs_cost_their_row(
    session: sg.Session, tmp_path: Path, column: str, values: pa.Array
) -> None:
    table = pa.table({"id": ["a", "b"], column: values})
    pq.write_table(table, tmp_path / "a.parquet")
    kinds = (
        """l: list<string> null, s: "struct<b: string> null", t: "list<struct<b: string>> null\""""
    )
    plan = PLAN_OF_ALL.replace("l: list<string> null", kinds)
    for rows in (table, sg.read_parquet(tmp_path / "a.parquet")):
        result = failed_of(session, rows, plan)
        assert "b'caf\\xe9' is not UTF-8" in result.failed[0].error
        assert result.failed[0].row[column] == {
            "l": ["caf\udce9"], "s": {"b": "caf\udce9"}, "t": [{"b": "caf\udce9"}]
        }[column]  # fmt: skip


def test_a_json_value_depends_on_its_row_alone(session: sg.Session, tmp_path: Path) -> None:
    path, plan = tmp_path / "a.jsonl", session.prepare("p")
    line = '{"id": "a", "j": "{\\"x\\": 1}"}\n{"id": "b", "j": "plain"}\n'
    for other in ("", '{"id": "c", "j": 5}\n'):
        path.write_text(line + other)
        rows = session.run("p", notes=read_inputs([f"notes={path}"], plan)["notes"])
        assert rows.to_arrow().column("j").to_pylist() == ['{"x": 1}', *(["5"] if other else [])]
        assert '"plain" is not JSON' in rows.failed[0].error
    session.close()


def test_a_row_that_is_set_aside_stays_with_its_run(session: sg.Session, tmp_path: Path) -> None:
    frame = sg.table([{"id": "a", "n": 1}, {"id": HALF, "n": 2}], name="notes")
    with session:
        assert len(session.run(frame).failed) == 1
        made = session.run("p", notes=frame)
        assert len(made.failed) == 1
        for table in (made.to_arrow(), *frame.tables.values()):
            assert not session.run("p", notes=table).failed
            pq.write_table(table, tmp_path / "a.parquet")
            assert not session.run("p", notes=sg.read_parquet(tmp_path / "a.parquet")).failed


@pytest.mark.parametrize(
    "content", [",id,n\n0,a,1\n", ",,id,n\n0,1,a,1\n", ',,id,n\n0,"1,a,1\n0,1,a,1\n']
)
def test_a_column_without_a_name_is_left_out(
    session: sg.Session, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "a.csv"
    path.write_text(content)
    with session:
        given = read_inputs([f"notes={path}"], session.prepare("p"))["notes"]
        for rows in (
            given,
            sg.read_csv(path),
            [{"": 0, "id": "a"}],
            pd.DataFrame({"": [0], "id": ["a"]}),
        ):
            assert session.run("p", notes=rows).to_arrow().column("id").to_pylist() == ["a"]
    assert sg.read_csv(path).columns == ["id", "n"]


@pytest.mark.parametrize(
    ("lines", "ids"),
    [
        ('"b"x,2,\n', ["bx"]),
        ('"b"x,2,\nc,3,4,5\n', ["bx"]),
        ('"b,2,\nc,3,\nd,4,\nf "q" g,6,\n', ["c", "d", 'f "q" g']),
        ('"b,2,\nc,3,\nf "q"" g,6,\n', ["c", 'f "q"" g']),
        ('5" x,1,\n"open,2,\nc,,\n', ['5" x', "c"]),
        ('"two\nlines",2,\n"open,2,\n', ["two\nlines"]),
        ('"two\n""lines""",2,\nc,"3\n', ['two\n"lines"']),
        ("\n\na,1,\r\n\r\nb,2,\rc,3,\n", ["a", "b", "c"]),
        ('"",1,\n,2,\n"a""b",3,', ["", 'a"b']),
    ],
)
def test_quotes_cost_their_line_alone(
    session: sg.Session, tmp_path: Path, lines: str, ids: list[str]
) -> None:
    path = tmp_path / "a.csv"
    with session:
        for more in ("", "z,1,1,1\n"):
            path.write_bytes(f"id,n,at\n{lines}\n{more}".encode())
            given = read_inputs([f"notes={path}"], session.prepare("p"))["notes"]
            assert session.run("p", notes=given).to_arrow().column("id").to_pylist() == ids


@given(st.lists(st.text('ab",\n\r'), min_size=1, max_size=8))
@example(['"', "b\n", '"', "x"])
def test_arrow_and_the_reader_of_all_rows_read_the_same(parts: list[str]) -> None:
    """As the fast reader is chosen by a look at the quotes, there is no other way to compare them."""
    raw = ("a,b\n" + "".join(parts)).encode()
    records = [cells for *_, cells in row_files._records(raw, b",")][1:]
    plain = raw.count(b'"') % 2 == 0 and not row_files._pattern(row_files._STRAY, b",").search(raw)
    if not plain or any(cells is None or len(cells) != 2 for cells in records):
        return
    read = row_files._table(raw, ["a", "b"], ",").to_pylist()
    texts = [[cell and cell.decode() for cell in cells or ()] for cells in records]
    assert [list(row.values()) for row in read] == texts


def test_a_file_of_open_quotes_is_read_in_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("id,n\n" + '"open,1\nx,1\nx,1\nx,1\n' * 25_000)
    before = time.process_time()
    rows = row_files.read_csv(path)
    assert time.process_time() - before < 5
    assert len(rows) == 100_000


def test_the_key_of_a_row_that_is_set_aside_is_free(session: sg.Session) -> None:
    rows = [{"id": "a", "n": "x"}, {"id": "a", "n": 2}]
    frame = sg.table(rows, key="id", types={"n": "int64"})
    assert frame.tables["table"].to_pylist() == [{"id": "a", "n": 2}]


NOON = datetime(2025, 1, 15, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([NOON, NOON.date()], 'timestamp in row 1 and date in row 2. types={"n": "timestamp"} reads them.'),
        ([pd.Timestamp(NOON), "x"], "timestamp in row 1 and string in row 2. Give each column"),
        ([1, "x"], 'int64 in row 1 and string in row 2. types={"n": "string"} reads them.'),
        ([1, [2], "x"], "int64 in row 1 and list in row 2 and string in row 3. Give each column"),
        ([1.5, [2]], 'double in row 1 and list in row 2. types={"n": "json"} reads them.'),
    ],
)  # fmt: skip
def test_the_type_that_is_proposed_reads_all_values(values: list[Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        sg.table([{"n": value} for value in values])
    assert said in str(caught.value)


@pytest.mark.parametrize("value", [float("inf"), 10**400])
def test_a_number_that_has_no_place_costs_its_row(value: float) -> None:
    frame = sg.table([{"n": 1}, {"n": 2.5}, {"n": value}])
    assert frame.tables["table"].to_pylist() == [{"n": 1.0}, {"n": 2.5}]


def test_a_time_that_has_no_place_costs_its_row(session: sg.Session) -> None:
    for far, shown in (
        (pa.array([0, 2**62], pa.timestamp("s")), '"146138514283-06-19 07:45:04" is not'),
        (pa.array([0, 2**31 - 1], pa.date32()), '"5881580-07-11" is not'),
        (pa.array([0, -(2**31)], pa.date32()), '"-5877641-06-23" is not'),
    ):
        result = failed_of(session, pa.table({"id": ["a", "b"], "at": far}))
        assert shown in result.failed[0].error


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.jsonl", '{"id": "a"}\n{"id": \n', '{"id": '),
        ("a.csv", "id,n\na,1\nb,2,3\n", "b,2,3"),
    ],
)
def test_a_row_without_columns_is_told_by_its_text_again(
    session: sg.Session, tmp_path: Path, name: str, content: str, text: str
) -> None:
    path, plan = tmp_path / name, session.prepare("p")
    path.write_text(content)
    first = failed_of(session, read_inputs([f"notes={path}"], plan)["notes"])
    assert first.record is not None
    again = tmp_path / "again.jsonl"
    again.write_text('{"id": "a"}\n' + (first.record / "failed.jsonl").read_text())
    second = failed_of(session, read_inputs([f"notes={again}"], plan)["notes"])
    assert second.failed[0].error == first.failed[0].error
    assert second.failed[0].row == first.failed[0].row == {"_line": text}
