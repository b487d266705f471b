"""The plans that a plan's example comes after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from semgraph.errors import BudgetReached
from semgraph.logical.plan import LogicalPlan
from semgraph.session.inputs import example_rows, typed_inputs
from semgraph.session.resources import Resources
from semgraph.session.running import RunRequest, run_plan


async def run_before(request: RunRequest, prepare: Callable[[str | Path], LogicalPlan], resources: Resources) -> None:
    """Run the plans that the example of a request's plan comes after, each on its own example, in the order that it names.

    Args:
        request: Of the plan; its `progress`, `write` and `runs` are those of the plans before it too.
        prepare: Loads a plan by path or name.
        resources: What all of them use; they spend from one budget if these have one.

    Raises:
        BudgetReached: One of them stopped at a limit; what comes after it was not begun.
    """
    for name in example_rows(request.plan).after:
        beside = Path(request.plan.file).parent / f"{name}.yaml"
        plan = prepare(beside if beside.is_file() else name)
        one = RunRequest(plan, {}, write=request.write, progress=request.progress, runs=request.runs)
        if plan.inputs:
            await run_before(one, prepare, resources)
        done = await run_plan(replace(one, inputs=typed_inputs(plan, {}, None)), resources)
        if done.stopped:
            later = request.plan.name
            raise BudgetReached(
                f"{plan.name}, after which the example of {later} comes, {done.stopped}; {later} was not begun"
            )
