"""The plans over a store of shards: the graph, the requests and the store queries of one store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.world.server import StandIn
from semgraph import Session
from semgraph.shards import shard_of
from tests.plans.conftest import Memory, at, loaded

GROUPS = ("g", "i", "a")  # each in another of three shards
SAID = (
    "Ann(user): I work at Luma.",
    "Bob(user): I live in Rome.",
    "Ann(user): I lead Project Kite.",
)
CLOCK = {"created_at", "expired_at"}


@pytest.fixture
async def pair(model: StandIn, tmp_path: Path) -> AsyncIterator[tuple[Memory, Memory]]:
    """A memory in one store, and one in shards."""
    memories = []
    for name, store in (("one", "memory"), ("shards", "shards:sqlite:graphs?n=3")):
        folder = tmp_path / name
        folder.mkdir()
        memories.append(Memory(store, model, folder))
    yield memories[0], memories[1]
    for memory in memories:
        await memory.session.aclose()


async def did(memory: Memory, plan: str | Path, **options: Any) -> tuple[Any, ...]:
    """The rows of a run, its requests and how many store queries its reads made. Commits of several
    shards follow each other.
    """
    memory.model.requests.clear()
    result = await memory.run(plan, **options)
    rows = {
        name: sorted(
            str({key: value for key, value in row.items() if key not in CLOCK})
            for row in table.to_pylist()
        )
        for name, table in result.tables.items()
    }
    requests = sorted(str(request) for request in memory.model.requests)
    trips = {
        step: metrics.round_trips
        for step, metrics in result.meter.steps.items()
        if metrics.round_trips and step != "commit"
    }
    return rows, result.written, requests, trips


async def told(memory: Memory) -> tuple[Any, ...]:
    return await did(memory, "add_episode", episodes=episodes_of(memory))


def episodes_of(memory: Memory) -> list[dict[str, Any]]:
    """Messages of all groups, in turn."""
    return [
        memory.episode(text, at(minute), group, uuid=f"{group}{minute}")
        for minute, text in enumerate(SAID)
        for group in GROUPS
    ]


async def whole_graph(memory: Memory) -> tuple[Any, ...]:
    return await did(memory, Memory.here("whole_graph.yaml"))


QUERIES = [{"query": "Who works at Luma?", "group_ids": list(GROUPS)}]
CASES: dict[str, Callable[[Memory], Any]] = {
    "the same messages again": told,
    "a search in all groups": lambda m: did(m, "search", queries=QUERIES),
    "a search by a recipe": lambda m: did(
        m, "search", queries=QUERIES, preset="COMBINED_HYBRID_SEARCH_RRF"
    ),
    "a search in one group": lambda m: did(
        m, "search", queries=[{"query": "Where does Bob live?", "group_ids": ["a"]}]
    ),
    "communities": lambda m: did(m, "build_communities", groups="all"),
    "a deletion of two groups": lambda m: did(
        m, "clear_data", groups=[{"group_id": "g"}, {"group_id": "a"}]
    ),
    "nodes": lambda m: did(m, "get_nodes", wanted=[{"group_id": group} for group in GROUPS]),
}


def test_the_groups_of_these_tests_lie_apart() -> None:
    assert sorted(shard_of(group, 3) for group in GROUPS) == [0, 1, 2]


@pytest.mark.parametrize("case", CASES)
async def test_shards_give_the_graph_and_the_requests_of_one_store(
    pair: tuple[Memory, Memory], case: str
) -> None:
    one, shards = pair
    assert await told(one) == await told(shards)
    assert await CASES[case](one) == await CASES[case](shards)
    whole = await whole_graph(one)
    assert whole == await whole_graph(shards)
    assert all(whole[0].values())


async def test_an_engine_has_a_shard_for_each_file_of_the_store(
    pair: tuple[Memory, Memory], model: StandIn, tmp_path: Path
) -> None:
    one, shards = pair
    await told(one)
    model.requests.clear()
    async with Session(
        llm=f"openai:gpt-4.1-mini@{model.base_url}",
        embedder=f"openai:stand-in@{model.base_url}?dimensions=256",
        store="shards:sqlite:graphs?n=3",
        engine="local?workers=2",
        folder=tmp_path / "shards",
    ) as session:
        await session.arun(loaded("add_episode"), episodes=episodes_of(one))
    assert await whole_graph(one) == await whole_graph(shards)
