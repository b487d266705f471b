"""A store that reads and writes one partition, whatever a plan asks for.

A read of all partitions is one of this partition, a read of several finds the rows of this one
alone, and a write of another is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from semgraph.errors import PlanError, Problem
from semgraph.expr import Scalar
from semgraph.logical.schema import Graph
from semgraph.stores.base import (
    CommitMarker,
    MatchQuery,
    Migratable,
    PartitionState,
    SearchQuery,
    Statistics,
    Store,
    WriteBatch,
    Written,
    open_for_reading,
)

_ONLY = "_only"  # no column of a plan begins so


class ConfinedStore:
    """A store over the rows of one partition. See `Store` for what each method promises; one that
    names another partition to write raises PlanError.

    `statistics` counts the rows of all partitions, because stores keep no counts of one.

    Args:
        store: The store; closing it is its owner's business.
        partition: The partition.
    """

    def __init__(self, store: Store, partition: str) -> None:
        self._store, self._partition = store, partition
        self._column = ""
        self.takes = store.takes

    @property
    def name(self) -> str:
        """As the store's."""
        return self._store.name

    @property
    def round_trips(self) -> int:
        """As the store's."""
        return self._store.round_trips

    @property
    def nearest(self) -> str:
        """As the store's."""
        return self._store.nearest

    @property
    def notes(self) -> tuple[str, ...]:
        """As `Migratable.notes`."""
        return self._store.notes if isinstance(self._store, Migratable) else ()

    async def ensure(self, graph: Graph, dimensions: int | None) -> None:
        """As `Store.ensure`."""
        self._column = graph.partition
        await self._store.ensure(graph, dimensions)

    async def attach(self, graph: Graph, dimensions: int | None = None) -> None:
        """As `Attachable.attach`."""
        self._column = graph.partition
        await open_for_reading(self._store, graph, dimensions)

    async def search(self, queries: Sequence[SearchQuery], rows: pa.Table) -> list[pa.Table]:
        """As `Store.search`."""
        own = _OwnRows(self._partition, rows)
        confined = [replace(q, partition=own.column(q.partition)) for q in queries]
        return await self._store.search(confined, own.rows)

    async def match(self, query: MatchQuery, rows: pa.Table) -> pa.Table:
        """As `Store.match`."""
        own = _OwnRows(self._partition, rows)
        return await self._store.match(
            replace(query, partition=own.column(query.partition)), own.rows
        )

    async def scan(
        self,
        label: str,
        properties: Sequence[str],
        partitions: Sequence[str] | None,
        where: Sequence[Scalar],
        limit: int | None = None,
    ) -> pa.Table:
        """As `Store.scan`."""
        only = [self._partition] if partitions is None or self._partition in partitions else []
        return await self._store.scan(label, properties, only, where, limit)

    async def states(
        self, plan: str, rows: Mapping[str, Sequence[str]]
    ) -> Mapping[str, PartitionState]:
        """As `Store.states`."""
        self._require(rows)
        return await self._store.states(plan, rows)

    async def commit(self, batch: WriteBatch, marker: CommitMarker | None = None) -> Written:
        """As `Store.commit`."""
        self._require([marker.partition] if marker is not None else [])
        for write in batch.writes:
            if write.rows.num_rows:
                self._require(_values(write.rows, self._column))
        return await self._store.commit(batch, marker)

    async def check_derived(self, places: Iterable[tuple[str, str]]) -> None:
        """As `Migratable.check_derived`."""
        if isinstance(self._store, Migratable):
            await self._store.check_derived(places)

    async def migrate(self, graph: Graph, dimensions: int | None, *, drop: bool) -> list[str]:
        """Refuse, because indexes belong to all partitions."""
        del dimensions, drop
        what = f'the schema of {self.name} belongs to all groups, and this session has the group "{self._partition}" alone'
        raise PlanError(
            Problem(what, hint=f"run plans that write the schema of {graph.name} without a group")
        )

    async def statistics(self) -> Statistics:
        """As `Store.statistics`."""
        return await self._store.statistics()

    async def clear(self, partitions: Sequence[str] | None = None) -> None:
        """As `Store.clear`; of all partitions it clears this one."""
        self._require(partitions or ())
        await self._store.clear([self._partition] if partitions is None else partitions)

    async def aclose(self) -> None:
        """As `Store.aclose`."""
        await self._store.aclose()

    def _require(self, partitions: Collection[Any]) -> None:
        """Refuse to write another partition, or a row without one. Raises PlanError."""
        others = [name for name in partitions if name != self._partition]
        if others:
            named = f'the group "{others[0]}"' if others[0] is not None else "rows without a group"
            what = (
                f'the plan writes {named}, and this session has the group "{self._partition}" alone'
            )
            raise PlanError(Problem(what, hint="nothing of these rows was written"))


def _values(rows: pa.Table, column: str) -> list[Any]:
    """The different partitions of rows; None for those without one."""
    if column not in rows.column_names:
        return [None]
    values: list[Any] = rows.column(column).unique().to_pylist()
    return values


class _OwnRows:
    """Rows of a read, with columns that name one partition where they named it, or all."""

    def __init__(self, partition: str, rows: pa.Table) -> None:
        self.rows = rows
        self._partition = partition
        self._names: dict[str | None, str] = {}

    def column(self, name: str | None) -> str:
        """The column in place of a partition column; of None, which means all partitions."""
        if name not in self._names:
            own = self._names[name] = f"{_ONLY}{len(self._names)}"
            count = self.rows.num_rows
            values = (
                pa.array([self._partition] * count, pa.string())
                if name is None
                else self._confined(self.rows.column(name))
            )
            self.rows = self.rows.append_column(own, values)
        return self._names[name]

    def _confined(self, column: pa.ChunkedArray[Any]) -> pa.Array[Any]:
        """The partition where a cell is it or lists it, elsewhere NULL."""
        listed = pa.types.is_list(column.type)
        cells = column.to_pylist()
        values = [
            self._partition if self._partition == cell or (listed and self._partition in (cell or ())) else None
            for cell in cells
        ]  # fmt: skip
        return pa.array(values, pa.string())
