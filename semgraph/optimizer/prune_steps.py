"""Remove operators that give just the rows of their input. (Steps that nothing reads are never
reached from a root.)
"""

from __future__ import annotations

from semgraph.logical.node import Node, rewrite
from semgraph.optimizer._patterns import PlanFacts, Roots


def prune_steps(roots: Roots, _facts: PlanFacts) -> Roots:
    """Replace identities by their input."""

    def change(node: Node) -> Node:
        return node.inputs[0] if node.is_identity and node.inputs else node

    return rewrite(roots, change)
