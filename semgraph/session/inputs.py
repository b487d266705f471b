"""The rows of a run: given ones, or the plan's example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semgraph.errors import PlanError, Problem, did_you_mean
from semgraph.frontend.rows import check_rows
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.relational import Input


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


def refuse_taken(plan: LogicalPlan, given: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse rows that were meant for an input, and were taken for an option of the call. Raises PlanError."""
    for name, value in options.items():
        if name in plan.inputs and name not in given and value is not None and value is not False:
            line = next((node.origin for node in walk(*plan.steps.values()) if _is_input(node, name)), None)
            what = f'input "{name}": {name}= is an option of this call, so its rows were not taken'
            raise PlanError(Problem(what, position=line, hint=f'give them so: inputs={{"{name}": rows}}'))


def _is_input(node: Node, name: str) -> bool:
    return isinstance(node, Input) and node.name == name


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
        whole = rows is None or (order is None and plan.order is not None)
        found[name] = table if whole else table.slice(0, min(rows or 0, table.num_rows))
    return found
