"""What a caller sets is checked where it is set, before a model is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.errors import InputError, PlanError
from semgraph.llm.base import Limits, Reply, Request, Usage


class Counting:
    """A model that counts its calls."""

    name = "counting"
    limits = Limits()

    def __init__(self) -> None:
        self.calls = 0

    def tokens(self, text: str) -> int:
        return len(text)

    def dollars(self, usage: Usage) -> float | None:
        return 0.0

    async def complete(self, request: Request) -> Reply:
        self.calls += 1
        raise AssertionError("nothing is to be asked")

    async def aclose(self) -> None:
        return None


EPISODES = [
    {
        "name": "a",
        "content": "Ann leads Comet.",
        "group_id": "g",
        "valid_at": "2025-01-01T00:00:00Z",
    }
]


@pytest.mark.parametrize(
    ("plan", "options", "says"),
    [
        ("get_nodes", {"params": {"limit": 0}}, r'params={"limit": 0}: step by_group: k must be at least 1'),
        ("get_nodes", {"params": {"limit": -1}}, r'params={"limit": -1}: step by_group: -1 is negative'),
        ("get_nodes", {"params": {"limit": None}}, r'params={"limit": null}: step by_group: search needs "k"'),
        ("get_nodes", {"params": {"limit": True}}, r'parameter "limit" takes a number, not True'),
        ("get_nodes", {"params": {"limit": float("nan")}}, "takes a number of 64 bits, not nan"),
        ("get_nodes", {"params": {"kind": "Nobody"}}, r'params={"kind": "Nobody"}: .*no label'),
        ("get_nodes", {"on_error": "ignore"}, "on_error is 'ignore': use one of raise, null"),
        ("get_nodes", {"rows": -1}, "rows=-1: use a number from 0"),
        ("add_episode", {"params": {"window": 0}}, r'params={"window": 0}: .*found 0'),
        ("add_episode", {"params": {"keep_content": -1}}, "takes true or false, not -1"),
        ("add_episode", {"params": {"excluded": 5}}, 'parameter "excluded" takes a list, not 5'),
        ("add_episode", {"preset": "nothing"}, 'no preset "nothing"'),
    ],
)  # fmt: skip
def test_values_of_options_are_rejected_before_a_call(
    tmp_path: Path, plan: str, options: dict[str, Any], says: str
) -> None:
    model = Counting()
    with (
        sg.Session(store="memory", llm=model, folder=tmp_path) as session,
        pytest.raises(PlanError, match=says) as caught,
    ):
        session.run(plan, **options)
    assert ".yaml" not in str(caught.value), "the plan's file is not at fault"
    assert model.calls == 0


@pytest.mark.parametrize("name", ["entity_types", "edge_types"])
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"title": "int65"}, 'Did you mean "int64"'),
        ({"two words": "string"}, '"two words" is no name'),
        ({"title": {"kind": "string"}}, '"title" has no type'),
        ([], "it names no fields"),
        ({}, "it names no fields"),
    ],
)
def test_answer_schemas_of_an_input_are_rejected_before_a_call(
    tmp_path: Path, name: str, fields: Any, says: str
) -> None:
    model = Counting()
    types = [
        {"name": "Fine", "description": "x", "fields": '{"title": "string"}'},
        {"name": "Wrong", "description": "x", "fields": json.dumps(fields)},
    ]
    with (
        sg.Session(store="memory", llm=model, folder=tmp_path) as session,
        pytest.raises(InputError, match=f"input {name}: fields is no schema") as caught,
    ):
        session.run("add_episode", inputs={"episodes": EPISODES, name: types})
    assert says in str(caught.value)
    assert model.calls == 0
