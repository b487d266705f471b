"""MemoryOS: three tiers; the heat of a segment says what is kept for long and what is forgotten."""

from __future__ import annotations

import math

import pytest

from benchmarks.memories.conversations import of_world
from benchmarks.memories.measure import measured, over_world
from benchmarks.memories.memories import memory as named
from benchmarks.world import Fault, StandIn
from benchmarks.world.answers.memory import ROWS
from tests.memories.conftest import both_stores, turn

BEN = "Ben Ito"
WORKS, LIVES = "Where does Ada Costa work?", "Where does Ben Ito live?"
SMALL = {"short": 1}
# Two talks in turns: one of Ada and Luma, one of Ben and Riga. The last turn pushes out the one before.
ADAS = tuple(turn(day, "I work at Luma.") for day in (1, 2, 3, 4))
BENS = (turn(5, "I live in Riga.", BEN), turn(6, "I live in Riga.", BEN))
LAST = turn(9, "Good morning.", "Cleo Diaz")


async def by_id(memoryos, label):
    return {row["id"]: row for row in await memoryos.rows(label)}


async def heats(memoryos):
    """The visits and the length of each segment, by the names that its summary has."""
    return {
        row["summary"]: (row["visits"], row["length"]) for row in await memoryos.rows("Segment")
    }


async def test_the_oldest_turn_leaves_the_full_queue_and_joins_the_segment_of_its_topic(memory):
    memoryos = memory("memoryos")
    await memoryos.tell(*ADAS[:3], *BENS, LAST, params={"short": 2})
    turns = await by_id(memoryos, "Turn")
    assert {key: row["tier"] for key, row in turns.items()} == {
        "t1": "mid", "t2": "mid", "t3": "mid", "t5": "mid", "t6": "short", "t9": "short",
    }  # fmt: skip
    assert turns["t1"]["segment"] == turns["t2"]["segment"] == turns["t3"]["segment"]
    assert turns["t5"]["segment"] != turns["t1"]["segment"]
    assert sorted((await heats(memoryos)).values()) == [(0, 1), (0, 3)]


async def test_a_hot_segment_fills_long_term_memory_once_and_is_cool_again(memory):
    memoryos = memory("memoryos")
    warm = await memoryos.tell(*ADAS, params=SMALL)  # three turns and recency: 4
    assert await memoryos.rows("Fact") == await memoryos.rows("Profile") == []
    assert max(row["heat"] for row in warm.tables["heated"].to_pylist()) == pytest.approx(4)
    await memoryos.tell(BENS[0], params=SMALL)
    (fact,), (profile,) = await memoryos.rows("Fact"), await memoryos.rows("Profile")
    assert fact["text"] == "Ada Costa works at Luma."
    assert sorted(fact["turns"]) == sorted(profile["turns"]) == ["t1", "t2", "t3", "t4"]
    assert "works at Luma" in profile["text"]
    assert list((await heats(memoryos)).values()) == [(0, 0)]
    assert {row["analysed"] for row in await memoryos.rows("Turn") if row["tier"] == "mid"} == {
        True
    }
    again = await memoryos.tell(LAST, params=SMALL)
    assert again.meter.total().calls_issued == 1  # it files a turn; nothing is hot any more


async def test_recency_falls_to_an_e_th_in_the_time_of_decay(memory):
    memoryos = memory("memoryos")
    result = await memoryos.tell(
        ADAS[0], BENS[0], turn(15, "Good morning.", "Cleo Diaz"), params={**SMALL, "decay": 86400 * 10}
    )  # fmt: skip
    heat = {row["id"]: row["heat"] for row in result.tables["heated"].to_pylist()[-2:]}
    lengths = {row["id"]: row["length"] for row in await memoryos.rows("Segment")}
    assert lengths.keys() == heat.keys()
    assert sorted(heat[name] - lengths[name] for name in heat) == pytest.approx([math.exp(-1), 1])


async def test_the_chain_of_a_turn_that_carries_on_holds_the_talk_before_it(memory):
    memoryos = memory("memoryos")
    await memoryos.tell(ADAS[0], turn(2, "I know Ben Ito."), BENS[0], LAST, params=SMALL)
    chains = {key: row["chain"] for key, row in (await by_id(memoryos, "Turn")).items()}
    assert "Luma" in chains["t2"]
    assert "Ben Ito" not in chains["t1"]


async def test_questions_heat_the_segments_that_they_visit(memory):
    memoryos = memory("memoryos")
    await memoryos.tell(*ADAS[:2], params=SMALL)
    for _ in range(3):
        await memoryos.ask(WORKS, params={"profiles": 0})
    assert list((await heats(memoryos)).values()) == [(3, 1)]
    assert await memoryos.rows("Fact") == []
    await memoryos.tell(LAST, params=SMALL)  # 3 visits, 2 turns, recency
    assert [row["text"] for row in await memoryos.rows("Fact")] == ["Ada Costa works at Luma."]


@pytest.mark.parametrize(
    ("weights", "works", "lives"),
    [
        ({"visit": 1.0, "page": 0.0}, "Luma", None),
        ({"visit": 0.0, "page": 1.0}, None, "Riga"),
    ],
)
async def test_the_coldest_segment_is_forgotten_by_the_weights_of_heat(
    memory, weights, works, lives
):
    memoryos = memory("memoryos")
    params = {"short": 1, "segments": 2, "recency": 0.0, "hot": 1000, **weights}
    await memoryos.tell(ADAS[0], *BENS, params=params)  # the second of Ben's is in the queue
    for _ in range(2):
        await memoryos.ask(WORKS, params={"segments": 1})
    third = turn(7, "I lead Project Saffron.", "Cleo Diaz")
    await memoryos.tell(third, LAST, params=params)
    assert len(await memoryos.rows("Segment")) == 2
    answers = await memoryos.ask(WORKS, LIVES)
    assert [row["answer"] for row in answers] == [works, lives]


@pytest.mark.nightly
async def test_each_tier_answers_questions_that_the_others_do_not(memory):
    told, session = of_world(1), memory("memoryos").session

    async def f1(**read):  # what is written once is not written again
        plans = named("memoryos", read={"params": read})
        return (await measured(session, plans, told)).score.f1

    whole = await f1()
    assert whole > await f1(short=0) + 0.03
    assert await f1(facts=0, profiles=0) > await f1(facts=0, profiles=0, pages=0) + 0.2, "mid-term"
    async with StandIn() as server:
        cold = named("memoryos", {"params": {"hot": 10**6}})
        assert whole > (await over_world(cold, told, server)).score.f1 + 0.15, "no long-term memory"


@both_stores
async def test_answers_rest_on_turns_on_both_stores(memory):
    memoryos = memory("memoryos")
    params = {**SMALL, "hot": 2}
    await memoryos.tell(*ADAS[:2], BENS[0], LAST, params=params)
    works, lives, unknown = await memoryos.ask(WORKS, LIVES, "Where does Katya Brandt work?")
    assert (works["answer"], lives["answer"]) == ("Luma", "Riga")
    assert set(works["evidence"]) <= {"t1", "t2"}
    assert set(lives["evidence"]) <= {"t5"}
    assert works["evidence"] != [] != lives["evidence"]
    assert (unknown["answer"], unknown["evidence"]) == (None, [])
    turns = await by_id(memoryos, "Turn")
    assert {key: (row["tier"], row["analysed"]) for key, row in turns.items()} == {
        **{f"t{day}": ("mid", True) for day in (1, 2, 5)},
        "t9": ("short", None),
    }


async def test_one_turn_alone_takes_no_call_and_answers(memory):
    memoryos = memory("memoryos")
    result = await memoryos.tell(ADAS[0])
    assert result.meter.total().calls_issued == 0
    (answer,) = await memoryos.ask(WORKS)
    assert (answer["answer"], answer["evidence"]) == ("Luma", ["t1"])


async def test_a_turn_that_comes_late_leaves_the_queue_at_once(memory):
    memoryos = memory("memoryos")
    await memoryos.tell(turn(9, "I work at Luma."), params=SMALL)
    await memoryos.tell(turn(1, "I work at Acme."), params=SMALL)
    turns = await by_id(memoryos, "Turn")
    assert (turns["t1"]["tier"], turns["t9"]["tier"]) == ("mid", "short")
    (answer,) = await memoryos.ask(WORKS)
    assert answer["answer"] == "Luma"


async def test_long_term_memory_keeps_the_last_facts(memory):
    memoryos = memory("memoryos")
    params = {**SMALL, "hot": 1, "facts": 1}
    await memoryos.tell(ADAS[0], *BENS, LAST, params=params)
    assert [row["text"] for row in await memoryos.rows("Fact")] == ["Ben Ito lives in Riga."]
    await memoryos.tell({**ADAS[1], "id": "late"}, params=params)
    assert [row["text"] for row in await memoryos.rows("Fact")] == ["Ben Ito lives in Riga."]


async def test_a_late_turn_does_not_make_a_known_fact_older(memory):
    memoryos = memory("memoryos")
    params = {**SMALL, "hot": 1}
    await memoryos.tell(ADAS[3], LAST, params=params)
    await memoryos.tell(ADAS[0], params=params)
    (fact,) = await memoryos.rows("Fact")
    assert (fact["at"], sorted(fact["turns"])) == (ADAS[3]["at"], ["t1", "t4"])


async def test_a_segment_that_fills_long_term_memory_is_not_forgotten_with_the_same_turn(memory):
    memoryos = memory("memoryos")
    params = {**SMALL, "segments": 1}
    await memoryos.tell(ADAS[0], BENS[0], params=params)
    for _ in range(3):
        await memoryos.ask(WORKS)  # the coldest of two segments will be the hottest, too
    await memoryos.tell(LAST, params=params)
    assert [row["text"] for row in await memoryos.rows("Fact")] == ["Ada Costa works at Luma."]
    assert all(row["summary"] for row in await memoryos.rows("Segment"))
    assert all(row["text"] for row in await memoryos.rows("Turn"))
    await memoryos.tell({**LAST, "id": "t10"}, params=params)
    assert "t1" not in await by_id(memoryos, "Turn"), "cool now, it is forgotten"


async def test_blank_answers_add_nothing_and_erase_nothing(memory, monkeypatch):
    memoryos = memory("memoryos")
    params = {**SMALL, "hot": 1}
    await memoryos.tell(ADAS[0], BENS[0], params=params)
    known, profiles = await memoryos.rows("Fact"), await memoryos.rows("Profile")
    for skill, answer in (
        ("chain summary keywords", {"chain": "", "summary": " \n", "keywords": []}),
        ("knowledge", {"knowledge": [{"fact": " \n", "message": 1}]}),
        ("profile", {"profile": "\n"}),
    ):
        monkeypatch.setitem(ROWS, skill, lambda _, answer=answer: answer)
    assert not (await memoryos.tell({**ADAS[1], "id": "t7"}, LAST, params=params)).failed
    assert (await memoryos.rows("Fact"), await memoryos.rows("Profile")) == (known, profiles)
    assert {row["summary"] for row in await memoryos.rows("Segment")} == {
        "A talk about Ada Costa, Luma.", "Ben Ito: I live in Riga.",
    }, "a message without a summary is its own"  # fmt: skip


async def test_conversations_do_not_know_each_other(memory):
    memoryos = memory("memoryos")
    others = [{**row, "conversation": "other", "id": f"o{row['id']}"} for row in (*BENS, LAST)]
    await memoryos.tell(*ADAS[:2], *others, params={**SMALL, "hot": 1})
    (answer,) = await memoryos.ask(WORKS, conversation="other")
    assert (answer["answer"], answer["evidence"]) == (None, [])
    assert {row["conversation"]: row["text"] for row in await memoryos.rows("Fact")} == {
        "c": "Ada Costa works at Luma.", "other": "Ben Ito lives in Riga.",
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["prose", "truncated", "refusal"])
async def test_turns_that_cannot_be_filed_are_reported_and_told_again(memory, kind):
    async with StandIn(faults=(Fault(kind, rate=1.0),)) as broken:
        first = await memory("memoryos", broken).tell(*ADAS, params=SMALL)
    assert (len(first.failed), first.committed) == (3, 1)
    memoryos = memory("memoryos")
    assert [row["tier"] for row in await memoryos.rows("Turn")] == ["short"]
    second = await memoryos.tell(*ADAS, LAST, params=SMALL)
    assert (second.skipped, second.committed, len(second.failed)) == (1, 4, 0)
    (fact,) = await memoryos.rows("Fact")
    assert sorted(fact["turns"]) == ["t1", "t2", "t3", "t4"]


@pytest.mark.parametrize("kind", ["refusal", "wrong_ids"])
async def test_a_failure_of_long_term_memory_leaves_its_segment_hot_for_the_next_turn(memory, kind):
    memoryos = memory("memoryos")
    await memoryos.tell(*ADAS, params=SMALL)
    async with StandIn(faults=(Fault(kind, rate=1.0),)) as broken:
        failed = (await memory("memoryos", broken).tell(BENS[0], params=SMALL)).failed
    assert len(failed) == 1
    assert await memoryos.rows("Fact") == []
    assert list((await heats(memoryos)).values()) == [(0, 3)]
    await memoryos.tell(BENS[0], params=SMALL)
    assert len(await memoryos.rows("Fact")) == 1
