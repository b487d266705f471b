"""Compute equal subplans once: nodes with the same content over the same inputs become one node."""

from __future__ import annotations

from semgraph.logical.node import Node, rewrite
from semgraph.optimizer._patterns import PlanFacts, Roots


def share_subplans(roots: Roots, _facts: PlanFacts) -> Roots:
    """Replace every node by the first with the same content; the step that comes first gives its
    name.
    """
    first: dict[tuple[str, tuple[int, ...]], Node] = {}

    def change(node: Node) -> Node:
        inputs = tuple(id(child) for child in node.inputs)  # shared already
        return first.setdefault((node.content, inputs), node)

    return rewrite(roots, change)
