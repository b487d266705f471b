"""Intersect and except are those of Python's sets, in both executors: NULL equals NULL, NaN equals NaN."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from semgraph.errors import Fault
from semgraph.expr.scalar import parse_scalar as sql
from semgraph.logical.relational import Empty, Except, Input, Intersect, Project
from semgraph.relational.batch import Row
from tests.relational.executors import COLUMNS, by_duckdb, by_rows, of_node
from tests.relational.relations import relation, rows_of

NAMES = ["m", "e", "t", "yes", "at", "l", "r"]
SCHEMA = pa.schema([(name, COLUMNS[name][0]) for name in NAMES])


def key(value: Any) -> Any:
    """What makes two values equal."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, dict):
        return tuple((name, key(part)) for name, part in value.items())
    return tuple(map(key, value)) if isinstance(value, list) else value


def expected(first: Sequence[Row], others: Sequence[Sequence[Row]], *, shared: bool) -> list[Any]:
    """The keys of the rows, by sets."""
    found = dict.fromkeys(tuple(map(key, row)) for row in first)
    those = [{tuple(map(key, row)) for row in other} for other in others]
    return [row for row in found if all((row in other) == shared for other in those)]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("operator", [Intersect, Except])
def test_rows_are_those_of_sets_in_both_executors(operator: Any, seed: int) -> None:
    draw = random.Random(seed)
    narrow = draw.sample(range(len(NAMES)), 3)
    pool = [
        tuple(
            draw.choice([None, *COLUMNS[name][1]]) if i in narrow else None
            for i, name in enumerate(NAMES)
        )
        for _ in range(5)
    ]
    rows = {name: [draw.choice(pool) for _ in range(draw.randrange(9))] for name in ("a", "b", "c")}
    inputs = [Input(name=name, columns=SCHEMA) for name in rows]
    swapped = Project(input=inputs[1], columns=tuple((n, sql(n)) for n in reversed(NAMES)))
    segment = of_node(operator(relations=(inputs[0], swapped, inputs[2])))
    wanted = expected(rows["a"], [rows["b"], rows["c"]], shared=operator is Intersect)
    for found in (by_rows(segment, rows), by_duckdb(segment, rows)):
        assert found is not None
        assert [tuple(map(key, row[: len(NAMES)])) for row in found] == wanted


def test_a_window_has_the_rows_of_its_partition() -> None:
    a, b = (relation(name, {"n": pa.int64()}, windowed=True) for name in "ab")
    facts = relation("facts", {"n": pa.int64()})
    rows: dict[str, list[Row]] = {
        "a": [(1, 0, 0), (1, 1, 1), (1, 1, 2)],
        "b": [(1, 1, 3)],
        "facts": [(1,)],
    }
    for node, kept in [
        (Intersect(relations=(a, b)), [(1, 1, 1)]),
        (Except(relations=(a, b)), [(1, 0, 0)]),
        (Intersect(relations=(a, facts)), [(1, 0, 0), (1, 1, 1)]),
    ]:
        segment = of_node(node)
        assert by_rows(segment, rows) == by_duckdb(segment, rows) == kept


def test_relations_without_rows_are_left_out_or_leave_nothing() -> None:
    a, none = (
        relation("a", {"n": pa.int64()}),
        Empty(name="b", columns=pa.schema([("n", pa.int64())])),
    )
    assert Intersect(relations=(a, none)).is_empty_over([False, True])
    minus = Except(relations=(a, none))
    assert not minus.is_empty_over([False, True])
    assert minus.is_empty_over([True, False])
    assert minus.without_empty([False, True]).inputs == (a,)
    assert rows_of(minus.without_empty([False, True]), a=[{"n": 1}, {"n": 1}]) == [{"n": 1}]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"n": pa.string()}, 'column "n" is int64 in the first relation, string here'),
        ({"m": pa.int64()}, 'relation 2 lacks "n" .int64.: add: {n: "CAST.NULL AS BIGINT."}'),
    ],
)
def test_relations_of_other_columns_are_refused(columns: Any, message: str) -> None:
    with pytest.raises(Fault, match=message):
        Except(relations=(relation("a", {"n": pa.int64()}), relation("b", columns)))
