"""Scratch copies in memory of the partitions that a comparison reads. The user's store is never
written, and a file is not opened for writing.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from semgraph.errors import StoreUnavailable
from semgraph.execution.windows import prepare
from semgraph.logical.graph import StoreRead
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.schema import Graph
from semgraph.stores.base import EdgeWrite, NodeWrite, Store, Write, WriteBatch, open_for_reading
from semgraph.stores.sqlite.store import SqliteStore


@dataclass(frozen=True)
class Snapshot:
    """Rows of a store by label, nodes before edges, and how many of the input rows that were given
    the plan has committed.
    """

    graph: Graph
    rows: Mapping[str, pa.Table]
    committed: int = 0

    @property
    def count(self) -> int:
        """The number of nodes and edges."""
        return sum(table.num_rows for table in self.rows.values())

    def _write(self, name: str, rows: pa.Table) -> Write:
        kind = NodeWrite if self.graph.labels[name].kind == "node" else EdgeWrite
        return kind(name, rows)

    @asynccontextmanager
    async def copy(self, dimensions: int | None) -> AsyncIterator[SqliteStore]:
        """A temporary store with these rows."""
        store = SqliteStore(":memory:")
        try:
            await store.ensure(self.graph, dimensions)
            writes = (self._write(name, rows) for name, rows in self.rows.items() if rows.num_rows)
            if batch := tuple(writes):
                await store.commit(WriteBatch(batch))
            yield store
        finally:
            await store.aclose()


def partitions_read(plan: LogicalPlan, inputs: Mapping[str, pa.Table]) -> list[str] | None:
    """The partitions that a plan reads: those that its inputs name; None: all."""
    reads = [node for node in walk(*plan.roots) if isinstance(node, StoreRead)]
    if any(getattr(node, "partition", "") for node in reads):
        return None
    if plan.windows is not None:
        return _named(inputs[plan.windows.input], plan.windows.partition)
    column = plan.graph.partition
    if not inputs or any(column not in table.column_names for table in inputs.values()):
        return None
    return sorted({value for table in inputs.values() for value in _named(table, column)})


def _named(table: pa.Table, column: str) -> list[str]:
    return sorted({value or "" for value in table.column(column).to_pylist()})


async def snapshot(
    plan: LogicalPlan,
    store: Store,
    partitions: Sequence[str] | None,
    inputs: Mapping[str, pa.Table] | None = None,
) -> Snapshot:
    """Read the rows of a store that a plan may read or write; none if it uses no store.

    Args:
        plan: The plan.
        store: The store.
        partitions: The partitions to read; None: all.
        inputs: Rows of the plan's inputs of which those that it has committed are counted.
    """
    graph = plan.graph
    if not graph.labels or not any(node.reads_store for node in walk(*plan.roots)):
        return Snapshot(graph, {})
    async with _to_read(store, graph) as source:
        if source is None:
            return Snapshot(graph, {})
        rows = {}
        dimensions = (await source.statistics()).dimensions
        for label in (*graph.nodes, *graph.edges):
            vectors = [name for name in label.vectors.values() if (label.name, name) in dimensions]
            rows[label.name] = await source.scan(
                label.name, [*label.columns, *vectors], partitions, ()
            )
        return Snapshot(graph, rows, await _committed(plan, source, inputs))


async def _committed(plan: LogicalPlan, store: Store, inputs: Mapping[str, pa.Table] | None) -> int:
    if inputs is None or plan.windows is None or not plan.writes:
        return 0
    rows = await prepare(plan.windows, inputs[plan.windows.input])
    keys = {
        name: [rows.keys[row] for row in own]
        for name, own in zip(rows.partitions, rows.of, strict=True)
    }
    states = await store.states(plan.name, keys)
    return sum(len(state.committed) for state in states.values())


def known_rows(plan: LogicalPlan, inputs: Mapping[str, pa.Table], source: Snapshot) -> list[str]:
    """A note if input rows are in the graph already."""
    if plan.windows is None or not source.committed:
        return []
    given = inputs[plan.windows.input].num_rows
    what = (
        f"{source.committed:,} of {given:,} rows of {plan.windows.input} are in the graph already"
    )
    return [
        f"{what}, so the copy has their content before the comparison. A store without them shows more"
    ]


@asynccontextmanager
async def _to_read(store: Store, graph: Graph) -> AsyncIterator[Store | None]:
    """A store opened for reading: of a file, a copy, so that the file stays untouched; None if it
    does not exist.
    """
    if isinstance(store, SqliteStore) and store.path != ":memory:":
        path = Path(store.path)
        if not await asyncio.to_thread(path.exists):
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="semgraph-") as folder:
            copy = SqliteStore(
                await asyncio.to_thread(_copied, path, Path(folder) / "graph.db", store.name)
            )
            try:
                await copy.ensure(graph, None)
                yield copy
            finally:
                await copy.aclose()
        return
    await open_for_reading(store, graph)
    yield store


def _copied(path: Path, to: Path, name: str) -> Path:
    try:
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        target = sqlite3.connect(to)
        try:
            source.backup(target)
        finally:
            source.close()
            target.close()
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{name}  cannot be read: {error}. Name another store") from error
    return to
