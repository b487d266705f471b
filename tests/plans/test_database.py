"""The database as a whole: what the graph needs of it, and an empty one."""

from __future__ import annotations

from typing import Any

import pytest

from semgraph.errors import PlanError
from semgraph.stores.neo4j.store import Neo4jStore
from tests.plans.conftest import Memory, both_stores


async def counts(memory: Memory) -> tuple[int, ...]:
    graph = await memory.graph()
    return len(graph.episodes), len(graph.entities), len(graph.facts), len(graph.mentions)


async def told(memory: Memory) -> None:
    """Two groups with a few episodes each."""
    for group in ("g", "h"):
        await memory.hear(
            memory.episode("Alice Chen(user): I work at TechCorp.", group=group),
            memory.episode("Alice Chen(user): I lead Project Phoenix.", group=group),
        )


@both_stores
async def test_clear_data_of_a_group_leaves_the_others(memory: Memory) -> None:
    await told(memory)
    whole = await counts(memory)
    result = await memory.run("clear_data", groups=[{"group_id": "g"}])
    assert [table.num_rows for table in result.tables.values()] == [2, 3, 0, 0]
    assert await counts(memory) == tuple(n // 2 for n in whole)
    assert {e["group_id"] for e in (await memory.graph()).entities} == {"h"}


async def test_clear_data_of_an_empty_list_deletes_nothing(memory: Memory) -> None:
    await told(memory)
    before = await counts(memory)
    await memory.run("clear_data", groups=[])
    assert await counts(memory) == before
    await memory.run("clear_data", groups=[{"group_id": g} for g in ("g", "h", "g")])
    assert await counts(memory) == (0, 0, 0, 0)


async def test_without_rows_a_plan_that_deletes_spares_what_a_store_holds(memory: Memory) -> None:
    await told(memory)
    before = await counts(memory)
    with pytest.raises(PlanError) as caught:
        await memory.run("clear_data")
    (problem,) = caught.value.problems
    assert problem.what.startswith(
        "no input, and the example of clear_data would delete Episodic, Entity"
    )
    assert "4 Episodic, 6 Entity" in str(problem.there)
    assert problem.hint == ("give the input: -i groups=FILE; for the example alone: --store memory")
    assert await counts(memory) == before
    assert (await memory.run("clear_data", write=False)).tables[
        "episodes"
    ].num_rows == 0  # of the example's group


async def test_in_a_store_that_holds_nothing_the_example_runs(memory: Memory) -> None:
    result = await memory.run("clear_data")
    assert result.tables["episodes"].num_rows == 3
    assert await counts(memory) == (0, 0, 0, 0)


async def test_cleared_episodes_can_be_added_again(memory: Memory) -> None:
    episode = memory.episode("Alice Chen(user): I work at TechCorp.")
    await memory.hear(episode)
    before = await counts(memory)
    await memory.run("clear_data", groups=[{"group_id": "g"}])
    result = await memory.hear(episode)
    assert (result.skipped, result.committed) == (0, 1)
    assert await counts(memory) == before


async def test_clear_data_of_a_group_that_is_not_there_does_nothing(memory: Memory) -> None:
    await told(memory)
    before = await counts(memory)
    await memory.run("clear_data", groups=[{"group_id": "nobody"}])
    assert await counts(memory) == before


@pytest.mark.parametrize("anew", [False, True])
@both_stores
async def test_a_database_of_semgraphs_own_has_all_indexes(
    memory: Memory, store: Any, anew: bool
) -> None:
    await told(memory)
    before = await counts(memory)
    result = await memory.run("build_indices_and_constraints", params={"delete_existing": anew})
    if anew and isinstance(store, Neo4jStore):
        assert sum(note.startswith("dropped: ") for note in result.notes) == sum(
            note.startswith("made: ") for note in result.notes
        )
    else:
        assert result.notes == ("the store lacks nothing that the graph needs",)
    assert await counts(memory) == before
    found = await memory.run(
        "search", queries=[{"id": "q", "query": "Who works at TechCorp?", "group_ids": ["g"]}]
    )
    assert next(iter(found.tables.values())).num_rows


async def test_without_writing_no_index_is_created(memory: Memory) -> None:
    result = await memory.run("build_indices_and_constraints", write=False)
    assert result.notes == ()
