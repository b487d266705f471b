"""Rows as relations: data frames of pandas and Polars, Arrow, lists and files, with the types that a
user of those expects.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import semgraph as sg
from semgraph.errors import InputError, PlanError

NOON = datetime(2025, 1, 15, 12)  # noqa: DTZ001 - a time without a zone, as data frames have it


def read(rows, **options):
    """The type of the column `a`, and its values."""
    frame = sg.table(rows, **options)
    (made,) = frame.tables.values()
    return repr(frame).split("a ", 1)[1].rstrip(")"), made.column("a").to_pylist()


# -- pandas


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pd.array([1, None], dtype="Int64"), "int64", [1, None]),
        (pd.array([True, None], dtype="boolean"), "boolean", [True, None]),
        (pd.array([1.5, None], dtype="Float64"), "double", [1.5, None]),
        (pd.array(["x", None], dtype="string"), "string", ["x", None]),
        (pd.array([1, None], dtype="int64[pyarrow]"), "int64", [1, None]),
        (pd.Series(["x", np.nan, None], dtype=object), "string", ["x", None, None]),
        ([1.0, np.nan], "double", [1.0, None]),
        (np.array([1, 2], dtype="int8"), "int64", [1, 2]),
        (pd.Categorical(["x", None, "y"]), "string", ["x", None, "y"]),
        (pd.Categorical([1, 2]), "int64", [1, 2]),
        ([NOON, pd.NaT], "timestamp", [NOON.replace(tzinfo=UTC), None]),
        (
            pd.to_datetime(["2025-01-15 13:00"]).tz_localize("Europe/Rome"),
            "timestamp",
            [NOON.replace(tzinfo=UTC)],
        ),
        ([date(2025, 1, 15)], "date", [date(2025, 1, 15)]),
        ([None, None], "string", [None, None]),
        ([np.nan, np.nan], "double", [None, None]),
        ([["x"], ["y", "z"]], "list<string>", [["x"], ["y", "z"]]),
        ([{"b": 1}], "struct<b: int64>", [{"b": 1}]),
        (pd.Series([], dtype=object), "string", []),
        (pd.Series([], dtype="int64"), "int64", []),
    ],
    ids=str,
)
def test_columns_of_pandas_have_the_type_that_they_look_like(column, kind, values):
    assert read(pd.DataFrame({"a": column})) == (kind, values)


def test_the_index_of_pandas_is_left_out():
    rows = pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="id"))
    assert sg.table(rows).columns == ["a"]
    assert sg.table(rows.reset_index()).columns == ["id", "a"]


def test_names_that_no_prompt_can_name_are_refused_with_better_ones():
    rows = pd.DataFrame([[1, 2, 3, 4]], columns=["a", 0, "my col", ("b", "c")])
    with pytest.raises(InputError) as caught:
        sg.table(rows)
    assert str(caught.value) == (
        "input table: 0, 'my col', ('b', 'c') cannot name a column. A name has letters, digits and _, and "
        "begins with no digit. Rename: df.rename(columns={0: 'column_0', 'my col': 'my_col', "
        "('b', 'c'): 'b_c'})"
    )
    better = {0: "column_0", "my col": "my_col", ("b", "c"): "b_c"}
    assert sg.table(rows.rename(columns=better)).columns == ["a", "column_0", "my_col", "b_c"]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (pd.DataFrame(), 'no columns. Name them: types={"text": "string"}'),
        ([], 'no columns. Name them: types={"text": "string"}'),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), 'has the column "a" twice'),
        (pd.DataFrame({"a": [1, "x"]}), "Give each column values of one type"),
        (pd.DataFrame({"a": pd.to_timedelta([1])}), "Cast it to string"),
        (pd.Series(["x"]), "is a Series of pandas, one column without a table"),
        (pl.Series(["x"]), "is a Series of polars, one column without a table"),
        (pl.LazyFrame({"a": [1]}), "is a LazyFrame, which has no rows yet. Compute it"),
        (pl.DataFrame({"a": [float("nan")]}), "nan is not a number. Put NULL in its place"),
        (42, "cannot be read from int"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_table_is_refused_with_the_way_to_one(rows, said):
    with pytest.raises(InputError) as caught:
        sg.table(rows)
    assert said in str(caught.value)


def test_no_row_of_a_large_frame_is_looked_at_by_python(monkeypatch):
    """Columns go from pandas to Arrow and through the checks as they are."""
    rows = pd.DataFrame(
        {
            "id": range(1000),
            "text": ["x"] * 1000,
            "x": [1.0, np.nan] * 500,
            "n": pd.array([1, None] * 500, dtype="Int64"),
            "at": pd.date_range("2025-01-01", periods=1000),
            "kind": pd.Categorical(["a", "b"] * 500),
        }
    )

    def converted(value, kind):
        raise AssertionError(f"{value} was converted to {kind} by itself")

    monkeypatch.setattr("semgraph.frontend.rows.convert", converted)
    for frame in (rows, pl.from_pandas(rows), pa.Table.from_pandas(rows)):
        (made,) = sg.table(frame).tables.values()
        assert made.num_rows == 1000


# -- Polars, and others with Arrow's stream


@pytest.mark.parametrize(
    ("column", "kind", "values"),
    [
        (pl.Series([1, None]), "int64", [1, None]),
        (pl.Series([1, 2], dtype=pl.UInt32), "int64", [1, 2]),
        (pl.Series(["x", None]), "string", ["x", None]),
        (pl.Series(["x", None], dtype=pl.Categorical), "string", ["x", None]),
        (pl.Series(["x"], dtype=pl.Enum(["x"])), "string", ["x"]),
        (pl.Series([NOON]), "timestamp", [NOON.replace(tzinfo=UTC)]),
        (pl.Series([NOON]).dt.replace_time_zone("UTC"), "timestamp", [NOON.replace(tzinfo=UTC)]),
        (pl.Series([date(2025, 1, 15)]), "date", [date(2025, 1, 15)]),
        (pl.Series([Decimal("1.5")]), "double", [1.5]),
        (pl.Series([None, None]), "string", [None, None]),
        (pl.Series([["x"], []]), "list<string>", [["x"], []]),
        (pl.Series([{"b": 1, "c": "x"}]), "struct<b: int64, c: string>", [{"b": 1, "c": "x"}]),
        (pl.Series([], dtype=pl.String), "string", []),
    ],
    ids=lambda value: str(getattr(value, "dtype", "")),
)
def test_columns_of_polars_have_the_type_that_they_look_like(column, kind, values):
    assert read(pl.DataFrame({"a": column})) == (kind, values)


def test_what_has_the_stream_of_arrow_is_a_table():
    assert read(duckdb.sql("SELECT 1::INTEGER AS a")) == ("int64", [1])
    assert read(pa.RecordBatch.from_pylist([{"a": "x"}])) == ("string", ["x"])


def test_records_of_a_data_frame_keep_their_nulls():
    rows = pd.DataFrame({"a": ["x", np.nan]}).astype(object).to_dict("records")
    assert read(rows) == ("string", ["x", None])
    declared = sg.table([{"a": "y"}], name="t").to_plan()
    assert read([{"a": pd.NA}, {"a": 3}]) == ("int64", [None, 3])
    assert declared.inputs["t"].columns


# -- types


def test_types_that_values_do_not_tell_are_given():
    rows = [{"a": "2025-01-15", "zip": 7}, {"a": None, "zip": 8}]
    assert sg.table(rows, types={"a": "timestamp", "zip": str}).tables["table"].to_pylist() == [
        {"a": datetime(2025, 1, 15, tzinfo=UTC), "zip": "7"},
        {"a": None, "zip": "8"},
    ]
    assert (
        repr(sg.table([], types={"id": int, "text": str})) == "Frame(input: id int64, text string)"
    )
    assert sg.table(pd.DataFrame(), types={"a": "string"}).columns == ["a"]


def test_a_type_of_no_column_and_a_wrong_type_are_refused():
    with pytest.raises(
        InputError, match='no column "boddy", whose type is given.*Did you mean "body"'
    ):
        sg.table([{"body": "x"}], types={"boddy": "string"})
    with pytest.raises(PlanError, match='"strin" is no type.*Did you mean "string"'):
        sg.table([{"body": "x"}], types={"body": "strin"})
    with pytest.raises(InputError, match='row 1, column n: "x" is not a whole number'):
        sg.table([{"n": "x"}], types={"n": "int64"})


# -- files

CSV = """id,zip,price,new,day,at,local,text,empty
1,007,1.50,true,2025-01-15,2025-01-15T12:00:00Z,2025-01-15 12:00,"a, b",
-20,90210,2e3,False,2025-01-16,2025-01-15T13:00:00+01:00,2025-01-15 12:00:01.5,"",
"""


def test_cells_of_a_csv_file_have_the_type_that_they_are_written_in(tmp_path):
    path = tmp_path / "tickets.csv"
    path.write_text(CSV, encoding="utf-8")
    frame = sg.read_csv(path)
    assert repr(frame) == (
        "Frame(input: id int64, zip string, price double, new boolean, day date, at timestamp, "
        "local timestamp, text string, empty string)"
    )
    first, second = frame.tables["tickets"].to_pylist()
    noon = NOON.replace(tzinfo=UTC)
    assert first == {
        "id": 1, "zip": "007", "price": 1.5, "new": True, "day": date(2025, 1, 15), "at": noon, "local": noon,
        "text": "a, b", "empty": None,
    }  # fmt: skip
    assert (second["new"], second["at"], second["text"]) == (False, noon, "")
    for same in (sg.table(path), sg.read_csv(str(path))):
        assert same.tables["tickets"].equals(frame.tables["tickets"])


@pytest.mark.parametrize(
    "cell",
    [
        "12345678901234567890",
        "9999999999999999999",
        "2025-02-31",
        "1_000",
        "+1",
        "0x1",
        "nan",
        "1,5",
    ],
)
def test_a_cell_that_is_nearly_a_value_makes_its_column_text(tmp_path, cell):
    path = tmp_path / "rows.csv"
    path.write_text(f'a\n1\n"{cell}"\n', encoding="utf-8")
    assert read(path) == ("string", ["1", cell])


def test_given_types_are_read_from_the_text_of_cells(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("zip,at\n1.50,2025-01-15\n", encoding="utf-8")
    frame = sg.read_csv(path, types={"zip": "string", "at": "timestamp"}, name="places", key="zip")
    assert frame.tables["places"].to_pylist() == [
        {"zip": "1.50", "at": datetime(2025, 1, 15, tzinfo=UTC)}
    ]
    assert frame.key == "zip"


def test_other_delimiters(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("a;b\n1;x\n", encoding="utf-8")
    assert sg.read_csv(path, delimiter=";").tables["rows"].to_pylist() == [{"a": 1, "b": "x"}]
    with pytest.raises(InputError, match="its cells stand between semicolons"):
        sg.read_csv(path)
    with pytest.raises(InputError, match="it is one character"):
        sg.read_csv(path, delimiter="::")
    (tmp_path / "rows.tsv").write_text("a\tb\n1\tx\n", encoding="utf-8")
    assert sg.read_csv(tmp_path / "rows.tsv").columns == ["a", "b"]


def test_json_and_parquet_files(tmp_path):
    rows = [{"id": 1, "tags": ["x"], "text": "It leaks."}, {"id": 2, "tags": [], "text": None}]
    (tmp_path / "list.json").write_text(json.dumps(rows), encoding="utf-8")
    (tmp_path / "lines.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "some.parquet")
    frames = [
        sg.read_json(tmp_path / "list.json"),
        sg.read_json(tmp_path / "lines.jsonl"),
        sg.read_parquet(tmp_path / "some.parquet"),
        *(sg.table(tmp_path / name) for name in ("list.json", "lines.jsonl", "some.parquet")),
    ]
    assert {repr(frame) for frame in frames} == {
        "Frame(input: id int64, tags list<string>, text string)"
    }
    assert [next(iter(frame.tables)) for frame in frames] == ["list", "lines", "some"] * 2
    assert all(next(iter(frame.tables.values())).to_pylist() == rows for frame in frames)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("no.csv", None, "no.csv: there is no such file. The working directory is"),
        ("latin.csv", b"a\n\xe9\n", "byte 2 is not UTF-8"),
        ("rows.xlsx", b"", "spreadsheets are not supported"),
        ("rows.log", b"", 'what ".log" holds is not known'),
        ("rows.jsonl", b"{\n", "rows.jsonl:1: this line is no JSON"),
        ("rows.json", b'{"a": 1}', "this is no list of JSON objects"),
        ("rows.parquet", b"PAR", "this is no Parquet file"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, name, text, said):
    path = tmp_path / name
    if text is not None:
        path.write_bytes(text)
    with pytest.raises(InputError) as caught:
        sg.table(path)
    assert said in str(caught.value)
    assert name in str(caught.value)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(InputError, match="is a folder. Name a file"):
        sg.read_parquet(tmp_path)


# -- names of arguments


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda t: t.sem_filter("{a}?", on_eror="null"), 'sem_filter has no argument "on_eror"'),
        (lambda t: t.sem_filter("{a}?", on_eror="null"), 'Did you mean "on_error"?'),
        (lambda t: t.sem_map("{a}?", columns=["b"]), "New columns stand in returns"),
        (lambda t: t.sem_topk("{a}?", K=3), 'Did you mean "k"?'),
        (lambda t: t.join(t, "o", on="a"), "Columns that must be equal stand in using"),
        (
            lambda t: t.sort("a", ascending=False),
            'write the direction after the column: "price desc"',
        ),
        (lambda t: t.sort(on="a"), 'Did you mean "by"?'),
        (lambda t: t.filter("a > 1", axis=0), "It keeps rows; project chooses columns"),
        (lambda t: t.limit(n=1, per="a"), 'Did you mean "by"?'),
        (lambda t: t.limit(n=1, bye="a"), 'Did you mean "by"?'),
        (lambda t: t.aggregate(groupby="a"), 'Did you mean "by"?'),
        (lambda t: t.to_plan(nam="x"), 'Did you mean "name"?'),
        (lambda t: t.merge(nod="Person"), 'Did you mean "node"?'),
        (lambda _: sg.table([{"a": 1}], keys="a"), 'Did you mean "key"?'),
        (lambda _: sg.table([{"a": 1}], index="a"), "df.reset_index() makes it a column"),
        (lambda _: sg.read_csv("a.csv", sep=";"), 'Did you mean "delimiter"?'),
        (lambda _: sg.read_json("a.json", lines=True), "ends in .jsonl"),
        (lambda _: sg.union([], fil=True), 'Did you mean "fill"?'),
        (lambda _: sg.Session(stor="memory"), 'Session has no argument "stor"'),
        (lambda _: sg.Session(model="local"), 'Did you mean "llm"?'),
        (lambda _: sg.Session(store="memory").prepare("p", param={}), 'Did you mean "params"?'),
    ],
)
def test_a_wrong_argument_is_answered_with_the_right_one(call, said):
    with pytest.raises(TypeError) as caught:
        call(sg.table([{"a": 1}]))
    assert said.lower() in str(caught.value).lower()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("sem_filtr", 'Did you mean "sem_filter"?'),
        ("groupby", "Groups are made by aggregate"),
        ("head", "The first rows: limit"),
        ("explode", "Lists are opened by unnest"),
        ("to_pandas", "Session().run(frame).to_pandas()"),
    ],
)
def test_a_method_of_other_data_frames_is_answered_with_the_one_here(name, said):
    frame = sg.table([{"a": 1}])
    assert not hasattr(frame, name)
    with pytest.raises(AttributeError) as caught:
        getattr(frame, name)
    assert str(caught.value).startswith(f'a frame has no "{name}"')
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda t: t.filter("boddy = 'x'"),
        lambda t: t.project(["boddy"]),
        lambda t: t.sort("boddy"),
        lambda t: t.limit(1, by="boddy"),
        lambda t: t.distinct("boddy"),
        lambda t: t.aggregate(by="boddy"),
        lambda t: t.join(t, "o", using="boddy"),
        lambda t: t.sem_filter("{boddy}?"),
        lambda t: t.sem_agg("{body}", by="boddy", returns={"all": "string"}),
        lambda t: t.sem_topk("{body}?", k=1, by="boddy"),
        lambda t: t.sem_join(t, "o", "{body} {o.boddy}?"),
        lambda _: sg.table([{"body": "x"}], key="boddy"),
    ],
)
def test_a_wrong_column_is_answered_with_the_right_one(call):
    with pytest.raises(PlanError, match=r'(?i)boddy.*did you mean "(o\.)?body"'):
        call(sg.table([{"body": "x"}], name="t"))
