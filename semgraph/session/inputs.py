"""The rows of a run: given ones, or the plan's example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.frontend.rows import check_rows
from semgraph.logical.plan import LogicalPlan


@dataclass(frozen=True)
class Example:
    """A plan's example: its rows by input, and the plans whose examples must have run before."""

    inputs: Mapping[str, Any]
    after: tuple[str, ...] = ()


def example_rows(plan: LogicalPlan) -> Example:
    """The plan's example. Raises PlanError if it has none."""
    example = plan.document.get("example")
    if not example:
        names = ", ".join(plan.inputs)
        raise PlanError(Problem(f"plan {plan.name} has no example: give its inputs ({names})", hint="-i NAME=FILE"))
    return Example(example.get("inputs") or {}, tuple(example.get("after") or ()))


def typed_inputs(plan: LogicalPlan, given: Mapping[str, Any], rows: int | None) -> dict[str, pa.Table]:
    """Every input as a typed table; without any, the example's. Raises PlanError or InputError."""
    for name in given:
        if name not in plan.inputs:
            there = "its inputs: " + (", ".join(plan.inputs) or "none")
            raise PlanError(
                Problem(f'plan {plan.name} has no input "{name}"', there=there, hint=did_you_mean(name, plan.inputs))
            )
    source = given or (dict(example_rows(plan).inputs) if plan.inputs else {})
    found: dict[str, pa.Table] = {}
    for name, spec in plan.inputs.items():
        order = plan.order if plan.order is not None and plan.order.input == name else None
        value = source.get(name)
        if value is None and spec.optional:
            value = []
        if value is None:
            raise PlanError(Problem(f"plan {plan.name} needs the input {name}", hint=f"-i {name}=FILE"))
        if not isinstance(value, list) or value:
            table = check_rows(spec, value, partition=order.partition if order else "", key=order.key if order else "")
        else:
            table = spec.schema.empty_table()
        found[name] = table.slice(0, rows) if rows is not None and (order or plan.order is None) else table
    return found
