"""The JSON Schema of the language: what loads fits it, and a slip does not."""

from __future__ import annotations

import copy
from pathlib import Path

import jsonschema
import pytest

from semgraph.frontend.build import OPERATORS, SINKS
from semgraph.frontend.document import read_file
from semgraph.frontend.head import KEYS
from semgraph.frontend.jsonschema import plan_schema
from semgraph.shipped import plans_folder

PLANS = sorted(path for path in plans_folder().glob("*.yaml") if path.stem != "graph")
VALIDATOR = jsonschema.Draft202012Validator(plan_schema())
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
    assert list(schema["properties"]) == list(KEYS)
    operators = schema["$defs"]["pipeline"]["items"]["properties"]
    assert set(operators) == {cls.keyword for cls in OPERATORS}
    assert {"merge", "delete"} == {cls.keyword for cls in SINKS}
    assert all("description" in operator for operator in operators.values())
    merge = schema["properties"]["writes"]["items"]["properties"]["merge"]
    assert "NULL never overwrites" in merge["description"]
    assert "none twice" in merge["properties"]["unite"]["description"]


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
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
    plan = copy.deepcopy(PLAN)
    at = plan
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    assert list(VALIDATOR.iter_errors(plan))
