"""Rows that a user gives: what is taken, what is refused, and how that is said."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semgraph.errors import InputError
from semgraph.expr.types import parse_type
from semgraph.frontend.rows import check_rows, convert
from semgraph.logical.plan import InputSpec


def spec(**columns):
    return InputSpec("episodes", tuple((name, parse_type(kind)) for name, kind in columns.items()))


NOTES = spec(id="string", group="string null", at="timestamp", n="int64 null")
NAIVE = datetime(2025, 1, 15)  # noqa: DTZ001 - what is given has no zone
ROW = {"id": "a", "group": "g", "at": "2025-01-15T10:00:00Z", "n": 1}


def said(declared, rows, **options):
    with pytest.raises(InputError) as caught:
        check_rows(declared, rows, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    "rows",
    [
        [ROW],
        iter([ROW]),
        pa.Table.from_pylist([ROW]),
        pa.RecordBatch.from_pylist([ROW]),
        pd.DataFrame([ROW]),
        pd.DataFrame([ROW]).astype({"at": "datetime64[ns, UTC]"}),
    ],
)
def test_mappings_arrow_and_pandas_give_the_same_table(rows):
    table = check_rows(NOTES, rows)
    assert table.schema.equals(NOTES.schema)
    assert table.to_pylist() == [{**ROW, "at": datetime(2025, 1, 15, 10, tzinfo=UTC)}]


def test_columns_may_stand_in_any_order_and_more_are_left_out():
    table = check_rows(NOTES, [{"n": 1, "extra": 2, "at": "2025-01-15", "id": "a"}])
    assert table.schema.names == ["id", "group", "at", "n"]
    assert table.column("group").to_pylist() == [None]


def test_no_rows_are_an_empty_table_of_the_declared_columns():
    assert check_rows(spec(n="int64 null"), []).num_rows == 0
    assert check_rows(NOTES, NOTES.schema.empty_table()).schema.equals(NOTES.schema)


def test_null_in_the_partition_is_the_empty_text():
    rows = [ROW | {"group": None}, ROW | {"id": "b", "group": "g"}]
    assert check_rows(NOTES, rows, partition="group").column("group").to_pylist() == ["", "g"]
    assert check_rows(NOTES, [{"id": "a", "at": "2025-01-15"}], partition="group").column(
        "group"
    ).to_pylist() == [""]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([{"text": "x"}], 'needs column "user_id" (string); found: text'),
        ([{"user": "ann", "text": "x"}], 'needs column "user_id" (string); found: user, text'),
        (
            [{"user_id": "ann", "text": "x"}, {"user": "bob", "text": "y"}],
            "row 2, column user_id: is NULL. Fill it",
        ),
        ([{"user_id": None, "text": "x"}], "row 1, column user_id: is NULL. Fill it"),
        (
            pa.table({"user_id": pa.nulls(2), "text": ["x", "y"]}),
            "column user_id: is NULL (and 1 more rows). Fill it",
        ),
    ],
)
def test_a_partition_that_may_not_be_null_is_asked_for_as_any_other_column(rows, found):
    assert found in said(spec(user_id="string", text="string"), rows, partition="user_id")


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        ("string", "naïve ☃", "naïve ☃"),
        ("string", 42, "42"),
        ("string", "", ""),
        ("int64", "42", 42),
        ("int64", 42.0, 42),
        ("int64", "", None),
        ("double", 1, 1.0),
        ("double", "1e3", 1000.0),
        ("boolean", "True", True),
        ("timestamp", "2025-01-15", datetime(2025, 1, 15, tzinfo=UTC)),
        ("timestamp", "2025-01-15T10:00:00+02:00", datetime(2025, 1, 15, 8, tzinfo=UTC)),
        ("timestamp", NAIVE, datetime(2025, 1, 15, tzinfo=UTC)),
        ("timestamp", date(2025, 1, 15), datetime(2025, 1, 15, tzinfo=UTC)),
        (
            "timestamp",
            datetime(2025, 1, 15, tzinfo=timezone(timedelta(hours=2))),
            datetime(2025, 1, 14, 22, tzinfo=UTC),
        ),
        ("timestamp", pd.NaT, None),
        ("date", "2025-01-15", date(2025, 1, 15)),
        (
            "json",
            {"b": 1, "a": [datetime(2025, 1, 1, tzinfo=UTC)]},
            '{"a":["2025-01-01T00:00:00Z"],"b":1}',
        ),
        ("json", '{"a": 1}', '{"a": 1}'),
        ("list<string>", '["a", "b"]', ["a", "b"]),
        ("list<string null>", ["a", None], ["a", None]),
        ("struct<a: string, b: int64 null>", {"a": "x"}, {"a": "x", "b": None}),
        ("vector[2]", [1, 2.5], [1.0, 2.5]),
    ],
)
def test_what_is_plainly_of_the_type_is_taken(kind, value, found):
    assert convert(value, parse_type(kind)) == found


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("string", 1.5, "1.5 is not text"),
        ("string", True, "true is not text"),
        ("string", "ab\ud83d", "the text holds half a character (U+D83D), at 2"),
        ("int64", 1.5, "1.5 is not a whole number"),
        ("int64", True, "true is not a whole number"),
        ("int64", 2**63, "has no place in 64 bits"),
        ("double", float("nan"), "nan is not a number"),
        ("double", "many", '"many" is not a number'),
        ("boolean", "yes", '"yes" is not true or false'),
        ("boolean", 1, "1 is not true or false"),
        ("timestamp", "03/04/25", '"03/04/25" is not ISO 8601: day or month first?'),
        ("timestamp", "15.01.2025", "day or month first?"),
        (
            "timestamp",
            "yesterday",
            '"yesterday" is not ISO 8601. Write it in ISO 8601, such as "2025-01-15T10:30:00Z"',
        ),
        ("timestamp", 1736935200, "1736935200 is not a time"),
        ("date", NAIVE, "is not a date"),
        ("json", "{", '"{" is not JSON'),
        ("list<string>", "a, b", "is not list<string> (a list in JSON)"),
        ("list<string>", ["a", None], "holds a NULL"),
        ("list<int64>", ["a"], '"a" is not a whole number'),
        ("struct<a: string>", {"a": "x", "b": 1}, 'has a field "b"'),
        ("struct<a: string>", {}, 'has no "a"'),
        ("vector[2]", [1.0], "1 numbers, expected 2"),
    ],
)
def test_what_is_not_is_refused_and_never_guessed(kind, value, message):
    assert message in said(spec(x=kind), [{"x": value}])


def test_a_message_names_the_row_and_the_column():
    rows = [ROW | {"id": str(i)} for i in range(20)]
    rows[17]["at"] = "03/04/25"
    assert said(NOTES, rows, source="chat.csv") == (
        'chat.csv: input episodes, row 18, column at: "03/04/25" is not ISO 8601: day or month first? Write year-month-day: 2025-01-15'
    )


def test_all_that_is_wrong_is_told_a_few_rows_of_each_column():
    rows = [{"id": "a", "at": "soon", "n": "x"} for _ in range(10)]
    lines = said(NOTES, rows).splitlines()
    assert len(lines) == 6
    assert "row 3, column n" in lines[5]
    assert "(and 7 more rows)" in lines[5]


def test_a_missing_column_and_how_to_rename_one():
    assert said(NOTES, [{"id": "a", "ts": "2025-01-15", "text": "x"}], source="chat.csv") == (
        'chat.csv: input episodes needs column "at" (timestamp); found: id, ts, text. '
        "Rename in one go: -i episodes=chat.csv:at=COLUMN"
    )
    assert ":valid_at=valid_att" in said(spec(valid_at="string"), [{"valid_att": "x"}])


def test_a_column_that_looks_like_one_that_may_be_missing_is_a_slip():
    assert said(
        NOTES, [ROW | {"group": "g"}, {"id": "b", "at": "2025-01-15", "gruop": "g"}][1:]
    ) == ('input episodes has no column "gruop"; it has: id, group, at, n. Did you mean "group"?')


@pytest.mark.parametrize("made", [list, tuple, iter])
def test_a_slip_in_one_row_of_many_is_told_with_its_row(made):
    slip = {"id": "b", "at": "2025-01-15", "gruop": "g"}
    told = 'input episodes, row 2, column gruop: is no column of episodes; it has: id, group, at, n (and 1 more rows). Did you mean "group"?'
    assert said(NOTES, made([ROW, slip, slip])) == told
    needed = spec(text="string", n="int64 null")
    told = 'input episodes, row 2, column texts: is no column of episodes; it has: text, n. Did you mean "text"?'
    assert said(needed, made([{"text": "a"}, {"texts": "b"}])) == told


def test_a_column_beside_the_one_that_it_looks_like_is_left_out():
    rows = [ROW, ROW | {"groups": "h"}, ROW | {"groups": None, "group": None}]
    assert check_rows(NOTES, rows).column("group").to_pylist() == ["g", "g", None]
    assert check_rows(NOTES, pd.DataFrame(rows)).num_rows == 3


def test_null_where_there_must_be_a_value():
    assert said(NOTES, [ROW, ROW | {"id": None}]) == (
        "input episodes, row 2, column id: is NULL. Fill it, or declare id with null after its type"
    )


def test_two_rows_with_one_key():
    rows = [ROW, ROW | {"id": "b"}, ROW]
    assert said(NOTES, rows, key="id") == (
        'input episodes, row 3, column id: "a" names row 1 already. A key names one row'
    )
    assert check_rows(spec(id="string null"), [{"id": None}, {"id": None}], key="id").num_rows == 2


@pytest.mark.parametrize("rows", [{"id": "a"}, "text", 5, [1], None])
def test_what_is_no_table_at_all(rows):
    assert "episodes" in said(NOTES, rows)


def test_a_data_frame_of_mixed_objects_is_read_value_by_value():
    frame = pd.DataFrame(
        {"id": ["a", 2, "c"], "n": [1, float("nan"), 3], "at": ["2025-01-15"] * 3}, dtype=object
    )
    assert check_rows(NOTES, frame).column("id").to_pylist() == ["a", "2", "c"]
    assert check_rows(NOTES, frame).column("n").to_pylist() == [1, None, 3]
    assert "twice" in said(NOTES, pd.DataFrame([["a", "b"]], columns=["id", "id"]))


def test_texts_of_a_megabyte_are_taken():
    text = "é" * 1_000_000
    assert check_rows(spec(x="string"), [{"x": text}]).column("x").to_pylist() == [text]


def test_arrow_of_other_widths_and_units_is_widened():
    table = pa.table(
        {
            "id": pa.array(["a"], pa.large_string()).dictionary_encode(),
            "at": pa.array([NAIVE], pa.timestamp("ns")),
            "n": pa.array([1], pa.int8()),
        }
    )
    assert check_rows(NOTES, table).to_pylist() == [
        {"id": "a", "group": None, "at": datetime(2025, 1, 15, tzinfo=UTC), "n": 1}
    ]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.datetimes(),
    st.lists(st.integers()),
)


@given(st.lists(st.fixed_dictionaries({"id": VALUES, "at": VALUES, "n": VALUES}), max_size=4))
def test_whatever_is_given_there_is_a_typed_table_or_an_input_error(rows):
    try:
        table = check_rows(NOTES, rows)
    except InputError:
        return
    assert table.schema.equals(NOTES.schema)
    table.validate(full=True)
    assert None not in table.column("id").to_pylist()
