"""Let searches over the same rows and label share one round trip to the store."""

from __future__ import annotations

from collections.abc import Sequence

from semgraph.logical.node import Node, nodes_of, rebuilt
from semgraph.logical.search import Search
from semgraph.optimizer.patterns import PlanFacts, Roots


def share_round_trips(roots: Roots, _facts: PlanFacts) -> Roots:
    """Give searches over the same rows and label a common store batch (`trip`).

    A search does not join a batch if it would then depend on itself: the step that it searches
    needs another search of the batch. Loop-invariant searches and searches of each round have
    separate batches.

    >>> import semgraph as sg
    >>> from semgraph.frontend.graph_files import graph_of
    >>> person = {"properties": {"name": "string"}, "fulltext": {"names": ["name"]}}
    >>> graph = graph_of({"graph": "people", "nodes": {"Person": person}})
    >>> rows = sg.table([{"group_id": "g", "name": "Ann"}], graph=graph)
    >>> hits = [
    ...     rows.search("Person", alias=a, k=3, methods={"fulltext": "name"}).node for a in "ab"
    ... ]
    >>> [node.trip for node in share_round_trips(tuple(hits), PlanFacts())]
    ['1 Person', '1 Person']
    """
    groups: dict[tuple[Node, str, frozenset[int]], list[Node]] = {}
    together: dict[Node, list[Node]] = {}
    for node in nodes_of(roots):
        if isinstance(node, Search) and node.label:
            group = groups.setdefault((node.input, node.label, node.rounds), [])
            group.append(node)
            together[node] = group
            if _depends_on_itself(group, together):
                group.remove(node)
                del together[node]
    several = [(label, group) for (_, label, _), group in groups.items() if len(group) > 1]
    trips = {
        search: f"{number} {label}"
        for number, (label, group) in enumerate(several, 1)
        for search in group
    }

    def change(node: Node, same: Node) -> Node:
        return same.with_fields(trip=trips.get(node, "")) if isinstance(same, Search) else same

    return rebuilt(roots, change)


def _depends_on_itself(group: Sequence[Node], together: dict[Node, list[Node]]) -> bool:
    """Whether the inputs of a store batch need one of its searches, or a batch that needs one."""
    searches = set(group)
    seen: set[Node] = set()
    pending = [child for search in group for child in search.inputs]
    while pending:
        node = pending.pop()
        if node in searches:
            return True
        if node not in seen:
            seen.add(node)
            pending += [child for search in together.get(node, [node]) for child in search.inputs]
    return False
