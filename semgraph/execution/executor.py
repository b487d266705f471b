"""The executor. It runs a plan at once, or window by window while some nodes run ahead.

A *window* is some rows of one partition. A *wave* is the next window of every partition. The
*ordered part* of a plan depends on the run's own writes; it runs wave by wave, and each window
commits in one transaction with its commit markers. All other nodes run *ahead* in *slices* of
several waves, bounded by `windows.ahead`; if a model sends batches, their requests are sent in
batches. With `size: ready` a slice has one window per partition. When its turn comes it is joined
with the other slices that are computed, so that a wave has all rows that are ready.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, takewhile
from sys import intern
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from semgraph.errors import BudgetReached, DataError, SemgraphError
from semgraph.execution.commit import (
    COMMIT,
    CommitAttempt,
    Commits,
    Refused,
    Sinks,
    failures_of,
    nothing_written,
    without,
    without_unwritten,
)
from semgraph.execution.evaluation import Evaluation, InputRowSet
from semgraph.execution.outcome import ExecutorOptions, RunOutcome
from semgraph.execution.record import RunLineage
from semgraph.execution.result import RETAINED
from semgraph.execution.runtime import Runtime
from semgraph.execution.windows import (
    Confinement,
    InputRows,
    Wave,
    Window,
    cut,
    joined,
    prepare,
    recut,
    refuse_nul,
    unreadable,
    without_nul,
)
from semgraph.formats import plural
from semgraph.llm.journal import FRESH
from semgraph.llm.stack import Replies
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import Windowing
from semgraph.logical.relational import Empty, Input
from semgraph.physical.plan import InputTable, PhysicalNode, PhysicalPlan, SinkSpec
from semgraph.relational.batch import INPUT_ROW, PARTITION, Batch, values
from semgraph.semantic.ask import Failure
from semgraph.stores.base import PartitionState, Store, count_round_trips, in_pieces
from semgraph.telemetry import span

InputBatches = Mapping[PhysicalNode, Batch]


def batches_of_inputs(
    plan: PhysicalPlan,
    inputs: Mapping[str, pa.Table],
    places: Mapping[str, Sequence[int]] | None = None,
    lineage: RunLineage | None = None,
) -> dict[PhysicalNode, Batch]:
    """The rows of the plan's inputs that have rows, with ids of the lineage. For inputs that were
    filtered or reordered, `places` has the original index of each row.
    """
    input_batches: dict[PhysicalNode, Batch] = {}
    for node in plan.of_kind(InputTable):
        if isinstance(node.logical, Empty):
            rows = Batch.of_tuples([], node.schema)
            input_batches[node] = rows if lineage is None else rows.with_ids(())
        elif isinstance(node.logical, Input) and node.logical.name in inputs:
            name = node.logical.name
            input_batches[node] = rows = Batch.of_table(inputs[name])
            if lineage is not None:
                own = (places or {}).get(name, range(rows.num_rows))
                input_batches[node] = rows.with_ids(lineage.ids_of(name, own))
    return input_batches


async def committed_rows(store: Store, plan: str, rows: InputRows) -> set[int]:
    """The rows with a commit marker, which a run skips. Raises StoreUnavailable."""
    committed: set[str] = set()
    asked = _keys_of(rows)
    for piece in in_pieces(asked):
        for state in (await store.states(plan, piece)).values():
            committed.update(state.committed)
    return {m for m, key in enumerate(rows.keys) if key in committed and m not in rows.bare}


def _keys_of(rows: InputRows) -> dict[str, list[str]]:
    return {
        name: [rows.keys[m] for m in own]
        for name, own in zip(rows.partitions, rows.of, strict=True)
    }


T = TypeVar("T")


class Executor:
    """Runs one physical plan once."""

    windowing: Windowing  # of a plan with windows; set when it runs

    def __init__(self, runtime: Runtime, options: ExecutorOptions) -> None:
        self.runtime, self.options = runtime, options
        self.plan = runtime.plan
        self.outcome = RunOutcome()
        self.commits = Commits(runtime, options, self.outcome)
        self._inputs: InputBatches = {}
        self._run_wide: dict[PhysicalNode, Batch] = {}
        self._wave_of: list[int] = []  # the number of the wave into which each input row was cut
        self._now: datetime | None = None  # the time of all slices, if their windows may be joined

    async def run(self, inputs: Mapping[str, pa.Table]) -> RunOutcome:
        """Run over the inputs. On BudgetReached the outcome has `stopped`; others propagate."""
        name = self.plan.logical.name
        with span(f"run {name}", run=self.options.run, plan=name) as describe:
            try:
                await self._run(inputs)
            finally:
                describe(rows_committed=self.outcome.committed, stopped=bool(self.outcome.stopped))
                describe(**self.runtime.meter.total().as_dict())
        return self.outcome

    async def _run(self, inputs: Mapping[str, pa.Table]) -> None:
        windowing = self.plan.logical.windows
        if windowing is not None:
            refuse_nul(inputs, windowing)
        failures = [] if self.options.share else unreadable(inputs)
        self.outcome.failures += failures
        self.outcome.notes += [
            f"input {name}: {plural(len(own), 'row')} set aside, first: {own[0].error}"
            for name in inputs
            if (own := [failure for failure in failures if failure.step == name])
        ]
        inputs = {name: table.replace_schema_metadata(None) for name, table in inputs.items()}
        try:
            if windowing is None:
                await self._at_once(inputs)
            else:
                if self.options.windows:
                    windowing = replace(windowing, size=None)
                self.windowing = (
                    for_batches(windowing) if self.runtime.batched_operators else windowing
                )
                await self._by_windows(inputs)
        except BudgetReached as error:
            self.outcome.stopped = str(error)

    # -- plans without windows

    async def _at_once(self, inputs: Mapping[str, pa.Table]) -> None:
        clean = {name: without_nul(name, table) for name, table in inputs.items()}
        if not self.options.share:
            self.outcome.failures += chain.from_iterable(failed for _, failed, _ in clean.values())
        tables = {name: table for name, (table, _, _) in clean.items()}
        places = {name: places for name, (_, _, places) in clean.items()}
        sources = (node.logical for node in self.plan.of_kind(InputTable))
        shared = {s.name for s in sources if isinstance(s, Input) and s.windowed}
        for name in shared & tables.keys():  # the rows are part of larger inputs, in one partition
            numbers = pa.array(places[name], pa.int64())
            partition = pa.array(np.zeros(len(numbers), np.int64))
            tables[name] = tables[name].append_column(PARTITION, partition)
            tables[name] = tables[name].append_column(INPUT_ROW, numbers)
        input_batches = batches_of_inputs(self.plan, tables, places, self.runtime.lineage)
        async with Evaluation(self.runtime, input_batches, self.options.now("run")) as evaluation:
            sinks, results = await self._sinks_and_results(evaluation, self.plan.sinks)
            self._add_results(results)
            self.outcome.failures += evaluation.failures
            if self.options.write and sinks:
                self.runtime.recorder.keep()
                await self._write_without_windows(sinks)

    async def _sinks_and_results(
        self, evaluation: Evaluation, specs: Sequence[SinkSpec]
    ) -> tuple[Sinks, dict[str, Batch]]:
        returns = self.plan.returns
        batches = await evaluation.compute([*(spec.rows for spec in specs), *returns.values()])
        sinks = list(zip(specs, batches, strict=False))
        return sinks, dict(zip(returns, batches[len(specs) :], strict=True))

    async def _write_without_windows(self, sinks: Sinks) -> None:
        """Write the sinks. Rows that lack a vector fail, and so do edges of such nodes."""
        lacking: set[tuple[str, str]] = set()
        while unwritten := await self.commits.write_rows(sinks):
            if others := [row for row in unwritten if not row.lacks_vector(lacking)]:
                raise nothing_written(others)  # without windows no row can be left out alone
            lacking |= {row.key for row in unwritten}
            self.outcome.failures += [row.failure() for row in unwritten]
            sinks = without_unwritten(sinks, unwritten)

    def _add_results(self, results: Mapping[str, Batch]) -> None:
        """Add the rows of a wave to the results; what derives from no input row is replaced."""
        for name, batch in results.items():
            if batch.has_input_rows:
                self.outcome.add(name, batch.table)
                if self.plan.logical.windows is None and batch.ids is not None:
                    self.outcome.ids[name] = batch.ids
            else:
                self.outcome.tables[name] = [batch.table]

    # -- plans with windows

    async def _by_windows(self, inputs: Mapping[str, pa.Table]) -> None:
        windowing, table = self.windowing, inputs[self.windowing.input]
        rows = await prepare(windowing, table, self.options.places)
        self.outcome.input_rows, self.runtime.partition_of_row = rows, rows.partition_of_row
        self._fail(without_nul(windowing.input, table, windowed=True)[1])
        pending = await self._pending(rows)
        self.options.committed(0, len(rows.keys) - self.outcome.skipped)
        tables = {**inputs, windowing.input: rows.rows}
        places = {windowing.input: values(rows.rows.column(INPUT_ROW))}
        self._inputs = batches_of_inputs(self.plan, tables, places, self.runtime.lineage)
        if nodes := self.plan.run_wide:  # over all input rows, including committed ones
            now = self.options.now("run")
            async with Evaluation(self.runtime, self._inputs, now) as evaluation:
                batches = await evaluation.compute([node.inputs[0] for node in nodes])
                self._run_wide = dict(zip(nodes, batches, strict=True))
        again = self.options.windows
        waves = recut(rows, again) if again else cut(self.windowing, pending)
        self.runtime.confinement = Confinement.of(rows, waves)
        self._wave_of = [0] * len(rows.keys)
        for number, wave in enumerate(waves):
            for row in chain.from_iterable(window.rows for window in wave):
                self._wave_of[row] = number
        if self.windowing.by_readiness:
            self._now = self.options.now("ahead")
        async with aclosing(self._ahead(waves)) as computed:
            async for slice_ in computed:
                for wave in slice_.waves:
                    await self._wave(wave, slice_)

    def _time(self, name: str, window: Window, *, ahead: bool = False) -> datetime:
        """`$now` of a slice or a wave with a window: that of the recorded one, or the current time."""
        if window.recorded is None:
            return self.options.now(name)
        return window.recorded.begun if ahead else window.recorded.now

    @contextmanager
    def _asking(self, window: Window) -> Iterator[None]:
        """Ask the model anew about windows that ask for it."""
        token = FRESH.set(window.recorded is not None and window.recorded.fresh)
        try:
            yield
        finally:
            FRESH.reset(token)

    async def _ahead(self, waves: Sequence[Wave]) -> AsyncGenerator[Slice]:
        """The slices in order. Later ones are computed while the caller commits a slice. When it
        stops, the others are cancelled, and what was computed is recorded and counted.
        """
        in_batches = bool(self.runtime.batched_operators)
        remaining = deque(enumerate(slices(self.windowing, waves, in_batches=in_batches)))
        running: deque[RunningSlice] = deque()
        turn = Turn()
        turn.end()
        try:
            while remaining or running:
                while remaining and is_room(
                    self.windowing, running, remaining[0][1], in_batches=in_batches
                ):
                    number, sliced = remaining.popleft()
                    turn = Turn(turn.over)
                    task = asyncio.create_task(self._slices(sliced, f"slice {number}", turn))
                    task.add_done_callback(turn.end)
                    running.append((task, sum(map(len, sliced))))
                await running[0][0]
                tasks = computed_slices(running) if self.windowing.by_readiness else [running[0][0]]
                for slice_ in self._joined(list(chain.from_iterable(t.result() for t in tasks))):
                    yield slice_
                for _ in tasks:
                    running.popleft()
        finally:
            for task, _ in running:
                task.cancel()
            await asyncio.gather(*(task for task, _ in running), return_exceptions=True)
            for slice_ in chain.from_iterable(task.result() for task in computed_slices(running)):
                slice_.flush(None)

    async def _pending(self, rows: InputRows) -> dict[int, list[int]]:
        """Input rows without a commit marker, by partition."""
        committed: dict[str, str] = {}  # the run that committed each row, by its id
        changed, contents = 0, dict[str, str]()
        bare = {rows.keys[m] for m in rows.bare}
        numbers = {name: number for number, name in enumerate(rows.partitions)}
        async for name, state in self._states(rows):
            self.commits.heads.setdefault(numbers[name], state.head)
            committed |= {row: intern(marker.run) for row, marker in state.committed.items()}
            own = (marker for row, marker in state.committed.items() if row not in bare)
            changed += sum(marker.fingerprint != self.options.fingerprint for marker in own)
            contents |= {row: m.content for row, m in state.committed.items() if m.content}
        pending = {
            number: [m for m in own if m in rows.bare or rows.keys[m] not in committed]
            for number, own in enumerate(rows.of)
        }
        for m in rows.bare:  # the values of the row are those that were committed
            rows.contents[m] = contents.get(rows.keys[m], "")
        for m, key in enumerate(rows.keys):
            if key in committed and m not in rows.bare:
                self.outcome.skipped_by.setdefault(committed[key], []).append(m)
        self.outcome.skipped += len(rows.keys) - sum(map(len, pending.values()))
        refresh = f"semgraph refresh {self.plan.logical.name}"
        if changed:
            self.outcome.notes.append(
                f"the plan, its parameters or its implementations changed since {changed} of these rows were "
                f"written: they stay as written; {refresh} brings them up to date"
            )
        pairs = zip(rows.keys, rows.contents, strict=True) if contents else ()
        if edited := sum(contents.get(key, content) != content for key, content in pairs):
            verb = "is" if edited == 1 else "are"
            self.outcome.notes.append(
                f"{plural(edited, 'row')} {verb} in the graph with other content: {refresh}"
            )
        return pending

    async def _states(self, rows: InputRows) -> AsyncIterator[tuple[str, PartitionState]]:
        """The heads of the partitions, and the commit markers of the rows that may be skipped. Of a
        partition that is read in pieces the first head counts: a commit between two is detected.
        """
        plan = self.plan.logical
        if not plan.writes:
            return
        asked = dict.fromkeys(rows.partitions, ()) if self.options.again else _keys_of(rows)
        for piece in in_pieces(asked):
            with count_round_trips() as trips:
                states = await self.runtime.store.states(plan.name, piece)
            self.runtime.meter.step(COMMIT).round_trips += trips.number
            for state in states.items():
                yield state

    async def _slices(self, waves: tuple[Wave, ...], name: str, turn: Turn) -> list[Slice]:
        """Compute a slice; if bad data fails it, window by window, so that only one stops."""
        try:
            return [await self._slice(waves, name, turn)]
        except DataError as error:
            windows = [window for wave in waves for window in wave]
            if len(windows) == 1:
                self._halt(windows[0], error)
                return []
            one_by_one = [
                await self._slices(((window,),), name, turn.again()) for window in windows
            ]
            return list(chain.from_iterable(one_by_one))

    def _halt(self, window: Window, why: object, row: int | None = None) -> None:
        """Stop a partition at a window, or at a row of it; earlier windows continue."""
        row = window.rows[0] if row is None else row
        if self._is_open(window.partition, row):
            note = f'group "{self.runtime.partition_of_row[row]}" stopped: {why}'
            self.outcome.halt(window.partition, row, note)

    def _is_open(self, partition: int, row: int) -> bool:
        """Whether the partition still runs at the wave into which the row was cut."""
        end = self.outcome.halted.get(partition)
        return end is None or self._wave_of[row] < self._wave_of[end]

    async def _slice(self, waves: tuple[Wave, ...], name: str, turn: Turn) -> Slice:
        first = waves[0][0]
        slice_ = Slice(waves, self._now or self._time(name, first, ahead=True))
        if self.windowing.by_readiness:  # all windows of a slice are ready at once
            slice_.waves = joined(self.windowing, waves)
            self._confinement.unite(slice_.waves)
        windows = [window for wave in slice_.waves for window in self._open_windows(wave)]
        if not windows:
            return slice_
        slice_.rows = {row: window.rows for window in windows for row in window.rows}
        slice_.replies = {} if self.runtime.remembers else None
        known = self._known(windows)
        async with Evaluation(
            self.runtime, known, slice_.now, windows, replies=slice_.replies, held=True
        ) as evaluation:
            firsts = [spec for spec in self.plan.sinks if spec.sink.first]
            if firsts and self.options.write:
                batches = await evaluation.compute([spec.rows for spec in firsts])
                slice_.firsts = list(zip(firsts, batches, strict=True))
                if not turn.over.is_set():
                    await turn.before.wait()
                    left: Sinks = slice_.firsts
                    while unwritten := await self.commits.write_rows(left):
                        left = without(left, self._fail(row.failure() for row in unwritten))
                    turn.end()
            with self._asking(first):
                batches = await evaluation.compute(self.plan.buffered)
            self._fail(evaluation.failures)
            slice_.batches |= dict(zip(self.plan.buffered, batches, strict=True))
            if self.windowing.by_readiness:  # joined windows are recorded as one window
                slice_.flush = evaluation.release()
        return slice_

    def _joined(self, computed: list[Slice]) -> list[Slice]:
        """Slices as one, if windows are formed of ready rows, which may then be recomputed."""
        if not computed or not self.windowing.by_readiness:
            return computed
        whole = computed[0]
        if len(computed) > 1:
            waves = chain.from_iterable(slice_.waves for slice_ in computed)
            whole = Slice.of(computed, joined(self.windowing, waves))
            self._confinement.unite(whole.waves)
            windows = [window for wave in whole.waves for window in self._open_windows(wave)]
            whole.uncounted = {row for w in self._outdated(whole, windows) for row in w.rows}
        for slice_ in computed:
            slice_.flush(slice_.rows.keys() - whole.uncounted if whole.uncounted else None)
        return [whole]

    @property
    def _confinement(self) -> Confinement:
        assert self.runtime.confinement is not None
        return self.runtime.confinement

    async def _ahead_without_lost(self, slice_: Slice, windows: list[Window]) -> list[Window]:
        """Recompute the nodes that run ahead without the lost rows of the windows, until no window
        loses another row. Returns the windows that continue.
        """
        before = None
        while windows and windows != before:
            await self._recompute_ahead(slice_, windows)
            before, windows = windows, self._without_failed(windows)
        return windows

    async def _recompute_ahead(self, slice_: Slice, windows: Sequence[Window]) -> None:
        """Recompute what runs ahead for windows that lost rows or were joined, counted once."""
        changed = self._outdated(slice_, windows)
        if not changed:
            return
        known = self._known(changed)
        async with Evaluation(
            self.runtime, known, slice_.now, changed, replies=slice_.replies, held=True, ahead=False
        ) as evaluation:
            batches = await evaluation.compute(self.plan.buffered)
            self._fail(evaluation.failures)
            rows_of = {row: window.rows for window in changed for row in window.rows}
            evaluation.flush_again(slice_.uncounted & rows_of.keys())
        for node, batch in zip(self.plan.buffered, batches, strict=True):
            slice_.batches[node] = replaced(slice_.batches[node], batch, rows_of.keys())
        slice_.rows |= rows_of
        slice_.uncounted -= rows_of.keys()

    def _outdated(self, slice_: Slice, windows: Sequence[Window]) -> list[Window]:
        """The windows whose rows were computed in other windows, on whose rows they may depend."""
        if not _rows_interact([node.logical for node in self.plan.buffered]):
            return []
        old, rows = slice_.uncounted, slice_.rows
        return [w for w in windows if any(r in old or rows[r] != w.rows for r in w.rows)]

    def _known(
        self, windows: Sequence[Window], computed: InputBatches | None = None
    ) -> dict[PhysicalNode, Batch]:
        """What an evaluation of windows starts from: their rows, and those of the whole run."""
        rows = [row for window in windows for row in window.rows]
        own = {
            node: self._confinement.by_window(batch.of_input_rows(rows))
            for node, batch in {**self._inputs, **(computed or {})}.items()
        }
        return own | self._run_wide

    def _open_windows(self, windows: Sequence[Window]) -> list[Window]:
        """The windows without failed rows, up to where their partition was stopped."""
        failed = self.outcome.failed_rows
        left: list[Window] = []
        for w in windows:
            rows = tuple(r for r in w.rows if r not in failed and self._is_open(w.partition, r))
            left += [replace(w, rows=rows)] if rows else []
        return left

    def _fail(self, failures: Iterable[Failure]) -> set[int]:
        """Add failed rows to the outcome. Returns the input rows from which they derive."""
        failures = list(failures)
        for failure in failures:
            if failure.input_row is None:
                raise SemgraphError(
                    f"step {failure.step}: {failure.error}; the row derives from no input row, "
                    "so the run cannot continue without it"
                )
        lost = {f.input_row for f in failures if f.input_row is not None}
        self.outcome.failures += failures
        self.outcome.failed_rows |= lost
        return lost

    async def _wave(self, wave: Wave, slice_: Slice) -> None:
        """Run the windows of a wave together. A window that loses a row is rerun without it."""
        windows = self._without_failed(wave)
        refused: set[Refused] = set()
        while windows:
            now = self._time(f"wave {windows[0].rows[0]}", windows[0])
            try:
                windows = await self._ahead_without_lost(slice_, windows)
                if not windows:
                    return
                ends = await self._try_wave(windows, slice_, now, refused)
            except DataError as error:
                apart = one_by_one(self.windowing, windows)
                if len(apart) == 1:
                    self._halt(apart[0], error)
                else:
                    for window in apart:
                        await self._wave((window,), slice_)
                return
            ended = [window for window, end in ends if not end.unwritten]
            windows = self._without_failed([w for w in windows if w not in ended])

    async def _try_wave(
        self, windows: Sequence[Window], slice_: Slice, now: datetime, refused: set[Refused]
    ) -> list[tuple[Window, CommitAttempt]]:
        """Compute the ordered part of a wave and commit its windows. Returns the attempt of each."""
        known = self._known(windows, slice_.batches)
        async with Evaluation(
            self.runtime, known, now, windows, replies=slice_.replies, held=True, ahead=False
        ) as evaluation:
            specs = [spec for spec in self.plan.sinks if not spec.sink.first]
            with self._asking(windows[0]):
                sinks, results = await self._sinks_and_results(evaluation, specs)
            lost = self._fail(evaluation.failures)
            attempt = _WaveAttempt(evaluation, windows, lost, sinks, results, slice_, now)
            ends = await self._commit(attempt, refused)
        done = [window for window, end in ends if end.done]
        if self.windowing.by_readiness:
            self.runtime.recorder.windows(
                (self.runtime.partition_of_row[w.rows[0]], w.rows) for w in done
            )
        own = [row for window in done for row in window.rows]
        self._add_results({name: batch.of_input_rows(own) for name, batch in results.items()})
        stopped = (window for window, end in ends if not (end.done or end.unwritten))
        self.outcome.uncommitted_rows.update(row for window in stopped for row in window.rows)
        if self.runtime.recorder.keeps_results:
            self.outcome.keep_below(RETAINED)
        return ends

    async def _commit(
        self, attempt: _WaveAttempt, refused: set[Refused]
    ) -> list[tuple[Window, CommitAttempt]]:
        """Commit the windows that lost no row, after they are recorded. Returns the attempt of
        each. Rows that will be recomputed are not counted, and their record is taken back. The rows
        that cannot be written are added to `refused`.
        """
        input_rows = self.outcome.input_rows
        assert input_rows is not None
        recorder, sinks = self.runtime.recorder, attempt.sinks
        if self.options.write and attempt.good:
            own = {row for window in attempt.good for row in window.rows}
            sinks, lacking = await self.commits.with_vectors(
                [(spec, batch.of_input_rows(own)) for spec, batch in sinks]
            )
            attempt.lost |= self._fail(row.failure() for row in lacking)
        good = attempt.good
        recorder.begin()
        self._record(attempt)
        recorder.keep()
        results = await all_ended(
            self.commits.commit_window(
                window, input_rows, sinks, attempt.slice.firsts, attempt.now, attempt.slice.now
            )
            for window in good
        )
        ends = list(zip(good, results, strict=True))
        if lost := {
            row
            for window, end in ends
            for row in self._fail(failures_of(window, end.unwritten, refused))
        }:
            attempt.lost |= lost
            recorder.take_back()
            self._record(attempt)
        recorder.end()
        attempt.evaluation.flush(attempt.done)
        return ends

    def _record(self, attempt: _WaveAttempt) -> None:
        """Record the rows of completed input rows, and what good windows return and write."""
        attempt.evaluation.record(attempt.done)
        good = [row for window in attempt.good for row in window.rows]
        for name, batch in attempt.results.items():
            if batch.has_input_rows and self.runtime.recorder.keeps_results:
                self.runtime.recorder.result(name, batch.of_input_rows(good).table)
        self.commits.record([(spec, batch.of_input_rows(good)) for spec, batch in attempt.sinks])

    def _without_failed(self, windows: Sequence[Window]) -> list[Window]:
        """The windows that continue. With `on_error: stop`, a failed row stops its partition."""
        for window in windows if self.windowing.on_error == "stop" else ():
            failed = [row for row in window.rows if row in self.outcome.failed_rows]
            if failed:  # the rows before a failed row may form a window
                row = failed[0] if self.windowing.by_readiness else None
                self._halt(window, "a row of it failed", row)
        return self._open_windows(windows)


def _rows_interact(nodes: Sequence[Node]) -> bool:
    """Whether the result of an input row may depend on other rows of its window."""
    return any(
        not node.row_local or any(child.windowed for child in node.inputs[1:])
        for node in walk(*nodes)
        if node.windowed and node.inputs
    )


@dataclass
class _WaveAttempt:
    """A computed wave, with the failed input rows so far, the rows to write and to return, and what
    was computed ahead. Its windows without failed rows are committed.
    """

    evaluation: Evaluation
    windows: Sequence[Window]
    lost: set[int]
    sinks: Sinks
    results: Mapping[str, Batch]
    slice: Slice
    now: datetime

    @property
    def good(self) -> list[Window]:
        """The windows that lost no row."""
        return [window for window in self.windows if not self.lost & set(window.rows)]

    @property
    def done(self) -> set[int] | None:
        """The input rows that will not be recomputed; None: all."""
        if not self.lost:
            return None
        good = {row for window in self.good for row in window.rows}
        every = {row for window in self.windows for row in window.rows}
        return good | (every & self.lost)


async def all_ended(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results of concurrent work. An error is raised when all has ended."""
    ended = await asyncio.gather(*works, return_exceptions=True)
    results = []
    for each in ended:
        if isinstance(each, BaseException):
            raise each
        results.append(each)
    return results


_AHEAD_IN_BATCHES = 10_000


def for_batches(windowing: Windowing) -> Windowing:
    """The windowing with more windows ahead, for requests in batches."""
    if windowing.by_readiness:
        return windowing
    return replace(windowing, ahead=max(windowing.ahead, _AHEAD_IN_BATCHES))


def slices(
    windowing: Windowing, waves: Sequence[Wave], *, in_batches: bool = False
) -> Iterator[tuple[Wave, ...]]:
    """Waves that run ahead together: first one window, so that the first commit comes soon, then
    half of `ahead`, so that one slice can be computed while another is committed (a quarter if
    windows are formed of the rows that are ready).

    Slices double until then if a failed row stops its partition, so that few requests are wasted,
    and if windows are formed of ready rows, so that few wait for others; but not with requests in
    batches, which take as long for few rows as for many. Recorded waves are together if they began
    at the same time.
    """
    slowly = (windowing.on_error == "stop" or windowing.by_readiness) and not in_batches
    most = max(windowing.ahead // (4 if windowing.by_readiness else 2), 1)
    size, current = 1, list[Wave]()
    count = 0
    for wave in waves:
        if current and _beginning(wave) != _beginning(current[0]):
            yield tuple(current)
            current, count = [], 0
        current.append(wave)
        count += len(wave)
        if count >= size:
            yield tuple(current)
            current, count = [], 0
            size = min(size * 2, most) if slowly else most
    if current:
        yield tuple(current)


def _beginning(wave: Wave) -> tuple[datetime, bool] | None:
    recorded = wave[0].recorded
    return (recorded.begun, recorded.fresh) if recorded else None


@dataclass
class Slice:
    """Waves, and the rows that were computed ahead for them, with their `$now`.

    `rows` has, for each input row, the rows of the window in which it was computed. `replies` about
    its windows are None if they are not remembered. `flush` records and counts the rows and calls
    of some input rows, if that waits until their windows are formed. Input rows that are
    `uncounted` were computed in other windows, and are counted when they are recomputed.
    """

    waves: tuple[Wave, ...]
    now: datetime
    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)
    replies: Replies | None = None
    batches: dict[PhysicalNode, Batch] = field(default_factory=dict)
    firsts: Sinks = ()
    flush: Callable[[InputRowSet], None] = lambda _rows: None
    uncounted: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, computed: Sequence[Slice], waves: tuple[Wave, ...]) -> Slice:
        """Several slices as one, with their rows in other waves."""
        whole = cls(waves, computed[0].now)
        for slice_ in computed:
            whole.rows |= slice_.rows
            if slice_.replies is not None:
                whole.replies = (whole.replies or {}) | slice_.replies
            whole.firsts = [*whole.firsts, *slice_.firsts]
            for node, batch in slice_.batches.items():
                before = whole.batches.get(node)
                whole.batches[node] = batch if before is None else _concatenated(before, batch)
        return whole


@dataclass(frozen=True)
class Turn:
    """The turn of a slice to write the sinks with `first: true`: once, after the one `before`."""

    before: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    def end(self, _: object = None) -> None:
        """End the turn: the slice has written, or its task has ended."""
        self.over.set()

    def again(self) -> Turn:
        """The turn for a single window of the slice that is computed alone."""
        return self if self.over.is_set() else Turn(self.before)


# The task that computes a slice, and the number of its windows.
RunningSlice = tuple[asyncio.Task[list[Slice]], int]


def computed_slices(running: Iterable[RunningSlice]) -> list[asyncio.Task[list[Slice]]]:
    """The tasks of the leading slices that are computed."""

    def ended(task: asyncio.Task[list[Slice]]) -> bool:
        return task.done() and not task.cancelled() and task.exception() is None

    return list(takewhile(ended, (task for task, _ in running)))


def is_room(
    windowing: Windowing,
    running: Sequence[RunningSlice],
    waves: Sequence[Wave],
    *,
    in_batches: bool = False,
) -> bool:
    """Whether another slice may start before the running ones are committed: a second one always,
    more while all have at most `ahead` windows; with `on_error: stop`, if requests are batched.
    """
    if len(running) < 2:
        return True
    windows = sum(count for _, count in running) + sum(map(len, waves))
    return (windowing.on_error != "stop" or in_batches) and windows <= windowing.ahead


def replaced(batch: Batch, new: Batch, rows: Collection[int]) -> Batch:
    """A relation with the rows of some input rows replaced by new ones."""
    if not batch.has_input_rows:
        return batch
    return _concatenated(batch.without_input_rows(rows), new.of_input_rows(rows))


def _concatenated(first: Batch, last: Batch) -> Batch:
    """The rows of two slices; only those of the first slice if they derive from no input row."""
    return Batch.concatenated([first, last]) if first.has_input_rows else first


def one_by_one(windowing: Windowing, windows: Sequence[Window]) -> list[Window]:
    """The windows one by one; of a single one that was formed of ready rows, its rows."""
    if len(windows) > 1 or not windowing.by_readiness:
        return list(windows)
    return [replace(window, rows=(row,)) for window in windows for row in window.rows]
