"""Scans: the stored rows of a label that fulfil what a filter said of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

import pyarrow as pa

from semgraph.expr.binder import ORDINAL
from semgraph.expr.scalar import Scalar
from semgraph.logical.graph import Scan
from semgraph.physical.relational import execute
from semgraph.physical.sql import quote, scalar_sql


class Scanning(Protocol):
    """The part of a store that scans."""

    def takes(self, expr: Scalar, alias: str | None) -> bool:
        """As `Store.takes`."""
        ...

    async def scan(
        self, label: str, properties: Sequence[str], partitions: Sequence[str] | None, where: Sequence[Scalar]
    ) -> pa.Table:
        """As `Store.scan`."""
        ...


async def run_scan(node: Scan, partitions: Sequence[str] | None, store: Scanning, now: datetime | None) -> pa.Table:
    """The rows of a label, of some partitions or (None) of all, in the schema of the node; one round trip.

    Conjuncts that the store does not take are decided here.
    """
    taken = tuple(part for part in node.where if store.takes(part, ""))
    found = await store.scan(node.label, node.schema.names, partitions, taken)
    table = found.select(node.schema.names).cast(node.schema)
    rest = [part for part in node.where if part not in taken]
    if not rest:
        return table
    where = " AND ".join(f"({scalar_sql(part, node.partitioned)})" for part in rest)
    names = ", ".join(quote(name) for name in node.schema.names)
    return await execute(f"SELECT {names} FROM t WHERE {where} ORDER BY {ORDINAL}", {"t": table}, node.schema, now)
