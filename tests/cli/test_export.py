"""`semgraph export`: a group as a file."""

from __future__ import annotations

import json

import networkx as nx

from tests.cli.conftest import Project


def test_a_group_is_written_and_counted(project: Project) -> None:
    assert project("run", "people").code == 0
    done = project("export", "demo", "-o", "demo.graphml", "--graph", "plans/graph.yaml")
    assert (done.code, done.out) == (0, "demo.graphml   6 nodes, 3 edges\n")
    read = nx.read_graphml(project.folder / "demo.graphml", force_multigraph=True)
    assert sorted(v["name"] for _, v in read.nodes(data=True) if v["label"] == "Person") == [
        "Ann", "Bob", "Cleo",
    ]  # fmt: skip
    assert {v["since"] for *_, v in read.edges(data=True)} >= {"2025-01-15T09:00:00Z"}


def test_the_format_json_tells_the_path_and_the_counts(project: Project) -> None:
    project("run", "people")
    done = project("export", "demo", "-o", "demo.parquet", "--format", "json")
    assert json.loads(done.out) == {
        "path": str(project.folder / "demo.parquet"), "nodes": 6, "edges": 3, "notes": [],
    }  # fmt: skip


def test_mistakes_are_messages_with_the_right_word(project: Project) -> None:
    missing = project("export", "demo", "-o", "demo.json")
    assert (missing.code, "there is no graph at .semgraph/graph.db" in missing.err) == (5, True)
    project("run", "people")
    group = project("export", "dmo", "-o", "demo.json")
    assert group.code == 2
    assert 'holds nothing of group "dmo". Groups: demo. Did you mean "demo"?' in group.err
    ending = project("export", "demo", "-o", "demo.gml")
    assert (ending.code, "Endings: .graphml, .json, .parquet" in ending.err) == (2, True)
