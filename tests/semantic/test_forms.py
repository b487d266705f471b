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
from semgraph.semantic.answers import (
    LEFT_OUT,
    AnswerSchema,
    Invalid,
    free_name,
    list_of,
    parse,
    read_value,
)
from tests.examples import examples

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
    found = read_value(kind, said, "", [])
    assert pa.array([found], kind.arrow).to_pylist() == [
        {
            "s": "é", "i": 3, "d": 2.0, "b": False, "t": datetime(2024, 2, 29, 8, tzinfo=UTC), "day": date(2024, 2, 29),
            "j": '{"a":[null],"b":1}', "e": "y", "l": [{"a": "", "n": [1]}, {"a": "x", "n": None}],
        }
    ]  # fmt: skip


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
        ("string", "cut\0here", "string"),
        ("double", math.nan, "number"),
        ("timestamp", "soon", "a time in ISO 8601"),
        ("timestamp", 2025, "a time in ISO 8601"),
        ("date", "2024-02-30", "a date in ISO 8601"),
        ("enum<x, y>", "z", '"x" or "y"'),
        ("enum<x, y>", ["x"], '"x" or "y"'),
        ("list<int64>", {}, "a list"),
        ("json", math.inf, "any JSON"),
    ],
)
def test_what_a_value_must_be_is_said(kind: str, value: Any, wanted: str) -> None:
    with pytest.raises(Invalid) as error:
        read_value(parse_type(kind), value, "x", [])
    assert str(error.value) == f"x must be {wanted}"


Notes = list[tuple[str, str]]


def read_by(form: AnswerSchema, answer: Any) -> tuple[dict[str, Any], Notes]:
    """What an answer says, and the notes about it."""
    notes: Notes = []
    return form.read(answer, lambda what, where: notes.append((what, where))), notes


def read(people: Any, **more: Any) -> tuple[dict[str, Any], Notes]:
    """The same for an answer about people."""
    return read_by(FORM, {"keep": True, "people": people, "note": None} | more)


ANN = {"name": "Ann", "since": None}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"people": [{"name": "a"}]}, "people[0] must have exactly the keys name, since"),
        ({"people": ["a", None]}, "people[0] must be an object"),
        ({"people": {}}, "people must be a list"),
        ({"people": [], "more": 1}, "the answer must have exactly the keys keep, people, note"),
        ({"people": [], "keep": None}, "keep must not be null"),
        ({"people": [ANN], "note": 3}, "note must be string or null"),
    ],
)
def test_the_place_of_what_is_wrong_is_said(answer: dict[str, Any], reason: str) -> None:
    with pytest.raises(Invalid) as error:
        read(**answer)
    assert str(error.value) == reason
    with pytest.raises(Invalid, match=r"^the answer must be an object$"):
        read_by(FORM, [])


@pytest.mark.parametrize(
    ("element", "reason"),
    [
        (None, "must not be null"),
        ("Ben", "must be an object"),
        ({"name": "Ben"}, "must have exactly the keys name, since"),
        ({**ANN, "age": 3}, "must have exactly the keys name, since"),
        ({"name": None, "since": None}, ".name must not be null"),
        ({"name": "\ud800", "since": None}, ".name must be string"),
        ({"name": ["Ben"], "since": None}, ".name must be string"),
        (parse('{"name": "Ben", "name": "Bo", "since": null}'), "must be an object"),
        (parse('{"name": NaN, "since": null}'), ".name must be string"),
    ],
)
def test_a_bad_element_of_a_list_is_left_out_with_a_note(element: Any, reason: str) -> None:
    cleo = {"name": "Cleo", "since": None}
    values, notes = read([ANN, element, cleo])
    assert values["people"] == [ANN, cleo]
    assert notes == [(LEFT_OUT, "people[1]" + " " * (reason[0] != ".") + reason)]


def test_the_innermost_element_is_left_out() -> None:
    form = AnswerSchema(
        (("all", parse_type("list<struct<tags: list<enum<x, y>>, at: list<date>>>")),)
    )
    said = [{"tags": ["x", "z"], "at": ["soon"]}, {"tags": ["z"], "at": 3}]
    values, notes = read_by(form, {"all": said})
    assert values == {"all": [{"tags": ["x"], "at": []}]}
    assert [where for _, where in notes] == [
        'all[0].tags[1] must be "x" or "y"',
        "all[0].at[0] must be a date in ISO 8601",
        "all[1].at must be a list",
    ]


def test_sound_elements_of_one_list_save_an_answer_with_another_list_of_bad_ones() -> None:
    form = AnswerSchema((("a", parse_type("list<int64>")), ("b", parse_type("list<int64>"))))
    assert read_by(form, {"a": ["x"], "b": [1]})[0] == {"a": [], "b": [1]}
    for bad in ({"a": ["x"], "b": []}, {"a": ["x"], "b": [None]}):
        with pytest.raises(Invalid, match=r"^a\[0\] must be integer$"):
            read_by(form, bad)


def test_fields_of_a_json_answer_are_read_alike() -> None:
    fields = (("at", Type("timestamp", True)), ("sizes", parse_type("list<int64>")))
    form = AnswerSchema((("attributes", Type("json", fields=fields)),))
    said = {"attributes": {"at": "in May", "sizes": [1, 2**63, 3]}}
    found, notes = read_by(form, said)
    assert found == {"attributes": '{"at":null,"sizes":[1,3]}'}
    assert [where for _, where in notes] == [
        'attributes.at: "in May"',
        "attributes.sizes[1] must be integer",
    ]


FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc,arg-type]


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2025", at(2025, 1, 1)),
        ("2025-03", at(2025, 3, 1)),
        ("2025-3", at(2025, 3, 1)),
        ("2025-03-01", at(2025, 3, 1)),
        ("2025-3-1", at(2025, 3, 1)),
        ("2025/03/01", at(2025, 3, 1)),
        ("2025.3.1 10:00", at(2025, 3, 1, 10)),
        ("2025-03-01 10:00", at(2025, 3, 1, 10)),
        ("2025-03-01T10", at(2025, 3, 1, 10)),
        ("2025-03-01T10:00Z", at(2025, 3, 1, 10)),
        ("2025-03-01t10:00:00z", at(2025, 3, 1, 10)),
        (" 2025-03-01  10:00:00 UTC ", at(2025, 3, 1, 10)),
        ("2025-03-01T10:00:00 +02:00", at(2025, 3, 1, 8)),
        ("2025-03-01T10:00:00+0200", at(2025, 3, 1, 8)),
        ("2025-03-01T10:00:00.123456789Z", at(2025, 3, 1, 10, 0, 0, 123456)),
        ("20250301", at(2025, 3, 1)),
        ("20250301T100000Z", at(2025, 3, 1, 10)),
        ("2025-W10", at(2025, 3, 3)),
        ("2025-W10-3", at(2025, 3, 5)),
        ("2025-03-01T24:00:00Z", at(2025, 3, 2)),
        ("2025-12-31T24:00", at(2026, 1, 1)),
        ("2025-03-01T24:00:00.000+02:00", at(2025, 3, 1, 22)),
        ("2024-02-29T23:30:00-01:00", at(2024, 3, 1, 0, 30)),
        ("0001-01-01", FIRST),
        ("9999-12-31T23:59:59.999999Z", LAST),
    ],
)
def test_a_time_is_read_as_its_first_instant(text: str, instant: datetime) -> None:
    notes: Notes = []
    for kind in (Type("timestamp"), Type("timestamp", True)):
        assert read_value(kind, text, "at", notes) == instant
    assert notes == []


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("9999-12-31T23:59:59-05:00", LAST),
        ("9999-12-31T24:00:00Z", LAST),
        ("9999-12-31T24:00", LAST),
        ("10000-01-01", LAST),
        ("+275760-09-13T00:00:00.000Z", LAST),
        ("0001-01-01T00:00:00+14:00", FIRST),
        ("0000-01-01", FIRST),
        ("0000", FIRST),
        ("-0044-03-15", FIRST),
    ],
)
def test_a_time_that_no_table_can_hold_is_moved_to_the_nearest_one(
    text: str, end: datetime
) -> None:
    notes: Notes = []
    assert read_value(Type("timestamp"), text, "at", notes) == end
    assert [where for _, where in notes] == [f"at: {text}"]
    assert notes[0][0] == "moved a date of an answer into the years 1 to 9999"


@pytest.mark.parametrize(
    "text",
    ["", " ", "soon", "null", "2025-02-30", "2025-02-29", "0000-00-00", "2025-00-00", "2025-13", "2100-02-29T24:00",
     "2025-03-01T24:30", "2025-03-01T25:00", "2025-03-01T10:60", "01/03/2025", "01-03-2025", "1.3.2025", "03/2025",
     "2010/11", "2024/25", "202503", "March 2025", "2025-Q1", "2025-03-01 10:00 PST", "2025-W54", "12025", "1741651200",
     "-0001-02-30", "10000-02-30", "T10:00", "10:00", "2025-03-", "\ud800", 2025, 1.5, True, [], {}],
)  # fmt: skip
def test_what_states_no_time_is_null_with_a_note_where_it_may_be(text: Any) -> None:
    for name in ("timestamp", "date"):
        notes: Notes = []
        assert read_value(Type(name, True), text, "at", notes) is None
        assert notes == [("read a date of an answer as NULL", f"at: {json.dumps(text)}")]
        with pytest.raises(Invalid, match="^at must be a (time|date) in ISO 8601$"):
            read_value(Type(name), text, "at", [])


@pytest.mark.parametrize(
    ("text", "day"),
    [
        ("2025", date(2025, 1, 1)),
        ("2025-03", date(2025, 3, 1)),
        ("2025-03-01T23:00:00-05:00", date(2025, 3, 1)),
        ("2025-03-01T24:00", date(2025, 3, 2)),
        ("20250301", date(2025, 3, 1)),
        ("2025-W10-3", date(2025, 3, 5)),
        ("0000-05-01", date.min),
        ("12025-03-01", date.max),
    ],
)
def test_a_day_is_the_one_that_is_written(text: str, day: date) -> None:
    assert read_value(Type("date"), text, "day", []) == day


def test_long_values_are_cut_in_notes() -> None:
    _, notes = read([{"name": "Ann", "since": "x" * 1000}])
    assert [where for _, where in notes] == ['people[0].since: "' + "x" * 39]


@st.composite
def damaged(draw: st.DrawFn) -> tuple[list[Any], list[Any], list[str]]:
    """Elements of a list some of which are bad: all of them, the sound ones, and the paths of what
    is to be noted.
    """
    elements, sound, noted = [], [], []
    for i in range(draw(st.integers(1, 8))):
        tags = draw(st.lists(st.sampled_from(["x", "y", "z", None, 3]), max_size=4))
        element: Any = {"name": draw(st.text("ab", max_size=3)), "tags": tags, "at": "2025-03"}
        damage = draw(
            st.sampled_from(
                [
                    "",
                    "",
                    {"name": 3},
                    {"at": 3},
                    {"at": "soon"},
                    {"more": 1},
                    {"tags": "x"},
                    None,
                    [],
                ]
            )
        )
        path = f"all[{i}]"
        if not damage and damage is not None and damage != []:
            kept = [tag for tag in tags if tag in ("x", "y")]
            sound.append({"name": element["name"], "tags": kept, "at": at(2025, 3, 1)})
            noted += [f"{path}.tags[{n}]" for n, tag in enumerate(tags) if tag not in ("x", "y")]
        else:
            noted.append(path)
        is_change = isinstance(damage, dict)
        elements.append(element | damage if is_change else element if damage == "" else damage)
    return elements, sound, noted


@settings(max_examples=examples(100, 300), deadline=None)
@given(damaged())
def test_sound_elements_survive_in_order_and_each_other_one_is_noted(
    case: tuple[list[Any], list[Any], list[str]],
) -> None:
    elements, sound, noted = case
    kind = parse_type("list<struct<name: string, tags: list<enum<x, y>>, at: timestamp>>")
    form = AnswerSchema((("all", kind),))
    if not sound:
        with pytest.raises(Invalid):
            read_by(form, {"all": elements})
        return
    values, notes = read_by(form, {"all": elements})
    assert values == {"all": sound}
    assert len(notes) == len(noted)
    for (what, where), path in zip(notes, noted, strict=True):
        assert what == LEFT_OUT
        assert where.startswith(path)


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


@settings(max_examples=examples(200, 500), deadline=None)
@given(kinds, values)
def test_reading_accepts_what_the_json_schema_accepts(kind: str, value: Any) -> None:
    wanted = parse_type(kind)
    valid = jsonschema.Draft202012Validator(wanted.json_schema()).is_valid(value)
    if wanted.name == "json" and value is None and not wanted.nullable:
        return  # the schema of any JSON cannot say "not null"; reading does
    notes: Notes = []
    try:
        read_value(wanted, value, "x", notes)
    except Invalid:
        assert not valid
    else:
        assert valid == all(what != LEFT_OUT for what, _ in notes)


@pytest.mark.parametrize(
    "text",
    ["", "yes", '{"a": 1} {"a": 1}', '```json\n{"a": 1}\n```', '{"a": 1',
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
