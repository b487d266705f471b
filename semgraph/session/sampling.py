"""A sample: some rows run for real, in a copy of what the plan reads, and what all would take if they are like these."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semgraph.errors import PlanError, Problem
from semgraph.logical.plan import LogicalPlan
from semgraph.meter import StepMetrics
from semgraph.session.comparing.copy import held, partitions_read
from semgraph.session.resources import Resources
from semgraph.session.running import RunRequest, run_plan

_SPREAD = 1.96  # standard errors of a count on each side: 95 %


@dataclass(frozen=True)
class Sample:
    """What `rows` of `of` rows took, and what all would take; the range is that of a count of calls, 95 %.

    `took` counts what was paid now and, as if it were, what earlier runs had paid for answers that the journal has; of
    its calls, those are `replayed`.
    """

    rows: int
    of: int
    input: str
    took: StepMetrics
    failed: int = 0
    replayed: int = 0

    @property
    def calls(self) -> int:
        """Calls that the sample takes, without a journal."""
        return self.took.calls_issued

    def all(self, amount: float) -> tuple[float, float, float]:
        """What all rows would take where the sample took `amount`: likely, at least, at most."""
        times = self.of / self.rows
        spread = _SPREAD / math.sqrt(self.calls) if self.calls and self.rows < self.of else 0.0
        return amount * times, amount * times * max(0.0, 1 - spread), amount * times * (1 + spread)

    def _amounts(self) -> dict[str, tuple[float, int, str]]:
        """Amounts by name, with the decimals and the unit to print them with."""
        found: dict[str, tuple[float, int, str]] = {"calls": (self.calls, 0, "")}
        if self.calls:
            found["tokens in"] = (self.took.tokens_in, 0, "")
            found["tokens out"] = (self.took.tokens_out, 0, "")
            if self.took.dollars is not None:
                found["dollars"] = (self.took.dollars, 4, "$")
        return found

    def lines(self) -> list[str]:
        """As text below a tree."""
        lost = f", {self.failed} rows failed" if self.failed else ""
        known = f" ({self.replayed} of them known already)" if self.replayed else ""
        lines = [
            f"sample: {self.rows:,} of {self.of:,} rows of {self.input}, {self.calls:,} calls{known}{lost}, nothing written"
        ]
        for name, (amount, decimals, unit) in self._amounts().items():
            likely, least, most = (f"{unit}{value:,.{decimals}f}" for value in self.all(amount))
            lines.append(f"  {name} for all rows ≈ {likely}" + (f" ({least} to {most})" if least != most else ""))
        lines.append("  ranges are 95 %, if the other rows are like these")
        return lines

    def as_data(self) -> dict[str, Any]:
        """As JSON has it."""
        all_rows = {
            name: dict(zip(("likely", "least", "most"), self.all(amount), strict=True))
            for name, (amount, _, _) in self._amounts().items()
        }
        return {"rows": self.rows, "of": self.of, "input": self.input, "calls": self.calls, "all": all_rows}


async def sampled(plan: LogicalPlan, inputs: Mapping[str, pa.Table], rows: int, resources: Resources) -> Sample:
    """Run the first rows with real calls, in a copy of what the plan reads. Raises PlanError where there are no rows."""
    name = plan.order.input if plan.order is not None else max(inputs, key=lambda n: inputs[n].num_rows, default="")
    if rows < 1 or not name or not inputs[name].num_rows:
        raise PlanError(
            Problem("there is nothing to sample", hint="give the plan's inputs: -i NAME=FILE, and --sample 20")
        )
    some = {n: table.slice(0, min(rows, table.num_rows)) if n == name else table for n, table in inputs.items()}
    async with resources.opened_store(plan.graph) as store:
        kept = await held(plan, store, partitions_read(plan, some))
    async with kept.copy(None) as copy:
        result = await run_plan(RunRequest(plan, some, again=True, sample=True), resources.over(copy))
    took = StepMetrics()
    for step in result.meter.steps.values():
        if step.operator:
            took.add(step)
    replayed = result.meter.replayed
    took.add(replayed)
    size = inputs[name].num_rows
    return Sample(min(rows, size), size, name, took, len(result.failed), replayed.calls_issued)
