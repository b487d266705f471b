"""Which names are one entity."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

import pytest

from semgraph.expr.functions import key
from semgraph.llm.tokens import TokenCounter
from tests.plans.conftest import Memory, both_stores
from tests.stores.test_names import NAMES, forms


async def given(memory: Memory, *entities: tuple[str, str]) -> None:
    """Entities with summaries that are in the graph already."""
    rows: list[dict[str, Any]] = [
        {"uuid": f"u{i}", "group_id": "g", "name": name, "summary": summary}
        for i, (name, summary) in enumerate(entities)
    ]
    await memory.run(memory.here("given.yaml"), entities=rows)


async def test_a_name_without_candidates_is_new_and_costs_nothing(memory: Memory) -> None:
    await memory.hear("I live in Rome.")
    assert (await memory.graph()).names == ["Ann", "Rome"]
    assert memory.model.calls["match"] == 0


@pytest.mark.parametrize("spelling", ["Project Kite", "PROJECT  KITE", "project kite"])
async def test_a_name_that_one_entity_bears_is_that_entity(memory: Memory, spelling: str) -> None:
    await given(memory, (spelling, ""))
    await memory.hear("I lead Project Kite.")
    graph = await memory.graph()
    assert graph.names == sorted(["Ann", spelling])
    assert graph.mentioned(spelling) == 1
    assert memory.model.calls["match"] == 0


async def test_a_long_name_with_a_slip_is_the_same_name(memory: Memory) -> None:
    await given(memory, ("Jonathan Featherstone", ""))
    await memory.hear("I know Jonathan Featherstones.")
    assert (await memory.graph()).names == ["Ann", "Jonathan Featherstone"]
    assert memory.model.calls["match"] == 0


async def test_a_short_form_is_asked_about(memory: Memory) -> None:
    await given(memory, ("Alice Chen", "Alice Chen works at Luma."))
    await memory.hear("I know Alice.")
    graph = await memory.graph()
    assert graph.names == ["Alice Chen", "Ann"]
    assert graph.entity("Alice Chen")["summary"] == "Alice Chen works at Luma.\nAnn knows Alice."
    assert memory.model.calls["match"] == 1


async def test_a_name_that_is_like_another_is_asked_about_and_may_be_new(memory: Memory) -> None:
    await given(memory, ("Alice Chen", ""))
    await memory.hear("I know Alice Meyer.")
    assert (await memory.graph()).names == ["Alice Chen", "Alice Meyer", "Ann"]
    assert memory.model.calls["match"] == 1


@both_stores
async def test_two_entities_of_one_name_are_told_apart_by_what_is_known_of_them(
    memory: Memory,
) -> None:
    await given(memory, ("Sam", "Sam works at Luma."), ("Sam", "Sam plays the cello."))
    await memory.hear("Yesterday Sam broke his cello.")
    graph = await memory.graph()
    assert graph.names == ["Ann", "Sam", "Sam"]
    (mention,) = (m for m in graph.mentions if m["target"] in {"u0", "u1"})
    assert mention["target"] == "u1"


async def test_two_entities_of_one_name_and_neither_meant_make_a_third(memory: Memory) -> None:
    await given(memory, ("Sam", "Sam works at Luma."), ("Sam", "Sam plays the cello."))
    await memory.hear("My dog is called Sam.")
    assert (await memory.graph()).names == ["Ann", "Sam", "Sam", "Sam"]


async def test_all_doubts_of_an_episode_are_one_call(memory: Memory) -> None:
    await given(memory, ("Alice Chen", ""), ("Bob Marsh", ""), ("Carla Gomez", ""))
    await memory.hear("Alice, Bob, Carla met.")
    assert (await memory.graph()).names == ["Alice Chen", "Ann", "Bob Marsh", "Carla Gomez"]
    assert memory.model.calls["match"] == 1


async def test_an_end_of_a_fact_that_is_no_name_becomes_an_entity(memory: Memory) -> None:
    await memory.hear("I work at acme labs.")
    graph = await memory.graph()
    assert graph.arrows == [("Ann", "WORKS_AT", "acme labs")]
    assert graph.mentioned("acme labs") == 1


async def test_such_an_end_is_resolved_as_names_are(memory: Memory) -> None:
    await given(memory, ("Acme Labs", "Acme Labs makes anvils."))
    await memory.hear("I work at acme labs.")
    assert (await memory.graph()).arrows == [("Ann", "WORKS_AT", "Acme Labs")]


async def test_an_entity_keeps_the_name_that_it_has(memory: Memory) -> None:
    await memory.hear("I lead Project Kite.", "I like PROJECT KITE.")
    assert (await memory.graph()).names == ["Ann", "Project Kite"]


@both_stores
async def test_a_name_in_any_script_and_form_is_that_entity(memory: Memory) -> None:
    names = list({key(name): name for _, name in NAMES}.values())
    await given(memory, *((unicodedata.normalize("NFC", name), "") for name in names))
    asked = [(n, form) for n, name in enumerate(names) for form in forms(name)]
    mentions = [
        {"uuid": f"m{i}", "episode": "e", "group_id": "g", "turn": 1, "nth": i, "name": form}
        | {"name_key": key(form), "content": form, "history": []}
        for i, (_, form) in enumerate(asked)
    ]
    found = (await memory.run("resolve_entities", of=mentions)).tables["named"].to_pylist()
    entities = {row["uuid"]: row["entity"] for row in found}
    assert [name for i, (n, name) in enumerate(asked) if entities[f"m{i}"] != f"u{n}"] == []
    assert memory.model.calls["match"] == 0


APART = [
    ("Samsung Galaxy S10", "Samsung Galaxy S10e"), ("Super Bowl LVII", "Super Bowl LVIII"), ("Project Apollo", "Project Apollo-X"),
    ("Visual C#", "Visual C++"), ("Visual C#", "Visual C"), ("Microsoft Visual Studio C#", "Microsoft Visual Studio C"),
    ("Microsoft Windows Server 2012", "Microsoft Windows Server 2016"), ("Python 3.5", "Python 35"), ("Framework .NET", "Framework Net"),
    ("Creditworthiness Rating A-", "Creditworthiness Rating A"), ("Johnson & Johnson", "Johnson Johnson"), ("Disney+", "Disney"),
    ("Dynasty Warriors Chapter VII", "Dynasty Warriors Chapter VIII"), ("Vaccination against Hepatitis A", "Vaccination against Hepatitis B"),
    ("Cost in $ of Oil", "Cost in € of Oil"), ("Channel #general", "Channel @general"),
]  # fmt: skip
SAME = [
    ("Jean-Pierre Martin", "Jean Pierre Martin"), ("J. R. R. Tolkien", "J.R.R. Tolkien"), ("Node.js Foundation", "Nodejs Foundation"),
    ("Covid-19 Vaccine", "COVID 19 vaccine"), ("Luma (Ltd.)", "Luma Ltd"), ("Leonardo di Caprio", "Leonardo DiCaprio"),
    ("Jonathan Featherstone", "Jonathan Featherstones"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other"),
    [*APART, *(pytest.param(*pair[::-1], marks=pytest.mark.nightly) for pair in APART)],
)
async def test_names_that_differ_in_a_sign_or_number_are_asked_about(
    memory: Memory, one: str, other: str
) -> None:
    assert await asked(memory, one, other) == 1


@pytest.mark.parametrize(("one", "other"), SAME)
async def test_signs_between_words_do_not_tell_names_apart(
    memory: Memory, one: str, other: str
) -> None:
    assert await asked(memory, one, other) == 0


async def asked(memory: Memory, stored: str, name: str) -> int:
    """The questions about a mention while an entity is stored."""
    await given(memory, (stored, ""))
    mention = {
        "uuid": "m", "episode": "e", "group_id": "g", "turn": 1, "nth": 1, "name": name, "name_key": key(name),
        "content": name, "history": [],
    }  # fmt: skip
    await memory.run("resolve_entities", of=[mention])
    return memory.model.calls["match"]


TYPES = [
    {"name": "Planet", "description": "a body that orbits a star"},
    {"name": "Singer", "description": "who sings"},
]


async def typed(memory: Memory, **more: Any) -> None:
    """A planet in the graph."""
    planet = {"uuid": "u0", "group_id": "g", "name": "Mercury", "labels": ["Planet"]}
    await memory.run("save_nodes", entities=[{**planet, "summary": "", **more}])


def mentioned(kind: str, name: str = "Mercury") -> dict[str, Any]:
    """A mention of a type."""
    return {
        "uuid": "m", "episode": "e", "group_id": "g", "turn": 1, "nth": 1, "name": name, "name_key": key(name),
        "content": f"{name} is great.", "history": [], "type": kind,
    }  # fmt: skip


async def resolved(memory: Memory, *mention: str, **params: Any) -> str:
    """The entity of a mention."""
    rows = [mentioned(*mention)]
    found = await memory.run("resolve_entities", of=rows, known_types=TYPES, params=params)
    (row,) = found.tables["named"].to_pylist()
    return str(row["entity"])


@both_stores
async def test_two_things_of_one_name_and_two_types_are_told_apart(memory: Memory) -> None:
    await typed(memory)
    assert await resolved(memory, "Singer") == "m"
    assert memory.model.calls["match"] == 1
    assert await resolved(memory, "Planet") == "u0"
    assert await resolved(memory, "Entity") == "u0"
    assert memory.model.calls["match"] == 1, "spelling decides where no type speaks against it"


@both_stores
async def test_an_entity_of_another_type_may_be_no_candidate(memory: Memory) -> None:
    await typed(memory)
    for kind, entity in (("Singer", "m"), ("Planet", "u0"), ("Entity", "u0")):
        assert await resolved(memory, kind, types="same") == entity
    assert await resolved(memory, "Singer", "Mercury One", types="same") == "m"
    assert memory.model.calls["match"] == 0


async def test_types_are_any_or_same(memory: Memory) -> None:
    found = await memory.run(
        "resolve_entities", of=[mentioned("Singer")], params={"types": "equal"}
    )
    assert [failed.error for failed in found.failed] == ["types is any or same"]


@both_stores
async def test_the_model_may_decide_about_names_that_are_spelled_alike(memory: Memory) -> None:
    await typed(memory)
    assert await resolved(memory, "Planet", spelling=False) == "u0"
    assert memory.model.calls["match"] == 1


async def test_the_model_sees_types_attributes_and_the_whole_summary(memory: Memory) -> None:
    summary = "Mercury is the first planet. " + "It has no moon. " * 30 + "It is hot."
    held = {"radius": 2440, "a/b~c": "x", "_checked": "yes"}
    await typed(memory, summary=summary, attributes=json.dumps(held))
    await resolved(memory, "Singer")
    shown = memory.model.requests[-1]["messages"][-1]["content"]
    for text in (
        "Singer: who sings",
        "Planet: a body that orbits a star",
        "radius: 2440",
        "a/b~c: x",
        summary,
    ):
        assert text in shown
    assert "_checked" not in shown


async def test_what_is_shown_of_an_entity_takes_at_most_300_tokens(memory: Memory) -> None:
    await typed(memory, summary="Much is said of it. " * 400, attributes='{"radius": 2440}')
    await resolved(memory, "Singer")
    shown = memory.model.requests[-1]["messages"][-1]["content"]
    known = shown[shown.index("Known entity") :]
    assert "radius: 2440" in known
    assert 200 < TokenCounter("gpt-4.1-mini").count(known) <= 300
