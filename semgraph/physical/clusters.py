"""Clusters of rows, computed in memory, by networkx where it has the algorithm."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from semgraph.errors import DataError
from semgraph.logical.cluster import Cluster
from semgraph.relational.batch import PARTITION, conform, dense, runtime_schema, values

_ROUNDS = (
    1_000_000  # of label propagation; each move raises a bounded sum, so this is never reached
)
Edge = tuple[Any, Any, float]


def clusters(node: Cluster, edges: pa.Table, nodes: pa.Table) -> pa.Table:
    """Each row of `nodes` with its cluster; groups of `by`, and partitions, never mix."""
    scope = _scope(node, edges, nodes)
    keys = values(nodes.column(node.key))
    where = _scopes(nodes, scope)
    weights = values(edges.column(node.weight)) if node.weight else [1.0] * edges.num_rows
    pairs = zip(
        values(edges.column(node.source)), values(edges.column(node.target)), weights, strict=True
    )
    by_scope: dict[Hashable, list[Edge]] = {}
    for place, edge in zip(_scopes(edges, scope), pairs, strict=True):
        by_scope.setdefault(place, []).append(edge)
    members: dict[Hashable, list[Any]] = {}
    for place, key in zip(where, keys, strict=True):
        members.setdefault(place, []).append(key)
    clusters_by_scope = {
        place: _ALGORITHMS[node.algorithm](own, by_scope.get(place, []))
        for place, own in members.items()
    }
    column = pa.array(
        [clusters_by_scope[place].get(key, key) for place, key in zip(where, keys, strict=True)],
        nodes.schema.field(node.key).type,
    )
    return conform(nodes.append_column(node.alias, column), runtime_schema(node))


def edges_within(
    node: Cluster, edges: pa.Table, clustered: pa.Table
) -> tuple[list[int], list[list[int]]]:
    """The number of the cluster of each row, and the edges within each cluster.

    Args:
        node: The operator.
        edges: Its edges.
        clustered: Its result.
    """
    scope = _scope(node, edges, clustered)
    places = _scopes(clustered, scope)
    numbers, first = dense(list(zip(places, values(clustered.column(node.alias)), strict=True)))
    keys = zip(places, values(clustered.column(node.key)), strict=True)
    number_of = dict(zip(keys, numbers, strict=True))
    ends = (values(edges.column(name)) for name in (node.source, node.target))
    within: list[list[int]] = [[] for _ in first]
    for edge, (place, a, b) in enumerate(zip(_scopes(edges, scope), *ends, strict=True)):
        number = number_of.get((place, a))
        if number is not None and number == number_of.get((place, b)):
            within[number].append(edge)
    return numbers, within


def _scope(node: Cluster, edges: pa.Table, nodes: pa.Table) -> list[str]:
    """The columns of which rows with different values never share a cluster."""
    both = PARTITION in nodes.column_names and PARTITION in edges.column_names
    return [*node.by, *([PARTITION] if both else [])]


def _scopes(table: pa.Table, names: Sequence[str]) -> list[Hashable]:
    if not names:
        return [()] * table.num_rows
    return list(zip(*(values(table.column(name)) for name in names), strict=True))


def _forest(keys: Iterable[Any], edges: Sequence[Edge]) -> dict[Any, Any]:
    """Follow source → target to the end. A cycle ends at its smallest member."""
    target: dict[Any, Any] = {}
    for source, end, _ in edges:
        if target.setdefault(source, end) != end:
            hint = "keep one of them in a step before: {limit: {n: 1, by: source, order: ...}}"
            raise DataError(f'cluster forest: "{source}" has two targets', hint=hint)
    roots: dict[Any, Any] = {}
    for key in keys:
        path, node = [], key
        while node in target and node not in path and node not in roots:
            path.append(node)
            node = target[node]
        root = roots.get(node, node) if node not in path else min(path[path.index(node) :])
        roots |= dict.fromkeys(path, root)
    return roots


def _graph(keys: Iterable[Any], edges: Sequence[Edge]) -> Any:
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(sorted(keys))
    for source, target, weight in edges:
        if source in graph and target in graph and source != target:
            before = graph.get_edge_data(source, target, {"weight": 0.0})["weight"]
            graph.add_edge(source, target, weight=before + weight)
    return graph


def _named(groups: Iterable[Iterable[Any]]) -> dict[Any, Any]:
    return {member: min(group) for group in map(list, groups) for member in group}


def _components(keys: Iterable[Any], edges: Sequence[Edge]) -> dict[Any, Any]:
    import networkx as nx

    return _named(nx.connected_components(_graph(keys, edges)))


def _louvain(keys: Iterable[Any], edges: Sequence[Edge]) -> dict[Any, Any]:
    import networkx as nx

    return _named(nx.community.louvain_communities(_graph(keys, edges), weight="weight", seed=0))


def _label_propagation(keys: Iterable[Any], edges: Sequence[Edge]) -> dict[Any, Any]:
    """Each node takes the label of greatest summed weight, if that exceeds its own label's, or
    equals it and is larger.

    Nodes go in key order and see each change at once. A move raises (weight inside labels, sum of
    labels), so it ends; networkx's asynchronous version breaks ties at random.
    """
    graph = _graph(keys, edges)
    label = {key: i for i, key in enumerate(graph.nodes)}
    for _ in range(_ROUNDS):
        moved = False
        for key in graph.nodes:
            sums: dict[int, float] = {}
            for other, data in graph[key].items():
                sums[label[other]] = sums.get(label[other], 0.0) + data["weight"]
            if not sums:
                continue
            best = max(sums, key=lambda name: (sums[name], name))
            own = sums.get(label[key], 0.0)
            if sums[best] > own or (sums[best] == own and best > label[key]):
                label[key] = best
                moved = True
        if not moved:
            break
    groups: dict[int, list[Any]] = {}
    for key, name in label.items():
        groups.setdefault(name, []).append(key)
    return _named(groups.values())


_ALGORITHMS = {
    "forest": _forest,
    "components": _components,
    "label_propagation": _label_propagation,
    "louvain": _louvain,
}
