"""Compute equal subplans once."""

from __future__ import annotations

from semgraph.logical.node import Node, rewrite
from semgraph.optimizer._patterns import PlanFacts, Roots


def share_subplans(roots: Roots, _facts: PlanFacts) -> Roots:
    """Replace every node by the first with equal content and inputs, which keeps its step name.

    >>> import semgraph as sg
    >>> from semgraph.optimizer._patterns import outline
    >>> nice = sg.table([{"text": "x"}]).sem_filter("Is {text} nice?").node
    >>> twice = (nice, nice.with_fields(step="again"))
    >>> outline(*twice), outline(*share_subplans(twice, PlanFacts()))
    ('input → sem_filter → sem_filter', 'input → sem_filter')
    """
    first: dict[tuple[str, tuple[Node, ...]], Node] = {}

    def change(node: Node) -> Node:
        return first.setdefault((node.content, node.inputs), node)  # inputs are shared already

    return rewrite(roots, change)
