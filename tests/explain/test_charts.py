"""Charts of plans, for Mermaid."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError
from semgraph.folders import plans_folder

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


@pytest.mark.parametrize("name", PLANS)
def test_every_box_of_a_shipped_plan_is_tied_to_another(tmp_path: Path, name: str) -> None:
    path = plans_folder() / f"{name}.yaml"
    nodes, edges = drawn(explained(path, tmp_path, "mermaid"))
    ends = {end for edge in edges for end in edge}
    assert ends <= set(nodes)
    assert [nodes[key] for key in nodes if key not in ends] == []


def test_inputs_that_are_not_read_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    assert drawn(explained(path, tmp_path, "mermaid")) == (
        {"s0": "notes", "s1": "coded"},
        [("s0", "s1")],
    )


def test_a_format_that_is_unknown_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL, encoding="utf-8")
    with pytest.raises(PlanError, match='"dot" is no format of explain. Formats: tree, .*mermaid'):
        explained(path, tmp_path, "dot")  # type: ignore[arg-type]
