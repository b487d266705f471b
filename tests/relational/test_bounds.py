"""What a plan file and an expression may take is bounded: a clear error at its place, before anything large is made."""

from __future__ import annotations

from pathlib import Path

import pytest

from semgraph.errors import DataError, PlanError
from semgraph.frontend.yaml import load_plan
from tests.relational.conftest import Run, column, plan

COLUMNS = "x: string, n: int64, l: list<int64>"
ROWS = [{"x": "ab", "n": 3, "l": [1, 2]}]
HUGE = [
    "lpad(x, 2000000000, 'a')",
    "rpad('x', 2000000000, 'a')",
    "repeat(x, 2000000000)",
    "repeat('abc', 500000)",
    "len(range(1000000000))",
    "len(generate_series(0, -1000000000, -1))",
    "list_resize(l, 1000000000)",
    "printf('%1000000000d', n)",
    "format('{:>1000000000}', x)",
    "format('{:>{}}', x, n)",
]
BY_ROW = [
    "repeat(x, n)",
    "lpad(x, CAST(n AS INTEGER), 'a')",
    "len(range(n))",
    "len(range(0, n * 2, 2))",
    "len(range(0, -n, -1))",
    "list_resize(l, n)",
    "[i FOR i IN range(n)]",
]


def refusal(tmp_path: Path, text: str) -> str:
    """What the check says of a plan."""
    path = tmp_path / "plan.yaml"
    path.write_text(text)
    with pytest.raises(PlanError) as refused:
        load_plan(path)
    return str(refused.value)


@pytest.mark.parametrize("expression", HUGE)
def test_a_call_that_would_make_a_huge_value_is_refused(tmp_path: Path, expression: str) -> None:
    message = refusal(tmp_path, plan(COLUMNS, f'    - add: {{y: "{expression}"}}\n'))
    assert "plan.yaml:7:16" in message
    assert "makes at most 1,000,000 characters or items" in message


@pytest.mark.parametrize("expression", BY_ROW)
def test_a_size_that_depends_on_a_row_is_bounded_when_the_plan_runs(run: Run, expression: str) -> None:
    text = plan(COLUMNS, f'    - add: {{y: "{expression}"}}\n')
    assert len(run(text, rows=ROWS)) == 1
    with pytest.raises(DataError, match="step made: .*makes at most 1,000,000 characters or items"):
        run(text, rows=[{**ROWS[0], "n": 3_000_000}])


def test_series_and_paddings_within_the_bound_are_as_in_sql(run: Run) -> None:
    steps = (
        '    - project: {a: "range(n)", b: "range(n, -2, -2)", c: "range(5, n)", d: "lpad(x, 4, \'-\')", e: "repeat(x, n)",\n'
        "        f: \"len(range(TIMESTAMPTZ '2025-01-01', TIMESTAMPTZ '2025-01-02', INTERVAL 1 HOUR))\", g: \"repeat(l, 2)\"}\n"
    )
    expected = {"a": [0, 1, 2], "b": [3, 1, -1], "c": [], "d": "--ab", "e": "ababab", "f": 24, "g": [1, 2, 1, 2]}
    assert run(plan(COLUMNS, steps), rows=ROWS) == [expected]


def test_a_file_of_too_many_values_is_refused_at_the_first_that_is_too_many(tmp_path: Path) -> None:
    text = plan(COLUMNS, "", head=f"params: {{many: [{', '.join(['1'] * 300_000)}]}}\n")
    message = refusal(tmp_path, text)
    assert "plan.yaml:4:" in message
    assert "more than 20,000 keys and values" in message


def test_a_plan_of_too_many_operators_is_refused_once_at_the_first_that_is_too_many(tmp_path: Path) -> None:
    steps = "".join(f"  s{i}:\n    - from: rows\n    - filter: n > {i}\n" for i in range(600))
    text = f"plan: wide\ninputs:\n  rows: {{n: int64}}\nsteps:\n{steps}returns: [s0]\n"
    assert refusal(tmp_path, text).startswith(
        str(tmp_path / "plan.yaml") + ":1506:7  a plan has at most 1,000 operators"
    )
    assert len(refusal(tmp_path, text).splitlines()) == 1


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (" + ".join(["n"] * 12_000), "at most 500 levels"),
        (" AND ".join(["n > 1"] * 4_000), "at most 500 levels"),
        ("(" * 2_000 + "n" + ")" * 2_000, "cannot read the expression"),
        ("n IN (" + ", ".join(map(str, range(10_000))) + ")", "at most 50,000 characters"),
    ],
    ids=["sum", "conditions", "brackets", "list"],
)
def test_an_expression_that_is_too_long_or_too_deep_is_refused(tmp_path: Path, expression: str, message: str) -> None:
    found = refusal(tmp_path, plan(COLUMNS, f'    - add: {{y: "{expression}"}}\n'))
    assert "plan.yaml:7:16" in found
    assert message in found
    assert len(found) < 500


def test_hundreds_of_conditions_and_operators_in_a_row_run(run: Run) -> None:
    test = " AND ".join(f"n <> {i}" for i in range(100, 300))
    steps = f'    - filter: "{test}"\n' + "".join(f'    - add: {{m: "n + {i}"}}\n' for i in range(250))
    assert column(run(plan(COLUMNS, steps), rows=ROWS), "m") == [252]


def test_a_list_of_thousands_of_values_is_a_quick_condition(run: Run) -> None:
    text = plan(COLUMNS, "    - filter: n IN $ids\n", head="params: {ids: [3]}\n")
    assert column(run(text, {"ids": list(range(5_000))}, rows=ROWS), "n") == [3]
    with pytest.raises(PlanError, match="at most 20,000 items"):
        run(text, {"ids": list(range(30_000))}, rows=ROWS)


@pytest.mark.parametrize("expression", ["x.upper()", "x.repeat(3)", "l.list_resize(9)"])
def test_functions_behind_a_dot_are_refused(tmp_path: Path, expression: str) -> None:
    message = refusal(tmp_path, plan(COLUMNS, f'    - add: {{y: "{expression}"}}\n'))
    assert "calls a function behind a dot" in message


def test_a_quoted_name_of_a_volatile_function_is_refused(tmp_path: Path) -> None:
    message = refusal(tmp_path, plan(COLUMNS, "    - add: {y: '\"now\"()'}\n"))
    assert '"now" would make the plan give another result each time' in message
