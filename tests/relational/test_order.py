"""Orders: a constant orders nothing, and rows that an order leaves equal stay in row order, in
every operator.
"""

from __future__ import annotations

from typing import Any

import pytest

from semgraph.conformance.cases import Oracle
from tests.relational.conftest import Run, column, plan

CONSTANTS = ["1", "1 desc", "2 desc", "-1", "(1) desc", "1 + 1", "CAST(2 AS INTEGER) desc", "'x' desc", "NULL", "TRUE desc",
             "1.5 desc", "$one desc", "$text desc", "$now desc", "[2, 1] desc", "coalesce(2, 1) desc"]  # fmt: skip
HEAD = "params: {one: 1, text: abc}\n"
IDS = [{"id": i, "name": f"n{i}", "k": i * 7919 % 3} for i in range(30)]
ROW_ORDER = [row["id"] for row in sorted(IDS, key=lambda row: row["k"])]  # by k, ties in row order


@pytest.mark.parametrize("term", CONSTANTS)
def test_a_constant_orders_nothing_in_a_limit_that_stops_early(run: Run, term: str) -> None:
    steps = (
        f'    - sem_filter: {{prompt: "Loud: {{name}}"}}\n    - limit: {{n: 1, order: "{term}"}}\n'
    )
    rows = run(plan("id: int64, name: string, k: int64", steps, head=HEAD), rows=IDS[:4])
    assert column(rows, "id") == [0]


@pytest.mark.parametrize("term", CONSTANTS)
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ('    - limit: {n: 2, order: ["TERM", "id desc"]}\n', [2, 3]),
        ('    - sort: ["TERM", "id desc"]\n', [3, 2, 1, 0]),
        ('    - limit: {n: 2, order: "TERM"}\n', [0, 1]),
    ],
)
def test_a_constant_orders_nothing_in_relational_steps(
    run: Run, term: str, steps: str, expected: list[int]
) -> None:
    rows = run(
        plan("id: int64, name: string, k: int64", steps.replace("TERM", term), head=HEAD),
        rows=IDS[:4],
    )
    assert column(rows, "id") == expected


@pytest.mark.parametrize("term", CONSTANTS)
def test_a_constant_orders_nothing_in_a_group_join(run: Run, term: str) -> None:
    for limit, expected in ((", limit: 2", [0, 3]), ("", [0, 3, 6])):
        join = f'    - group_join: {{other: rows, alias: o, using: k, order: "{term}"{limit}, add: {{found: list(o.id)}}}}\n'
        rows = run(plan("id: int64, name: string, k: int64", join, head=HEAD), rows=IDS[:7])
        assert rows[0]["found"] == expected


@pytest.mark.parametrize("term", [*CONSTANTS, "o", "g desc"])
def test_the_rows_of_a_sem_agg_go_by_its_order(run: Run, oracle: Oracle, term: str) -> None:
    seen: list[list[str]] = []

    def combine(texts: list[str], _parts: Any) -> dict[str, Any]:
        seen.append(texts)
        return {"word": "w"}

    oracle.mind.combine = combine
    steps = f'    - sem_agg: {{prompt: "Word for {{id}}", by: [k], order: "{term}", returns: {{word: string}}}}\n'
    rows = [{"id": i, "k": 0, "o": -i, "g": i} for i in range(4)]
    run(plan("id: int64, k: int64, o: int64, g: int64", steps, head=HEAD), rows=rows)
    asked = [text.rpartition(" ")[2] for text in seen[0]]
    assert asked == (["3", "2", "1", "0"] if term in {"o", "g desc"} else ["0", "1", "2", "3"])


@pytest.mark.parametrize("name", ["o", "g", "l", "r", "x", "n"])
def test_a_limit_that_stops_early_goes_by_a_column_of_any_name(run: Run, name: str) -> None:
    steps = f'    - sem_filter: {{prompt: "Loud: {{id}}"}}\n    - limit: {{n: 1, order: {name}}}\n'
    rows = run(
        plan(f"id: int64, {name}: int64", steps), rows=[{"id": i, name: -i} for i in range(4)]
    )
    assert column(rows, "id") == [3]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("list(id ORDER BY k)", ROW_ORDER),
        ("list(id ORDER BY 'x')", list(range(30))),
        ("list(id ORDER BY 1 desc)", list(range(30))),
        ("list(id ORDER BY k DESC)", [row["id"] for row in sorted(IDS, key=lambda row: -row["k"])]),
        ("list(id ORDER BY k) FILTER (WHERE id > 3)", [i for i in ROW_ORDER if i > 3]),
        ("string_agg(name, ',' ORDER BY k)", ",".join(f"n{i}" for i in ROW_ORDER)),
        ("string_agg(name, ',')", ",".join(f"n{i}" for i in range(30))),
        ("first(id ORDER BY k)", 0),
        ("last(id ORDER BY k)", 28),
        ("arbitrary(id)", 0),
        ("any_value(id ORDER BY k DESC)", 1),
        ("arg_max(id, k)", 1),
        ("arg_min(id, k)", 0),
        ("max_by(id, k)", 1),
        ("arg_max_null(id, k)", 1),
        ("list(DISTINCT k ORDER BY -k)", [2, 1, 0]),
        ("list(DISTINCT name ORDER BY length(name))[1:3]", ["n0", "n1", "n2"]),
        ("mode(k)", 0),
    ],
)
@pytest.mark.parametrize("form", ["aggregate", "group_join", "window"])
def test_rows_that_an_aggregate_leaves_equal_are_in_row_order(
    run: Run, form: str, expression: str, expected: object
) -> None:
    other = (
        expression.replace("id", "o.id").replace("name", "o.name").replace("k", "o.k")
        if form == "group_join"
        else ""
    )
    steps = {
        "aggregate": f'    - aggregate: {{add: {{x: "{expression}"}}}}\n',
        "group_join": f'    - limit: {{n: 1}}\n    - group_join: {{other: rows, alias: o, where: "TRUE", add: {{x: "{other}"}}}}\n',
        "window": f'    - limit: {{n: 1}}\n    - project: {{x: "{expression}"}}\n',
    }[form]
    if form == "window":
        head, bracket, rest = expression.partition("[")
        over = f"{head} OVER (){bracket}{rest}"
        steps = f'    - project: {{x: "{over}"}}\n    - limit: {{n: 1}}\n'
    # The join makes DuckDB give rows in an order of its own, which must not show.
    shuffled = "    - join: {other: rows, alias: twin, using: id}\n" + steps
    for text in (steps, shuffled):
        rows = run(plan("id: int64, name: string, k: int64", text), rows=IDS)
        assert rows[0]["x"] == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("row_number() OVER (ORDER BY k)", [1, 3, 2, 4]),
        ("first_value(id) OVER (ORDER BY k)", [0, 0, 0, 0]),
        ("last_value(id) OVER (ORDER BY k)", [2, 3, 2, 3]),
        ("last_value(id IGNORE NULLS) OVER (ORDER BY k)", [2, 3, 2, 3]),
        ("nth_value(id, 2) OVER (ORDER BY k)", [2, 2, 2, 2]),
        ("first_value(id) OVER (ORDER BY k DESC)", [1, 1, 1, 1]),
        ("lag(id) OVER (ORDER BY k)", [None, 2, 0, 1]),
        ("lag(id IGNORE NULLS) OVER (ORDER BY k)", [None, 2, 0, 1]),
        (
            "list(id) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
            [[0], [2, 1], [0, 2], [1, 3]],
        ),
        ("sum(id) OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)", [0, 3, 2, 4]),
        ("rank() OVER (ORDER BY k)", [1, 3, 1, 3]),
        ("sum(id) OVER (ORDER BY k)", [2, 6, 2, 6]),
        (
            "first_value(id) OVER (ORDER BY k RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
            [0, 0, 0, 0],
        ),
    ],
)
def test_rows_that_a_window_leaves_equal_are_in_row_order(
    run: Run, expression: str, expected: list[Any]
) -> None:
    rows = [{"id": i, "k": i % 2} for i in range(4)]
    made = run(plan("id: int64, k: int64", f'    - add: {{x: "{expression}"}}\n'), rows=rows)
    assert column(made, "x") == expected


def test_sums_of_floats_are_those_of_the_rows_in_their_order(run: Run) -> None:
    rows = [{"id": i, "d": d} for i, d in enumerate([1e16, 1.0, 1.0, -1e16] * 5)]
    steps = (
        '    - join: {other: rows, alias: twin, using: id}\n    - aggregate: {add: {x: "sum(d)"}}\n'
    )
    total = 0.0
    for row in rows:
        total += row["d"]
    assert run(plan("id: int64, d: double", steps), rows=rows) == [{"x": total}]


WINDOWS = "windows: {input: rows, partition: who, order: [at], key: id, size: WINDOW}\n"
UNSORTED = [
    {"id": f"{who}{at}", "who": who, "at": at}
    for who, at in [("a", 5), ("b", 9), ("a", 1), ("a", 0), ("b", 2), ("a", 1.5)]
]
COLUMNS = "id: string, who: string, at: double"


def test_rows_of_a_window_are_sorted_as_the_order_says(run: Run) -> None:
    head = WINDOWS.replace("WINDOW", "all")
    assert column(run(plan(COLUMNS, "    - limit: {n: 2}\n", head=head), rows=UNSORTED), "id") == [
        "a0",
        "a1",
        "b2",
        "b9",
    ]
    numbered = run(
        plan(COLUMNS, '    - add: {n: "row_number() OVER ()"}\n', head=head), rows=UNSORTED
    )
    assert [(row["id"], row["n"]) for row in numbered] == [
        ("a0", 1), ("a1", 2), ("a1.5", 3), ("a5", 4), ("b2", 1), ("b9", 2),
    ]  # fmt: skip
    listed = run(
        plan(COLUMNS, "    - aggregate: {by: [who], add: {ids: list(id)}}\n", head=head),
        rows=UNSORTED,
    )
    assert column(listed, "ids") == [["a0", "a1", "a1.5", "a5"], ["b2", "b9"]]


def test_windows_of_two_rows_hold_the_rows_that_follow_each_other(run: Run) -> None:
    head = WINDOWS.replace("WINDOW", "2")
    made = run(
        plan(COLUMNS, "    - aggregate: {by: [who], add: {ids: list(id)}}\n", head=head),
        rows=UNSORTED,
    )
    assert sorted(column(made, "ids")) == [["a0", "a1"], ["a1.5", "a5"], ["b2", "b9"]]


@pytest.mark.parametrize("ahead", [1, 64])
def test_a_result_has_each_window_as_the_plan_sorts_it(run: Run, ahead: int) -> None:
    head = WINDOWS.replace("WINDOW", f"all, ahead: {ahead}")
    made = run(plan(COLUMNS, '    - sort: ["at desc"]\n', head=head), rows=UNSORTED)
    assert column(made, "id") == ["a5", "a1.5", "a1", "a0", "b9", "b2"]


@pytest.mark.parametrize("limit", ["", ", limit: 30"])
def test_ties_inside_an_aggregate_of_a_group_join_go_by_its_order(run: Run, limit: str) -> None:
    add = "{ids: list(other.id ORDER BY other.k)}"
    steps = f'    - group_join: {{other: rows, alias: other, where: "TRUE", order: "other.id desc"{limit}, add: {add}}}\n'
    rows = run(plan("id: int64, name: string, k: int64", steps), rows=IDS)
    assert rows[0]["ids"] == [
        row["id"] for row in sorted(IDS, key=lambda row: (row["k"], -row["id"]))
    ]


@pytest.mark.parametrize(
    "condition", ["row_number() OVER () < 3", "(count(*) OVER () = 1 OR row_number() OVER () < 3)"]
)
def test_a_window_function_of_no_column_is_computed_over_the_rows(run: Run, condition: str) -> None:
    rows = run(
        plan("id: int64, name: string, k: int64", f'    - filter: ["{condition}", "k <> 2"]\n'),
        rows=IDS[:4],
    )
    assert column(rows, "id") == [0]
