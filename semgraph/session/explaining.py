"""EXPLAIN: a plan as this session would run it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from semgraph.execution.algebra import algebra
from semgraph.execution.explain import as_data, mermaid, queries, tree
from semgraph.logical.plan import LogicalPlan
from semgraph.optimizer import optimize
from semgraph.physical.library import Library
from semgraph.physical.planner import compile_plan
from semgraph.session.resources import Resources

ExplainFormat = Literal["tree", "algebra", "mermaid", "json", "queries"]


async def explained(
    plan: LogicalPlan, resources: Resources, form: ExplainFormat, actual: Mapping[str, Any] | None
) -> str:
    """The plan in one of the forms; the store is asked nothing, models are not loaded."""
    if form == "algebra":
        return algebra(plan)
    async with resources.opened_store() as store:
        physical = compile_plan(optimize(plan), store, Library(resources.settings.operators), {})
    if form == "json":
        return json.dumps(as_data(physical, actual), indent=1, ensure_ascii=False, default=str)
    if form == "mermaid":
        return mermaid(physical)
    return queries(physical) if form == "queries" else tree(physical, actual)
