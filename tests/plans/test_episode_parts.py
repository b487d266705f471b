"""The parts of add_episode by themselves, in corners that no story reaches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.conftest import Memory

HOW = ("resolve_apart", "resolve_together")


def name(uuid: str, episode: str, turn: int, text: str) -> dict[str, Any]:
    """A name in an episode of its own."""
    return {
        "uuid": uuid, "episode": episode, "group_id": "g", "turn": turn, "nth": 1, "name": text,
        "name_key": text.lower(), "content": "", "history": [], "type": "Entity",
    }  # fmt: skip


async def entities(memory: Memory, plan: str, **inputs: Any) -> dict[str, str]:
    result = await memory.run(plan, **inputs)
    return {row["uuid"]: row["entity"] for row in result.tables["named"].to_pylist()}


@pytest.mark.parametrize("plan", HOW)
async def test_an_end_of_a_fact_is_the_new_entity_that_another_episode_of_the_window_names(
    memory: Memory, plan: str
) -> None:
    names = [name("m1", "e1", 1, "Zed Corp"), name("m3", "e3", 3, "Yara Lim")]
    ends = [
        name("s2", "e2", 2, "Zed Corp"), name("s1", "e1", 1, "Yara Lim"),
        name("s4", "e4", 4, "ZED CORP"), name("s5", "e5", 5, "Cy Fox"),
    ]  # fmt: skip
    entity = await entities(memory, plan, names=names, strays=ends)
    assert entity["m1"] == entity["s2"] == entity["s4"]
    assert entity["m3"] == entity["s1"]
    assert len(set(entity.values())) == 3


@pytest.mark.parametrize("plan", HOW)
async def test_an_end_of_a_fact_stays_in_its_group(memory: Memory, plan: str) -> None:
    other = {**name("s1", "f1", 2, "Zed Corp"), "group_id": "h"}
    names = [name("m1", "e1", 1, "Zed Corp")]
    assert await entities(memory, plan, names=names, strays=[other]) == {"m1": "m1", "s1": "s1"}


STATED = {
    "episode": "e1", "group_id": "g", "turn": 1, "said_at": "2025-01-15T09:00:00Z",
    "relation": "SEES", "typed": False, "content": "", "history": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("excluded", "facts", "strays"),
    [([], ["Ann sees Luma.", "Ann sees Zed."], ["zed"]), (["Entity"], ["Ann sees Luma."], [])],
)
async def test_ends_without_a_type_are_dropped_with_the_names_without_one(
    memory: Memory, excluded: list[str], facts: list[str], strays: list[str]
) -> None:
    ends = [("Ann", "Luma"), ("Ann", "Zed"), ("Bag", "Ann")]
    stated = [
        {**STATED, "nth": n, "source": a, "target": b, "fact": f"{a} sees {b}."}
        for n, (a, b) in enumerate(ends)
    ]
    wanted = {"ann": True, "luma": True, "bag": False}
    names = [{"episode": "e1", "name_key": key, "wanted": want} for key, want in wanted.items()]
    params = {"excluded": excluded}
    result = await memory.run("claims_of", stated=stated, names=names, params=params)
    assert result.tables["claims"].column("fact").to_pylist() == facts
    assert result.tables["strays"].column("name_key").to_pylist() == strays
