"""A guard of a size works wherever an expression stands: in orders, among distinct values, in
filters of aggregates and in partitions. A plan that passes its checks does not fail to bind.
"""

from __future__ import annotations

import pytest

from semgraph.errors import DataError
from tests.relational.conftest import Run, plan

COLUMNS = "x: string, n: int64, l: list<int64>"
ROWS = [
    {"x": "b", "n": 2, "l": [1]},
    {"x": "a", "n": 3, "l": [2, 2]},
    {"x": "b", "n": 2, "l": None},
]
GUARDED = ["repeat(x, n)", "len(range(n))", "list_resize(l, n)", "format(x || '{}', n)", "lpad(x, CAST(n AS INTEGER), '-')", "CASE WHEN n > 9 THEN error('too ' || n) ELSE n END"]  # fmt: skip
STEPS = [
    'sort: ["{0} desc", x]', 'limit: {{n: 2, order: ["{0}"]}}', 'limit: {{n: 1, by: [x], order: ["{0} desc"]}}', 'aggregate: {{add: {{a: "count(DISTINCT {0})"}}}}',
    'aggregate: {{add: {{a: "list(DISTINCT {0})"}}}}', 'aggregate: {{add: {{a: "list(x ORDER BY {0})", b: "first(n ORDER BY {0} DESC)"}}}}',
    "aggregate: {{add: {{a: \"string_agg(x, ',' ORDER BY {0})\"}}}}", 'aggregate: {{add: {{a: "count(*) FILTER (WHERE {0} IS NOT NULL)"}}}}',
    'aggregate: {{by: {{k: "{0}"}}, add: {{a: "count(*)"}}}}', 'add: {{a: "row_number() OVER (PARTITION BY {0})"}}', 'add: {{a: "rank() OVER (ORDER BY {0})"}}',
    'add: {{a: "count(*) FILTER (WHERE {0} IS NULL) OVER (PARTITION BY x)"}}', 'filter: "{0} IS NOT NULL"',
    'group_join: {{other: rows, alias: o, where: "o.x = x", order: ["{0}"], limit: 1, add: {{a: "list(o.n)"}}}}',
]  # fmt: skip


@pytest.mark.parametrize("guarded", GUARDED)
@pytest.mark.parametrize("step", STEPS)
def test_a_guard_may_stand_anywhere(run: Run, step: str, guarded: str) -> None:
    text = plan(COLUMNS, f"    - {step.format(guarded)}\n")
    assert run(text, rows=ROWS)
    if not guarded.startswith("format"):
        with pytest.raises(
            DataError, match="makes at most 1,000,000 characters or items|too 30000000"
        ):
            run(text, rows=[*ROWS, {"x": "z", "n": 30_000_000, "l": [3]}])
