"""The form of an answer: its schema, its description, and reading it."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from typing import Any

import jsonschema
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semgraph.expr.types import Type, parse_type
from semgraph.logical.prompt import Prompt
from semgraph.semantic.prompt.answers import (
    AnswerSchema,
    Invalid,
    free_name,
    list_of,
    parse,
    read_value,
)

EVERY = (
    "struct<s: string, i: int64 null, d: double, b: boolean, t: timestamp null, day: date null, j: json null, "
    "e: enum<x, y> null, l: list<struct<a: string, n: list<int64> null>>>"
)
FORM = AnswerSchema.of(
    Prompt("p", (("people", parse_type("list<struct<name: string, since: timestamp null>>")), ("note", Type("string", True))),
           (("people", "who is named"), ("people.name", "as the text has it"))),
    ("keep", Type("boolean"), "true for yes"),
)  # fmt: skip


def test_the_verdict_comes_first_and_meanings_become_descriptions() -> None:
    assert FORM.schema == {
        "type": "object",
        "properties": {
            "keep": {"type": "boolean", "description": "true for yes"},
            "people": {
                "type": "array",
                "description": "who is named",
                "items": {
                    "type": "object",
                    "properties": {
                        "name": {"type": "string", "description": "as the text has it"},
                        "since": {
                            "anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]
                        },
                    },
                    "required": ["name", "since"],
                    "additionalProperties": False,
                },
            },
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        },
        "required": ["keep", "people", "note"],
        "additionalProperties": False,
    }
    assert list(FORM.schema["properties"]) == ["keep", "people", "note"]


def test_the_sketch_says_the_form_in_one_line() -> None:
    assert FORM.sketch == (
        '{"keep": true or false, "people": [{"name": string, "since": "YYYY-MM-DDThh:mm:ssZ" or null}, ...], '
        '"note": string or null}'
    )
    assert (
        FORM.glossary == "keep: true for yes\npeople: who is named\npeople.name: as the text has it"
    )


def test_an_answer_becomes_arrow_values() -> None:
    kind = parse_type(EVERY)
    said = {
        "s": "é", "i": 3.0, "d": 2, "b": False, "t": "2024-02-29T10:00:00+02:00", "day": "2024-02-29", "j": {"b": 1, "a": [None]},
        "e": "y", "l": [{"a": "", "n": [1]}, {"a": "x", "n": None}],
    }  # fmt: skip
    found = read_value(kind, said, "")
    assert pa.array([found], kind.arrow).to_pylist() == [
        {
            "s": "é", "i": 3, "d": 2.0, "b": False, "t": datetime(2024, 2, 29, 8, tzinfo=UTC), "day": date(2024, 2, 29),
            "j": '{"a":[null],"b":1}', "e": "y", "l": [{"a": "", "n": [1]}, {"a": "x", "n": None}],
        }
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("2024-02-29T10:00:00Z", datetime(2024, 2, 29, 10, tzinfo=UTC)),
        ("2024-02-29T10:00:00.25-05:00", datetime(2024, 2, 29, 15, 0, 0, 250000, tzinfo=UTC)),
        ("2024-02-29T10:00:00", datetime(2024, 2, 29, 10, tzinfo=UTC)),
        ("2024-02-29", datetime(2024, 2, 29, tzinfo=UTC)),
    ],
)
def test_times_are_utc_also_where_none_is_named(said: str, meant: datetime) -> None:
    assert read_value(Type("timestamp"), said, "at") == meant


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("string", 3, "string"),
        ("string", "\ud800", "string"),
        ("int64", 1.5, "integer"),
        ("int64", True, "integer"),
        ("int64", 2**63, "integer"),
        ("int64 null", "3", "integer or null"),
        ("double", "1", "number"),
        ("double", math.inf, "number"),
        ("double", 10**400, "number"),
        ("boolean", 1, "true or false"),
        ("timestamp", "0001-01-01T00:00:00+14:00", "a time in ISO 8601"),
        ("timestamp null", "soon", "a time in ISO 8601 or null"),
        ("date", "2024-02-30", "a date in ISO 8601"),
        ("enum<x, y>", "z", '"x" or "y"'),
        ("enum<x, y>", ["x"], '"x" or "y"'),
        ("list<int64>", {}, "a list"),
        ("json", math.inf, "any JSON"),
    ],
)
def test_what_a_value_must_be_is_said(kind: str, value: Any, wanted: str) -> None:
    with pytest.raises(Invalid) as error:
        read_value(parse_type(kind), value, "x")
    assert str(error.value) == f"x must be {wanted}"


def test_the_place_of_what_is_wrong_is_said() -> None:
    with pytest.raises(Invalid, match=r"^people\[1\]\.since must be a time in ISO 8601 or null$"):
        FORM.read(
            {
                "keep": True,
                "people": [{"name": "a", "since": None}, {"name": "b", "since": "x"}],
                "note": None,
            }
        )
    with pytest.raises(Invalid, match=r"^people\[0\] must have exactly the keys name, since$"):
        FORM.read({"keep": True, "people": [{"name": "a"}], "note": None})
    with pytest.raises(
        Invalid, match=r"^the answer must have exactly the keys keep, people, note$"
    ):
        FORM.read({"keep": True, "people": [], "note": None, "more": 1})
    with pytest.raises(Invalid, match=r"^keep must not be null$"):
        FORM.read({"keep": None, "people": [], "note": None})
    with pytest.raises(Invalid, match=r"^the answer must be an object$"):
        FORM.read([])


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([1.5, "", "x", "y", "z"]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abn"), inner, max_size=3)
    ),
    max_leaves=6,
)
kinds = st.sampled_from(
    ["string", "int64", "double null", "boolean", "enum<x, y>", "enum<x> null", "list<int64 null>", "list<string> null",
     "struct<a: int64>", "struct<a: string null, b: list<boolean>> null", "list<struct<n: double>>", "json", "json null"]
)  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(kinds, values)
def test_reading_accepts_what_the_json_schema_accepts(kind: str, value: Any) -> None:
    wanted = parse_type(kind)
    valid = jsonschema.Draft202012Validator(wanted.json_schema()).is_valid(value)
    if wanted.name == "json" and value is None and not wanted.nullable:
        return  # the schema of any JSON cannot say "not null"; reading does
    try:
        read_value(wanted, value, "x")
    except Invalid:
        assert not valid
    else:
        assert valid


@pytest.mark.parametrize(
    "text",
    ["", "yes", '{"a": 1} {"a": 1}', '```json\n{"a": 1}\n```', '{"a": NaN}', '{"a": Infinity}', '{"a": 1, "a": 2}', '{"a": 1',
     "[" * 100_000, '{"a": ' + "9" * 5000 + "}"],
)  # fmt: skip
def test_anything_but_one_json_document_is_invalid(text: str) -> None:
    with pytest.raises(Invalid, match=r"^the answer is not one JSON document$"):
        parse(text)


@pytest.mark.parametrize(
    "document", [[], {}, {"answers": {}}, {"answers": [], "more": 1}, {"matches": []}, None]
)
def test_a_list_comes_under_its_key_alone(document: Any) -> None:
    with pytest.raises(Invalid, match="expected"):
        list_of(json.dumps(document), "answers")


def test_a_bounded_form_says_how_long_it_can_get() -> None:
    assert AnswerSchema((("keep", Type("boolean")), ("at", Type("timestamp", True)))).tokens == 70
    assert AnswerSchema((("keep", Type("boolean")), ("why", Type("string")))).tokens is None


def test_a_key_that_an_answer_has_is_evaded() -> None:
    assert free_name("id", ["name"]) == "id"
    assert free_name("id", ["id", "id_"]) == "id__"
