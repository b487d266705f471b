"""Push conjuncts of a filter into the store read below it, which then fetches less."""

from __future__ import annotations

from semgraph.logical.node import Node
from semgraph.optimizer._patterns import (
    Alone,
    PlanFacts,
    Roots,
    may_move,
    rewrite_alone,
    without_conjuncts,
)


def push_filters(roots: Roots, _facts: PlanFacts) -> Roots:
    """Move what a read below a filter takes into it; a read that others use too is left alone.

    A search takes nothing: its `where` acts before k, a filter above it after. What may fail stays
        where the filters before
    it screen its rows.
    """

    def change(node: Node, alone: Alone) -> Node:
        if node.keyword != "filter" or not alone(node.inputs[0]):
            return node
        return without_conjuncts(
            node, lambda part, below: below.take_filter(part) if may_move(part, node) else None
        )

    return rewrite_alone(roots, change)
