"""A step's input, computed once and frozen; and a trial of a way over it, through the engine's own asking and assembly."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from semgraph.errors import BudgetReached, PlanError, Problem, did_you_mean
from semgraph.execution.comparison import Spent, Trial
from semgraph.execution.comparison.failing import kinds
from semgraph.execution.executor import Executor
from semgraph.execution.outcome import Options
from semgraph.execution.runtime import Runtime
from semgraph.expr.functions import canonical_json
from semgraph.llm.base import LLM, Embedder, Limits
from semgraph.llm.roles import bound
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import Choice, LogicalPlan
from semgraph.logical.prompt import plain
from semgraph.logical.semantic import Semantic
from semgraph.meter import Meter, StepMetrics
from semgraph.optimizer import optimize
from semgraph.physical.context import NodeContext
from semgraph.physical.contract import Implementation, Rows
from semgraph.physical.framing import check_answer
from semgraph.physical.library import Library
from semgraph.physical.planner import PhysicalPlan, compile_plan
from semgraph.physical.semantic.asking import Answered, Asking, answer
from semgraph.physical.sql import MEMBER
from semgraph.session.comparing.cost import CountedEmbedder, Ledger, Seeing, counted
from semgraph.session.resources import Opened
from semgraph.stores.base import Store


@dataclass(frozen=True)
class Part:
    """What the step was given at once: its inputs with hidden columns, and `$now`."""

    tables: tuple[pa.Table, ...]
    now: datetime | None


@dataclass(frozen=True)
class Frozen:
    """A step's input.

    Args:
        node: The step.
        parts: The rows, as many times as the step is reached; `_m` of the first input numbers its rows through all parts.
        partitions: Partition values by `_p`.
        before: What was sent to make them.
        failed: Rows that were lost on the way.
    """

    node: Semantic
    parts: tuple[Part, ...]
    partitions: Sequence[str]
    before: Spent = Spent()
    failed: int = 0

    @property
    def rows(self) -> pa.Table:
        """The rows of the first input, by number, without hidden columns."""
        names = self.node.inputs[0].schema.names
        return pa.concat_tables([part.tables[0].select(names) for part in self.parts])

    def facts(self) -> dict[str, Any]:
        """How many rows each input has, and the SHA-256 of all of them (but vectors)."""
        digest, counts = hashlib.sha256(), {}
        for i, source in enumerate(self.node.inputs):
            names = [f.name for f in source.schema if not pa.types.is_fixed_size_list(f.type)]
            tables = [part.tables[i].select(names) for part in self.parts]
            name = source.step or getattr(source, "name", "") or source.keyword
            counts[name if name not in counts else f"{name}.{i}"] = sum(table.num_rows for table in tables)
            for row in (row for table in tables for row in table.to_pylist()):
                digest.update(canonical_json(plain(row)).encode("utf-8", "surrogatepass"))
            digest.update(b"\n")
        return {"rows": counts, "sha": digest.hexdigest()}


def asking_step(plan: LogicalPlan, step: str) -> Semantic:
    """The semantic operator of a step. Raises PlanError: no such step, or one that asks no model, or more than one."""
    nodes = [node for node in walk(*plan.roots) if isinstance(node, Semantic)]
    names = list(dict.fromkeys(node.step for node in nodes))
    exact = [node for node in nodes if node.step == step]
    found = exact or [node for node in nodes if node.step.rsplit("/", 1)[-1] == step]
    there = "steps that ask a model: " + (", ".join(names) or "none")
    if not found and step in plan.steps:
        raise PlanError(Problem(f"step {step} asks no model", there=there))
    if not found:
        hint = did_you_mean(step, names)
        raise PlanError(Problem(f'plan {plan.name} has no step "{step}"', there=there, hint=hint))
    if len(found) > 1:
        several = list(dict.fromkeys(node.step for node in found))
        if len(several) > 1:
            raise PlanError(Problem(f'"{step}" is several steps', there=", ".join(several), hint="name one of them"))
        kinds = ", ".join(node.keyword for node in found)
        raise PlanError(
            Problem(f"step {step} asks a model {len(found)} times ({kinds})", hint="make them steps of their own")
        )
    return found[0]


def way_of(node: Semantic, text: str, library: Library, llm: LLM) -> tuple[Choice, Implementation[Any]]:
    """A way of a step as written. Raises PlanError: unknown, a wrong parameter, or one that cannot do this step."""
    choice = Choice.parse(text)
    way = library.get(node.keyword, choice, node.step)
    refusal = way.refuses(node, bound(llm, node.prompt.first.role).limits)
    if refusal is not None:
        raise PlanError(Problem(f"{choice} cannot do this: {refusal}", node.step, node.origin))
    return choice, way


@dataclass(frozen=True)
class Input:
    """How a step's input is made.

    Args:
        node: The step.
        physical: The plan as far as the step, or where its input depends on what the plan writes, the whole plan.
        grown: Whether it does.
    """

    node: Semantic
    physical: PhysicalPlan
    grown: bool

    @property
    def asking(self) -> list[str]:
        """The steps that ask a model for it."""
        return list(dict.fromkeys(n.step for n in walk(*self.physical.roots) if isinstance(n, Semantic)))


def input_of(plan: LogicalPlan, node: Semantic, store: Store, library: Library, llm: LLM) -> Input:
    """How a step's input is made, with the step done as the plan says. Raises PlanError."""
    wanted = {f"input {i}": source for i, source in enumerate(node.inputs)}
    limits = {role: bound(llm, role).limits for role in {n.prompt.first.role for n in _asking(plan)}}
    grown = _is_ordered(plan, node, store, library, limits)
    small = replace(plan, writes=plan.writes if grown else (), returns=wanted)
    return Input(node, compile_plan(optimize(small), store, library, limits), grown)


async def freeze(
    source: Input, inputs: Mapping[str, pa.Table], opened: Opened, scratch: Store, ledger: Ledger
) -> Frozen:
    """Compute a step's input in a scratch store, spent from `ledger`.

    Raises:
        BudgetReached: A limit was reached before the rows were there; what was answered is in the journal.
    """
    node, grown, meter = source.node, source.grown, Meter()
    embedder = CountedEmbedder(opened.embedder, ledger)
    runtime = Runtime(source.physical, counted(opened.llm, ledger), embedder, scratch, meter, answered=opened.answered)
    times: list[datetime] = []

    def now(name: str) -> datetime:
        times.append(opened.now(name))
        return times[-1]

    outcome = await Executor(runtime, Options("comparison", now, again=True, write=grown)).run(inputs)
    if outcome.stopped:
        raise BudgetReached(f"{outcome.stopped}; the rows of step {node.step} were not all there yet. {KEPT}")
    lists = [outcome.tables.get(f"input {i}", []) for i in range(len(node.inputs))]
    each = list(zip(*lists, strict=True))
    at = times[0] if times else None
    parts = [Part(tables, at) for tables in each] if grown else [Part(_joined(lists), at)] if each else []
    return Frozen(node, tuple(_numbered(parts)), runtime.partitions, ledger.paid, len(outcome.failures))


KEPT = "What was answered is in the journal: the same comparison goes on from there"


def _asking(plan: LogicalPlan) -> list[Semantic]:
    return [node for node in walk(*plan.roots) if isinstance(node, Semantic)]


def _is_ordered(
    plan: LogicalPlan, node: Semantic, store: Store, library: Library, limits: Mapping[str, Limits]
) -> bool:
    """Whether what the step reads depends on the run's own writes; as optimized it reads no more than it needs."""
    physical = compile_plan(optimize(plan), store, library, limits)
    steps = [n for n in walk(*physical.roots) if isinstance(n, Semantic) and n.step == node.step]
    return any(id(source) in physical.ordered for n in steps for source in n.inputs)


def _joined(lists: Sequence[Sequence[pa.Table]]) -> tuple[pa.Table, ...]:
    """What windows gave, as one relation in the order of the members; what does not derive from members comes once."""
    found = []
    for tables in lists:
        if MEMBER in tables[0].column_names:
            table = pa.concat_tables(tables)
            place = pa.array(range(table.num_rows))
            found.append(
                table.append_column("_at", place).sort_by([(MEMBER, "ascending"), ("_at", "ascending")]).drop("_at")
            )
        else:
            found.append(tables[0])
    return tuple(found)


def _numbered(parts: Sequence[Part]) -> list[Part]:
    """The first input's rows numbered through all parts: evidence and failures name them."""
    found, start = [], 0
    for part in parts:
        first = part.tables[0]
        numbers = pa.array(range(start, start + first.num_rows), pa.int64())
        start += first.num_rows
        if MEMBER in first.column_names:
            first = first.set_column(first.column_names.index(MEMBER), MEMBER, numbers)
        else:
            first = first.append_column(MEMBER, numbers)
        found.append(replace(part, tables=(first, *part.tables[1:])))
    return found


async def _answered(frozen: Frozen, part: Part, way: Implementation[Any], ctx: NodeContext, column: str) -> Answered:
    return await answer(frozen.node, part.tables, Asking(way, ctx, frozen.partitions, column, part.now, check_answer))


async def seen_rows(frozen: Frozen, llm: LLM, embedder: Embedder, column: str) -> list[Rows]:
    """What a way will be asked about, found by a way that asks nothing."""
    way = Seeing()
    async with NodeContext(llm, embedder, frozen.node, StepMetrics()) as ctx:
        for part in frozen.parts:
            await _answered(frozen, part, way, ctx, column)
    return way.seen


async def try_way(
    frozen: Frozen, way: Implementation[Any], opened: Opened, llm: LLM, column: str, number: int, ledger: Ledger
) -> Trial:
    """One trial of a way over all rows, spent from `ledger`. Raises BudgetReached; what was answered is in the journal."""
    node = frozen.node
    began = time.perf_counter()
    async with NodeContext(
        counted(llm, ledger), CountedEmbedder(opened.embedder, ledger), node, StepMetrics(), trial=number
    ) as ctx:
        found = [await _answered(frozen, part, way, ctx, column) for part in frozen.parts]
    seconds = time.perf_counter() - began
    for each in found:
        opened.answered(node, each)
    evidence = [each.evidence for each in found if each.evidence is not None]
    return Trial(
        number,
        ledger.cold,
        ledger.paid,
        None if ledger.replayed else seconds,
        sum(len(each.failures) for each in found),
        _visible(node, [each.table for each in found]),
        pa.concat_tables(evidence) if evidence else None,
        kinds(failure for each in found for failure in each.failures),
    )


def _visible(node: Node, tables: Sequence[pa.Table]) -> pa.Table:
    names = node.schema.names
    return pa.concat_tables([t.select(names) for t in tables]) if tables else node.schema.empty_table()
