"""Which scalars have a value for every row: what rules may compute over rows that a plan would have
screened.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from semgraph.errors import DataError
from semgraph.expr.scalar import ROWS, parse_scalar
from semgraph.optimizer.patterns import never_fails
from semgraph.relational.segments import execute

TIME = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [("n", pa.int64()), ("d", pa.float64()), ("s", pa.string()), ("t", pa.string()), ("w", TIME), ("b", pa.bool_()),
     ("l", pa.list_(pa.int64())), ("ls", pa.list_(pa.string())), ("o", pa.struct([("n", pa.int64()), ("s", pa.string())]))]
)  # fmt: skip
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
WORST = pa.table(
    {
        "n": [LARGEST, SMALLEST, 0, None],
        "d": [float("inf"), float("nan"), 1e308, None],
        "s": ["", "x\\", "0 ç", None],
        "t": ["[", "9" * 40, "%", None],
        "w": pa.array([SMALLEST + 2**62, 0, 2**62, None], TIME),
        "b": [True, False, None, None],
        "l": [[], [LARGEST, None], [0], None],
        "ls": [[], ["", None], ["x"], None],
        "o": [{"n": LARGEST, "s": ""}, {"n": None, "s": None}, {"n": 0, "s": "0"}, None],
    },
    schema=SCHEMA,
)
TOTAL = (
    "n > 3", "s <> 'Ann'", "n IS NOT NULL AND length(s) > 2", "word_count(s) >= 1 OR NOT n < 40", "n % 2 = 0", "n = '3'",
    "w > '2024-01-01'", "n IN (1, 2, NULL)", "n NOT IN (1, 2)", "s IN ls", "list_contains(l, n)", "n BETWEEN -2 AND d", "d > n",
    "CAST(n AS VARCHAR) = s", "CAST(l AS VARCHAR) = s", "TRY_CAST(s AS BIGINT) = 1", "coalesce(s, 'a') = key(t)",
    "CASE WHEN b THEN n ELSE 0 END = 1", "CASE s WHEN t THEN 1 WHEN 'x' THEN 2 END = 1", "if(b, s, 'x') = t", "b", "NOT b",
    "b IS TRUE", "o.n > 2", "o IS NULL", "o.s LIKE 'a%'", "s ILIKE t", "n > 0.5", "w < $now", "id(s, n, w, l, o) = 'x'",
    "[n, 2] = l", "list_sort([s, t]) = list_sort([t, s])", "list_has_any(ls, [s])", "{'a': n} = {'a': 3}",
    "alike(s, t) > 0.5 AND overlap(s, t) > 0 AND char_entropy(s) > 1", "cut(s, n) = words(s)", "uuid5(s) = t", "s || n = 'x'",
    "concat(s, w) = upper(t)", "trim(s) = lower(t)", "nullif(n, 3) = 4", "greatest(n, d) > least(n, 2)", "contains(s, t)",
    "starts_with(s, t)", "s IS DISTINCT FROM t", "CAST(n AS DOUBLE) > 1", "CAST('1' AS BIGINT) < n", "upper('a') = s", "NULL",
    "count(o) > 1", "max(o.n) > 2", "len(list({'a': n}) FILTER (o IS NOT NULL)) = 2", "len(list(s ORDER BY n DESC)) = 2",
)  # fmt: skip
FAILING = (
    "n + n > 2", "-n / 2 > d", "n * n > 1", "n % 0 = 1", "n // 0 = 1", "n = s", "s = 1", "s IN (1, 'a')", "n IS DISTINCT FROM s",
    "CAST(s AS BIGINT) > 1", "CAST(n AS INTEGER) > 1", "CAST(d AS BIGINT) > 1", "CAST(s AS DATE) > DATE '2024-01-01'",
    "CAST(o.s AS DOUBLE) > 1", "substring(s, 1, n) = 'a'", "abs(n) > 1", "nullif(n, t) = 1",
    "n > 0.1234567890123456789012345678901234567", "regexp_matches(s, t)", "strptime(s, '%Y') > w", "b AND s", "error(s) = 'x'",
    "len(list_transform(l, x -> x + 1)) > 1", "len([x + 1 for x in l]) > 1", "coalesce(b, s) = b",
)  # fmt: skip
NOT_KNOWN = ("n + 1 > 2", "sum(n) > 1", "sqrt(n) > 1", "l[1] = 1", "n / 2 > 1", "n = 99999999999999999999", "coalesce(n, 'x') > 1", "row_number() OVER () < 3",
             "len(list_filter(l, x -> x = 3)) > 0", "strlen(s) > 2", "s LIKE 'a!%' ESCAPE '!'")  # fmt: skip


async def computed(text: str) -> None:
    sql = parse_scalar(text).sql.replace("$now", "TIMESTAMPTZ '2024-01-01'")
    await execute(
        f"SELECT CAST(({sql}) AS BOOLEAN) AS x FROM {ROWS}",
        {ROWS: WORST},
        pa.schema([("x", pa.bool_())]),
    )


@pytest.mark.parametrize("text", TOTAL)
async def test_what_is_said_not_to_fail_has_a_value_for_the_worst_rows(text: str) -> None:
    assert never_fails(parse_scalar(text), SCHEMA)
    await computed(text)


@pytest.mark.parametrize("text", FAILING)
async def test_what_fails_on_some_row_is_not_said_to_be_safe(text: str) -> None:
    assert not never_fails(parse_scalar(text), SCHEMA)
    with pytest.raises(DataError):
        await computed(text)


@pytest.mark.parametrize("text", NOT_KNOWN)
def test_of_what_is_not_listed_nothing_is_promised(text: str) -> None:
    assert not never_fails(parse_scalar(text), SCHEMA)


def test_a_constant_is_tried() -> None:
    assert never_fails(parse_scalar("n < CAST('12' AS BIGINT)"), SCHEMA)
    assert not never_fails(parse_scalar("n < CAST('twelve' AS BIGINT)"), SCHEMA)
    assert not never_fails(parse_scalar("w > 'yesterday'"), SCHEMA)
