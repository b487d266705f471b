"""A plan that walks along trails: `-[path:TYPE*1..$depth]->`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError

GRAPH = Path(__file__).parents[1] / "fixtures" / "optimizer"
WALK = "match: {pattern: '(o {uuid: uuid})-[path:KNOWS*1..$depth]->(p:Person)'}"


async def rows(folder: Path, *steps: str, **params: Any) -> list[dict[str, Any]]:
    """The rows of the step `found`, over people that know each other."""
    (folder / "graph.yaml").write_text(
        (GRAPH / "graph.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    lines = "".join(f"    - {step}\n" for step in ("from: asked", *steps))
    plan = folder / "plan.yaml"
    head = "plan: plan\ngraph: graph.yaml\ninputs: {asked: {uuid: string, group_id: string}}\nparams: {depth: 2}\n"
    plan.write_text(f"{head}steps:\n  found:\n{lines}returns: [found]", encoding="utf-8")
    async with semgraph.Session(
        llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=folder
    ) as session:
        await session.arun(GRAPH / "fill.yaml")
        result = await session.arun(plan, params=params, asked=[{"uuid": "p1", "group_id": "g"}])
    found: list[dict[str, Any]] = result.tables["found"].to_pylist()
    return found


async def test_the_edges_of_a_trail_are_rows_of_its_list(tmp_path: Path) -> None:
    unnest = "unnest: {column: path, alias: step}"
    found = await rows(
        tmp_path,
        WALK,
        "add: {n: len(path)}",
        unnest,
        "project: {n: n, edge: step.uuid, who: p.name}",
    )
    assert found == [
        {"n": 1, "edge": "k1", "who": "Ben Ray"},
        {"n": 1, "edge": "k3", "who": "Cleo"},
        {"n": 2, "edge": "k1", "who": "Cleo"},
        {"n": 2, "edge": "k2", "who": "Cleo"},
    ]


async def test_a_parameter_is_the_length(tmp_path: Path) -> None:
    assert await rows(tmp_path, WALK, "project: {who: p.name}", depth=1) == [
        {"who": "Ben Ray"},
        {"who": "Cleo"},
    ]
    for depth in ("two", 0, 1.5):
        with pytest.raises(PlanError):
            await rows(tmp_path, WALK, depth=depth)


async def test_conditions_over_the_whole_of_a_trail(tmp_path: Path) -> None:
    walk = WALK.replace(
        "'}", "', where: \"len(path) = 2 AND path[1].label = 'KNOWS' AND p.age > 20\"}"
    )
    assert await rows(tmp_path, walk, "project: {who: p.name}") == [{"who": "Cleo"}]
    none = WALK.replace("'}", "', where: path IS NULL, how: left}")
    assert await rows(tmp_path, none, "project: {alone: path IS NULL}") == [{"alone": True}]


async def test_the_last_edge_of_a_path_comes_with_its_properties(tmp_path: Path) -> None:
    walk = "match: {pattern: '({uuid: uuid})-[path:KNOWS*0..$depth - 1]->(a:Person)-[last:KNOWS]->(b:Person)'}"
    shown = "project: {n: len(path), edge: last.uuid, of: a.name, to: b.name}"
    near = [
        {"n": 0, "edge": "k1", "of": "Ann Lee", "to": "Ben Ray"},
        {"n": 0, "edge": "k3", "of": "Ann Lee", "to": "Cleo"},
    ]
    assert await rows(tmp_path, walk, shown, depth=1) == near
    assert await rows(tmp_path, walk, shown) == [
        *near,
        {"n": 1, "edge": "k2", "of": "Ben Ray", "to": "Cleo"},
    ]
    kept = walk.replace("'}", "', where: \"a.name = 'Ben Ray' AND last.uuid <> path[1].uuid\"}")
    assert await rows(tmp_path, kept, shown) == [
        {"n": 1, "edge": "k2", "of": "Ben Ray", "to": "Cleo"}
    ]


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (
            "(o {uuid: uuid})-[path:KNOWS|Note*1..2]->(p:Person)",
            '"Note" is declared as node and used as edge',
        ),
        ("(o {uuid: uuid})-[path:KNOWZ*1..2]->(p:Person)", 'Did you mean "KNOWS"'),
        ("(o {uid: uuid})-[path:KNOWS*1..2]->(p:Person)", 'Person has no property "uid"'),
        ("(o {uuid: uuid})-[path:KNOWS*1..$dept]->(p:Person)", 'Did you mean "depth"'),
    ],
)
async def test_a_wrong_name_is_told(tmp_path: Path, pattern: str, said: str) -> None:
    with pytest.raises(PlanError, match=said.replace("(", r"\(")):
        await rows(tmp_path, f"match: {{pattern: '{pattern}'}}")
