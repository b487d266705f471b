"""Whole plans that write nodes and no edges: what is scored is the nodes, and what nobody has is
not.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.compare.comparison import Arm, Comparison, Quality, Spent, Trial, ranked
from semgraph.compare.plans import of_plans
from semgraph.compare.trial import Attempt
from semgraph.conformance.cases import Mind, Oracle
from semgraph.render.chart import measure, points
from semgraph.render.comparison import columns, plain
from semgraph.scores import Edge, ScoredGraph, ScoredNode

GRAPH = "graph: people\nkey: uuid\npartition: group_id\nnodes:\n  Person: {properties: {name: string}}\n"
PLAN = """
plan: people
graph: graph.yaml
inputs:
  people: {id: int64, name: string, group_id: string}
steps:
  kept:
    - from: people
    - sem_filter: {prompt: "Is {name} a name?"}
    - project: {uuid: "id('p', id)", name: , group_id: }
writes:
  - merge: {from: kept, node: Person}
returns: [kept]
"""
WAYS = {"one": {"kept": "per_row"}, "packed": {"kept": "packed(rows=2)"}}
NAMES = ["Ann", "Bo", "Cleo"]


def truth(*keys: Any) -> ScoredGraph:
    return ScoredGraph(tuple(ScoredNode(key) for key in keys))


async def compared(folder: Path, true: Any) -> tuple[Comparison, list[str]]:
    """Both variants say yes of everybody; the keys of the nodes that are written, by the first of
    them.
    """
    (folder / "graph.yaml").write_text(GRAPH)
    (folder / "people.yaml").write_text(PLAN)
    people = [{"id": i, "name": name, "group_id": "g"} for i, name in enumerate(NAMES)]
    mind = Mind(answer=lambda _: {"answer": "yes"})
    async with sg.Session(
        llm=Oracle(mind), store="memory", journal=False, runs="", folder=folder
    ) as session:
        run = await session.arun(folder / "people.yaml", people=people)
        keys = [row["uuid"] for row in run.tables["kept"].to_pylist()]
        given = None if true is None else true(keys)
        async with sg.Session(
            llm=Oracle(mind), store="memory", journal=False, runs="", folder=folder
        ) as fresh:
            found = await fresh.acompare(
                folder / "people.yaml", variants=WAYS, truth=given, say=None, people=people
            )
    return found, keys


async def test_a_graph_of_wrong_nodes_has_no_point_and_its_edges_no_score(tmp_path: Path) -> None:
    found, _ = await compared(
        tmp_path, lambda _: {"nodes": [{"key": "x", "name": "Nobody At All", "members": []}]}
    )
    quality = found["packed"].quality
    assert (quality.b_cubed, quality.f1, quality.pairs, quality.ended, quality.validity) == (
        0.0,
        None,
        None,
        None,
        None,
    )
    assert quality.difference is None
    assert measure(found) == "node B³"
    assert [point.y for point in points(found)] == [0.0, 0.0]
    for shown in (plain(found, 200), found._repr_html_()):
        assert "1.00" not in shown
        assert "edge" not in shown
        assert "node pairs" not in shown


async def test_a_graph_of_some_right_nodes_is_worth_as_much(tmp_path: Path) -> None:
    """Two of three are true."""
    found, _ = await compared(tmp_path, lambda keys: truth(*keys[:2]))
    assert found["one"].quality.b_cubed == pytest.approx(0.8)
    assert [column.title for column in columns(found)][-1] == "node B³"


async def test_without_a_truth_ways_agree_by_their_nodes(tmp_path: Path) -> None:
    found, _ = await compared(tmp_path, None)
    assert (found["packed"].quality.b_cubed, found["packed"].quality.f1) == (1.0, None)
    assert measure(found) == "agreement of nodes with one"
    assert [point.y for point in points(found)] == [1.0, 1.0]


def whole(graph: ScoredGraph) -> list[Attempt]:
    return [Attempt(Trial(1, Spent(1, 10), Spent()), graph)]


def shown(graphs: dict[str, ScoredGraph], true: ScoredGraph | None) -> Comparison:
    trials = {name: whole(graph) for name, graph in graphs.items()}
    quality = of_plans(trials, next(iter(trials)), true)
    arms = tuple(Arm(name, {}, (each[0].trial,), quality[name]) for name, each in trials.items())
    return Comparison("4b21", "p", "", "m", arms, next(iter(trials)), truth=true is not None)


def test_forty_nodes_do_not_agree_with_thirty_two_of_them() -> None:
    found = shown({"a": truth(*range(40)), "b": truth(*range(32))}, None)
    assert found["b"].quality == Quality(b_cubed=pytest.approx(64 / 72))
    assert {point.arm.name: round(point.y, 3) for point in points(found)} == {"a": 1.0, "b": 0.889}


def test_edges_that_should_not_be_are_worth_nothing_beside_ways_that_have_none() -> None:
    """The variant with an edge has an F1 of edges, 0; the others are judged by their nodes. What is up
    says so.
    """
    wrong = ScoredGraph(truth(1, 2).nodes, (Edge(1, 2, "knows"),))
    found = shown({"a": truth(1, 2), "b": wrong, "c": truth(1, 3)}, truth(1, 2))
    assert [(point.arm.name, point.y) for point in points(found)] == [
        ("a", 1.0),
        ("c", 0.5),
        ("b", 0.0),
    ]
    assert [arm.name for arm in ranked(found)] == ["a", "c", "b"]
    assert measure(found) == "edge F1, without edges node B³"
    assert found["b"].quality.difference is None
    found.chart()


def test_with_edges_the_axis_is_theirs() -> None:
    right = ScoredGraph(truth(1, 2).nodes, (Edge(1, 2, "knows"),))
    found = shown({"a": right, "b": truth(1, 2)}, right)
    assert measure(found) == "edge F1"
    assert [point.y for point in points(found)] == [1.0, 0.0]
    assert found["b"].quality.difference is not None


def test_ways_that_wrote_and_returned_nothing_have_no_score() -> None:
    found = shown({"a": ScoredGraph(()), "b": ScoredGraph(())}, None)
    assert found["b"].quality == Quality()
    assert points(found)[0].arm.name == "a"
    assert len(points(found)) == 1
