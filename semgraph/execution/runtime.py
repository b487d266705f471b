"""What a run uses: what the session opens for it, and what its evaluations share."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, Protocol, TypeVar

import pyarrow as pa

from semgraph.execution.observations import Observations
from semgraph.execution.windows import Confinement
from semgraph.expr.scalar import Scalar
from semgraph.llm.base import LLM, Embedder, Embeddings
from semgraph.llm.journal import Journal
from semgraph.llm.stack import Budget, bound
from semgraph.logical.iterate import Iterate
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.semantic import Embed, Semantic
from semgraph.logical.sinks import Merge
from semgraph.meter import Meter, StepMetrics
from semgraph.physical.plan import PhysicalNode, PhysicalPlan
from semgraph.physical.vectors import Partition
from semgraph.relational.batch import Batch
from semgraph.semantic.ask import Answered, Failure
from semgraph.semantic.contract import count_embeddings
from semgraph.stores.base import MatchQuery, SearchQuery, Store, count_round_trips

Clock = Callable[[str], datetime]
T = TypeVar("T")


@dataclass(frozen=True)
class Opened:
    """The models, embedder, store, journal and budget that a session opens for one run.

    Args:
        llm: The models by role, behind one `LLM`.
        embedder: The embedder.
        store: The store.
        journal: Recorded answers, where they are kept.
        budget: The limits of the run, and what it spent.
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
        """Withdraw unusable answers from the journal, so that none of them is served again."""
        if self.journal is not None:
            self.journal.withdraw(answers.unusable)

    async def vector_length(self, plan: LogicalPlan) -> int | None:
        """The length of the vectors that a plan searches or stores; None if it uses no vectors."""
        return await self.embedder.dimensions() if embeds(plan) else None


def embeds(plan: LogicalPlan) -> bool:
    """Whether a plan needs an embedder."""
    return any(node.embeds for node in walk(*plan.roots)) or any(
        d.by == "embed" and d.of in sink.schema.names
        for sink in plan.writes
        if isinstance(sink, Merge)
        for d in sink.label.derived.values()
    )


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
Flow = tuple[str, Literal["rows_in", "rows_out"], Node]
"""A step, which of its counters, and the operator whose rows are counted."""


class RowRecorder(Protocol):
    """A run record, as far as windows need it: rows are in it before their window is committed."""

    def begin(self) -> None:
        """From now on, rows can be taken back."""
        ...

    def take_back(self) -> None:
        """Forget the rows since `begin`."""
        ...

    def keep(self) -> None:
        """Write all rows so far, so that they outlast the process."""
        ...

    def end(self) -> None:
        """Rows are not taken back any more."""
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
        """Record rows that are merged into a label."""
        ...


class Lineage(Protocol):
    """The lineage of a run's rows: their ids, and the rows that each is made of."""

    def ids(self, count: int) -> range:
        """Ids for new rows."""
        ...

    def ids_of(self, name: str, places: Sequence[int]) -> Sequence[int]:
        """The ids of rows of an input."""
        ...

    def add(self, rows: Batch) -> None:
        """Record what rows with ids are made of."""
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
    """What a run works with, shared by all its evaluations.

    Args:
        plan: The physical plan.
        llm: The model stack; answers by role.
        embedder: The embedder stack.
        store: The store.
        meter: Counters by step.
        partitions: Partition values by `_p`, which is the number of an input row.
        confinement: What `_p` stands for; None without windows.
        observe: Called with the rows of each node, for the run record.
        recorder: Keeps the rows that `observe` takes.
        lineage: Keeps what rows are made of; None where nothing is recorded.
        answered: Called with the evidence of each semantic node, for the run record.
        asking: Called with the number of further rows that a semantic node asks about; with a
            negative number when they are answered.
        remembers: Whether answers are kept in memory while their windows run, as nothing else keeps
            them.
        observations: Takes rows in and out of each node and the costs of answers, for later
            estimates.
        trial: Which independent repetition this is: part of every request.
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
        """Where rows come into steps and leave them at the operators of a node. Of steps that ask a
        model, rows in are those asked about.
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
        """Note a row that lacks a vector, unless it fails: the plan has no windows, or the row
        derives from one of some input rows (None: from any).
        """
        row = failure.input_row
        fails = row is not None if rows is None else row in rows
        if fails or self.plan.logical.windows is None:
            return False
        self.meter.counted.count(failure.step, "rows left out", failure.error)
        return True

    async def embed(self, step: str, texts: Sequence[str], partition: Partition) -> Embeddings:
        """Embed distinct texts of one partition, metered to a step."""
        if isinstance(partition, int):  # without windows rows are of no partition
            partition = self.partitions[partition] if self.partitions else ""
        embeddings = await self.embedder.embed(texts, partition)
        count_embeddings(self.meter.step(step), embeddings)
        return embeddings
