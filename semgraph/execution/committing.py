"""Writing to the store: windows with their marks, and rows that need none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import datetime
from uuid import uuid4

import pyarrow as pa

from semgraph.errors import ConcurrentWrite, DataError
from semgraph.execution.commit import Writes, writes_of
from semgraph.execution.outcome import Options, Outcome
from semgraph.execution.runtime import Runtime
from semgraph.execution.windows import Members, Window, rows_of
from semgraph.llm.base import Vectors
from semgraph.logical.plan import Order
from semgraph.logical.sinks import Merge
from semgraph.physical.columns import values
from semgraph.physical.planner import SinkSpec
from semgraph.physical.search_vectors import Whom
from semgraph.stores.base import Mark

COMMIT = "commit"
_AT_ONCE = 8  # transactions of different partitions
Sinks = Sequence[tuple[SinkSpec, pa.Table]]


class Commits:
    """The transactions of one run. Knows each partition's head as this run last saw it."""

    def __init__(self, runtime: Runtime, options: Options, outcome: Outcome) -> None:
        self.runtime, self.options, self.outcome = runtime, options, outcome
        self.plan = runtime.plan
        self.heads: dict[int, str | None] = {}
        self._written: dict[str, set[str]] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def rows(self, sinks: Sinks) -> None:
        """Write the rows of some sinks, in one transaction without marks."""
        writes = await writes_of(sinks, self._embed)
        if writes.batch.writes:
            await self._commit(writes, None)

    async def window(self, order: Order, window: Window, members: Members, sinks: Sinks, now: datetime) -> bool:
        """Write a window with its marks, in one transaction. False if another run wrote the partition first."""
        if not self.options.write or not self.plan.sinks:
            return True
        head = uuid4().hex
        try:
            writes = await writes_of([(s, rows_of(t, window.members)) for s, t in sinks], self._embed)
            await self._commit(writes, self._mark(order, window, members, now, head))
        except DataError as error:
            self.outcome.halt(window.partition, f'group "{members.partitions[window.partition]}" stopped: {error}')
            return False
        except ConcurrentWrite as error:
            self.outcome.halt(window.partition, str(error))
            return False
        self.heads[window.partition] = head
        self.outcome.committed += len(window.members)
        self.options.committed(self.outcome.committed, len(members.keys) - self.outcome.skipped)
        return True

    def _mark(self, order: Order, window: Window, members: Members, now: datetime, head: str) -> Mark:
        return Mark(
            plan=self.plan.logical.name,
            partition=members.partitions[window.partition],
            rows=tuple(members.keys[m] for m in window.members),
            fingerprint=self.options.fingerprint,
            now=now,
            run=self.options.run,
            before=self.heads[window.partition],
            head=head,
            witness=self._witness(order),
        )

    async def _embed(self, texts: Sequence[str], whom: Whom) -> Vectors:
        return await self.runtime.embed(texts, whom, COMMIT)

    async def _commit(self, writes: Writes, mark: Mark | None) -> None:
        metrics = self.runtime.meter.step(COMMIT)
        async with self._places:
            metrics.round_trips += 1
            started = time.perf_counter()
            with writes.placed():
                await self.runtime.store.commit(writes.batch, mark)
            metrics.seconds += time.perf_counter() - started
        key = self.plan.logical.graph.key
        for write in writes.batch.writes:
            self._written.setdefault(write.label, set()).update(values(write.rows.column(key)))
            self.outcome.written[write.label] = len(self._written[write.label])

    def _witness(self, order: Order) -> str | None:
        """The label of the node that a `first` sink writes for a member row, keyed by the row's id."""
        for spec in self.plan.sinks:
            sink = spec.sink
            if isinstance(sink, Merge) and sink.first and sink.node and order.key == (sink.key or sink.graph.key):
                return sink.node
        return None
