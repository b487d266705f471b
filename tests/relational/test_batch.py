"""Batches hold rows as tuples, as a table, or as both; every question has one answer."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from semgraph.expr.types import parse_type
from semgraph.relational.batch import INPUT_ROW, PARTITION, Batch, Row, table_of

_TYPES = (
    "string",
    "int64",
    "double",
    "boolean",
    "timestamp",
    "date",
    "vector",
    "vector[3]",
    "list<string>",
    "list<timestamp>",
    "list<list<int64>>",
    "struct<name: string, n: int64>",
    "struct<at: timestamp, names: list<string>>",
    "list<struct<at: timestamp, seen: list<timestamp>, in: struct<at: timestamp>>>",
)
_ATOMS: dict[str, tuple[Any, ...]] = {
    "string": ("", "a", "ü\0\n", "😀"),
    "int64": (0, -1, 2**63 - 1, -(2**63)),
    "double": (0.0, -0.0, 1.5, float("inf"), 5e-324),
    "boolean": (True, False),
    "timestamp": (
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
        datetime(2024, 2, 29, 12, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, UTC),
    ),
    "date": (date(1, 1, 1), date(2024, 2, 29), date(9999, 12, 31)),
}


def _value(kind: Any, draw: random.Random) -> Any:
    if draw.random() < 0.25:
        return None
    if kind.item is not None:
        return [_value(kind.item, draw) for _ in range(draw.randrange(4))]
    if kind.name == "struct":
        return {name: _value(of, draw) for name, of in kind.fields}
    if kind.name == "vector":
        return [draw.choice((0.0, 0.5, -2.25)) for _ in range(kind.size or draw.randrange(4))]
    return draw.choice(_ATOMS[kind.name])


@pytest.mark.parametrize("text", _TYPES)
@pytest.mark.parametrize("count", [0, 1, 7, 60])
def test_tuples_and_tables_are_made_of_each_other_exactly(text: str, count: int) -> None:
    kind = parse_type(text)
    draw = random.Random(f"{text} {count}")
    column = [_value(kind, draw) for _ in range(count)]
    schema = pa.schema([("x", kind.arrow)])
    table = pa.table([pa.array(column, kind.arrow)], schema=schema)
    rows = Batch.of_table(table).rows
    assert rows == [(value,) for value in table.column("x").to_pylist()]
    assert Batch.of_tuples(rows, schema).table.equals(table)
    assert Batch.of_tuples([(value,) for value in column], schema).table.equals(table)
    in_parts = pa.concat_tables([table.slice(0, 3), table.slice(3)])
    assert Batch.of_table(in_parts).rows == rows


def test_times_of_other_zones_are_the_same_instants() -> None:
    at = datetime(2024, 7, 1, 12, tzinfo=ZoneInfo("Asia/Tokyo"))
    schema = pa.schema([("at", parse_type("timestamp").arrow)])
    batch = Batch.of_table(Batch.of_tuples([(at,)], schema).table)
    assert batch.rows == [(at,)]
    assert batch.rows[0][0].utcoffset() == timedelta(0)


def test_a_timestamp_beyond_the_years_of_python_is_refused() -> None:
    far = pa.array([2**60], pa.int64()).view(parse_type("timestamp").arrow)
    with pytest.raises(OverflowError):
        _ = Batch.of_table(pa.table({"at": far})).rows


_SCHEMA = pa.schema(
    [("name", pa.string()), ("group_id", pa.string()), (PARTITION, pa.int64()), (INPUT_ROW, pa.int64())]
)  # fmt: skip


def _batches(draw: random.Random) -> tuple[Batch, Batch]:
    rows = []
    for i in range(draw.randrange(9)):
        owner, row = draw.choice(("a", "b", None)), draw.choice((0, 1, 2, 3, None))
        rows.append((f"row {i}", owner, draw.choice((0, 1)), row))
    if draw.random() < 0.5:
        rows.sort(key=lambda row: -1 if row[3] is None else row[3])
    tuples = Batch.of_tuples(rows, _SCHEMA)
    return tuples, Batch.of_table(Batch.of_tuples(rows, _SCHEMA).table)


@pytest.mark.parametrize("seed", range(60))
def test_both_representations_answer_alike(seed: int) -> None:
    draw = random.Random(seed)
    tuples, table = _batches(draw)
    rows = tuples.rows
    some = draw.sample(range(5), draw.randrange(5))
    expected = {
        "of_rows": [row for row in rows if row[3] in some],
        "shared": [row for row in rows if row[3] in some or row[3] is None],
        "without": [row for row in rows if row[3] not in some],
        "confined": [(*row[:2], None if row[3] is None else row[3] * 10, row[3]) for row in rows],
    }
    for batch in (tuples, table):
        assert batch.num_rows == len(rows)
        assert batch.input_rows() == [row[3] for row in rows]
        assert batch.partitions() == [row[2] for row in rows]
        assert batch.owners("group_id") == [row[1] or "" for row in rows]
        assert batch.owners("nobody") is None
        assert batch.of_input_rows(some).rows == expected["of_rows"]
        assert batch.of_input_rows(some, shared=True).rows == expected["shared"]
        assert batch.without_input_rows(some).rows == expected["without"]
        assert batch.confined([0, 10, 20, 30, 40]).rows == expected["confined"]
        assert batch.visible().column_names == ["name", "group_id"]
        assert batch.with_ordinal().column("_o").to_pylist() == list(range(len(rows)))
    assert tuples.of_input_rows(some).in_tuples


def test_questions_about_rows_convert_nothing() -> None:
    tuples, table = _batches(random.Random(3))
    for batch, in_tuples in ((tuples, True), (Batch.of_table(table.table), False)):
        for part in (
            batch,
            batch.of_input_rows([0, 1]),
            batch.without_input_rows([0]),
            batch.confined([5] * 4),
        ):
            assert part.in_tuples == in_tuples
            assert (part._table is None) == in_tuples


def test_rows_without_input_rows_belong_to_all() -> None:
    batch = Batch.of_tuples([("a",), ("b",)], pa.schema([("name", pa.string())]))
    assert batch.of_input_rows([0]) is batch
    assert batch.without_input_rows([0]) is batch
    assert batch.confined([0]) is batch
    assert batch.input_rows() == [None, None]
    assert batch.partitions() is None


@pytest.mark.parametrize("as_table", [False, True])
def test_ids_and_sources_stay_with_their_rows(as_table: bool) -> None:
    schema = pa.schema([(name, pa.int64()) for name in ("n", "_p", "_m")])
    rows: list[Row] = [(1, 0, 0), (2, 0, 1), (3, 0, None), (4, 0, 1)]
    table = table_of(rows, schema) if as_table else None
    sources = [(5,), (), (6, 7), (8,)]
    batch = Batch(schema, None if as_table else rows, table, range(10, 14), sources)
    for part, ids in [
        (batch.take([0, 2]), [10, 12]),
        (batch.slice(1, 2), [11, 12]),
        (batch.of_input_rows([1]), [11, 13]),
        (batch.without_input_rows([1]), [10, 12]),
        (batch.confined([7, 8]), [10, 11, 12, 13]),
    ]:
        assert list(part.ids or ()) == ids
        assert list(part.sources or ()) == [sources[i - 10] for i in ids]
    assert list(batch.derived_from(batch, [3, 2, 1, 0]).sources or ()) == [
        (13,),
        (12,),
        (11,),
        (10,),
    ]
    assert batch.derived_from(batch.with_sources(None)).sources is None
