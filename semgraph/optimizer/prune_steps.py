"""Remove operators that return the rows of their input."""

from __future__ import annotations

from semgraph.logical.node import Node, rewrite
from semgraph.optimizer.patterns import PlanFacts, Roots


def prune_steps(roots: Roots, _facts: PlanFacts) -> Roots:
    """Replace identities by their input. (Unread steps are not reachable from a root.)

    >>> import semgraph as sg
    >>> from semgraph.optimizer.patterns import outline
    >>> same = sg.table([{"id": "a"}]).filter("TRUE").limit(1).node
    >>> outline(same), outline(*prune_steps((same,), PlanFacts()))
    ('input → filter → limit', 'input → limit')
    """

    def change(node: Node) -> Node:
        return node.inputs[0] if node.is_identity and node.inputs else node

    return rewrite(roots, change)
