"""Types of answers in Python."""

from __future__ import annotations

import enum
from datetime import datetime
from typing import Any, Literal, TypedDict

import pytest
from pydantic import BaseModel, Field

from semgraph.errors import PlanError
from semgraph.frontend.frame import table
from semgraph.frontend.prompt_files import answer_types


class Part(BaseModel):
    name: str
    count: int | None


class Place(TypedDict):
    city: str


class Tone(enum.Enum):
    CALM = "calm"
    CROSS = "cross"


class Ticket(BaseModel):
    topic: str = Field(description="the product")
    tone: Literal["calm", "cross"]
    parts: list[Part]
    at: datetime | None = None


@pytest.mark.parametrize(
    ("returns", "written"),
    [
        ({"a": str, "b": int, "c": float}, {"a": "string", "b": "int64", "c": "double"}),
        ({"a": list[bool], "b": "date null"}, {"a": "list<boolean>", "b": "date null"}),
        ({"a": dict[str, Any], "b": Tone}, {"a": "json", "b": "enum<calm, cross>"}),
        ({"a": {"type": "string", "describe": "x"}}, {"a": {"type": "string", "describe": "x"}}),
        (Literal["yes", "no"], {"answer": "enum<yes, no>"}),
        (list[Part], {"answer": "list<struct<name: string, count: int64 null>>"}),
        ({"a": Place}, {"a": "struct<city: string>"}),
        (
            Ticket,
            {
                "topic": {"type": "string", "describe": "the product"},
                "tone": "enum<calm, cross>",
                "parts": "list<struct<name: string, count: int64 null>>",
                "at": "timestamp null",
            },
        ),
    ],
)
def test_types_of_python_are_written_as_plans_write_them(returns: Any, written: Any) -> None:
    assert answer_types(returns) == written


def test_a_frame_takes_them_and_its_plan_has_their_text() -> None:
    tickets = table([{"id": 1, "body": "It leaks."}], name="tickets")
    asked = tickets.sem_map("About {body}", returns=Ticket)
    assert asked.columns == ["id", "body", "topic", "tone", "parts", "at"]
    assert "the product" in asked.to_yaml()
    for made in (
        tickets.sem_filter("Is {body} long?", returns={"why": str}),
        tickets.sem_agg("{body}", by="id", returns={"why": str}),
        tickets.sem_join(tickets, "o", "{body} {o.body}?", returns={"why": str}),
    ):
        assert "why: string" in made.to_yaml()


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (bytes, "sem_map, returns, a: bytes is no type of an answer"),
        (Literal[1, 2], "sem_map, returns, a: (1, 2) are no values of an enum"),
        (str | int, "sem_map, returns, a: str | int is no type of an answer"),
    ],
)
def test_other_types_are_refused(kind: Any, problem: str) -> None:
    with pytest.raises(PlanError) as caught:
        table([{"id": 1}]).sem_map("{id}?", returns={"a": kind})
    assert str(caught.value).startswith(problem)
