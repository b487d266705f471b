"""The evaluation of physical nodes: each is computed once, independent ones run concurrently."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any, Self, TypeVar

from semgraph.errors import DataError
from semgraph.execution.runtime import MeteredReads, Runtime
from semgraph.execution.windows import Window
from semgraph.llm.stack import Replies, remembering
from semgraph.llm.tokens import OF_BATCH
from semgraph.logical.iterate import Iterate
from semgraph.meter import OperatorMetrics
from semgraph.physical.loops import IterateRows
from semgraph.physical.plan import AskModel, GroupEnd, PhysicalNode
from semgraph.relational.batch import Batch
from semgraph.semantic.ask import Answered, Asking, Failure
from semgraph.semantic.context import Context
from semgraph.semantic.dispatch import answer
from semgraph.telemetry import span

T = TypeVar("T")
_REPORTS = 100  # the maximum number of progress reports of one operator before it ends


class _Pending:
    """Pending physical nodes below some roots, and which of them have all their inputs."""

    def __init__(self, roots: Sequence[PhysicalNode], known: Mapping[PhysicalNode, Batch]) -> None:
        self.ready: deque[PhysicalNode] = deque()
        self._missing: dict[PhysicalNode, int] = {}  # the number of missing inputs
        self._readers: dict[PhysicalNode, list[PhysicalNode]] = {}
        for root in roots:
            self._add(root, known)

    def _add(self, node: PhysicalNode, known: Mapping[PhysicalNode, Batch]) -> None:
        if node in known or node in self._missing:
            return
        self._missing[node] = 0
        for child in dict.fromkeys(node.inputs):
            self._add(child, known)
            if child not in known:
                self._missing[node] += 1
                self._readers.setdefault(child, []).append(node)
        if not self._missing[node]:
            self.ready.append(node)

    def done(self, node: PhysicalNode) -> None:
        """Note that a node is computed."""
        for reader in self._readers.get(node, ()):
            self._missing[reader] -= 1
            if not self._missing[reader]:
                self.ready.append(reader)

    def located(self, error: DataError, node: PhysicalNode) -> DataError:
        """The error with a position: its own, otherwise that of the nearest reader of its node."""
        while (readers := self._readers.get(node)) is not None:
            node = readers[0]
            error = error.at(node.logical.step, node.logical.origin)
        return error


InputRowSet = Collection[int] | None  # numbers of input rows; None: all


@dataclass(frozen=True)
class _Held:
    """What an evaluation records and counts of some input rows, as soon as these are known."""

    record: Callable[[InputRowSet], object] = lambda _rows: None
    count: Callable[[InputRowSet], object] = lambda _rows: None


def _of(row: int | None, rows: InputRowSet) -> bool:
    """Whether something that derives from an input row, or from none, belongs to some rows."""
    return rows is None or row is None or row in rows


class _RaisedByProgress(BaseException):
    """An error of the user's progress callback. It passes through the implementation unchanged."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class _AskedRows:
    """The progress of an operator: `report` takes rows asked about, negative when answered."""

    def __init__(self, report: Callable[[int], object], rows: int) -> None:
        self._report, self._rows, self._reported = report, rows, 0
        self._answered: set[int] = set()
        report(rows)

    def answered(self, rows: Iterable[int]) -> None:
        """Report replies, each once; the last row at the end, because questions may repeat."""
        self._answered.update(rows)
        done = min(len(self._answered), self._rows - 1)
        new = done - self._reported
        if new > 0 and new >= self._rows // _REPORTS:
            self._reported = done
            try:
                self._report(-new)
            except Exception as error:  # noqa: BLE001 - raised again by `Evaluation.ask`
                raise _RaisedByProgress(error) from None

    def end(self) -> None:
        """Report the other rows as answered."""
        self._report(self._reported - self._rows)


class Evaluation:
    """Computes the rows of physical nodes: an `ExecutionContext`. As an async context manager it
    cancels all running tasks at the end. Windows have a span. Earlier `replies` about the same
    windows are reused. No commit waits for the rows of an evaluation that runs `ahead`.

    If `held`, counts and records wait until `flush` names the input rows, or until the end. If bad
    data in one of several windows ends the evaluation, nothing is counted or recorded, because the
    windows are then computed one by one.
    """

    def __init__(
        self,
        runtime: Runtime,
        known: Mapping[PhysicalNode, Batch],
        now: datetime,
        windows: Sequence[Window] = (),
        *,
        replies: Replies | None = None,
        held: bool = False,
        ahead: bool = True,
    ) -> None:
        self.runtime = runtime
        self.now, self.ahead = now, ahead and runtime.may_batch_requests
        self.embed, self.metrics = runtime.embed, runtime.meter.step
        self.embedder_name = runtime.embedder.name
        graph = getattr(runtime.plan.logical, "graph", None)
        self.partition_column = graph.partition if graph else ""
        confinement = runtime.confinement
        self.has_windows = confinement is not None
        self.by_partition = confinement.by_partition if confinement else lambda batch: batch
        self.by_window = confinement.by_window if confinement else lambda batch: batch
        self.failures: list[Failure] = []
        self._llm = runtime.llm if replies is None else remembering(runtime.llm, replies)
        self._asks_again = replies is None and runtime.remembers
        self._windows = windows
        self._batches = dict(known)
        self._tasks: dict[object, asyncio.Future[Any]] = {}
        self._held: list[_Held] | None = [] if held else None
        self._recorded = False
        rows = [row for window in windows for row in window.rows]
        kind, about = "ahead" if ahead else "window", {"windows": len(windows), "rows": len(rows)}
        self._span = span(kind, **about, first_row=rows[0]) if rows else nullcontext()

    async def __aenter__(self) -> Self:
        self._span.__enter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:  # noqa: PYI036
        try:
            await self._cancel()
            one_by_one = isinstance(raised[1], DataError) and len(self._windows) > 1
            self.flush([] if one_by_one else None)
        finally:
            self._span.__exit__(*raised)

    async def _cancel(self) -> None:
        rest = [task for task in self._tasks.values() if not task.done()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        for task in self._tasks.values():
            if task.done() and not task.cancelled():
                task.exception()  # marks it as retrieved: only the first error is raised

    # -- held counts and records

    def record(self, rows: InputRowSet) -> None:
        """Record the held data of some input rows, before they are counted."""
        for entry in self._held or []:
            entry.record(rows)
        self._recorded = True

    def flush(self, rows: InputRowSet) -> None:
        """Count the held data of some input rows, and record it if it is not yet recorded."""
        held, self._held = self._held or [], None
        for entry in held:
            if not self._recorded:
                entry.record(rows)
            entry.count(rows)

    def flush_again(self, uncounted: Collection[int]) -> None:
        """Record what is held: later rows have it as sources. Count only what was not counted."""
        held, self._held = self._held or [], None
        for entry in held:
            entry.record(None)
            if uncounted:
                entry.count(uncounted)

    def release(self) -> Callable[[InputRowSet], None]:
        """A function that records and counts the held data, instead of `flush`."""
        held, self._held = self._held or [], []

        def flush(rows: InputRowSet) -> None:
            while held:
                entry = held.pop(0)
                entry.record(rows)
                entry.count(rows)

        return flush

    def _hold(self, entry: _Held) -> None:
        if self._held is None:
            entry.record(None)
            entry.count(None)
        else:
            self._held.append(entry)

    # -- rows

    async def compute(self, nodes: Sequence[PhysicalNode]) -> list[Batch]:
        """The rows of several nodes. What need not wait is computed as soon as its inputs are
        available; other nodes run concurrently, in tasks.
        """
        pending = _Pending(nodes, self._batches)
        tasks: dict[asyncio.Future[Batch], PhysicalNode] = {}
        while pending.ready or tasks:
            if pending.ready:
                node = pending.ready.popleft()
                inputs = [self._batches[child] for child in node.inputs]
                compute = partial(self._compute_node, node, inputs, pending)
                if node in self._tasks or not node.computes_at_once(inputs):
                    tasks[self._started(node, compute)] = node
                    await asyncio.sleep(0)  # lets it send before the next node computes
                else:
                    self._batches[node] = await compute()
                    pending.done(node)
            finished = {task for task in tasks if task.done()}
            if tasks and not finished and not pending.ready:
                finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in [task for task in tasks if task in finished]:
                node = tasks.pop(task)
                self._batches[node] = task.result()
                pending.done(node)
        return [self._batches[node] for node in nodes]

    async def _compute_node(
        self, node: PhysicalNode, inputs: Sequence[Batch], pending: _Pending
    ) -> Batch:
        try:
            batch = await node.run(inputs, self)
        except DataError as error:
            located = await node.locate_error(error, inputs, self.now)
            raise pending.located(located, node) from error
        if node.reported:
            batch = self.with_new_ids(batch)
            self.report(node, inputs, batch)
            self.remember_counts(node, node.rows_in(inputs), batch.num_rows)
        return batch

    # -- the execution context of physical nodes

    async def again(
        self, node: PhysicalNode, known: Mapping[PhysicalNode, Batch]
    ) -> tuple[Batch, set[int]]:
        """What a round records and counts is held with the rest."""
        if self._asks_again:  # equal requests of two rounds share one reply
            self._llm, self._asks_again = remembering(self._llm, {}), False
        inner = Evaluation(self.runtime, known, self.now, self._windows, ahead=self.ahead)
        inner._llm, inner._held, inner._asks_again = self._llm, self._held, False
        try:
            [rows] = await inner.compute([node])
        finally:
            await inner._cancel()
        self.failures += inner.failures
        return rows, {f.input_row for f in inner.failures if f.input_row is not None}

    async def start(self, loop: IterateRows) -> None:
        """Take round 0 of a loop as its last round, for a dry run."""
        [rows] = await self.compute(loop.inputs[:1])
        self._batches |= dict.fromkeys(loop.rounds, loop.as_round(rows))

    def ended(self, loop: Iterate, groups: Sequence[GroupEnd]) -> None:
        """Note whether each group of a loop has ended. A second run of a window replaces its groups."""
        known = self.runtime.ended.setdefault(loop, {})

        def count(rows: InputRowSet) -> None:
            known.update((group, ended) for group, row, ended in groups if _of(row, rows))

        self._hold(_Held(count=count))

    async def once(self, key: object, compute: Callable[[], Coroutine[Any, Any, T]]) -> T:
        result: T = await asyncio.shield(self._started(key, compute))
        return result

    def _started(
        self, key: object, compute: Callable[[], Coroutine[Any, Any, T]]
    ) -> asyncio.Future[T]:
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(compute())
        return task

    def windows(self) -> dict[str, list[tuple[int, int]]]:
        windows: dict[str, list[tuple[int, int]]] = {}
        if self.runtime.confinement is None:
            return windows
        for window in self._windows:
            name = self.runtime.partition_of_row[window.rows[0]]
            number = self.runtime.confinement.number(window)
            windows.setdefault(name, []).append((number, window.rows[0]))
        return windows

    def store(self, step: str) -> MeteredReads:
        return MeteredReads(self.runtime.store, self.metrics(step))

    def fail(self, failures: Iterable[Failure]) -> None:
        self.failures += failures

    def leave_out(self, failures: Iterable[Failure]) -> None:
        rows = {row for window in self._windows for row in window.rows}
        self.failures += [f for f in failures if not self.runtime.note_if_left_out(f, rows)]

    def count(self, rows: Sequence[Failure]) -> None:

        def count(some: InputRowSet) -> None:
            for each in (each for each in rows if _of(each.input_row, some)):
                own = self.runtime.meter.counts.setdefault(each.step, {})
                own[each.error] = own.get(each.error, 0) + 1

        self._hold(_Held(count=count))

    def with_new_ids(self, rows: Batch) -> Batch:
        lineage = self.runtime.lineage
        if lineage is None:
            return rows
        if not rows.num_rows:
            return rows.with_ids(())
        rows = rows.with_ids(lineage.ids(rows.num_rows))
        if rows.sources:
            made = rows
            self._hold(_Held(lambda some: lineage.add(made.of_input_rows(some, shared=True))))
        return rows

    def report(self, node: PhysicalNode, inputs: Sequence[Batch], batch: Batch) -> None:
        keep, places = self.runtime.recorder.record_rows, self.runtime.flows_of(node)
        known = node.known_rows(inputs, batch) if places else {}
        flows = [(self.metrics(step), which, known.get(at)) for step, which, at in places]

        def count(rows: InputRowSet) -> None:
            """Count what enters and leaves steps. A number that is once unknown, inside a statement
            of several steps, stays unknown.
            """
            for metrics, which, seen in flows:
                total: int | None = getattr(metrics, which)
                if total is not None and seen is not None:
                    total += seen.of_input_rows(rows, shared=True).num_rows
                setattr(metrics, which, None if seen is None else total)

        def record(rows: InputRowSet) -> None:
            keep(node.logical, batch.of_input_rows(rows, shared=True))

        self._hold(_Held(record, count))

    def remember_counts(self, node: PhysicalNode, rows_in: int, rows_out: int) -> None:
        if self.runtime.observations is not None:
            self.runtime.observations.add_rows(node.logical, rows_in, rows_out)

    async def ask(
        self, node: AskModel, inputs: Sequence[Batch], known: dict[object, Any] | None = None
    ) -> Answered:
        runtime, logical = self.runtime, node.logical
        metrics = runtime.meter.operator(logical.step, logical, logical.keyword, str(node.choice))
        started = time.perf_counter()
        rows = _AskedRows(partial(runtime.asking, logical), inputs[0].num_rows)
        call_metrics = OperatorMetrics(parent=metrics)
        calls = Context(
            self._llm,
            runtime.embedder,
            logical,
            call_metrics,
            trial=runtime.trial,
            paid=runtime.meter.paid,
            ahead=self.ahead,
            progress=rows.answered,
        )
        asking = Asking(
            node.implementation, calls, runtime.partition_of_row, self.partition_column, self.now, known
        )  # fmt: skip
        about: dict[str, Any] = {"operator": logical.keyword, "implementation": str(node.choice)}
        with span(
            f"step {logical.step}", step=logical.step, **about, rows=inputs[0].num_rows
        ) as describe:
            try:
                async with calls:
                    answered = await answer(logical, [batch.table for batch in inputs], asking)
                call_metrics.seconds += time.perf_counter() - started
                call_metrics.rows_failed += len(answered.failures)
            except _RaisedByProgress as raised:
                raise raised.error from None
            finally:
                describe(**call_metrics.as_dict())
        answered = replace(answered, evidence=answered.evidence_of(inputs))
        self._account(node, answered, calls, metrics, call_metrics)
        rows.end()
        return answered

    def _account(
        self,
        node: AskModel,
        answered: Answered,
        calls: Context,
        metrics: OperatorMetrics,
        call_metrics: OperatorMetrics,
    ) -> None:
        runtime = self.runtime
        runtime.meter.counted.add(calls.counted)
        runtime.meter.replayed.add(calls.replayed)

        def record(rows: InputRowSet) -> None:
            evidence = answered.evidence
            if evidence is not None:
                evidence = Batch.of_table(evidence).of_input_rows(rows, shared=True).table
            runtime.answered(node.logical, replace(answered, evidence=evidence))

        def count(rows: InputRowSet) -> None:
            metrics.rows_in = (metrics.rows_in or 0) + answered.asked_of(rows)
            table = Batch.of_table(answered.table)
            metrics.gave(table.of_input_rows(rows, shared=True).num_rows)

        self._hold(_Held(record, count))
        if not answered.kept:
            self.failures += answered.failures
        if runtime.observations is not None:
            price = OF_BATCH if calls.batch else 1.0
            runtime.observations.add_answers(
                node.logical, answered.rows_in, call_metrics, calls.replayed, price
            )
