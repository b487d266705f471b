"""Compute, fetch and carry only what something needs: columns of projections and aggregates,
properties of hits.
"""

from __future__ import annotations

from semgraph.logical.node import Needs, Node, walk


def prune_columns(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Narrow every operator to what the operators above it read, as far as it can be narrowed.

    Results keep all their columns; what a sink needs is what it writes.
    """
    needs = _needs(roots)
    done: dict[int, Node] = {}
    for node in walk(*roots):
        needed = needs[id(node)]
        small = node if needed is None else _narrowed(node, needed)
        done[id(node)] = small.with_inputs(*(done[id(child)] for child in small.inputs))
    return tuple(done[id(root)] for root in roots)


def _narrowed(node: Node, needed: frozenset[str]) -> Node:
    """The narrowed operator, or the very same where there is nothing to narrow."""
    small = node.narrowed(needed)
    return (
        node
        if small.schema.equals(node.schema) and small.fingerprint == node.fingerprint
        else small
    )


def _needs(roots: tuple[Node, ...]) -> dict[int, Needs]:
    needs: dict[int, Needs] = {id(root): None for root in roots}
    for node in reversed(list(walk(*roots))):
        needed = needs.setdefault(id(node), frozenset())
        small = node if needed is None else node.narrowed(needed)
        if not node.inputs:
            continue
        for child, wanted in zip(
            node.inputs, (small.first_needs(needed), *small.other_needs(needed)), strict=True
        ):
            before = needs.get(id(child), frozenset())
            needs[id(child)] = None if before is None or wanted is None else before | wanted
    return needs
