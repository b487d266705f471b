"""The baselines: turns as they are, all of them or the nearest by words, by vectors or by both."""

from __future__ import annotations

import pytest

from tests.memories.conftest import both_stores, turn

BEN = "Ben Ito"
WORKS, LIVES = "Where does Ada Costa work?", "Where does Ben Ito live?"
TURNS = (
    turn(1, "I have joined Luma."),
    turn(2, "I live in Riga.", BEN),
    turn(3, "What a day.", "Cleo Diaz"),
    turn(4, "Good morning.", "Cleo Diaz"),
)


@pytest.mark.parametrize("preset", ["full_context", "words", "vectors", None])
@both_stores
async def test_answers_rest_on_turns_on_both_stores(memory, preset):
    turns = memory("turns")
    await turns.tell(*TURNS)
    options = {"preset": preset} if preset else {}
    works, lives, unknown = await turns.ask(
        WORKS, LIVES, "Where does Katya Brandt live?", **options
    )
    assert (works["answer"], works["evidence"]) == ("Luma", ["t1"])
    assert (lives["answer"], lives["evidence"]) == ("Riga", ["t2"])
    assert (unknown["answer"], unknown["evidence"]) == (None, [])


async def shown(turns, question, **options):
    """The turns that are shown with a question, in their order."""
    asked = {"conversation": "c", "id": "q", "question": question, "at": None}
    result = await turns.run("read", options, questions=[asked])
    rows = sorted(result.tables["shown"].to_pylist(), key=lambda row: row["rank"])
    return [turn for row in rows for turn in row["turns"]]


async def test_the_nearest_turns_are_few_and_the_full_context_is_all(memory):
    turns = memory("turns")
    await turns.tell(*TURNS)
    assert await shown(turns, LIVES, preset="full_context", params={"k": 1}) == [
        "t1",
        "t2",
        "t3",
        "t4",
    ]
    for preset in ("words", "vectors"):
        assert await shown(turns, LIVES, preset=preset, params={"k": 1}) == ["t2"]
    assert await shown(turns, LIVES, params={"k": 1}) == ["t2"]


async def test_words_find_turns_that_share_one_and_vectors_always_find_the_nearest(memory):
    turns = memory("turns")
    await turns.tell(*TURNS)
    assert await shown(turns, "Zebra?", preset="words") == []
    assert len(await shown(turns, "Zebra?", preset="vectors")) == 4


async def test_a_turn_that_comes_late_is_shown_at_its_time(memory):
    turns = memory("turns")
    await turns.tell(TURNS[1], TURNS[3])
    await turns.tell(TURNS[2], TURNS[0])
    assert await shown(turns, LIVES, preset="full_context") == ["t1", "t2", "t3", "t4"]
