"""Turns as a graph of mentions: words as they stand, once a turn, and the times of saying and of
arriving.
"""

from __future__ import annotations

from typing import Any

from tests.plans.conftest import Memory, at, both_stores

ORWELL = ("George Orwell is a British author.", "He is also known as Eric Blair.")


def turns(*said: str, session: str = "s", start: int = 0) -> list[dict[str, Any]]:
    """Turns of a session, a minute apart."""
    return [
        {"session": session, "number": start + i, "content": text, "valid_at": at(start + i)}
        for i, text in enumerate(said)
    ]


async def whole(memory: Memory) -> dict[str, list[dict[str, Any]]]:
    """All that the graph holds."""
    found = await memory.run(memory.here("all_mentions.yaml"))
    return {name: table.to_pylist() for name, table in found.tables.items()}


async def arrows(memory: Memory) -> list[tuple[str, int, str, str, int, int]]:
    """Source, its turn, type, target, its turn, and the turn that states it."""
    graph = await whole(memory)
    named = {m["uuid"]: (m["mention"], m["number"]) for m in graph["mentions"]}
    return sorted(
        (*named[r["source"]], r["type"], *named[r["target"]], r["number"]) for r in graph["related"]
    )


@both_stores
async def test_the_conversation_of_the_example(memory: Memory) -> None:
    result = await memory.run("mention_graph")
    graph = await whole(memory)
    assert sorted((m["number"], m["mention"]) for m in graph["mentions"]) == [
        (0, "British author"),
        (0, "George Orwell"),
        (1, "Eric Blair"),
    ]
    assert await arrows(memory) == [
        ("George Orwell", 0, "ALSO_KNOWN_AS", "Eric Blair", 1, 1),
        ("George Orwell", 0, "IS_A", "British author", 0, 0),
    ]
    assert result.meter.total().calls_issued == 4, "two a turn"
    assert len(graph["turns"]) == 2


async def test_times_are_those_of_the_turn_and_of_its_arrival(memory: Memory) -> None:
    await memory.run("mention_graph", turns=turns(*ORWELL))
    graph = await whole(memory)
    said = {t["number"]: t["valid_at"] for t in graph["turns"]}
    for row in graph["mentions"] + graph["related"]:
        assert row["valid_at"] == said[row["number"]]
        assert row["created_at"] > row["valid_at"]
    (back,) = (r for r in graph["related"] if r["type"] == "ALSO_KNOWN_AS")
    assert back["valid_at"] == at(1), "of the later turn, also back to an earlier mention"


async def test_the_same_words_are_one_mention_in_a_turn_and_another_in_the_next(
    memory: Memory,
) -> None:
    await memory.run(
        "mention_graph", turns=turns("Ann knows Bob. Ann likes Bob.", "Ann knows Bob.")
    )
    mentions = (await whole(memory))["mentions"]
    assert sorted((m["number"], m["mention"]) for m in mentions) == [
        (0, "Ann"),
        (0, "Bob"),
        (1, "Ann"),
        (1, "Bob"),
    ]
    assert ("Ann", 1, "KNOWS", "Bob", 1, 1) in await arrows(memory), (
        "the latest mention in these words"
    )


async def test_only_the_last_turns_are_read_along(memory: Memory) -> None:
    said = [ORWELL[0], "fine.", "fine too.", "all good.", "well.", ORWELL[1]]
    await memory.run("mention_graph", turns=turns(*said))
    assert [a[2] for a in await arrows(memory)] == ["IS_A"], "five turns back is too far"
    await memory.run("mention_graph", turns=turns(*said, session="t"), params={"context": 5})
    assert [a[2] for a in await arrows(memory)] == ["ALSO_KNOWN_AS", "IS_A", "IS_A"]


async def test_a_session_goes_on_in_a_later_run_and_another_is_not_seen(memory: Memory) -> None:
    await memory.run("mention_graph", turns=turns(ORWELL[0]))
    await memory.run("mention_graph", turns=turns(ORWELL[1], session="t", start=1))
    assert [a[2] for a in await arrows(memory)] == ["IS_A"]
    await memory.run("mention_graph", turns=turns(ORWELL[1], start=1))
    assert [a[2] for a in await arrows(memory)] == ["ALSO_KNOWN_AS", "IS_A"]


async def test_the_same_turns_again_ask_and_write_nothing(memory: Memory) -> None:
    await memory.run("mention_graph", turns=turns(*ORWELL))
    before = await whole(memory)
    again = await memory.run("mention_graph", turns=turns(*ORWELL))
    assert (again.skipped, again.meter.total().calls_issued) == (2, 0)
    assert await whole(memory) == before


async def test_a_blank_turn_is_kept_and_not_asked_about(memory: Memory) -> None:
    result = await memory.run("mention_graph", turns=turns("  "))
    assert result.meter.total().calls_issued == 0
    assert len((await whole(memory))["turns"]) == 1
