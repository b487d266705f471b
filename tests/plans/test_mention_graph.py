"""Turns as a graph of mentions: words as they stand, once a turn, and the times of saying and of
arriving.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from benchmarks.world import StandIn
from semgraph import Session
from semgraph.errors import PlanError
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


@both_stores
async def test_each_row_names_the_episode_that_says_it(memory: Memory) -> None:
    result = await memory.run("mention_graph", turns=turns(*ORWELL))
    graph = await whole(memory)
    episodes = {t["number"]: t["uuid"] for t in graph["turns"]}
    for row in graph["mentions"] + graph["related"]:
        assert row["episode_id"] == episodes[row["number"]]
    assert {(e["source"], e["target"]) for e in graph["mentioned"]} == {
        (m["episode_id"], m["uuid"]) for m in graph["mentions"]
    }
    returned = {name: table.to_pylist() for name, table in result.tables.items()}
    assert [(e["uuid"], e["source"]) for e in returned["episodes"]] == [
        (episodes[0], "message"),
        (episodes[1], "message"),
    ]
    for name, stored in (("nodes", "mentions"), ("edges", "related"), ("episodes", "turns")):
        made = {row["uuid"]: row["created_at"] for row in graph[stored]}
        assert {row["uuid"]: row["created_at"] for row in returned[name]} == made


async def document(memory: Memory, *sessions: str) -> dict[str, list[dict[str, Any]]]:
    """The graph of some sessions, as JSON."""
    found = await memory.run("get_mentions", sessions=[{"session": name} for name in sessions])
    tables: dict[str, list[dict[str, Any]]] = found.to_json()["tables"]
    return tables


@both_stores
async def test_the_document_of_a_session_in_the_order_of_its_turns(memory: Memory) -> None:
    await memory.run("mention_graph", turns=turns(*ORWELL))
    await memory.run("mention_graph", turns=turns("Ann knows Bob.", session="t"))
    told = await document(memory, "s")
    first, second = told["episodes"]
    created = first.pop("createdAt")
    assert first == {
        "id": first["id"],
        "type": "message",
        "actor": None,
        "content": ORWELL[0],
        "metadata": {"session_id": "s", "turn_id": "turn_0"},
        "validAt": "2025-01-15T09:00:00Z",
    }
    assert created > first["validAt"]
    orwell, author, blair = told["nodes"]
    assert [node["mention"] for node in told["nodes"]] == [
        "George Orwell",
        "British author",
        "Eric Blair",
    ]
    assert (blair["episode_id"], blair["validAt"]) == (second["id"], "2025-01-15T09:01:00Z")
    ends = [(e["source"], e["type"], e["target"], e["episode_id"]) for e in told["edges"]]
    assert ends == [
        (orwell["id"], "IS_A", author["id"], first["id"]),
        (orwell["id"], "ALSO_KNOWN_AS", blair["id"], second["id"]),
    ]
    assert told["edges"][0]["content"]["type"] == "IS_A"
    both = await document(memory, "t", "s", "t")
    assert [e["metadata"]["session_id"] for e in both["episodes"]] == ["s", "s", "t"]


@both_stores
async def test_a_document_that_is_saved_elsewhere_is_the_same_document(
    memory: Memory, model: StandIn, tmp_path: Any
) -> None:
    here, after = Memory("memory", model, tmp_path), Memory("memory", model, tmp_path)
    await here.run("mention_graph", turns=turns(*ORWELL) + turns("Ann knows Bob.", session="t"))
    told = await document(here, "s", "t")
    await memory.run("save_mentions", inputs=told)
    stored = await document(memory, "s", "t")
    await after.run("save_mentions", inputs=stored)
    assert await document(after, "s", "t") == stored == told
    assert await whole(after) == await whole(memory)
    await memory.run("save_mentions", inputs=told)
    assert await document(memory, "s", "t") == told, "and once more"
    for one in (here, after):
        await one.session.aclose()


async def test_a_session_saves_no_document_of_another(memory: Memory) -> None:
    await memory.run("mention_graph", turns=turns(*ORWELL))
    told = await document(memory, "s")
    async with Session(store="memory", group="t", journal=False, runs="") as other:
        with pytest.raises(PlanError, match='the plan writes the group "s"'):
            await other.arun("save_mentions", inputs=told)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["nodes"][0].update(episode_id="gone"), "no episode gone is here"),
        (lambda d: d["edges"][0].update(episode_id="gone"), "no episode gone is here"),
        (
            lambda d: d["episodes"][0]["metadata"].update(turn_id="first"),
            "the turn_id first ends with no number",
        ),
    ],
)
async def test_what_has_no_episode_in_the_document_is_set_aside(
    memory: Memory, change: Callable[[Any], None], said: str
) -> None:
    await memory.run("mention_graph", turns=turns(*ORWELL))
    told = await document(memory, "s")
    change(told)
    result = await memory.run("save_mentions", inputs=told)
    assert said in {failure.error for failure in result.failed}


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
