"""Reads of a store, counted and timed."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from semgraph.expr.scalar import Scalar
from semgraph.meter import StepMetrics
from semgraph.stores.base import MatchQuery, SearchQuery, Store
from semgraph.stores.trips import counting

T = TypeVar("T")


class Counted:
    """The reads of a store, counted and timed towards one step."""

    def __init__(self, store: Store, metrics: StepMetrics) -> None:
        self.store, self.metrics = store, metrics
        self.takes = store.takes

    async def _count(self, call: Coroutine[Any, Any, T]) -> T:
        started = time.perf_counter()
        with counting() as trips:
            try:
                return await call
            finally:
                self.metrics.round_trips += trips.number
                self.metrics.seconds += time.perf_counter() - started

    async def search(self, queries: Sequence[SearchQuery], rows: pa.Table) -> list[pa.Table]:
        """As `Store.search`."""
        return await self._count(self.store.search(queries, rows))

    async def match(self, query: MatchQuery, rows: pa.Table) -> pa.Table:
        """As `Store.match`."""
        return await self._count(self.store.match(query, rows))

    async def scan(
        self,
        label: str,
        properties: Sequence[str],
        partitions: Sequence[str] | None,
        where: Sequence[Scalar],
        limit: int | None = None,
    ) -> pa.Table:
        """As `Store.scan`."""
        return await self._count(self.store.scan(label, properties, partitions, where, limit))
