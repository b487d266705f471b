"""Clusters: forests that are followed to their roots, components, label propagation that ends."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pyarrow as pa
import pytest

from semgraph.errors import DataError
from semgraph.logical.cluster import Cluster
from semgraph.physical.clusters import clusters
from semgraph.semantic.library import Library
from tests.relational.relations import relation

LIBRARY = Library()


def run(algorithm: str, keys: list[str], edges: list[tuple[str, str, float]]) -> dict[str, str]:
    nodes = relation("nodes", {"uuid": pa.string()})
    ties = relation("edges", {"a": pa.string(), "b": pa.string(), "w": pa.float64()})
    node = Cluster(
        input=ties, nodes=nodes, key="uuid", source="a", target="b", weight="w", algorithm=algorithm
    )
    table = pa.Table.from_pylist(
        [dict(zip("abw", e, strict=True)) for e in edges], schema=ties.schema
    )
    chosen = LIBRARY.algorithm(node.choice) if node.swappable else None
    found = clusters(node, table, pa.table({"uuid": keys}), chosen)
    return dict(
        zip(found.column("uuid").to_pylist(), found.column("cluster").to_pylist(), strict=True)
    )


def test_a_forest_is_followed_to_the_end_also_beyond_its_nodes() -> None:
    found = run("forest", ["a", "b", "c", "d"], [("a", "b", 1), ("b", "stored", 1), ("c", "c2", 1)])
    assert found == {"a": "stored", "b": "stored", "c": "c2", "d": "d"}


def test_a_cycle_in_a_forest_ends_at_its_smallest_member() -> None:
    assert run("forest", ["a", "b", "c"], [("c", "b", 1), ("b", "a", 1), ("a", "b", 1)]) == {
        "a": "a",
        "b": "a",
        "c": "a",
    }


def test_a_forest_refuses_two_targets() -> None:
    with pytest.raises(DataError, match="two targets"):
        run("forest", ["a"], [("a", "b", 1), ("a", "c", 1)])


def test_components_are_named_by_their_smallest_member() -> None:
    assert run("components", ["d", "b", "a", "c"], [("b", "d", 1), ("c", "a", 1)]) == {
        "d": "b",
        "b": "b",
        "a": "a",
        "c": "a",
    }


def test_label_propagation_ends_on_a_pair_joined_twice() -> None:
    assert run("label_propagation", ["a", "b"], [("a", "b", 1), ("a", "b", 1)]) == {
        "a": "a",
        "b": "a",
    }


@pytest.mark.parametrize(
    "algorithm", ["label_propagation", "louvain", "louvain(resolution=0.9)", "leiden"]
)
def test_two_dense_groups_with_one_tie_are_two_clusters(algorithm: str) -> None:
    left, right = ["a1", "a2", "a3", "a4"], ["b1", "b2", "b3", "b4"]
    dense = [(x, y, 5.0) for group in (left, right) for x in group for y in group if x < y]
    found = run(algorithm, [*left, *right], [*dense, ("a1", "b1", 1.0)])
    assert {found[x] for x in left} == {"a1"}
    assert {found[x] for x in right} == {"b1"}


@pytest.mark.parametrize("n", range(1, 7))
def test_label_propagation_ends_on_every_graph_of_up_to_six_nodes(n: int) -> None:
    keys = [f"n{i}" for i in range(n)]
    pairs = list(combinations(keys, 2))
    for chosen in range(2 ** len(pairs)):
        edges = [(a, b, 1.0) for i, (a, b) in enumerate(pairs) if chosen >> i & 1]
        named = run("label_propagation", keys, edges)
        assert set(named) == set(keys)
        assert all(named[name] == name for name in named.values()), "a cluster is named by a member"


@pytest.mark.parametrize("seed", range(20))
def test_label_propagation_ends_on_large_random_graphs(seed: int) -> None:
    random = Random(seed)
    keys = [f"n{i:04}" for i in range(400)]
    edges = [
        (*random.sample(keys, 2), float(random.choice([1, 1, 2, 5])))
        for _ in range(random.choice([200, 800, 3000]))
    ]
    named = run("label_propagation", keys, edges)
    assert set(named) == set(keys)
    assert run("label_propagation", keys[::-1], edges[::-1]) == named, (
        "in whatever order it is told"
    )
