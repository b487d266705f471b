"""A store that shows one partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from semgraph.errors import PlanError
from semgraph.expr import Scalar
from semgraph.logical.schema import Graph
from semgraph.stores.base import (
    CommitMarker,
    History,
    MatchQuery,
    NewContent,
    PartitionState,
    SearchQuery,
    Store,
    WriteBatch,
    Written,
)

_ONLY = "_only"  # reserved: no column of a plan starts with it


class ConfinedStore:
    """A store over the rows of one partition; the owner of the store closes it. See `Store` for the
    contract of each method; one that names another partition to write raises PlanError. Stores keep
    no counts by partition, so `statistics` are those of all.
    """

    def __init__(self, store: Store, partition: str) -> None:
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

    async def search(self, queries: Sequence[SearchQuery], rows: pa.Table) -> list[pa.Table]:
        confined_rows = _OwnRows(self._partition, rows)
        confined = [replace(q, partition=confined_rows.column(q.partition)) for q in queries]
        return await self._store.search(confined, confined_rows.rows)

    async def match(self, query: MatchQuery, rows: pa.Table) -> pa.Table:
        confined_rows = _OwnRows(self._partition, rows)
        return await self._store.match(
            replace(query, partition=confined_rows.column(query.partition)), confined_rows.rows
        )

    async def scan(
        self,
        label: str,
        properties: Sequence[str],
        partitions: Sequence[str] | None,
        where: Sequence[Scalar],
        limit: int | None = None,
    ) -> pa.Table:
        only = [self._partition] if partitions is None or self._partition in partitions else []
        return await self._store.scan(label, properties, only, where, limit)

    async def states(
        self, plan: str, rows: Mapping[str, Sequence[str]]
    ) -> Mapping[str, PartitionState]:
        self._require(rows)
        return await self._store.states(plan, rows)

    async def commit(self, batch: WriteBatch, marker: CommitMarker | None = None) -> Written:
        self._require([marker.partition] if marker is not None else [])
        self._require_in(batch)
        return await self._store.commit(batch, marker)

    async def history(self, plan: str, partitions: Sequence[str]) -> Mapping[str, History]:
        self._require(partitions)
        return await self._store.history(plan, partitions)

    async def replace(self, new: NewContent) -> Written:
        self._require([*new.heads, *(marker.partition for marker in new.markers)])
        self._require_in(new.batch)
        return await self._store.replace(new)

    async def migrate(self, graph: Graph, dimensions: int | None, *, drop: bool) -> list[str]:
        """Refuse: indexes belong to all partitions."""
        del dimensions, drop
        what = f'the schema of {self.name} belongs to all groups, and this session has the group "{self._partition}" alone'
        raise PlanError(
            what, hint=f"run plans that write the schema of {graph.name} without a group"
        )

    async def clear(self, partitions: Sequence[str] | None = None) -> None:
        """As `Store.clear`; for all partitions, clears only this one."""
        self._require(partitions or ())
        await self._store.clear([self._partition] if partitions is None else partitions)

    def _require_in(self, batch: WriteBatch) -> None:
        for write in batch.writes:
            if write.rows.num_rows:
                self._require(_values(write.rows, self._column))

    def _require(self, partitions: Collection[Any]) -> None:
        """Refuse to write another partition, or a row without one. Raises PlanError."""
        others = [name for name in partitions if name != self._partition]
        if others:
            named = f'the group "{others[0]}"' if others[0] is not None else "rows without a group"
            what = (
                f'the plan writes {named}, and this session has the group "{self._partition}" alone'
            )
            raise PlanError(what, hint="nothing of these rows was written")


def _values(rows: pa.Table, column: str) -> list[Any]:
    """The distinct partitions of rows; None for rows without one."""
    if column not in rows.column_names:
        return [None]
    values: list[Any] = rows.column(column).unique().to_pylist()
    return values


class _OwnRows:
    """Rows of a read, confined to one partition: columns that name it or all name only it."""

    def __init__(self, partition: str, rows: pa.Table) -> None:
        self.rows = rows
        self._partition = partition
        self._names: dict[str | None, str] = {}

    def column(self, name: str | None) -> str:
        """The column that replaces a partition column; None means all partitions."""
        if name not in self._names:
            own = self._names[name] = f"{_ONLY}{len(self._names)}"
            every = pa.array([self._partition] * self.rows.num_rows, pa.string())
            values = every if name is None else self._confined(self.rows.column(name))
            self.rows = self.rows.append_column(own, values)
        return self._names[name]

    def _confined(self, column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
        """The partition if a cell equals or lists it, otherwise NULL."""
        listed = pa.types.is_list(column.type)
        cells = column.to_pylist()
        values = [
            self._partition if self._partition == cell or (listed and self._partition in (cell or ())) else None
            for cell in cells
        ]  # fmt: skip
        return pa.array(values, pa.string())
