"""Reading, saving and deleting what is stored: by uuid, by group and page, by ends; episodes by
time.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.conftest import Memory, at, both_stores

pytestmark = both_stores


async def planted(memory: Memory) -> None:
    """Three entities and two facts in group g, one each in h, and episodes of both."""
    row = {"summary": "", "labels": ["Person"]}
    entities = [
        {"uuid": u, "group_id": g, "name": u.upper(), **row}
        for u, g in [("a", "g"), ("b", "g"), ("c", "g"), ("d", "h")]
    ]
    await memory.run("save_nodes", entities=entities, episodes=[
        {"uuid": f"e{m}", "group_id": g, "content": f"Minute {m}.", "valid_at": at(m), "source": s, "entity_edges": edges}
        for m, g, s, edges in [(1, "g", "text", ["ab"]), (2, "g", "message", ["ab", "bc", "gone"]), (3, "h", "text", []), (4, "g", "text", [])]
    ])  # fmt: skip
    fact = {"name": "KNOWS", "fact": "They know each other.", "valid_at": at(1)}
    ends = [("ab", "a", "b", "g"), ("bc", "b", "c", "g"), ("dd", "d", "d", "h")]
    await memory.run(
        "save_edges",
        facts=[{"uuid": u, "source": s, "target": t, "group_id": g, **fact} for u, s, t, g in ends],
        mentions=[{"uuid": f"m{t}", "source": "e2", "target": t, "group_id": "g"} for t in "ab"],
    )


def uuids(result: Any, table: str) -> list[str]:
    """Of the rows of a result, in order."""
    return [row["uuid"] for row in result.tables[table].to_pylist()]


async def test_nodes_by_uuid_and_by_group_page_by_page(memory: Memory) -> None:
    await planted(memory)
    found = await memory.run(
        "get_nodes", wanted=[{"uuid": "d"}, {"uuid": "a", "group_id": "g"}, {"uuid": "d"}]
    )
    assert uuids(found, "nodes") == ["d", "a"]
    assert found.tables["nodes"].to_pylist()[1]["labels"] == ["Person"]
    assert uuids(await memory.run("get_nodes", wanted=[{"group_id": "g"}]), "nodes") == [
        "c",
        "b",
        "a",
    ]
    page = await memory.run(
        "get_nodes", wanted=[{"group_id": "g", "uuid_cursor": "c"}], params={"limit": 1}
    )
    assert uuids(page, "nodes") == ["b"]


@pytest.mark.parametrize(
    ("kind", "there"), [("Episodic", ["e4", "e2", "e1"]), ("Community", []), ("Saga", [])]
)
async def test_nodes_of_every_kind(memory: Memory, kind: str, there: list[str]) -> None:
    await planted(memory)
    assert (
        uuids(
            await memory.run("get_nodes", wanted=[{"group_id": "g"}], params={"kind": kind}),
            "nodes",
        )
        == there
    )


async def test_a_property_of_nodes_may_be_named_source(memory: Memory) -> None:
    await planted(memory)
    saga = {"uuid": "s1", "group_id": "g", "name": "Tour"}
    await memory.run("save_nodes", sagas=[saga])
    of_saga = {"uuid": "s1e1", "source": "s1", "target": "e1", "group_id": "g"}
    await memory.run("save_edges", holds=[of_saga])

    async def sources(plan: str, table: str, **options: Any) -> dict[str, str | None]:
        rows = (await memory.run(plan, **options)).tables[table].to_pylist()
        return {row["uuid"]: row["source"] for row in rows}

    wanted = [{"group_id": "g"}, {"uuid": "e3"}]
    assert await sources("get_nodes", "nodes", wanted=wanted, params={"kind": "Episodic"}) == {
        "e1": "text", "e2": "message", "e3": "text", "e4": "text",
    }  # fmt: skip
    texts = {"group_ids": ["g"], "source": "text"}
    latest = [texts, texts | {"saga": "Tour"}]
    found = (await memory.run("retrieve_episodes", queries=latest)).tables["episodes"].to_pylist()
    assert [(e["id"], e["uuid"], e["source"]) for e in found] == [
        ("q1", "e1", "text"), ("q1", "e4", "text"), ("q2", "e1", "text"),
    ]  # fmt: skip
    query, only = [{"query": "minute"}], {"episodes": True, "edges": None, "nodes": None}
    hits = await sources("search", "episodes", queries=query, params=only)
    assert hits == {"e1": "text", "e2": "message", "e3": "text", "e4": "text"}


async def test_edges_by_uuid_by_ends_and_by_group(memory: Memory) -> None:
    await planted(memory)

    async def edges(**wanted: Any) -> list[str]:
        return uuids(await memory.run("get_edges", wanted=[wanted]), "edges")

    assert await edges(uuid="dd") == ["dd"]
    assert await edges(source="a", target="b") == ["ab"]
    assert await edges(source="b", target="a") == []
    assert await edges(node="b") == ["bc", "ab"]
    assert await edges(node="d", group_id="g") == []
    assert await edges(group_id="g") == ["bc", "ab"]
    assert await edges(group_id="g", uuid_cursor="bc") == ["ab"]
    mentions = await memory.run("get_edges", wanted=[{"node": "a"}], params={"kind": "MENTIONS"})
    assert [(e["source"], e["target"]) for e in mentions.tables["edges"].to_pylist()] == [
        ("e2", "a")
    ]


@pytest.mark.parametrize("plan", ["get_nodes", "get_edges", "delete_nodes", "delete_edges"])
async def test_what_is_not_there_or_is_another_groups_is_set_aside_and_the_rest_is_done(
    memory: Memory, plan: str
) -> None:
    await planted(memory)
    mine, theirs = ("a", "d") if plan.endswith("nodes") else ("ab", "dd")
    wanted = [{"uuid": "nowhere"}, {"uuid": theirs, "group_id": "g"}, {}, {"uuid": mine}]
    result = await memory.run(plan, wanted=wanted)
    kind = "Entity" if plan.endswith("nodes") else "RELATES_TO"
    assert {f.error for f in result.failed} >= {
        f"there is no {kind} nowhere",
        f"there is no {kind} {theirs} in the group g",
    }
    assert len(result.failed) == 3
    (table,) = result.tables
    assert uuids(result, table) == [mine]


async def test_nodes_go_with_their_edges_and_edges_alone(memory: Memory) -> None:
    await planted(memory)
    await memory.run("delete_edges", wanted=[{"uuid": "bc"}])
    assert {f["uuid"] for f in (await memory.graph()).facts} == {"ab", "dd"}
    await memory.run("delete_nodes", wanted=[{"uuid": "a"}])
    graph = await memory.graph()
    assert ({e["uuid"] for e in graph.entities}, {f["uuid"] for f in graph.facts}) == (
        {"b", "c", "d"},
        {"dd"},
    )
    await memory.run("delete_nodes", wanted=[{"group_id": "g"}])
    graph = await memory.graph()
    assert [e["uuid"] for e in graph.entities] == ["d"]
    assert len(graph.episodes) == 4
    await memory.run("delete_nodes", wanted=[{"group_id": "g"}], params={"kind": "Episodic"})
    assert [e["uuid"] for e in (await memory.graph()).episodes] == ["e3"]


async def test_saved_again_only_what_is_said_changes(memory: Memory) -> None:
    await planted(memory)
    before = (await memory.graph()).entity("A")
    await memory.run(
        "save_nodes", entities=[{"uuid": "a", "group_id": "g", "name": "A", "summary": "New."}]
    )
    after = (await memory.graph()).entity("A")
    assert after == {**before, "summary": "New."}


async def test_nodes_and_edges_of_an_episode_are_returned(memory: Memory) -> None:
    await planted(memory)
    found = await memory.run(
        "get_nodes_and_edges_by_episode", episodes=[{"uuid": "e2"}, {"uuid": "e1"}]
    )
    assert sorted(uuids(found, "nodes")) == ["a", "b"]
    assert sorted(uuids(found, "edges")) == ["ab", "bc"]
    wrong = [{"uuid": "nowhere"}, {"uuid": "e3", "group_id": "g"}]
    found = await memory.run("get_nodes_and_edges_by_episode", episodes=wrong)
    assert sorted(f.error for f in found.failed) == [
        "there is no episode e3 in the group g",
        "there is no episode nowhere",
    ]


async def test_the_latest_episodes_oldest_first(memory: Memory) -> None:
    await planted(memory)
    await memory.run("join_saga", episodes=[
        {"uuid": f"e{m}", "group_id": "g", "valid_at": at(m), "turn": m, "saga": "tour"} for m in (1, 4)
    ])  # fmt: skip

    async def latest(last_n: int = 3, **query: Any) -> list[str]:
        return uuids(
            await memory.run("retrieve_episodes", queries=[query], params={"last_n": last_n}),
            "episodes",
        )

    assert await latest() == ["e2", "e3", "e4"], "of all groups"
    assert await latest(group_ids=[]) == ["e2", "e3", "e4"]
    assert await latest(group_ids=["g"]) == ["e1", "e2", "e4"]
    assert await latest(group_ids=["g", "h"], last_n=2) == ["e3", "e4"]
    assert await latest(group_ids=[""]) == []
    assert await latest(group_ids=["g"], reference_time=at(3)) == ["e1", "e2"]
    assert await latest(group_ids=["g"], source="text") == ["e1", "e4"]
    assert await latest(saga="tour", group_ids=["g"]) == ["e1", "e4"]
    assert await latest(saga="tour", last_n=1) == ["e4"]
    assert await latest(saga="tour", group_ids=["h"]) == []
    assert await latest(saga="nothing") == []
    both = await memory.run(
        "retrieve_episodes",
        queries=[{"id": "x", "group_ids": ["h"]}, {"id": "y", "source": "message"}],
    )
    assert [(e["id"], e["uuid"]) for e in both.tables["episodes"].to_pylist()] == [
        ("x", "e3"),
        ("y", "e2"),
    ]
    assert both.meter.total().round_trips == 2
