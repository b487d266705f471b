"""MemoryOS: three tiers; the heat of a segment says what is kept for long and what is forgotten."""

from __future__ import annotations

import statistics

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
