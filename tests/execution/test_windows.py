"""How an input is cut: partitions, turns, keys, windows, waves, slices."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from semgraph.errors import InputError
from semgraph.execution.executor import slices
from semgraph.execution.windows import InputRows, cut, joined, prepare
from semgraph.logical.plan import Windowing

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("who", pa.string()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("text", pa.string()),
    ]
)


def windowing(**options: Any) -> Windowing:
    return Windowing(
        **{
            "input": "notes",
            "partition": "who",
            "order": ("at",),
            "key": "id",
            "key_of": ("who", "at", "text"),
        }
        | options
    )


def members(*rows: tuple[str | None, str | None, int, str], **options: Any) -> InputRows:
    table = pa.Table.from_pylist(
        [
            {"id": key, "who": who, "at": datetime(2025, 1, 1, 0, minute, tzinfo=UTC), "text": text}
            for key, who, minute, text in rows
        ],
        schema=SCHEMA,
    )
    return asyncio.run(prepare(windowing(**options), table))


def test_null_is_the_empty_partition_and_partitions_come_in_order_of_first_rows() -> None:
    found = members(("a", "x", 0, ""), ("b", None, 0, ""), ("c", "", 0, ""), ("d", "x", 0, ""))
    assert found.partitions == ["x", ""]
    assert found.of == ((0, 3), (1, 2))


def test_turns_follow_time_and_equal_times_keep_the_order_they_were_given_in() -> None:
    found = members(("a", "x", 5, ""), ("b", "x", 1, ""), ("c", "x", 5, ""), ("d", "x", 0, ""))
    assert found.of == ((3, 1, 0, 2),)
    assert found.table.column("turn").to_pylist() == [2, 1, 3, 0]
    assert found.table.column("position").to_pylist() == [0, 1, 2, 3]


def test_a_missing_key_is_made_from_the_row_and_equal_rows_get_different_keys_that_last() -> None:
    rows = [
        (None, "x", 0, "hi"),
        (None, "x", 0, "hi"),
        (None, "x", 0, "ho"),
        ("mine", "x", 0, "hi"),
    ]
    found = members(*rows)
    assert found.keys[3] == "mine"
    assert len(set(found.keys)) == 4
    assert members(*rows).keys == found.keys
    other_first = members((None, "y", 0, "hi"), *rows)
    assert other_first.keys[1:] == found.keys


def test_rows_of_an_order_without_a_key_are_named_by_what_they_say() -> None:
    given = members(("a", "x", 0, "hi"), (None, "x", 0, "hi"), ("b", "x", 0, "ho"), key="")
    assert (
        given.keys == members((None, "x", 0, "hi"), (None, "x", 0, "hi"), (None, "x", 0, "ho")).keys
    )
    assert given.table.column("id").to_pylist() == ["a", None, "b"]
    assert given.table.column_names == members(key_of=("at",)).table.column_names


def test_two_rows_with_one_key_are_refused_by_their_numbers() -> None:
    with pytest.raises(InputError, match='rows 1 and 3 have the same id "a"'):
        members(("a", "x", 0, ""), ("b", "x", 0, ""), ("a", "y", 0, ""))


def test_a_wave_is_the_next_window_of_every_partition() -> None:
    waves = cut(windowing(), {0: [0, 3, 4], 1: [1], 2: []})
    assert [[(w.partition, w.rows) for w in wave] for wave in waves] == [
        [(0, (0,)), (1, (1,))],
        [(0, (3,))],
        [(0, (4,))],
    ]


def test_windows_hold_as_many_members_as_asked_and_all_is_one() -> None:
    sizes = {
        window: [
            len(w.rows) for wave in cut(windowing(size=window), {0: [1, 2, 3, 4, 5]}) for w in wave
        ]
        for window in (2, None)
    }
    assert sizes == {2: [2, 2, 1], None: [5]}


def test_a_wave_is_no_wider_than_what_may_run_ahead() -> None:
    waves = cut(windowing(ahead=3), {p: [p] for p in range(7)})
    assert [len(wave) for wave in waves] == [3, 3, 1]


def test_windows_that_are_ready_become_one_of_each_partition_up_to_what_may_run_ahead() -> None:
    own = windowing(size="ready", ahead=3)
    waves = cut(own, {0: [0, 2, 4, 6], 1: [1, 3]})
    assert all(len(window.rows) == 1 for wave in waves for window in wave)
    assert [[w.rows for w in wave] for wave in joined(own, waves)] == [
        [(0, 2, 4), (1, 3)],
        [(6,)],
    ]


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({"on_error": "set_aside"}, [1, 8, 8, 8]),
        ({"on_error": "stop"}, [1, 2, 4, 8]),
        ({"size": "ready"}, [1, 2, 4, 4]),
    ],
)
def test_the_first_slice_is_one_window_and_others_half_of_what_may_run_ahead(
    options: dict[str, Any], counts: list[int]
) -> None:
    own = windowing(ahead=16, **options)
    parts = list(slices(own, cut(own, {0: list(range(100))})))
    sizes = [sum(len(wave) for wave in part) for part in parts]
    assert sizes[:4] == counts
    assert sum(sizes) == 100
