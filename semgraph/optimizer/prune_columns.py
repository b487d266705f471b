"""Compute, fetch and carry only the columns that are needed."""

from __future__ import annotations

from semgraph.logical.node import Needs, Node, nodes_of, rebuilt
from semgraph.optimizer.patterns import PlanFacts, Roots


def prune_columns(roots: Roots, _facts: PlanFacts) -> Roots:
    """Narrow every operator to the columns that the operators above it read, as far as possible.

    Results keep all their columns; a sink needs the columns that it writes.

    >>> import semgraph as sg
    >>> wide = sg.table([{"id": "a"}]).add({"n": "length(id)", "m": "upper(id)"}).project(["n"])
    >>> [node] = prune_columns((wide.node,), PlanFacts())
    >>> node.inputs[0].schema.names
    ['id', 'n']
    """
    narrowed = _narrow_all(roots)
    return rebuilt(roots, lambda node, same: narrowed[node].with_inputs(*same.inputs))


def _narrowed(node: Node, needed: frozenset[str]) -> Node:
    """The narrowed operator, or the same object if it cannot be narrowed."""
    small = node.narrowed(needed)
    unchanged = small is node or (
        small.fingerprint == node.fingerprint and small.schema.equals(node.schema)
    )
    return node if unchanged else small


def _narrow_all(roots: Roots) -> dict[Node, Node]:
    """Every operator, narrowed to the columns that the narrowed operators above it read."""
    needs: dict[Node, Needs] = dict.fromkeys(roots)
    narrowed: dict[Node, Node] = {}
    for node in reversed(nodes_of(roots)):
        needed = needs.setdefault(node, frozenset())
        small = node if needed is None else _narrowed(node, needed)
        narrowed[node] = small
        if not node.inputs:
            continue
        for child, wanted in zip(
            node.inputs, (small.first_needs(needed), *small.other_needs(needed)), strict=True
        ):
            before = needs.get(child, frozenset())
            needs[child] = None if before is None or wanted is None else before | wanted
    return narrowed
