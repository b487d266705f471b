"""`graph`: a path, or a shipped graph by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

import semgraph
from semgraph.errors import PlanError
from semgraph.folders import graph_names, plans_folder
from semgraph.frontend.frame import call, scan, table
from semgraph.frontend.load import load_plan
from semgraph.frontend.plan_files import copied
from tests.frontend.conftest import Folder

PLAN = "plan: all\ngraph: {}\nsteps: {{read: [{{from: Entity}}, {{project: [name]}}]}}\nreturns: [read]\n"


def test_a_plan_names_a_shipped_graph(folder: Folder) -> None:
    plan = folder.load(PLAN.format("graph"))
    assert plan.graph == load_plan("search").graph
    assert [path.name for path in copied("plan.yaml", folder.path / "copy")] == ["plan.yaml"]


def test_a_file_beside_the_plan_is_meant_by_its_path(folder: Folder) -> None:
    with pytest.raises(PlanError, match=r'no input, step or label "Entity"|"Entity"'):
        folder.load(PLAN.format("graph.yaml"))  # that of a library
    assert (
        folder.load(PLAN.format("graph.yaml").replace("Entity", "Author")).graph.name == "library"
    )


def test_a_file_of_that_name_comes_first(folder: Folder) -> None:
    (folder.path / "graph").write_text((folder.path / "graph.yaml").read_text())
    assert folder.load(PLAN.format("graph").replace("Entity", "Author")).graph.name == "library"


@pytest.mark.parametrize("name", graph_names())
def test_each_shipped_graph_has_a_name(folder: Folder, name: str) -> None:
    del folder
    frame = table([{"id": 1}], graph=name)
    assert frame.world.graph_file == plans_folder() / f"{name}.yaml"
    assert frame.world.folder == Path()


def test_an_unknown_name_lists_the_shipped_ones(folder: Folder) -> None:
    with pytest.raises(PlanError) as caught:
        folder.load(PLAN.format("memories/mem/graph"))
    said = str(caught.value)
    assert said.startswith('plan.yaml:2:8  no graph file "memories/mem/graph". Looked for ')
    assert ", ".join(graph_names()) in said
    assert said.endswith('Did you mean "memories/mem0/graph"?')
    with pytest.raises(PlanError, match='Did you mean "graph"'):
        scan("Entity", graph="grph")


def test_a_call_takes_the_graph_of_its_plan_by_name(folder: Folder) -> None:
    queries = table([{"query": "Ann"}], name="queries")
    edges = call("search", {"queries": queries}, graph="graph")["edges"]
    assert edges.to_plan().document["graph"] == "graph"
    assert load_plan(edges.save("found.yaml")).fingerprint == edges.to_plan("found").fingerprint
    with pytest.raises(PlanError, match="two graphs"):
        call("search", {"queries": table([{"query": "Ann"}], graph="graph.yaml")}, graph="graph")


def test_a_session_reads_the_store_by_a_shipped_graph(tmp_path: Path) -> None:
    with semgraph.Session(store="memory", folder=tmp_path) as session:
        with pytest.raises(PlanError, match="no row"):
            session.graph("g", graph="graphs/mentions")
        with pytest.raises(PlanError, match='no graph file "mention"'):
            session.graph("g", graph="mention")
