"""A session of one group runs the shipped plans over that group alone, whatever they ask for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.world import StandIn
from semgraph.errors import InputError, PlanError
from semgraph.session import Session
from semgraph.stores.base import Store
from semgraph.stores.sqlite.store import SqliteStore
from tests.plans.conftest import Memory, at, both_stores, loaded
from tests.served import session_with

SAID = ("Ann(user): I work at Luma.", "Bob(user): I live in Rome.")


class Two:
    """A graph of two groups that were told the same, and a session of group g."""

    def __init__(self, memory: Memory, own: Session) -> None:
        self.memory, self.own = memory, own
        self.others: Any = None

    async def fill(self) -> None:
        """Tell both groups, and remember what the other one has."""
        for group in "gh":
            said = [
                self.memory.episode(text, at(n), group, uuid=f"{group}{n}", saga="tour")
                for n, text in enumerate(SAID)
            ]
            await self.memory.hear(*said)
        self.others = await self.of_others()

    async def of_others(self) -> Any:
        """All rows of group h."""
        graph, around = await self.memory.graph(), await self.memory.around()
        rows = [*graph.episodes, *graph.entities, *graph.facts, *graph.mentions]
        rows += [row for part in around.values() for row in part]
        return sorted(str(row) for row in rows if row["group_id"] == "h")

    async def uuid(self, name: str, group: str) -> str:
        """The entity of a name in a group."""
        graph = await self.memory.graph()
        (uuid,) = (e["uuid"] for e in graph.entities if (e["name"], e["group_id"]) == (name, group))
        return str(uuid)

    async def run(self, plan: str, params: Any = None, **inputs: Any) -> Any:
        """Run a plan in the session of group g."""
        return await self.own.arun(loaded(plan, params=params or {}), inputs=inputs)


@pytest.fixture
async def two(model: StandIn, store: str | Store, tmp_path: Path) -> AsyncIterator[Two]:
    """Both groups in one store."""
    shared = SqliteStore(":memory:") if isinstance(store, str) else store
    memory = Memory(shared, model, tmp_path)
    own = session_with(model, shared, tmp_path, group="g")
    async with memory.session, own:
        both = Two(memory, own)
        await both.fill()
        yield both
    if isinstance(store, str):
        await shared.aclose()


def groups(result: Any) -> set[str]:
    """The groups of all rows of a result."""
    assert not result.failed
    return {row["group_id"] for table in result.tables.values() for row in table.to_pylist()}


@both_stores
async def test_what_reads_all_groups_reads_its_own(two: Two) -> None:
    ann = await two.uuid("Ann", "h")
    asked = {"query": "Where does Ann work?"}
    everywhere = await two.memory.run("search", queries=[asked])
    assert groups(everywhere) == {"g", "h"}
    for query, params in (
        ({}, {}),
        ({"group_ids": ["g", "h"]}, {}),
        ({"origins": [ann]}, {"breadth_first": True}),
        ({"center": ann}, {"edges": "node_distance", "nodes": "node_distance"}),
    ):
        assert groups(await two.run("search", params, queries=[asked | query])) == {"g"}
    other = [{"query": "Where does Ann work?", "group_ids": ["h"]}]
    assert groups(await two.run("search", queries=other)) == set()
    assert groups(await two.run("retrieve_episodes", queries=[{}])) == {"g"}
    built = await two.run("build_communities", groups="all")
    assert groups(built) == {"g"}
    assert await two.of_others() == two.others


@both_stores
async def test_nodes_of_others_are_not_found_by_their_keys(two: Two) -> None:
    ann = await two.uuid("Ann", "h")
    for plan, params, inputs in (
        ("get_nodes", {}, {"wanted": [{"uuid": ann}]}),
        ("delete_nodes", {}, {"wanted": [{"uuid": ann}]}),
        ("remove_episode", {}, {"episodes": [{"uuid": "h0"}]}),
        ("get_nodes_and_edges_by_episode", {}, {"episodes": [{"uuid": "h0"}]}),
    ):
        result = await two.run(plan, params, **inputs)
        (failure,) = result.failed
        assert "there is no " in failure.error, plan
    assert await two.of_others() == two.others


@both_stores
async def test_rows_of_others_are_refused_before_anything_is_spent(two: Two) -> None:
    calls = len(two.memory.model.requests)
    episode = two.memory.episode("Ann(user): I left.", at(9), "h")
    for plan, inputs in (
        ("add_episode", {"episodes": [episode]}),
        ("clear_data", {"groups": [{"group_id": "g"}, {"group_id": "h"}]}),
        ("get_nodes", {"wanted": [{"group_id": "h"}]}),
    ):
        with pytest.raises(InputError, match='"h" is not the group of this session, "g"'):
            await two.run(plan, **inputs)
    assert len(two.memory.model.requests) == calls
    assert await two.of_others() == two.others


async def test_its_own_group_is_written_as_ever(two: Two) -> None:
    await two.run("add_episode", episodes=[two.memory.episode("Ann(user): I live in Oslo.", at(9))])
    assert len(groups(await two.run("get_nodes", wanted=[{"group_id": "g"}]))) == 1
    await two.run("remove_episode", episodes=[{"uuid": "g0"}])
    await two.run("clear_data", groups=[{"group_id": "g"}])
    graph = await two.memory.graph()
    assert {e["group_id"] for e in graph.episodes} == {"h"}
    assert await two.of_others() == two.others


async def test_the_schema_of_all_groups_and_engines_are_refused(two: Two, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="belongs to all groups"):
        await two.run("build_indices_and_constraints")
    async with session_with(
        two.memory.model, "sqlite:graph.db", tmp_path, group="g", engine="ray"
    ) as session:
        with pytest.raises(PlanError, match="runs in this process. Leave the engine out"):
            await session.arun(loaded("add_episode"), episodes=[two.memory.episode("Ann: Hi.")])
