"""What a plan file and an expression may take is bounded: a clear error at its place, before
anything large is made.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from semgraph.errors import DataError, PlanError
from semgraph.frontend.load import load_plan
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
def test_a_size_that_depends_on_a_row_is_bounded_when_the_plan_runs(
    run: Run, expression: str
) -> None:
    text = plan(COLUMNS, f'    - add: {{y: "{expression}"}}\n')
    assert len(run(text, rows=ROWS)) == 1
    with pytest.raises(DataError, match="step made: .*makes at most 1,000,000 characters or items"):
        run(text, rows=[{**ROWS[0], "n": 3_000_000}])


def test_series_and_paddings_within_the_bound_are_as_in_sql(run: Run) -> None:
    steps = (
        '    - project: {a: "range(n)", b: "range(n, -2, -2)", c: "range(5, n)", d: "lpad(x, 4, \'-\')", e: "repeat(x, n)",\n'
        "        f: \"len(range(TIMESTAMPTZ '2025-01-01', TIMESTAMPTZ '2025-01-02', INTERVAL 1 HOUR))\", g: \"repeat(l, 2)\",\n"
        '        h: "range(n, 9000, 5000)", i: "range(n, -9000, -5000)"}\n'
    )
    expected = {
        "a": [0, 1, 2],
        "b": [3, 1, -1],
        "c": [],
        "d": "--ab",
        "e": "ababab",
        "f": 24,
        "g": [1, 2, 1, 2],
        "h": [3, 5003],
        "i": [3, -4997],
    }
    assert run(plan(COLUMNS, steps), rows=ROWS) == [expected]


def test_a_file_of_too_many_values_is_refused_at_the_first_that_is_too_many(tmp_path: Path) -> None:
    text = plan(COLUMNS, "", head=f"params: {{many: [{', '.join(['1'] * 300_000)}]}}\n")
    message = refusal(tmp_path, text)
    assert "plan.yaml:4:" in message
    assert "more than 20,000 keys and values" in message


def test_a_plan_of_too_many_operators_is_refused_once_at_the_first_that_is_too_many(
    tmp_path: Path,
) -> None:
    steps = "".join(f"  s{i}:\n    - from: rows\n    - filter: n > {i}\n" for i in range(600))
    text = f"plan: wide\ninputs:\n  rows: {{n: int64}}\nsteps:\n{steps}returns: [s0]\n"
    assert refusal(tmp_path, text).startswith(
        str(tmp_path / "plan.yaml") + ":1506:7  a plan has at most 1,000 operators"
    )
    assert len(refusal(tmp_path, text).splitlines()) == 1


def test_uses_of_a_long_list_are_counted_together_also_in_called_plans(tmp_path: Path) -> None:
    inner = "    - filter: list_contains($many, n)\n" * 20
    text = f"plan: inner\ninputs: {{rows: {{n: int64}}}}\nparams: {{many: [1]}}\nsteps:\n  made:\n    - from: rows\n{inner}returns: [made]\n"
    (tmp_path / "inner.yaml").write_text(text)
    head = f"params: {{many: [{', '.join(['1'] * 4_000)}]}}\n"
    calls = "".join(
        f"  s{i}:\n    - call: {{plan: inner, inputs: {{rows: rows}}, params: {{many: $many}}}}\n"
        for i in range(9)
    )
    message = refusal(
        tmp_path,
        f"plan: outer\ninputs:\n  rows: {{n: int64}}\n{head}steps:\n{calls}returns: [s0]\n",
    )
    assert "inner.yaml:12:7  parameters bring lists of more than 100,000 items" in message
    assert len(message.splitlines()) == 1


def test_plans_that_call_each_other_too_deep_are_refused(tmp_path: Path) -> None:
    for i in range(60):
        (tmp_path / f"p{i}.yaml").write_text(
            f"plan: p{i}\ninputs: {{rows: {{n: int64}}}}\nsteps:\n  made:\n    - call: {{plan: p{i + 1}, inputs: {{rows: rows}}}}\nreturns: [made]\n"
        )
    message = refusal(tmp_path, (tmp_path / "p0.yaml").read_text())
    assert "p49.yaml:5:20  step made" in message
    assert "at most 50 deep" in message


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
def test_an_expression_that_is_too_long_or_too_deep_is_refused(
    tmp_path: Path, expression: str, message: str
) -> None:
    found = refusal(tmp_path, plan(COLUMNS, f'    - add: {{y: "{expression}"}}\n'))
    assert "plan.yaml:7:16" in found
    assert message in found
    assert len(found) < 500


def test_hundreds_of_conditions_and_operators_in_a_row_run(run: Run) -> None:
    test = " AND ".join(f"n <> {i}" for i in range(100, 300))
    total = "".join(f" + {i} - {i}" for i in range(100))
    steps = f'    - filter: "{test}"\n    - filter: "n{total} > 0"\n' + "".join(
        f'    - add: {{m: "n + {i}"}}\n' for i in range(250)
    )
    assert column(run(plan(COLUMNS, steps), rows=ROWS), "m") == [252]


@pytest.mark.parametrize("operands", [10, 40, 90, 120, 240, 400])
def test_expressions_of_any_admitted_depth_run(run: Run, operands: int) -> None:
    total = "n" + " + 1" * operands
    steps = f'    - add: {{m: "{total}"}}\n'
    assert column(run(plan(COLUMNS, steps), rows=ROWS), "m") == [3 + operands]


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
