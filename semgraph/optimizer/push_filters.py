"""Push conjuncts of a filter into the store read below it, which then fetches less."""

from __future__ import annotations

from semgraph.expr.scalar import NOW, conjunction
from semgraph.logical.node import Node, rewrite, walk


def push_filters(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Move what a read below a filter takes into it; a read that others use too is left alone.

    A search takes nothing: its `where` acts before k, a filter above it after.
    """
    readers = {id(root): 1 for root in roots}
    for node in walk(*roots):
        for child in node.inputs:
            readers[id(child)] = readers.get(id(child), 0) + 1
    shared = {key for key, count in readers.items() if count > 1}

    def change(node: Node) -> Node:
        where = getattr(node, "where", None)
        if node.keyword != "filter" or where is None or id(node.inputs[0]) in shared:
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
        from dataclasses import replace

        return below if not rest else replace(node.with_inputs(below), where=conjunction(rest))  # type: ignore[call-arg]

    return rewrite(roots, change)
