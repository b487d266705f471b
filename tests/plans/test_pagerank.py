"""The plan `pagerank` against networkx, on random graphs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import networkx as nx
import pytest

import semgraph
from semgraph.frontend.load import load_plan

Rows = list[dict[str, Any]]


@pytest.fixture
def session() -> Iterator[semgraph.Session]:
    with semgraph.Session(store="memory", journal=False, runs="") as opened:
        yield opened


def drawn(seed: int) -> tuple[Rows, Rows]:
    """Seeds and edges of a random graph, with nodes without a way out, loops and equal edges."""
    rng = random.Random(seed)
    nodes = [f"n{i}" for i in range(rng.randint(2, 12))]
    ending = set(rng.sample(nodes, rng.randint(0, len(nodes) // 2)))
    ways = [node for node in nodes if node not in ending]
    edges = [
        {"source": rng.choice(ways), "target": rng.choice(nodes), "weight": rng.choice([None, 0.5, 3.0])}
        for _ in range(rng.randint(1, 30))
    ]  # fmt: skip
    seeds = [
        {"q": q, "node": node, "weight": rng.choice([None, 2.0])}
        for q in ("one", "two")
        for node in rng.sample(nodes, rng.randint(1, 2))
    ]
    return seeds, edges


def expected(seeds: Rows, edges: Rows, q: str, damping: float) -> dict[str, float]:
    graph = nx.DiGraph()
    for edge in edges:
        weight = graph.get_edge_data(edge["source"], edge["target"], {"weight": 0.0})["weight"]
        graph.add_edge(edge["source"], edge["target"], weight=weight + (edge["weight"] or 1.0))
    own = {row["node"]: row["weight"] or 1.0 for row in seeds if row["q"] == q}
    graph.add_nodes_from(own)
    scores = nx.pagerank(
        graph, alpha=damping, personalization=own, dangling=own, tol=1e-12, max_iter=10_000
    )
    return {node: score for node, score in scores.items() if score > 1e-9}


@pytest.mark.parametrize("seed", range(12))
def test_scores_are_those_of_networkx(session: semgraph.Session, seed: int) -> None:
    seeds, edges = drawn(seed)
    params = {"damping": 0.7, "tolerance": 1e-10, "rounds": 500}
    result = session.run("pagerank", params=params, seeds=seeds, edges=edges)
    rows = result.tables["ranked"].to_pylist()
    for q in ("one", "two"):
        found = {row["node"]: row["score"] for row in rows if row["q"] == q and row["score"] > 1e-9}
        assert found == pytest.approx(expected(seeds, edges, q, 0.7), abs=1e-8)
        assert sum(found.values()) == pytest.approx(1.0)
    assert result.notes == ()


def test_graphs_of_two_corpora_are_apart_and_a_limit_keeps_the_best(
    session: semgraph.Session,
) -> None:
    seeds, edges = drawn(3)
    alone = session.run("pagerank", params={"limit": 2}, seeds=seeds, edges=edges)
    rows = [
        session.run(
            "pagerank",
            params={"limit": 2},
            seeds=[{**row, "corpus": name} for name in "ab" for row in seeds],
            edges=[{**row, "corpus": name} for name in "ab" for row in edges],
        )
        .tables["ranked"]
        .to_pylist()
    ][0]
    first = alone.tables["ranked"].to_pylist()
    assert rows == [{**row, "corpus": name} for name in "ab" for row in first]
    assert {row["rank"] for row in first} <= {1, 2}


def test_a_question_that_does_not_converge_is_noted(session: semgraph.Session) -> None:
    result = session.run("pagerank", params={"rounds": 1})
    assert result.notes == ("step ranked: the loop had not ended after 1 round",)


def test_the_plan_asks_no_model() -> None:
    assert not any(node.calls_model for node in load_plan("pagerank").steps.values())
