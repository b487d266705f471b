"""Clusters: forests that are followed to their roots, components, label propagation that ends; what
holds of all algorithms on random graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from random import Random

import networkx as nx
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from semgraph.errors import DataError
from semgraph.logical.cluster import Cluster
from semgraph.physical.clusters import _EXACT as EXACT_FUNCTIONS
from semgraph.physical.clusters import clusters
from semgraph.semantic.library import Library
from tests.relational.relations import relation

LIBRARY = Library()
Tie = tuple[str | None, str | None, float]


def run(algorithm: str, keys: Sequence[str | None], edges: Sequence[Tie]) -> dict[str, str]:
    nodes = relation("nodes", {"uuid": pa.string()})
    ties = relation("edges", {"a": pa.string(), "b": pa.string(), "w": pa.float64()})
    node = Cluster(
        input=ties, nodes=nodes, key="uuid", source="a", target="b", weight="w", algorithm=algorithm
    )
    table = pa.Table.from_pylist(
        [dict(zip("abw", e, strict=True)) for e in edges], schema=ties.schema
    )
    chosen = LIBRARY.algorithm(node.choice) if node.swappable else None
    found = clusters(node, table, pa.table({"uuid": pa.array(keys, pa.string())}), chosen)
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


@pytest.mark.parametrize("n", [*range(1, 6), pytest.param(6, marks=pytest.mark.nightly)])
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


NAMES = st.sampled_from("abcdefgh")
ENDS = st.none() | st.sampled_from("abcdefghxyz")  # x, y and z are no nodes
KEYS = st.lists(st.none() | NAMES, max_size=12)  # nodes that occur twice, and a key that is NULL
WEIGHTS = st.sampled_from([0.0, 0.1, 0.2, 0.3, 1.0, 7.0])
TIES = st.lists(st.tuples(ENDS, ENDS, WEIGHTS), max_size=16)  # self loops and parallel edges
TARGETS = st.dictionaries(st.sampled_from("abcdefghxyz"), ENDS, max_size=11)
PARTITIONS = ["label_propagation", "louvain", "louvain(resolution=2.0)", "leiden"]


@given(KEYS, TIES)
def test_components_are_those_of_networkx(keys: list[str | None], ties: list[Tie]) -> None:
    graph = nx.Graph()
    graph.add_nodes_from(key for key in keys if key is not None)
    graph.add_edges_from((a, b) for a, b, _ in ties if a in graph and b in graph)
    expected = {key: min(group) for group in nx.connected_components(graph) for key in group}
    assert run("components", keys, ties) == expected | {key: None for key in keys if key is None}


@given(KEYS, TARGETS)
def test_a_forest_ends_where_networkx_ends(
    keys: list[str | None], targets: dict[str, str | None]
) -> None:
    graph = nx.DiGraph((a, b) for a, b in targets.items() if b is not None)
    graph.add_nodes_from(key for key in keys if key is not None)
    expected: dict[str | None, str | None] = {}
    for key in keys:
        if key is None:
            expected[key] = None
            continue
        reached = graph.subgraph(nx.descendants(graph, key) | {key})
        (end,) = nx.attracting_components(reached)  # the last node, or the last cycle
        expected[key] = min(end)
    assert run("forest", keys, [(a, b, 1.0) for a, b in targets.items()]) == expected


@pytest.mark.parametrize("algorithm", ["components", *PARTITIONS])
@given(KEYS, TIES, st.randoms(use_true_random=False))
def test_the_order_of_rows_has_no_effect(
    algorithm: str, keys: list[str | None], ties: list[Tie], random: Random
) -> None:
    turned = [(b, a, weight) for a, b, weight in ties]
    once = run(algorithm, keys, ties)
    assert run(algorithm, random.sample(keys, len(keys)), random.sample(turned, len(ties))) == once


@pytest.mark.parametrize("algorithm", PARTITIONS)
@given(KEYS, TIES)
def test_a_cluster_is_connected_or_not_tied_at_all_and_named_by_its_smallest_member(
    algorithm: str, keys: list[str | None], ties: list[Tie]
) -> None:
    named = run(algorithm, keys, ties)
    weighty = [(a, b, w) for a, b, w in ties if w]
    parts = run("components", keys, weighty)
    for key, name in named.items():
        assert (name is None) == (key is None)
        assert key is None or parts[key] == parts[name], "a weight of 0 ties nothing"
        assert key is None or (named[name] == name and name <= key)


def test_a_long_chain_is_followed_in_linear_time() -> None:
    comparisons = 0

    class Key(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            nonlocal comparisons
            comparisons += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    n = 2_000
    keys = [Key(f"{i:05}") for i in range(n)]
    edges = list(zip(keys, keys[1:], [1.0] * n, strict=False))
    node = Cluster(
        input=relation("edges", {"a": pa.string(), "b": pa.string()}),
        nodes=relation("nodes", {"uuid": pa.string()}),
        key="uuid",
        source="a",
        target="b",
        algorithm="forest",
    )
    assert set(EXACT_FUNCTIONS["forest"](node, keys, edges).values()) == {keys[-1]}
    assert comparisons < 20 * n
