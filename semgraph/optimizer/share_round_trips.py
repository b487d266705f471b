"""Let searches over the same rows and label share one round trip to the store."""

from __future__ import annotations

from dataclasses import replace

from semgraph.logical.graph import Search
from semgraph.logical.node import Node, walk


def share_round_trips(roots: tuple[Node, ...]) -> tuple[Node, ...]:
    """Give such searches a common `trip`."""
    groups: dict[tuple[int, str], list[int]] = {}
    for node in walk(*roots):
        if isinstance(node, Search) and node.label:
            groups.setdefault((id(node.input), node.label), []).append(id(node))
    many = [(label, members) for (_, label), members in groups.items() if len(members) > 1]
    trips = {member: f"{number} {label}" for number, (label, members) in enumerate(many, 1) for member in members}

    done: dict[int, Node] = {}
    for node in walk(*roots):
        same = node.with_inputs(*(done[id(child)] for child in node.inputs))
        trip = trips.get(id(node), "")
        done[id(node)] = replace(same, trip=trip) if isinstance(same, Search) and same.trip != trip else same
    return tuple(done[id(root)] for root in roots)
