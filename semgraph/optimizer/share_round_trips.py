"""Let searches over the same rows and label share one round trip to the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from semgraph.logical.node import Node, walk
from semgraph.logical.search import Search
from semgraph.optimizer._patterns import PlanFacts, Roots


def share_round_trips(roots: Roots, _facts: PlanFacts) -> Roots:
    """Give searches over the same rows and label a common store batch (`trip`), unless a search
    would then depend on itself: the step that it searches needs another of the batch.

    >>> import semgraph as sg
    >>> from semgraph.logical.schema import Graph
    >>> person = {"properties": {"name": "string"}, "fulltext": {"names": ["name"]}}
    >>> graph = Graph.build({"graph": "people", "nodes": {"Person": person}})
    >>> rows = sg.table([{"group_id": "g", "name": "Ann"}], graph=graph)
    >>> hits = [rows.search("Person", alias=a, k=3, by={"fulltext": "name"}).node for a in "ab"]
    >>> [node.trip for node in share_round_trips(tuple(hits), PlanFacts())]
    ['1 Person', '1 Person']
    """
    groups: dict[tuple[int, str], list[Node]] = {}
    together: dict[int, list[Node]] = {}
    for node in walk(*roots):
        if isinstance(node, Search) and node.label:
            group = groups.setdefault((id(node.input), node.label), [])
            group.append(node)
            together[id(node)] = group
            if _depends_on_itself(group, together):
                group.remove(node)
                del together[id(node)]
    several = [(label, group) for (_, label), group in groups.items() if len(group) > 1]
    trips = {
        id(search): f"{number} {label}"
        for number, (label, group) in enumerate(several, 1)
        for search in group
    }

    done: dict[int, Node] = {}
    for node in walk(*roots):
        same = node.with_inputs(*(done[id(child)] for child in node.inputs))
        trip = trips.get(id(node), "")
        done[id(node)] = (
            replace(same, trip=trip) if isinstance(same, Search) and same.trip != trip else same
        )
    return tuple(done[id(root)] for root in roots)


def _depends_on_itself(group: Sequence[Node], together: dict[int, list[Node]]) -> bool:
    """Whether what a store batch reads needs one of its own searches, or a batch that does."""
    searches = {id(search) for search in group}
    seen: set[int] = set()
    pending = [child for search in group for child in search.inputs]
    while pending:
        node = pending.pop()
        if id(node) in searches:
            return True
        if id(node) not in seen:
            seen.add(id(node))
            pending += [
                child for search in together.get(id(node), [node]) for child in search.inputs
            ]
    return False
