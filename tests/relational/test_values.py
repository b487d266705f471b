"""Values have one meaning however a plan is computed: DuckDB's, for NaN, for types that differ and
for conditions.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.relational.conftest import Run, column, plan

ROWS = [
    {"id": i, "t": text, "s": "ab"} for i, text in enumerate(["nan", "0.1", "1.5", None, "-inf"])
]
FLOATS = '    - add: {x: "try_cast(t AS DOUBLE)"}\n'
COMPARISONS = {
    "x > 0.5": [0, 2],
    "x >= 'nan'::DOUBLE": [0],
    "x < 0.5": [1, 4],
    "x <= 'nan'::DOUBLE": [0, 1, 2, 4],
    "x = x": [0, 1, 2, 4],
    "x <> x": [],
    "x <> 0.1": [0, 2, 4],
    "NOT x > 0.5": [1, 4],
    "x > 0.5 OR x IS NULL": [0, 2, 3],
}


@pytest.mark.parametrize("more", ["", " AND length(s) > 0"], ids=["alone", "with a function"])
@pytest.mark.parametrize("test", COMPARISONS)
def test_nan_is_equal_to_itself_and_greater_than_any_number(run: Run, test: str, more: str) -> None:
    steps = f'{FLOATS}    - filter: "({test}){more}"\n'
    assert (
        column(run(plan("id: int64, t: string null, s: string", steps), rows=ROWS), "id")
        == COMPARISONS[test]
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (
            "coalesce(valid_at, '2020-01-01')",
            [datetime(2025, 1, 1, tzinfo=UTC), datetime(2020, 1, 1, tzinfo=UTC)],
        ),
        ("coalesce(n, '7')", [1, 7]),
        ("NOT n", [False, None]),
        ("n AND m", [True, None]),
        ("n OR m", [True, True]),
        ("coalesce(n, 0.5)", [1.0, 0.5]),
        ("coalesce(s, s)", [{"a": 1}, None]),
        ("m = 1.0", [True, True]),
    ],
)
def test_types_that_differ_meet_as_in_sql(run: Run, expression: str, expected: list[Any]) -> None:
    rows = [
        {"valid_at": datetime(2025, 1, 1, tzinfo=UTC), "n": 1, "m": 1, "s": {"a": 1}},
        {"valid_at": None, "n": None, "m": 1, "s": None},
    ]
    columns = 'valid_at: timestamp null, n: int64 null, m: int64, s: "struct<a: int64> null"'
    made = run(plan(columns, f'    - add: {{x: "{expression}"}}\n'), rows=rows)
    assert column(made, "x") == expected
