"""Each expression, function and aggregate that generated Python computes has DuckDB's value for
NULL, empty lists, letters outside ASCII, NaN, and numbers and times at their limits.
"""

from __future__ import annotations

import random
import unicodedata
from typing import Any

import pyarrow as pa
import pytest
from sqlglot import exp

from semgraph.expr import row_scalars
from semgraph.expr.row_scalars import AGGREGATES, FUNCTIONS, Unsupported, python_pattern
from semgraph.expr.scalar import parse_scalar as sql
from semgraph.logical.node import Node
from semgraph.logical.relational import Aggregate, Filter, Input, Project
from semgraph.relational.segments import Segment
from tests.relational.executors import SOURCE, agree, by_duckdb, by_rows, drawn_rows, of_node

SCALARS = [
    "s", "r.name", "r.in.at", "r.in.k", "'x'", "'it''s'", "7", "3000000000", "0.5 + d", "1e3", "TRUE", "NULL", "$now", "(n)",
    "yes AND no", "yes OR no", "NOT yes", "NOT (yes AND no)", "yes AND no AND n > 1 OR d < e", "yes IS NULL", "r IS NULL", "l IS NOT NULL",
    "r.in IS NULL", "yes IS TRUE", "yes IS NOT FALSE", "n = m", "n <> m", "n < m", "n <= m", "n > 2", "n >= 2147483648", "s = t", "s <> t",
    "s < t", "s <= 'a'", "d = e", "d <> e", "d < e", "d <= e", "d > e", "d >= 0.6", "d = 2", "n < d", "at < till", "at = $now", "day < day",
    "yes = no", "n IS DISTINCT FROM m", "d IS NOT DISTINCT FROM e", "s IS DISTINCT FROM NULL", "s = NULL", "n BETWEEN m AND 3",
    "n NOT BETWEEN 1 AND m", "n IN (1, m, NULL)", "s IN ('a', t)", "s NOT IN ('a', 'é')", "d IN (0.5, e)", "at IN (till, $now)",
    "n IN k", "n NOT IN k", "s IN ['a', NULL]", "s NOT IN [NULL, t]", "NULL IN [s]", "n IN []", "m IN [1, NULL, 3]", "m IN [n] AND yes", "s IN l[1:2]".replace("l[1:2]", "l"),
    "[m IN [n, 1] FOR m IN k]", "list_filter(k, lambda x: x IN [1, NULL])", "[n] IN ll".replace("[n] IN ll", "n IN [x + 1 FOR x IN k]"),
    "-0.0", "-(0.0)", "-0.0 * d", "coalesce(d, -0.0)", "-(CASE WHEN yes THEN 0.0 ELSE 0.5 END)", "-(-0.0)",
    "n + m", "n - m", "n * m", "m + 1", "2 * 1000", "2147483647 + m", "d + e", "d - e", "d * e", "d * 2", "d / e", "n / m", "1.0 / (m + 1)",
    "d / 100", "-n", "-d", "-(-1)", "-0.5 * d", "coalesce(s, t, '')", "coalesce(n, 0)", "coalesce(d, n)", "coalesce(d, 0.5)",
    "coalesce(l, [])", "coalesce(rs, [])", "coalesce(r.in.at, at, $now)", "coalesce(NULL, n)", "greatest(n, m)", "least(n, m, 1)",
    "greatest(d, e)", "least(d, e)", "greatest(s, t)", "least(at, till, NULL)", "least(greatest(d, 0), 1)", "nullif(s, t)", "nullif(n, 1)",
    "nullif(d, e)", "nullif(trim(s), '')", "CASE WHEN yes THEN s END", "CASE WHEN yes AND n > 1 THEN n WHEN no THEN m ELSE 0 END",
    "CASE WHEN yes THEN n ELSE d END", "CASE n WHEN 1 THEN 'one' WHEN m THEN 'same' ELSE s END", "CASE WHEN NOT yes THEN 1.0 ELSE 0.25 END",
    "CASE WHEN yes OR no IS NULL THEN l ELSE [] END", "CASE WHEN NOT yes THEN error('no') ELSE s END", "if(yes, r, NULL)",
    "[s, t]", "[]", "[n, 1]", "[NULL, s]", "[[n], k]", "[r.name, s][1]", "[r2.a FOR r2 IN rs]", "[x + 1 FOR x IN [m, 2] IF x > 1]",
    "[r.a FOR r IN rs]", "list_filter(rs, lambda r: r.n > 1)", "r.n = 1 OR len([r.a FOR r IN rs IF r.n = m]) > 0", "[n + 1 FOR n IN k]",
    "-2147483648 + m", "[-2147483648, m]", "[r2 FOR r2 IN rs IF r2.n = 1 OR r2.a = s]", "[[x, y] FOR x IN k]".replace("y", "m"), "list_filter(k, lambda x: x > 1)",
    "list_filter(rs, lambda x: x.a IS NOT NULL)", "{'a': s, 'b': n, 'c': {'d': l}}", "[{'a': s, 'n': 1}]", "l[1]", "l[-1]", "k[2]", "k[m]",
    "chr(10)", "CAST(n AS TEXT)", "CAST(yes AS TEXT)", "CAST(at AS TEXT)", "CAST(7 AS TEXT)", "CAST(s AS BIGINT)", "CAST(yes AS BIGINT)",
    "CAST(d AS BIGINT)", "CAST(n AS DOUBLE)", "CAST(m AS BIGINT)", "CAST(NULL AS TEXT)", "CAST(NULL AS STRUCT(a TEXT, b TIMESTAMPTZ))",
    "CAST([] AS TEXT[])", "CAST(s AS JSON)", "CAST(id(s) AS TEXT)", "CAST(0.5 AS DOUBLE)", "CAST(d AS DOUBLE)", "CAST(r.in.at AS TIMESTAMPTZ)",
    "concat(s, NULL, n, yes)", "concat_ws(',', s, l, t)", "concat_ws(t, s, s)", "s || t", "'q' || CAST(n AS TEXT)", "id(s, n, yes, at, NULL)",
    "id(l)", "CAST(json_array(s, n, yes, at, l) AS TEXT)", "round(d, 12)", "round(d * 100, 1)", "range(m, 4)", "range(m)",
    "regexp_matches(s, '\\b(will|shall)\\b|[a-z][''’]ll\\b')", "regexp_matches(s, '\\bby ((the|this|next)[ -]){0,4}(june|end)\\b', 'i')",
    "regexp_matches(s, 'a[^\\w ]|n$|k', 'i')".replace("[^\\w ]", " "), "regexp_matches(s, '[^\\w ]|$')", "regexp_full_match(s, '[A-Za-z0-9_-]*')",
    "regexp_full_match(s, '\\d+')", "length(s)", "length(l)", "len(rs)", "left(s, 2)", "left(s, m)", "trim(s)", "upper(s)",
    "lower(s)", "contains(s, t)", "starts_with(s, t)", "ends_with(s, t)", "replace(s, t, 'oo')", "str_split(s, ',')", "str_split(s, t)",
    "array_to_string(l, ',')", "list_contains(l, s)", "list_contains(k, m)", "list_contains(k, 1)",
    "list_contains([], s)", "list_contains([r2.a FOR r2 IN rs], s)", "l && [s, t]", "k && [m]", "[n] && []", "list_has_all(l, [s, NULL])",
    "list_sort(l)", "list_sort(k)", "list_sort([d, e])".replace("d, e", "s, t"), "list_distinct(l)", "list_distinct(k)",
    "list_concat(l, [s])", "list_concat(k, [1])", "list_append(l, s)", "list_append(k, m)", "flatten(ll)", "list_slice(k, m, m + 1)",
    "list_slice(l, 1, 2)", "list_distinct(flatten([[array_to_string(list_slice(l, i, i + j), ' ') FOR j IN range(0, 2)] FOR i IN range(1, len(l) + 1)]))",
    "key(s)", "words(s)", "word_count(s)", "name_keys(s)", "name_signs(s)", "alike(s, t)", "char_entropy(s)", "cut(s, 3)", "cut(s, m)", "uuid5(s)", "overlap(s, t)",
    "overlaid(s, '{\"b\": 2}')", "listed(s)", "shorten(s, 3)", "shorten_by(s, 3, '{\"a\": {\"maxLength\": 9}}')", "mmr(v, vs, 0.5)", "mmr(v, vs, 1)", "mmr_static(v, vs, 0.25)",
]  # fmt: skip
WINDOWS = [
    "row_number() OVER ()", "row_number() OVER (PARTITION BY s ORDER BY n, d DESC)", "row_number() OVER (PARTITION BY r, l ORDER BY at DESC NULLS FIRST) - 1",
    "rank() OVER (PARTITION BY g ORDER BY m)", "rank() OVER (ORDER BY e DESC)", "lag(s) OVER (PARTITION BY g ORDER BY at, till)",
    "coalesce(nullif(s, t), lag(s) OVER (PARTITION BY yes ORDER BY d))", "min(n) OVER (PARTITION BY g, s)", "max(d) OVER (PARTITION BY s, m)",
    "bool_or(s = t) OVER (PARTITION BY g)", "bool_and(yes) OVER (ORDER BY m)", "sum(m) OVER (PARTITION BY g ORDER BY e)", "count(*) OVER (PARTITION BY k)",
    "count(s) OVER (ORDER BY s)", "round(sum(1.0 / (g + 1)) OVER (PARTITION BY yes, no), 12)", "max(s) OVER (PARTITION BY at)", "sum(m) OVER ()",
]  # fmt: skip
OF_GROUPS = [
    "list(s)", "list(s ORDER BY n DESC, t)", "list(s) FILTER (WHERE yes AND s <> '')", "coalesce(list({'a': s, 'b': l}) FILTER (WHERE NOT r IS NULL), [])",
    "list(DISTINCT m)", "list(DISTINCT s)", "coalesce(list_sort(list(DISTINCT m)), [])", "list_distinct(flatten(list(l ORDER BY e)))", "first(s)",
    "first(r ORDER BY at NULLS FIRST, n)", "first(l ORDER BY d DESC)", "last(s)", "last(trim(s) ORDER BY yes, d) FILTER (WHERE trim(s) <> '')",
    "any_value(v)", "any_value(at)", "min(n)", "min(d)", "min(s)", "min(at)", "min(yes)", "max(n)", "max(d)", "max(s)", "max(day)",
    "CAST(max(CAST(s AS TEXT)) AS JSON)", "bool_or(yes)", "bool_and(yes = no)", "count(*)", "count(s)", "count(*) FILTER (WHERE at IS NULL)",
    "count(DISTINCT s)", "count(DISTINCT m)", "string_agg(s, ',')", "string_agg(s, chr(10) ORDER BY t, n)", "listagg(t, '') FILTER (WHERE yes)",
    "sum(m)", "sum(n)", "sum(length(s)) + 1".removesuffix(" + 1"), "sum(e)", "sum(d)", "coalesce(sum(m), 0)", "sum(m) > 3", "{'n': count(*)}",
]  # fmt: skip
REFUSED = [
    "n = '7'", "coalesce(at, '2020-01-01')", "n > 0.5", "d = '1'", "CAST(d AS TEXT)", "s::DATE", "at + INTERVAL 1 DAY", "r = r", "l < l",
    "n // m", "n % m", "json_extract_string(s, '$.a')", "s LIKE 'a%'", "regexp_matches(s, t)", "regexp_matches(s, '(a+)+b')", "regexp_matches(s, '(a|ab)*c')",
    "regexp_matches(s, 'é', 'i')", "regexp_matches(s, '[^a]', 'i')", "regexp_matches(s, '\\s')", "regexp_matches(s, '(?i)a')",
    "sum(d) OVER ()", "list(s) OVER ()", "sum(m) OVER (ORDER BY n ROWS 1 PRECEDING)", "lag(s, 2) OVER ()", "mean_vector(vs)", "list_sort(rs)",
    "99999999999999999999", "list_transform(k, lambda x: x)", "reverse(s)", "list_sort([d, e])", "list_contains([d], e)",
]  # fmt: skip


def projected(text: str, source: Input = SOURCE) -> Node:
    return Project(input=source, columns=(("x", sql(text)),))


@pytest.mark.parametrize("text", SCALARS)
def test_a_scalar_has_duckdbs_value_of_each_row(text: str) -> None:
    segment = of_node(projected(text))
    rows = drawn_rows(SOURCE, random.Random(text), 120)
    computed = [row for row in rows if by_rows(segment, {"t": [row]}) is not None]
    assert agree(segment, {"t": computed})
    assert len(computed) > 20


@pytest.mark.parametrize("text", ["yes", "NOT yes", "n > m AND NOT (s = t OR yes)", "NOT (d < e) OR s IS NULL", "no AND (yes OR d = e)"])  # fmt: skip
def test_a_condition_holds_where_duckdb_says_so(text: str) -> None:
    rows = drawn_rows(SOURCE, random.Random(text), 200)
    assert agree(of_node(Filter(input=SOURCE, where=sql(text))), {"t": rows})


@pytest.mark.parametrize("text", WINDOWS)
@pytest.mark.parametrize("windowed", [False, True])
def test_a_window_function_has_duckdbs_values(text: str, windowed: bool) -> None:
    source = Input(name="t", columns=SOURCE.columns, windowed=windowed)
    for count in (0, 1, 2, 60):
        rows = drawn_rows(source, random.Random(count), count)
        assert agree(of_node(projected(text, source)), {"t": rows})


@pytest.mark.parametrize("text", OF_GROUPS)
@pytest.mark.parametrize("by", [(), pytest.param(("g",), marks=pytest.mark.nightly), ("d", "s")])
def test_an_aggregate_has_duckdbs_values(text: str, by: tuple[str, ...]) -> None:
    node = Aggregate(input=SOURCE, by=tuple((f"k{n}", sql(n)) for n in by), add=(("x", sql(text)),))
    compared = 0
    segment = of_node(node)
    for count in (0, 1, 2, 5, 40):
        rows = drawn_rows(SOURCE, random.Random(f"{text}{count}"), count)
        compared += agree(segment, {"t": rows})
    assert compared > 1


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_known_to_be_equal_is_left_to_duckdb(text: str) -> None:
    assert isinstance(of_node(projected(text)).function, Unsupported)


def test_every_admitted_form_is_compared_above() -> None:
    compared: set[str | type[exp.Expr]] = set()
    for text in (*SCALARS, *WINDOWS, *OF_GROUPS):
        for tree in sql(text).ast.walk():
            compared |= {type(tree), tree.name.lower() if isinstance(tree, exp.Anonymous) else ""}
    admitted = {*row_scalars._EXPRESSIONS, *FUNCTIONS, *AGGREGATES} - {exp.Parameter}
    assert not admitted - compared


ALL = [chr(code) for code in range(1, 0x20000) if not 0xD800 <= code < 0xE000] + [
    "\U000e0001",
    "\U0010ffff",
]
SOME = [
    sign
    for n, sign in enumerate(ALL)
    if n % 16 == 0 or unicodedata.category(sign) not in {"Lo", "Cn", "Co"}
]
"""Signs that have case or are digits, marks, blanks and the like, and one in 16 of the others."""
ONE = Input(name="t", columns=pa.schema([("s", pa.string())]))


def python_values(segment: Segment, signs: list[str]) -> list[Any]:
    """The value of each text; None where generated Python leaves it to DuckDB."""
    try:
        return segment.function([[(sign,) for sign in signs]], None)  # type: ignore[operator]
    except row_scalars.row_functions.FallBack:
        halves = signs[: len(signs) // 2], signs[len(signs) // 2 :]
        return (
            [row for half in halves for row in python_values(segment, half)]
            if halves[0]
            else [None]
        )


@pytest.mark.parametrize(
    "text",
    [
        "trim(s)",
        "length(s)",
        "length(trim('a' || s || s))",
        "regexp_matches(s, '[a-zK]')",
        "regexp_matches(s, '[a-z]', 'i')",
        "regexp_matches(s, '\\w')",
        "regexp_matches(s, '\\d')",
        "regexp_matches(s || 'a', '\\ba')",
        "regexp_matches('b' || s, 'b$')",
        "regexp_full_match(s, '[^x]')",
        "s < 'ﬀ'",
        "key(s)",
        "CAST(json_array(s, 'a') AS TEXT)",
        "upper(s)",
        "lower(s)",
    ],
)
@pytest.mark.parametrize(
    "signs", [SOME, pytest.param(ALL, marks=pytest.mark.nightly)], ids=["some", "all"]
)
def test_a_function_of_texts_treats_each_character_as_duckdb_does(
    text: str, signs: list[str]
) -> None:
    segment = of_node(projected(text, ONE))
    ours = [
        row
        for start in range(0, len(signs), 256)
        for row in python_values(segment, signs[start : start + 256])
    ]
    theirs = by_duckdb(segment, {"t": [(sign,) for sign in signs]})
    assert theirs is not None
    differing = [
        sign for sign, a, b in zip(signs, ours, theirs, strict=True) if a is not None and a != b
    ]
    assert not differing
    assert sum(row is not None for row in ours) > 90


def test_orders_by_sums_do_not_decide_a_rounded_sum() -> None:
    """A sum of doubles over a window is admitted where `round` cuts the digits that depend on the
    order of the additions: near the middle between two results it is left to DuckDB.
    """
    segment = of_node(projected("round(d, 1)"))
    names = SOURCE.schema.names
    row = [None] * len(names)
    row[names.index("d")] = 0.25
    assert not agree(segment, {"t": [tuple(row)]})
    row[names.index("d")] = 0.27
    assert agree(segment, {"t": [tuple(row)]})


@pytest.mark.parametrize("pattern", ["a{", "(a", "a)", "[a", "*a", "a**", "a*?", "a\\", "(?P<x>a)", "\\pL", "[[:alpha:]]", "a.b", "^a"])  # fmt: skip
def test_patterns_outside_of_the_common_language_are_refused(pattern: str) -> None:
    with pytest.raises(Unsupported):
        python_pattern(pattern, ignore_case=False)
