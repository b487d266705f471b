"""Scans: the stored rows of a label that fulfil what a filter said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr.binder import ORDINAL
from semgraph.expr.names import ROWS
from semgraph.expr.scalar import Scalar
from semgraph.logical.graph import Scan
from semgraph.physical.pushing import Taking, is_pushed
from semgraph.physical.relational import execute
from semgraph.physical.sql import MEMBER, PARTITION, quote, scalar_sql


class Scanning(Taking, Protocol):
    """The part of a store that scans."""

    async def scan(
        self,
        label: str,
        properties: Sequence[str],
        partitions: Sequence[str] | None,
        where: Sequence[Scalar],
        limit: int | None = None,
    ) -> pa.Table:
        """As `Store.scan`."""
        ...


def scanned_where(node: Scan, store: Taking) -> tuple[Scalar, ...]:
    """The conjuncts of a scan that the store decides."""
    labels = {"": node.graph.label(node.label)}
    return tuple(part for part in node.where if is_pushed(store, part, "", labels))


async def run_scan(
    node: Scan, whose: Mapping[str, Sequence[tuple[int, int]]] | None, store: Scanning, now: datetime | None
) -> pa.Table:
    """The rows of a label in the schema of the node; one round trip.

    Args:
        node: The operator.
        whose: The partitions that are read, and of each the windows that see its rows: `_p` and `_m`; None: all rows, once.
        store: Where they are. Conjuncts that it does not take are decided here.
        now: The value of `$now`.
    """
    taken = scanned_where(node, store)
    # The first rows of several partitions are not the first of each, nor those of which conjuncts are decided here.
    first = node.limit if len(taken) == len(node.where) and (whose is None or len(whose) < 2) else None
    found = await store.scan(node.label, node.schema.names, None if whose is None else list(whose), taken, first)
    table = found.select(node.schema.names).cast(node.schema)
    if whose is not None:
        table = _seen_by(table, found.column(node.graph.partition), whose)
    rest = [part for part in node.where if part not in taken]
    if not rest:
        return table
    where = " AND ".join(f"({scalar_sql(part, node.partitioned)})" for part in rest)
    names = ", ".join(quote(name) for name in table.column_names)
    return await execute(
        f"SELECT {names} FROM {ROWS} WHERE {where} ORDER BY {ORDINAL}", {ROWS: table}, table.schema, now
    )


def _seen_by(table: pa.Table, partition: pa.ChunkedArray, whose: Mapping[str, Sequence[tuple[int, int]]]) -> pa.Table:  # type: ignore[type-arg]
    """The rows once for each window that sees them, and whose they are."""
    parts = []
    for name, windows in whose.items():
        own = table.filter(pc.equal(partition, pa.scalar(name)))
        for numbers in windows:
            seen = own
            for column, number in zip((PARTITION, MEMBER), numbers, strict=True):
                seen = seen.append_column(column, pa.repeat(pa.scalar(number, pa.int64()), own.num_rows))
            parts.append(seen)
    schema = pa.schema([*table.schema, pa.field(PARTITION, pa.int64()), pa.field(MEMBER, pa.int64())])
    return pa.concat_tables(parts).cast(schema) if parts else schema.empty_table()
