"""Running a plan: at once, or window by window with what can running ahead.

The *ordered part* is what depends on the run's own writes; it runs wave by wave, a wave being the next window of every
partition, and each window commits in one transaction with its marks. All else runs *ahead* in slices, bounded by
`order.ahead`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semgraph.errors import BudgetReached, DataError, EngineError, SemgraphError
from semgraph.execution.committing import COMMIT, Commits
from semgraph.execution.evaluation import Evaluation
from semgraph.execution.outcome import Options, Outcome
from semgraph.execution.preparing import given_rows, members_of, waves_of
from semgraph.execution.runtime import Runtime
from semgraph.execution.windows import Members, Wave, Window, rows_of, slices
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import Order
from semgraph.logical.sinks import Merge
from semgraph.physical.relational import runtime_schema
from semgraph.physical.semantic import Failure
from semgraph.physical.sql import MEMBER, PARTITION
from semgraph.stores.base import PartitionState


class Executor:
    """Runs one physical plan once."""

    def __init__(self, runtime: Runtime, options: Options) -> None:
        self.runtime, self.options = runtime, options
        self.plan = runtime.plan
        self.outcome = Outcome()
        self.commits = Commits(runtime, options, self.outcome)

    async def run(self, inputs: Mapping[str, pa.Table]) -> Outcome:
        """Run over the rows of the inputs. On BudgetReached the outcome says `stopped`; other errors propagate."""
        order = self.plan.logical.order
        try:
            if order is None:
                await self._at_once(inputs)
            else:
                await self._by_windows(order, inputs)
        except BudgetReached as error:
            self.outcome.stopped = str(error)
        return self.outcome

    # -- plans without an order ------------------------------------------------------------------------------

    async def _at_once(self, inputs: Mapping[str, pa.Table]) -> None:
        async with Evaluation(self.runtime, given_rows(self.plan, inputs), self.options.now("run")) as evaluation:
            sinks = [spec.rows for spec in self.plan.sinks]
            returns = self.plan.logical.returns
            tables = await evaluation.tables([*sinks, *returns.values()])
            self._keep(dict(zip(returns, tables[len(sinks) :], strict=True)))
            self.outcome.failures += evaluation.failures
            if self.options.write and sinks:
                await self.commits.rows(list(zip(self.plan.sinks, tables, strict=False)))

    def _keep(self, tables: Mapping[str, pa.Table]) -> None:
        """Add the rows of a wave to the results; those that derive from no member are the same in each: the last stay."""
        for name, table in tables.items():
            before = self.outcome.tables.get(name, []) if MEMBER in table.column_names else []
            self.outcome.tables[name] = [*before, table]

    # -- plans with an order ---------------------------------------------------------------------------------

    async def _by_windows(self, order: Order, inputs: Mapping[str, pa.Table]) -> None:
        members = self.outcome.members = await members_of(self.runtime, order, inputs)
        pending = await self._pending(members)
        self.options.committed(0, len(members.keys) - self.outcome.skipped)
        rows = given_rows(self.plan, {**inputs, order.input: members.rows})
        await self._search_whole(rows)
        waves = waves_of(self.runtime, order, members, pending)
        queue: asyncio.Queue[_Slice | BaseException | None] = asyncio.Queue(maxsize=1)
        ahead = asyncio.create_task(self._run_ahead(order, waves, rows, queue))
        try:
            while (item := await queue.get()) is not None:
                if isinstance(item, BaseException):
                    raise item
                for wave in item.waves:
                    await self._wave(order, wave, item.tables, rows)
        finally:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)

    async def _pending(self, members: Members) -> dict[int, list[int]]:
        """Members that are not marked yet, by partition."""
        plan = self.plan.logical
        states: Mapping[str, PartitionState] = {}
        if members.partitions and plan.writes:
            self.runtime.meter.step(COMMIT).round_trips += 1
            states = await self.runtime.store.states(plan.name, members.partitions)
        pending: dict[int, list[int]] = {}
        changed = 0
        for number, own in enumerate(members.of):
            state = states.get(members.partitions[number], PartitionState())
            self.commits.heads[number] = state.head
            marked = {} if self.options.again else state.marked
            done = [m for m in own if members.keys[m] in marked and m not in members.bare]
            pending[number] = [m for m in own if m not in set(done)]
            self.outcome.skipped += len(done)
            seen = [marked[members.keys[m]] for m in done]
            changed += sum(mark.fingerprint != self.options.fingerprint for mark in seen)
        if changed:
            self.outcome.notes.append(
                f"the plan, its parameters or its ways changed since {changed} of these rows were written: they stay as "
                "written; --again reads them anew"
            )
        return pending

    async def _search_whole(self, given: Mapping[int, pa.Table]) -> None:
        """Steps that are searched and derive from inputs alone: their rows of the whole run, members done included."""
        nodes = [node for node in walk(*self.plan.roots) if id(node) in self.plan.whole]
        if nodes:
            async with Evaluation(self.runtime, given, self.options.now("run")) as evaluation:
                for node, table in zip(nodes, await evaluation.tables(nodes), strict=True):
                    self.runtime.whole[id(node)] = table

    async def _run_ahead(
        self, order: Order, waves: Sequence[Wave], given: Mapping[int, pa.Table], queue: asyncio.Queue[Any]
    ) -> None:
        """Compute slices and hand them over; an error goes over the queue, behind the slices that were finished."""
        try:
            for number, part in enumerate(slices(waves, order.ahead)):
                for found in await self._slices(part, given, f"slice {number}"):
                    await queue.put(found)
            await queue.put(None)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - handed to the consumer, which raises it
            await queue.put(error)

    async def _slices(self, waves: tuple[Wave, ...], given: Mapping[int, pa.Table], name: str) -> list[_Slice]:
        """A slice; or, where the data of one window fails a statement, the windows one by one, to find whose it is."""
        try:
            return [await self._slice(waves, given, name)]
        except DataError as error:
            windows = [window for wave in waves for window in wave]
            if len(windows) == 1:
                self._stop(windows[0], error)
                return []
            return [found for window in windows for found in await self._slices(((window,),), given, name)]

    def _stop(self, window: Window, error: DataError) -> None:
        group = self.runtime.partitions[window.members[0]]
        self.outcome.halt(window.partition, f'group "{group}" stopped: {error}')

    async def _slice(self, waves: tuple[Wave, ...], given: Mapping[int, pa.Table], name: str) -> _Slice:
        windows = [window for wave in waves for window in self._going_on(wave)]
        if not windows:
            return _Slice(waves, {})
        return _Slice(waves, await self._boundary(windows, given, name, first=True))

    async def _boundary(
        self, windows: Sequence[Window], given: Mapping[int, pa.Table], name: str, *, first: bool = False
    ) -> dict[int, pa.Table]:
        """The rows of the boundary. Where rows depend on each other, a window that loses one is computed again without it."""
        boundary = self.plan.boundary
        now, rows = self.options.now(name), self._rows(windows, given)
        async with Evaluation(self.runtime, rows, now, windows, held=True) as evaluation:
            if first:
                await self._write_firsts(evaluation)
            tables = dict(zip(map(id, boundary), await evaluation.tables(boundary), strict=True))
            lost = self._fail(evaluation.failures)
            smaller = self._going_on([window for window in windows if lost & set(window.members)])
            if not smaller or not _rows_meet(boundary):
                return tables
            evaluation.settle(_not_again(windows, lost))
        again = await self._boundary(smaller, given, name)
        done = [m for window in windows if not lost & set(window.members) for m in window.members]
        return {
            key: pa.concat_tables([rows_of(table, done), again[key]]) if MEMBER in table.column_names else table
            for key, table in tables.items()
        }

    async def _write_firsts(self, evaluation: Evaluation) -> None:
        """Write what is written before any model is asked."""
        firsts = [spec for spec in self.plan.sinks if isinstance(spec.sink, Merge) and spec.sink.first]
        if firsts and self.options.write:
            tables = await evaluation.tables([spec.rows for spec in firsts])
            await self.commits.rows(list(zip(firsts, tables, strict=True)))

    def _rows(self, windows: Sequence[Window], tables: Mapping[int, pa.Table]) -> dict[int, pa.Table]:
        """The rows of some windows, by node."""
        confinement = self.runtime.confinement
        if confinement is None:
            raise EngineError("windows without members")
        members = [m for window in windows for m in window.members]
        return {key: confinement.by_window(rows_of(table, members)) for key, table in tables.items()}

    def _going_on(self, windows: Sequence[Window]) -> list[Window]:
        """Windows without failed members, of partitions that were not stopped."""
        going = [window for window in windows if window.partition not in self.outcome.halted]
        left = ((w, tuple(m for m in w.members if m not in self.outcome.failed_members)) for w in going)
        return [Window(window.partition, members) for window, members in left if members]

    def _fail(self, failures: Iterable[Failure]) -> set[int]:
        """Note failed rows; the members they belong to."""
        failures = list(failures)
        lost = {f.member for f in failures if f.member is not None}
        if any(f.member is None for f in failures):
            first = next(f for f in failures if f.member is None)
            raise SemgraphError(
                f"step {first.step}: {first.error}; the row belongs to no member, so the run cannot go on without it"
            )
        self.outcome.failures += failures
        self.outcome.failed_members |= lost
        return lost

    async def _wave(
        self, order: Order, wave: Wave, tables: Mapping[int, pa.Table], given: Mapping[int, pa.Table]
    ) -> None:
        """Run the windows of a wave together; windows that lose a member are run again without it."""
        everyone = self.outcome.members
        if everyone is None:
            raise EngineError("a wave without members")
        windows = self._without_failed(order, wave)
        while windows:
            now = self.options.now(f"wave {windows[0].members[0]}")
            sinks = [spec for spec in self.plan.sinks if not (isinstance(spec.sink, Merge) and spec.sink.first)]
            returns = self.plan.logical.returns
            rows = self._rows(windows, {**given, **tables})
            try:
                async with Evaluation(self.runtime, rows, now, windows, held=True) as evaluation:
                    found = await evaluation.tables([*(s.rows for s in sinks), *returns.values()])
                    lost = self._fail(evaluation.failures)
                    evaluation.settle(_not_again(windows, lost))
            except DataError as error:
                if len(windows) == 1:
                    self._stop(windows[0], error)
                else:
                    for window in windows:
                        await self._wave(order, (window,), tables, given)
                return
            good = [window for window in windows if not lost & set(window.members)]
            batches = list(zip(sinks, found, strict=False))
            done = await all_ended(self.commits.window(order, window, everyone, batches, now) for window in good)
            kept = [m for window, ok in zip(good, done, strict=True) if ok for m in window.members]
            self._keep({name: rows_of(table, kept) for name, table in zip(returns, found[len(sinks) :], strict=True)})
            windows = self._without_failed(order, tuple(window for window in windows if window not in good))

    def _without_failed(self, order: Order, windows: Sequence[Window]) -> list[Window]:
        """Windows that go on; a partition of which a member failed is stopped, where the order says so."""
        for window in windows if order.on_error == "stop" else ():
            failed = any(m in self.outcome.failed_members for m in window.members)
            if failed and window.partition not in self.outcome.halted:
                group = self.runtime.partitions[window.members[0]]
                self.outcome.halt(window.partition, f'group "{group}" stopped: a row of it failed')
        return self._going_on(windows)


def _rows_meet(nodes: Sequence[Node]) -> bool:
    """Whether what is computed of a row of a window may depend on its other rows."""
    return any(
        not node.rowwise or any(child.partitioned for child in node.inputs[1:])
        for node in walk(*nodes)
        if node.partitioned and node.inputs
    )


def _not_again(windows: Sequence[Window], lost: set[int]) -> set[int] | None:
    """The members that are done: all (None), but those who are run again because their window lost another one."""
    if not lost:
        return None
    again = {m for window in windows if lost & set(window.members) for m in window.members} - lost
    return {m for window in windows for m in window.members} - again


@dataclass(frozen=True)
class _Slice:
    """Waves whose part ahead is computed: the rows of the boundary, by node."""

    waves: tuple[Wave, ...]
    tables: Mapping[int, pa.Table]


async def all_ended(works: Iterable[Coroutine[Any, Any, bool]]) -> list[bool]:
    """What all of them give. When one fails the others are waited for, so that none writes behind its back."""
    ended = await asyncio.gather(*works, return_exceptions=True)
    for found in ended:
        if isinstance(found, BaseException):
            raise found
    return [found is True for found in ended]


def result_table(node: Node, parts: Sequence[pa.Table]) -> pa.Table:
    """A result without hidden columns: window after window, by their first rows in the input; each as the plan orders it."""
    table = pa.concat_tables(parts) if parts else runtime_schema(node).empty_table()
    if MEMBER in table.column_names:
        numbered = table.append_column("_row", pa.array(range(table.num_rows)))
        table = numbered.sort_by([(PARTITION, "ascending"), ("_row", "ascending")])
    return table.select(node.schema.names)
