"""Classes of Pydantic as types of answers: what is carried, and what is refused by its name."""

# ruff: noqa: UP045, PYI061 - as users write them

from __future__ import annotations

import dataclasses
import enum
import re
import subprocess
import sys
import typing
import uuid
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NewType, NotRequired, Optional, TypeVar

import pydantic.dataclasses
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    BaseModel,
    ConfigDict,
    Field,
    HttpUrl,
    NaiveDatetime,
    PastDate,
    PositiveInt,
    RootModel,
    SecretStr,
    StrictInt,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    conlist,
    create_model,
)
from typing_extensions import TypeAliasType, TypedDict

from semgraph.errors import PlanError
from semgraph.expr.types import parse_type
from semgraph.frontend.document import parse
from semgraph.frontend.frame import table
from semgraph.frontend.load import load_document
from semgraph.frontend.prompt_files import answer_types
from semgraph.logical.limits import in_words, limits_of, meets


class City(BaseModel):
    """A town."""

    name: str = Field(description="as on maps", max_length=20)
    people: int | None = Field(None, ge=0)


class Place(TypedDict):
    city: City


@dataclasses.dataclass
class Spot:
    city: City
    count: Annotated[int, Field(ge=1)] = 1


@pydantic.dataclasses.dataclass
class Made:
    """Something."""

    n: int = Field(3, description="how many", ge=0)
    tags: list[str] = Field(default_factory=list)


class Tone(enum.Enum):
    CALM = "calm"
    CROSS = "cross"


class Level(enum.IntEnum):
    LOW = 1


Name = NewType("Name", str)
Short = Annotated[str, Field(max_length=3, description="a word")]
Age = TypeAliasType("Age", Annotated[int, Field(ge=1)])
T = TypeVar("T")


class Checked(TypedDict):
    a: Annotated[str, AfterValidator(str.strip)]


class Box(BaseModel, Generic[T]):
    inside: T


class Node(BaseModel):
    kids: list[Node] = []


class Names(RootModel[list[str]]):
    pass


class Nest(RootModel[list["Nest"]]):
    pass


class Empty(BaseModel):
    pass


@dataclasses.dataclass
class Lost:
    a: list[str] = dataclasses.field(default_factory=lambda: ["x"])


class Noted(TypedDict):
    city: str
    note: NotRequired[str]


class Unready(BaseModel):
    later: Missing  # noqa: F821


def one(kind: Any, field: Any = ...) -> dict[str, Any]:
    """The entries of a class with one field `a`."""
    return dict(answer_types(create_model("Ticket", a=(kind, field))))


@pytest.mark.parametrize(
    ("kind", "field", "written"),
    [
        (str, ..., "string"),
        (bool, ..., "boolean"),
        (datetime, ..., "timestamp"),
        (date, ..., "date"),
        (Optional[int], None, "int64 null"),
        (int | None, ..., "int64 null"),
        (int, None, "int64 null"),
        (str, Field(description="the topic"), {"type": "string", "describe": "the topic"}),
        (str, Field(examples=["x", 2]), {"type": "string", "describe": "For example: x, 2"}),
        (
            str,
            Field(description="Its code.", examples=["x"], title="T", exclude=True, frozen=True),
            {"type": "string", "describe": "Its code. For example: x"},
        ),
        (Literal["x"], ..., "enum<x>"),
        (Literal["x", "a b", None], ..., 'enum<x, "a b"> null'),
        (Tone, ..., "enum<calm, cross>"),
        (Tone | None, None, "enum<calm, cross> null"),
        (int, Field(ge=0, le=150), {"type": "int64", "minimum": 0, "maximum": 150}),
        (PositiveInt, ..., {"type": "int64", "exclusiveMinimum": 0}),
        (float, Field(lt=1, multiple_of=0.5), {"type": "double", "exclusiveMaximum": 1.0, "multipleOf": 0.5}),
        (Optional[int], Field(None, ge=0), {"type": "int64 null", "minimum": 0}),
        (
            str,
            Field(min_length=1, max_length=3, pattern="^[A-Z]+$"),
            {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^[A-Z]+$"},
        ),
        (StrictInt, ..., "int64"),
        (conlist(int, max_length=2), ..., {"type": "list<int64>", "maxItems": 2}),
        (Name, ..., "string"),
        (list, ..., "list<json>"),
        (dict[str, Any], ..., "json"),
        (dict, ..., "json"),
        (Any, ..., "json"),
        (str, "x", {"type": "string null", "default": "x"}),
        (Tone, Tone.CALM, {"type": "enum<calm, cross> null", "default": "calm"}),
        (date, date(2025, 1, 1), {"type": "date null", "default": "2025-01-01"}),
        (list[str], Field(default_factory=list), {"type": "list<string> null", "default": []}),
        (dict, Field(default_factory=dict), {"type": "json null", "default": {}}),
        (str, Field(alias="b"), "string"),
        (str, Field(validation_alias=AliasPath("b", 0)), "string"),
        (str, Field(validation_alias=AliasChoices("b", "c")), "string"),
        (
            str,
            Field(validation_alias="b", json_schema_extra={"example": "x"}),
            {"type": "string", "describe": "For example: x"},
        ),
        (Box[int], ..., "struct<inside: int64>"),
        (Box, ..., "struct<inside: json>"),
        (Names, ..., "list<string>"),
        (Age, ..., {"type": "int64", "minimum": 1}),
        (Noted, ..., "struct<city: string, note: string null>"),
    ],
)  # fmt: skip
def test_what_a_field_says_is_carried(kind: Any, field: Any, written: Any) -> None:
    assert one(kind, field) == {"a": written}


CITY = "struct<name: string, people: int64 null>"


def of_city(path: str) -> dict[str, Any]:
    """The keys of the parts of a city."""
    return {
        f"{path}.name": {"describe": "as on maps", "maxLength": 20},
        f"{path}.people": {"minimum": 0},
    }


@pytest.mark.parametrize(
    ("returns", "written"),
    [
        (
            City,
            {
                "": {"describe": "A town."},
                "name": {"type": "string", "describe": "as on maps", "maxLength": 20},
                "people": {"type": "int64 null", "minimum": 0},
            },
        ),
        (
            create_model("Trip", to=(City, Field(description="the last stop")), via=(list[City], ...)),
            {
                "to": {"type": CITY, "describe": "the last stop. A town."},
                **of_city("to"),
                "via": f"list<{CITY}>",
                "via[]": {"describe": "A town."},
                **of_city("via"),
            },
        ),
        ({"to": City | None}, {"to": {"type": f"{CITY} null", "describe": "A town."}, **of_city("to")}),
        (list[City], {"answer": f"list<{CITY}>", "answer[]": {"describe": "A town."}, **of_city("answer")}),
        (Place, {"city": {"type": CITY, "describe": "A town."}, **of_city("city")}),
        (
            Spot,
            {
                "city": {"type": CITY, "describe": "A town."},
                **of_city("city"),
                "count": {"type": "int64 null", "minimum": 1, "default": 1},
            },
        ),
        (
            {"tags": list[Short]},
            {"tags": "list<string>", "tags[]": {"describe": "a word", "maxLength": 3}},
        ),
        (Names, {"answer": "list<string>"}),
        ({"age": Age}, {"age": {"type": "int64", "minimum": 1}}),
        (
            Made,
            {
                "": {"describe": "Something."},
                "n": {"type": "int64 null", "describe": "how many", "minimum": 0, "default": 3},
                "tags": {"type": "list<string> null", "default": []},
            },
        ),
        ({"deep": list[list[Short]]}, {"deep": "list<list<string>>", "deep[][]": {"describe": "a word", "maxLength": 3}}),
    ],
)  # fmt: skip
def test_parts_have_keys_of_their_own(returns: Any, written: Any) -> None:
    assert answer_types(returns) == written


class Docs(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)

    a: str
    """Its topic."""


def test_docstrings_of_fields_are_descriptions() -> None:
    assert answer_types(Docs) == {"a": {"type": "string", "describe": "Its topic."}}


@pytest.mark.parametrize(
    ("kind", "field", "form"),
    [
        (uuid.UUID, ..., "string"),
        (HttpUrl, ..., "string"),
        (time, ..., "string"),
        (timedelta, ..., "string"),
        (PastDate, ..., "date"),
        (date, Field(ge=date(2020, 1, 1)), "date"),
        (Annotated[str, StringConstraints(to_upper=True)], ..., "string"),
        (list[Annotated[str, AfterValidator(str.strip)]], ..., "list<string>"),
        (dict[str, Any], Field(max_length=2), "json"),
        (Checked, ..., "struct<a: string>"),
    ],
)
def test_what_only_the_class_can_check_is_left_to_it(kind: Any, field: Any, form: str) -> None:
    entries = one(kind, field)
    assert entries[""]["class"].kind.__name__ == "Ticket"
    assert (entries["a"]["type"] if isinstance(entries["a"], dict) else entries["a"]) == form


@pytest.mark.parametrize(
    ("kind", "field", "said"),
    [
        (Literal["a", 3], ..., "Ticket.a: ('a', 3) are no values of an enum"),
        (Level, ..., "Ticket.a: (1,) are no values of an enum"),
        (dict[str, int], ..., "Ticket.a: dict[str, int] is no type of an answer. Dict[str, Any] for any JSON"),
        (set[int], ..., "Ticket.a: set[int] is no type of an answer"),
        (frozenset[str], ..., "Ticket.a: frozenset[str] is no type of an answer"),
        (tuple[int, str], ..., "Ticket.a: tuple[int, str] is no type of an answer"),
        (Decimal, ..., "Ticket.a: Decimal is no type of an answer"),
        (bytes, ..., "Ticket.a: bytes is no type of an answer"),
        (SecretStr, ..., "Ticket.a: SecretStr is no type of an answer"),
        (int | str, ..., "Ticket.a: int | str is no type of an answer"),
        (Callable[[], int], ..., "Ticket.a: "),
        (list[str], Field(default_factory=lambda: ["x"]), "Ticket.a: its default_factory or default cannot be carried"),
        (object, object(), "Ticket.a: its default_factory or default cannot be carried"),
        (Lost, ..., "Lost.a: its default_factory or default cannot be carried"),
        (str, Field(json_schema_extra={"unit": "m"}), "Ticket.a: str is no type of an answer with unit in its JSON Schema"),
        (NaiveDatetime, ..., "Ticket.a: NaiveDatetime is no type of an answer with times without a zone in its JSON Schema"),
        (Empty, ..., "Ticket.a: Empty has no fields"),
        (Nest, ..., "Ticket.a: it refers to Nest itself"),
        (Node, ..., "Node.kids: it refers to Node itself"),
    ],
)  # fmt: skip
def test_what_cannot_be_carried_is_named_with_class_and_field(
    kind: Any, field: Any, said: str
) -> None:
    ticket = create_model("Ticket", a=(kind, field))
    with pytest.raises(PlanError) as caught:
        table([{"id": 1}]).sem_map("{id}?", returns=ticket)
    assert str(caught.value).startswith(f"sem_map, returns: {said}")


@pytest.mark.parametrize(
    ("returns", "said"),
    [
        (Unready, "sem_map, returns: Unready cannot be read: name 'Missing' is not defined"),
        (Level.LOW, "sem_map, returns, answer: "),
        (City(name="Riga"), "sem_map, returns, answer: "),
        (create_model("Odd", __config__=ConfigDict(json_schema_extra={"x": 1}), a=(str, ...)),
         "sem_map, returns: Odd is no type of an answer with x in its JSON Schema"),
        ({"a": dict[str, int]}, "sem_map, returns, a: dict[str, int] is no type of an answer"),
        ({"a": list[Node]}, "sem_map, returns, a: Node.kids: it refers to Node itself"),
        ({"a": uuid.UUID}, "sem_map, returns, a: UUID is no type of an answer"),
    ],
)  # fmt: skip
def test_other_refusals_name_their_place(returns: Any, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        table([{"id": 1}]).sem_map("{id}?", returns=returns)
    assert str(caught.value).startswith(said)


def test_a_plan_with_limits_is_written_and_read_back() -> None:
    rows = table([{"id": 1, "body": "It leaks."}], name="rows")
    asked = rows.sem_map("About {body}", returns=create_model("Trip", to=(City, ...), n=(int, 3)))
    text = asked.to_yaml()
    assert "maxLength: 20" in text
    plan = asked.to_plan()
    read = load_document(parse(text, "query.yaml"), Path("query.yaml"))
    assert read.fingerprint == plan.fingerprint


@pytest.mark.parametrize(
    ("keys", "kind", "said"),
    [
        ({"minimum": 0}, "string", "minimum does not limit string"),
        ({"maxLength": 3}, "int64", "maxLength does not limit int64"),
        ({"maxItems": 3}, "string", "maxItems does not limit string"),
        ({"pattern": "("}, "string", "'(': "),
        ({"multipleOf": 0}, "int64", "0: "),
        ({"default": 3}, "int64", "default stands for null, and int64 is never null"),
        ({"default": 3}, "string null", "3 is no string null"),
        ({"default": "c"}, "enum<a, b> null", '"c" is no enum<a, b> null'),
        ({"minimum": 0.5}, "int64", "0.5: 'ge' must be coercible to an integer"),
        ({"maxLength": -1}, "string", "-1: "),
        ({"optional": True}, "string null", "only a class that is called has optional fields"),
    ],
)
def test_limits_that_do_not_fit_are_refused(keys: Any, kind: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        table([{"id": 1}]).sem_map("{id}?", returns={"a": {"type": kind, **keys}})
    assert said in str(caught.value)


def test_a_part_that_is_not_there_is_refused() -> None:
    returns = {"a": "struct<b: string>", "a.c": {"maxLength": 3}}
    with pytest.raises(PlanError, match="a.c: no answer has such a part"):
        table([{"id": 1}]).sem_map("{id}?", returns=returns)


def test_the_path_of_a_part_may_name_the_list() -> None:
    kind = "list<struct<b: string>>"
    for path in ("a.b", "a[].b"):
        returns = {"a": kind, path: {"maxLength": 3, "describe": "a word"}}
        node: Any = table([{"id": 1}]).sem_map("{id}?", returns=returns).node
        assert node.prompt.first.describe == (("a.b", "a word (at most 3 characters)"),)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"minimum": 0, "maximum": 150}, "from 0 to 150"),
        ({"minimum": 1}, "at least 1"),
        ({"exclusiveMinimum": 0, "multipleOf": 5}, "more than 0, a multiple of 5"),
        ({"minLength": 1, "maxLength": 3}, "from 1 to 3 characters"),
        ({"pattern": "^a"}, "of the pattern ^a"),
        ({"maxItems": 2, "default": []}, "at most 2 entries, default: []"),
    ],
)
def test_limits_in_words(limits: dict[str, Any], words: str) -> None:
    numbers = {"minimum", "exclusiveMinimum"} & limits.keys()
    kind = "int64" if numbers else "list<int64> null" if "maxItems" in limits else "string null"
    assert limits_of(limits, parse_type(kind))
    assert in_words(limits) == words


_KEYWORDS = {
    "minimum": "ge", "maximum": "le", "exclusiveMinimum": "gt", "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of", "minLength": "min_length", "maxLength": "max_length", "pattern": "pattern",
}  # fmt: skip


def agree(kind: str, python: Any, limits: dict[str, Any], value: Any) -> None:
    """A value meets limits where Pydantic says so."""
    field = Field(**{_KEYWORDS[key]: limit for key, limit in limits.items()})
    try:
        TypeAdapter(Annotated[python, field]).validate_python(value, strict=True)
    except ValidationError:
        right = False
    else:
        right = True
    own = dataclasses.replace(parse_type(kind), limits=limits_of(limits, parse_type(kind)))
    assert meets(own, value) == right


_INTS = st.integers(-20, 20) | st.integers(-(2**63), 2**63 - 1)
_FLOATS = st.integers(-200, 200).map(lambda n: n / 10) | st.floats(
    allow_nan=False, allow_infinity=False
)
_RANGES = st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"])


@given(_INTS, st.dictionaries(_RANGES, _INTS, max_size=2), st.none() | st.integers(1, 10**6))
@example(1_000_000_000_001, {}, 1_000_000)
def test_limits_of_whole_numbers_are_those_of_pydantic(
    value: int, limits: dict[str, Any], step: int | None
) -> None:
    agree("int64", int, {**limits, **({} if step is None else {"multipleOf": step})}, value)


@given(
    _FLOATS,
    st.dictionaries(_RANGES, _FLOATS, max_size=2),
    st.none() | st.sampled_from([0.1, 0.5, 3.0]),
)
@example(7.341287988070131e34, {}, 0.1)
def test_limits_of_numbers_are_those_of_pydantic(
    value: float, limits: dict[str, Any], step: float | None
) -> None:
    agree("double", float, {**limits, **({} if step is None else {"multipleOf": step})}, value)


@given(
    st.text(max_size=6),
    st.dictionaries(st.sampled_from(["minLength", "maxLength"]), st.integers(0, 6)),
    st.none() | st.sampled_from(["^a", "b$", "[0-9]+", "^.$", r"\d", r"\w+$", "^$"]),
)
@example("a\n", {}, "^a$")
def test_limits_of_texts_are_those_of_pydantic(
    value: str, limits: dict[str, Any], pattern: str | None
) -> None:
    agree("string", str, {**limits, **({} if pattern is None else {"pattern": pattern})}, value)


def test_a_file_cannot_name_a_class() -> None:
    returns = {"a": "string", "": {"class": "os:system"}}
    with pytest.raises(PlanError, match="a file cannot name the class that validates answers"):
        table([{"id": 1}]).sem_map("{id}?", returns=returns)


def test_types_without_pydantic_do_not_import_it() -> None:
    code = (
        "import semgraph as sg, sys; from typing import Literal;"
        "sg.table([{'id': 1}]).sem_map('{id}?', returns={'a': list[str], 'b': Literal['x']});"
        "assert 'pydantic' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_typed_dicts_of_the_standard_library_work_or_say_what_to_use() -> None:
    class Plain(typing.TypedDict):
        city: str

    assert answer_types({"a": list[Plain]}) == {"a": "list<struct<city: string>>"}
    assert answer_types(Plain) == {"city": "string"}

    class Partial(typing.TypedDict):
        note: NotRequired[str]

    if sys.version_info < (3, 12):
        with pytest.raises(PlanError, match="use `typing_extensions.TypedDict`"):
            table([{"id": 1}]).sem_map("{id}?", returns=Partial)
    else:
        assert answer_types(Partial) == {"note": "string null"}


def test_hints_name_what_to_write() -> None:
    with pytest.raises(PlanError, match=re.escape("or a list of a model with two fields")):
        table([{"id": 1}]).sem_map("{id}?", returns={"a": dict[str, int]})
