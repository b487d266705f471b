"""Conditions of a match over what an earlier match found: a struct of the row is no variable of the
pattern.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle

GRAPH = Path(__file__).parents[1] / "fixtures" / "optimizer"
PLAN = """
plan: plan
graph: graph.yaml
inputs: {asked: {uuid: string, group_id: string}}
steps:
  found:
    - from: asked
    - match: {pattern: "(o:Person {uuid: uuid})"}
    - match: {pattern: "(a:Person {uuid: uuid})-[:KNOWS]->(p:Person)"}
    - filter: FILTER
    - project: {who: p.name}
returns: [found]
"""


@pytest.mark.parametrize(
    "condition",
    [
        "o.name < p.name AND p.name <> 'Cleo'",
        "p.name <> 'Cleo'",
        "o.uuid <> p.uuid AND p.name = 'Ben Ray'",
    ],
)
async def test_a_field_of_an_earlier_match_is_compared_with_one_of_this(
    tmp_path: Path, condition: str
) -> None:
    (tmp_path / "graph.yaml").write_text(
        (GRAPH / "graph.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    (tmp_path / "plan.yaml").write_text(PLAN.replace("FILTER", condition), encoding="utf-8")
    async with semgraph.Session(
        llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=tmp_path
    ) as session:
        await session.arun(GRAPH / "fill.yaml")
        result = await session.arun(tmp_path / "plan.yaml", asked=[{"uuid": "p1", "group_id": "g"}])
    assert result.tables["found"].to_pylist() == [{"who": "Ben Ray"}]
