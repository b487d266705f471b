"""The classes of Graphiti's documentation, as written there."""

from __future__ import annotations

import json
import warnings
from datetime import datetime
from typing import Any, Optional

import pytest
from pydantic import BaseModel, Field, PydanticDeprecatedSince20, model_validator, validator

from semgraph.errors import InputError
from tests.plans.conftest import Memory


class Person(BaseModel):
    """A person entity with biographical information."""

    age: Optional[int] = Field(None, description="Age of the person")  # noqa: UP045 - as there
    occupation: Optional[str] = Field(None, description="Current occupation")  # noqa: UP045
    location: Optional[str] = Field(None, description="Current location")  # noqa: UP045
    birth_date: Optional[datetime] = Field(None, description="Date of birth")  # noqa: UP045


class Company(BaseModel):
    """A business organization."""

    industry: str | None = Field(None, description="Primary industry")
    founded_year: int | None = Field(None, description="Year company was founded")
    headquarters: str | None = Field(None, description="Location of headquarters")
    employee_count: int | None = Field(None, description="Number of employees")


class Product(BaseModel):
    """A product or service."""

    category: str | None = Field(None, description="Product category")
    price: float | None = Field(None, description="Price in USD")
    release_date: datetime | None = Field(None, description="Product release date")


class Employment(BaseModel):
    """Employment relationship between a person and company."""

    position: str | None = Field(None, description="Job title or position")
    start_date: datetime | None = Field(None, description="Employment start date")
    end_date: datetime | None = Field(None, description="Employment end date")
    salary: float | None = Field(None, description="Annual salary in USD")
    is_current: bool | None = Field(None, description="Whether employment is current")


class Investment(BaseModel):
    """Investment relationship between entities."""

    amount: float | None = Field(None, description="Investment amount in USD")
    investment_type: str | None = Field(None, description="Type of investment")
    stake_percentage: float | None = Field(None, description="Percentage ownership")
    investment_date: datetime | None = Field(None, description="Date of investment")


class Partnership(BaseModel):
    """Partnership relationship between companies."""

    partnership_type: str | None = Field(None, description="Type of partnership")
    duration: str | None = Field(None, description="Expected duration")
    deal_value: float | None = Field(None, description="Financial value of partnership")


class IsPresidentOf(BaseModel):
    """Relationship between a person and the entity they are president of."""


ENTITY_TYPES = {"Person": Person, "Company": Company, "Product": Product}
EDGE_TYPES = {"Employment": Employment, "Investment": Investment, "Partnership": Partnership}
EDGE_TYPE_MAP = {
    ("Person", "Company"): ["Employment"],
    ("Company", "Company"): ["Partnership", "Investment"],
    ("Person", "Person"): ["Partnership"],
    ("Entity", "Entity"): ["Investment"],
}


def classes(**more: Any) -> dict[str, Any]:
    """The inputs of the page."""
    types = {"entity_types": ENTITY_TYPES, "edge_types": EDGE_TYPES, "signatures": EDGE_TYPE_MAP}
    return {**types, **more}


def fields_of(body: dict[str, Any]) -> dict[str, Any]:
    """The fields of the attributes in the answer schema of a request; {} without them."""
    text = json.dumps(body.get("response_format", {}))
    found = json.loads(text).get("json_schema", {}).get("schema", {}).get("properties", {})
    own: dict[str, Any] = found.get("attributes", {}).get("properties", {})
    return own


async def test_they_type_entities_and_facts_and_have_attributes(memory: Memory) -> None:
    result = await memory.hear("I work at Luma. I live in Rome.", **classes())
    graph = await memory.graph()
    assert [failure.error for failure in result.failed] == []
    assert graph.entity("Ann")["labels"] == ["Person"]
    assert graph.entity("Luma")["labels"] == ["Company"]
    assert "Employment" in {name for _, name, _ in graph.arrows}
    asked = [fields_of(request) for request in memory.model.requests]
    (person,) = [fields for fields in asked if "occupation" in fields]
    assert list(person) == ["age", "occupation", "location", "birth_date"]
    assert person["age"]["description"] == "Age of the person"
    words = [message["content"] for r in memory.model.requests for message in r["messages"]]
    assert any("A person entity with biographical information." in text for text in words)


async def test_excluded_types_and_classes_without_fields(memory: Memory) -> None:
    edges = {"edge_types": {"IS_PRESIDENT_OF": IsPresidentOf}}
    types = classes(**edges, signatures={("Person", "Company"): ["IS_PRESIDENT_OF"]})
    result = await memory.hear("I work at Luma.", params={"excluded": ["Company"]}, **types)
    assert not result.failed
    assert (await memory.graph()).names == ["Ann"]


async def test_names_of_the_map_without_a_class_are_left_out_with_a_note(memory: Memory) -> None:
    fallback = {**EDGE_TYPE_MAP, ("Entity", "Entity"): ["RELATES_TO", "Acquisition"]}
    result = await memory.hear("I work at Luma.", **classes(signatures=fallback))
    assert "Employment" in {name for _, name, _ in (await memory.graph()).arrows}
    (note,) = [note for note in result.notes if "RELATES_TO" in note]
    assert note == (
        "step types/sound_signatures: rows left out: 2 times, first: no edge type RELATES_TO, "
        "so its signatures mean nothing"
    )


async def test_a_validator_of_the_page_is_told_to_the_model(memory: Memory) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PydanticDeprecatedSince20)

        class Human(BaseModel):
            """A person."""

            town: str | None = Field(None, description="Where they live", max_length=1000)

            @validator("town")
            def validate_town(cls, v: str) -> str:
                if v == "Rome":
                    raise ValueError("Rome is no town")
                return v

    result = await memory.hear("I live in Rome.", entity_types={"Person": Human})
    (failure,) = result.failed
    assert failure.error == "check: town: Rome is no town"


async def test_a_validator_of_a_fact_changes_its_attributes(memory: Memory) -> None:
    class Job(Employment):
        """Employment relationship between a person and company."""

        @model_validator(mode="after")
        def check(self) -> Job:
            self.position = f"as {self.position}"
            return self

    await memory.hear("I work at Luma.", **classes(edge_types={**EDGE_TYPES, "Employment": Job}))
    graph = await memory.graph()
    (fact,) = [fact for fact in graph.facts if fact["name"] == "Employment"]
    assert json.loads(fact["attributes"])["position"].startswith("as ")


async def test_a_length_of_a_field_comes_before_that_of_all_attributes(memory: Memory) -> None:
    class Human(BaseModel):
        """A person."""

        town: str | None = Field(None, description="Where they live", max_length=20)
        employer: str | None = Field(None, description="Where they work")

    options: dict[str, Any] = {"entity_types": {"Person": Human}, "params": {"attribute_chars": 3}}
    await memory.hear("I work at Luma. I live in Rome.", **options)
    attributes = json.loads((await memory.graph()).entity("Ann")["attributes"])
    assert attributes == {"employer": "Lum", "town": "Rome"}


async def test_a_field_with_a_name_of_the_graph_is_refused(memory: Memory) -> None:
    class Customer(BaseModel):
        """A customer."""

        name: str | None = Field(None, description="The name")

    with pytest.raises(InputError, match='entity type "Customer"'):
        await memory.hear("I live in Rome.", entity_types={"Customer": Customer})
    assert memory.model.counters.calls == 0
