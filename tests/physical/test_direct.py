"""What is computed in Arrow alone is what DuckDB computes, NULLs included."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semgraph.expr import parse_scalar as sql
from semgraph.logical.node import Node
from semgraph.logical.relational import Filter, Input, Project
from semgraph.physical.direct import direct
from semgraph.physical.relational import compile_segment, conform, execute, plan_segments, runtime_schema

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
TESTS = ["yes", "NOT yes", "a = b", "a <> b AND yes", "n >= 1 OR s IS NULL", "s.a IS NOT NULL", "TRUE"]
ROW = st.fixed_dictionaries(
    {
        "a": st.none() | st.sampled_from(["x", " X ", "y"]),
        "b": st.none() | st.sampled_from(["x", "y"]),
        "n": st.none() | st.integers(0, 3),
        "d": st.none() | st.sampled_from([0.0, 0.5, 0.6, 2.0]),
        "yes": st.none() | st.booleans(),
        "at": st.none() | st.just(NOW),
        "s": st.none() | st.fixed_dictionaries({"a": st.none() | st.just("x"), "n": st.none() | st.integers(0, 3)}),
    }
)


def both(node: Node, rows: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    change = direct(node, SOURCE)
    assert change is not None
    table = pa.Table.from_pylist(rows, schema=SOURCE.schema)
    segment = compile_segment(node, plan_segments([node]))
    asked = asyncio.run(execute(segment.sql, {segment.inputs[0][0]: table}, runtime_schema(node), NOW))
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
    here, there = both(Project(input=Filter(input=SOURCE, where=sql(text)), columns=(("n", sql("n")),)), rows)
    assert here == there


@pytest.mark.parametrize(
    "text", ["a || b", "length(a)", "n + 1", "a = 'x' AND n::VARCHAR = '1'", "id(a, n)", "n > 0.5"]
)
def test_whatever_else_takes_duckdb(text: str) -> None:
    assert direct(Project(input=SOURCE, columns=(("x", sql(text)),)), SOURCE) is None
