"""Push conjuncts of a filter into the store read below it, which then fetches less."""

from __future__ import annotations

from semgraph.logical.node import Node
from semgraph.optimizer.patterns import (
    Alone,
    PlanFacts,
    Roots,
    may_move,
    rewrite_alone,
    without_conjuncts,
)


def push_filters(roots: Roots, _facts: PlanFacts) -> Roots:
    """Move the conjuncts that a store read takes from the filter above it into the read.

    A read with other readers is unchanged. A search takes no conjuncts, because its `where` is
    applied before `k` and a filter above it after `k`. A conjunct that may fail stays above the
    filters that select its rows.

    >>> from semgraph.frontend.frame import scan
    >>> from semgraph.frontend.graph_files import graph_of
    >>> from semgraph.optimizer.patterns import outline
    >>> person = {"properties": {"name": "string"}}
    >>> graph = graph_of({"graph": "people", "nodes": {"Person": person}})
    >>> named = scan("Person", graph=graph).filter("name > 'm'").node
    >>> outline(named), outline(*push_filters((named,), PlanFacts()))
    ('scan → filter', 'scan')
    """

    def change(node: Node, alone: Alone) -> Node:
        if node.keyword != "filter" or not alone(node.inputs[0]):
            return node
        return without_conjuncts(
            node, lambda part, below: below.take_filter(part) if may_move(part, node) else None
        )

    return rewrite_alone(roots, change)
