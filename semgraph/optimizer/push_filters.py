"""Push conjuncts of a filter into the store read below it, which then fetches less."""

from __future__ import annotations

from dataclasses import replace

from semgraph.expr.scalar import NOW, conjunction
from semgraph.logical.node import Node
from semgraph.optimizer.moving import Alone, rewrite_alone


def push_filters(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Move what a read below a filter takes into it; a read that others use too is left alone.

    A search takes nothing: its `where` acts before k, a filter above it after.
    """

    def change(node: Node, alone: Alone) -> Node:
        where = getattr(node, "where", None)
        if node.keyword != "filter" or where is None or not alone(node.inputs[0]):
            return node
        below, rest = node.inputs[0], []
        for part in where.conjuncts():
            taken = None if f"${NOW}" in part.sql or part.has_window else below.take_filter(part)
            if taken is None:
                rest.append(part)
            else:
                below = taken
        if below is node.inputs[0]:
            return node
        return below if not rest else replace(node.with_inputs(below), where=conjunction(rest))  # type: ignore[call-arg]

    return rewrite_alone(roots, change)
