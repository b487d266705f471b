"""Mem0g: beside the memories a graph in which a relation that is over stays, with its end."""

from __future__ import annotations

import json

import pytest

from benchmarks.memories.conversations import of_world
from benchmarks.world import Fault, StandIn
from benchmarks.world.answers.memory import ROWS
from tests.memories.conftest import both_stores, turn

MOVES = (
    turn(1, "I live in Oslo."),
    turn(2, "I live in Riga. I know Ada Costa.", "Ben Ito"),
    turn(40, "I have moved to Riga."),
)
THEN, NOW = "Where did Ada Costa live in January 2025?", "Where does Ada Costa live?"


def relations(rows):
    """The texts of relations, each with the day of its end."""
    return {row["text"]: row["invalid_at"] and f"{row['invalid_at']:%Y-%m-%d}" for row in rows}


@pytest.mark.nightly
async def test_the_graph_remembers_the_past_that_memories_forget(memory):
    told, mem0g = of_world(1), memory("mem0g")
    await mem0g.tell(*map(dict, told.turns))  # it calls the write plan of Mem0
    few = {"k": 10}  # of about 50 memories
    memories = await memory("mem0").by_kind(told, params=few)
    one = await mem0g.by_kind(told, params=few)
    two = await mem0g.by_kind(told, params={**few, "further": 1})
    for kind in ("then", "before"):
        assert one[kind] > memories[kind] + 0.4
    assert one["now"] == 1
    assert two["two hops"] > one["two hops"] + 0.3


@both_stores
async def test_a_relation_that_is_over_stays_with_its_end_on_both_stores(memory):
    mem0g = memory("mem0g")
    await mem0g.tell(*MOVES)
    assert relations(await mem0g.rows("RELATES")) == {
        "Ada Costa lives in Oslo": "2025-02-10",
        "Ben Ito lives in Riga": None,
        "Ben Ito knows Ada Costa": None,
        "Ada Costa has moved to Riga": None,
    }
    entities = await mem0g.rows("Entity")
    assert {row["name"]: row["type"] for row in entities} == {
        "Ada Costa": "person", "Ben Ito": "person", "Oslo": "place", "Riga": "place",
    }  # fmt: skip
    assert sorted(row["text"] for row in await mem0g.rows("Memory")) == [
        "Ada Costa has moved to Riga.", "Ben Ito knows Ada Costa.", "Ben Ito lives in Riga.",
    ]  # fmt: skip
    then, now, unknown = await mem0g.ask(THEN, NOW, "Where does Katya Brandt work?")
    assert (then["answer"], then["evidence"]) == ("Oslo", ["t1"])
    assert (now["answer"], now["evidence"]) == ("Riga", ["t40"])
    assert (unknown["answer"], unknown["evidence"]) == (None, [])


async def test_without_the_resolver_nothing_ends(memory):
    mem0g = memory("mem0g")
    await mem0g.tell(*MOVES, params={"ending": False})
    assert set(relations(await mem0g.rows("RELATES")).values()) == {None}


async def test_a_relation_of_one_pair_can_end_another_of_it(memory):
    mem0g = memory("mem0g")
    await mem0g.tell(turn(1, "I live in Oslo."), turn(2, "I have moved to Riga."))
    ends = relations(await mem0g.rows("RELATES"))
    assert ends == {"Ada Costa lives in Oslo": "2025-01-03", "Ada Costa has moved to Riga": None}


async def test_a_relation_that_is_told_again_is_one_until_it_has_ended(memory):
    mem0g = memory("mem0g")
    said = ("I live in Oslo.", "I live in Oslo.", "I live in Riga.", "I live in Oslo.")
    for day, text in enumerate(said, start=1):
        await mem0g.tell(turn(day, text))
    rows = [row for row in await mem0g.rows("RELATES") if "Oslo" in row["text"]]
    assert sorted(row["turns"] for row in rows) == [["t1", "t2"], ["t4"]]
    assert sorted(f"{row['invalid_at']}"[:10] for row in rows) == ["2025-01-04", "None"]


async def test_days_that_a_message_names_are_kept_with_the_relation(memory):
    mem0g = memory("mem0g")
    past = "I worked at Acme from 2019-01-01 to 2020-02-02."
    for day, text in enumerate(
        ("I work at Luma.", "I work at Luma since 2024-03-01.", past), start=1
    ):
        await mem0g.tell(turn(day, text))
    assert relations(await mem0g.rows("RELATES")) == {
        "Ada Costa works at Luma since 2024-03-01": None,
        "Ada Costa worked at Acme from 2019-01-01 to 2020-02-02": None,
    }


async def test_a_late_turn_ends_nothing_that_was_said_after_it(memory):
    mem0g = memory("mem0g")
    await mem0g.tell(turn(9, "I live in Oslo."))
    await mem0g.tell(turn(1, "I live in Riga."))
    assert relations(await mem0g.rows("RELATES"))["Ada Costa lives in Oslo"] is None


async def test_no_request_shows_two_conversations(memory, model):
    mem0g = memory("mem0g")
    for day, (here, there) in enumerate((("Oslo", "Accra"), ("Gdansk", "Dakar")), start=1):
        await mem0g.tell(
            turn(day, f"I live in {here}."),
            turn(day + 2, f"I live in {there}.", conversation="other"),
        )
    (other,) = await mem0g.ask(NOW, conversation="other")
    assert other["answer"] == "Dakar"
    requests = [json.dumps(body["messages"]) for body in model.requests]
    shown = [
        {name for name in ("Oslo", "Gdansk", "Accra", "Dakar") if name in text} for text in requests
    ]
    assert {"Oslo", "Gdansk"} in shown
    assert {"Accra", "Dakar"} in shown
    assert all(names <= {"Oslo", "Gdansk"} or names <= {"Accra", "Dakar"} for names in shown)


async def test_blank_names_and_relations_are_left_out(memory, monkeypatch):
    triplets = [
        {"source": source, "relation": relation, "target": "Riga", "days": "\n", "message": 1}
        for source, relation in (("", "lives in"), ("Ada Costa", " \n"), ("Ada Costa", "lives in"))
    ]
    monkeypatch.setitem(ROWS, "triplets", lambda _: {"triplets": triplets})
    monkeypatch.setitem(ROWS, "names", lambda _: {"names": ["\n", "Ada Costa"]})
    mem0g = memory("mem0g")
    await mem0g.tell(turn(1, "I live in Riga."))
    assert {row["name"] for row in await mem0g.rows("Entity")} == {"Ada Costa", "Riga"}
    assert [row["text"] for row in await mem0g.rows("RELATES")] == ["Ada Costa lives in Riga"]
    assert [row["answer"] for row in await mem0g.ask(NOW)] == ["Riga"]


async def test_one_turn_without_relations_is_a_memory_at_most(memory):
    mem0g = memory("mem0g")
    result = await mem0g.tell(turn(1, "What a day."))
    assert not result.failed
    assert await mem0g.rows("RELATES") == await mem0g.rows("Entity") == []
    (answer,) = await mem0g.ask(NOW)
    assert answer["answer"] is None


@pytest.mark.parametrize("kind", ["prose", "truncated", "wrong_ids"])
async def test_a_pair_without_answers_is_reported_and_leaves_nothing_half_done(memory, kind):
    async with StandIn(faults=(Fault(kind, on=tuple(range(4, 60))),)) as broken:
        failed = (await memory("mem0g", broken).tell(*MOVES)).failed
    mem0g = memory("mem0g")
    assert failed
    kept = {turn for row in await mem0g.rows("Memory") for turn in row["turns"]}
    assert kept.isdisjoint({"t40"})
    await mem0g.tell(*MOVES)
    assert relations(await mem0g.rows("RELATES"))["Ada Costa lives in Oslo"] == "2025-02-10"
