"""What the trials of a comparison share: the models, counted in a ledger for each trial, and
in-memory copies of the partitions that the plan reads. The user's store is never written, and a
file is never opened for writing.
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from semgraph.compare.comparison import Spent, Trial, by_reason
from semgraph.compare.request import ArmRequest, ComparisonRecord
from semgraph.errors import PlanError, Problem, StoreUnavailable
from semgraph.execution.executor import Executor, committed_rows
from semgraph.execution.outcome import ExecutorOptions, RunOutcome
from semgraph.execution.record import noted
from semgraph.execution.runtime import Opened, Runtime
from semgraph.execution.windows import prepare
from semgraph.explain.estimates import Estimator, Forecast
from semgraph.llm.base import LLM, Embedder, Embeddings, Reply, Request, Usage, Wrapper
from semgraph.llm.stack import Replies, bound, remembering
from semgraph.logical.graph import StoreRead
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.schema import Graph
from semgraph.logical.semantic import Semantic
from semgraph.meter import Meter
from semgraph.optimizer import optimized
from semgraph.physical.plan import PhysicalPlan
from semgraph.physical.planner import compile_plan
from semgraph.scores import ScoredGraph
from semgraph.semantic.ask import Failure
from semgraph.semantic.library import Library
from semgraph.stores.base import EdgeWrite, NodeWrite, ScanQuery, Store, Write, WriteBatch
from semgraph.stores.sqlite.store import SqliteStore

K = TypeVar("K")
T = TypeVar("T")
KEPT = "The answers are in the journal: repeat the comparison to continue"


def checked(functions: Mapping[K, Callable[[], T]], kind: str = "") -> dict[K, T]:
    """Call all functions and return their results by name. Raises PlanError with the problems of all,
    which say the names if these have a kind.
    """
    results: dict[K, T] = {}
    problems: dict[str, Problem] = {}
    for name, work in functions.items():
        try:
            results[name] = work()
        except PlanError as error:
            about = f"{kind} {name}: " if kind else ""
            found = (replace(each, what=about + each.what) for each in error.problems)
            problems |= {str(problem): problem for problem in found}
    if problems:
        raise PlanError(*problems.values())
    return results


@dataclass
class Ledger:
    """The cost of one trial: `steps` (of each step by itself: each request that it needs, whether
    sent, replayed or shared with another arm; of vectors under ""), `paid` (requests sent now),
    `replayed` (answers that were not sent for), `known` (vectors from the journal), `seconds` (the
    sum of the times of its requests).
    """

    steps: dict[str, Spent] = field(default_factory=dict)
    paid: Spent = Spent()
    replayed: int = 0
    known: int = 0
    seconds: float = 0.0
    _seen: set[str] = field(default_factory=set)

    @property
    def cold(self) -> Spent:
        """The cost of all steps."""
        return sum(self.steps.values(), Spent())

    def _add(self, step: str, spent: Spent) -> None:
        self.steps[step] = self.steps.get(step, Spent()) + spent

    def trial(
        self, number: int, seconds: float | None, failures: Sequence[Failure], **more: Any
    ) -> Trial:
        """The trial of a number from 0, with the cost so far."""
        facts: dict[str, Any] = {"failed": len(failures), "failures": by_reason(failures)}
        facts |= {"model_seconds": self.seconds, "steps": dict(self.steps)} | more
        return Trial(number + 1, self.cold, self.paid, seconds, **facts)

    def counted(self, llm: LLM) -> LLM:
        """The same models, counted in this ledger."""
        return noted(llm, self._reply)

    def _reply(self, request: Request, reply: Reply | None, *_: object) -> None:
        """Count an answer; equal requests of a trial count as one call."""
        if reply is None:
            return
        call = reply.call_id or f"{request.role} {request.partition} {request.fingerprint}"
        is_new = call not in self._seen
        self._seen.add(call)
        spent = Spent(1, reply.usage.prompt, reply.usage.completion, reply.dollars)
        if is_new:
            self._add(request.step, spent)
            self.seconds += reply.seconds
            self.replayed += reply.attempts == 0
        if reply.origin == "issued" and (is_new or reply.attempts):
            self.paid += spent

    def vectors(self, texts: Sequence[str], embeddings: Embeddings, embedder: Embedder) -> None:
        """Count vectors. Their cold cost comes from the embedder's tokenizer, because cached
        vectors have no recorded cost.
        """
        new = [text for text in texts if f"vector {text}" not in self._seen]
        self._seen.update(f"vector {text}" for text in new)
        usage = Usage(sum(map(embedder.count_tokens, new)))
        self._add("", Spent(0, usage.prompt, 0, embedder.dollars(usage)))
        self.paid += Spent(0, embeddings.usage.prompt, 0, embeddings.dollars)
        self.known += embeddings.journal


class CountedEmbedder(Wrapper):
    """An embedder that is counted in a ledger."""

    def __init__(self, inner: Embedder, ledger: Ledger) -> None:
        super().__init__(inner)
        self.ledger = ledger

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:
        """Embed distinct texts, in order."""
        result = await self.inner.embed(texts, partition)
        self.ledger.vectors(texts, result, self.inner)
        return result


class Attempt(NamedTuple):
    """A trial with what is scored besides its rows: the graph that a plan wrote, the rows that it
    returned, or the share of right answers of each query, as a judge says. A first trial of a plan
    also has the rows of its graph, by label.
    """

    trial: Trial
    graph: ScoredGraph | None = None
    tables: Mapping[str, pa.Table] = {}
    verdicts: Sequence[float] = ()
    rows: Mapping[str, Any] = {}  # by key


Attempts = Mapping[str, Sequence[Attempt]]  # by arm


def semantic_nodes(roots: Sequence[Node]) -> list[Semantic]:
    """The operators that call the model."""
    return [node for node in walk(*roots) if isinstance(node, Semantic)]


def listed_steps(names: Sequence[str]) -> str:
    """The steps that call the model, for messages."""
    return "steps that call the model: " + (", ".join(names) or "none")


class OpenedArm(NamedTuple):
    """An arm with its name and its models."""

    name: str
    request: ArmRequest
    opened: Opened

    @property
    def plan(self) -> LogicalPlan:
        """Its plan."""
        return self.request.plan


class Bench:
    """What all trials of a comparison share: its record, the models of each arm, and `base`, the request
    without changes as an arm with the answers of runs.
    """

    source: Snapshot  # rows of the store that the plan may read or write, after `read`

    def __init__(self, record: ComparisonRecord, opened: Mapping[str, Opened]) -> None:
        self.record, self.request, self.opened = record, record.request, record.noted(record.opened)
        base = ArmRequest({}, self.request.plan, self.request.inputs, record.runner)
        self.base = OpenedArm("", base, self.opened)
        noted = {id(each): record.noted(each) for each in opened.values()}
        self.arms = {
            name: OpenedArm(name, arm, noted[id(opened[name])])
            for name, arm in self.request.arms.items()
        }
        self.library = Library(record.runner.settings.operators)
        self._replies: Replies = {}
        self._embedders: dict[tuple[int, str], Embedder] = {}
        self._sources: dict[str, Snapshot] = {}  # by arm

    async def read(self, *, pays: bool) -> None:
        """Read the store, once for all arms that read the same; if it `pays`, with vectors of their
        embedders.
        """
        read: list[tuple[Any, Snapshot]] = []
        for arm in (self.base, *self.arms.values()):
            plan, embedder = arm.plan, arm.opened.embedder
            partitions = partitions_read(plan, arm.request.inputs)
            embeds = embedder.name != self.opened.embedder.name and plan.needs.embeds
            what = plan.graph.canonical_text, plan.uses_store, partitions, embeds and embedder.name
            own = next((own for asked, own in read if asked == what), None)
            if own is None:
                own = await snapshot(plan, self.opened.store, partitions, arm.request.inputs)
                own = replace(own, dimensions=await arm.opened.vector_length(plan))
                if embeds and pays:
                    own = await self.pays(partial(own.embedded, embedder))
                read.append((what, own))
            self._sources[arm.name] = own
        self.source = read[0][1]

    def share(self, name: str, other: str) -> None:
        """Let a further arm read what another one reads."""
        self._sources[other] = self._sources[name]

    def scoped(self, arm: OpenedArm, ledger: Ledger) -> LLM:
        """The models of an arm, counted in `ledger`. The arms share their answers, unless times are
        measured; no run does.
        """
        if arm is self.base:
            return ledger.counted(arm.opened.llm)
        if self.request.times:
            return ledger.counted(arm.opened.scoped(f"compare {arm.name}"))
        return ledger.counted(remembering(arm.opened.scoped("compare"), self._replies))

    def scoped_embedder(self, arm: OpenedArm, ledger: Ledger, number: int) -> CountedEmbedder:
        """The embedder of an arm, counted in `ledger`, likewise. Trials share no vectors."""
        own = f"{arm.name} " if self.request.times else ""
        key = id(arm.opened), f"compare {own}trial {number}"
        if arm is self.base:
            return CountedEmbedder(arm.opened.embedder, ledger)
        if key not in self._embedders:
            self._embedders[key] = arm.opened.scoped_embedder(key[1])
        return CountedEmbedder(self._embedders[key], ledger)

    async def pays(self, work: Callable[[Ledger], Awaitable[T]]) -> T:
        """Await some work and record its cost, even if a limit stops it."""
        ledger = Ledger()
        try:
            return await work(ledger)
        finally:
            self.record.paid += ledger.paid

    def say(self, lines: Iterable[str]) -> None:
        """Print lines for the user."""
        if (say := self.request.say) is not None:
            for line in lines:
                say(line)

    def forecast(self, arm: OpenedArm, physical: PhysicalPlan) -> Forecast:
        """What EXPLAIN expects of a plan over the inputs of an arm."""
        observations, rows = self.record.runner.observations(), self._sources[arm.name].rows
        return Forecast(Estimator.over(physical, arm.request.inputs, observations, rows))

    def copy(self, arm: OpenedArm) -> AbstractAsyncContextManager[Store]:
        """A temporary store with the rows that an arm may read."""
        return self._sources[arm.name].copy()

    def compiled(
        self, arm: OpenedArm, store: Store, plan: LogicalPlan | None = None
    ) -> PhysicalPlan:
        """The plan of an arm, or another one, compiled for a store and its models. Raises PlanError for
        an implementation that is unknown or does not support its step.
        """
        plan = plan or arm.plan
        limits = {role: bound(arm.opened.llm, role).limits for role in plan.needs.roles}
        return compile_plan(optimized(plan, {}), store, self.library, limits)

    async def run(
        self, arm: OpenedArm, physical: PhysicalPlan, store: Store, ledger: Ledger,
        options: ExecutorOptions, trial: int = 0,
    ) -> tuple[RunOutcome, Sequence[str], float]:  # fmt: skip
        """Run a plan over the inputs of an arm, charged to `ledger`.

        Returns:
            The outcome, the partition values by `_p`, and the seconds.
        """
        runtime = Runtime(
            physical, self.scoped(arm, ledger), self.scoped_embedder(arm, ledger, trial), store, Meter(),
            trial=trial, answered=arm.opened.answered,
        )  # fmt: skip
        began = time.perf_counter()
        outcome = await Executor(runtime, options).run(arm.request.inputs)
        return outcome, runtime.partition_of_row, time.perf_counter() - began


@dataclass(frozen=True)
class Snapshot:
    """Rows of a store by label, nodes before edges, and the number of input rows that the plan has
    already committed.
    """

    graph: Graph
    rows: Mapping[str, pa.Table]
    committed: int = 0
    dimensions: int | None = None  # of vectors

    @property
    def count(self) -> int:
        """The number of nodes and edges."""
        return sum(table.num_rows for table in self.rows.values())

    async def embedded(self, embedder: Embedder, ledger: Ledger) -> Snapshot:
        """The same rows with vectors of another embedder, charged to `ledger`."""
        counted, rows = CountedEmbedder(embedder, ledger), dict(self.rows)
        kind = pa.list_(pa.float32(), await embedder.dimensions())
        for name, table in self.rows.items():
            for text, vector in self.graph.labels[name].vectors.items():
                if vector not in table.column_names:
                    continue
                texts = table.column(text).to_pylist()
                distinct = list(dict.fromkeys(t for t in texts if t is not None))
                found = await counted.embed(distinct)
                pairs = enumerate(zip(distinct, found.vectors, strict=True))
                known = dict(pair for i, pair in pairs if i not in found.failed)
                vectors = pa.array([known.get(t) for t in texts], kind)
                at = table.column_names.index(vector)
                rows[name] = rows[name].set_column(at, vector, vectors)
        return replace(self, rows=rows, dimensions=kind.list_size)

    @asynccontextmanager
    async def copy(self) -> AsyncIterator[SqliteStore]:
        """A temporary store with these rows."""
        store = SqliteStore(":memory:")
        try:
            await store.ensure(self.graph, self.dimensions)
            writes: list[Write] = []
            for name, own in self.rows.items():
                kind = NodeWrite if self.graph.labels[name].kind == "node" else EdgeWrite
                writes += [kind(name, own)] if own.num_rows else []
            if writes:
                await store.commit(WriteBatch(tuple(writes)))
            yield store
        finally:
            await store.aclose()


def partitions_read(plan: LogicalPlan, inputs: Mapping[str, pa.Table]) -> list[str] | None:
    """The partitions that a plan reads: those in its inputs; None: all."""
    reads = [node for node in walk(*plan.roots) if isinstance(node, StoreRead)]
    if any(getattr(node, "partition", "") for node in reads):
        return None
    if plan.windows is not None:
        return _named(inputs[plan.windows.input], plan.windows.partition)
    column = plan.graph.partition
    if not inputs or any(column not in table.column_names for table in inputs.values()):
        return None
    return sorted({value for table in inputs.values() for value in _named(table, column)})


def _named(table: pa.Table, column: str) -> list[str]:
    return sorted({value or "" for value in table.column(column).to_pylist()})


async def snapshot(
    plan: LogicalPlan,
    store: Store,
    partitions: Sequence[str] | None,
    inputs: Mapping[str, pa.Table] | None = None,
) -> Snapshot:
    """The rows of a store that a plan may read or write; no rows if it uses no store.

    Args:
        plan: The plan.
        store: The store.
        partitions: The partitions to read; None: all.
        inputs: Rows of the plan's inputs; the already committed ones are counted.
    """
    graph = plan.graph
    if not plan.graph.labels or not plan.uses_store:
        return Snapshot(graph, {})
    async with _to_read(store, graph) as source:
        if source is None:
            return Snapshot(graph, {})
        rows, dimensions = await rows_of(source, graph, partitions)
        committed, windows = 0, plan.windows
        if inputs is not None and windows is not None and plan.writes:
            given = await prepare(windows, inputs[windows.input])
            committed = len(await committed_rows(source, plan.name, given))
        return Snapshot(graph, rows, committed, dimensions)


async def rows_of(
    store: Store, graph: Graph, partitions: Sequence[str] | None
) -> tuple[dict[str, pa.Table], int | None]:
    """The rows of all labels in some partitions (None: all), nodes first, with their vectors, and the
    length of vectors; None without any.
    """
    rows, dimensions = {}, (await store.statistics()).dimensions
    for label in (*graph.nodes, *graph.edges):
        vectors = [name for name in label.vectors.values() if (label.name, name) in dimensions]
        rows[label.name] = await store.scan(
            ScanQuery(label.name, [*label.columns, *vectors], partitions)
        )
    return rows, next(iter(dimensions.values()), None)


def known_rows(bench: Bench) -> list[str]:
    """Notes if answers are made up, and if the graph has input rows already."""
    windowing, source, arms = bench.request.plan.windows, bench.source, bench.request.arms.values()
    made_up = {note: None for arm in arms for note in arm.runner.made_up(arm.plan, writes=False)}
    if windowing is None or not source.committed:
        return [*made_up]
    rows = bench.request.inputs[windowing.input].num_rows
    what = f"{source.committed:,} of {rows:,} rows of {windowing.input} are in the graph already"
    so = "so the copy has their content before the comparison. A store without them shows more"
    return [*made_up, f"{what}, {so}"]


@asynccontextmanager
async def _to_read(store: Store, graph: Graph) -> AsyncIterator[Store | None]:
    """A store opened for reading; a file is copied, so it stays untouched. None if it does not
    exist.
    """
    if isinstance(store, SqliteStore) and store.path != ":memory:":
        path = Path(store.path)
        if not await asyncio.to_thread(path.exists):
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="semgraph-") as folder:
            to = Path(folder) / "graph.db"
            copy = SqliteStore(await asyncio.to_thread(_copied, path, to, store.name))
            try:
                await copy.ensure(graph, None)
                yield copy
            finally:
                await copy.aclose()
        return
    await store.attach(graph)
    yield store


def _copied(path: Path, to: Path, name: str) -> Path:
    try:
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        with closing(source), closing(sqlite3.connect(to)) as target:
            source.backup(target)
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{name}  cannot be read: {error}. Name another store") from error
    return to
