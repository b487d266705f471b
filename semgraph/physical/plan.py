"""The physical plan: a tree of nodes, each of which computes the rows of a logical node."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from semgraph.errors import DataError, EngineError
from semgraph.expr.canonical import canonical, is_unset, tagged_fields
from semgraph.llm.base import Embeddings
from semgraph.logical.cluster import Cluster
from semgraph.logical.graph import Match, Scan
from semgraph.logical.iterate import Iterate
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import Choice, LogicalPlan
from semgraph.logical.relational import Require
from semgraph.logical.search import Search
from semgraph.logical.semantic import Embed, Semantic, SemFilter, SemMap
from semgraph.logical.sinks import Sink
from semgraph.meter import StepMetrics
from semgraph.physical.clusters import clusters, rows_within
from semgraph.physical.failed_rows import required, without_faulty
from semgraph.physical.reads import run_match, run_scan
from semgraph.physical.search import Remembered, Searching, remembering, run_searches
from semgraph.physical.search_spec import SearchSpec
from semgraph.physical.vectors import NoVectors, Partition, run_embed
from semgraph.relational import segments
from semgraph.relational.batch import FEW, Batch, runtime_schema
from semgraph.semantic.ask import Answered, Failure, failures
from semgraph.semantic.implementation import Implementation
from semgraph.semantic.library import Algorithm
from semgraph.semantic.rows import in_chunks, rows_a_call
from semgraph.stores.base import SearchQuery, StoreReads

_NO_CONTENT = {"step", "origin", "schema", "owner"}
T = TypeVar("T")
P = TypeVar("P", bound="PhysicalNode")


class GroupEnd(NamedTuple):
    """Whether a group of a loop has ended, and the input row from which its first row derives."""

    group: Hashable
    input_row: int | None
    ended: bool


class ExecutionContext(Protocol):
    """The services of a running physical node, and the receiver of its reports."""

    now: datetime  # the value of `$now`

    @property
    def has_windows(self) -> bool:
        """Whether the plan cuts an input into windows."""

    @property
    def embedder_name(self) -> str:
        """The name of the embedder."""

    @property
    def partition_column(self) -> str:
        """The property of the graph that names the partition; "" without a graph."""

    def windows(self) -> Mapping[str, Sequence[tuple[int, int]]]:
        """The current windows by partition: the number of each, and an input row in it."""

    def by_partition(self, batch: Batch) -> Batch:
        """Rows confined by partition, for searches."""

    def by_window(self, batch: Batch) -> Batch:
        """Rows confined by window, for steps."""

    def store(self, step: str) -> StoreReads:
        """The store, metered to a step."""

    async def embed(self, step: str, texts: Sequence[str], partition: Partition) -> Embeddings:
        """Embed texts of one partition, metered to a step."""

    def metrics(self, step: str) -> StepMetrics:
        """The counters of a step."""

    def fail(self, failures: Iterable[Failure]) -> None:
        """Set rows aside."""

    def leave_out(self, failures: Iterable[Failure]) -> None:
        """Set rows aside; add a note for rows that derive from no current input row."""

    def count(self, rows: Sequence[Failure]) -> None:
        """Count rows by step and text."""

    def with_new_ids(self, rows: Batch) -> Batch:
        """New rows with ids and recorded lineage; the unchanged rows if lineage is off."""

    def report(self, node: PhysicalNode, inputs: Sequence[Batch], batch: Batch) -> None:
        """Count and record the rows of a node."""

    def remember_counts(self, node: PhysicalNode, rows_in: int, rows_out: int) -> None:
        """Remember the numbers of rows in and out of a node, for later estimates."""

    async def again(
        self, node: PhysicalNode, known: Mapping[PhysicalNode, Batch]
    ) -> tuple[Batch, set[int]]:
        """The rows of a node in a round, and the input rows that failed in it. Known are the rows
        of the previous round, and the loop-invariant rows.
        """

    def ended(self, loop: Iterate, groups: Sequence[GroupEnd]) -> None:
        """Note whether each group of a loop has ended."""

    async def once(self, key: object, compute: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of `compute`, which runs once for each key."""

    async def ask(
        self, node: AskModel, inputs: Sequence[Batch], known: dict[object, Any] | None = None
    ) -> Answered:
        """Run a semantic operator over its inputs. If they are chunks of a relation, `known` has
        the answers to earlier ones, and the new answers are added.
        """


@dataclass(frozen=True, eq=False, repr=False)
class PhysicalNode(ABC):
    """Computes the rows of a logical node from the rows of its inputs."""

    reported: ClassVar[bool] = True  # whether its rows are counted and recorded

    logical: Node
    inputs: tuple[PhysicalNode, ...]
    schema: pa.Schema = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "schema", runtime_schema(self.logical))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.logical!r})"

    @abstractmethod
    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:
        """Compute the rows. Raises DataError."""

    def computes_at_once(self, inputs: Sequence[Batch]) -> bool:
        """Whether `run` needs no model, store or thread for these inputs."""
        return bool(inputs) and not inputs[0].num_rows

    @property
    def operators(self) -> tuple[Node, ...]:
        """The logical operators that it computes, in topological order: inputs first."""
        return (self.logical,)

    def known_rows(self, inputs: Sequence[Batch], batch: Batch) -> dict[Node, Batch | None]:
        """The rows of its operators and of their first inputs, as far as the result determines them."""
        known: dict[Node, Batch | None] = {self.logical: batch}
        if inputs and self.inputs[0].logical is self.logical.inputs[0]:
            known[self.logical.inputs[0]] = inputs[0]
        return known

    def rows_in(self, inputs: Sequence[Batch]) -> int:
        """The number of input rows that estimates use."""
        return inputs[0].num_rows if inputs else 0

    def content(self) -> list[str]:
        """A description that is independent of the rows: equal for the same operator in another run."""
        node = self.logical
        texts = [
            f"{tag}={canonical(getattr(node, name), _as_input)}"
            for name, tag in tagged_fields(type(node))
            if name not in _NO_CONTENT and not is_unset(type(node), name, getattr(node, name))
        ]
        return [node.keyword, *texts]

    async def locate_error(
        self,
        error: DataError,
        inputs: Sequence[Batch],  # noqa: ARG002
        now: datetime,  # noqa: ARG002
    ) -> DataError:
        """An error of `run` with its position in the plan."""
        return segments.locate_error(error, self.logical)


def _as_input(value: object) -> str | None:
    return "#" if isinstance(value, Node) else None


async def with_vectors(
    node: Node,
    inputs: Sequence[Batch],
    evaluation: ExecutionContext,
    compute: Callable[[Sequence[Batch]], Awaitable[T]],
) -> T:
    """The result of `compute` over the rows with vectors; rows without a vector are left out."""
    while True:
        try:
            return await compute(inputs)
        except NoVectors as error:
            evaluation.leave_out(
                failures(node, error.rows.table, [*error.errors], [*error.errors.values()])
            )
            inputs = [error.others if batch is error.rows else batch for batch in inputs]


@dataclass(frozen=True, eq=False, repr=False)
class InputTable(PhysicalNode):
    """The rows of an input, which the caller passes to the executor."""

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:  # noqa: ARG002
        """Raises EngineError, because inputs are not computed."""
        node = self.logical
        raise EngineError(f"no rows were given for {node!r} of step {node.step}")


@dataclass(frozen=True, eq=False, repr=False)
class RunWide(PhysicalNode):
    """The rows of a step over the whole run, which the executor computes beforehand."""

    reported: ClassVar[bool] = False

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:  # noqa: ARG002
        return inputs[0]

    def computes_at_once(self, inputs: Sequence[Batch]) -> bool:  # noqa: ARG002
        return True


@dataclass(frozen=True, eq=False, repr=False)
class SqlSegment(PhysicalNode):
    """Relational operators as one statement."""

    segment: segments.Segment

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:
        """Run the segment; input rows that make it fail are set aside."""
        if self.segment.is_empty_over(inputs):
            return Batch.of_tuples([], self.schema)
        clock = time.thread_time if self.computes_at_once(inputs) else time.perf_counter
        started = clock()
        try:
            batch = await self._rows(inputs, evaluation)
        except DataError as error:
            if not evaluation.has_windows:
                raise
            rest, failures = await without_faulty(self.segment, inputs, evaluation.now, error)
            evaluation.fail(failures)
            batch = await self._rows(rest, evaluation)
        evaluation.metrics(self.logical.step).seconds += clock() - started
        return batch

    async def _rows(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:
        if all(batch.ids is not None for batch in inputs):
            return await segments.run_traced(
                self.segment, inputs, evaluation.now, evaluation.with_new_ids
            )
        return await segments.run_segment(self.segment, inputs, evaluation.now)

    def computes_at_once(self, inputs: Sequence[Batch]) -> bool:
        """Whether there are few rows. A statement over many rows runs in a thread."""
        return sum(batch.num_rows for batch in inputs) <= FEW

    @property
    def operators(self) -> tuple[Node, ...]:
        return self.segment.operators

    def known_rows(self, inputs: Sequence[Batch], batch: Batch) -> dict[Node, Batch | None]:
        """As the base class. Inside the statement, rows are known next to operators that are 1:1."""
        known: dict[Node, Batch | None] = dict(
            zip((node for _, node in self.segment.inputs), inputs, strict=True)
        )
        if not any(each.num_rows for each in inputs) and self.segment.is_empty_over(inputs):
            known |= dict.fromkeys(self.operators, batch)
        known[self.logical] = batch
        for node in self.operators:
            if node.rows == "1:1" and known.get(node) is None:
                known[node] = known.get(node.inputs[0])
        for node in reversed(self.operators):
            if node.rows == "1:1" and known.get(node.inputs[0]) is None:
                known[node.inputs[0]] = known.get(node)
        return known

    def content(self) -> list[str]:
        return [self.segment.content]

    async def locate_error(
        self, error: DataError, inputs: Sequence[Batch], now: datetime
    ) -> DataError:
        return await segments.place_segment_error(error, self.segment, inputs, now)


@dataclass(frozen=True, eq=False)
class SearchGroup:
    """Searches over the same rows and label that share one round trip. `queries` are their store
    queries, if another group of the plan has equal ones for other rows: these groups share hits, so
    that equal values are searched once.
    """

    specs: tuple[SearchSpec, ...]
    queries: tuple[SearchQuery, ...] = ()

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> list[Batch]:
        """The rows of each search, from the rows that search and those of each searched step."""
        step = self.specs[0].node.step
        search: Searching = evaluation.store(step).search
        if self.queries:
            search = remembering(search, await evaluation.once(self.queries, _no_hits))

        async def found(inputs: Sequence[Batch]) -> list[Batch]:
            left, *rows_of_steps = inputs
            rest = iter(rows_of_steps)
            withins = [next(rest) if spec.node.within is not None else None for spec in self.specs]
            return await run_searches(
                self.specs, left, withins, search, partial(evaluation.embed, step), evaluation.now
            )

        own = [evaluation.by_partition(batch) for batch in inputs]
        results = await with_vectors(self.specs[0].node, own, evaluation, found)
        return [evaluation.by_window(result) for result in results]


async def _no_hits() -> Remembered:
    return {}


@dataclass(frozen=True, eq=False, repr=False)
class StoreSearch(PhysicalNode):
    """One search of a group. All searches of a group have the inputs of the group."""

    logical: Search
    group: SearchGroup
    place: int

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:
        """Run the group once, and return the rows of this search."""
        if not inputs[0].num_rows:
            return Batch.of_tuples([], self.schema)
        results = await evaluation.once(self.group, partial(self.group.run, inputs, evaluation))
        return results[self.place]


@dataclass(frozen=True, eq=False, repr=False)
class StoreMatch(PhysicalNode):
    """A pattern, matched in the store."""

    logical: Match

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:
        node = self.logical
        return await run_match(node, inputs[0], evaluation.store(node.step), evaluation.now)


@dataclass(frozen=True, eq=False, repr=False)
class StoreScan(PhysicalNode):
    """The stored rows of a label."""

    logical: Scan

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:  # noqa: ARG002
        node = self.logical
        windows = None if node.partition == "all" else evaluation.windows()
        return Batch.of_table(
            await run_scan(node, windows, evaluation.store(node.step), evaluation.now)
        )


@dataclass(frozen=True, eq=False, repr=False)
class ClusterRows(PhysicalNode):
    """Rows with their cluster, by a partitioning algorithm, or by an exact one of the engine."""

    logical: Cluster
    algorithm: Algorithm | None

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:
        """Cluster in memory. In the lineage a row has two sources: its node, and its cluster, whose
        sources are the edges within it.
        """
        edges, nodes = inputs[0], inputs[-1]
        compute = partial(clusters, self.logical, edges.table, nodes.table, self.algorithm)
        table = compute() if self.computes_at_once(inputs) else await asyncio.to_thread(compute)
        rows = Batch.of_table(table)
        if edges.ids is None or nodes.ids is None:
            return rows
        numbers, within = rows_within(self.logical, edges.table, table)
        sources = [tuple(edges.ids[row] for row in own) for own in within]
        groups = Batch.of_tuples([()] * len(within), pa.schema([])).with_sources(sources)
        ids = evaluation.with_new_ids(groups).ids or ()
        return rows.with_sources([(n, ids[c]) for n, c in zip(nodes.ids, numbers, strict=True)])

    def computes_at_once(self, inputs: Sequence[Batch]) -> bool:
        """Whether the engine computes the clusters. Algorithms in files run in a thread."""
        return self.algorithm is None or not inputs[-1].num_rows

    def content(self) -> list[str]:
        chosen = [] if self.algorithm is None else [str(self.algorithm.choice)]
        return [*super().content(), *chosen]


@dataclass(frozen=True, eq=False, repr=False)
class RequireRows(PhysicalNode):
    """The rows that meet a requirement; the others fail, or all rows, and the others are counted."""

    logical: Require

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:
        rows, failures = await required(
            self.logical, inputs[0], evaluation.now, windows=evaluation.has_windows
        )
        if not self.logical.fails:
            evaluation.count(failures)
            rows = inputs[0]
        else:
            (evaluation.fail if self.logical.ends else evaluation.leave_out)(failures)
        return rows.derived_from(rows)


@dataclass(frozen=True, eq=False, repr=False)
class EmbedTexts(PhysicalNode):
    """Rows with vectors of their texts."""

    logical: Embed

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:
        node, (rows,) = self.logical, inputs
        metrics = evaluation.metrics(node.step)
        metrics.operator, metrics.how = node.keyword, evaluation.embedder_name
        started = time.perf_counter()
        embed = partial(evaluation.embed, node.step)

        async def embedded(inputs: Sequence[Batch]) -> Batch:
            return await run_embed(
                node, inputs[0], embed, evaluation.partition_column, evaluation.now
            )

        batch = await with_vectors(node, inputs, evaluation, embedded)
        metrics.rows_in = (metrics.rows_in or 0) + rows.num_rows
        metrics.seconds += time.perf_counter() - started
        return batch


@dataclass(frozen=True, eq=False, repr=False)
class AskModel(PhysicalNode):
    """A semantic operator with its implementation, and the choice of it as in plans."""

    logical: Semantic
    implementation: Implementation[Any]
    choice: Choice

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:
        return (await evaluation.ask(self, inputs)).of(inputs)

    def content(self) -> list[str]:
        return [*super().content(), str(self.choice)]


@dataclass(frozen=True, eq=False, repr=False)
class EarlyStop(PhysicalNode):
    """Semantic operators that process rows in chunks until enough rows pass. The lowest is first in
    the chain; each reads its predecessor.
    """

    chain: tuple[AskModel, ...]

    async def run(self, inputs: Sequence[Batch], evaluation: ExecutionContext) -> Batch:
        """Pass rows to the lowest operator until the uppermost operator has enough."""
        base = inputs[0]
        operators = [_row_by_row(node) for node in self.chain]
        at_once = max(
            rows_a_call(operator, base.num_rows, node.implementation)
            for operator, node in zip(operators, self.chain, strict=True)
        )
        known: list[dict[object, Any]] = [{} for _ in self.chain]
        passed = [0] * len(self.chain)

        async def through(rows: Batch) -> tuple[Batch, Sequence[int]]:
            stays: Sequence[int] = range(rows.num_rows)
            for i, node in enumerate(self.chain):
                answered = await evaluation.ask(node, [rows], known[i])
                rows, stays = answered.of([rows]), [stays[row] for (row,) in answered.sources]
                passed[i] += rows.num_rows
                if node is not self.chain[-1]:
                    rows = evaluation.with_new_ids(rows)
                    evaluation.report(node, (), rows)
            return rows, stays

        stop = operators[-1].stop
        assert stop is not None
        result = await in_chunks(operators[0], stop, base, at_once, evaluation.now, through)
        for node, rows_in, rows_out in zip(
            self.chain[:-1], [base.num_rows, *passed], passed, strict=False
        ):
            evaluation.remember_counts(node, rows_in, rows_out)
        return result

    def rows_in(self, inputs: Sequence[Batch]) -> int:  # noqa: ARG002
        """0: the uppermost operator reads chunks, not a relation."""
        return 0

    def content(self) -> list[str]:
        return self.chain[-1].content()


def _row_by_row(node: AskModel) -> SemMap | SemFilter:
    assert isinstance(node.logical, SemMap | SemFilter)
    return node.logical


@dataclass(frozen=True)
class SinkSpec:
    """A sink, and the node that computes its rows: the written columns and derived text properties."""

    sink: Sink
    rows: PhysicalNode


@dataclass(frozen=True)
class PhysicalPlan:
    """The physical plan of a run: a node for each logical one that is materialised, and sinks with
    their rows, in the order of the plan.

    The nodes `after_writes` are the ordered part: they depend on the run's own writes. All others
    may run ahead; those in `buffered` are read by the ordered part, the commits or the results. Of
    the searched steps that depend on inputs only, `run_wide`, every window sees the rows of the
    whole run.
    """

    logical: LogicalPlan
    nodes: Mapping[Node, PhysicalNode]
    sinks: tuple[SinkSpec, ...]
    after_writes: frozenset[Node]
    buffered: tuple[PhysicalNode, ...]
    run_wide: tuple[RunWide, ...]

    @property
    def returns(self) -> dict[str, PhysicalNode]:
        """The nodes that compute the plan's results, by name."""
        return {name: self.nodes[node] for name, node in self.logical.returns.items()}

    @property
    def roots(self) -> tuple[Node, ...]:
        """All logical nodes that must be computed."""
        return (*(spec.rows.logical for spec in self.sinks), *self.logical.returns.values())

    def named(self, *roots: Node) -> dict[str, Node]:
        """The last node of each step, by step name, below the roots (default: the whole plan)."""
        return {node.step: node for node in walk(*(roots or self.roots)) if node.step}

    def of_kind(self, kind: type[P]) -> list[P]:
        """The physical nodes of one class, in topological order: inputs first."""
        return [node for node in self.nodes.values() if isinstance(node, kind)]

    def runs_ahead(self, node: Node) -> bool:
        """Whether a node is independent of the run's writes."""
        return self.logical.windows is None or node not in self.after_writes

    def model_call(self, node: Semantic) -> AskModel:
        """The physical operator of a semantic node, also if it is part of a chain."""
        physical = self.nodes[node]
        if isinstance(physical, EarlyStop):
            return physical.chain[-1]
        assert isinstance(physical, AskModel)
        return physical
