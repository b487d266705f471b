"""MemoryOS: three tiers; the heat of a segment says what is kept for long and what is forgotten."""

from __future__ import annotations

import pytest

from benchmarks.memories.conversations import of_world
from benchmarks.memories.measure import over_world
from benchmarks.memories.memories import memory as named
from benchmarks.world import Fault, StandIn
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


async def f1(write=None, read=None):
    async with StandIn() as server:
        memory = named("memoryos", {"params": write or {}}, {"params": read or {}})
        return (await over_world(memory, of_world(1), server)).score.f1


async def test_each_tier_answers_questions_that_the_others_do_not():
    whole = await f1()
    assert whole > await f1(write={"hot": 10**6}) + 0.15, "nothing is hot: no long-term memory"
    assert whole > await f1(read={"short": 0}) + 0.03
    left = {"facts": 0, "profiles": 0}
    assert await f1(read=left) > await f1(read={**left, "pages": 0}) + 0.2, "mid-term memory"


@both_stores
async def test_answers_rest_on_turns_on_both_stores(memory):
    memoryos = memory("memoryos")
    params = {**SMALL, "hot": 2}
    await memoryos.tell(*ADAS, *BENS, LAST, params=params)
    works, lives, unknown = await memoryos.ask(WORKS, LIVES, "Where does Katya Brandt work?")
    assert (works["answer"], lives["answer"]) == ("Luma", "Riga")
    assert set(works["evidence"]) <= {"t1", "t2", "t3", "t4"}
    assert set(lives["evidence"]) <= {"t5", "t6"}
    assert works["evidence"] != [] != lives["evidence"]
    assert (unknown["answer"], unknown["evidence"]) == (None, [])
    turns = await by_id(memoryos, "Turn")
    assert {key: (row["tier"], row["analysed"]) for key, row in turns.items()} == {
        **{f"t{day}": ("mid", True) for day in (1, 2, 3, 4, 5, 6)},
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
