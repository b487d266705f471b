"""LightMem: packs of turns are read with one call; while nobody asks, later entries change earlier ones."""

from __future__ import annotations

import pytest

from benchmarks.memories.conversations import of_world
from benchmarks.memories.measure import over_world
from benchmarks.memories.memories import memory as named
from benchmarks.world import Fault, StandIn
from benchmarks.world.answers.memory import ROWS
from tests.memories.conftest import both_stores, turn

WORKS, LIVES = "Where does Ada Costa work?", "Where does Ada Costa live?"
ALIKE = {"alike": 0.3}
"""The vectors of the simulated model compare words: other words for one matter are less alike."""
TOLD = (
    turn(1, "I live in Riga. I work at Luma."),
    turn(2, "I have moved to Oslo."),
    turn(3, "I work at Luma since 2024-05-01."),
)


async def sleep(lightmem, *conversations, **params):
    rows = [{"conversation": name} for name in conversations or ("c",)]
    return await lightmem.run("sleep", {"params": ALIKE | params}, conversations=rows)


async def texts(lightmem):
    return sorted(row["text"] for row in await lightmem.rows("Entry"))


async def measured(write=None, *, asleep=False, k=20):
    more = {"then": "sleep", "then_options": {"params": ALIKE}} if asleep else {}
    plans = named("lightmem", {"params": write or {}}, {"params": {"k": k}}, **more)
    told = of_world(1)
    async with StandIn() as server:
        found = await over_world(plans, told, server)
    return found.write.calls / len(told.turns), found.score


@pytest.mark.nightly
async def test_packs_take_a_tenth_of_the_calls_of_turns_by_themselves_and_answer_as_well():
    calls, packed = await measured()
    each, alone = await measured({"buffer": 1})
    assert calls < 0.1 < 0.9 < each
    assert packed.f1 >= alone.f1


@pytest.mark.parametrize(
    ("buffer", "name"), [(1, "Jonas"), (32, "Jonas Haddad")], ids=["alone", "in a pack"]
)
async def test_other_turns_of_a_pack_give_a_first_name_its_surname(memory, buffer, name):
    lightmem = memory("lightmem")
    told = turn(1, "I know Jonas Haddad."), turn(2, "Jonas lives in Oslo.")
    await lightmem.tell(*told, params={"buffer": buffer})
    assert f"{name} lives in Oslo." in await texts(lightmem)


async def test_topics_are_cut_where_neighbours_differ_and_packed_whole_up_to_the_budget(memory):
    said = [
        "Luma hires people.",
        "Luma hires more people.",
        "Luma hires few people.",
        "Rain again!",
        "Rain again today!",
    ]
    told = [turn(day, text, "Ada" if day < 4 else "Ben") for day, text in enumerate(said, start=1)]
    lightmem = memory("lightmem")
    for budget, packs in ((512, [1, 1, 1, 1, 1]), (25, [1, 1, 1, 2, 2]), (1, [1, 1, 1, 2, 2])):
        name = f"budget {budget}"
        given = [{**one, "conversation": name, "id": f"{name} {one['id']}"} for one in told]
        result = await lightmem.tell(*given, params={"budget": budget})
        rows = result.tables["packs"].to_pylist()
        assert [row["topic"] for row in rows] == [0, 0, 0, 1, 1]
        assert [row["pack"] for row in rows] == packs
        assert result.meter.total().calls_issued == max(packs)


async def test_the_bar_is_raised_until_a_buffer_has_two_topics(memory):
    told = [
        turn(1, "Luma hires people."),
        turn(2, "Luma hires more people."),
        turn(3, "Luma hires, Ben said."),
    ]
    for high, topics in ((0.5, [0, 0, 0]), (0.95, [0, 0, 1])):
        result = await memory("lightmem").tell(
            *({**one, "id": f"{high}{one['id']}"} for one in told), params={"high": high, "low": 0}
        )
        assert [row["topic"] for row in result.tables["packs"].to_pylist()] == topics


async def test_sleep_retires_what_is_outdated_completes_what_is_named_and_leaves_the_later_ones(
    memory,
):
    lightmem = memory("lightmem")
    await lightmem.tell(*TOLD)
    assert len(await lightmem.rows("Entry")) == 4, "writing compares nothing"
    result = await sleep(lightmem)
    assert [row["text"] for row in result.tables["retired"].to_pylist()] == [
        "Ada Costa lives in Riga."
    ]
    assert sorted(
        (row["text"], row["at"].day, row["turns"]) for row in await lightmem.rows("Entry")
    ) == [
        ("Ada Costa has moved to Oslo.", 3, ["t2"]),
        ("Ada Costa works at Luma since 2024-05-01.", 2, ["t1", "t3"]),
        ("Ada Costa works at Luma since 2024-05-01.", 4, ["t3"]),
    ]
    again = await sleep(lightmem)
    assert [again.tables[name].num_rows for name in ("updated", "retired")] == [0, 0]


async def test_a_conversation_that_is_named_twice_sleeps_once(memory):
    lightmem = memory("lightmem")
    await lightmem.tell(*TOLD)
    result = await sleep(lightmem, "c", "c")
    assert [result.tables[name].num_rows for name in ("updated", "retired")] == [1, 1]


async def test_sleep_answers_more_about_the_present_from_as_many_entries_and_forgets_the_past():
    _, awake = await measured(k=10)
    _, slept = await measured(k=10, asleep=True)
    assert slept.by_kind["now"] == 1 > awake.by_kind["now"]
    assert slept.by_kind["global"] > awake.by_kind["global"] + 0.05
    assert slept.by_kind["then"] < awake.by_kind["then"], "the price: the past is gone"


async def test_entries_that_are_less_alike_are_not_compared(memory):
    lightmem = memory("lightmem")
    await lightmem.tell(*TOLD)
    result = await sleep(lightmem, alike=0.99)
    assert result.meter.total().calls_issued == 0
    assert len(await lightmem.rows("Entry")) == 4


@both_stores
async def test_answers_rest_on_turns_on_both_stores(memory):
    lightmem = memory("lightmem")
    await lightmem.tell(*TOLD)
    await sleep(lightmem)
    works, lives, unknown = await lightmem.ask(WORKS, LIVES, "Where does Katya Brandt work?")
    assert (works["answer"], works["evidence"]) == ("Luma", ["t1", "t3"])
    assert (lives["answer"], lives["evidence"]) == ("Oslo", ["t2"])
    assert (unknown["answer"], unknown["evidence"]) == (None, [])


async def test_one_turn_alone_takes_one_call_and_sleep_none(memory):
    lightmem = memory("lightmem")
    result = await lightmem.tell(turn(1, "I work at Luma."))
    assert result.meter.total().calls_issued == 1
    assert (await sleep(lightmem)).meter.total().calls_issued == 0
    (answer,) = await lightmem.ask(WORKS)
    assert (answer["answer"], answer["evidence"]) == ("Luma", ["t1"])


async def test_a_turn_that_comes_late_is_an_earlier_entry(memory):
    lightmem = memory("lightmem")
    await lightmem.tell(turn(9, "I live in Oslo."))
    await lightmem.tell(turn(1, "I live in Riga."))
    await sleep(lightmem)
    assert await texts(lightmem) == ["Ada Costa lives in Oslo."]


async def test_conversations_do_not_know_each_other(memory):
    lightmem = memory("lightmem")
    await lightmem.tell(
        turn(1, "I live in Riga."), turn(2, "I live in Oslo.", conversation="other")
    )
    await sleep(lightmem, "c", "other")
    assert await texts(lightmem) == ["Ada Costa lives in Oslo.", "Ada Costa lives in Riga."]
    (answer,) = await lightmem.ask(LIVES, conversation="other")
    assert answer["answer"] == "Oslo"


async def test_sleep_without_names_is_about_all_conversations_and_with_them_about_these(memory):
    lightmem = memory("lightmem")
    for name in "ab":
        await lightmem.tell(
            *({**one, "id": name + one["id"], "conversation": name} for one in TOLD[:2])
        )
    await sleep(lightmem, "b")
    assert len(await lightmem.rows("Entry")) == 5
    await lightmem.run("sleep", {"params": ALIKE}, conversations="all")
    assert len(await lightmem.rows("Entry")) == 4


@pytest.mark.parametrize("kind", ["prose", "truncated", "refusal", "wrong_ids"])
async def test_a_buffer_without_an_answer_is_reported_and_read_by_the_next_run(memory, kind):
    async with StandIn(faults=(Fault(kind, rate=1.0),)) as broken:
        assert len((await memory("lightmem", broken).tell(*TOLD)).failed) == 3
    lightmem = memory("lightmem")
    assert await lightmem.rows("Entry") == []
    await lightmem.tell(*TOLD)
    assert len(await lightmem.rows("Entry")) == 4


async def test_a_failure_half_way_loses_its_own_buffer_only_and_the_next_run_adds_it(memory):
    params = {"buffer": 1}
    async with StandIn(faults=(Fault("refusal", on=(2,)),)) as broken:
        first = await memory("lightmem", broken).tell(*TOLD, params=params)
    assert (len(first.failed), first.committed) == (1, 2)
    lightmem = memory("lightmem")
    second = await lightmem.tell(*TOLD, params=params)
    assert (second.skipped, second.committed) == (2, 1)
    assert len(await lightmem.rows("Entry")) == 4


async def test_an_entry_about_which_no_answer_comes_stays_as_it_is_until_the_next_sleep(memory):
    await memory("lightmem").tell(*TOLD)
    async with StandIn(faults=(Fault("refusal", on=(1,)),)) as broken:
        lightmem = memory("lightmem", broken)
        result = await sleep(lightmem)
        assert len(result.failed) == 1
        assert sum(result.tables[name].num_rows for name in ("updated", "retired")) == 1
    lightmem = memory("lightmem")
    await sleep(lightmem)
    assert "Ada Costa lives in Riga." not in await texts(lightmem)
    assert "Ada Costa works at Luma." not in await texts(lightmem)


async def test_an_update_without_words_changes_nothing(memory, monkeypatch):
    monkeypatch.setitem(
        ROWS,
        "action becomes sources",
        lambda _: {"action": "update", "becomes": " \n", "sources": []},
    )
    lightmem = memory("lightmem")
    await lightmem.tell(*TOLD)
    before = await texts(lightmem)
    await sleep(lightmem)
    assert await texts(lightmem) == before
