"""A trial of a whole plan: in a scratch copy of the groups that it reads, scored by the graph that it leaves there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from semgraph.errors import BudgetReached, PlanError, Problem, did_you_mean
from semgraph.execution.comparison import Trial
from semgraph.execution.comparison.failing import kinds
from semgraph.execution.executor import Executor, result_table
from semgraph.execution.outcome import Options
from semgraph.execution.runtime import Runtime
from semgraph.llm.base import LLM
from semgraph.llm.embed.once import EmbedOnce
from semgraph.llm.roles import bound
from semgraph.logical.node import walk
from semgraph.logical.plan import Choice, LogicalPlan
from semgraph.logical.semantic import Semantic
from semgraph.meter import Meter
from semgraph.optimizer import optimize
from semgraph.physical.library import Library
from semgraph.physical.planner import PhysicalPlan, compile_plan
from semgraph.scoring import Graph
from semgraph.session.comparing.copy import Held
from semgraph.session.comparing.cost import CountedEmbedder, Ledger, counted
from semgraph.session.comparing.graph import graph_of
from semgraph.session.comparing.request import checked
from semgraph.session.resources import Opened
from semgraph.stores.base import Store


@dataclass(frozen=True)
class Whole:
    """What came of one trial of a plan: what it cost, and the graph that it wrote, or the rows that it returned."""

    trial: Trial
    graph: Graph | None
    tables: Mapping[str, pa.Table]


def uses(plan: LogicalPlan, ways: Mapping[str, Mapping[str, str]]) -> dict[str, dict[str, Choice]]:
    """The ways of each arm, read. Raises PlanError: a step that the plan does not ask a model in."""
    names = list(dict.fromkeys(node.step for node in walk(*plan.roots) if isinstance(node, Semantic)))
    known = {*names, *(name.rsplit("/", 1)[-1] for name in names)}
    there = "steps that ask a model: " + (", ".join(names) or "none")

    def read(arm: str, step: str, text: str) -> Choice:
        if step not in known:
            what = f'arm {arm}: plan {plan.name} asks no model in a step "{step}"'
            raise PlanError(Problem(what, there=there, hint=did_you_mean(step, known)))
        return Choice.parse(text)

    each = {(arm, step): partial(read, arm, step, text) for arm, use in ways.items() for step, text in use.items()}
    found = checked(each)
    return {arm: {step: found[arm, step] for step in use} for arm, use in ways.items()}


def compiled(plan: LogicalPlan, store: Store, library: Library, llm: LLM) -> PhysicalPlan:
    """A plan as it is run in a store. Raises PlanError: an unknown way, or one that refuses its step."""
    roles = {node.prompt.first.role for node in walk(*plan.roots) if isinstance(node, Semantic)}
    return compile_plan(optimize(plan), store, library, {role: bound(llm, role).limits for role in roles})


async def try_plan(
    plan: LogicalPlan, inputs: Mapping[str, pa.Table], held: Held, opened: Opened, llm: LLM, library: Library, number: int,
    dimensions: int | None, ledger: Ledger, scope: str,
) -> Whole:  # fmt: skip
    """One trial of a plan, spent from `ledger`. Raises BudgetReached; what was answered is in the journal.

    What it embeds is embedded for it alone, so that its time does not depend on who embedded the same before.
    """
    own = opened.embedder
    async with held.copy(dimensions) as store:
        physical = compiled(plan, store, library, llm)
        embedder: Any = CountedEmbedder(
            own.scoped(f"{scope} trial {number}") if isinstance(own, EmbedOnce) else own, ledger
        )
        runtime = Runtime(
            physical, counted(llm, ledger), embedder, store, Meter(), trial=number, answered=opened.answered
        )
        began = time.perf_counter()
        outcome = await Executor(runtime, Options("comparison", opened.now, again=True)).run(inputs)
        seconds = time.perf_counter() - began
        if outcome.stopped:
            raise BudgetReached(outcome.stopped)
        tables = {n: result_table(node, outcome.tables.get(n, [])) for n, node in plan.returns.items()}
        failed = len(outcome.failed_members) if plan.order else len(outcome.failures)
        took = None if ledger.replayed or ledger.known else seconds
        trial = Trial(number, ledger.cold, ledger.paid, took, failed, failures=kinds(outcome.failures))
        return Whole(trial, await graph_of(store, plan) if plan.writes else None, tables)
