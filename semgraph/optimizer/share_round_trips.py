"""Let searches over the same rows and label share one round trip to the store."""

from __future__ import annotations

from dataclasses import replace

from semgraph.logical.graph import Search
from semgraph.logical.node import Node, rewrite, walk


def share_round_trips(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Give such searches a common `trip`."""
    groups: dict[tuple[int, str], list[int]] = {}
    for node in walk(*roots):
        if isinstance(node, Search) and node.label:
            groups.setdefault((id(node.input), node.label), []).append(id(node))
    many = {key: group for key, group in groups.items() if len(group) > 1}
    members = {number for group in many.values() for number in group}

    names: dict[int, str] = {}
    for node in walk(*roots):
        if id(node) in members and isinstance(node, Search):
            names[id(node)] = f"{node.input.fingerprint[:12]} {node.label}"
    if all(getattr(node, "trip", "") for node in walk(*roots) if id(node) in members):
        return roots
    wanted = {node.fingerprint: names[id(node)] for node in walk(*roots) if id(node) in names}

    def change(node: Node) -> Node:
        trip = wanted.get(node.fingerprint)
        return replace(node, trip=trip) if isinstance(node, Search) and trip and not node.trip else node

    return rewrite(roots, change)
