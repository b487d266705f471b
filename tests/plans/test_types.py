"""Types of the user's own: entities and facts of them, their attributes, and what is wrong with
what is said of types.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.world import StandIn
from semgraph.errors import InputError
from tests.plans.conftest import Memory

Remember = Callable[[StandIn], Memory]
PERSON = {
    "name": "Person",
    "description": "a human being",
    "fields": json.dumps(
        {"employer": {"type": "string null", "describe": "where they work"}, "town": "string null"}
    ),
}
CITY = {"name": "City", "description": "a town"}
WORKS = {
    "name": "EMPLOYMENT",
    "description": "a job",
    "fields": json.dumps({"employer": "string null"}),
}
LIVES = {"name": "HOME", "description": "where somebody lives"}
JOINS = [{"source": "Person", "target": "City", "relation": "HOME"}]


async def hear(memory: Memory, *said: str | dict[str, Any], **options: Any) -> Any:
    options = {"entity_types": [PERSON, CITY], **options}
    return await memory.hear(*said, **options)


def attributes(row: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(row["attributes"])
    return found


async def test_entities_have_the_label_of_their_type_and_its_attributes(memory: Memory) -> None:
    result = await hear(memory, "I work at Luma. I live in Rome.")
    graph = await memory.graph()
    assert not result.failed
    assert {e["name"]: e["labels"] for e in graph.entities} == {
        "Ann": ["Person"],
        "Luma": [],
        "Rome": ["City"],
    }
    assert attributes(graph.entity("Ann")) == {"employer": "Luma", "town": "Rome"}
    assert attributes(graph.entity("Rome")) == {}, "a type without fields is not asked about"
    assert memory.model.calls["attributes"] == 1


@pytest.mark.parametrize(
    "way", [{}, {"use": {"resolve": "resolve_apart(types=same)"}}, {"preset": "bulk"}]
)
async def test_a_person_and_a_city_of_one_name_are_two_entities(
    memory: Memory, way: dict[str, Any]
) -> None:
    await hear(memory, "I live in Paris.", "Paris works at Luma.", **way)
    graph = await memory.graph()
    assert sorted((e["name"], *e["labels"]) for e in graph.entities) == [
        ("Ann", "Person"),
        ("Luma",),
        ("Paris", "City"),
        ("Paris", "Person"),
    ]
    assert graph.arrows == [("Ann", "LIVES_IN", "Paris"), ("Paris", "WORKS_AT", "Luma")]


async def test_what_is_told_overlays_what_is_known_and_blanks_keep_it(memory: Memory) -> None:
    await hear(memory, "I work at Luma.", "I live in Rome.")
    assert attributes((await memory.graph()).entity("Ann")) == {"employer": "Luma", "town": "Rome"}
    await hear(memory, "I moved to Oslo.")
    assert attributes((await memory.graph()).entity("Ann")) == {"employer": "Luma", "town": "Oslo"}


async def test_texts_among_attributes_are_cut(memory: Memory) -> None:
    await hear(memory, "I work at Luma.", params={"attribute_chars": 3})
    assert attributes((await memory.graph()).entity("Ann")) == {"employer": "Lum"}


async def test_a_bare_entity_takes_the_type_that_it_is_mentioned_with_and_a_typed_one_keeps_its_own(
    memory: Memory,
) -> None:
    await memory.hear("I live in Rome.")
    assert (await memory.graph()).entity("Rome")["labels"] == []
    await hear(memory, "I still live in Rome.")
    assert (await memory.graph()).entity("Ann")["labels"] == ["Person"]
    await hear(
        memory, "I live in Rome.", entity_types=[{"name": "Human", "description": "a human being"}]
    )
    assert (await memory.graph()).entity("Ann")["labels"] == ["Person"]


async def test_facts_of_a_type_have_its_name_and_attributes(memory: Memory) -> None:
    await hear(
        memory, "I work at Luma. I live in Rome.", edge_types=[WORKS, LIVES], signatures=JOINS
    )
    graph = await memory.graph()
    assert [name for _, name, _ in graph.arrows] == ["EMPLOYMENT", "HOME"]
    assert attributes(graph.fact("Ann works")) == {"employer": "Luma"}
    assert attributes(graph.fact("Ann lives")) == {}


async def test_a_type_of_facts_joins_only_what_it_was_said_to_join(memory: Memory) -> None:
    wrong = [{"source": "City", "target": "Person", "relation": "HOME"}]
    await hear(
        memory, "I live in Rome. I work at Luma.", edge_types=[LIVES, WORKS], signatures=wrong
    )
    assert [name for _, name, _ in (await memory.graph()).arrows] == ["EMPLOYMENT", "RELATES_TO"]


async def test_strict_types_keep_only_facts_of_these_types_between_what_they_join(
    memory: Memory,
) -> None:
    strict: dict[str, Any] = {"edge_types": [LIVES], "params": {"strict_types": True}}
    await hear(memory, "I live in Rome. I work at Luma.", signatures=JOINS, **strict)
    assert [name for _, name, _ in (await memory.graph()).arrows] == ["HOME"]
    wrong = [{"source": "City", "target": "Person", "relation": "HOME"}]
    await hear(memory, memory.episode("Bob(user): I live in Oslo."), signatures=wrong, **strict)
    assert [name for _, name, _ in (await memory.graph()).arrows] == ["HOME"]


async def test_strict_types_without_types_of_facts_forbid_nothing(memory: Memory) -> None:
    await memory.hear("I live in Rome.", params={"strict_types": True})
    assert len((await memory.graph()).facts) == 1


async def test_entities_of_an_excluded_type_and_their_facts_are_left_out(memory: Memory) -> None:
    result = await hear(memory, "I work at Luma. I live in Rome.", params={"excluded": ["City"]})
    graph = await memory.graph()
    assert (graph.names, [f["fact"] for f in graph.facts]) == (
        ["Ann", "Luma"],
        ["Ann works at Luma."],
    )
    assert result.tables["excluded"].to_pylist() == [{"excluded": "City"}]


@pytest.mark.parametrize("source", ["text", "fact_triple", "json"])
async def test_other_sources_are_asked_in_words_of_their_own(memory: Memory, source: str) -> None:
    said = {
        "text": "Ann works at Luma.",
        "fact_triple": "Ann works at Luma.",
        "json": '{"note": "Ann works at Luma."}',
    }
    await memory.hear(memory.episode(said[source], source=source))
    graph = await memory.graph()
    assert (graph.names, [f["fact"] for f in graph.facts]) == (
        ["Ann", "Luma"],
        ["Ann works at Luma."],
    )
    asked = memory.model.requests[0]["messages"][1]["content"]
    assert asked.startswith("Record: " if source == "json" else "Text: ")
    assert graph.episodes[0]["source"] == source


async def test_one_call_for_both_knows_types_too(memory: Memory) -> None:
    await hear(memory, "I live in Rome.", edge_types=[LIVES], signatures=JOINS, preset="combined")
    graph = await memory.graph()
    assert graph.entity("Rome")["labels"] == ["City"]
    assert [name for _, name, _ in graph.arrows] == ["HOME"]
    assert memory.model.calls["entities facts"] == 1


async def test_who_uses_no_types_is_asked_as_before(memory: Memory) -> None:
    await memory.hear("I live in Rome.")
    asked = [m["content"] for r in memory.model.requests for m in r["messages"]]
    assert not any("Types" in text or "types" in text for text in asked)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"signatures": [{"source": "Persn", "target": "City", "relation": "HOME"}]},
            "no entity type Persn",
        ),
        (
            {"signatures": [{"source": "Person", "target": "Town", "relation": "HOME"}]},
            "no entity type Town",
        ),
        ({"entity_types": [{**PERSON, "fields": '{"summary": "string"}'}]}, 'entity type "Person"'),
        ({"entity_types": [{**PERSON, "fields": '["a"]'}]}, "entity_types: fields is no schema"),
        ({"entity_types": [{**PERSON, "name": "A person"}]}, 'entity type "A person"'),
        ({"entity_types": [{**PERSON, "name": "Entity"}]}, 'entity type "Entity"'),
        ({"edge_types": [{**LIVES, "fields": '{"valid_at": "timestamp"}'}]}, 'edge type "HOME"'),
        (
            {"params": {"excluded": ["Persn", "City"]}},
            "excluded: unknown type Persn. Types: Entity, Person, City",
        ),
    ],
)
async def test_what_is_wrong_with_types_is_told_before_anything_is_asked(
    memory: Memory, wrong: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError) as caught:
        await hear(memory, "I live in Rome.", **{"edge_types": [LIVES], **wrong})
    assert said in str(caught.value)
    assert memory.model.counters.calls == 0


async def test_a_signature_of_no_type_is_left_out_with_a_note(memory: Memory) -> None:
    unknown = [{"source": "Person", "target": "City", "relation": "LIVES"}]
    result = await hear(memory, "I live in Rome.", edge_types=[LIVES], signatures=unknown)
    assert any("no edge type LIVES" in note for note in result.notes)
    assert [name for _, name, _ in (await memory.graph()).arrows] == ["HOME"]


async def test_an_excluded_type_where_no_types_are_given(memory: Memory) -> None:
    with pytest.raises(InputError, match="excluded: unknown type City. Types: Entity"):
        await memory.hear("I live in Rome.", params={"excluded": ["City"]})


async def test_a_fact_that_is_told_again_in_other_words_keeps_its_attributes_and_takes_new_ones(
    memory: Memory,
) -> None:
    job = {**WORKS, "fields": json.dumps({"employer": "string null", "town": "string null"})}
    await hear(memory, "I work at Luma.", edge_types=[job])
    assert attributes((await memory.graph()).fact("Ann works")) == {"employer": "Luma"}
    again = await hear(memory, "I work for Luma.", edge_types=[job])
    assert again.tables["repeated"].num_rows == 1
    assert memory.model.calls["attributes"] == 4, "of Ann and of the fact, each time"
    assert attributes((await memory.graph()).fact("Ann works"))["employer"] == "Luma"


async def test_a_fact_that_is_told_again_in_the_same_words_is_not_asked_about(
    memory: Memory,
) -> None:
    await hear(memory, "I work at Luma.", edge_types=[WORKS])
    asked = memory.model.calls["attributes"]
    again = await memory.hear("I work at Luma.", edge_types=[WORKS])
    assert again.tables["repeated"].num_rows == 1
    assert memory.model.calls["attributes"] == asked
