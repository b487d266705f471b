"""Segments: each maximal relational run between calls to models and stores is one DuckDB statement."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import duckdb
import numpy as np
import pyarrow as pa

from semgraph.errors import EngineError
from semgraph.expr.binder import ORDINAL, connection
from semgraph.expr.scalar import NOW
from semgraph.logical.node import Node, walk
from semgraph.physical.direct import Change, direct
from semgraph.physical.sql import MEMBER, PARTITION, hidden, operator_sql, quote

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


def _run(cursor: duckdb.DuckDBPyConnection, sql: str, now: datetime | None) -> pa.Table:
    try:
        if f"${NOW}" in sql:
            text = sql.replace(f"${NOW}", f"CAST(${NOW} AS TIMESTAMPTZ)")
            result = cursor.sql(text, params={NOW: now})
        else:
            result = cursor.sql(sql)
        found: pa.Table = result.to_arrow_table()
    except duckdb.Error as error:
        msg = f"a relational segment failed while running: {str(error).splitlines()[0]}"
        raise EngineError(msg) from error
    return found


class Workbench:
    """A cursor on which tables are registered once, for all statements of one evaluation. Close it afterwards.

    Small statements run on the event loop's thread (a hand-off costs more than they do), large ones in a worker on a cursor
    of their own.
    """

    def __init__(self) -> None:
        self._cursor = connection().cursor()
        self._names: set[str] = set()

    async def run(self, segment: Segment, tables: Sequence[pa.Table], now: datetime | None) -> pa.Table:
        """Run a segment over the rows of its inputs."""
        named = dict(zip((name for name, _ in segment.inputs), tables, strict=True))
        schema = runtime_schema(segment.root)
        if segment.direct is not None:
            return conform(segment.direct(tables[0], now), schema)
        if sum(table.num_rows for table in tables) > _LARGE:
            return await execute(segment.sql, named, schema, now)
        for name in named.keys() - self._names:
            self._cursor.register(name, with_ordinal(named[name]))
            self._names.add(name)
        return conform(_run(self._cursor, segment.sql, now), schema)

    def close(self) -> None:
        """Let go of the tables."""
        self._cursor.close()


def _execute(sql: str, tables: Mapping[str, pa.Table], now: datetime | None) -> pa.Table:
    cursor = connection().cursor()
    try:
        for name, table in tables.items():
            cursor.register(name, with_ordinal(table))
        return _run(cursor, sql, now)
    finally:
        cursor.close()


async def execute(sql: str, tables: Mapping[str, pa.Table], schema: pa.Schema, now: datetime | None = None) -> pa.Table:
    """Run one statement over Arrow tables and give its rows the canonical types of `schema`."""
    if sum(table.num_rows for table in tables.values()) > _LARGE:
        found = await asyncio.to_thread(_execute, sql, tables, now)
    else:
        found = _execute(sql, tables, now)
    return conform(found, schema)


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
