"""A-MEM: the model links notes, and new notes change what others are said to be about."""

from __future__ import annotations

import statistics

import pytest

from benchmarks.memories.conversations import of_world
from benchmarks.memories.measure import over_world
from benchmarks.memories.memories import memory as named
from benchmarks.world import Fault, StandIn
from tests.memories.conftest import both_stores, turn

WORKS = "Where does Ada Costa work?"
SMALL = (
    turn(1, "I have joined Luma."),
    turn(2, "I live in Riga.", "Ben Ito"),
    turn(3, "I know Ben Ito."),
)


async def f1(kind, write=None, read=None):
    """The mean F1 of a kind of question in three worlds."""
    found = []
    for world in (1, 2, 3):
        async with StandIn() as server:
            memory = named("amem", {"params": write or {}}, {"params": read or {}})
            told = await over_world(memory, of_world(world, count=72), server)
        found.append(told.score.by_kind[kind])
    return statistics.fmean(found)


async def note(amem, key):
    (found,) = (row for row in await amem.rows("Note") if row["id"] == key)
    return found


async def test_without_links_or_evolution_fewer_questions_over_hops_are_answered():
    whole = await f1("three hops")
    assert whole > await f1("three hops", read={"links": 0}) + 0.2
    assert whole > await f1("three hops", write={"evolve": False}) + 0.1
    as_much = {"links": 0, "k": 25}  # as many tokens, of the nearest notes alone
    assert whole > await f1("three hops", read=as_much) + 0.1


async def test_a_note_links_to_the_notes_that_name_the_same(memory):
    amem = memory("amem")
    result = await amem.tell(*SMALL)
    assert {(row["source"], row["target"]) for row in result.tables["links"].to_pylist()} == {
        ("t3", "t1"),
        ("t3", "t2"),
    }


async def test_a_linked_note_is_shown_with_the_note_that_was_found(memory):
    amem = memory("amem")
    await amem.tell(*SMALL)
    shown = []
    for count in (0, 10):
        (answer,) = await amem.ask(
            "Where does the one whom Ada Costa knows live?", params={"k": 1, "links": count}
        )
        shown.append((answer["answer"], set(answer["evidence"]) >= {"t2", "t3"}))
    assert shown == [(None, False), ("Riga", True)]


@pytest.mark.parametrize("evolve", [True, False])
async def test_a_new_note_changes_the_context_and_tags_of_those_it_links_to(memory, evolve):
    amem = memory("amem")
    await amem.tell(*SMALL, params={"evolve": evolve})
    first = await note(amem, "t1")
    assert ("Ben Ito" in first["context"], "friends" in first["tags"]) == (evolve, evolve)
    assert first["turns"] == (["t1", "t3"] if evolve else ["t1"])
    assert first["context"] in first["document"]
    assert first["text"] == "Ada Costa: I have joined Luma."


@both_stores
async def test_answers_rest_on_turns_on_both_stores(memory):
    amem = memory("amem")
    await amem.tell(*SMALL)
    works, unknown = await amem.ask(WORKS, "Where does Katya Brandt work?")
    assert (works["answer"], works["evidence"]) == ("Luma", ["t1", "t3"])
    assert (unknown["answer"], unknown["evidence"]) == (None, [])
    assert sorted((await note(amem, "t2"))["tags"]) == ["friends", "home"]


async def test_one_turn_alone_takes_one_call_and_answers(memory):
    amem = memory("amem")
    result = await amem.tell(SMALL[0])
    assert result.meter.total().calls_issued == 1
    (answer,) = await amem.ask(WORKS)
    assert (answer["answer"], answer["evidence"]) == ("Luma", ["t1"])


async def test_a_turn_that_comes_late_is_linked_and_answers_by_its_own_time(memory):
    amem = memory("amem")
    await amem.tell(turn(9, "I work at Luma."))
    await amem.tell(turn(1, "I work at Acme."))
    assert ("t1", "t9") in {(r["source"], r["target"]) for r in await amem.rows("LINKED")}
    (answer,) = await amem.ask(WORKS)
    assert answer["answer"] == "Luma"


async def test_conversations_do_not_know_each_other(memory):
    amem = memory("amem")
    await amem.tell(SMALL[0], {**SMALL[2], "conversation": "other"})
    assert await amem.rows("LINKED") == []
    (answer,) = await amem.ask(WORKS, conversation="other")
    assert (answer["answer"], answer["evidence"]) == (None, [])


@pytest.mark.parametrize("kind", ["prose", "truncated", "refusal"])
async def test_a_turn_without_an_answer_is_reported_and_read_by_the_next_run(memory, kind):
    async with StandIn(faults=(Fault(kind, rate=1.0),)) as broken:
        assert len((await memory("amem", broken).tell(*SMALL)).failed) == 3
    amem = memory("amem")
    assert await amem.rows("Note") == []
    result = await amem.tell(*SMALL)
    assert (result.committed, len(await amem.rows("Note"))) == (3, 3)


async def test_a_failure_half_way_loses_its_own_turn_only_and_the_next_run_adds_it(memory):
    async with StandIn(faults=(Fault("refusal", on=(4,)),)) as broken:
        first = await memory("amem", broken).tell(*SMALL)
    assert (len(first.failed), first.committed) == (1, 2)
    amem = memory("amem")
    second = await amem.tell(*SMALL)
    assert (second.skipped, second.committed) == (2, 1)
    assert {row["id"] for row in await amem.rows("Note")} == {"t1", "t2", "t3"}


async def test_numbers_of_no_note_make_no_link(memory):
    amem = memory("amem")
    await amem.tell(*SMALL[:2])
    async with StandIn(faults=(Fault("wrong_ids", on=(2,)),)) as broken:
        result = await memory("amem", broken).tell(SMALL[2])
    assert not result.failed
    assert await amem.rows("LINKED") == []
    assert {row["id"] for row in await amem.rows("Note")} == {"t1", "t2", "t3"}
