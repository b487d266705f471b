"""Let searches over the same rows and label share one round trip to the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from semgraph.logical.node import Node, walk
from semgraph.logical.search import Search
from semgraph.optimizer._patterns import PlanFacts, Roots


def share_round_trips(roots: Roots, _facts: PlanFacts) -> Roots:
    """Give such searches a common `trip`, unless one would then wait for itself: the step that it
    searches needs another.
    """
    groups: dict[tuple[int, str], list[Node]] = {}
    together: dict[int, list[Node]] = {}
    for node in walk(*roots):
        if isinstance(node, Search) and node.label:
            group = groups.setdefault((id(node.input), node.label), [])
            group.append(node)
            together[id(node)] = group
            if _waits_for_itself(group, together):
                group.remove(node)
                del together[id(node)]
    many = [(label, members) for (_, label), members in groups.items() if len(members) > 1]
    trips = {
        id(member): f"{number} {label}"
        for number, (label, members) in enumerate(many, 1)
        for member in members
    }

    done: dict[int, Node] = {}
    for node in walk(*roots):
        same = node.with_inputs(*(done[id(child)] for child in node.inputs))
        trip = trips.get(id(node), "")
        done[id(node)] = (
            replace(same, trip=trip) if isinstance(same, Search) and same.trip != trip else same
        )
    return tuple(done[id(root)] for root in roots)


def _waits_for_itself(group: Sequence[Node], together: dict[int, list[Node]]) -> bool:
    """Whether what a trip reads needs one of its own members, or a trip that does."""
    members = {id(member) for member in group}
    seen: set[int] = set()
    waiting = [child for member in group for child in member.inputs]
    while waiting:
        node = waiting.pop()
        if id(node) in members:
            return True
        if id(node) not in seen:
            seen.add(id(node))
            waiting += [
                child for member in together.get(id(node), [node]) for child in member.inputs
            ]
    return False
