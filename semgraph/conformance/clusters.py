"""The checks that every partitioning algorithm of `cluster` must pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from semgraph.conformance.suite import Broken, Outcomes, expect
from semgraph.errors import DataError, EngineError
from semgraph.logical.cluster import Cluster
from semgraph.logical.relational import Input
from semgraph.physical.clusters import clusters
from semgraph.semantic.clustering import Algorithm, Edges, Vectors

Groups = frozenset[frozenset[str]]


class TiedKeys(NamedTuple):
    """Keys, the edges between them, and their vectors."""

    keys: Sequence[str]
    edges: Sequence[tuple[int, int, float]]
    vectors: Vectors


def dense_groups(sizes: Sequence[int], seed: int = 0) -> TiedKeys:
    """Groups of keys that are tied to each other and close, with one weak tie between groups."""
    draw = np.random.default_rng(seed)
    group = [i for i, size in enumerate(sizes) for _ in range(size)]
    keys = [f"k{i:03}" for i in range(len(group))]
    edges = [
        (a, b, float(draw.integers(1, 6)))
        for a in range(len(keys))
        for b in range(a + 1, len(keys))
        if group[a] == group[b] or (group[a] + 1 == group[b] and draw.random() < 0.05)
    ]
    corners = np.eye(max(len(sizes), 2)) * 10
    near = [corners[each] + draw.normal(0, 0.1, corners.shape[1]) for each in group]
    return TiedKeys(keys, edges, np.array(near).reshape(len(keys), corners.shape[1]))


def _groups(algorithm: Algorithm, graph: TiedKeys, seed: int = 0) -> Groups:
    """The clusters of a graph. Raises Broken if they are no partition of its keys."""
    needs_vectors = "vectors" in algorithm.source.needs
    try:
        labels = algorithm.labels(
            list(graph.keys), list(graph.edges), graph.vectors if needs_vectors else None, seed
        )
    except (DataError, EngineError) as error:
        raise Broken(str(error)) from error
    by_label: dict[int, set[str]] = {}
    for key, label in zip(graph.keys, labels, strict=True):
        by_label.setdefault(label, set()).add(key)
    return frozenset(map(frozenset, by_label.values()))


def one_key(algorithm: Algorithm) -> None:
    """One key is one cluster."""
    _groups(algorithm, dense_groups([1]))


def no_edges(algorithm: Algorithm) -> None:
    """Keys without edges, and with equal vectors, are a partition."""
    _groups(algorithm, TiedKeys(["a", "b", "c"], [], np.ones((3, 2))))


def partition(algorithm: Algorithm) -> None:
    """Each key is in one cluster, in graphs of several sizes."""
    for sizes in ([2], [5, 5], [1, 1, 1], [4, 9, 2, 7], [40, 40]):
        _groups(algorithm, dense_groups(sizes))


def repeatable(algorithm: Algorithm) -> None:
    """The same keys, edges and seed have the same clusters; nothing else is drawn."""
    for seed in range(3):
        graph = dense_groups([12, 12, 12], seed)
        first = _groups(algorithm, graph, seed)
        for _ in range(3):
            expect(_groups(algorithm, graph, seed) == first, "a second call has other clusters")


def order(algorithm: Algorithm) -> None:
    """Rows and edges in another order have the same clusters."""
    graph = dense_groups([8, 8, 8])
    expected = _clustered(algorithm, graph, list(range(len(graph.keys))), graph.edges)
    for seed in range(3):
        draw = np.random.default_rng(seed)
        rows = [int(row) for row in draw.permutation(len(graph.keys))]
        turned = [(b, a, weight) for a, b, weight in graph.edges]
        edges = [turned[i] for i in draw.permutation(len(turned))]
        same = _clustered(algorithm, graph, rows, edges) == expected
        expect(same, "another order of rows has other clusters")


def _clustered(
    algorithm: Algorithm, graph: TiedKeys, rows: Sequence[int], edges: Edges
) -> dict[str, str]:
    """The cluster of each key, as the engine computes it."""
    ends = [(graph.keys[a], graph.keys[b], weight) for a, b, weight in edges]
    ties = pa.table(dict(zip(_TIES.names, zip(*ends, strict=True), strict=True)), _TIES)
    vectors = [graph.vectors[row].tolist() for row in rows]
    nodes = pa.table({"key": [graph.keys[row] for row in rows], "vector": vectors}, _NODES)
    table = clusters(_NODE, ties, nodes, algorithm)
    return {row["key"]: row["cluster"] for row in table.to_pylist()}


_END, _NUMBER = pa.string(), pa.float64()
_TIES = pa.schema({"source": _END, "target": _END}).append(pa.field("weight", _NUMBER))
_NODES = pa.schema({"key": _END}).append(pa.field("vector", pa.list_(_NUMBER)))
_NODE = Cluster(
    input=Input(name="edges", columns=_TIES),
    nodes=Input(name="nodes", columns=_NODES),
    key="key",
    source="source",
    target="target",
    weight="weight",
    vector="vector",
)


def arguments(algorithm: Algorithm) -> None:
    """The keys, edges and vectors that it is given stay as they are."""
    graph = dense_groups([6, 6])
    before = list(graph.keys), list(graph.edges), graph.vectors.copy()
    vectors = graph.vectors if "vectors" in algorithm.source.needs else None
    algorithm.labels(graph.keys, graph.edges, vectors)
    same = before[:2] == (graph.keys, graph.edges) and (before[2] == graph.vectors).all()
    expect(same, "it changed its arguments")


CLUSTER_CHECKS: dict[str, Callable[[Algorithm], None]] = {
    "one key": one_key,
    "no edges": no_edges,
    "a partition of all keys": partition,
    "the same for a seed": repeatable,
    "order of rows": order,
    "arguments": arguments,
}


def check_algorithm(algorithm: Algorithm, found: list[Outcomes]) -> None:
    """Run all checks over an algorithm, adding their outcomes to `found`."""
    for name, check in CLUSTER_CHECKS.items():
        found.append(Outcomes(name, _broken(check, algorithm)))


def _broken(check: Callable[[Algorithm], None], algorithm: Algorithm) -> str | None:
    try:
        check(algorithm)
    except (Broken, DataError, EngineError) as broken:
        return str(broken)
    return None
