"""A row that fails is left out of its window: the others are computed without it."""

from __future__ import annotations

import pytest

from tests.relational.conftest import Run, plan

ROWS = [
    {"id": 1, "n": 0, "group_id": "g"},
    {"id": 2, "n": 5, "group_id": "g"},
    {"id": 3, "n": 7, "group_id": "h"},
]
WINDOWS = (
    "windows: {input: rows, partition: group_id, order: [id], key: uuid, key_of: [id], size: all}\n"
)
REQUIRE = "    - require: {where: n > 0, says: \"'no'\"}\n"


@pytest.mark.parametrize(
    "steps",
    [
        '    - join: {other: rows, alias: o, where: "TRUE"}\n    - project: {id: null, met: o.id}\n',
        '    - group_join: {other: rows, alias: o, where: "TRUE", add: {met: min(o.id)}}\n    - project: {id: null, met: null}\n',
        '    - sem_join: {prompt: "Same: {n} {o.n}", other: rows, alias: o}\n    - project: {id: null, met: o.id}\n',
    ],
)
def test_a_row_that_fails_is_in_no_join_of_its_window(run: Run, steps: str) -> None:
    text = plan(
        "id: int64, n: int64, group_id: string, uuid: string null", REQUIRE + steps, head=WINDOWS
    )
    rows = run(text, rows=ROWS)
    assert [(row["id"], row["met"]) for row in rows] == [(2, 2), (3, 3)]


def test_rows_that_fail_one_after_another_leave_what_the_others_make(run: Run) -> None:
    text = """plan: small
inputs:
  rows: {id: int64, group_id: string, uuid: string null}
steps:
  counted:
    - from: rows
    - aggregate: {by: [group_id], add: {n: count(*)}}
    - require: {where: n < 3, says: "'too many'"}
returns: [counted]
windows: {input: rows, partition: group_id, order: [id], key: uuid, key_of: [id], size: all}
"""
    found = run(text, rows=[{"id": i, "group_id": "g"} for i in range(5)])
    assert found == [{"group_id": "g", "n": 2}]
