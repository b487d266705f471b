"""Leave out what cannot give rows: an input that is not given has none, nor has what is made of
it.
"""

from __future__ import annotations

from semgraph.logical.node import Node, rewrite
from semgraph.logical.relational import Nothing
from semgraph.optimizer._patterns import PlanFacts, Roots


def prune_empty(roots: Roots, _facts: PlanFacts) -> Roots:
    """Operators that give nothing over relations known to be empty become such a relation; others
    do without these.

    An aggregate over everything gives its row, and a left join its left rows: they stay, or become
    what is simpler.
    """

    def change(node: Node) -> Node:
        empty = [child.is_empty for child in node.inputs]
        if not any(empty):
            return node
        if node.empty_over(empty):
            return nothing(node)
        small = node.without_empty(empty)
        return (
            small
            if small.schema.equals(node.schema) and small.partitioned == node.partitioned
            else node
        )

    return rewrite(roots, change)


def nothing(node: Node) -> Nothing:
    """A relation without rows in the place of another one."""
    return Nothing(
        step=node.step,
        origin=node.origin,
        name=node.step,
        columns=node.schema,
        windowed=node.partitioned,
    )
