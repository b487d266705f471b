"""A store that shows one partition."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from semgraph.errors import PlanError
from semgraph.logical.schema import Graph
from semgraph.stores import base

_ONLY = "_only"  # reserved: no column of a plan starts with it


class ConfinedStore:
    """A store over the rows of one partition; the owner of the store closes it. See `Store` for the
    contract of each method; one that names another partition to write raises PlanError. Stores keep
    no counts by partition, so `statistics` are those of all.
    """

    def __init__(self, store: base.Store, partition: str) -> None:
        self._store, self._partition = store, partition
        self._column = ""
        self.name, self.nearest, self.takes = store.name, store.nearest, store.takes
        self.observe, self.check_derived = store.observe, store.check_derived
        self.statistics, self.aclose = store.statistics, store.aclose

    @property
    def notes(self) -> tuple[str, ...]:
        return self._store.notes

    async def ensure(self, graph: Graph, dimensions: int | None) -> None:
        self._column = graph.partition
        await self._store.ensure(graph, dimensions)

    async def attach(self, graph: Graph, dimensions: int | None = None) -> None:
        self._column = graph.partition
        await self._store.attach(graph, dimensions)

    def share(self) -> ConfinedStore:
        return ConfinedStore(self._store.share(), self._partition)

    async def search(self, queries: Sequence[base.SearchQuery], rows: pa.Table) -> list[pa.Table]:
        rows, own = self._confined(rows, [query.partition for query in queries])
        confined = [replace(query, partition=own[query.partition]) for query in queries]
        return await self._store.search(confined, rows)

    async def match(self, query: base.MatchQuery, rows: pa.Table) -> pa.Table:
        rows, own = self._confined(rows, [query.partition])
        return await self._store.match(replace(query, partition=own[query.partition]), rows)

    async def scan(self, query: base.ScanQuery) -> pa.Table:
        seen = query.partitions is None or self._partition in query.partitions
        return await self._store.scan(replace(query, partitions=[self._partition] * seen))

    async def states(self, plan: str, rows: base.RowIds) -> Mapping[str, base.PartitionState]:
        self._require(rows)
        return await self._store.states(plan, rows)

    async def commit(
        self, batch: base.WriteBatch, marker: base.CommitMarker | None = None
    ) -> base.Written:
        self._require([marker.partition] if marker is not None else [])
        self._require_in(batch)
        return await self._store.commit(batch, marker)

    async def history(self, plan: str, partitions: Sequence[str]) -> Mapping[str, base.History]:
        self._require(partitions)
        return await self._store.history(plan, partitions)

    async def replace(self, new: base.NewContent) -> base.Written:
        self._require([*new.heads, *(marker.partition for marker in new.markers)])
        self._require_in(new.batch)
        return await self._store.replace(new)

    async def migrate(self, graph: Graph, dimensions: int | None, *, drop: bool) -> list[str]:
        """Refuse: indexes belong to all partitions."""
        del dimensions, drop
        what = f'the schema of {self.name} belongs to all groups, and this session has the group "{self._partition}" alone'
        hint = f"run plans that write the schema of {graph.name} without a group"
        raise PlanError(what, hint=hint)

    async def clear(self, partitions: Sequence[str] | None = None) -> None:
        """As `Store.clear`; for all partitions, clears only this one."""
        self._require(partitions or ())
        await self._store.clear([self._partition] if partitions is None else partitions)

    def _confined(
        self, rows: pa.Table, columns: Iterable[str | None]
    ) -> tuple[pa.Table, dict[str | None, str]]:
        """Rows of a read, with columns that replace partition columns (None: all partitions): they
        have the partition if a cell equals or lists it, otherwise NULL.
        """
        only, names = self._partition, dict[str | None, str]()
        for name in dict.fromkeys(columns):
            own = names[name] = f"{_ONLY}{len(names)}"
            cells = [only] * rows.num_rows if name is None else rows.column(name).to_pylist()
            seen = (only in cell if isinstance(cell, list) else cell == only for cell in cells)
            values = pa.array([only if sees else None for sees in seen], pa.string())
            rows = rows.append_column(own, values)
        return rows, names

    def _require_in(self, batch: base.WriteBatch) -> None:
        for write in (each for each in batch.writes if each.rows.num_rows):
            named = self._column in write.rows.column_names
            self._require(write.rows.column(self._column).unique().to_pylist() if named else [None])

    def _require(self, partitions: Collection[Any]) -> None:
        """Refuse to write another partition, or a row without one. Raises PlanError."""
        for name in (each for each in partitions if each != self._partition):
            named = "rows without a group" if name is None else f'the group "{name}"'
            alone = f'this session has the group "{self._partition}" alone'
            what = f"the plan writes {named}, and {alone}"
            raise PlanError(what, hint="nothing of these rows was written")
