"""Writing to the store: windows with their marks, and rows that need none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import uuid4

from semgraph.errors import ConcurrentWrite, DataError
from semgraph.execution.commit import Sinks, Unwritten, Writes, writes_of
from semgraph.execution.outcome import Options, Outcome
from semgraph.execution.runtime import Runtime
from semgraph.execution.windows import Members, Window, rows_of
from semgraph.llm.base import Vectors
from semgraph.logical.plan import Order
from semgraph.logical.sinks import Merge
from semgraph.physical.columns import values
from semgraph.physical.search_vectors import Whom
from semgraph.stores.base import Mark
from semgraph.stores.refusals import RowsRefused
from semgraph.stores.trips import counting

COMMIT = "commit"
_AT_ONCE = 8  # transactions of different partitions


@dataclass(frozen=True)
class Attempt:
    """Whether a window was committed; if not, the rows that cannot be written (none: its partition was stopped)."""

    done: bool = False
    unwritten: Sequence[Unwritten] = ()


class Commits:
    """The transactions of one run. Knows each partition's head as this run last saw it."""

    def __init__(self, runtime: Runtime, options: Options, outcome: Outcome) -> None:
        self.runtime, self.options, self.outcome = runtime, options, outcome
        self.plan = runtime.plan
        self.heads: dict[int, str | None] = {}
        self._written: dict[str, set[str]] = {}
        self._places = asyncio.Semaphore(_AT_ONCE)

    async def rows(self, sinks: Sinks) -> list[Unwritten]:
        """Write the rows of some sinks, in one transaction without marks; or nothing, and the rows that cannot be written."""
        return await self._write(sinks, None)

    async def window(self, order: Order, window: Window, members: Members, sinks: Sinks, now: datetime) -> Attempt:
        """Write a window with its marks, in one transaction; or nothing, if rows of it cannot be written. A partition that
        another run wrote first, or with a fault that is of no row, is stopped.
        """
        if not self.options.write or not self.plan.sinks:
            return Attempt(done=True)
        head = uuid4().hex
        try:
            own = [(s, rows_of(t, window.members)) for s, t in sinks]
            unwritten = await self._write(own, self._mark(order, window, members, now, head))
        except DataError as error:
            self.outcome.halt(window.partition, f'group "{members.partitions[window.partition]}" stopped: {error}')
            return Attempt()
        except ConcurrentWrite as error:
            self.outcome.halt(window.partition, str(error))
            return Attempt()
        if unwritten:
            return Attempt(unwritten=unwritten)
        self.heads[window.partition] = head
        self.outcome.committed += len(window.members)
        self.options.committed(self.outcome.committed, len(members.keys) - self.outcome.skipped)
        return Attempt(done=True)

    async def _write(self, sinks: Sinks, mark: Mark | None) -> list[Unwritten]:
        writes = await writes_of(sinks, self._embed)
        if writes.unwritten:
            return list(writes.unwritten)
        if writes.batch.writes or mark is not None:
            try:
                await self._commit(writes, mark)
            except RowsRefused as error:
                return writes.refused(error)
        return []

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
            started = time.perf_counter()
            with writes.placed(), counting() as trips:
                try:
                    await self.runtime.store.commit(writes.batch, mark)
                finally:
                    metrics.round_trips += trips.number
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
