"""Fetch no more hits or rows than the filter or limit above can keep."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlglot import exp

from semgraph.expr.scalar import Scalar
from semgraph.logical.graph import Scan
from semgraph.logical.node import Node, walk
from semgraph.logical.relational import Filter, Limit
from semgraph.logical.search import Search
from semgraph.optimizer.patterns import Alone, PlanFacts, Roots, rewrite_alone


def push_limits(roots: Roots, _facts: PlanFacts) -> Roots:
    """Lower the `k` of a search below a filter such as `hit.rank < 3`, and limit a scan below a
    limit. Filter and limit stay.

    A search changes only if its fewer hits are the first of the original hits: by order, or by one
    method that the store ranks exactly. Fused ranks, and ranks of a vector index, depend on the
    number of hits.

    A limit without an order keeps the first rows; for a label these are the first by key. It passes
    operators that return one row per row. A read of several partitions returns more rows than the
    limit. Equal reads are unchanged, because they will be shared.

    >>> from semgraph.frontend.frame import scan
    >>> from semgraph.frontend.graph_files import graph_of
    >>> graph = graph_of({"graph": "people", "nodes": {"Person": {"properties": {}}}})
    >>> few = scan("Person", graph=graph).limit(3).node
    >>> push_limits((few,), PlanFacts())[0].inputs[0].limit
    3
    """
    scans = Counter(node.fingerprint for node in walk(*roots) if isinstance(node, Scan))

    def change(node: Node, alone: Alone) -> Node:
        if isinstance(node, Limit):
            below = (
                None
                if node.order or node.by
                else _limited(node.input, node.n, lambda n: alone(n) and scans[n.fingerprint] < 2)
            )
            return node if below is None else node.with_inputs(below)
        if not isinstance(node, Filter):
            return node
        below = node.input
        if not isinstance(below, Search) or not alone(below) or not _prefix(below):
            return node
        bounds = [
            count
            for part in node.where.conjuncts()
            if (count := _ranks_passed(part, below.alias)) is not None
        ]
        k = max(1, min(bounds, default=below.k))
        return node.with_inputs(replace(below, k=k)) if k < below.k else node

    return rewrite_alone(roots, change)


def _limited(node: Node, n: int, alone: Alone) -> Node | None:
    """`node` with a limit on the scan below it, if there is one."""
    if not alone(node):
        return None
    if isinstance(node, Scan):
        return replace(node, limit=n) if node.limit is None or n < node.limit else None
    if not node.relational or not node.row_local or node.rows != "1:1" or len(node.inputs) != 1:
        return None
    below = _limited(node.inputs[0], n, alone)
    return None if below is None else node.with_inputs(below)


def _prefix(search: Search) -> bool:
    exact = all(
        by.via == "equal" or (by.via == "fulltext" and by.rank == "store") for by in search.methods
    )
    return exact and len(search.methods) <= 1


def _ranks_passed(part: Scalar, alias: str) -> int | None:
    """The number of ranks, from 0, for which a conjunct that bounds them holds."""
    tree = part.ast
    if not isinstance(tree, (exp.LT, exp.LTE, exp.EQ)) or part.columns != (f"{alias}.rank",):
        return None
    bound = tree.expression
    if (
        not isinstance(tree.this, exp.Column)
        or not isinstance(bound, exp.Literal)
        or not bound.is_int
    ):
        return None
    return int(bound.this) + (0 if isinstance(tree, exp.LT) else 1)
