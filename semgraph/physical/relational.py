"""Segments: each maximal relational run between calls to models and stores is one DuckDB statement."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb
import numpy as np
import pyarrow as pa

from semgraph.errors import DataError
from semgraph.expr.binder import ORDINAL, type_of
from semgraph.expr.names import ROWS
from semgraph.expr.prepared import Prepared, prepared
from semgraph.expr.scalar import Scalar
from semgraph.expr.types import sql_type
from semgraph.logical.node import Node, walk
from semgraph.physical.direct import Change, direct, value_of
from semgraph.physical.sql import MEMBER, PARTITION, hidden, operator_sql, quote, scalar_sql

_LARGE = 20_000  # rows from which a statement leaves the event loop's thread
_HIDDEN = {PARTITION: pa.int64(), MEMBER: pa.int64()}


@dataclass(frozen=True)
class Segment:
    """One statement: SQL over tables named by `inputs`, giving the rows of `root`, in order.

    Args:
        root: The node whose rows it computes.
        inputs: The nodes that it reads, by the name of their table.
        sql: The statement.
        direct: The same in Arrow alone, where it is simple enough.
    """

    root: Node
    inputs: tuple[tuple[str, Node], ...]
    sql: str
    direct: Change | None = None


def runtime_schema(node: Node) -> pa.Schema:
    """The schema of a node's rows while a plan runs: its columns and the hidden ones, without the ordinal."""
    extra = [pa.field(name, _HIDDEN[name]) for name in hidden(node) if name != ORDINAL]
    return pa.schema([*node.schema, *extra])


def compile_segment(root: Node, materialised: Mapping[int, str]) -> Segment:
    """Compile a relational node down to the nodes that are materialised: names of their tables, by `id`."""
    names: dict[int, str] = {}
    inputs: list[tuple[str, Node]] = []
    parts: list[str] = []

    def visit(node: Node) -> str:
        if id(node) in names:
            return names[id(node)]
        if node is not root and id(node) in materialised:
            names[id(node)] = name = materialised[id(node)]
            inputs.append((name, node))
            return name
        for child in node.inputs:
            visit(child)
        names[id(node)] = name = f"n{len(parts)}"
        parts.append(f"{name} AS ({operator_sql(node, lambda child: names[id(child)])})")
        return name

    last = visit(root)
    columns = [*(quote(name) for name in root.schema.names), *(h for h in hidden(root) if h != ORDINAL)]
    sql = f"WITH {', '.join(parts)} SELECT {', '.join(columns)} FROM {last} ORDER BY {ORDINAL}"
    return Segment(root, tuple(inputs), sql, direct(root, inputs[0][1]) if len(inputs) == 1 else None)


def gives_nothing(segment: Segment, empty: frozenset[str]) -> bool:
    """Whether a segment has no rows because the named tables have none: known without running it."""
    names = {id(node): name for name, node in segment.inputs}

    def visit(node: Node) -> bool:
        if id(node) in names:
            return names[id(node)] in empty
        return node.gives_nothing([visit(child) for child in node.inputs])

    return visit(segment.root)


def with_ordinal(table: pa.Table) -> pa.Table:
    """A table with its row numbers as the ordinal, ready to be a relation of a statement."""
    return table.append_column(ORDINAL, pa.array(np.arange(table.num_rows)))


async def run_segment(segment: Segment, tables: Sequence[pa.Table], now: datetime | None) -> pa.Table:
    """The rows of a segment over those of its inputs."""
    schema = runtime_schema(segment.root)
    if segment.direct is not None:
        return conform(segment.direct(tables[0], now), schema)
    named = dict(zip((name for name, _ in segment.inputs), tables, strict=True))
    return await execute(segment.sql, named, schema, now)


async def execute(sql: str, tables: Mapping[str, pa.Table], schema: pa.Schema, now: datetime | None = None) -> pa.Table:
    """Run one statement over Arrow tables and give its rows the canonical types of `schema`.

    Small ones run on the event loop's thread: a hand-off to another costs more than they do.
    """
    numbered = {name: with_ordinal(table) for name, table in tables.items()}
    try:
        if sum(table.num_rows for table in tables.values()) > _LARGE:
            found = await asyncio.to_thread(lambda: Prepared(sql, numbered).run(numbered, now))
        else:
            found = prepared(sql, numbered).run(numbered, now)
    except duckdb.Error as error:
        msg = f"a relational segment failed while running: {str(error).splitlines()[0]}"
        raise DataError(msg) from error
    return conform(found, schema)


async def column_of(
    scalar: Scalar, source: Node, table: pa.Table, now: datetime | None, kind: pa.DataType | None = None
) -> pa.Array:  # type: ignore[type-arg]
    """A scalar over the rows of `source`, as a column of the type that the plan gives it, or of another."""
    own = type_of(scalar, source.schema)
    wanted = kind or own
    simple = value_of(scalar, source.schema) if own == wanted else None  # else a NULL, which is of any type
    if simple is not None:
        found = simple(table, now)
        return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    value = f"CAST({scalar_sql(scalar, source.partitioned)} AS {sql_type(wanted)})"
    sql = f"SELECT {value} AS x FROM {ROWS} ORDER BY {ORDINAL}"
    return (await execute(sql, {ROWS: table}, pa.schema([pa.field("x", wanted)]), now)).column("x").combine_chunks()


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with exactly this schema: DuckDB renames list children and widens numbers."""
    if table.schema.equals(schema):
        return table
    return table.select(schema.names).cast(schema) if table.num_rows else schema.empty_table()


def plan_segments(roots: Sequence[Node]) -> dict[int, str]:
    """Which nodes (by `id`) are materialised, and what their tables are called.

    What is not relational, what such a node reads, the roots, and a relational node that two segments would compute.
    """
    order = list(walk(*roots))
    found = {id(node) for node in (*order, *roots) if not node.relational or not node.inputs}
    found |= {id(root) for root in roots}
    owners: dict[int, set[int]] = {}
    for node in reversed(order):
        mine = owners.setdefault(id(node), set())
        if id(node) in found or len(mine) > 1:
            found.add(id(node))
            mine = {id(node)}
        for child in node.inputs:
            if not node.relational:
                found.add(id(child))
            owners.setdefault(id(child), set()).update(mine)
    return {id(node): f"m{i}" for i, node in enumerate(order) if id(node) in found}
