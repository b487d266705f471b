"""What is computed in Arrow alone is what DuckDB computes, NULLs included."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semgraph.errors import Fault
from semgraph.expr import parse_scalar as sql
from semgraph.logical.node import Node
from semgraph.logical.relational import Filter, Input, Project
from semgraph.relational.batch import conform, runtime_schema
from semgraph.relational.fragments import compile_segment, direct, execute, plan_segments

SOURCE = Input(
    name="t",
    columns=pa.schema(
        [
            ("a", pa.string()),
            ("b", pa.string()),
            ("n", pa.int64()),
            ("d", pa.float64()),
            ("yes", pa.bool_()),
            ("at", pa.timestamp("us", tz="UTC")),
            ("s", pa.struct([("a", pa.string()), ("n", pa.int64())])),
        ]
    ),
)
NOW = datetime(2025, 2, 3, 4, 5, 6, 789, tzinfo=UTC)
SCALARS = ["a", "s.a", "s.n", "'x'", "3", "NULL::VARCHAR", "[]::VARCHAR[]", "$now", "a IS NULL", "s IS NOT NULL", "NOT yes",
           "coalesce(a, b, 'z')", "[a]", "key(a)", "a = b", "a <> s.a", "n > s.n", "yes AND a = b", "yes OR n < 2",
           "0.5", "[0.5]", "{'a': 0.5}", "DATE '2025-01-02'", "d >= 0.5", "d = 2e0", "0.6", "[0.6]", "d = 0.6", "'a\\b'", "1 = 1"]  # fmt: skip
TESTS = [
    "yes",
    "NOT yes",
    "a = b",
    "a <> b AND yes",
    "n >= 1 OR s IS NULL",
    "s.a IS NOT NULL",
    "TRUE",
]
ROW = st.fixed_dictionaries(
    {
        "a": st.none() | st.sampled_from(["x", " X ", "y"]),
        "b": st.none() | st.sampled_from(["x", "y"]),
        "n": st.none() | st.integers(0, 3),
        "d": st.none() | st.sampled_from([0.0, 0.5, 0.6, 2.0]),
        "yes": st.none() | st.booleans(),
        "at": st.none() | st.just(NOW),
        "s": st.none()
        | st.fixed_dictionaries(
            {"a": st.none() | st.just("x"), "n": st.none() | st.integers(0, 3)}
        ),
    }
)


def both(node: Node, rows: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    change = direct(node, SOURCE)
    assert change is not None
    table = pa.Table.from_pylist(rows, schema=SOURCE.schema)
    segment = compile_segment(node, plan_segments([node]))
    asked = asyncio.run(
        execute(segment.sql, {segment.inputs[0][0]: table}, runtime_schema(node), NOW)
    )
    return conform(change(table, NOW), runtime_schema(node)).to_pylist(), asked.to_pylist()


@pytest.mark.parametrize("text", SCALARS)
@settings(max_examples=8, deadline=None)
@given(rows=st.lists(ROW, max_size=4))
def test_a_simple_scalar_is_what_duckdb_makes_of_it(text: str, rows: list[dict[str, Any]]) -> None:
    here, there = both(Project(input=SOURCE, columns=(("x", sql(text)),)), rows)
    assert here == there


@pytest.mark.parametrize("text", TESTS)
@settings(max_examples=8, deadline=None)
@given(rows=st.lists(ROW, max_size=4))
def test_a_simple_filter_keeps_what_duckdb_keeps(text: str, rows: list[dict[str, Any]]) -> None:
    here, there = both(
        Project(input=Filter(input=SOURCE, where=sql(text)), columns=(("n", sql("n")),)), rows
    )
    assert here == there


@pytest.mark.parametrize(
    "text", ["a || b", "length(a)", "n + 1", "a = 'x' AND n::VARCHAR = '1'", "id(a, n)", "n > 0.5"]
)
def test_whatever_else_takes_duckdb(text: str) -> None:
    assert direct(Project(input=SOURCE, columns=(("x", sql(text)),)), SOURCE) is None


MIXED = Input(
    name="t",
    columns=pa.schema(
        [
            *SOURCE.columns,
            ("m", pa.int64()),
            ("e", pa.float64()),
            ("no", pa.bool_()),
            ("day", pa.date32()),
            ("l", pa.list_(pa.string())),
            ("v", pa.list_(pa.float32())),
        ]
    ),
)
NAN, FAR = float("nan"), float("inf")
VALUES: dict[str, list[Any]] = {
    "a": [None, "x", "X ", "é", "\U0001f600", "\ufb00", "7", ""],
    "b": [None, "x", "\U0001f600", "\ufb00", "7", ""],
    "n": [None, 0, 7, -3, 2**62],
    "m": [None, 0, 7, -3],
    "d": [None, NAN, 0.0, -0.0, 1.5, FAR, -FAR],
    "e": [None, NAN, 0.0, -0.0, 1.5],
    "yes": [None, True, False],
    "no": [None, True, False],
    "at": [None, NOW, datetime(1, 1, 1, tzinfo=UTC)],
    "day": [None, date(2025, 1, 1)],
    "s": [None, {"a": None, "n": 7}, {"a": "x", "n": None}],
    "l": [None, [], ["x"], [None]],
    "v": [None, [1.0, NAN]],
}
LEAVES = [*VALUES, "s.a", "s.n", "'x'", "'7'", "7", "0.5", "'nan'::DOUBLE", "NULL", "$now", "TRUE", "''", "-0.0::DOUBLE", "[]",
          "DATE '2025-01-01'", "'2020-01-01'"]  # fmt: skip
FORMS = ["({}) = ({})", "({}) < ({})", "({}) <= ({})", "({}) > ({})", "({}) >= ({})", "({}) <> ({})", "NOT ({})", "({}) AND ({})",
         "({}) OR ({})", "({}) IS NULL", "({}) IS NOT NULL", "coalesce({}, {})", "[{}]", "key({})", "word_count({})"]  # fmt: skip


def drawn(random: random.Random, depth: int) -> str:
    """An expression of any types, also of types that do not go together."""
    if depth == 0:
        return random.choice(LEAVES)
    form = random.choice(FORMS)
    return form.format(*(drawn(random, depth - 1) for _ in range(form.count("{}"))))


def test_random_expressions_are_what_duckdb_makes_of_them_or_are_left_to_it() -> None:
    draw = random.Random(11)
    table = pa.Table.from_pylist(
        [{name: draw.choice(values) for name, values in VALUES.items()} for _ in range(60)],
        schema=MIXED.columns,
    )
    compared = 0
    while compared < 120:
        text = drawn(draw, draw.choice([1, 1, 2, 3]))
        try:
            node = Project(input=MIXED, columns=(("x", sql(text)),))
        except Fault:
            continue  # its types do not go together, which the check of a plan says
        change = direct(node, MIXED)
        if change is None:
            continue
        segment = compile_segment(node, plan_segments([node]))
        there = asyncio.run(
            execute(segment.sql, {segment.inputs[0][0]: table}, runtime_schema(node), NOW)
        )
        here = conform(change(table, NOW), runtime_schema(node))
        assert repr(here.to_pylist()) == repr(there.to_pylist()), text
        compared += 1


@pytest.mark.parametrize(
    "text", ["NOT n", "n AND s.n", "yes OR n", "coalesce(n, '7')", "coalesce(at, '2020-01-01')"]
)
def test_expressions_whose_types_differ_are_left_to_duckdb(text: str) -> None:
    node = Project(input=SOURCE, columns=(("x", sql(text)),))
    assert direct(node, SOURCE) is None
