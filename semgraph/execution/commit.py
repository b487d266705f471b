"""From the rows of sinks to the writes of a transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pyarrow as pa

from semgraph.errors import DataError, EngineError
from semgraph.llm.base import Vectors
from semgraph.logical.sinks import Delete as DeleteSink
from semgraph.logical.sinks import Merge
from semgraph.physical.planner import SinkSpec
from semgraph.physical.search_vectors import vectors_of, whose
from semgraph.physical.sql import MEMBER, PARTITION
from semgraph.stores.base import Batch, Delete, EdgeWrite, NodeWrite, Write

Embed = Callable[[Sequence[str], str], Awaitable[Vectors]]


async def batch_of(specs: Sequence[tuple[SinkSpec, pa.Table]], embed: Embed) -> Batch:
    """The writes of some sinks, deletes first, then nodes, then edges; sinks without rows write nothing."""
    writes: list[tuple[int, Write]] = []
    for spec, table in specs:
        if not table.num_rows:
            continue
        write = await _write(spec, table, embed)
        rank = 0 if isinstance(write, Delete) else 1 if isinstance(write, NodeWrite) else 2
        writes.append((rank, write))
    return Batch(tuple(write for _, write in sorted(writes, key=lambda pair: pair[0])))


async def _write(spec: SinkSpec, table: pa.Table, embed: Embed) -> Write:
    sink = spec.sink
    rows = table.drop_columns([n for n in (PARTITION, MEMBER) if n in table.column_names])
    key = sink.graph.key
    unite = frozenset(sink.unite) if isinstance(sink, Merge) else frozenset[str]()
    rows = _one_row_a_key(rows, key, unite, sink.step)
    if isinstance(sink, DeleteSink):
        return Delete(sink.label.name, rows, sink.detach)
    if not isinstance(sink, Merge):
        raise EngineError(f"step {sink.step}: {sink.keyword} does not write")
    for derived in sink.label.derived.values():
        if derived.by == "embed" and derived.of in rows.column_names:
            texts = rows.column(derived.of).combine_chunks()
            vectors = await vectors_of(texts, embed, whose(rows, sink.graph.partition))
            rows = rows.append_column(derived.name, vectors)
    create = frozenset(name for name, _ in sink.create)
    kind = NodeWrite if sink.label.kind == "node" else EdgeWrite
    return kind(sink.label.name, rows, create, unite, bool(sink.only))


def _one_row_a_key(rows: pa.Table, key: str, unite: frozenset[str], step: str) -> pa.Table:
    """Rows with one key become one: they must agree in every column outside `unite`; NULL agrees with all."""
    keys = rows.column(key).to_pylist()
    if None in keys:
        raise DataError(f'step {step}: a row to write has no "{key}"')
    if len(set(keys)) == len(keys):
        return rows
    merged: dict[Any, dict[str, Any]] = {}
    for row in rows.to_pylist():
        before = merged.setdefault(row[key], row)
        if before is row:
            continue
        for name, value in row.items():
            if name in unite:
                old = before[name] or []
                before[name] = [*old, *(v for v in value or [] if v not in old)]
            elif before[name] is None:
                before[name] = value
            elif value is not None and value != before[name]:
                msg = (
                    f'step {step}: two rows with {key} "{row[key]}" differ in "{name}": {before[name]!r} and {value!r}. '
                    f"Aggregate them in a step before, or name the list in unite"
                )
                raise DataError(msg)
    return pa.Table.from_pylist(list(merged.values()), schema=rows.schema)
