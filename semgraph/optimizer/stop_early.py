"""Ask no further than a limit needs: rows are asked about in the limit's order, until it has what
it keeps.
"""

from __future__ import annotations

from dataclasses import replace

from semgraph.expr.properties import never_fails
from semgraph.logical.node import Node
from semgraph.logical.relational import Limit
from semgraph.logical.semantic import SemFilter, SemMap
from semgraph.logical.typecheck import Stop
from semgraph.optimizer._patterns import Alone, PlanFacts, Roots, rewrite_alone


def stop_early(roots: Roots, _facts: PlanFacts) -> Roots:
    """Tell an operator that asks about each row by itself when a limit above it has enough.

    The limit must choose by columns that were there before the model was asked; between the two
    there may be operators that give a row for a row. Right below such an operator others that ask
    about each row are asked by it, for as many rows as it needs. The limit's order is computed of
    all rows then, so it must not be able to fail on one that the model would have dropped. The
    limit stays: the operator may give some rows more.
    """

    def change(node: Node, alone: Alone) -> Node:
        if not isinstance(node, Limit):
            return node
        stop = Stop(node.n, node.per, node.order)
        if any(term.by.has_window or not never_fails(term.by, node.schema) for term in stop.order):
            return node
        below = _told(node.inputs[0], stop, node.reads, alone)
        return node if below is None else node.with_inputs(below)

    return rewrite_alone(roots, change)


def _told(node: Node, stop: Stop, reads: frozenset[str], alone: Alone) -> Node | None:
    if not alone(node) or not node.row_local or not reads <= node.passes:
        return None
    if isinstance(node, (SemMap, SemFilter)):
        return (
            None
            if node.stop is not None
            else replace(node, stop=stop, input=_fed(node.input, reads, alone))
        )
    if not node.relational or node.drops:
        return None
    below = _told(node.inputs[0], stop, reads, alone)
    return None if below is None else node.with_inputs(below, *node.inputs[1:])


def _fed(node: Node, reads: frozenset[str], alone: Alone) -> Node:
    """What an operator that stops early stands on at once: rows of it, too, are asked about as they
    are needed.
    """
    if (
        not isinstance(node, (SemMap, SemFilter))
        or not alone(node)
        or not node.row_local
        or not reads <= node.passes
    ):
        return node
    return replace(node, fed=True, input=_fed(node.input, reads, alone))
