"""Runs beside the caller's: the plans before an example, and a sample of the rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from semgraph.display import option
from semgraph.errors import BudgetReached, PlanError
from semgraph.execution.result import Result
from semgraph.formats import dollars, plural
from semgraph.logical.plan import LogicalPlan, without_absent
from semgraph.logical.sinks import Delete, Merge
from semgraph.meter import StepMetrics
from semgraph.options import RunOptions
from semgraph.session.inputs import example_rows, sampled_input, sampled_rows, typed_inputs
from semgraph.session.resources import Resources
from semgraph.session.run import RunRequest, run_plan


async def run_before(
    request: RunRequest, prepare: Callable[[str | Path], LogicalPlan], resources: Resources
) -> list[Result]:
    """Run the plans that the example of a plan depends on, each on its example, in order.

    Args:
        request: The request of the plan; `progress`, `write`, `runs` and `begun` hold for all.
        prepare: Loads a plan by path or name.
        resources: The resources of all runs, with a shared budget if there is one.

    Returns:
        The results, in the order of the runs.

    Raises:
        PlanError: A plan deletes rows, and the store holds other rows.
        BudgetReached: A run stopped at a limit; later ones were not started.
    """
    asked = request.options
    if asked.writes:
        await _refuse_deletes(request.plan, resources)
    done: list[Result] = []
    for name in example_rows(request.plan).after:
        beside = Path(request.plan.file).parent / f"{name}.yaml"
        plan = prepare(beside if beside.is_file() else name)
        options = RunOptions(write=asked.write, progress=asked.progress, begun=asked.begun)
        one = RunRequest(plan, {}, options, request.runs)
        if plan.inputs:
            done += await run_before(one, prepare, resources)
        tables = typed_inputs(plan, {})
        one = replace(one, plan=without_absent(plan, tables), inputs=tables)
        done.append(last := await run_plan(one, resources))
        if last.stopped:
            what, later = f"{plan.name}, on which the example of", request.plan.name
            raise BudgetReached(f"{what} {later} depends, {last.stopped}; {later} was not begun")
    return done


async def _refuse_deletes(plan: LogicalPlan, resources: Resources) -> None:
    """Refuse the example of a plan that deletes rows without rewriting them if the store holds
    rows: they may be the user's.

    Raises:
        PlanError: The store holds rows.
        StoreUnavailable: The store does not answer.
    """
    written = {sink.label.name for sink in plan.writes if isinstance(sink, Merge)}
    deletes = (sink.label.name for sink in plan.writes if isinstance(sink, Delete))
    deleted = [name for name in deletes if name not in written]
    if not deleted or not resources.may_hold_rows:
        return
    async with resources.opened_store(plan.graph) as store:
        await store.attach(plan.graph)
        counts = {label: rows for label, rows in (await store.statistics()).counts.items() if rows}
        name = store.name
    if counts:
        first = next(iter(plan.inputs))
        what = f"no input, and the example of {plan.name} would delete {', '.join(deleted)} in a store that holds rows"
        there = f"{name} holds {', '.join(f'{rows} {label}' for label, rows in counts.items())}"
        every = f"; without rows: -i {first}=[]" if plan.inputs[first].optional else ""
        hint = f"give the input: -i {first}=FILE{every}; for the example alone: --store memory"
        raise PlanError(what, there=there, hint=hint)


def _whole(amount: float) -> str:
    return f"{amount:,.0f}"


_SPREAD = 1.96  # standard errors of a count on each side: 95 %


@dataclass(frozen=True)
class Sample:
    """The cost of `rows` out of `of` rows. It gives the estimated cost of all rows, with the 95 %
    range of a count of calls.

    `cost` includes answers from the journal at their price; `replayed` is their number.
    """

    rows: int
    of: int
    input: str
    cost: StepMetrics
    failed: int = 0
    replayed: int = 0

    @property
    def calls(self) -> int:
        """The calls of the sample, including those answered from the journal."""
        return self.cost.calls_issued

    def all(self, amount: float) -> tuple[float, float, float]:
        """An amount of the sample scaled to all rows: likely, lower bound, upper bound."""
        times = self.of / self.rows
        spread = _SPREAD / math.sqrt(self.calls) if self.calls and self.rows < self.of else 0.0
        return amount * times, amount * times * max(0.0, 1 - spread), amount * times * (1 + spread)

    def _amounts(self) -> dict[str, tuple[float, Callable[[float], str]]]:
        """Amounts by name, with their formatters."""
        amounts: dict[str, tuple[float, Callable[[float], str]]] = {"calls": (self.calls, _whole)}
        if self.calls:
            amounts["tokens in"] = (self.cost.tokens_in, _whole)
            amounts["tokens out"] = (self.cost.tokens_out, _whole)
            if self.cost.dollars is not None:
                amounts["dollars"] = (self.cost.dollars, partial(dollars, exact=True))
        return amounts

    def lines(self) -> list[str]:
        """Lines of text below a tree."""
        lost = f", {plural(self.failed, 'row')} failed" if self.failed else ""
        known = f" ({self.replayed} of them from the journal)" if self.replayed else ""
        of = f"{self.rows:,} of {self.of:,} rows of {self.input}"
        lines = [f"sample: {of}, {self.calls:,} calls{known}{lost}, nothing written"]
        for name, (amount, text) in self._amounts().items():
            likely, least, most = map(text, self.all(amount))
            between = f" ({least} to {most})" if least != most else ""
            lines.append(f"  {name} for all rows ≈ {likely}{between}")
        lines.append("  ranges are 95 %, if the other rows are like these")
        return lines

    def as_data(self) -> dict[str, Any]:
        """The sample in EXPLAIN's JSON."""
        all_rows = {
            name: dict(zip(("likely", "least", "most"), self.all(amount), strict=True))
            for name, (amount, _) in self._amounts().items()
        }
        data = {"rows": self.rows, "of": self.of, "input": self.input, "calls": self.calls}
        return data | {"all": all_rows}


async def sampled(
    plan: LogicalPlan, inputs: Mapping[str, pa.Table], rows: int, resources: Resources
) -> Sample:
    """Run some rows with real calls, in a copy of the rows that the plan reads. Raises PlanError if
    there are no rows.
    """
    name = sampled_input(plan, inputs)
    if rows < 1 or not name or not inputs[name].num_rows:
        hint = f"give the plan's inputs, with rows, and {option('sample', 20)}"
        raise PlanError("there is nothing to sample", hint=hint)
    some = sampled_rows(plan, dict(inputs), rows)
    from semgraph.compare.trial import partitions_read, snapshot

    async with resources.opened_store(plan.graph) as store:
        read = await snapshot(plan, store, partitions_read(plan, some))
    async with read.copy() as copy:
        request = RunRequest(plan, some, RunOptions(again=True), sample=True)
        result = await run_plan(request, resources.over(copy))
    cost = StepMetrics()
    for step in result.meter.steps.values():
        if step.operator:
            cost.add(step)
    replayed = result.meter.replayed
    cost.add(replayed)
    size = inputs[name].num_rows
    return Sample(some[name].num_rows, size, name, cost, len(result.failed), replayed.calls_issued)
