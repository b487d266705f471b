"""sem_map with a schema: the form of the answer comes with the row, and the answer is a json column
that has it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import semgraph
from semgraph.conformance.cases import Mind, Oracle
from semgraph.errors import DataError, InputError, PlanError, RowError
from semgraph.frontend.frame import table
from semgraph.frontend.load import load_plan

PLAN = """
plan: cards
inputs: {things: {id: string, name: string, fields: json null}}
steps:
  filled:
    - from: things
    - sem_map: {prompt: fill, schema: fields, otherwise: {held: "'{}'"}}
returns: [filled]
"""
FILL = """---
returns: {held: json}
---
# item
Fill {name}.
"""
PERSON = {"title": {"type": "string null", "describe": "a job"}, "born": "date null"}
PLACE = {"country": "string"}
THINGS: list[dict[str, Any]] = [
    {"id": "1", "name": "Ada", "fields": json.dumps(PERSON)},
    {"id": "2", "name": "Rome", "fields": json.dumps(PLACE)},
    {"id": "3", "name": "It", "fields": None},
    {"id": "4", "name": "Bob", "fields": json.dumps(PERSON)},
    {"id": "5", "name": "Ada", "fields": json.dumps(PLACE)},
]


def says(text: str) -> dict[str, Any]:
    name = text.removeprefix("Fill ").removesuffix(".")
    if name == "Rome":
        return {"held": {"country": "Italy"}}
    return {"held": {"title": f"{name}'s job", "born": "1815-12-10"}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "fill.md").write_text(FILL)
    (tmp_path / "cards.yaml").write_text(PLAN)
    return tmp_path


def run(folder: Path, things: list[dict[str, Any]], use: str = "per_row") -> tuple[Any, Oracle]:
    oracle = Oracle(Mind(answer=says))
    with semgraph.Session(
        llm=oracle, store="memory", journal=False, runs="", folder=folder
    ) as session:
        return session.run(folder / "cards.yaml", things=things, use={"filled": use}), oracle


@pytest.mark.parametrize("use", ["per_row", "packed(rows=3)"])
def test_each_row_is_answered_in_its_own_form(folder, use):
    found, oracle = run(folder, THINGS[:4], use)
    held = {row["id"]: json.loads(row["held"]) for row in found.tables["filled"].to_pylist()}
    assert held == {
        "1": {"title": "Ada's job", "born": "1815-12-10"},
        "2": {"country": "Italy"},
        "3": {},  # without a form it is not asked about
        "4": {"title": "Bob's job", "born": "1815-12-10"},
    }
    assert len(oracle.requests) == (
        2 if use.startswith("packed") else 3
    )  # rows of one call share the form
    assert "a job" in oracle.requests[0].messages[0].content


def test_an_answer_of_another_form_is_that_rows_error(folder):
    found, _ = run(folder, THINGS)
    assert [failure.row["id"] for failure in found.failed] == [
        "5"
    ]  # the same name, asked for in another form
    assert "must have exactly the keys country" in found.failed[0].error


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("[]", "it names no fields"),
        ('"title"', "it names no fields"),
        ('{"title": "text"}', '"text" is no type'),
        ('{"a title": "string"}', '"a title" is no name'),
        ('{"title": {"kind": "string"}}', '"title" has no type'),
    ],
)
def test_a_column_that_holds_no_schema(folder, fields, said):
    with pytest.raises(InputError, match=f"input things: fields is no schema: {said}"):
        run(folder, [{"id": "1", "name": "Ada", "fields": fields}])


@pytest.mark.parametrize(
    "steps",
    [
        "- project: {id: id, name: name}\n    - sem_map: {prompt: 'Form of {name}.', returns: {fields: json}}",
        "- project: {id: id, name: name, forms: '[name]'}\n    - unnest: {column: forms, alias: fields}",
        "- filter: id <> '1'",
        "- aggregate: {by: [id, name], add: {fields: min(fields)}}",
        "- project: {id: id, name: name, fields: kept.form}",
    ],
)
def test_only_what_is_surely_followed_is_checked(folder, steps):
    plan = PLAN.replace("- from: things\n", f"- from: things\n    {steps}\n")
    plan = plan.replace("json null}", "json null, kept: 'struct<form: string null> null'}")
    (folder / "cards.yaml").write_text(plan)
    with semgraph.Session(llm=Oracle(Mind(answer=says)), store="memory", journal=False) as session:
        things = [{"id": "1", "name": "Ada", "fields": "[]"}]
        with suppress(DataError, RowError):  # InputError is neither
            session.run(folder / "cards.yaml", things=things)


def test_the_prompt_must_return_one_json(folder):
    (folder / "prompts" / "fill.md").write_text(FILL.replace("held: json", "held: string"))
    with pytest.raises(PlanError, match='prompt "fill" returns no json, or several') as caught:
        load_plan(folder / "cards.yaml")
    assert caught.value.problems[0].position.column == 39  # at the argument


def test_the_fluent_api_says_it_with_the_same_word(folder):
    things = table(THINGS, name="things", folder=folder)
    frame = things.sem_map("fill", schema="fields", otherwise={"held": "'{}'"}).step("filled")
    assert frame.columns == ["id", "name", "fields", "held"]
    assert (
        load_plan(frame.save(folder / "again.yaml")).steps["filled"].fingerprint
        == frame.node.fingerprint
    )
