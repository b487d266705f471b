"""Compute equal subplans once: nodes with the same content over the same inputs become one node."""

from __future__ import annotations

from dataclasses import fields

from semgraph.expr.canonical import canonical
from semgraph.logical.node import Node, rewrite

_NO_CONTENT = {"step", "origin", "schema"}


def share_subplans(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Replace every node by the first with the same content; the step that comes first gives its
    name.
    """
    first: dict[str, Node] = {}

    def change(node: Node) -> Node:
        return first.setdefault(_content(node), node)

    return rewrite(roots, change)


def _content(node: Node) -> str:
    """All that a node is, with what rules put into it; inputs are shared already, so that each is
    known by its identity.
    """
    parts = [
        f"{f.name}={canonical(getattr(node, f.name), _identity)}"
        for f in fields(node)
        if f.name not in _NO_CONTENT
    ]
    return "\n".join([type(node).__name__, *parts])


def _identity(value: object) -> str | None:
    return f"#{id(value)}" if isinstance(value, Node) else None
