"""A-MEM: the model links notes, and new notes change what others are said to be about."""

from __future__ import annotations

import statistics
from contextlib import aclosing
from dataclasses import replace

import pytest

from benchmarks.memories.conversations import of_world
from benchmarks.world import Fault, StandIn
from semgraph.stores.sqlite.store import SqliteStore
from tests.memories.conftest import both_stores, turn

WORKS = "Where does Ada Costa work?"
SMALL = (
    turn(1, "I have joined Luma."),
    turn(2, "I live in Riga.", "Ben Ito"),
    turn(3, "I know Ben Ito."),
)


WORLDS = [of_world(world, count=72) for world in (1, 2, 3)]


async def f1(amem, kind, **read):
    """The mean F1 of a kind of question in three worlds."""
    asked = [
        replace(told, asked=[one for one in told.asked if one.kind == kind]) for told in WORLDS
    ]
    return statistics.fmean([(await amem.by_kind(told, params=read))[kind] for told in asked])


async def note(amem, key):
    (found,) = (row for row in await amem.rows("Note") if row["id"] == key)
    return found


@pytest.mark.nightly
async def test_without_links_or_evolution_fewer_questions_over_hops_are_answered(memory):
    amem, turns = memory("amem"), [dict(turn) for told in WORLDS for turn in told.turns]
    await amem.tell(*turns)
    whole = await f1(amem, "three hops")
    assert whole > await f1(amem, "three hops", links=0) + 0.2
    # as many tokens, of the nearest notes alone
    assert whole > await f1(amem, "three hops", links=0, k=18) + 0.1
    async with aclosing(SqliteStore(":memory:")) as store:
        fixed = memory("amem", kept=store)
        await fixed.tell(*turns, params={"evolve": False})
        assert whole > await f1(fixed, "three hops") + 0.1


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


@pytest.mark.parametrize(("links", "shown"), [(0, "51"), (1, "541"), (2, "5341"), (10, "51234")])
async def test_linked_notes_are_limited_in_all_and_each_note_brings_one(memory, links, shown):
    amem = memory("amem")
    said = (
        "I work at Luma.",
        "I live in Riga.",
        "I know Ben Ito.",
        "I lead Project Kite.",
        "I work at Luma now.",
    )
    await amem.tell(*(turn(day, text) for day, text in enumerate(said, start=1)))
    asked = {"conversation": "c", "id": "q", "question": WORKS, "at": None}
    result = await amem.run("read", {"params": {"k": 2, "links": links}}, questions=[asked])
    rows = sorted(result.tables["shown"].to_pylist(), key=lambda row: row["rank"])
    assert "".join(row["turns"][0].removeprefix("t") for row in rows) == shown
    assert "Keywords: Luma, works at" in rows[0]["text"]


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
