"""The two executors of relational segments side by side."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from semgraph.errors import DataError
from semgraph.expr.row_functions import FallBack
from semgraph.expr.types import TIMESTAMP
from semgraph.logical.node import Node
from semgraph.logical.relational import Input
from semgraph.relational.batch import Row, runtime_schema, table_of, tuples_of
from semgraph.relational.rows import RowFunction
from semgraph.relational.segments import Segment, compile_segment, execute, plan_segments, same

NOW = datetime(2025, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
NAN, FAR = float("nan"), float("inf")
TEXTS = ["", "a", "b", "B", "Ann", " Ann  Lee ", "3", "-7", "007", "it's", 'say "x"', "a\\b", "é", "e\u0301", "ß", "İ", "ſ", "K", "\ufb00",
         "日本", "🙂 x", "\u00a0a\u3000", "a\tb\n", "\x1f", "by June", "BY the end", "will", "they’ll", "2025-01-01", "a,b,,c", '{"a": 1}', "{}"]  # fmt: skip
TIMES = [datetime(2020, 1, 1, tzinfo=UTC), datetime(2021, 6, 30, 12, 30, 0, 500_000, tzinfo=UTC), datetime(12, 3, 4, 5, 6, 7, 10, tzinfo=UTC), NOW]  # fmt: skip
COLUMNS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "g": (pa.int64(), [1, 2, 3]),
    "s": (pa.string(), TEXTS),
    "t": (pa.string(), TEXTS[:12]),
    "n": (pa.int64(), [0, 1, 2, 3, -1, -7, 2**31, 2**62, 2**63 - 1, -(2**63)]),
    "m": (pa.int64(), [0, 1, 2, 3, -1]),
    "d": (pa.float64(), [NAN, 0.0, -0.0, 0.5, 1.5, 2.5, -2.5, 1 / 3, 1e300, FAR, -FAR]),
    "e": (pa.float64(), [NAN, 0.0, -0.0, 0.5, 0.6, 3.0]),
    "yes": (pa.bool_(), [True, False]),
    "no": (pa.bool_(), [True, False]),
    "at": (TIMESTAMP, TIMES),
    "till": (TIMESTAMP, [*TIMES, TIMES[1] + timedelta(microseconds=1)]),
    "day": (pa.date32(), [date(2025, 1, 1), date(1969, 12, 31)]),
    "l": (
        pa.list_(pa.string()),
        [[], ["a"], ["b", "a", None], ["é", "a", "a"], [None], ["Ann", "B"]],
    ),
    "k": (pa.list_(pa.int64()), [[], [1], [3, 1, None, 2, 1], [2**62, -1]]),
    "ll": (pa.list_(pa.list_(pa.int64())), [[], [[1], None, [2, 3]], [None], [[]]]),
    "r": (
        pa.struct(
            [
                ("name", pa.string()),
                ("n", pa.int64()),
                ("in", pa.struct([("at", TIMESTAMP), ("k", pa.list_(pa.int64()))])),
            ]
        ),
        [
            {"name": "a", "n": None, "in": None},
            {"name": None, "n": 2, "in": {"at": NOW, "k": [1]}},
            {"name": "é", "n": 1, "in": {"at": None, "k": None}},
        ],
    ),
    "rs": (
        pa.list_(pa.struct([("a", pa.string()), ("n", pa.int64())])),
        [[], [{"a": "x", "n": 1}, {"a": None, "n": 2}, None], [{"a": "a", "n": None}]],
    ),
    "v": (pa.list_(pa.float32()), [[0.75, -0.5], [1.0, 0.0], [0.0, 0.0]]),
    "vs": (pa.list_(pa.list_(pa.float32())), [[], [[0.5, 0.625], None, [1.0, 0.0], [0.0, 1.0]]]),
}
SOURCE = Input(name="t", columns=pa.schema([(name, kind) for name, (kind, _) in COLUMNS.items()]))


def drawn_rows(node: Input, draw: random.Random, count: int) -> list[Row]:
    """Rows of the columns above, and hidden ones; every value is likely among 100 rows."""
    names = runtime_schema(node).names
    return [tuple(_drawn(name, draw) for name in names) for _ in range(count)]


def _drawn(name: str, draw: random.Random) -> Any:
    if name == "_p":
        return draw.choice([0, 1])
    if name == "_m":
        return draw.choice([None, 0, 1, 2, 3])
    return None if draw.random() < 0.2 else draw.choice(COLUMNS[name][1])


def of_node(node: Node) -> Segment:
    """The segment of a node over its inputs."""
    return compile_segment(node, plan_segments([node]))


def by_duckdb(segment: Segment, inputs: Mapping[str, list[Row]]) -> list[Row] | None:
    """The rows that DuckDB computes; None where it fails on a row. What passed the checks, it binds."""
    tables = {
        name: table_of(inputs[source.name], runtime_schema(source))  # type: ignore[attr-defined]
        for name, source in segment.inputs
    }
    try:
        table = asyncio.run(execute(segment.sql, tables, runtime_schema(segment.root), NOW))
    except DataError as error:
        if "Binder Error" in str(error):
            raise
        return None
    return tuples_of(table)


def by_rows(segment: Segment, inputs: Mapping[str, list[Row]]) -> list[Row] | None:
    """The rows that generated Python computes; None where it leaves them to DuckDB."""
    assert isinstance(segment.function, RowFunction), segment.function
    try:
        return segment.function([inputs[source.name] for _, source in segment.inputs], NOW)  # type: ignore[attr-defined]
    except FallBack:
        return None


def agree(segment: Segment, inputs: Mapping[str, list[Row]]) -> bool:
    """Compare the executors; whether there was something to compare.

    What DuckDB fails with, generated Python leaves to it.
    """
    ours = by_rows(segment, inputs)
    if ours is None:
        return False
    theirs = by_duckdb(segment, inputs)
    assert theirs is not None, (segment.sql, ours)
    assert len(ours) == len(theirs), (segment.sql, ours, theirs)
    for one, other in zip(ours, theirs, strict=True):
        assert same(one, other), (segment.sql, one, other, inputs if len(ours) < 9 else "")
    return True
