"""Compute equal subplans once: nodes with one fingerprint become one node."""

from __future__ import annotations

from semgraph.logical.node import Node, rewrite


def share_subplans(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Replace every node by the first with the same content; the step that comes first gives its name."""
    first: dict[tuple[str, object], Node] = {}

    def change(node: Node) -> Node:
        narrowed = (getattr(node, "properties", None), getattr(node, "fields", None))
        return first.setdefault((node.fingerprint, narrowed), node)

    return rewrite(roots, change)
