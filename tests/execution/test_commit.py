"""Rows with one key become one row, or an error that says how they differ."""

from __future__ import annotations

import pyarrow as pa
import pytest

from semgraph.errors import DataError
from semgraph.execution.commit import _one_row_a_key

SCHEMA = pa.schema([("uuid", pa.string()), ("name", pa.string()), ("seen", pa.list_(pa.string()))])


def merge(*rows: tuple[str | None, str | None, list[str] | None]) -> list[dict[str, object]]:
    table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)
    return _one_row_a_key(table, "uuid", frozenset({"seen"})).to_pylist()


def test_null_agrees_with_everything_and_lists_are_united_in_order() -> None:
    assert merge(("a", None, ["1"]), ("a", "Ann", ["2", "1"]), ("b", "Bob", None)) == [
        {"uuid": "a", "name": "Ann", "seen": ["1", "2"]},
        {"uuid": "b", "name": "Bob", "seen": None},
    ]


def test_two_rows_that_differ_are_refused_by_key_column_and_values() -> None:
    with pytest.raises(DataError, match='two rows with uuid "a" differ in "name": "Ann" and "Anna"'):
        merge(("a", "Ann", []), ("a", "Anna", []))


def test_a_row_without_a_key_is_refused() -> None:
    with pytest.raises(DataError, match='the key "uuid" of a row to write is NULL: name "Ann", seen'):
        merge((None, "Ann", []))
