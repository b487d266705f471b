"""Ask adjacent semantic filters in an order that somebody chose: the rows stay, the calls differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeGuard

from semgraph.errors import PlanError
from semgraph.logical.node import Node
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.semantic import SemFilter
from semgraph.optimizer.patterns import Alone, Roots, may_see_more, rewrite_alone


def adjacent_filters(plan: LogicalPlan) -> list[tuple[str, ...]]:
    """The steps with semantic filters that may be asked in any order, the one that is asked first
    before the others. The model has to be a function of the row.

    >>> import semgraph as sg
    >>> notes = sg.table([{"text": "x"}], name="notes")
    >>> nice = notes.sem_filter("Is {text} nice?", step="nice")
    >>> adjacent_filters(nice.sem_filter("Is {text} short?", step="short").to_plan())
    [('nice', 'short')]
    """
    chains: dict[Node, tuple[str, ...]] = {}

    def note(node: Node, alone: Alone) -> Node:
        if _is_movable(node):
            before = chains.pop(node.input, ()) if alone(node.input) else ()
            chains[node] = (*before, node.step)
        return node

    rewrite_alone(plan.roots, note)
    return [chain for chain in chains.values() if 1 < len(chain) == len({*chain})]


def ordered(plan: LogicalPlan, steps: Sequence[str]) -> LogicalPlan:
    """A plan whose adjacent filters are asked in this order; `steps` has all of each chain. Raises
    PlanError if they are not adjacent filters.
    """
    chains = adjacent_filters(plan)
    touched = [chain for chain in chains if not {*chain}.isdisjoint(steps)]
    if sorted(steps) != sorted(step for chain in touched for step in chain):
        there = "; ".join(map(", ".join, chains)) or "none"
        what = f"plan {plan.name} cannot ask in the order {', '.join(steps)}"
        hint = "name all filters of a row of them, each once"
        raise PlanError(what, there=f"its adjacent filters: {there}", hint=hint)
    return replace(plan, order=tuple(steps))


def in_order(roots: Roots, steps: Sequence[str]) -> Roots:
    """The operators with the adjacent filters of these steps in this order, first asked first."""
    place = {step: number for number, step in enumerate(steps)}

    def sink(node: SemFilter, below: Node, alone: Alone) -> Node:
        later = _is_movable(below) and place.get(below.step, -1) > place[node.step]
        if later and alone(below):
            return below.with_inputs(sink(node, below.inputs[0], alone))
        return node.with_inputs(below)

    def change(node: Node, alone: Alone) -> Node:
        if not _is_movable(node) or node.step not in place:
            return node
        return sink(node, node.input, alone)

    return rewrite_alone(roots, change) if place else roots


def _is_movable(node: Node) -> TypeGuard[SemFilter]:
    """Whether it keeps or drops each row by itself, adds no column, and can be asked about more rows."""
    return (
        isinstance(node, SemFilter)
        and node.row_local
        and not node.output_columns
        and may_see_more(node)
        and not (node.prompt.on and node.prompt.otherwise is None)
    )
