"""Types that are inferred without DuckDB's binder are those that the binder finds."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp

from semgraph.errors import Fault
from semgraph.expr.duckdb import bind, check_scalar, empty_relation, executable
from semgraph.expr.row_scalars import kind_of
from semgraph.expr.scalar import ROWS, Faithful, parse_scalar
from semgraph.expr.types import TIMESTAMP, type_of_arrow
from tests.examples import examples

SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("d", pa.float64()),
        ("s", pa.string()),
        ("w", TIMESTAMP),
        ("day", pa.date32()),
        ("b", pa.bool_()),
        ("l", pa.list_(pa.string())),
        ("ln", pa.list_(pa.int64())),
        ("v", pa.list_(pa.float32(), 3)),
        ("vs", pa.list_(pa.float32())),
        ("o", pa.struct([("n", pa.int64()), ("s", pa.string()), ("o", pa.struct([("b", pa.bool_())]))])),
    ]
)  # fmt: skip
LEAVES = (
    "n", "d", "s", "w", "day", "b", "l", "ln", "v", "vs", "o", "o.n", "o.s", "o.o", "o.o.b", "1", "12345678901", "0.5", "1e3",
    "99999999999999999999", "'x'", "''", "NULL", "TRUE", "$now", "[]", "'2024-01-01'", "1.0",
)  # fmt: skip
OPERANDS = ("n", "d", "s", "w", "b", "l", "o", "1", "0.5", "'x'", "NULL", "v")
ONE = (
    "({})", "NOT {}", "{} IS NULL", "{} IS NOT NULL", "lower({})", "upper({})", "trim({})", "length({})", "len({})", "-{}",
    "[{}]", "key({})", "word_count({})", "id({})", "json_array({})", "CAST({} AS VARCHAR)", "CAST({} AS BIGINT)",
    "CAST({} AS DOUBLE)", "CAST({} AS BOOLEAN)", "CAST({} AS TIMESTAMPTZ)", "CAST({} AS TEXT[])", "CAST({} AS JSON)",
    "coalesce({})", "concat({})", "count({})", "TRY_CAST({} AS BIGINT)", "cut({}, 3)", "{} IS TRUE", "{}[1]", "max({})",
)  # fmt: skip
TWO = (
    "{} = {}", "{} = {} = b", "{} <> {}", "{} < {}", "{} >= {}", "{} IS DISTINCT FROM {}", "{} AND {}", "{} OR {}", "coalesce({}, {})",
    "greatest({}, {})", "least({}, {})", "nullif({}, {})", "{} || {}", "{} + {}", "{} - {}", "{} IN ({}, 'x')", "{} IN ({}, 1)",
    "{} NOT IN ({})", "[{}, {}]", "list_contains({}, {})", "contains({}, {})", "concat({}, {})", "json_array({}, {})",
    "alike({}, {})", "cut({}, {})", "CASE WHEN {} THEN {} END", "CASE {} WHEN {} THEN 1 END", "trim({}, {})", "{} LIKE {}",
    "{} * {}", "{} / {}", "{} IN {}", "sum({}) OVER (PARTITION BY {})", "mmr({}, {})",
)  # fmt: skip
THREE = ("CASE WHEN {} THEN {} ELSE {} END", "coalesce({}, {}, {})", "{} BETWEEN {} AND {}")


def forms(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Expressions over these."""

    def filled(templates: tuple[str, ...], count: int) -> st.SearchStrategy[str]:
        parts = st.tuples(*[inner] * count)
        return st.tuples(st.sampled_from(templates), parts).map(lambda t: f"({t[0].format(*t[1])})")

    return filled(ONE, 1) | filled(TWO, 2) | filled(THREE, 3)


EXPRESSIONS = st.recursive(st.sampled_from(LEAVES), forms, max_leaves=8)


def bound(text: str) -> pa.DataType | str:
    """The canonical type that DuckDB's binder finds, or what it says instead."""
    sql = executable(parse_scalar(text).sql)
    try:
        kind = bind(f"SELECT {sql} AS x FROM ({empty_relation(SCHEMA)}) AS {ROWS}")
        return type_of_arrow(kind).arrow
    except (duckdb.Error, Fault) as error:
        return str(error)


def check(text: str) -> pa.DataType | None:
    """The inferred type, which must be the binder's."""
    try:
        scalar = parse_scalar(text)
        check_scalar(scalar, SCHEMA)
    except Fault:
        return None  # refused before it has a type
    kind = kind_of(scalar.shared_ast, dict(zip(SCHEMA.names, SCHEMA.types, strict=True)))
    if kind is not None:
        assert kind == bound(text), text
    return kind


@settings(max_examples=examples(120, 300))
@given(EXPRESSIONS)
def test_an_inferred_type_is_the_binders(text: str) -> None:
    check(text)


@settings(max_examples=examples(120, 300))
@given(EXPRESSIONS)
def test_a_tree_is_that_of_its_canonical_sql(text: str) -> None:
    try:
        scalar = parse_scalar(text)
    except Fault:
        return
    read = sqlglot.parse_one(scalar.sql, dialect=Faithful)
    assert quoted(scalar.ast) == quoted(read)


def quoted(tree: exp.Expr) -> exp.Expr:
    """The tree with every name in quotes, as canonical SQL has them."""
    for name in tree.find_all(exp.Identifier):
        name.set("quoted", True)
    return tree


def test_every_pair_of_operands_has_the_binders_type() -> None:
    inferred = [check(form.format(leaf)) for form in ONE for leaf in LEAVES]
    inferred += [check(form.format(a, b)) for form in TWO for a in OPERANDS for b in OPERANDS]
    assert sum(kind is not None for kind in inferred) > 500


@pytest.mark.parametrize(
    "text",
    ["s = 'x' AND NOT n IN (1, 2)", "coalesce(o.s, 'x')", "CASE WHEN b THEN n ELSE 0 END", "id(s, n)", "s || 'x'", "w < $now"],
)  # fmt: skip
def test_common_scalars_need_no_binder(text: str) -> None:
    assert check(text) is not None


@pytest.mark.parametrize("text", ["{'a': n, 'a': s}", "{'a': n, 'A': s}", "concat_ws(',')"])
def test_what_the_binder_refuses_has_no_type(text: str) -> None:
    assert check(text) is None
    assert isinstance(bound(text), str)
