"""Remove operators that have no rows because their inputs have none."""

from __future__ import annotations

from semgraph.logical.node import Node, nodes_of, rewrite
from semgraph.logical.relational import Empty
from semgraph.optimizer.patterns import PlanFacts, Roots


def prune_empty(roots: Roots, _facts: PlanFacts) -> Roots:
    """Replace operators without rows over empty relations by an empty relation; simplify other
    operators.

    An aggregate over everything has a row, and a left join has its left rows. They remain, or
    become simpler operators.

    >>> import semgraph as sg
    >>> notes = sg.table([{"id": "a"}])
    >>> over_empty = notes.filter("id > 'a'").node.with_inputs(Empty.like(notes.node))
    >>> prune_empty((over_empty,), PlanFacts())[0].is_empty
    True
    """

    def change(node: Node) -> Node:
        empty = [child.is_empty for child in node.inputs]
        if not any(empty):
            return node
        if node.is_empty_over(empty):
            return Empty.like(node)
        small = node.without_empty(empty)
        return (
            small if small.schema.equals(node.schema) and small.windowed == node.windowed else node
        )

    return rewrite(roots, change) if any(node.is_empty for node in nodes_of(roots)) else roots
