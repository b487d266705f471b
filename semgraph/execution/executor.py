"""Running a plan: at once, or window by window with what can running ahead.

The *ordered part* is what depends on the run's own writes; it runs wave by wave, a wave being the
next window of every partition, and each window commits in one transaction with its marks. All else
runs *ahead* in slices, bounded by `order.ahead`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import BudgetReached, DataError, EngineError, SemgraphError
from semgraph.execution.commit import COMMIT, Attempt, Commits, Sinks, Unwritten, without
from semgraph.execution.evaluation import Evaluation, Replies
from semgraph.execution.result import Options, Outcome
from semgraph.execution.runtime import Runtime
from semgraph.execution.windows import (
    Confinement,
    Members,
    Wave,
    Window,
    cut,
    prepare,
    refuse_nul,
    rows_of,
    slices,
    without_nul,
)
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import Order
from semgraph.logical.relational import Input, Nothing
from semgraph.logical.sinks import Merge
from semgraph.physical.planner import PhysicalPlan
from semgraph.relational.fragments import runtime_schema
from semgraph.relational.sql import MEMBER, PARTITION
from semgraph.semantic.ask import Failure
from semgraph.stores.base import PartitionState, count_round_trips


def given_rows(plan: PhysicalPlan, inputs: Mapping[str, pa.Table]) -> dict[int, pa.Table]:
    """The rows of the inputs by `id` of their nodes, as far as there are any."""
    found = [node for node in walk(*plan.roots) if isinstance(node, Input)]
    nothing = {
        id(node): runtime_schema(node).empty_table() for node in found if isinstance(node, Nothing)
    }
    return {id(node): inputs[node.name] for node in found if node.name in inputs} | nothing


async def members_of(runtime: Runtime, order: Order, inputs: Mapping[str, pa.Table]) -> Members:
    """The rows that are cut into windows; the runtime is told their partitions."""
    members = await prepare(order, inputs[order.input])
    runtime.partitions[:] = members.names
    return members


def waves_of(
    runtime: Runtime, order: Order, members: Members, pending: Mapping[int, Sequence[int]]
) -> list[Wave]:
    """The windows of the members that are to be run; the runtime is told what confines their
    rows.
    """
    waves = cut(order, pending)
    runtime.confinement = Confinement.of(members, waves)
    return waves


T = TypeVar("T")
_Refused = tuple[int, str, str, bool]  # partition, label, key, and whether the store refused it


class Executor:
    """Runs one physical plan once."""

    def __init__(self, runtime: Runtime, options: Options) -> None:
        self.runtime, self.options = runtime, options
        self.plan = runtime.plan
        self.outcome = Outcome()
        self.commits = Commits(runtime, options, self.outcome)

    async def run(self, inputs: Mapping[str, pa.Table]) -> Outcome:
        """Run over the rows of the inputs. On BudgetReached the outcome says `stopped`; other
        errors propagate.
        """
        order = self.plan.logical.order
        try:
            if order is None:
                await self._at_once(inputs)
            else:
                await self._by_windows(order, inputs)
        except BudgetReached as error:
            self.outcome.stopped = str(error)
        return self.outcome

    # -- plans without an order
    # ------------------------------------------------------------------------------

    async def _at_once(self, inputs: Mapping[str, pa.Table]) -> None:
        clean = {name: without_nul(name, table) for name, table in inputs.items()}
        self.outcome.failures += [failure for _, failures in clean.values() for failure in failures]
        inputs = {name: table for name, (table, _) in clean.items()}
        async with Evaluation(
            self.runtime, given_rows(self.plan, inputs), self.options.now("run")
        ) as evaluation:
            sinks = [spec.rows for spec in self.plan.sinks]
            returns = self.plan.logical.returns
            tables = await evaluation.tables([*sinks, *returns.values()])
            self._keep(dict(zip(returns, tables[len(sinks) :], strict=True)))
            self.outcome.failures += evaluation.failures
            if self.options.write and sinks:
                self.runtime.recorder.keep()
                unwritten = await self.commits.rows(
                    list(zip(self.plan.sinks, tables, strict=False))
                )
                if unwritten:  # no row says which others it belongs to, so none is written
                    raise _nothing_written(unwritten)

    async def _write_firsts(self, sinks: Sinks) -> None:
        """Write rows of the input as they are given; the members of those that cannot be written
        are set aside.
        """
        while unwritten := await self.commits.rows(sinks):
            sinks = without(sinks, self._fail(_failures(unwritten)))

    def _keep(self, tables: Mapping[str, pa.Table]) -> None:
        """Add the rows of a wave to the results; those that derive from no member are the same in
        each: the last stay.
        """
        for name, table in tables.items():
            before = self.outcome.tables.get(name, []) if MEMBER in table.column_names else []
            self.outcome.tables[name] = [*before, table]

    # -- plans with an order
    # ---------------------------------------------------------------------------------

    async def _by_windows(self, order: Order, inputs: Mapping[str, pa.Table]) -> None:
        refuse_nul(inputs, order)
        members = self.outcome.members = await members_of(self.runtime, order, inputs)
        self._fail(without_nul(order.input, inputs[order.input], members=True)[1])
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
                    await self._wave(order, wave, item, rows)
        finally:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)

    async def _pending(self, members: Members) -> dict[int, list[int]]:
        """Members that are not marked yet, by partition."""
        plan = self.plan.logical
        states: Mapping[str, PartitionState] = {}
        if members.partitions and plan.writes:
            with count_round_trips() as trips:
                states = await self.runtime.store.states(plan.name, members.partitions)
            self.runtime.meter.step(COMMIT).round_trips += trips.number
        pending: dict[int, list[int]] = {}
        changed = 0
        for number, own in enumerate(members.of):
            state = states.get(members.partitions[number], PartitionState())
            self.commits.heads[number] = state.head
            marked = {} if self.options.again else state.committed
            done = [m for m in own if members.keys[m] in marked and m not in members.bare]
            skip = set(done)
            pending[number] = [m for m in own if m not in skip]
            self.outcome.skipped += len(done)
            seen = [marked[members.keys[m]] for m in done]
            changed += sum(mark.fingerprint != self.options.fingerprint for mark in seen)
        if changed:
            self.outcome.notes.append(
                f"the plan, its parameters or its ways changed since {changed} of these rows were written: they stay as "
                "written; --reprocess reads them anew"
            )
        return pending

    async def _search_whole(self, given: Mapping[int, pa.Table]) -> None:
        """Steps that are searched and derive from inputs alone: their rows of the whole run,
        members done included.
        """
        nodes = [node for node in walk(*self.plan.roots) if id(node) in self.plan.whole]
        if nodes:
            async with Evaluation(self.runtime, given, self.options.now("run")) as evaluation:
                for node, table in zip(nodes, await evaluation.tables(nodes), strict=True):
                    self.runtime.whole[id(node)] = table

    async def _run_ahead(
        self,
        order: Order,
        waves: Sequence[Wave],
        given: Mapping[int, pa.Table],
        queue: asyncio.Queue[Any],
    ) -> None:
        """Compute slices and hand them over; an error goes over the queue, behind the slices that
        were finished.
        """
        try:
            for number, part in enumerate(slices(waves, order.ahead)):
                for found in await self._slices(part, given, f"slice {number}"):
                    await queue.put(found)
            await queue.put(None)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - handed to the consumer, which raises it
            await queue.put(error)

    async def _slices(
        self, waves: tuple[Wave, ...], given: Mapping[int, pa.Table], name: str
    ) -> list[_Slice]:
        """A slice; or, where the data of one window fails a statement, the windows one by one, to
        find whose it is.
        """
        try:
            return [await self._slice(waves, given, name)]
        except DataError as error:
            windows = [window for wave in waves for window in wave]
            if len(windows) == 1:
                self._stop(windows[0], error)
                return []
            return [
                found
                for window in windows
                for found in await self._slices(((window,),), given, name)
            ]

    def _stop(self, window: Window, error: DataError) -> None:
        group = self.runtime.partitions[window.members[0]]
        self.outcome.halt(window.partition, f'group "{group}" stopped: {error}')

    async def _slice(
        self, waves: tuple[Wave, ...], given: Mapping[int, pa.Table], name: str
    ) -> _Slice:
        windows = [window for wave in waves for window in self._going_on(wave)]
        if not windows:
            return _Slice(waves, self.options.now(name))
        rows = self._rows(windows, given)
        part = _Slice(
            waves,
            self.options.now(name),
            {self._number(w): w.members for w in windows},
            self._replies(),
        )
        async with Evaluation(
            self.runtime, rows, part.now, windows, replies=part.replies, held=True
        ) as evaluation:
            firsts = [
                spec for spec in self.plan.sinks if isinstance(spec.sink, Merge) and spec.sink.first
            ]
            if firsts and self.options.write:
                tables = await evaluation.tables([spec.rows for spec in firsts])
                await self._write_firsts(list(zip(firsts, tables, strict=True)))
            boundary = self.plan.boundary
            tables = await evaluation.tables(boundary)
            self._fail(evaluation.failures)
            part.tables |= {id(node): table for node, table in zip(boundary, tables, strict=True)}
        return part

    def _number(self, window: Window) -> int:
        """The number of a window, also where it has lost members."""
        confinement = self.runtime.confinement
        if confinement is None:
            raise EngineError("windows without members")
        return confinement.window_of(window.members[0])

    def _replies(self) -> Replies | None:
        return {} if self.runtime.remembers else None

    async def _ahead_without(
        self, order: Order, part: _Slice, windows: list[Window], given: Mapping[int, pa.Table]
    ) -> list[Window]:
        """The windows that go on, with what runs ahead computed without the members that they lost,
        also by this.
        """
        before = None
        while windows and windows != before:
            await self._ahead_again(part, windows, given)
            before, windows = windows, self._without_failed(order, windows)
        return windows

    async def _ahead_again(
        self, part: _Slice, windows: Sequence[Window], given: Mapping[int, pa.Table]
    ) -> None:
        """Compute what runs ahead for windows that lost members since: rows may be made of several
        members.

        It was counted and recorded already.
        """
        changed = [
            window for window in windows if part.members[self._number(window)] != window.members
        ]
        if not changed or not _rows_meet(self.plan.boundary):
            return
        rows = self._rows(changed, given)
        async with Evaluation(
            self.runtime, rows, part.now, changed, replies=part.replies, held=True
        ) as evaluation:
            tables = await evaluation.tables(self.plan.boundary)
            self._fail(evaluation.failures)
            evaluation.forget()
        before = {m for window in changed for m in part.members[self._number(window)]}
        for node, table in zip(self.plan.boundary, tables, strict=True):
            part.tables[id(node)] = _replaced(part.tables[id(node)], table, before)
        part.members |= {self._number(window): window.members for window in changed}

    def _rows(
        self, windows: Sequence[Window], tables: Mapping[int, pa.Table]
    ) -> dict[int, pa.Table]:
        """The rows of some windows, by node."""
        confinement = self.runtime.confinement
        if confinement is None:
            raise EngineError("windows without members")
        members = [m for window in windows for m in window.members]
        return {
            key: confinement.by_window(rows_of(table, members)) for key, table in tables.items()
        }

    def _going_on(self, windows: Sequence[Window]) -> list[Window]:
        """Windows without failed members, of partitions that were not stopped."""
        going = [window for window in windows if window.partition not in self.outcome.halted]
        left = (
            (w, tuple(m for m in w.members if m not in self.outcome.failed_members)) for w in going
        )
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
        self, order: Order, wave: Wave, part: _Slice, given: Mapping[int, pa.Table]
    ) -> None:
        """Run the windows of a wave together; windows that lose a member are run again without
        it.
        """
        windows = self._without_failed(order, wave)
        sinks = [
            spec
            for spec in self.plan.sinks
            if not (isinstance(spec.sink, Merge) and spec.sink.first)
        ]
        returns = self.plan.logical.returns
        refused: set[_Refused] = set()
        while windows:
            now = self.options.now(f"wave {windows[0].members[0]}")
            try:
                windows = await self._ahead_without(order, part, windows, given)
                if not windows:
                    return
                rows = self._rows(windows, {**given, **part.tables})
                async with Evaluation(
                    self.runtime, rows, now, windows, replies=part.replies, held=True
                ) as evaluation:
                    found = await evaluation.tables([*(s.rows for s in sinks), *returns.values()])
                    lost = self._fail(evaluation.failures)
                    attempt = _WaveAttempt(
                        evaluation, windows, lost, list(zip(sinks, found, strict=False)), now
                    )
                    ends = await self._commit(order, attempt, refused)
            except DataError as error:
                if len(windows) == 1:
                    self._stop(windows[0], error)
                else:
                    for window in windows:
                        await self._wave(order, (window,), part, given)
                return
            kept = [m for window, end in ends if end.done for m in window.members]
            self._keep(
                {
                    name: rows_of(table, kept)
                    for name, table in zip(returns, found[len(sinks) :], strict=True)
                }
            )
            over = [window for window, end in ends if not end.unwritten]
            windows = self._without_failed(
                order, tuple(window for window in windows if window not in over)
            )

    async def _commit(
        self, order: Order, attempt: _WaveAttempt, refused: set[_Refused]
    ) -> list[tuple[Window, Attempt]]:
        """Commit the windows that lost no member; how each ended.

        Rows are recorded before they are committed. What is computed again is neither counted nor
        stays recorded. `refused` are the rows that were refused in earlier attempts, as (partition,
        label, key); those of this one are added.
        """
        members = self.outcome.members
        if members is None:
            raise EngineError("a wave without members")
        recorder, good = self.runtime.recorder, attempt.good
        recorder.begin()
        attempt.record()
        recorder.keep()
        found = await all_ended(
            self.commits.window(order, w, members, attempt.sinks, attempt.now) for w in good
        )
        ends = list(zip(good, found, strict=True))
        if again := {
            m for window, end in ends for m in self._fail(_refusals(window, end.unwritten, refused))
        }:
            attempt.lost |= again
            recorder.take_back()
            attempt.record()
        recorder.end()
        attempt.settle()
        return ends

    def _without_failed(self, order: Order, windows: Sequence[Window]) -> list[Window]:
        """Windows that go on; a partition of which a member failed is stopped, where the order says
        so.
        """
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


@dataclass
class _WaveAttempt:
    """A wave that is computed, and is committed as far as it lost nothing.

    Args:
        evaluation: Holds what is recorded and counted.
        windows: All that are computed.
        lost: Members that failed.
        sinks: The rows to write.
        now: The time of the wave.
    """

    evaluation: Evaluation
    windows: Sequence[Window]
    lost: set[int]
    sinks: Sinks
    now: datetime

    @property
    def good(self) -> list[Window]:
        """The windows that lost no member."""
        return [window for window in self.windows if not self.lost & set(window.members)]

    @property
    def done(self) -> set[int] | None:
        """The members that are done: all (None), but those who are computed again because their
        window lost another one.
        """
        if not self.lost:
            return None
        again = {
            m for window in self.windows if self.lost & set(window.members) for m in window.members
        } - self.lost
        return {m for window in self.windows for m in window.members} - again

    def record(self) -> None:
        """Record the rows of those that are done."""
        self.evaluation.record(self.done)

    def settle(self) -> None:
        """Count what those that are done took."""
        self.evaluation.settle(self.done)


@dataclass
class _Slice:
    """Waves whose part ahead is computed.

    Args:
        waves: Their windows.
        now: The value of `$now` in it.
        members: The members that it was computed with, by the number of their window.
        replies: Answers that were given for its windows; None where they are not kept.
        tables: The rows of the boundary, by node.
    """

    waves: tuple[Wave, ...]
    now: datetime
    members: dict[int, tuple[int, ...]] = field(default_factory=dict)
    replies: Replies | None = None
    tables: dict[int, pa.Table] = field(default_factory=dict)


def _replaced(table: pa.Table, new: pa.Table, members: set[int]) -> pa.Table:
    """A relation with other rows for some members."""
    if MEMBER not in table.column_names:
        return table
    of = pa.array(members, pa.int64())
    own: Any = pc.is_in(table.column(MEMBER), value_set=of)  # not NULL where there is no member
    return pa.concat_tables([table.filter(pc.invert(own)), rows_of(new, sorted(members))])


def _nothing_written(unwritten: Sequence[Unwritten]) -> DataError:
    """The error of a plan without an order of which rows cannot be written."""
    problem, sink, more = unwritten[0].problem, unwritten[0].spec.sink, len(unwritten) - 1
    others = f" ({more} more cannot be written either)" if more else ""
    what = f"{problem.what}{others}; nothing was written"
    return DataError(what, step=problem.step, position=problem.position, hint=problem.hint).at(
        sink.step, sink.origin
    )


def _failures(unwritten: Iterable[Unwritten]) -> list[Failure]:
    return [row.failure() for row in unwritten]


def _refusals(
    window: Window, unwritten: Sequence[Unwritten], before: set[_Refused]
) -> list[Failure]:
    """The failed rows of a window that was not committed.

    A row that was refused before in the same way, in a run without the member that it derived from
    then, derives from all.
    """
    seen = {id(row): (window.partition, *row.key, row.by_store) for row in unwritten}
    again = [row for row in unwritten if seen[id(row)] in before and row.member is not None]
    before |= set(seen.values())
    others = set(window.members) - {row.member for row in unwritten}
    shared = (
        [replace(again[0].failure(), member=member) for member in sorted(others)] if again else []
    )
    return [*_failures(unwritten), *shared]


async def all_ended(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """What all of them give. When one fails the others are waited for, so that none writes behind
    its back.
    """
    ended = await asyncio.gather(*works, return_exceptions=True)
    found = []
    for each in ended:
        if isinstance(each, BaseException):
            raise each
        found.append(each)
    return found


def result_table(node: Node, parts: Sequence[pa.Table]) -> pa.Table:
    """A result without hidden columns: window after window, by their first rows in the input; each
    as the plan orders it.
    """
    table = pa.concat_tables(parts) if parts else runtime_schema(node).empty_table()
    if MEMBER in table.column_names:
        numbered = table.append_column("_row", pa.array(range(table.num_rows)))
        table = numbered.sort_by([(PARTITION, "ascending"), ("_row", "ascending")])
    return table.select(node.schema.names)
