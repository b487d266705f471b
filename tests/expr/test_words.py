"""A column may be named by a word of SQL: an expression reads the word as a name wherever it cannot be
syntax.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from semgraph.errors import Fault
from semgraph.expr.duckdb import connection
from semgraph.expr.scalar import parse_scalar
from semgraph.logical.relational import Filter, Project
from tests.relational.relations import relation, rows_of

# DuckDB's own list, without the words that are values.
WORDS = sorted(
    word
    for (word,) in connection()
    .cursor()
    .execute("SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category != 'unreserved'")
    .fetchall()
    if word not in {"true", "false", "null"}
)
ALSO = [
    "begin", "by", "call", "if", "commit", "delete", "drop", "execute", "fetch", "insert", "into", "last", "month", "over",
    "partition", "rename", "row", "rows", "set", "show", "text", "range", "type", "update", "use", "value", "year",
]  # fmt: skip
PLACES = [
    "{0}", "{0} = 'x'", "'x' = {0}", "{0} <> 'x' AND {0} IS NOT NULL", "({0})", "upper({0})", "coalesce(n, {0}, 'x')",
    "[{0}, n]", "{{'a': {0}}}", "n || {0} || n", "CASE WHEN {0} = 'x' THEN {0} ELSE {0} END", "{0} IN ('x', n)",
    "n IN ('x', {0})", "{0} BETWEEN n AND {0}", "{0} LIKE '%x'", "NOT {0} = 'x'", "CAST({0} AS VARCHAR)", "{0}::TEXT",
    "count(*) FILTER (WHERE {0} = 'x')", "list({0} ORDER BY {0} DESC)", "count(DISTINCT {0})", "o.{0}", "o.{0} = {0}",
    "max({0}) OVER (PARTITION BY {0} ORDER BY {0})", "{0}[1]", "[x FOR x IN o.l IF x <> {0}]", "{0} IS DISTINCT FROM {0}",
    "list_filter(l, lambda x: x = {0})", "substring({0}, 1, 2)", "{0} IS NULL", "'x' > {0} OR {0} > 'x'", "n % 2 = 0 AND {0} = n",
    "({0} > 'x') AND ({0} < n)",
]  # fmt: skip
# Where SQL has another meaning, or another word may be the operand: there the column is quoted.
_PLACES_OF_SYNTAX = {"{0}[1]", "list({0} ORDER BY {0} DESC)", "CASE WHEN {0} = 'x' THEN {0} ELSE {0} END"}  # fmt: skip
QUOTED = {
    **{word: {"{0}[1]"} for word in ("distinct", "interval", "select")},
    **dict.fromkeys(("case", "not"), _PLACES_OF_SYNTAX),
}


@pytest.mark.parametrize("word", dict.fromkeys([*WORDS, *ALSO]))
def test_a_word_is_a_column_wherever_a_column_can_stand(word: str) -> None:
    for place in set(PLACES) - QUOTED.get(word, set()):
        quoted = parse_scalar(place.format(f'"{word}"'))
        named = parse_scalar(place.format(word))
        assert (named.sql, named.columns) == (quoted.sql, quoted.columns), place


@pytest.mark.parametrize("word", ["from", "order", "select", "where", "case", "not"])
def test_a_word_as_a_struct_has_fields(word: str) -> None:
    assert parse_scalar(f"{word}.id = 1").columns == (f"{word}.id",)
    assert parse_scalar(f"{word}.{word} = 1").columns == (f"{word}.{word}",)


@pytest.mark.parametrize(
    "word", ["from", "order", "group", "limit", "where", "desc", "by", "select"]
)
def test_the_value_is_the_columns(word: str) -> None:
    rows = relation("t", {word: pa.string(), "n": pa.int64()})
    node = Filter(input=rows, where=parse_scalar(f"{word} = 'b' AND 1 < n"))
    made = Project(input=node, columns=(("made", parse_scalar(f"upper({word})")),))
    given = [{word: "a", "n": 2}, {word: "b", "n": 2}, {word: "b", "n": 1}]
    assert rows_of(made, t=given) == [{"made": "B"}]


@pytest.mark.parametrize(
    "text",
    ["(SELECT 1)", "(SELECT -1)", "(SELECT max(n) FROM t)", "SELECT * FROM t", "n FROM t", "DROP TABLE t",
     "DELETE FROM t", "n; DROP TABLE t", "EXISTS (SELECT 1)", "UPDATE t SET n = 1", "n WHERE n = 1", "n UNION SELECT 1"],
)  # fmt: skip
def test_statements_are_refused(text: str) -> None:
    with pytest.raises(Fault):
        parse_scalar(text)
