"""Compute equal subplans once."""

from __future__ import annotations

from semgraph.logical.node import Node, nodes_of
from semgraph.optimizer.patterns import PlanFacts, Roots


def share_subplans(roots: Roots, _facts: PlanFacts) -> Roots:
    """Replace all nodes with equal content and inputs by one of them.

    It is the first such node that is the last of its step, because rows are recorded under the step
    whose result they are; otherwise the first node.

    >>> import semgraph as sg
    >>> from semgraph.optimizer.patterns import outline
    >>> nice = sg.table([{"text": "x"}]).sem_filter("Is {text} nice?").node
    >>> twice = (nice, nice.with_fields(step="again"))
    >>> outline(*twice), outline(*share_subplans(twice, PlanFacts()))
    ('input → sem_filter → sem_filter', 'input → sem_filter')
    """
    nodes = nodes_of(roots)
    last = {node.step: node for node in nodes}
    first: dict[tuple[str, tuple[Node, ...]], Node] = {}
    equal: dict[Node, Node] = {}  # each node, and the first node that is equal to it
    results: dict[Node, Node] = {}  # a first node, and the equal node that is the last of its step
    for node in nodes:
        key = (node.content, tuple(equal[child] for child in node.inputs))
        equal[node] = first.setdefault(key, node)
        if last[node.step] is node:
            results.setdefault(equal[node], node)
    shared: dict[Node, Node] = {}
    for node in first.values():
        inputs = (shared[equal[child]] for child in node.inputs)
        shared[node] = results.get(node, node).with_inputs(*inputs)
    return tuple(shared[equal[root]] for root in roots)
