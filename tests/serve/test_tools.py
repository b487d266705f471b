"""Plans as tools: names, schemas, and what a call gives a run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from semgraph.errors import InputError, PlanError
from semgraph.frontend.plan_files import plan_file
from semgraph.llm.settings import Settings
from semgraph.llm.stack import Budget
from semgraph.serve.tools import PlanTool, edge_lines, result_schema, tools_of
from semgraph.session import Session


def tool(name: str, group: str | None = None) -> PlanTool:
    return PlanTool(plan_file(name), group)


def parameters(name: str) -> dict[str, Any]:
    schemas: dict[str, Any] = tool(name).arguments["properties"]["params"]["properties"]
    return schemas


@pytest.fixture(scope="module")
def every() -> list[PlanTool]:
    """Every shipped plan that is no part of another."""
    return tools_of(["all"], Settings.load({}))


def test_all_plans_but_parts_are_tools_with_names_that_agents_take(every: list[PlanTool]) -> None:
    names = [each.name for each in every]
    assert {"add_episode", "search", "memories_mem0_write", "memories_mem0_read"} <= set(names)
    assert not {"read_separate", "memories_answer"} & set(names)
    assert len(set(names)) == len(names) > 35
    assert [name for name in names if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name)] == []
    assert [each.name for each in every if len(each.description) < 20] == []


def test_every_schema_is_one_and_takes_the_plan_s_example(every: list[PlanTool]) -> None:
    examples = 0
    for each in every:
        for schema in (each.arguments, result_schema(each.plan)):
            jsonschema.Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
        example = (each.plan.document.get("example") or {}).get("inputs")
        if example:
            examples += 1
            jsonschema.validate(json.loads(json.dumps(example, default=str)), each.arguments)
    assert examples > 30


def test_every_preset_and_every_value_of_one_fits_the_schema(every: list[PlanTool]) -> None:
    checked = 0
    for each in every:
        presets = each.plan.document.get("presets") or {}
        assert each.arguments["properties"].get("preset", {"enum": []})["enum"] == list(presets)
        for body in presets.values():
            for name, value in (body.get("params") or {}).items():
                checked += 1
                jsonschema.validate(
                    value, each.arguments["properties"]["params"]["properties"][name]
                )
    assert checked > 20


def test_parameters_have_defaults_kinds_and_the_comments_of_the_plan() -> None:
    assert parameters("search")["limit"] == {
        "type": ["number", "null"],
        "default": 10,
        "description": "results of each kind for each query",
    }
    assert parameters("get_nodes")["kind"]["enum"] == ["Entity", "Episodic", "Community", "Saga"]
    assert parameters("add_episode")["window"]["anyOf"][1] == {"enum": ["ready", "all"]}
    assert parameters("add_episode")["same_source"]["type"] == ["boolean", "null"]


def test_inputs_have_types_at_every_depth() -> None:
    rows = tool("add_episode").arguments["properties"]
    columns = rows["episodes"]["items"]["properties"]
    assert columns["previous"]["type"] == ["array", "null"]
    assert columns["previous"]["items"] == {"type": "string"}
    assert columns["valid_at"]["format"] == "date-time"
    assert rows["entity_types"]["items"]["required"] == ["name", "description"]
    assert rows["entity_types"]["items"]["properties"]["fields"] == {}
    assert tool("add_episode").arguments["required"] == ["episodes"]
    groups = tool("build_communities").arguments["properties"]["groups"]
    assert groups["anyOf"][1] == {"const": "all"}


def test_the_schema_shows_a_row_of_the_plan_s_example_without_its_group() -> None:
    (shown,) = tool("add_episode", "g").arguments["examples"]
    assert list(shown) == ["episodes"]
    assert list(shown["episodes"][0]) == ["valid_at", "content"]
    for each in ("search", "retrieve_episodes", "get_nodes"):
        for example in tool(each).arguments.get("examples", ()):
            jsonschema.validate(example, tool(each).arguments)


def test_an_input_that_is_left_out_has_no_rows_and_never_those_of_the_example() -> None:
    assert tool("build_communities").call({}).inputs == {"groups": "all"}
    given = tool("add_episode").call({"episodes": []}).inputs
    assert given == {"episodes": [], "entity_types": [], "edge_types": [], "signatures": []}
    with pytest.raises(InputError, match="clear_data needs the argument groups"):
        tool("clear_data").call({})


async def test_no_rows_are_no_example() -> None:
    async with Session(llm="recorded", store="memory", runs="") as session:
        call = tool("add_episode").call({"episodes": []})
        result = await session.arun(tool("add_episode").file.path, inputs=call.inputs)
    assert (result.members, dict(result.written)) == (0, {})


def test_with_a_group_no_schema_of_a_default_tool_names_one_and_all_rows_have_it() -> None:
    added = tool("add_episode", "g").call({"episodes": [{"content": "Hi."}]})
    assert added.inputs["episodes"] == [{"content": "Hi.", "group_id": "g"}]
    assert tool("search", "g").call({"queries": [{"query": "q"}]}).inputs["queries"] == [
        {"query": "q", "group_id": "g", "group_ids": ["g"]}
    ]
    assert tool("retrieve_episodes", "g").call({"queries": [{}]}).inputs["queries"] == [
        {"group_ids": ["g"]}
    ]
    for name in ("add_episode", "search", "retrieve_episodes", "memories/mem0/write"):
        schema = json.dumps(tool(name, "g").arguments)
        assert "group_id" not in schema
        assert '"conversation"' not in schema


def test_with_a_group_an_input_of_groups_is_no_argument() -> None:
    for name in ("build_communities", "clear_data"):
        assert "groups" not in tool(name, "g").arguments["properties"]
        assert tool(name, "g").call({}).inputs == {"groups": [{"group_id": "g"}]}


def test_results_have_types_where_no_parameter_changes_them() -> None:
    exact = result_schema(tool("get_nodes_and_edges_by_episode").plan)["properties"]["tables"][
        "properties"
    ]
    assert exact["edges"]["items"]["properties"]["episodes"] == {
        "type": ["array", "null"],
        "items": {"type": ["string", "null"]},
    }
    loose = result_schema(tool("get_nodes").plan)["properties"]["tables"]["properties"]
    assert loose["nodes"]["items"] == {"type": "object"}


async def test_runs_that_share_a_budget_are_refused_an_engine(tmp_path: Path) -> None:
    session = Session(
        llm="recorded",
        store=f"sqlite:{tmp_path}/graph.db",
        engine="ray",
        runs="",
        within=Budget(),
    )
    async with session:
        with pytest.raises(
            PlanError, match=r"share a budget runs in this process\. Leave the engine out"
        ):
            await session.arun("add_episode")


def test_all_plans_are_served_to_one_group_but_those_that_change_all_indexes(
    every: list[PlanTool],
) -> None:
    names = {tool.name for tool in every}
    own = {tool.name for tool in tools_of(["all"], Settings.load(), "g")}
    assert names - own == {"build_indices_and_constraints"}
    with pytest.raises(PlanError, match="changes the indexes of all groups"):
        tools_of(["build_indices_and_constraints"], Settings.load(), "g")


def test_facts_stand_in_the_text_with_their_times_those_that_hold_first():
    ended = {
        "fact": "Ann works at Acme.",
        "valid_at": "2024-01-02T09:00:00Z",
        "invalid_at": "2025-03-01T00:00:00Z",
    }
    holds = {"fact": "Ann works at Luma.", "valid_at": "2025-03-01T00:00:00Z", "invalid_at": None}
    undated = {"fact": "Ann knows Ben.", "valid_at": None, "invalid_at": None}
    promised = {"fact": "Ann rents a flat.", "valid_at": None, "invalid_at": "2999-01-01T00:00:00Z"}
    lines = edge_lines(
        {"edges": [ended, holds, undated, promised], "nodes": [{"name": "Ann"}]},
        plan_file("search").plan.graph,
    )
    assert list(lines) == [
        "- Ann works at Luma. (from 2025-03-01 00:00)",
        "- Ann knows Ben.",
        "- Ann rents a flat. (until 2999-01-01 00:00)",
        "- Ann works at Acme. (from 2024-01-02 09:00, until 2025-03-01 00:00)",
    ]
