"""Names in plans: none is the engine's by chance, and those that are cannot be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import PlanError

GRAPH = Path(__file__).parents[1] / "fixtures" / "optimizer"
ASKED = {"uuid": "p1", "group_id": "g", "name": "Zoe Long", "age": 20}
POOL = [
    {"uuid": "a", "group_id": "g", "name": "Ann", "age": 40},
    {"uuid": "b", "group_id": "g", "name": "Benno", "age": 10},
]
PERSON = "{uuid: string, group_id: string, name: string, age: int64}"


async def rows(folder: Path, steps: str) -> list[dict[str, Any]]:
    """The rows of the step `found`, over people that know each other."""
    (folder / "graph.yaml").write_text(
        (GRAPH / "graph.yaml").read_text(encoding="utf-8"), encoding="utf-8"
    )
    inputs = f"inputs: {{asked: {PERSON}, pool: {PERSON}}}"
    plan = folder / "plan.yaml"
    plan.write_text(
        f"plan: plan\ngraph: graph.yaml\n{inputs}\nsteps:\n  found:\n{steps}\nreturns: [found]",
        encoding="utf-8",
    )
    async with semgraph.Session(
        llm=Oracle(Mind()), store="memory", journal=False, runs="", folder=folder
    ) as session:
        await session.arun(GRAPH / "fill.yaml")
        result = await session.arun(plan, asked=[ASKED], pool=POOL)
    found: list[dict[str, Any]] = result.tables["found"].to_pylist()
    return found


ALIASES = pytest.mark.parametrize(
    "alias", ["hit", "l", "s", "t", "w", "_t", "_r", "_w", "_i", "l0", "m0"]
)


@ALIASES
async def test_a_hit_is_called_what_the_plan_calls_it(tmp_path: Path, alias: str) -> None:
    search = f"search: {{over: pool, alias: {alias}, k: 5, methods: [{{equal: group_id}}], where: {alias}.age > 30}}"
    steps = f"    - from: asked\n    - {search}\n    - project: {{who: {alias}.name}}"
    assert await rows(tmp_path, steps) == [{"who": "Ann"}]


@ALIASES
async def test_a_variable_of_a_pattern_is_called_what_the_plan_calls_it(
    tmp_path: Path, alias: str
) -> None:
    pattern = f"pattern: '(a:Person {{uuid: uuid}})-[r:KNOWS]->({alias}:Person)', where: {alias}.age % 2 = 1"
    steps = f"    - from: asked\n    - match: {{{pattern}}}\n    - project: {{who: {alias}.name}}"
    assert await rows(tmp_path, steps) == [{"who": "Ben Ray"}]


@pytest.mark.parametrize(
    "name", ["_o", "_p", "_m", "_q", "_l", "_O", "_x0", "_x1_0", "_y0_1", "_Y12_3"]
)
async def test_a_name_of_the_engine_is_refused_where_it_is_written(
    tmp_path: Path, name: str
) -> None:
    search = f"search: {{over: pool, alias: {name}, k: 1, methods: [{{equal: group_id}}]}}"
    grouped = f"group_join: {{other: pool, alias: {name}, using: group_id, add: {{n: count(*)}}}}"
    match = f"match: {{pattern: '(a:Person {{uuid: uuid}})-[r:KNOWS]->({name}:Person)'}}"
    for step in (f"add: {{{name}: age}}", f"project: {{{name}: age}}", search, grouped, match):
        with pytest.raises(PlanError, match="the engine's own name.*[Cc]hoose another"):
            await rows(tmp_path, f"    - from: asked\n    - {step}")


def test_so_is_one_of_an_inputs_column() -> None:
    with pytest.raises(PlanError, match="the engine's own name"):
        semgraph.table([{"_p": 1}])
