"""Columns that nothing reads: what stays has its place, and rows are as many as before."""

from __future__ import annotations

from tests.relational.conftest import Run, plan

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]


def test_a_replaced_column_keeps_its_place(run: Run) -> None:
    steps = '    - project: {id: "id + 1", n: "1"}\n    - add: {id: "7"}\n    - union: [[{from: kept}]]\n'
    text = (
        plan("id: int64, name: string", steps)
        .replace("  made:\n", "  kept:\n")
        .replace("    - union", "  made:\n    - union")
    )
    assert [list(row.items()) for row in run(text, rows=ROWS)] == [[("id", 7), ("n", 1)]] * 2


def test_an_aggregate_over_all_rows_of_which_nothing_is_read_is_one_row(run: Run) -> None:
    steps = '    - aggregate: {add: {n: count(*)}}\n    - project: {one: "1"}\n'
    assert run(plan("id: int64, name: string", steps), rows=ROWS) == [{"one": 1}]
