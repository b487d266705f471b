"""An expression means what DuckDB means by it: the same value, or a refusal. What sqlglot reads
otherwise is listed in docs/plan-language.md.
"""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from typing import Any

import pytest

from semgraph.errors import Fault
from semgraph.expr.duckdb import check_scalar, connection, type_of
from semgraph.expr.scalar import parse_scalar
from tests.relational.executors import SOURCE, by_duckdb, by_rows, of_node
from tests.relational.test_row_scalars import projected

EQUAL = [
    "2 IN [1, NULL]", "2 NOT IN [1, NULL]", "NULL IN [1, NULL]", "NULL IN []", "2 IN []", "2 NOT IN []", "2 IN (1, NULL)", "2 IN [1, 2][1:1]",
    "2 IN [1] || [2]", "[2] IN [[2], NULL]", "[2] IN ([2])", "(1, 2) IN [(1, 2)]", "(1, 2) IN ((1, 2), (3, 4))", "2 IN CAST(NULL AS INT[])",
    "1 IN range(3)", "'a' IN 'abc'", "'a' IN ('abc')", "NOT 2 IN [1, NULL] AND TRUE", "[x IN [1, NULL] FOR x IN [1, 3]]", "NULL NOT IN [NULL]",
    "list_filter([1, 2, 3], lambda x: x IN [1, NULL])", "list_transform(range(3), lambda x: x NOT IN [1, NULL])", "CASE WHEN 2 IN [NULL] THEN 1 ELSE 2 END",
    r"E'x\ty'", r"e'\n'", "$$a'b$$", "$t$abc$t$", "N'abc'", "'a'\n'b'", "'it''s'", "-0.0", "-(0.0)", "CAST(-0.0 AS DOUBLE)", "0.0::DOUBLE * -1",
    "7 // 2", "-7 // 2", "7 % 3", "2 ** 3 ** 2", "@(-5)", "~5", "5 & 3", "1 << 3", "'abc' ~ 'b'", "'abc' !~ 'b'", "'abc' ^@ 'a'", "1 ISNULL", "1 NOTNULL", "1_000", ".5", "DATE '2020-01-31' + INTERVAL 1 MONTH", "[1, 2, 3][-2:]", "'abc'[1:2]", "{'a': 1}.a", "MAP {'a': 1}['a']", "row(1, 2)",
    "extract(dow FROM DATE '2020-01-05')", "date_trunc('month', DATE '2020-01-02')", "substring('abc' FROM 2 FOR 1)", "trim(BOTH 'x' FROM 'xax')",
    "regexp_replace('abab', 'a', 'x', 'g')", "list_sort([2, 1, NULL], 'DESC')", "'{\"a\": {\"b\": \"x\"}}' -> 'a' ->> 'b'", "try(1 / 0)", "1 = '1'",
    "decode('a'::BLOB, 'ignore')", "ifnull(NULL, 1)", r"$$%C:\users%$$", r"E'\\user'", "1 IN\n(1, 2)", "'ab' SIMILAR TO ('a.*')",
    "CAST('abc' AS CHARACTER VARYING(5))",
]  # fmt: skip
REFUSED = [
    "'a' 'b'", "iif(TRUE, 1, 2)", "nvl(NULL, 2)", "nvl2(1, 2, 3)", "to_char(1, '9')", "to_number('1')", "initcap('a')", "array_size([1])",
    "explode([1])", "charindex('b', 'abc')", "locate('b', 'abc')", "'a' RLIKE 'b'", "'a' REGEXP 'b'", "7 DIV 2", "1 <=> NULL", "div(7, 2)",
]  # fmt: skip


def value(sql: str) -> Any:
    """What DuckDB computes, with its type."""
    cursor = connection().cursor().execute(f"SELECT {sql} AS x")
    return repr(cursor.fetchall()), str(cursor.description[0][1]).split("(")[0]


@pytest.mark.parametrize("text", EQUAL)
def test_an_expression_has_duckdbs_value(text: str) -> None:
    scalar = parse_scalar(text)
    assert value(scalar.sql) == value(text)
    assert value(parse_scalar(scalar.sql).sql) == value(text)
    check_scalar(scalar, SOURCE.schema)


@pytest.mark.parametrize("text", REFUSED)
def test_what_duckdb_refuses_is_refused(text: str) -> None:
    with pytest.raises(Exception, match="Error"):
        value(text)
    with pytest.raises(Fault):
        check_scalar(parse_scalar(text), SOURCE.schema)


def test_every_example_of_duckdb_means_the_same_or_is_refused() -> None:
    sql = "SELECT DISTINCT unnest(examples) FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate') AND stability = 'CONSISTENT'"
    compared = 0
    for (text,) in connection().cursor().execute(sql).fetchall():
        try:
            theirs = value(text)
            ours = parse_scalar(text).sql
        except Exception:  # noqa: BLE001 - an example that does not stand alone, or is not read
            continue
        if "BLOB" not in text:  # `repeat` of a BLOB is refused by the bound on its length
            assert value(ours) == theirs, text
            compared += 1
    assert compared > 250


@pytest.mark.parametrize("text", [*REFUSED, "SHOW x", "ALTER TABLE x foo", "GRANT x y", "CALL f(x)", "approx_top_k(n, 5)"])  # fmt: skip
def test_nothing_is_logged(text: str, caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    with caplog.at_level(logging.DEBUG), suppress(Fault):
        check_scalar(parse_scalar(text), SOURCE.schema)
    assert not [r for r in caplog.records if r.name.startswith("sqlglot")]
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("text", ["-0.0", "-(0.0)", "coalesce(NULL, -0.0)", "-(CASE WHEN yes THEN 0.0 ELSE 0.0 END)", "-(-0.0)", "[-0.0]"])  # fmt: skip
def test_both_executors_give_zero_one_sign(text: str) -> None:
    segment, row = of_node(projected(text)), tuple(None for _ in SOURCE.schema)
    ours, theirs = by_rows(segment, {"t": [row]}), by_duckdb(segment, {"t": [row]})
    assert repr([r[0] for r in theirs or ()]) in (repr([r[0] for r in ours or ()]), "[]")


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_parameter_may_be_a_number_that_is_not_finite(number: float) -> None:
    scalar = parse_scalar("$x", {"x": number})
    assert str(type_of(scalar, SOURCE.schema)) == "double"
    assert eval(value(scalar.sql)[0], {"inf": math.inf, "nan": math.nan})[0][0] == pytest.approx(number, nan_ok=True)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "hint"),
    [("n::" + "int[]" * 400, "nested"), ("n" + "::int" * 490, "nested"), ("n" + "[1]" * 490, "nested"), ("n" + ".a" * 499, "nested")],
    ids=["type", "cast", "item", "field"],
)  # fmt: skip
def test_an_expression_at_pythons_limits_is_a_fault(text: str, hint: str) -> None:
    with pytest.raises(Fault, match="cannot read the expression") as refused:
        parse_scalar(text)
    assert hint in str(refused.value.there) or refused.value.there
