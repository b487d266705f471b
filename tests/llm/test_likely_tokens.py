"""The likely tokens of answers follow the types of their fields."""

from __future__ import annotations

import json

import pytest

from semgraph.expr.types import object_schema, parse_type
from semgraph.llm.base import Request
from semgraph.llm.tokens import likely_tokens
from semgraph.semantic.answers import AnswerSchema


def request(listed: str = "", most: int = 2048, **fields: str) -> Request:
    """A request for some typed fields, or for a list of them."""
    return typed(fields, listed, most)


def typed(fields: dict[str, str], listed: str = "", most: int = 2048) -> Request:
    """The same, with the fields as a mapping."""
    schema = AnswerSchema(tuple((name, parse_type(kind)) for name, kind in fields.items())).schema
    if listed:
        schema = object_schema({listed: {"type": "array", "items": schema}})
    return Request("default", (), json.dumps(schema), max_tokens=most)


ANSWERS = [
    ('{"match": true}', {"match": "boolean"}, 6),
    ('{"since": "2025-01-15T09:00:00Z", "until": null}', {"since": "timestamp null", "until": "timestamp null"}, 31),
    ('{"entities": [{"name": "Alice Chen", "kind": "person"}, {"name": "Project Phoenix", "kind": "project"}]}',
     {"entities": "list<struct<name: string, kind: string>>"}, 31),
    ('{"identical": [1], "contradicted": []}', {"identical": "list<int64>", "contradicted": "list<int64>"}, 15),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "fields", "tokens"), ANSWERS)
def test_an_answer_takes_at_most_twice_and_at_least_half_as_many(
    answer: str, fields: dict[str, str], tokens: int
) -> None:
    assert {*json.loads(answer)} == {*fields}
    assert tokens / 2 <= likely_tokens(typed(fields)) <= 2 * tokens


def test_a_list_of_answers_has_one_for_each_row() -> None:
    packed = request("answers", id="int64", keep="boolean")
    one = likely_tokens(request(id="int64", keep="boolean"))
    assert likely_tokens(packed, 10) - likely_tokens(packed, 5) == pytest.approx(5 * one)


def test_one_word_takes_one_token() -> None:
    assert likely_tokens(Request("default", (), "", words=("yes", "no"))) == 1


def test_the_limit_of_an_answer_is_never_passed() -> None:
    assert likely_tokens(request("answers", most=64, text="string"), 1000) == 64
