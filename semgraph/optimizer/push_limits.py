"""Fetch no more hits of a search than a condition on their rank can keep."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from semgraph.expr.scalar import Scalar
from semgraph.logical.graph import Search
from semgraph.logical.node import Node
from semgraph.optimizer.moving import Alone, rewrite_alone


def push_limits(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Lower the `k` of a search below a filter such as `hit.rank < 3`; the filter stays.

    Only where fewer hits are the first of more: a search by order, or by one method that the store ranks exactly. Fused ranks
    and those of an index of vectors depend on how far it is read.
    """

    def change(node: Node, alone: Alone) -> Node:
        where = getattr(node, "where", None)
        if node.keyword != "filter" or where is None:
            return node
        below = node.inputs[0]
        if not isinstance(below, Search) or not alone(below) or not _prefix(below):
            return node
        bounds = [most for part in where.conjuncts() if (most := _most(part, below.alias)) is not None]
        k = max(1, min(bounds, default=below.k))
        return node.with_inputs(replace(below, k=k)) if k < below.k else node

    return rewrite_alone(roots, change)


def _prefix(search: Search) -> bool:
    exact = all(by.via == "equal" or (by.via == "fulltext" and by.rank == "store") for by in search.by)
    return exact and len(search.by) <= 1


def _most(part: Scalar, alias: str) -> int | None:
    """How many ranks (from 0) a conjunct lets pass, if it bounds them."""
    tree = part.ast
    if not isinstance(tree, (exp.LT, exp.LTE, exp.EQ)) or part.columns != (f"{alias}.rank",):
        return None
    bound = tree.expression
    if not isinstance(tree.this, exp.Column) or not isinstance(bound, exp.Literal) or not bound.is_int:
        return None
    return int(bound.this) + (0 if isinstance(tree, exp.LT) else 1)
