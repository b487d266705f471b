"""Charts of plans: for Mermaid and for Graphviz, whose text a parser reads."""

from __future__ import annotations

import re
from pathlib import Path

import pydot
import pytest

import semgraph
from semgraph.conformance.oracle import Mind, Oracle
from semgraph.shipped import plans_folder

# pydot calls pyparsing by names that it will lose.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:pydot")
PLANS = (
    "add_episode", "add_triplet", "build_communities", "link_facts", "pagerank", "search", "store_facts",
    "memories/hipporag/read", "memories/memoryos/write", "memories/raptor/write",
)  # fmt: skip
SMALL = """
plan: small
inputs: {notes: {id: int64, text: string}, unused: {id: int64}}
optional: [unused]
steps:
  coded: [{from: notes}, {sem_map: {prompt: "Code: {text}", returns: {code: string}}}]
returns: [coded]
"""


def explained(path: Path, folder: Path, form: semgraph.session.explaining.ExplainFormat) -> str:
    oracle = Oracle(Mind())
    with semgraph.Session(
        llm=oracle, store="memory", journal=False, runs="", folder=folder
    ) as session:
        return session.explain(path, format=form)


def drawn(text: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The nodes, by id, and the edges of a Mermaid chart."""
    head, *lines = text.splitlines()
    assert head == "flowchart TD"
    ties = [match for line in lines if (match := re.match(r"  (\w+) [-=]{2}> (\w+)$", line))]
    boxes = [match for line in lines if (match := re.match(r'  (\w+)\W+"(.*)"\W+$', line))]
    assert len(ties) + len(boxes) == len(lines)
    return {box[1]: box[2] for box in boxes}, [(tie[1], tie[2]) for tie in ties]


def read(text: str) -> pydot.Dot:
    graphs = pydot.graph_from_dot_data(text)
    assert graphs is not None
    assert len(graphs) == 1
    return graphs[0]


def parsed(text: str) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The nodes, by id, and the edges of a graph of Graphviz, those of its clusters too."""
    graph = read(text)
    nodes: dict[str, str] = {}
    graphs = [graph]
    for each in graphs:
        graphs += each.get_subgraphs()
        own = [node for node in each.get_nodes() if node.get_name() != "node"]
        nodes |= {node.get_name(): str(node.get_attributes()["label"]) for node in own}
    return nodes, [(str(e.get_source()), str(e.get_destination())) for e in graph.get_edges()]


@pytest.mark.parametrize("name", PLANS)
def test_every_box_of_a_shipped_plan_is_tied_to_another(tmp_path: Path, name: str) -> None:
    path = plans_folder() / f"{name}.yaml"
    nodes, edges = drawn(explained(path, tmp_path, "mermaid"))
    ends = {end for edge in edges for end in edge}
    assert ends <= set(nodes)
    assert [nodes[key] for key in nodes if key not in ends] == []
    as_dot, dot_edges = parsed(explained(path, tmp_path, "dot"))
    assert set(as_dot) == set(nodes)
    assert sorted(dot_edges) == sorted(edges)


def test_a_chart_of_graphviz_has_inputs_that_are_read_and_implementations(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    text = explained(path, tmp_path, "dot")
    assert (
        text
        == r"""digraph "small" {
  node [fontname=sans];
  s0 [shape=parallelogram, label="notes"];
  s1 [shape=box, style="rounded,bold", label="coded\nsem_map per_row"];
  s0 -> s1;
}"""
    )
    assert parsed(text) == ({"s0": '"notes"', "s1": r'"coded\nsem_map per_row"'}, [("s0", "s1")])


def test_a_called_plan_is_a_cluster(tmp_path: Path) -> None:
    path = plans_folder() / "memories" / "mem0g" / "write.yaml"
    (cluster,) = read(explained(path, tmp_path, "dot")).get_subgraphs()
    assert cluster.get_attributes()["label"] == '"memories"'
    assert '"settled"' in {node.get_attributes().get("label") for node in cluster.get_nodes()}
