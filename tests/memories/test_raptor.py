"""RAPTOR: summaries of summaries hold what is said in fewer tokens than the turns."""

from __future__ import annotations

import random

import pytest

from benchmarks.memories.conversations import of_world, said_again
from benchmarks.memories.measure import over_world
from benchmarks.memories.memories import MEMORIES
from benchmarks.memories.memories import memory as shipped
from benchmarks.world import Fault, StandIn
from benchmarks.world.answers.gathering import GROUPS
from tests.memories.conftest import both_stores, turn

BEN = "Ben Ito"
TURNS = (
    turn(1, "I have joined Luma."),
    turn(2, "I live in Riga.", BEN),
    turn(3, "Ada Costa works at Luma.", BEN),
    turn(4, "I have moved to Riga."),
    turn(5, "I have joined Kestrel Labs.", BEN),
    turn(6, "I have left Luma. I have joined Kestrel Labs."),
    turn(7, "I have moved to Oslo.", BEN),
)
QUESTIONS = ("Where does Ada Costa work?", "Who has changed jobs?", "Where does Ben Ito live?")
ANSWERS = ["Kestrel Labs", "Ada Costa", "Oslo"]


def texts(passages, *conversations):
    return sorted(
        (row["level"], row["text"])
        for row in passages
        if not conversations or row["conversation"] in conversations
    )


@pytest.mark.nightly
async def test_where_people_repeat_themselves_the_tree_tells_more_in_fewer_tokens():
    told = said_again(of_world(2), 3)
    async with StandIn() as server:
        tree = await over_world(MEMORIES["raptor, top down"], told, server)
    async with StandIn() as server:
        leaves = shipped("raptor", {"params": {"levels": 0}}, {"params": {"tokens": 1000}})
        flat = await over_world(leaves, told, server)
    assert tree.read.tokens_in < flat.read.tokens_in
    assert tree.score.f1 > flat.score.f1 + 0.1
    assert tree.score.by_kind["global"] > flat.score.by_kind["global"] + 0.2


async def test_a_summary_rests_on_the_turns_below_it_and_the_top_on_all(memory):
    told, raptor = of_world(1), memory("raptor")
    assert not (await raptor.tell(*told.turns)).failed
    passages = {row["id"]: row for row in await raptor.rows("Passage")}
    summaries = [row for row in passages.values() if row["level"] > 0]
    assert max(row["level"] for row in summaries) >= 2
    for row in summaries:
        below = [passages[member] for member in row["members"]]
        assert row["level"] == 1 + max(one["level"] for one in below)
        assert set(row["turns"]) == {turn for one in below for turn in one["turns"]}
    top = set(passages) - {member for row in summaries for member in row["members"]}
    assert {t for one in top for t in passages[one]["turns"]} == {t["id"] for t in told.turns}


@both_stores
async def test_answers_rest_on_turns_on_both_stores(memory):
    raptor = memory("raptor")
    await raptor.tell(*TURNS)
    for preset in (None, "top_down"):
        answers = await raptor.ask(*QUESTIONS, preset=preset)
        assert [row["answer"] for row in answers] == ANSWERS
        assert "t6" in answers[0]["evidence"]


async def test_turns_without_letters_do_not_stop_the_tree(memory):
    raptor = memory("raptor")
    result = await raptor.tell(*TURNS, turn(8, "👍", "👩"), turn(9, "", ""))
    assert (result.committed, result.notes) == (9, ())
    told = {t for row in await raptor.rows("Passage") for t in row["turns"]}
    assert told == {*(row["id"] for row in TURNS), "t8"}, "an empty turn is no leaf"


async def test_one_turn_is_a_tree_without_a_call(memory):
    raptor = memory("raptor")
    result = await raptor.tell(TURNS[0])
    assert result.meter.total().calls_issued == 0
    assert texts(await raptor.rows("Passage")) == [(0, "Ada Costa: I have joined Luma.")]
    (answer,) = await raptor.ask("Where does Ada Costa work?")
    assert (answer["answer"], answer["evidence"]) == ("Luma", ["t1"])


async def test_a_long_turn_is_several_leaves_of_the_same_turn(memory):
    raptor = memory("raptor")
    talk = "The day was long. " * 6
    await raptor.tell(turn(1, f"{talk}I have joined Luma."), turn(2, "I have moved to Riga."))
    leaves = [row for row in await raptor.rows("Passage") if row["level"] == 0]
    assert [row["turns"] for row in leaves].count(["t1"]) == 2
    assert all(row["text"].startswith("Ada Costa: ") for row in leaves)


async def test_the_pieces_of_a_long_turn_are_summed_up_in_their_order(memory, model):
    raptor, cities = memory("raptor"), ["Oslo", "Riga", "Accra", "Dakar", "Gdansk", "Lisbon"]
    talk = " ".join(f"I have visited {city}." for city in cities)
    await raptor.tell(turn(1, talk), params={"sentences": 1})
    (asked,) = [body["messages"][-1]["content"] for body in model.requests]
    assert sorted(cities, key=asked.index) == cities


async def test_the_order_of_the_rows_does_not_matter(memory):
    raptor = memory("raptor")
    await raptor.tell(*TURNS)
    mixed = random.Random(1).sample(TURNS, len(TURNS))
    await raptor.tell(*({**one, "conversation": "mixed"} for one in mixed))
    passages = await raptor.rows("Passage")
    assert texts(passages, "mixed") == texts(passages, "c")


async def test_what_was_never_said_is_not_answered(memory):
    raptor = memory("raptor")
    await raptor.tell(*TURNS)
    answers = await raptor.ask("Where does Vera Lind live?", "When was Ada Costa born?")
    assert [(row["answer"], row["evidence"]) for row in answers] == [(None, []), (None, [])]


async def test_new_turns_build_the_tree_of_their_conversation_anew(memory):
    raptor = memory("raptor")
    await raptor.tell(*({**one, "conversation": "other"} for one in TURNS))
    await raptor.tell(*TURNS[:5])
    first = await raptor.rows("Passage")
    await raptor.tell(*TURNS[5:])
    passages = await raptor.rows("Passage")
    assert texts(passages, "c") != texts(first, "c")
    assert texts(passages, "c") == texts(passages, "other") == texts(first, "other")


async def test_a_write_that_stopped_half_way_writes_nothing_and_is_run_again(memory):
    told, raptor = of_world(1, 4, count=12), memory("raptor")
    assert (await memory("raptor", max_calls=1).tell(*told.turns)).stopped
    assert await raptor.rows("Passage") == []
    assert not (await raptor.tell(*told.turns)).stopped
    assert {t for row in await raptor.rows("Passage") for t in row["turns"]} == {
        row["id"] for row in told.turns
    }


@pytest.mark.parametrize("kind", ["prose", "truncated", "refusal"])
async def test_turns_without_a_summary_are_reported_and_written_by_the_next_run(memory, kind):
    async with StandIn(faults=(Fault(kind, on=tuple(range(1, 50))),)) as broken:
        raptor = memory("raptor", broken)
        result = await raptor.tell(*TURNS)
        failed = {t for one in result.failed for t in one.row["turns"]}
        written = {t for row in await raptor.rows("Passage") for t in row["turns"]}
        assert failed
        assert failed | written == {row["id"] for row in TURNS}
        assert not failed & written
    mended = memory("raptor")
    assert not (await mended.tell(*TURNS)).failed
    assert [row["answer"] for row in await mended.ask(*QUESTIONS)] == ANSWERS


async def test_turns_with_an_empty_summary_are_reported(memory, monkeypatch):
    monkeypatch.setitem(GROUPS, "sum_up_passages", lambda *_: {"summary": " \n"})
    raptor = memory("raptor")
    result = await raptor.tell(*TURNS[:2])
    assert {one.error for one in result.failed} == {"check: the summary is empty"}
    assert all(row["text"].strip() for row in await raptor.rows("Passage"))


async def test_numbers_of_missing_records_are_no_evidence(memory):
    await memory("raptor").tell(*TURNS)
    async with StandIn(faults=(Fault("wrong_ids", rate=1.0),)) as broken:
        (answer,) = await memory("raptor", broken).ask("Where does Ada Costa work?")
        assert answer["evidence"] == []
