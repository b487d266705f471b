"""Clusters of rows: `forest` and `components` here, partitioning algorithms by their files."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.errors import DataError
from semgraph.logical.cluster import Cluster
from semgraph.relational.batch import PARTITION, conform, dense, runtime_schema, values
from semgraph.relational.row_functions import frozen
from semgraph.semantic.clustering import Algorithm, Vectors

Edge = tuple[Any, Any, Any]


def clusters(
    node: Cluster, edges: pa.Table, nodes: pa.Table, algorithm: Algorithm | None
) -> pa.Table:
    """Each row of `nodes` with its cluster; groups of `by`, and partitions, never mix.

    Args:
        node: The operator.
        edges: Its edges.
        nodes: Its nodes.
        algorithm: The partitioning algorithm; None for an exact one.

    Raises:
        DataError: The edges are no forest, a weight or vector is missing, or the algorithm cannot
            cluster these keys.
    """
    scope = _scope(node, edges, nodes)
    keys = values(nodes.column(node.key))
    places = _scopes(nodes, scope)
    vectors = values(nodes.column(node.vector)) if node.vector else [None] * len(keys)
    members: dict[Hashable, dict[Any, Any]] = {}
    for place, key, vector in zip(places, keys, vectors, strict=True):
        if key is not None:
            members.setdefault(place, {}).setdefault(key, vector)
    by_scope = _edges_by_scope(node, edges, scope)
    clusters_by_scope = {
        place: _EXACT[node.algorithm](own, by_scope.get(place, []))
        if algorithm is None
        else _partitioned(node, algorithm, own, by_scope.get(place, []))
        for place, own in members.items()
    }
    column = pa.array(
        [
            None if key is None else clusters_by_scope[place].get(key, key)
            for place, key in zip(places, keys, strict=True)
        ],
        nodes.schema.field(node.key).type,
    )
    return conform(nodes.append_column(node.alias, column), runtime_schema(node))


def _edges_by_scope(
    node: Cluster, edges: pa.Table, scope: Sequence[str]
) -> dict[Hashable, list[Edge]]:
    by_scope: dict[Hashable, list[Edge]] = {}
    if not node.source:
        return by_scope
    weights = values(edges.column(node.weight)) if node.weight else [1.0] * edges.num_rows
    pairs = zip(
        values(edges.column(node.source)), values(edges.column(node.target)), weights, strict=True
    )
    for place, edge in zip(_scopes(edges, scope), pairs, strict=True):
        by_scope.setdefault(place, []).append(edge)
    return by_scope


def rows_within(
    node: Cluster, edges: pa.Table, clustered: pa.Table
) -> tuple[list[int], list[list[int]]]:
    """The number of the cluster of each row, and the rows that each cluster was made of: the edges
    within it; without edges, its members.

    Args:
        node: The operator.
        edges: Its edges.
        clustered: Its result.
    """
    scope = _scope(node, edges, clustered)
    places = _scopes(clustered, scope)
    keys = values(clustered.column(node.key))
    numbers, first = dense(list(zip(places, values(clustered.column(node.alias)), strict=True)))
    within: list[list[int]] = [[] for _ in first]
    if not node.source:
        for row, (key, number) in enumerate(zip(keys, numbers, strict=True)):
            if key is not None:
                within[number].append(row)
        return numbers, within
    named = zip(places, keys, numbers, strict=True)
    number_of = {(place, key): number for place, key, number in named if key is not None}
    ends = (values(edges.column(name)) for name in (node.source, node.target))
    for edge, (place, a, b) in enumerate(zip(_scopes(edges, scope), *ends, strict=True)):
        own = number_of.get((place, a))
        if own is not None and own == number_of.get((place, b)):
            within[own].append(edge)
    return numbers, within


def _scope(node: Cluster, edges: pa.Table, nodes: pa.Table) -> list[str]:
    """The columns of which rows with different values never share a cluster."""
    both = PARTITION in nodes.column_names and PARTITION in edges.column_names
    return [*node.by, *([PARTITION] if both else [])]


def _scopes(table: pa.Table, names: Sequence[str]) -> list[Hashable]:
    if not names:
        return [()] * table.num_rows
    columns = (map(frozen, values(table.column(name))) for name in names)
    return list(zip(*columns, strict=True))


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


def _components(keys: Iterable[Any], edges: Sequence[Edge]) -> dict[Any, Any]:
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(keys)
    graph.add_edges_from((a, b) for a, b, _ in edges if a in graph and b in graph)
    return _named(nx.connected_components(graph))


def _named(groups: Iterable[Iterable[Any]]) -> dict[Any, Any]:
    """Each member with the smallest of its group."""
    listed = [list(group) for group in groups]
    least = map(min, listed)
    return {member: name for name, group in zip(least, listed, strict=True) for member in group}


_EXACT = {"forest": _forest, "components": _components}


def _partitioned(
    node: Cluster, algorithm: Algorithm, vectors: Mapping[Any, Any], edges: Sequence[Edge]
) -> dict[Any, Any]:
    """The clusters of one group: sorted keys and edges, so that the order of rows is no part."""
    keys = sorted(vectors)
    numbers = algorithm.labels(
        keys, _between(keys, edges, node.weight), _array(node, keys, vectors)
    )
    groups: dict[int, list[Any]] = {}
    for key, number in zip(keys, numbers, strict=True):
        groups.setdefault(number, []).append(key)
    return _named(groups.values())


def _between(
    keys: Sequence[Any], edges: Sequence[Edge], weight: str
) -> list[tuple[int, int, float]]:
    """The edges between different keys by their places, sorted, the weights of a pair summed."""
    place = {key: i for i, key in enumerate(keys)}
    weights: dict[tuple[int, int], list[float]] = {}
    for source, target, own in edges:
        a, b = place.get(source), place.get(target)
        if a is None or b is None or a == b:
            continue
        if own is None or not math.isfinite(own):
            what = (
                f'weight "{weight}" of {source!r} → {target!r} is {"NULL" if own is None else own}'
            )
            raise DataError(what, hint=f"filter such edges, or write coalesce({weight}, 1)")
        weights.setdefault((min(a, b), max(a, b)), []).append(float(own))
    return [(a, b, math.fsum(each)) for (a, b), each in sorted(weights.items())]


def _array(node: Cluster, keys: Sequence[Any], vectors: Mapping[Any, Any]) -> Vectors | None:
    """The vectors of the keys, a row for each; None without a column of vectors."""
    if not node.vector:
        return None
    for key in keys:
        if vectors[key] is None:
            what = f'vector "{node.vector}" of {key!r} is NULL'
            raise DataError(what, hint=f"filter: {node.vector} IS NOT NULL")
    sizes = {len(vectors[key]): key for key in keys}
    if len(sizes) > 1:
        listed = ", ".join(f"{size} ({key!r})" for size, key in sorted(sizes.items()))
        raise DataError(f'vectors "{node.vector}" have different lengths: {listed}')
    return np.array([vectors[key] for key in keys], dtype=float)
