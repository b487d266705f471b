"""Compute equal subplans once."""

from __future__ import annotations

from semgraph.logical.node import Node, rewrite
from semgraph.optimizer._patterns import PlanFacts, Roots


def share_subplans(roots: Roots, _facts: PlanFacts) -> Roots:
    """Replace every node by the first with equal content and inputs, which gives its step's name.

    >>> import semgraph as sg
    >>> from semgraph.optimizer._patterns import outline
    >>> notes = sg.table([{"text": "x"}])
    >>> nice = [notes.sem_filter("Is {text} nice?").node for _ in range(2)]
    >>> outline(*nice), outline(*share_subplans(tuple(nice), PlanFacts()))
    ('input → sem_filter → sem_filter', 'input → sem_filter')
    """
    first: dict[tuple[str, tuple[int, ...]], Node] = {}

    def change(node: Node) -> Node:
        inputs = tuple(id(child) for child in node.inputs)  # shared already
        return first.setdefault((node.content, inputs), node)

    return rewrite(roots, change)
