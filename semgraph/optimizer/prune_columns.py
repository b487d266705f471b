"""Compute, fetch and carry only what something needs: columns of projections and aggregates, properties of hits."""

from __future__ import annotations

from semgraph.logical.node import Needs, Node, walk


def prune_columns(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Narrow every operator to what the operators above it read, as far as it can be narrowed.

    Results keep all their columns; what a sink needs is what it writes.
    """
    needs = _needs(roots)

    def narrow(old: Node) -> Node:
        needed = needs[id(old)]
        return old if needed is None else old.narrowed(needed)

    narrowed: dict[int, Node] = {}
    for node in walk(*roots):
        small = narrow(node)
        rebuilt = small.with_inputs(*(narrowed[id(child)] for child in small.inputs))
        narrowed[id(node)] = (
            node if rebuilt.fingerprint == node.fingerprint and rebuilt.schema.equals(node.schema) else rebuilt
        )
    found = tuple(narrowed[id(root)] for root in roots)
    return _same_where_equal(roots, found)


def _same_where_equal(old: tuple[Node, ...], new: tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(
        a if a.fingerprint == b.fingerprint and _properties(a) == _properties(b) else b
        for a, b in zip(old, new, strict=True)
    )


def _properties(root: Node) -> list[object]:
    return [getattr(node, "properties", None) for node in walk(root)]


def _needs(roots: tuple[Node, ...]) -> dict[int, Needs]:
    needs: dict[int, Needs] = {id(root): None for root in roots}
    for node in reversed(list(walk(*roots))):
        needed = needs.setdefault(id(node), frozenset())
        small = node if needed is None else node.narrowed(needed)
        if not node.inputs:
            continue
        first: Needs = small.read_paths
        if node.carries:
            first = (
                None if needed is None else small.read_paths | {p for p in needed if p.split(".")[0] not in small.adds}
            )
        for child, wanted in zip(node.inputs, (first, *small.other_needs(needed)), strict=True):
            before = needs.get(id(child), frozenset())
            needs[id(child)] = None if before is None or wanted is None else before | wanted
    return needs
