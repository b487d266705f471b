"""The resources of a run, and the evaluation of physical nodes: each node is computed once,
independent nodes run concurrently.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, partial
from typing import Any, Literal, Protocol, Self, TypeVar

import pyarrow as pa

from semgraph.errors import DataError
from semgraph.execution.observations import Observations
from semgraph.execution.windows import Confinement, Window
from semgraph.expr.scalar import Scalar
from semgraph.llm.base import LLM, Embedder, Embeddings
from semgraph.llm.journal import Journal
from semgraph.llm.stack import Budget, Replies, bound, remembering
from semgraph.llm.tokens import OF_BATCH
from semgraph.logical.iterate import Iterate
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.semantic import Embed, Semantic
from semgraph.meter import Meter, OperatorMetrics, StepMetrics
from semgraph.physical.loops import IterateRows
from semgraph.physical.plan import AskModel, GroupEnd, PhysicalNode, PhysicalPlan
from semgraph.physical.vectors import Partition
from semgraph.relational.batch import Batch
from semgraph.semantic.ask import AnswerContext, Answered, Failure
from semgraph.semantic.context import Context
from semgraph.semantic.contract import count_embeddings
from semgraph.semantic.rows import answer
from semgraph.stores.base import MatchQuery, SearchQuery, Store, count_round_trips

Clock = Callable[[str], datetime]


@dataclass(frozen=True)
class Opened:
    """The models, embedder, store, journal and budget that a session opens for one run.

    Args:
        llm: The models by role, behind one `LLM`.
        embedder: The embedder.
        store: The store.
        journal: Recorded answers, if they are kept.
        budget: The limits of the run, and its spending.
        now: The time of a slice or wave, by its name.
        scoped: The same models in another scope of the journal: no answer passes from one scope to
            another.
        scoped_embedder: The same embedder in another scope.
    """

    llm: LLM
    embedder: Embedder
    store: Store
    journal: Journal | None
    budget: Budget
    now: Clock
    scoped: Callable[[str], LLM]
    scoped_embedder: Callable[[str], Embedder]

    def answered(self, _node: Node, answers: Answered) -> None:
        """Withdraw unusable answers from the journal, so that later runs do not reuse them."""
        if self.journal is not None:
            self.journal.withdraw(answers.unusable)

    async def vector_length(self, plan: LogicalPlan) -> int | None:
        """The length of the vectors that a plan searches or stores; None if it uses no vectors."""
        return await self.embedder.dimensions() if plan.needs.embeds else None


def in_batches(plan: PhysicalPlan, llm: LLM) -> frozenset[Node]:
    """The operators of a plan that run ahead and whose model sends batches."""
    return frozenset(
        node
        for node in walk(*plan.roots)
        if isinstance(node, Semantic)
        and plan.runs_ahead(node)
        and bound(llm, node.prompt.first.role).limits.batch
    )


class MeteredReads:
    """The reads of a store, counted and timed towards one step."""

    def __init__(self, store: Store, metrics: StepMetrics) -> None:
        self.store, self.metrics = store, metrics
        self.takes = store.takes

    async def _count(self, call: Coroutine[Any, Any, T]) -> T:
        started = time.perf_counter()
        with count_round_trips() as trips:
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


Observer = Callable[[Node, Batch], None]
# A step, one of its counters, and the operator whose rows are counted.
Flow = tuple[str, Literal["rows_in", "rows_out"], Node]


class RowRecorder(Protocol):
    """The part of a run record that windows need. Rows are recorded before their window is
    committed.
    """

    def begin(self) -> None:
        """Start to record rows that can be taken back."""
        ...

    def take_back(self) -> None:
        """Forget the rows since `begin`."""
        ...

    def keep(self) -> None:
        """Write all rows so far, so that they survive the process."""
        ...

    def end(self) -> None:
        """Stop to record rows that can be taken back."""
        ...

    def windows(self, rows: Iterable[tuple[str, Sequence[int]]]) -> None:
        """Record committed windows: the partition and the input rows of each."""
        ...

    @property
    def keeps_results(self) -> bool:
        """Whether `result` keeps rows."""
        ...

    def result(self, name: str, rows: pa.Table) -> None:
        """Record rows of a result, with their hidden columns."""
        ...

    def written(self, label: str, rows: pa.Table) -> None:
        """Record merged rows of a label."""
        ...


class Lineage(Protocol):
    """The lineage of a run's rows: their ids, and the source rows of each."""

    def ids(self, count: int) -> range:
        """Ids for new rows."""
        ...

    def ids_of(self, name: str, places: Sequence[int]) -> Sequence[int]:
        """The ids of rows of an input."""
        ...

    def add(self, rows: Batch) -> None:
        """Record the sources of rows with ids."""
        ...


class NoRecord:
    """Keeps nothing."""

    keeps_results = False

    def result(self, name: str, rows: pa.Table) -> None:
        """Do nothing."""

    written = result

    def begin(self) -> None:
        """Do nothing."""

    take_back = keep = end = begin

    def windows(self, rows: Iterable[tuple[str, Sequence[int]]]) -> None:
        """Do nothing."""


@dataclass
class Runtime:
    """The resources of a run, shared by all its evaluations.

    Args:
        plan: The physical plan.
        llm: The model stack; answers by role.
        embedder: The embedder stack.
        store: The store.
        meter: Counters by step.
        partitions: Partition values by `_p`, which is the number of an input row.
        confinement: The meaning of `_p`; None without windows.
        observe: Called with the rows of each node, for the run record.
        recorder: Keeps the rows that `observe` receives.
        lineage: Keeps the sources of rows; None if nothing is recorded.
        answered: Called with the evidence of each semantic node, for the run record.
        asking: Called with the number of further rows that a semantic node asks about, and with a
            negative number when they are answered.
        remembers: Whether answers are kept in memory while their windows run, because nothing else
            keeps them.
        observations: Receives the rows in and out of each node and the costs of answers, for later
            estimates.
        trial: The number of the independent repetition, which is part of every request.
        ended: Whether each group of a loop has ended.
        batches: Whether requests that run ahead may go into batches.
    """

    plan: PhysicalPlan
    llm: LLM
    embedder: Embedder
    store: Store
    meter: Meter
    partitions: list[str] = field(default_factory=list)
    confinement: Confinement | None = None
    observe: Observer = lambda _node, _rows: None
    recorder: RowRecorder = field(default_factory=NoRecord)
    lineage: Lineage | None = None
    answered: Callable[[Node, Answered], None] = lambda _node, _answered: None
    asking: Callable[[Node, int], None] = lambda _node, _rows: None
    remembers: bool = False
    observations: Observations | None = None
    trial: int = 0
    ended: dict[Iterate, dict[Hashable, bool]] = field(default_factory=dict)
    batches: bool = True
    _flows: dict[PhysicalNode, Sequence[Flow]] = field(default_factory=dict, init=False)

    @cached_property
    def in_batches(self) -> frozenset[Node]:
        """The operators whose requests go into batches."""
        return in_batches(self.plan, self.llm) if self.batches else frozenset()

    def loop_notes(self) -> list[str]:
        """A note for each loop with groups that had not ended after its last round."""
        notes = []
        steps = Counter(loop.step for loop in self.ended)
        for loop, groups in self.ended.items():
            open_ = sum(not ended for ended in groups.values())
            which = f"{open_:,} of {len(groups):,} groups" if len(groups) > 1 else "the loop"
            of = f' of "{loop.name}"' if steps[loop.step] > 1 else ""
            rounds = "1 round" if loop.times == 1 else f"{loop.times:,} rounds"
            if open_:
                notes.append(f"step {loop.step}: {which}{of} had not ended after {rounds}")
        return notes

    def flows_of(self, node: PhysicalNode) -> Sequence[Flow]:
        """The counters of rows that enter and leave steps at the operators of a node. For steps
        that ask a model, the rows in are the rows asked about.
        """
        if node not in self._flows:
            flows: list[Flow] = []
            for each in node.operators:
                first = bool(each.inputs) and each.inputs[0].step != each.step
                if first and each.step not in self._asking_steps:
                    flows.append((each.step, "rows_in", each.inputs[0]))
                if self._last.get(each.step) is each:
                    flows.append((each.step, "rows_out", each))
            self._flows[node] = flows
        return self._flows[node]

    @cached_property
    def _last(self) -> dict[str, Node]:
        return self.plan.named()

    @cached_property
    def _asking_steps(self) -> frozenset[str]:
        return frozenset(
            node.step for node in walk(*self.plan.roots) if isinstance(node, (Semantic, Embed))
        )

    def left_out(self, failure: Failure, rows: Collection[int] | None = None) -> bool:
        """Note a row that lacks a vector, and return True; return False if the row fails.

        It fails if the plan has no windows, or if it derives from one of `rows` (None: from any
        input row).
        """
        row = failure.input_row
        fails = row is not None if rows is None else row in rows
        if fails or self.plan.logical.windows is None:
            return False
        self.meter.counted.count(failure.step, "rows left out", failure.error)
        return True

    async def embed(self, step: str, texts: Sequence[str], partition: Partition) -> Embeddings:
        """Embed distinct texts of one partition, metered to a step."""
        if isinstance(partition, int):  # without windows rows have no partition
            partition = self.partitions[partition] if self.partitions else ""
        embeddings = await self.embedder.embed(texts, partition)
        count_embeddings(self.meter.step(step), embeddings)
        return embeddings


T = TypeVar("T")
_REPORTS = 100  # the maximum number of progress reports of one operator before it ends


class _Pending:
    """Pending physical nodes, and which of them have all their inputs.

    Args:
        roots: The nodes to compute.
        known: The computed nodes.
    """

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

    def placed(self, error: DataError, node: PhysicalNode) -> DataError:
        """The error with a position: its own, otherwise that of the nearest reader of its node."""
        while (readers := self._readers.get(node)) is not None:
            node = readers[0]
            error = error.at(node.logical.step, node.logical.origin)
        return error


InputRowSet = Collection[int] | None  # numbers of input rows; None: all


@dataclass(frozen=True)
class _StepFlow:
    """Rows that enter or leave a step; None if they are unknown, inside a statement of several
    steps.
    """

    metrics: StepMetrics
    counter: Literal["rows_in", "rows_out"]
    batch: Batch | None

    def count(self, rows: InputRowSet) -> None:
        """Count the rows of some input rows. A number that is unknown in one window is unknown for
        the run.
        """
        before: int | None = getattr(self.metrics, self.counter)
        if self.batch is None or before is None:
            setattr(self.metrics, self.counter, None)
        else:
            own = self.batch.of_rows(rows, shared=True).num_rows
            setattr(self.metrics, self.counter, before + own)


@dataclass(frozen=True)
class _HeldRows:
    """The rows of an operator, and the rows that entered and left steps with it."""

    batch: Batch
    flows: Sequence[_StepFlow]
    observe: Callable[[Batch], None]

    def record(self, rows: InputRowSet) -> None:
        """Record those of some input rows."""
        self.observe(self.batch.of_rows(rows, shared=True))

    def count(self, rows: InputRowSet) -> None:
        """Count those of some input rows."""
        for flow in self.flows:
            flow.count(rows)


@dataclass(frozen=True)
class _HeldLineage:
    """Rows with ids, and their sources."""

    rows: Batch
    lineage: Lineage

    def record(self, rows: InputRowSet) -> None:
        """Record those of some input rows."""
        self.lineage.add(self.rows.of_rows(rows, shared=True))

    def count(self, rows: InputRowSet) -> None:
        """Count nothing."""


@dataclass(frozen=True)
class _HeldAnswers:
    """The questions of an operator, and the answers."""

    answered: Answered
    observe: Callable[[Answered], None]
    metrics: OperatorMetrics

    def record(self, rows: InputRowSet) -> None:
        """Record the questions for some input rows."""
        evidence = self.answered.evidence
        if evidence is not None:
            evidence = Batch.of_table(evidence).of_rows(rows, shared=True).table
        self.observe(replace(self.answered, evidence=evidence))

    def count(self, rows: InputRowSet) -> None:
        """Count the questions for some input rows."""
        self.metrics.rows_in = (self.metrics.rows_in or 0) + self.answered.asked_of(rows)
        self.metrics.gave(Batch.of_table(self.answered.table).of_rows(rows, shared=True).num_rows)


@dataclass(frozen=True)
class _HeldLoop:
    """Which groups of a loop have ended; `known` collects this for all windows."""

    groups: Sequence[GroupEnd]
    known: dict[Hashable, bool]

    def record(self, rows: InputRowSet) -> None:
        """Record nothing."""

    def count(self, rows: InputRowSet) -> None:
        """Note the groups of some input rows; a second run of a window replaces its groups."""
        for group, row, ended in self.groups:
            if rows is None or row is None or row in rows:
                self.known[group] = ended


# What an evaluation counts and records as soon as the input rows are known.
_Held = _HeldRows | _HeldAnswers | _HeldLineage | _HeldLoop


class _RaisedByProgress(BaseException):
    """An error of the user's progress callback. It passes through the implementation unchanged."""

    def __init__(self, error: Exception) -> None:
        self.error = error


class _AskedRows:
    """The progress of the rows of one semantic operator.

    Args:
        report: Called with the number of rows asked about (positive) or answered (negative).
        rows: The number of rows.
    """

    def __init__(self, report: Callable[[int], object], rows: int) -> None:
        self._report, self._rows, self._reported = report, rows, 0
        self._answered: set[int] = set()
        report(rows)

    def answered(self, rows: Iterable[int]) -> None:
        """Report rows with a reply, each once. The last row is reported at the end, because
        implementations may repeat questions.
        """
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
    """Computes the rows of physical nodes: an `ExecutionContext`.

    Use it as an async context manager: leaving it cancels all running tasks.

    Args:
        runtime: The resources of the run.
        known: The rows of inputs and of nodes that are already computed.
        now: The value of `$now`.
        windows: The windows of the rows.
        replies: Earlier replies about the same windows, by request; new replies are added.
        held: Whether counts and records are held back until `flush` names the input rows, or until
            the end. If bad data in one of several windows ends the evaluation, nothing is counted
            or recorded, because the windows are then computed one by one.
        ahead: Whether the evaluation runs ahead: no commit waits for its rows.
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
        self.now, self.ahead = now, ahead and runtime.batches
        self.failures: list[Failure] = []
        self._llm = runtime.llm if replies is None else remembering(runtime.llm, replies)
        self._asks_again = replies is None and runtime.remembers
        self._windows = windows
        self._batches = dict(known)
        self._tasks: dict[object, asyncio.Future[Any]] = {}
        self._held: list[_Held] | None = [] if held else None
        self._recorded = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        await self._cancel()
        one_by_one = isinstance(error, DataError) and len(self._windows) > 1
        self.flush([] if one_by_one else None)

    async def _cancel(self) -> None:
        """Cancel all running tasks."""
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
        """Record the held data, because later rows have these rows as sources. Count only the input
        rows that were not counted before.
        """
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

    async def batches(self, nodes: Sequence[PhysicalNode]) -> list[Batch]:
        """The rows of several nodes.

        A node that need not wait is computed as soon as its inputs are available. Other nodes run
        concurrently, in tasks.
        """
        pending = _Pending(nodes, self._batches)
        tasks: dict[asyncio.Future[Batch], PhysicalNode] = {}
        while pending.ready or tasks:
            if pending.ready:
                node = pending.ready.popleft()
                inputs = [self._batches[child] for child in node.inputs]
                compute = partial(self._compute, node, inputs, pending)
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

    async def _compute(
        self, node: PhysicalNode, inputs: Sequence[Batch], pending: _Pending
    ) -> Batch:
        try:
            batch = await node.run(inputs, self)
        except DataError as error:
            placed = await node.place_error(error, inputs, self.now)
            raise pending.placed(placed, node) from error
        if node.reported:
            batch = self.with_new_ids(batch)
            self.report(node, inputs, batch)
            self.observe(node, node.rows_in(inputs), batch.num_rows)
        return batch

    # -- the execution context of physical nodes

    async def again(
        self, node: PhysicalNode, known: Mapping[PhysicalNode, Batch]
    ) -> tuple[Batch, set[int]]:
        """The rows of a node in a round, and the input rows that failed in it. Counts and records
        of the round are held with the rest.
        """
        if self._asks_again:  # equal requests of two rounds share one reply
            self._llm, self._asks_again = remembering(self._llm, {}), False
        inner = Evaluation(self.runtime, known, self.now, self._windows, ahead=self.ahead)
        inner._llm, inner._held, inner._asks_again = self._llm, self._held, False
        try:
            [rows] = await inner.batches([node])
        finally:
            await inner._cancel()
        self.failures += inner.failures
        return rows, {f.input_row for f in inner.failures if f.input_row is not None}

    async def start(self, loop: IterateRows) -> None:
        """Take round 0 of a loop as its last round, for a dry run."""
        [rows] = await self.batches(loop.inputs[:1])
        self._batches |= dict.fromkeys(loop.rounds, loop.as_round(rows))

    def ended(self, loop: Iterate, groups: Sequence[GroupEnd]) -> None:
        """Note whether each group of a loop has ended."""
        self._hold(_HeldLoop(groups, self.runtime.ended.setdefault(loop, {})))

    async def once(self, key: object, compute: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `compute`, which runs once for each key."""
        result: T = await asyncio.shield(self._started(key, compute))
        return result

    def _started(
        self, key: object, compute: Callable[[], Coroutine[Any, Any, T]]
    ) -> asyncio.Future[T]:
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.ensure_future(compute())
        return task

    @property
    def has_windows(self) -> bool:
        """Whether the plan cuts an input into windows."""
        return self.runtime.confinement is not None

    @property
    def embedder_name(self) -> str:
        """The name of the embedder."""
        return self.runtime.embedder.name

    @property
    def partition_column(self) -> str:
        """The property of the graph that names the partition; "" without a graph."""
        graph = getattr(self.runtime.plan.logical, "graph", None)
        return graph.partition if graph else ""

    def windows(self) -> dict[str, list[tuple[int, int]]]:
        """The current windows by partition: the number of each, and an input row in it."""
        windows: dict[str, list[tuple[int, int]]] = {}
        if self.runtime.confinement is None:
            return windows
        for window in self._windows:
            name = self.runtime.partitions[window.rows[0]]
            number = self.runtime.confinement.number(window)
            windows.setdefault(name, []).append((number, window.rows[0]))
        return windows

    def by_partition(self, batch: Batch) -> Batch:
        """Rows confined by partition, for searches."""
        return batch if self._confinement is None else self._confinement.by_partition(batch)

    def by_window(self, batch: Batch) -> Batch:
        """Rows confined by window, for steps."""
        return batch if self._confinement is None else self._confinement.by_window(batch)

    @property
    def _confinement(self) -> Confinement | None:
        return self.runtime.confinement

    def store(self, step: str) -> MeteredReads:
        """The store, metered to a step."""
        return MeteredReads(self.runtime.store, self.metrics(step))

    async def embed(self, step: str, texts: Sequence[str], partition: Partition) -> Embeddings:
        """Embed texts of one partition, metered to a step."""
        return await self.runtime.embed(step, texts, partition)

    def metrics(self, step: str) -> StepMetrics:
        """The counters of a step."""
        return self.runtime.meter.step(step)

    def fail(self, failures: Iterable[Failure]) -> None:
        """Set rows aside."""
        self.failures += failures

    def leave_out(self, failures: Iterable[Failure]) -> None:
        """Set rows aside; add a note for rows that derive from no current input row."""
        rows = {row for window in self._windows for row in window.rows}
        self.failures += [f for f in failures if not self.runtime.left_out(f, rows)]

    @property
    def traced(self) -> bool:
        """Whether lineage is recorded."""
        return self.runtime.lineage is not None

    def with_new_ids(self, rows: Batch) -> Batch:
        """New rows with ids and recorded lineage; the unchanged rows if lineage is off."""
        lineage = self.runtime.lineage
        if lineage is None:
            return rows
        if not rows.num_rows:
            return rows.with_ids(())
        rows = rows.with_ids(lineage.ids(rows.num_rows))
        if rows.sources:
            self._hold(_HeldLineage(rows, lineage))
        return rows

    def report(self, node: PhysicalNode, inputs: Sequence[Batch], batch: Batch) -> None:
        """Count and record the rows of a node."""
        flows = self._flows(node, inputs, batch)
        self._hold(_HeldRows(batch, flows, partial(self.runtime.observe, node.logical)))

    def _flows(self, node: PhysicalNode, inputs: Sequence[Batch], batch: Batch) -> list[_StepFlow]:
        """The rows that enter and leave steps at the operators of this node."""
        places = self.runtime.flows_of(node)
        known = node.known_rows(inputs, batch) if places else {}
        return [_StepFlow(self.metrics(step), which, known.get(at)) for step, which, at in places]

    def observe(self, node: PhysicalNode, rows_in: int, rows_out: int) -> None:
        """Remember the numbers of rows in and out of a node, for later estimates."""
        if self.runtime.observations is not None:
            self.runtime.observations.add_rows(node.logical, rows_in, rows_out)

    async def ask(
        self,
        node: AskModel,
        inputs: Sequence[Batch],
        known: dict[object, pa.Table] | None = None,
    ) -> Answered:
        """Run a semantic operator over its inputs."""
        runtime, logical = self.runtime, node.logical
        metrics = runtime.meter.operator(logical.step, logical, logical.keyword, str(node.choice))
        started = time.perf_counter()
        rows = _AskedRows(partial(runtime.asking, logical), inputs[0].num_rows)
        own = OperatorMetrics(step=metrics)
        context = Context(
            self._llm,
            runtime.embedder,
            logical,
            own,
            trial=runtime.trial,
            paid=runtime.meter.paid,
            ahead=self.ahead,
            progress=rows.answered,
        )
        try:
            async with context as ctx:
                asking = AnswerContext(
                    node.implementation, ctx, runtime.partitions, self.partition_column, self.now,
                    known,
                )  # fmt: skip
                answered = await answer(logical, [batch.table for batch in inputs], asking)
        except _RaisedByProgress as raised:
            raise raised.error from None
        answered = replace(answered, evidence=answered.evidence_of(inputs))
        own.seconds += time.perf_counter() - started
        own.rows_failed += len(answered.failures)
        self._account(node, answered, context, metrics, own)
        rows.end()
        return answered

    def _account(
        self,
        node: AskModel,
        answered: Answered,
        context: Context,
        metrics: OperatorMetrics,
        own: OperatorMetrics,
    ) -> None:
        runtime = self.runtime
        runtime.meter.counted.add(context.counted)
        runtime.meter.replayed.add(context.replayed)
        observe = partial(runtime.answered, node.logical)
        self._hold(_HeldAnswers(answered, observe, metrics))
        if not answered.kept:
            self.failures += answered.failures
        if runtime.observations is not None:
            price = OF_BATCH if context.batch else 1.0
            runtime.observations.add_answers(
                node.logical, answered.rows_in, own, context.replayed, price
            )
