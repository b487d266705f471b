"""What a comparison would take, without asking any model."""

from __future__ import annotations

from semgraph.errors import PlanError, Problem
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.semantic import Semantic
from semgraph.session.comparing.ahead import ahead
from semgraph.session.comparing.choices import choices
from semgraph.session.comparing.copy import held, partitions_read
from semgraph.session.comparing.cost import Ledger
from semgraph.session.comparing.request import ComparisonRequest
from semgraph.session.comparing.said import expected, in_all, said_of_rows
from semgraph.session.comparing.step import freeze, seen_rows
from semgraph.session.resources import Resources
from semgraph.session.running import vector_length


def only_step(plan: LogicalPlan) -> str:
    """The one step of a plan that asks a model. Raises PlanError: there is none, or more than one."""
    names = list(dict.fromkeys(node.step for node in walk(*plan.roots) if isinstance(node, Semantic)))
    if len(names) != 1:
        there = "steps that ask a model: " + (", ".join(names) or "none")
        raise PlanError(Problem("nothing says which step is done in these ways", there=there, hint='step="..."'))
    return names[0]


async def foreseen(request: ComparisonRequest, resources: Resources) -> list[str]:
    """What each way of a step would take over its rows, a line each. No model is asked; what a search needs is embedded.

    Raises:
        PlanError: Something is wrong with the request, or there are no rows.
    """
    plan = request.plan
    async with resources.open(plan, fresh=False) as opened:
        of = choices(request, resources, opened.llm)
        source = await held(plan, opened.store, partitions_read(plan, request.inputs))
        async with source.copy(await vector_length(plan, opened.embedder)) as scratch:
            made = of.input(plan, scratch, opened.llm)
            if made.asking:
                later = "what its ways take is known when these are there: compare says it before they are asked"
                return [*said_of_rows(made, request.inputs, source, resources, opened.budget), later]
            frozen = await freeze(made, request.inputs, opened, scratch, Ledger())
        of.asked(frozen)
        rows = await seen_rows(frozen, opened.llm, opened.embedder, plan.graph.partition)
        costs = await ahead(of.node, of.ways, of.by_default, rows, opened.llm, opened.embedder)
        counts = " × ".join(f"{name} {count:,}" for name, count in frozen.facts()["rows"].items())
        wide = max(map(len, of.ways))
        own = {name: "   reference" if name == of.reference else "" for name in of.ways}
        return [
            f"{of.node.step} = {of.node.keyword}({counts}), one trial of each ({opened.llm.name}), estimated",
            *(f"  {e.way:<{wide}}  {expected(e)}{own[e.way]}" for e in costs.estimates),
            f"  {in_all(costs.estimates, request.trials, opened.budget)}",
        ]
