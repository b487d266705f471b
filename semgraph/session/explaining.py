"""EXPLAIN: a plan as a session would run it, with estimates of its cost."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, get_args

import pyarrow as pa

from semgraph.compare.trial import partitions_read, snapshot
from semgraph.display import command
from semgraph.errors import PlanError, StoreUnavailable
from semgraph.execution.executor import committed_rows
from semgraph.execution.observations import ObservationFile
from semgraph.execution.record import Run
from semgraph.execution.runtime import batched_operators
from semgraph.execution.windows import prepare
from semgraph.explain import requests
from semgraph.explain.algebra import algebra
from semgraph.explain.estimates import Estimator, Forecast
from semgraph.explain.steps import as_data
from semgraph.formats import plural
from semgraph.llm.base import ModelSpec
from semgraph.llm.providers import PROVIDERS
from semgraph.llm.settings import OPTION
from semgraph.logical.graph import Scan
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import LogicalPlan, uses_store
from semgraph.logical.semantic import Semantic
from semgraph.optimizer import APPROXIMATE, mark_empty, optimize
from semgraph.physical.plan import PhysicalPlan
from semgraph.physical.planner import compile_plan
from semgraph.render.explained import WIDTH, Outline, mermaid
from semgraph.semantic.library import Library
from semgraph.session.examples import Sample
from semgraph.session.inputs import example_rows
from semgraph.session.resources import Resources
from semgraph.stores.base import Store

_LENGTH = 4  # of vectors, if none are stored
_APPROXIMATE = {rule.__name__ for rule in APPROXIMATE}
ExplainFormat = Literal["tree", "algebra", "mermaid", "json", "queries", "prompts"]


@dataclass(frozen=True)
class Explanation:
    """A plan and its estimated cost.

    Args:
        plan: The plan.
        resources: The session's resources: store, models, implementations.
        inputs: The plan's rows; None: no estimates.
        run: A recorded run; its counts are shown next to the estimates.
        sample: The cost of some of the rows.
        width: Columns of the terminal.
        expand: The steps that are opened, to the steps of the plans that they call.
        full: Whether all are; of the algebra, too.
    """

    plan: LogicalPlan
    resources: Resources
    inputs: Mapping[str, pa.Table] | None = None
    run: Run | None = None
    sample: Sample | None = None
    width: int = WIDTH
    expand: Sequence[str] = ()
    full: bool = False

    async def text(self, form: ExplainFormat) -> str:
        """The plan in one of the formats. No model is called. The store is read for `prompts`, and
        to count the rows that a plan scans.

        Raises:
            PlanError: The run belongs to another plan, or `prompts` needs rows.
            StoreUnavailable: The store does not answer.
        """
        if self.expand and form != "tree":
            raise PlanError(f"{form} opens no single step", hint=command("--full", "full=True"))
        note = "" if self.run is None else _note(self.run, self.plan)
        if form == "algebra":
            return algebra(self.plan, expand=self.full)
        if form not in get_args(ExplainFormat):
            there = f"formats: {', '.join(get_args(ExplainFormat))}"
            raise PlanError(f'"{form}" is no format of explain', there=there)
        rules: list[str] = []
        optimized = optimize(mark_empty(self.plan, self.inputs or {}), rules.append)
        async with self.resources.opened_store(self.plan.graph) as store:
            physical = self._compiled(optimized, store)
        if form == "prompts":
            return await self._prompts(physical)
        if form == "mermaid":
            return mermaid(physical)
        if form == "queries":
            return await self._queries(physical)
        names = [f"{rule} (approximate)" if rule in _APPROXIMATE else rule for rule in rules]
        return await self._estimated(physical, names, form, note)

    def _compiled(self, plan: LogicalPlan, store: Store) -> PhysicalPlan:
        return compile_plan(plan, store, Library(self.resources.settings.operators), {})

    async def _estimated(
        self, physical: PhysicalPlan, names: list[str], form: ExplainFormat, note: str
    ) -> str:
        memory = self.resources.observations()
        forecast, batched, skipped = None, frozenset[Node](), ""
        if self.resources.sending_batches:
            batched = batched_operators(physical, await self.resources.tokenizers(self.plan))
        if self.inputs is not None:
            inputs, skipped = await self._pending(self.inputs)
            estimator = await self._estimator(physical, inputs, memory)
            forecast = Forecast(replace(estimator, batched_operators=batched))
        actual = None if self.run is None else self.run.metrics.get("steps", {})
        note = "; ".join(part for part in (note, memory.note if memory else "") if part)
        engine, name_of = self._engine(forecast), self.resources.name_of
        models = {role: name_of(role) for role in physical.logical.needs.roles}
        if form == "json":
            data = as_data(physical, actual, forecast, names, note, batched, models)
            if skipped:
                data["skipped"] = skipped
            if engine:
                data["engine"] = engine
            if self.sample is not None:
                data["sample"] = self.sample.as_data()
            return json.dumps(data, indent=1, ensure_ascii=False, default=str)
        about = [line for line in (skipped, engine) if line]
        about += self.sample.lines() if self.sample is not None else []
        specs = [self.resources.model(role) for role in models]
        outline = Outline(
            physical, actual or {}, forecast, batched, models, self.expand, self.full,
            all(isinstance(spec, ModelSpec) and PROVIDERS[spec.provider].free for spec in specs),
        )  # fmt: skip
        return outline.drawn(names, self.width, note, about)

    async def _pending(self, inputs: Mapping[str, pa.Table]) -> tuple[Mapping[str, pa.Table], str]:
        """The rows that a run would process, and a line on the rows that it would skip because the
        graph has them already. With the counts of a run, all rows are estimated.
        """
        plan, windowing = self.plan, self.plan.windows
        if windowing is None or not plan.writes or self.run is not None:
            return inputs, ""
        if not self.resources.may_hold_rows:
            return inputs, ""
        own = inputs[windowing.input]
        rows = await prepare(windowing, own)
        try:
            async with self.resources.opened_store(plan.graph) as store:
                await store.attach(plan.graph)
                committed = await committed_rows(store, plan.name, rows)
        except StoreUnavailable as error:
            return inputs, f"! not known: which rows are in the graph already. {error}"
        if not committed:
            return inputs, ""
        pending = [m for m in range(own.num_rows) if m not in committed]
        line = (
            f"in the graph already: {len(committed):,} of {plural(own.num_rows, 'row')} of "
            f"{windowing.input}; a run skips them, and so do the estimates"
        )
        return {**inputs, windowing.input: own.take(pa.array(pending, pa.int64()))}, line

    def _engine(self, forecast: Forecast | None) -> str:
        """The engine of the settings and the number of shards that it makes of the rows; "" without
        one.
        """
        if "engine" not in self.resources.settings.values or forecast is None:
            return ""
        from semgraph.engine.on_ray import EngineSpec
        from semgraph.engine.sharding import described

        setting = self.resources.settings["engine"]
        spec = EngineSpec.parse(str(setting.value))
        try:
            workers = spec.workers or os.cpu_count() or 1  # a cluster counts as this machine
            shards, part = described(self.plan, self.inputs or {}, spec.shards, workers)
        except PlanError as error:
            if setting.origin == OPTION:
                raise
            return f"engine {spec}: none, in this process: {error.problems[0].what}"
        seconds = forecast.seconds_in_order().times(part)
        lasts = f", {seconds.text(1)} s of calls" if seconds.known and seconds.value else ""
        return f"engine {spec} · {shards}{lasts}"

    async def _estimator(
        self, physical: PhysicalPlan, inputs: Mapping[str, pa.Table], memory: ObservationFile | None
    ) -> Estimator:
        stored = None
        if any(isinstance(node, Scan) for node in walk(*physical.roots)):
            async with self.resources.opened_store(self.plan.graph) as store:
                stored = (await snapshot(self.plan, store, partitions_read(self.plan, inputs))).rows
        estimator = Estimator.over(physical, inputs, memory, stored)
        semantic = [node for node in walk(*physical.roots) if isinstance(node, Semantic)]
        if all(estimator.call_estimate(node).tokens_in.known for node in semantic):
            return estimator
        return replace(estimator, first=await self._first(physical, inputs))

    async def _first(
        self, physical: PhysicalPlan, inputs: Mapping[str, pa.Table]
    ) -> Mapping[Node, requests.FirstPrompt]:
        """The first prompts; none without a model."""
        try:
            llm = await self.resources.tokenizers(self.plan)
        except PlanError:
            return {}
        async with self.resources.opened_store(self.plan.graph) as store:
            now = datetime.now(UTC)
            return await requests.prompts_of_inputs(physical, llm, store, inputs, now)

    async def _queries(self, physical: PhysicalPlan) -> str:
        """The SQL of segments, and the statements of the store with its real indexes."""
        parts = [requests.segment_queries(physical)]
        if uses_store(*physical.roots):
            async with self.resources.opened_store(self.plan.graph) as store:
                await store.attach(self.plan.graph)
                plan = self._compiled(physical.logical, store)
                length = next(iter((await store.statistics()).dimensions.values()), _LENGTH)
                statements = await requests.store_queries(plan, store, length)
                parts.append(requests.queries_text(statements))
        return "\n\n".join(part for part in parts if part)

    async def _prompts(self, physical: PhysicalPlan) -> str:
        if not any(isinstance(node, Semantic) for node in walk(*physical.roots)):
            return f"no step of {self.plan.name} calls the model: there are no prompts"
        if self.plan.windows is not None and self.inputs is None:
            example_rows(self.plan)  # raises, and names the rows that are needed
        inputs = self.inputs or {}
        async with AsyncExitStack() as closing:
            opened = await closing.enter_async_context(self.resources.open(self.plan, fresh=False))
            read = await snapshot(self.plan, opened.store, partitions_read(self.plan, inputs))
            store = await closing.enter_async_context(read.copy())
            plan = self._compiled(physical.logical, store)
            now = datetime.now(UTC)
            prompts = await requests.first_prompts(plan, opened.llm, store, inputs, now)
            return requests.text(prompts, exact=opened.llm.exact_tokens)


def _note(run: Run, plan: LogicalPlan) -> str:
    """A note if a run used another version of the plan. Raises PlanError if it ran another plan."""
    name, facts = run.name, run.facts
    if "plan" not in facts:
        hint = f"name another run, or remove it: semgraph runs rm {name}"
        raise PlanError(f"the record of run {name} is damaged: no plan in it", hint=hint)
    if (other := facts.get("plan")) != plan.name:
        hint = f"semgraph explain {other} --run {name}"
        raise PlanError(f"run {name} was a run of {other}, not of {plan.name}", hint=hint)
    if facts.get("fingerprint") == plan.fingerprint:
        return ""
    differs = "(steps, parameters or implementations differ): its counts may be of other work"
    return f"run {name} was of another version of {other} {differs}"
