"""Clusters: each row with its cluster, by an exact algorithm (`forest`, `components`) or by the file
of a partitioning one.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.errors import DataError
from semgraph.expr.row_functions import frozen, ordered
from semgraph.logical.cluster import Cluster
from semgraph.relational.batch import PARTITION, conform, dense, runtime_schema, values
from semgraph.semantic.library import Algorithm, Vectors

Edge = tuple[Any, Any, Any]
_LEAST, _GREATEST = 1e-100, 1e100  # sums and products of such weights are exact enough


def clusters(
    node: Cluster, edges: pa.Table, nodes: pa.Table, algorithm: Algorithm | None
) -> pa.Table:
    """Each row of `nodes` with its cluster; groups of `by`, and partitions, never mix. Without a
    partitioning algorithm, an exact one of the engine is used. Raises DataError if the edges are no
    forest, a weight or vector is missing, or the algorithm cannot cluster these keys.
    """
    scope = _scope(node, edges, nodes)
    keys = _names(nodes, node.key)
    places = _scopes(nodes, scope)
    members = _members(node, nodes, keys, places)
    by_scope = _edges_by_scope(node, edges, scope)
    clusters_by_scope = {
        place: _EXACT[node.choice.name](node, own, by_scope.get(place, []))
        if algorithm is None
        else _partitioned(node, algorithm, own, by_scope.get(place, []))
        for place, own in members.items()
    }
    column = pa.array(
        [
            None if key is None else _value(clusters_by_scope[place][key])
            for place, key in zip(places, keys, strict=True)
        ],
        nodes.schema.field(node.key).type,
    )
    return conform(nodes.append_column(node.alias, column), runtime_schema(node))


def _names(table: pa.Table, column: str) -> list[Any]:
    """The values of a column of keys or ends of edges; all NaN are equal."""
    return list(map(ordered, values(table.column(column))))


def _value(name: Any) -> Any:
    return math.nan if name is ordered(math.nan) else name


def _members(
    node: Cluster, nodes: pa.Table, keys: Sequence[Any], places: Sequence[Hashable]
) -> dict[Hashable, dict[Any, Any]]:
    vectors = values(nodes.column(node.vector)) if node.vector else [None] * len(keys)
    members: dict[Hashable, dict[Any, Any]] = {}
    for place, key, vector in zip(places, keys, vectors, strict=True):
        if key is None:
            continue
        first = members.setdefault(place, {}).setdefault(key, vector)
        if first is not vector and frozen(first) != frozen(vector):
            what = f'rows of {key!r} have different vectors "{node.vector}"'
            by = [*node.by, node.key]
            raise DataError(what, hint=f"keep one of them in a step before: {_first_of(by)}")
    return members


def _first_of(by: Sequence[str]) -> str:
    return f"{{limit: {{n: 1, by: [{', '.join(by)}], order: ...}}}}"


def _edges_by_scope(
    node: Cluster, edges: pa.Table, scope: Sequence[str]
) -> dict[Hashable, list[Edge]]:
    """The edges of each group; edges with a NULL end are skipped."""
    by_scope: dict[Hashable, list[Edge]] = {}
    if not node.source:
        return by_scope
    weights = values(edges.column(node.weight)) if node.weight else [1.0] * edges.num_rows
    ends = (_names(edges, node.source), _names(edges, node.target))
    for place, edge in zip(_scopes(edges, scope), zip(*ends, weights, strict=True), strict=True):
        if edge[0] is not None and edge[1] is not None:
            by_scope.setdefault(place, []).append(edge)
    return by_scope


def rows_within(
    node: Cluster, edges: pa.Table, clustered: pa.Table
) -> tuple[list[int], list[list[int]]]:
    """The cluster number of each row of a result, and the source rows of each cluster: the edges
    within it; without edges, its members.
    """
    scope = _scope(node, edges, clustered)
    places = _scopes(clustered, scope)
    keys = _names(clustered, node.key)
    numbers, first = dense(list(zip(places, _names(clustered, node.alias), strict=True)))
    within: list[list[int]] = [[] for _ in first]
    if not node.source:
        for row, (key, number) in enumerate(zip(keys, numbers, strict=True)):
            if key is not None:
                within[number].append(row)
        return numbers, within
    named = zip(places, keys, numbers, strict=True)
    number_of = {(place, key): number for place, key, number in named if key is not None}
    ends = (_names(edges, name) for name in (node.source, node.target))
    for edge, (place, a, b) in enumerate(zip(_scopes(edges, scope), *ends, strict=True)):
        own = number_of.get((place, a))
        if own is not None and own == number_of.get((place, b)):
            within[own].append(edge)
    return numbers, within


def _scope(node: Cluster, edges: pa.Table, nodes: pa.Table) -> list[str]:
    """The columns that separate clusters: rows with different values never share a cluster."""
    both = PARTITION in nodes.column_names and PARTITION in edges.column_names
    return [*node.by, *([PARTITION] if both else [])]


def _scopes(table: pa.Table, names: Sequence[str]) -> list[Hashable]:
    if not names:
        return [()] * table.num_rows
    columns = (map(frozen, values(table.column(name))) for name in names)
    return list(zip(*columns, strict=True))


def _forest(node: Cluster, keys: Iterable[Any], edges: Sequence[Edge]) -> dict[Any, Any]:
    """Follow source → target to the end. A cycle ends at its smallest member."""
    target: dict[Any, Any] = {}
    for source, end, _ in edges:
        if target.setdefault(source, end) != end:
            hint = f"keep one of them in a step before: {_first_of([*node.by, node.source])}"
            raise DataError(f'cluster forest: "{source}" has two targets', hint=hint)
    roots: dict[Any, Any] = {}
    for key in keys:
        path, end = dict[Any, int](), key
        while end in target and end not in path and end not in roots:
            path[end] = len(path)
            end = target[end]
        root = min(list(path)[path[end] :]) if end in path else roots.get(end, end)
        roots |= dict.fromkeys([*path, end], root)
    return roots


def _components(_node: Cluster, keys: Iterable[Any], edges: Sequence[Edge]) -> dict[Any, Any]:
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(keys)
    graph.add_edges_from((a, b) for a, b, _ in edges if a in graph and b in graph)
    return _named(nx.connected_components(graph))


def _named(groups: Iterable[Iterable[Any]]) -> dict[Any, Any]:
    """For each member the smallest member of its group."""
    listed = [list(group) for group in groups]
    least = map(min, listed)
    return {member: name for name, group in zip(least, listed, strict=True) for member in group}


_EXACT = {"forest": _forest, "components": _components}


def _partitioned(
    node: Cluster, algorithm: Algorithm, vectors: Mapping[Any, Any], edges: Sequence[Edge]
) -> dict[Any, Any]:
    """The clusters of one group. Keys and edges are sorted, so that the order of rows is irrelevant."""
    keys = sorted(vectors)
    numbers = algorithm.labels(
        list(map(_value, keys)), _between(keys, edges, node.weight), _array(node, keys, vectors)
    )
    groups: dict[int, list[Any]] = {}
    for key, number in zip(keys, numbers, strict=True):
        groups.setdefault(number, []).append(key)
    return _named(groups.values())


def _between(
    keys: Sequence[Any], edges: Sequence[Edge], weight: str
) -> list[tuple[int, int, float]]:
    """The edges between different keys, by index, sorted, with the sums of their weights."""
    place = {key: i for i, key in enumerate(keys)}
    weights: dict[tuple[int, int], list[float]] = {}
    for source, target, own in edges:
        a, b = place.get(source), place.get(target)
        if a is not None and b is not None and a != b:
            checked = _checked(own, f'weight "{weight}" of {source!r} → {target!r}', weight)
            weights.setdefault((min(a, b), max(a, b)), []).append(checked)
    sums = ((a, b, math.fsum(each)) for (a, b), each in sorted(weights.items()))
    return [edge for edge in sums if edge[2]]


def _checked(weight: Any, what: str, name: str) -> float:
    """A weight as a double. Raises DataError if it is no usable number."""
    if weight is None or not math.isfinite(weight):
        shown = "NULL" if weight is None else weight
        hint = f"filter such edges, or write coalesce({name}, 1)"
        raise DataError(f"{what} is {shown}", hint=hint)
    if weight and not _LEAST <= abs(weight) <= _GREATEST:
        hint = f"a weight is 0, or from {_LEAST:g} to {_GREATEST:g}"
        raise DataError(f"{what} is {weight}", hint=hint)
    return float(weight)


def _array(node: Cluster, keys: Sequence[Any], vectors: Mapping[Any, Any]) -> Vectors | None:
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
    array = np.array([vectors[key] for key in keys], dtype=float)
    wrong = np.argwhere(~(np.abs(array) <= _GREATEST))  # also NaN, which stands for NULL
    if len(wrong):
        row, place = map(int, wrong[0])
        number = vectors[keys[row]][place]
        shown = "NULL" if number is None else number
        what = f'vector "{node.vector}" of {keys[row]!r} has {shown}'
        raise DataError(what, hint=f"its numbers are from -{_GREATEST:g} to {_GREATEST:g}")
    return array
