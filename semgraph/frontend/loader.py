"""A plan file to a checked plan: everything that is wrong with it is told at once, in the order of the file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from semgraph.errors import PlanError, Problem
from semgraph.frontend.body import read_allow, read_body, read_example
from semgraph.frontend.calls import call_plan
from semgraph.frontend.document import Document
from semgraph.frontend.head import own_inputs, read_head
from semgraph.frontend.reading import Loading, Reading
from semgraph.frontend.warnings import warnings
from semgraph.logical.owners import mixed_prompts
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.schema import Graph


def load_document(
    document: Document,
    path: Path,
    *,
    params: Mapping[str, Any] | None = None,
    preset: str | None = None,
    use: Mapping[str, Any] | None = None,
    folders: tuple[Path, ...] = (),
    graphs: Mapping[Path, Graph] | None = None,
    confined: bool = True,
) -> LogicalPlan:
    """A checked plan from plain data with positions.

    Args:
        document: The plan.
        path: Where it stands, or would stand: its graph file, prompts and called plans are looked for beside it.
        params: Values of parameters, in place of the plan's.
        preset: One of the plan's presets.
        use: Choices for steps, in place of the plan's.
        folders: Where called plans are looked for after the plan's own folder.
        graphs: Graphs that are known already, by the path of their file.
        confined: Whether the files that the plan names must be in its folder, or shipped.

    Raises:
        PlanError: With everything that is wrong.
    """
    loading = Loading(call_plan, folders, open=(path,), graphs=dict(graphs or {}))
    reading = Reading(loading, document, path.parent, confined=confined)
    if not isinstance(document.data, Mapping):
        what = "a plan is a mapping with plan, inputs, steps and so on"
        raise PlanError(Problem(what, position=document.position(), hint="start with plan: NAME"))
    read_head(reading, preset, params or {}, use or {})
    try:
        read_body(reading, own_inputs(reading))
    except RecursionError:
        hint = "write each step after those that it reads, and nested ones as steps of their own"
        what = "its steps read each other through too many others"
        raise PlanError(Problem(what, position=document.position("steps", key=True), hint=hint)) from None
    reading.attempt(partial(read_allow, reading))
    reading.attempt(partial(read_example, reading))
    if loading.problems:
        raise PlanError(*sorted(loading.problems, key=partial(_place, document.file)))
    plan = LogicalPlan(
        name=reading.data["plan"],
        graph=reading.graph,
        inputs=reading.inputs,
        steps=reading.all_steps(),
        writes=tuple(reading.writes),
        schema=reading.schema,
        returns=reading.returns,
        order=reading.order,
        params=dict(reading.params),
        use=reading.choices,
        allow=tuple(reading.data.get("allow") or ()),
        doc=reading.data.get("doc") or "",
        document=document.data,
        file=document.file,
        warnings=warnings(reading),
    )
    _refuse_mixed_prompts(plan)
    return plan


def _refuse_mixed_prompts(plan: LogicalPlan) -> None:
    """Refuse a plan that may show rows of two partitions in one prompt. Raises PlanError."""
    partitions = frozenset({plan.graph.partition, *([plan.order.partition] if plan.order else [])})
    roots = (*plan.roots, *plan.steps.values())
    if problems := list(mixed_prompts(roots, partitions, windows=plan.order is not None)):
        raise PlanError(*problems)


def _place(first: str, problem: Problem) -> tuple[bool, str, int, int]:
    """Problems of the plan's own file first, each file's in its order."""
    where = problem.position
    return (False, "", 0, 0) if where is None else (where.file != first, where.file, where.line, where.column)
