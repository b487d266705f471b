"""EXPLAIN: a plan as this session would run it, and what it would take."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from semgraph.errors import PlanError, Problem
from semgraph.execution.record import Run
from semgraph.execution.runtime import Memory
from semgraph.explain import queries as store_queries
from semgraph.explain import requests as first_prompts
from semgraph.explain import rewrites
from semgraph.explain.algebra import algebra
from semgraph.explain.estimates import Estimator, Forecast
from semgraph.explain.mermaid import as_data, mermaid, queries
from semgraph.explain.tree import WIDTH, tree
from semgraph.logical.graph import Scan
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.semantic import Semantic
from semgraph.optimizer import given
from semgraph.physical.planner import PhysicalPlan, compile_plan
from semgraph.semantic.library import Library
from semgraph.session.inputs import example_rows
from semgraph.session.resources import Resources
from semgraph.stores.base import Attachable, Store
from semgraph.stores.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from semgraph.session.inputs import Sample

_LENGTH = 4  # of made-up vectors, where nothing is stored
ExplainFormat = Literal["tree", "algebra", "mermaid", "json", "queries", "rules", "prompts"]


@dataclass(frozen=True)
class Explained:
    """What is to be explained.

    Args:
        plan: The plan.
        inputs: Its rows; None: no estimates.
        run: A recorded run, to stand beside the estimates.
        sample: What some of the rows took.
        width: Columns of the terminal.
    """

    plan: LogicalPlan
    inputs: Mapping[str, pa.Table] | None = None
    run: Run | None = None
    sample: Sample | None = None
    width: int = WIDTH

    @property
    def actual(self) -> Mapping[str, Any] | None:
        """What the run did, by step."""
        return None if self.run is None else self.run.metrics.get("steps", {})

    @property
    def note(self) -> str:
        """What is to be known of the run. Raises PlanError if it was a run of another plan."""
        if self.run is None:
            return ""
        name, facts = self.run.name, self.run.facts
        if "plan" not in facts:
            hint = f"take another, or remove it: semgraph runs rm {name}"
            raise PlanError(
                Problem(
                    f"the record of run {name} does not say what it did: it is damaged", hint=hint
                )
            )
        if (other := facts.get("plan")) != self.plan.name:
            hint = f"semgraph explain {other} --run {name}"
            raise PlanError(
                Problem(f"run {name} was a run of {other}, not of {self.plan.name}", hint=hint)
            )
        if facts.get("fingerprint") == self.plan.fingerprint:
            return ""
        differs = "(steps, parameters or ways differ): its counts may be of other work"
        return f"run {name} was of another version of {other} {differs}"


async def explained(of: Explained, resources: Resources, form: ExplainFormat) -> str:
    """The plan in one of the forms; models are not asked. The store is read for `prompts` and to
    count what a plan scans.
    """
    note = of.note
    if form == "algebra":
        return algebra(of.plan)
    plan = given(of.plan, of.inputs or {})
    optimized, changes = rewrites.optimized(plan)
    if form == "rules":
        return rewrites.shown(plan, changes)
    async with resources.opened_store(of.plan.graph) as store:
        physical = compile_plan(optimized, store, Library(resources.settings.operators), {})
    if form == "prompts":
        return await _prompts(of, physical, resources)
    if form in {"mermaid", "queries"}:
        return mermaid(physical) if form == "mermaid" else await _queries(of, physical, resources)
    return await _drawn(of, physical, rewrites.names(changes), resources, form, note)


async def _drawn(
    of: Explained,
    physical: PhysicalPlan,
    names: list[str],
    resources: Resources,
    form: ExplainFormat,
    note: str,
) -> str:
    memory = Memory.beside(resources.settings.journal_path)
    forecast = (
        None if of.inputs is None else Forecast(await _estimator(of, physical, resources, memory))
    )
    note = "; ".join(part for part in (note, memory.note if memory else "") if part)
    if form == "json":
        data = as_data(physical, of.actual, forecast, names, note)
        if of.sample is not None:
            data["sample"] = of.sample.as_data()
        return json.dumps(data, indent=1, ensure_ascii=False, default=str)
    lines = [tree(physical, of.actual, forecast, names, of.width, note)]
    return "\n".join([*lines, *(of.sample.lines() if of.sample is not None else [])])


async def _estimator(
    of: Explained, physical: PhysicalPlan, resources: Resources, memory: Memory | None
) -> Estimator:
    inputs = of.inputs or {}
    counts = None
    if any(isinstance(node, Scan) for node in walk(*physical.roots)):
        from semgraph.compare.scratch import held, partitions_read

        async with resources.opened_store(of.plan.graph) as store:
            kept = await held(of.plan, store, partitions_read(of.plan, inputs))
        counts = {label: table.num_rows for label, table in kept.rows.items()}
    rows = {name: table.num_rows for name, table in inputs.items()}
    seen = memory.read() if memory is not None else {}
    found = Estimator(physical, rows, seen, counts, windows(of.plan, inputs))
    if any(
        not found.asked(node).tokens_in.known
        for node in walk(*physical.roots)
        if isinstance(node, Semantic)
    ):
        return replace(found, tokens=await _tokens(of, physical, inputs, resources))
    return found


async def _tokens(
    of: Explained, physical: PhysicalPlan, inputs: Mapping[str, pa.Table], resources: Resources
) -> Mapping[int, float]:
    """Tokens of real first prompts, by the model's tokenizer; none where no model is to be had."""
    try:
        llm = await resources.tokenizers(of.plan)
    except PlanError:
        return {}
    async with resources.opened_store(of.plan.graph) as store:
        return await first_prompts.tokens_of_inputs(physical, llm, store, inputs, datetime.now(UTC))


def windows(plan: LogicalPlan, inputs: Mapping[str, pa.Table]) -> int:
    """How many windows all partitions have together; without an order, how many partitions the
    inputs name.
    """
    order, own = plan.order, plan.graph.partition
    if order is None:
        named = [
            table.column(own).unique().to_pylist()
            for table in inputs.values()
            if own in table.column_names
        ]
        return max(1, len({value for values in named for value in values}))
    if order.input not in inputs:
        return 1
    counts = Counter(
        value or "" for value in inputs[order.input].column(order.partition).to_pylist()
    )
    return max(1, sum(ceil(count / (order.window or count)) for count in counts.values()))


async def _queries(of: Explained, physical: PhysicalPlan, resources: Resources) -> str:
    """The segments, and the store's statements: of SQLite over an empty graph, of Neo4j with the
    indexes that it has.
    """
    parts = [queries(physical)]
    if any(node.calls_store for node in walk(*physical.roots)):
        async with AsyncExitStack() as closing:
            store: Store = await closing.enter_async_context(resources.opened_store(of.plan.graph))
            if isinstance(store, Attachable):
                await store.attach(of.plan.graph)
                lengths = list((await store.statistics()).dimensions.values())
            else:
                lengths = []
                store = SqliteStore(":memory:")
                closing.push_async_callback(store.aclose)
                await store.ensure(of.plan.graph, _LENGTH)
            plan = compile_plan(physical.logical, store, Library(resources.settings.operators), {})
            parts.append(
                store_queries.shown(
                    await store_queries.store_queries(plan, store, next(iter(lengths), _LENGTH))
                )
            )
    return "\n\n".join(part for part in parts if part)


async def _prompts(of: Explained, physical: PhysicalPlan, resources: Resources) -> str:
    from semgraph.compare.scratch import held, partitions_read

    if not any(isinstance(node, Semantic) for node in walk(*physical.roots)):
        return f"no step of {of.plan.name} asks a model: there are no prompts"
    if of.plan.order is not None and of.inputs is None:
        example_rows(of.plan)  # says which rows are needed
    async with AsyncExitStack() as closing:
        opened = await closing.enter_async_context(resources.open(of.plan, fresh=False))
        inputs = of.inputs or {}
        kept = await held(of.plan, opened.store, partitions_read(of.plan, inputs))
        store = await closing.enter_async_context(kept.copy(None))
        plan = compile_plan(physical.logical, store, Library(resources.settings.operators), {})
        found = await first_prompts.first_prompts(
            plan, opened.llm, store, inputs, datetime.now(UTC)
        )
        return first_prompts.shown(found, exact=opened.llm.exact_tokens)
