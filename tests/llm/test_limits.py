"""Limits of answers in the JSON Schema of a request: sent to services that take them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from semgraph.expr.types import parse_answer_type
from semgraph.llm.base import Message, Request
from semgraph.llm.openai import OpenAI
from semgraph.llm.services import SERVICES, Service
from semgraph.logical import limits
from semgraph.logical.prompt import Prompt
from semgraph.semantic.answers import AnswerSchema
from tests.llm.documented import ENDPOINTS

KEYS: dict[str, dict[str, Any]] = {
    "age": {"type": "int64 null", "minimum": 0, "maximum": 150, "default": 1},
    "minimum": {"type": "string", "pattern": "^a", "maxLength": 9},
    "tags": {"type": "list<string>", "maxItems": 3},
    "tags[]": {"minLength": 2},
}


def schema() -> dict[str, Any]:
    entries = {
        name: {**keys, "type": parse_answer_type(keys["type"])} if "type" in keys else keys
        for name, keys in KEYS.items()
    }
    answers = limits.typed_answers(entries)
    return AnswerSchema.of(Prompt("asked", answers.fields, answers.describe)).schema


def test_a_schema_has_the_limits_as_keywords() -> None:
    properties = schema()["properties"]
    assert properties["age"]["anyOf"] == [
        {"type": "integer", "minimum": 0, "maximum": 150},
        {"type": "null"},
    ]
    assert properties["minimum"]["pattern"] == "^a"
    assert properties["tags"]["maxItems"] == 3
    assert properties["tags"]["items"]["minLength"] == 2


def sent(service: Service, url: str | None = None) -> dict[str, Any]:
    model = OpenAI("m", api_key="k", base_url=url, service=service)
    text = json.dumps(schema(), sort_keys=True, separators=(",", ":"))
    body = json.loads(bytes(model.body(Request("default", (Message("user", "Hi"),), text))))
    return body["response_format"]["json_schema"]["schema"]["properties"]


def named(service: str) -> Service:
    return next(each for each in SERVICES if each.name == service)


def test_openai_gets_what_it_takes() -> None:
    properties = sent(named("openai"))
    assert properties["age"]["anyOf"][0] == {"type": "integer", "minimum": 0, "maximum": 150}
    assert properties["minimum"]["pattern"] == "^a"
    assert "maxLength" not in properties["minimum"]
    assert "minLength" not in properties["tags"]["items"]


@pytest.mark.parametrize("name", ["openai", "vllm", "groq"])
def test_other_addresses_and_services_get_none(name: str) -> None:
    properties = sent(named(name), "http://gpu:8000/v1")
    assert properties.keys() == {"age", "minimum", "tags"}
    words = json.dumps([{**part, "description": ""} for part in properties.values()])
    assert not any(f'"{key}":' in words for key in limits.LIMITS)
    assert "from 0 to 150" in properties["age"]["description"]


def test_no_service_gets_a_keyword_that_its_documents_refuse() -> None:
    assert {key for each in SERVICES for key in each.limits} <= limits.LIMITS.keys()
    for service in SERVICES:
        assert not {*service.limits} & {*ENDPOINTS[service.name].omits}, service.name
