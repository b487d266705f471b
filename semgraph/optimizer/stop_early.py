"""Call the model for no more rows than a limit needs."""

from __future__ import annotations

from dataclasses import replace

from semgraph.logical.node import Node, Stop
from semgraph.logical.relational import Limit
from semgraph.logical.semantic import SemFilter, SemMap
from semgraph.optimizer.patterns import Alone, PlanFacts, Roots, never_fails, rewrite_alone


def stop_early(roots: Roots, _facts: PlanFacts) -> Roots:
    """Give the `n` and order of a limit to the operator below it that asks about each row
    separately.

    The limit must order by columns that exist before the model call. Operators between the two must
    return one row per row. Operators directly below that ask about each row answer only the rows
    that the upper operator needs. The order is then computed for all rows, so it must never fail.
    The limit remains, because the operator may return more rows.

    >>> import semgraph as sg
    >>> notes = sg.table([{"id": "a", "text": "x"}])
    >>> first = notes.sem_filter("Is {text} nice?").limit(3, order="id").node
    >>> stop_early((first,), PlanFacts())[0].inputs[0].stop.n
    3
    """

    def change(node: Node, alone: Alone) -> Node:
        if not isinstance(node, Limit):
            return node
        stop = Stop(node.n, node.by, node.order)
        if any(term.by.has_window or not never_fails(term.by, node.schema) for term in stop.order):
            return node
        below = _stopping(node.inputs[0], stop, node.reads, alone)
        return node if below is None else node.with_inputs(below)

    return rewrite_alone(roots, change)


def _stopping(node: Node, stop: Stop, reads: frozenset[str], alone: Alone) -> Node | None:
    if not alone(node) or not node.row_local or not reads <= node.passes:
        return None
    if isinstance(node, (SemMap, SemFilter)):
        if node.stop is not None:
            return None
        return replace(node, stop=stop, input=_pulled_by_need(node.input, reads, alone))
    if not node.relational or node.drops:
        return None
    below = _stopping(node.inputs[0], stop, reads, alone)
    return None if below is None else node.with_inputs(below, *node.inputs[1:])


def _pulled_by_need(node: Node, reads: frozenset[str], alone: Alone) -> Node:
    """The operators directly below one that stops early; they answer only the rows that it needs."""
    if (
        not isinstance(node, (SemMap, SemFilter))
        or not alone(node)
        or not node.row_local
        or not reads <= node.passes
    ):
        return node
    return replace(node, pulled=True, input=_pulled_by_need(node.input, reads, alone))
