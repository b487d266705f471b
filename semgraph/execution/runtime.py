"""The resources of a run, and what records its rows."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal, ParamSpec, TypeVar

import pyarrow as pa

from semgraph.execution.observations import Observations
from semgraph.execution.record import RunLineage
from semgraph.execution.windows import Confinement
from semgraph.llm.base import LLM, Embedder, Embeddings, Usage
from semgraph.llm.journal import Journal
from semgraph.llm.stack import Budget, bound
from semgraph.logical.iterate import Iterate
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.semantic import Embed, Semantic
from semgraph.meter import Meter, StepMetrics
from semgraph.physical.plan import PhysicalNode, PhysicalPlan
from semgraph.physical.vectors import Partition
from semgraph.relational.batch import Batch
from semgraph.semantic.ask import Answered, Failure
from semgraph.semantic.calls import count_embeddings
from semgraph.stores.base import Store, count_round_trips

P = ParamSpec("P")
T = TypeVar("T")
Clock = Callable[[str], datetime]


@dataclass(frozen=True)
class Opened:
    """The models (by role, behind one `LLM`), embedder, store, journal and budget that a session
    opens for one run. `now` is the time of a slice or wave, by its name. `scoped` gives the same
    models in another scope of the journal: no answer passes from one scope to another.
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


def require_prices(plan: LogicalPlan, budget: Budget, llm: LLM, embedder: Embedder) -> None:
    """Refuse a limit in dollars if a model of the plan has no known price. Raises PlanError."""
    models = [bound(llm, role) for role in plan.needs.roles]
    for model in (*models, *([embedder] if plan.needs.embeds else ())):
        budget.require_price(model.name, model.dollars(Usage(1, 0, 1)))


def batched_operators(plan: PhysicalPlan, llm: LLM) -> frozenset[Node]:
    """The operators of a plan that run ahead and whose model sends batches."""
    nodes = (n for n in walk(*plan.roots) if isinstance(n, Semantic) and plan.runs_ahead(n))
    return frozenset(n for n in nodes if bound(llm, n.prompt.first.role).limits.batch)


class MeteredReads:
    """The reads of a store, counted and timed towards one step."""

    def __init__(self, store: Store, metrics: StepMetrics) -> None:
        self._metrics, self.takes = metrics, store.takes
        self.search = self._counted(store.search)
        self.match = self._counted(store.match)
        self.scan = self._counted(store.scan)

    def _counted(
        self, read: Callable[P, Coroutine[Any, Any, T]]
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        async def counted(*args: P.args, **kwargs: P.kwargs) -> T:
            started = time.perf_counter()
            with count_round_trips() as trips:
                try:
                    return await read(*args, **kwargs)
                finally:
                    self._metrics.round_trips += trips.number
                    self._metrics.seconds += time.perf_counter() - started

        return counted


# A step, one of its counters, and the operator whose rows are counted.
Flow = tuple[str, Literal["rows_in", "rows_out"], Node]


class RowRecorder:
    """What windows need of a run record, before they are committed. This one keeps nothing."""

    keeps_results = False  # whether `result` keeps rows

    def begin(self) -> None:
        """Start to record rows that can be taken back."""

    def take_back(self) -> None:
        """Forget the rows since `begin`."""

    def keep(self) -> None:
        """Write all rows so far, so that they survive the process."""

    def end(self) -> None:
        """Stop to record rows that can be taken back."""

    def windows(self, rows: Iterable[tuple[str, Sequence[int]]]) -> None:
        """Record committed windows: the partition and the input rows of each."""

    def result(self, name: str, rows: pa.Table) -> None:
        """Record rows of a result, with their hidden columns."""

    def written(self, label: str, rows: pa.Table) -> None:
        """Record merged rows of a label."""

    def record_rows(self, node: Node, rows: Batch) -> None:
        """Record the rows of a node."""


@dataclass
class Runtime:
    """The resources of a run, shared by all its evaluations. `_p` is the number of a partition in
    `partition_of_row`, or as `confinement` says. What is recorded goes to `recorder`, `lineage`,
    `answered` and `observations`; `asking` is told of further rows that a
    node asks about, and of a negative number when they are answered.

    `remembers`: answers are kept in memory while their windows run, because nothing else keeps
    them. `trial` is the number of an independent repetition, which is part of every request.
    """

    plan: PhysicalPlan
    llm: LLM
    embedder: Embedder
    store: Store
    meter: Meter
    partition_of_row: list[str] = field(default_factory=list)
    confinement: Confinement | None = None
    recorder: RowRecorder = field(default_factory=RowRecorder)
    lineage: RunLineage | None = None
    answered: Callable[[Node, Answered], None] = lambda _node, _answered: None
    asking: Callable[[Node, int], None] = lambda _node, _rows: None
    remembers: bool = False
    observations: Observations | None = None
    trial: int = 0
    ended: dict[Iterate, dict[Hashable, bool]] = field(default_factory=dict)
    may_batch_requests: bool = True
    _flows: dict[PhysicalNode, Sequence[Flow]] = field(default_factory=dict, init=False)

    @cached_property
    def batched_operators(self) -> frozenset[Node]:
        """The operators whose requests go into batches."""
        return batched_operators(self.plan, self.llm) if self.may_batch_requests else frozenset()

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

    def note_if_left_out(self, failure: Failure, rows: Collection[int] | None = None) -> bool:
        """Note a row that lacks a vector, and return True. Return False if the row fails: without
        windows, and if it derives from one of `rows` (None: from any input row).
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
            partition = self.partition_of_row[partition] if self.partition_of_row else ""
        embeddings = await self.embedder.embed(texts, partition)
        count_embeddings(self.meter.step(step), embeddings)
        return embeddings
