"""The queries of a plan: the DuckDB statement of every segment, and the store's statements, recorded
while each search, match and scan runs for a row of made-up values.

A scan of all partitions runs with a condition that is never true.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.expr.own_functions import plain_names
from semgraph.expr.row_scalars import Unsupported
from semgraph.expr.scalar import parse_scalar
from semgraph.llm.base import Embeddings
from semgraph.logical.graph import Match, Scan
from semgraph.logical.node import Node, walk
from semgraph.logical.search import Search
from semgraph.logical.semantic import VECTOR
from semgraph.physical.plan import PhysicalPlan, SqlSegment, StoreSearch
from semgraph.physical.reads import run_match, scanned_where
from semgraph.physical.search import run_searches
from semgraph.physical.vectors import Partition
from semgraph.relational.batch import Batch, runtime_schema
from semgraph.stores.base import Observable, Store

_NOW = datetime(2000, 1, 1, tzinfo=UTC)
_FRAME = ("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA", "--")


async def store_queries(
    plan: PhysicalPlan, store: Store, dimensions: int
) -> list[tuple[str, list[str]]]:
    """For each read of the store, the steps that share it and its distinct statements.

    The made-up values match no stored rows. `dimensions` is the length of made-up vectors.
    """
    statements: list[tuple[str, list[str]]] = []
    if not isinstance(store, Observable):
        return statements
    recorded: list[str] = []
    store.observe(recorded.append)
    try:
        for node in walk(*plan.roots):
            recorded.clear()
            steps = await _read(plan, node, store, dimensions)
            if steps:
                texts = (text.strip() for text in recorded)
                statements.append(
                    (
                        ", ".join(steps),
                        list(dict.fromkeys(t for t in texts if not t.startswith(_FRAME))),
                    )
                )
    finally:
        store.observe(None)
    return statements


async def _read(plan: PhysicalPlan, node: Node, store: Store, dimensions: int) -> list[str]:
    """Perform one read and return its steps; none if the node reads nothing or shares an earlier
    read.
    """

    async def embed(texts: Sequence[str], _partition: Partition) -> Embeddings:
        return Embeddings(np.ones((len(texts), dimensions), np.float32))

    if isinstance(node, Search):
        physical = plan.nodes[node]
        assert isinstance(physical, StoreSearch)
        group = physical.group.specs
        if group[0].node is not node:
            return []
        withins = [
            None if s.node.within is None else Batch.of_tuples([], runtime_schema(s.node.within))
            for s in group
        ]
        row = Batch.of_table(_row(node.inputs[0], dimensions))
        await run_searches(group, row, withins, store, embed, _NOW)
        return [spec.node.step for spec in group]
    if isinstance(node, Match):
        await run_match(node, Batch.of_table(_row(node.inputs[0], dimensions)), store, _NOW)
        return [node.step]
    if isinstance(node, Scan):
        where = scanned_where(node, store)
        all_partitions = node.partition == "all"
        never = (parse_scalar(f"\"{node.graph.key}\" = ''"),) if all_partitions else ()
        partitions = None if all_partitions else ["x"]
        await store.scan(node.label, node.schema.names, partitions, (*where, *never), node.limit)
        return [node.step]
    return []


def _row(node: Node, dimensions: int) -> pa.Table:
    """One row of made-up values."""
    schema = runtime_schema(node)
    values = {f.name: [1.0] * dimensions if f.type == VECTOR else _value(f.type) for f in schema}
    return pa.table({f.name: pa.array([values[f.name]], f.type) for f in schema}, schema=schema)


def _value(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {field.name: _value(field.type) for field in kind}
    if pa.types.is_fixed_size_list(kind):
        return [1.0] * kind.list_size
    if pa.types.is_list(kind):
        return [_value(kind.value_type)]
    plain = {pa.string(): "x", pa.bool_(): True, pa.date32(): _NOW.date()}
    return _NOW if pa.types.is_timestamp(kind) else plain.get(kind, 0)


def text(statements: Sequence[tuple[str, list[str]]]) -> str:
    """The statements as text, under the steps of each read."""
    return "\n\n".join(
        f"-- store: {steps}\n" + ";\n".join(texts) + ";" for steps, texts in statements if texts
    )


def segment_queries(plan: PhysicalPlan) -> str:
    """The SQL of every segment under the name of its step, with the reason where DuckDB computes it
    over few rows too, or a note that there is none.
    """
    parts = []
    for segment in (node.segment for node in plan.of_kind(SqlSegment)):
        reads = ", ".join(f"{name} = {node.step or node.keyword}" for name, node in segment.inputs)
        few = f"-- {segment.function}\n" if isinstance(segment.function, Unsupported) else ""
        parts.append(
            f"-- DuckDB: {segment.root.step or 'sink'}  ({reads})\n{few}{plain_names(segment.sql)};"
        )
    if not parts:
        parts.append("-- DuckDB: no statements")
    if not any(node.reads_store for node in walk(*plan.roots)):
        parts.append("-- store: not read")
    return "\n\n".join(parts)
