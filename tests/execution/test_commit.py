"""Rows with one key become one row; those that disagree with it, or have no key, are left out with
the reason.
"""

from __future__ import annotations

import pyarrow as pa

from semgraph.execution.commit import one_row_a_key

SCHEMA = pa.schema([("uuid", pa.string()), ("name", pa.string()), ("seen", pa.list_(pa.string()))])


def merge(
    *rows: tuple[str | None, str | None, list[str] | None],
) -> tuple[list[dict[str, object]], dict[int, str]]:
    """One row for each key, and what is wrong with the others, by their place."""
    table = pa.Table.from_pylist(
        [dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA
    )
    merged, problems = one_row_a_key(table, "uuid", frozenset({"seen"}), "")
    return merged.to_pylist(), {place: problem.what for place, problem in problems.items()}


def test_null_agrees_with_everything_and_lists_are_united_in_order() -> None:
    merged, problems = merge(("a", None, ["1"]), ("a", "Ann", ["2", "1"]), ("b", "Bob", None))
    assert merged == [
        {"uuid": "a", "name": "Ann", "seen": ["1", "2"]},
        {"uuid": "b", "name": "Bob", "seen": None},
    ]
    assert problems == {}


def test_a_row_that_differs_from_an_earlier_one_with_its_key_is_left_out() -> None:
    merged, problems = merge(
        ("a", "Ann", ["1"]), ("a", "Anna", ["2"]), ("a", None, ["3"]), ("b", "Bob", [])
    )
    assert merged == [
        {"uuid": "a", "name": "Ann", "seen": ["1", "3"]},
        {"uuid": "b", "name": "Bob", "seen": []},
    ]
    assert problems == {1: 'two rows with uuid "a" differ in "name": "Ann" and "Anna"'}


def test_a_row_without_a_key_is_left_out() -> None:
    merged, problems = merge((None, "Ann", []), ("b", "Bob", []), (None, "Cleo", []))
    assert merged == [{"uuid": "b", "name": "Bob", "seen": []}]
    assert list(problems) == [0, 2]
    assert 'the key "uuid" of a row to write is NULL: name "Ann", seen' in problems[0]
