"""The JSON Schemas of plans, graphs and the front matter of prompts: what loads fits, and a slip does
not.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path

import jsonschema
import pytest

from semgraph.errors import Fault, PlanError
from semgraph.folders import plans_folder
from semgraph.frontend.build import OPERATORS, SINKS
from semgraph.frontend.document import parse, read_file
from semgraph.frontend.graph_files import graph_of
from semgraph.frontend.head import PLAN as PLAN_KEYS
from semgraph.frontend.jsonschema import SCHEMAS, plan_schema
from semgraph.frontend.prompt_files import read_prompt
from tools.schemas import texts

FILES = sorted(plans_folder().rglob("*.yaml"))
PLANS = [path for path in FILES if "plan" in read_file(path).data]
GRAPHS = [path for path in FILES if path not in PLANS]
PROMPTS = sorted(plans_folder().rglob("prompts/*.md"))
VALIDATOR = jsonschema.Draft202012Validator(plan_schema())
OF_GRAPH = jsonschema.Draft202012Validator(SCHEMAS["graph"]())
OF_PROMPT = jsonschema.Draft202012Validator(SCHEMAS["prompt"]())
GRAPH = {
    "graph": "g",
    "key": "id",
    "common": {"at": "timestamp"},
    "nodes": {
        "Book": {
            "properties": {"name": "string"},
            "derived": {"name_key": "key(name)", "vector": {"embed": "name"}},
            "fulltext": {"names": ["name"]},
            "index": ["name"],
            "open": ["labels", "attributes"],
            "ignore": ["old"],
        },
        "Author": None,
    },
    "edges": {"WROTE": {"source": "Author", "target": "Book", "properties": {"says": "string"}}},
    "draw": {"node": "name", "edge": "says", "from": "at"},
}
FRONT = {
    "returns": {"a": "string", "b": {"type": "list<struct<c: string>>", "describe": "all"}},
    "describe": {"a": "one", "b.c": "each"},
    "role": "small",
    "max_tokens": 99,
}
PLAN = {
    "plan": "p",
    "inputs": {"a": {"x": "string"}},
    "params": {"n": 3},
    "windows": {"input": "a", "key": "x", "size": "all"},
    "steps": {
        "s": [
            {"from": "a"},
            {"filter": "x > 1"},
            {"limit": {"n": "$n", "order": ["x desc"]}},
            {"sem_map": {"prompt": "What is {x}?", "returns": {"y": "string"}, "on_error": None}},
            {"join": {"other": [{"from": "a"}], "using": "x", "how": "semi"}},
        ],
        "t": {"if": "$n", "do": [{"switch": {"on": "$n", "3": "a", "4": [{"from": "s"}]}}]},
    },
    "writes": [{"merge": {"from": "s", "node": "Book", "first": True}, "if": {"$n": 3}}],
    "returns": ["s"],
    "use": {"s": "block(left=10)"},
    "example": {"inputs": {"a": [{"x": "1"}]}, "after": "other"},
}


def test_it_is_a_schema_of_every_key_and_operator():
    schema = plan_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert list(schema["properties"]) == list(PLAN_KEYS)
    operators = schema["$defs"]["pipeline"]["items"]["properties"]
    assert set(operators) == {cls.keyword for cls in OPERATORS}
    assert {"merge", "delete"} == {cls.keyword for cls in SINKS}
    assert all("description" in operator for operator in operators.values())
    merge = schema["$defs"]["write"]["properties"]["merge"]
    assert "NULL never overwrites" in merge["description"]
    assert "none twice" in merge["properties"]["unite"]["description"]


@pytest.mark.parametrize("path", PLANS, ids=str)
def test_the_shipped_plans_fit(path: Path):
    assert [error.message for error in VALIDATOR.iter_errors(read_file(path).data)] == []


def test_a_plan_of_all_parts_fits():
    assert [error.message for error in VALIDATOR.iter_errors(PLAN)] == []


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("setps",), {}),
        (("plan",), "two words"),
        (("inputs", "a", "x"), 3),
        (("windows", "sizes"), 1),
        (("windows", "size"), 0),
        (("windows", "size"), "read"),
        (("steps", "s", 1), {"fliter": "x > 1"}),
        (("steps", "s", 1), {"filter": "x > 1", "limit": {"n": 1}}),
        (("steps", "s", 1), {"from": "a"}),
        (("steps", "s", 0), {"filter": "x > 1"}),
        (("steps", "s", 1, "filter"), [{"x": 1}]),
        (("steps", "s", 2, "limit", "pre"), "x"),
        (("steps", "s", 2, "limit"), {}),
        (("steps", "s", 2, "limit", "n"), "three"),
        (("steps", "s", 3, "sem_map", "on_error"), "ignore"),
        (("steps", "s", 3, "sem_map", "promt"), "x"),
        (("steps", "s", 4, "join", "how"), "outer"),
        (("steps", "s", 4, "join", "other"), [{"form": "a"}]),
        (("steps", "t", "when"), True),
        (("writes", 0, "merge", "form"), "s"),
        (("writes", 0, "delete"), {"from": "s", "node": "Book"}),
        (("returns",), "s"),
        (("example", "input"), {}),
    ],
)
def test_a_slip_does_not(path, value):
    assert list(VALIDATOR.iter_errors(changed(PLAN, path, value)))


def changed(data, path, value):
    """The data with another value at a path."""
    copied = copy.deepcopy(data)
    at = copied
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return copied


@pytest.mark.parametrize("path", GRAPHS, ids=str)
def test_the_shipped_graphs_fit(path: Path):
    assert [error.message for error in OF_GRAPH.iter_errors(read_file(path).data)] == []


def front_of(path: Path):
    _, front, _ = path.read_text(encoding="utf-8").split("---\n", 2)
    return parse(front, path.name, "front matter").data


@pytest.mark.parametrize("path", PROMPTS, ids=str)
def test_the_front_matter_of_the_shipped_prompts_fits(path: Path):
    assert [error.message for error in OF_PROMPT.iter_errors(front_of(path))] == []


def test_they_are_schemas():
    for schema in (SCHEMAS["graph"](), SCHEMAS["prompt"]()):
        jsonschema.Draft202012Validator.check_schema(schema)


def test_a_graph_of_all_parts_fits_and_is_read():
    assert [error.message for error in OF_GRAPH.iter_errors(GRAPH)] == []
    assert set(graph_of(GRAPH).labels) == {"Book", "Author", "WROTE"}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("node",), {}),
        (("key",), "two words"),
        (("common",), ["at"]),
        (("nodes",), ["Book"]),
        (("nodes", "Book"), "string"),
        (("nodes", "two words"), {}),
        (("nodes", "Book", "propertys"), {}),
        (("nodes", "Book", "source"), "Author"),
        (("nodes", "Book", "derived", "name_key"), "keys(name)"),
        (("nodes", "Book", "derived", "name_key"), "key name"),
        (("nodes", "Book", "derived", "vector"), {"embedding": "name"}),
        (("nodes", "Book", "fulltext", "names"), "name"),
        (("nodes", "Book", "index"), "name"),
        (("nodes", "Book", "open"), ["label"]),
        (("nodes", "Book", "ignore"), "old"),
        (("edges", "WROTE"), {"source": "Author"}),
        (("edges", "WROTE", "from"), "Author"),
        (("draw", "nodes"), "name"),
    ],
)
def test_a_slip_in_a_graph_is_refused_by_the_schema_and_by_the_reader(path, value):
    graph = changed(GRAPH, path, value)
    assert list(OF_GRAPH.iter_errors(graph))
    with pytest.raises(Fault):
        graph_of(graph)


def test_front_matter_of_all_parts_fits(tmp_path: Path):
    assert [error.message for error in OF_PROMPT.iter_errors(FRONT)] == []
    assert [name for name, _ in prompt_of(tmp_path, FRONT).returns] == ["a", "b"]


def prompt_of(folder: Path, front):
    path = folder / "p.md"
    path.write_text(f"---\n{json.dumps(front)}\n---\n# item\n{{text}}\n")
    return read_prompt(path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("return",), {}),
        (("returns",), ["a"]),
        (("returns", "a b"), "string"),
        (("returns", "a"), 3),
        (("returns", "b"), {"type": "string", "description": "x"}),
        (("returns", "b"), {"describe": "x"}),
        (("describe", "a"), 3),
        (("role",), "two words"),
        (("max_tokens",), 0),
        (("max_tokens",), "many"),
        (("max_tokens",), True),
    ],
)
def test_a_slip_in_front_matter_is_refused_by_the_schema_and_by_the_reader(
    tmp_path: Path, path, value
):
    front = changed(FRONT, path, value)
    assert list(OF_PROMPT.iter_errors(front))
    with pytest.raises(PlanError):
        prompt_of(tmp_path, front)


def test_the_schemas_beside_the_plans_and_the_lines_that_name_them_are_current():
    stale = [path for path, text in texts(plans_folder()) if path.read_text("utf-8") != text]
    assert stale == [], "make schemas writes them anew"


@pytest.mark.parametrize("path", FILES, ids=str)
def test_a_shipped_file_names_its_schema_which_it_fits(path: Path):
    line = path.read_text(encoding="utf-8").splitlines()[0]
    schema = path.parent / line.removeprefix("# yaml-language-server: $schema=")
    jsonschema.Draft202012Validator(json.loads(schema.read_text())).validate(read_file(path).data)
