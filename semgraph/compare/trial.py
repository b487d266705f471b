"""Trials of variants over a step's input, which is computed once and frozen. The engine runs them
over in-memory scratch copies of the partitions that a comparison reads. The user's store is never
written, and a file is never opened for writing.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from semgraph.compare.comparison import Spent, Trial, by_reason
from semgraph.compare.truth import graph_of
from semgraph.errors import (
    BudgetReached,
    PlanError,
    Problem,
    RowError,
    StoreUnavailable,
    did_you_mean,
)
from semgraph.execution.executor import Executor
from semgraph.execution.outcome import ExecutorOptions
from semgraph.execution.result import result_table
from semgraph.execution.runtime import Opened, Runtime
from semgraph.execution.windows import prepare
from semgraph.expr.functions import canonical_json
from semgraph.llm.base import LLM, Embedder, Embeddings, Reply, Request, Usage, Wrapper
from semgraph.llm.stack import Roles, bound
from semgraph.logical.graph import StoreRead
from semgraph.logical.iterate import of_first_round
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import Choice, LogicalPlan, match_steps
from semgraph.logical.prompt import plain
from semgraph.logical.schema import Graph
from semgraph.logical.semantic import Semantic
from semgraph.meter import Meter, StepMetrics
from semgraph.optimizer import optimized
from semgraph.physical.plan import PhysicalPlan
from semgraph.physical.planner import compile_plan
from semgraph.relational.batch import INPUT_ROW
from semgraph.scores import ScoredGraph
from semgraph.semantic.answers import answer_table
from semgraph.semantic.ask import Answered, Asking
from semgraph.semantic.context import Context
from semgraph.semantic.contract import Cost, Observed, Outcome, RowEstimate, Rows
from semgraph.semantic.dispatch import answer
from semgraph.semantic.implementation import Implementation
from semgraph.semantic.library import Library
from semgraph.stores.base import EdgeWrite, NodeWrite, Store, Write, WriteBatch, open_for_reading
from semgraph.stores.sqlite.store import SqliteStore

K = TypeVar("K")
T = TypeVar("T")


def checked(functions: Mapping[K, Callable[[], T]]) -> dict[K, T]:
    """Call all functions and return their results by name. Raises PlanError with the problems of
    all.
    """
    results: dict[K, T] = {}
    problems: dict[str, Problem] = {}
    for name, work in functions.items():
        try:
            results[name] = work()
        except PlanError as error:
            problems |= {str(problem): problem for problem in error.problems}
    if problems:
        raise PlanError(*problems.values())
    return results


@dataclass
class Ledger:
    """The cost of one trial: `cold` (by itself), `paid` (requests sent now), `replayed` (answers
    from the journal or a recording, which have no time), `known` (vectors from the journal).
    """

    cold: Spent = Spent()
    paid: Spent = Spent()
    replayed: int = 0
    known: int = 0
    _seen: set[str] = field(default_factory=set)

    def reply(self, reply: Reply) -> None:
        """Count an answer; equal requests of a trial count as one call."""
        if reply.origin == "coalesced" or (not reply.attempts and reply.call_id in self._seen):
            return
        self._seen.add(reply.call_id)
        spent = Spent(1, reply.usage.prompt, reply.usage.completion, reply.dollars)
        self.cold += spent
        if reply.origin == "journal":
            self.replayed += 1
        else:
            self.paid += spent
            self.replayed += reply.attempts == 0

    def vectors(self, texts: Sequence[str], embeddings: Embeddings, embedder: Embedder) -> None:
        """Count vectors. Their cold cost comes from the embedder's tokenizer, because cached
        vectors have no recorded cost.
        """
        new = [text for text in texts if f"vector {text}" not in self._seen]
        self._seen.update(f"vector {text}" for text in new)
        usage = Usage(sum(map(embedder.count_tokens, new)))
        self.cold += Spent(0, usage.prompt, 0, embedder.dollars(usage))
        self.paid += Spent(0, embeddings.usage.prompt, 0, embeddings.dollars)
        self.known += embeddings.journal


class _Counted(Wrapper):
    def __init__(self, inner: LLM, ledger: Ledger) -> None:
        super().__init__(inner)
        self.ledger = ledger

    async def complete(self, request: Request) -> Reply:
        try:
            reply = await self.inner.complete(request)
        except RowError as error:
            if isinstance(error.spent, Reply):
                self.ledger.reply(error.spent)
            raise
        self.ledger.reply(reply)
        return reply


def counted(llm: LLM, ledger: Ledger) -> LLM:
    """The same models, counted in a ledger."""
    if isinstance(llm, Roles):
        return Roles(**{role: _Counted(model, ledger) for role, model in llm.models.items()})
    return _Counted(llm, ledger)


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


@dataclass(frozen=True)
class RowsProbe(Implementation[Any]):
    """An implementation that sends nothing and collects its rows."""

    seen: list[Rows] = field(default_factory=list)

    def estimate(self, node: Any, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """Return no calls."""
        return Cost(0)

    async def answer(self, node: Any, rows: Rows, ctx: Context) -> Any:  # noqa: ARG002
        """Collect the rows; give no item an answer."""
        self.seen.append(rows)
        count = len(rows.groups()) if node.keyword == "sem_agg" else rows.items.num_rows
        return answer_table(node, [Outcome(None, "unasked: only looked at")] * count)


@dataclass(frozen=True)
class InputPart:
    """One input of the step: its tables with hidden columns, and `$now`."""

    tables: tuple[pa.Table, ...]
    now: datetime | None


@dataclass(frozen=True)
class Frozen:
    """A step's input.

    Args:
        node: The step.
        parts: The rows of each evaluation of the step; `_m` of the first input numbers its rows
            across all parts.
        partitions: Partition values by `_p`.
        before: The cost of computing them.
        failed: The rows that failed in earlier steps.
    """

    node: Semantic
    parts: tuple[InputPart, ...]
    partitions: Sequence[str]
    before: Spent = Spent()
    failed: int = 0

    @property
    def rows(self) -> pa.Table:
        """The rows of the first input, by number, without hidden columns."""
        names = self.node.inputs[0].schema.names
        return pa.concat_tables([part.tables[0].select(names) for part in self.parts])

    def facts(self) -> dict[str, Any]:
        """The number of rows of each input, and the SHA-256 of all rows without vectors."""
        digest, counts = hashlib.sha256(), {}
        for i, source in enumerate(self.node.inputs):
            names = [f.name for f in source.schema if not pa.types.is_fixed_size_list(f.type)]
            tables = [part.tables[i].select(names) for part in self.parts]
            name = source.step or getattr(source, "name", "") or source.keyword
            counts[name if name not in counts else f"{name}.{i}"] = sum(
                table.num_rows for table in tables
            )
            for row in (row for table in tables for row in table.to_pylist()):
                digest.update(canonical_json(plain(row)).encode("utf-8", "surrogatepass"))
            digest.update(b"\n")
        return {"rows": counts, "sha": digest.hexdigest()}


def _semantic_nodes(roots: Sequence[Node]) -> list[Semantic]:
    return [node for node in walk(*roots) if isinstance(node, Semantic)]


def semantic_steps(roots: Sequence[Node]) -> list[str]:
    """The steps that call the model."""
    return list(dict.fromkeys(node.step for node in _semantic_nodes(roots)))


def listed_steps(names: Sequence[str]) -> str:
    """The steps that call the model, for messages."""
    return "steps that call the model: " + (", ".join(names) or "none")


def semantic_node(plan: LogicalPlan, step: str) -> Semantic:
    """The semantic operator of a step. Raises PlanError if the step does not exist, or has not
    exactly one such operator.
    """
    nodes, names = _semantic_nodes(plan.roots), semantic_steps(plan.roots)
    exact = [node for node in nodes if node.step == step]
    matches = exact or [node for node in nodes if node.step.rsplit("/", 1)[-1] == step]
    there = listed_steps(names)
    if not matches and step in plan.steps:
        clusters = any(node.swappable and node.step == step for node in walk(*plan.roots))
        arms = " ".join(f"--variant {name}:{step}=ALGORITHM" for name in "AB")
        hint = f"compare whole plans: {arms}" if clusters else None
        raise PlanError(Problem(f"step {step} does not call the model", there=there, hint=hint))
    if not matches:
        hint = did_you_mean(step, names)
        raise PlanError(Problem(f'plan {plan.name} has no step "{step}"', there=there, hint=hint))
    if len(matches) > 1:
        paths = list(dict.fromkeys(node.step for node in matches))
        if len(paths) > 1:
            raise PlanError(
                Problem(
                    f'"{step}" is several steps', there=", ".join(paths), hint="name one of them"
                )
            )
        kinds = ", ".join(node.keyword for node in matches)
        raise PlanError(
            Problem(
                f"step {step} calls the model {len(matches)} times ({kinds})",
                hint="split it into several steps",
            )
        )
    return matches[0]


def implementation_of(
    node: Semantic, text: str, library: Library, llm: LLM
) -> tuple[Choice, Implementation[Any]]:
    """Parse a choice of a step's implementation. Raises PlanError if it is unknown, has an invalid
    parameter, or does not support this step.
    """
    choice = Choice.parse(text)
    variant = library.get(node.keyword, choice, node.step)
    refusal = variant.refusal(node, bound(llm, node.prompt.first.role).limits)
    if refusal is not None:
        raise PlanError(Problem(f"{choice} cannot do this: {refusal}", node.step, node.origin))
    return choice, variant


@dataclass(frozen=True)
class StepInput:
    """The plan that computes a step's input.

    Args:
        node: The step.
        physical: The plan up to the step, or the whole plan if the input depends on its writes.
        grown: Whether the input depends on what the plan writes.
    """

    node: Semantic
    physical: PhysicalPlan
    grown: bool

    @property
    def steps(self) -> list[str]:
        """The semantic steps that compute the input."""
        return semantic_steps(self.physical.roots)


def input_of(
    plan: LogicalPlan, node: Semantic, store: Store, library: Library, llm: LLM
) -> StepInput:
    """The plan that computes a step's input, with the plan's implementation of the step; for a step
    in a loop, the input of its first round. Raises PlanError.
    """
    physical = compiled(plan, store, library, llm)
    steps = [n for n in walk(*physical.roots) if n.swappable and n.step == node.step]
    grown = any(source in physical.after_writes for n in steps for source in n.inputs)
    small = replace(
        plan,
        writes=plan.writes if grown else (),
        returns={f"input {i}": source for i, source in enumerate(of_first_round(plan.roots, node))},
    )
    return StepInput(node, compiled(small, store, library, llm), grown)


async def freeze(
    source: StepInput,
    inputs: Mapping[str, pa.Table],
    opened: Opened,
    scratch: Store,
    ledger: Ledger,
) -> Frozen:
    """Compute a step's input in a scratch store, charged to `ledger`.

    Raises:
        BudgetReached: A limit was reached before all rows were computed; the journal has the
            answers.
    """
    node, grown, meter = source.node, source.grown, Meter()
    embedder = CountedEmbedder(opened.embedder, ledger)
    runtime = Runtime(
        source.physical,
        counted(opened.llm, ledger),
        embedder,
        scratch,
        meter,
        answered=opened.answered,
    )
    times: list[datetime] = []

    def now(name: str) -> datetime:
        times.append(opened.now(name))
        return times[-1]

    outcome = await Executor(
        runtime, ExecutorOptions("comparison", now, again=True, write=grown)
    ).run(inputs)
    if outcome.stopped:
        raise BudgetReached(
            f"{outcome.stopped}; the rows of step {node.step} are not complete. {KEPT}"
        )
    lists = [outcome.tables.get(f"input {i}", []) for i in range(len(node.inputs))]
    each = list(zip(*lists, strict=True))
    at = times[0] if times else None
    parts = (
        [InputPart(tables, at) for tables in each]
        if grown
        else [InputPart(_joined(lists), at)]
        if each
        else []
    )
    return Frozen(
        node, tuple(_numbered(parts)), runtime.partition_of_row, ledger.paid, len(outcome.failures)
    )


KEPT = "The answers are in the journal: repeat the comparison to continue"


def _joined(lists: Sequence[Sequence[pa.Table]]) -> tuple[pa.Table, ...]:
    """The tables of all windows as one, in the order of the input rows. A table without input rows
    is the same in all windows.
    """
    joined = []
    for tables in lists:
        if INPUT_ROW in tables[0].column_names:
            table = pa.concat_tables(tables)
            place = pa.array(range(table.num_rows))
            joined.append(
                table.append_column("_at", place)
                .sort_by([(INPUT_ROW, "ascending"), ("_at", "ascending")])
                .drop("_at")
            )
        else:
            joined.append(tables[0])
    return tuple(joined)


def _numbered(parts: Sequence[InputPart]) -> list[InputPart]:
    """Number the rows of the first input across all parts, for evidence and failures."""
    result, start = [], 0
    for part in parts:
        first = part.tables[0]
        numbers = pa.array(range(start, start + first.num_rows), pa.int64())
        start += first.num_rows
        if INPUT_ROW in first.column_names:
            first = first.set_column(first.column_names.index(INPUT_ROW), INPUT_ROW, numbers)
        else:
            first = first.append_column(INPUT_ROW, numbers)
        result.append(replace(part, tables=(first, *part.tables[1:])))
    return result


async def _answered(
    frozen: Frozen,
    part: InputPart,
    variant: Implementation[Any],
    ctx: Context,
    column: str,
) -> Answered:
    return await answer(
        frozen.node,
        part.tables,
        Asking(variant, ctx, frozen.partitions, column, part.now),
    )


async def seen_rows(frozen: Frozen, llm: LLM, embedder: Embedder, column: str) -> list[Rows]:
    """The rows that a variant will answer, collected by an implementation without calls."""
    variant = RowsProbe()
    async with Context(llm, embedder, frozen.node, StepMetrics()) as ctx:
        for part in frozen.parts:
            await _answered(frozen, part, variant, ctx, column)
    return variant.seen


async def try_variant(
    frozen: Frozen,
    variant: Implementation[Any],
    opened: Opened,
    llm: LLM,
    column: str,
    number: int,
    ledger: Ledger,
) -> Trial:
    """Run one trial of a variant over all rows, charged to `ledger`. Raises BudgetReached; the
    journal has the answers.
    """
    node = frozen.node
    began = time.perf_counter()
    async with Context(
        counted(llm, ledger),
        CountedEmbedder(opened.embedder, ledger),
        node,
        StepMetrics(),
        trial=number,
    ) as ctx:
        result = [await _answered(frozen, part, variant, ctx, column) for part in frozen.parts]
    seconds = time.perf_counter() - began
    for each in result:
        opened.answered(node, each)
    evidence = [each.evidence for each in result if each.evidence is not None]
    return Trial(
        number + 1,
        ledger.cold,
        ledger.paid,
        None if ledger.replayed else seconds,
        sum(len(each.failures) for each in result),
        _visible(node, [each.table for each in result]),
        pa.concat_tables(evidence) if evidence else None,
        by_reason(failure for each in result for failure in each.failures),
    )


def _visible(node: Node, tables: Sequence[pa.Table]) -> pa.Table:
    names = node.schema.names
    return (
        pa.concat_tables([t.select(names) for t in tables]) if tables else node.schema.empty_table()
    )


@dataclass(frozen=True)
class Whole:
    """The result of one trial of a plan: its cost, and the graph that it wrote, or the rows that
    it returned.
    """

    trial: Trial
    graph: ScoredGraph | None
    tables: Mapping[str, pa.Table]


def uses(
    plan: LogicalPlan, variants: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, Choice]]:
    """The parsed choices of each variant: implementations of steps, or plans that replace called
    ones. Raises PlanError for a step that supports neither.
    """
    nodes = [node for node in walk(*plan.roots) if node.swappable]
    names = [*dict.fromkeys(node.step for node in nodes), *plan.called]
    known = {*names, *(name.rsplit("/", 1)[-1] for name in names)}
    swapping = {  # their steps belong to other plans
        arm for arm, use in variants.items() if any(match_steps(s, plan.called) for s in use)
    }

    def read(arm: str, step: str, text: str) -> Choice:
        if step not in known and arm not in swapping:
            what = (
                f'arm {arm}: plan {plan.name} has no step "{step}" that calls the model or a plan'
            )
            raise PlanError(
                Problem(what, there=listed_steps(names), hint=did_you_mean(step, known))
            )
        return Choice.parse(text)

    choices = checked(
        {
            (arm, step): partial(read, arm, step, text)
            for arm, use in variants.items()
            for step, text in use.items()
        }
    )
    return {arm: {step: choices[arm, step] for step in use} for arm, use in variants.items()}


def compiled(plan: LogicalPlan, store: Store, library: Library, llm: LLM) -> PhysicalPlan:
    """A plan compiled for a store. Raises PlanError for an implementation that is unknown or does
    not support its step.
    """
    roles = {node.prompt.first.role for node in _semantic_nodes(plan.roots)}
    limits = {role: bound(llm, role).limits for role in roles}
    return compile_plan(optimized(plan, {}), store, library, limits)


async def try_plan(
    plan: LogicalPlan, inputs: Mapping[str, pa.Table], source: Snapshot, opened: Opened, llm: LLM, library: Library,
    number: int, dimensions: int | None, ledger: Ledger, scope: str,
) -> Whole:  # fmt: skip
    """Run one trial of a plan, charged to `ledger`. Raises BudgetReached; the journal has the
    answers.

    Vectors are computed again for each trial, so its time does not depend on earlier trials.
    """
    async with source.copy(dimensions) as store:
        physical = compiled(plan, store, library, llm)
        embedder: Any = CountedEmbedder(opened.scoped_embedder(f"{scope} trial {number}"), ledger)
        runtime = Runtime(
            physical,
            counted(llm, ledger),
            embedder,
            store,
            Meter(),
            trial=number,
            answered=opened.answered,
        )
        began = time.perf_counter()
        outcome = await Executor(
            runtime, ExecutorOptions("comparison", opened.now, again=True)
        ).run(inputs)
        seconds = time.perf_counter() - began
        if outcome.stopped:
            raise BudgetReached(outcome.stopped)
        tables = {
            n: result_table(node, outcome.tables.get(n, [])) for n, node in plan.returns.items()
        }
        failed = len(outcome.failed_rows) if plan.windows else len(outcome.failures)
        took = None if ledger.replayed or ledger.known else seconds
        trial = Trial(
            number + 1, ledger.cold, ledger.paid, took, failed, failures=by_reason(outcome.failures)
        )
        return Whole(trial, await graph_of(store, plan) if plan.writes else None, tables)


@dataclass(frozen=True)
class Snapshot:
    """Rows of a store by label, nodes before edges, and the number of input rows that the plan has
    already committed.
    """

    graph: Graph
    rows: Mapping[str, pa.Table]
    committed: int = 0

    @property
    def count(self) -> int:
        """The number of nodes and edges."""
        return sum(table.num_rows for table in self.rows.values())

    def _write(self, name: str, rows: pa.Table) -> Write:
        kind = NodeWrite if self.graph.labels[name].kind == "node" else EdgeWrite
        return kind(name, rows)

    @asynccontextmanager
    async def copy(self, dimensions: int | None) -> AsyncIterator[SqliteStore]:
        """A temporary store with these rows."""
        store = SqliteStore(":memory:")
        try:
            await store.ensure(self.graph, dimensions)
            writes = (self._write(name, rows) for name, rows in self.rows.items() if rows.num_rows)
            if batch := tuple(writes):
                await store.commit(WriteBatch(batch))
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
    if not graph.labels or not any(node.reads_store for node in walk(*plan.roots)):
        return Snapshot(graph, {})
    async with _to_read(store, graph) as source:
        if source is None:
            return Snapshot(graph, {})
        rows = {}
        dimensions = (await source.statistics()).dimensions
        for label in (*graph.nodes, *graph.edges):
            vectors = [name for name in label.vectors.values() if (label.name, name) in dimensions]
            rows[label.name] = await source.scan(
                label.name, [*label.columns, *vectors], partitions, ()
            )
        return Snapshot(graph, rows, await _committed(plan, source, inputs))


async def _committed(plan: LogicalPlan, store: Store, inputs: Mapping[str, pa.Table] | None) -> int:
    if inputs is None or plan.windows is None or not plan.writes:
        return 0
    rows = await prepare(plan.windows, inputs[plan.windows.input])
    keys = {
        name: [rows.keys[row] for row in own]
        for name, own in zip(rows.partitions, rows.of, strict=True)
    }
    states = await store.states(plan.name, keys)
    return sum(len(state.committed) for state in states.values())


def known_rows(plan: LogicalPlan, inputs: Mapping[str, pa.Table], source: Snapshot) -> list[str]:
    """A note if the graph has input rows already."""
    if plan.windows is None or not source.committed:
        return []
    rows = inputs[plan.windows.input].num_rows
    what = f"{source.committed:,} of {rows:,} rows of {plan.windows.input} are in the graph already"
    return [
        f"{what}, so the copy has their content before the comparison. A store without them shows more"
    ]


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
            copy = SqliteStore(
                await asyncio.to_thread(_copied, path, Path(folder) / "graph.db", store.name)
            )
            try:
                await copy.ensure(graph, None)
                yield copy
            finally:
                await copy.aclose()
        return
    await open_for_reading(store, graph)
    yield store


def _copied(path: Path, to: Path, name: str) -> Path:
    try:
        source = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
        target = sqlite3.connect(to)
        try:
            source.backup(target)
        finally:
            source.close()
            target.close()
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{name}  cannot be read: {error}. Name another store") from error
    return to
