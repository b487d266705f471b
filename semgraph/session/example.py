"""A plan's example: what may run before it, and where it may not run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from semgraph.errors import BudgetReached, PlanError, Problem
from semgraph.execution.result import Result
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.sinks import Delete, Merge
from semgraph.session.inputs import example_rows, typed_inputs
from semgraph.session.resources import Resources
from semgraph.session.running import RunRequest, run_plan
from semgraph.stores.abilities import open_to_read


async def run_before(
    request: RunRequest, prepare: Callable[[str | Path], LogicalPlan], resources: Resources
) -> list[Result]:
    """Run the plans that the example of a request's plan comes after, each on its own example, in the order that it names.

    Args:
        request: Of the plan; its `progress`, `write` and `runs` are those of the plans before it too.
        prepare: Loads a plan by path or name.
        resources: What all of them use; they spend from one budget if these have one.

    Returns the results of these plans, in the order in which they ran.

    Raises:
        PlanError: The plan deletes, and the store holds rows that are not its example's.
        BudgetReached: One of them stopped at a limit; what comes after it was not begun.
    """
    if request.write and request.until is None:
        await _spare(request.plan, resources)
    done: list[Result] = []
    for name in example_rows(request.plan).after:
        beside = Path(request.plan.file).parent / f"{name}.yaml"
        plan = prepare(beside if beside.is_file() else name)
        one = RunRequest(
            plan, {}, write=request.write, progress=request.progress, runs=request.runs, begun=request.begun
        )
        if plan.inputs:
            done += await run_before(one, prepare, resources)
        last = await run_plan(replace(one, inputs=typed_inputs(plan, {}, None)), resources)
        done.append(last)
        if last.stopped:
            later = request.plan.name
            raise BudgetReached(
                f"{plan.name}, after which the example of {later} comes, {last.stopped}; {later} was not begun"
            )
    return done


async def _spare(plan: LogicalPlan, resources: Resources) -> None:
    """Refuse the example of a plan that deletes, without making anew, where somebody else's rows may be what it deletes.

    It runs in a store that holds nothing, such as a new one in memory.

    Raises:
        PlanError: The store holds rows.
        StoreUnavailable: It does not answer.
    """
    made = {sink.label.name for sink in plan.writes if isinstance(sink, Merge)}
    gone = [sink.label.name for sink in plan.writes if isinstance(sink, Delete) and sink.label.name not in made]
    if not gone or not resources.may_hold_rows:
        return
    async with resources.opened_store(plan.graph) as store:
        await open_to_read(store, plan.graph)
        held = {label: rows for label, rows in (await store.statistics()).counts.items() if rows}
        name = store.name
    if held:
        first = next(iter(plan.inputs))
        what = f"no input is given, and the example of {plan.name} would delete {', '.join(gone)} in a store that holds rows"
        there = f"{name} holds {', '.join(f'{rows} {label}' for label, rows in held.items())}"
        every = f"; all that it takes without rows: -i {first}=[]" if plan.inputs[first].optional else ""
        hint = f"say what is meant: -i {first}=FILE{every}; the example alone: --store memory"
        raise PlanError(Problem(what, there=there, hint=hint))
