"""Summaries of sagas: what is read, what it takes, and what is remembered of it."""

from __future__ import annotations

import pytest

from tests.plans.conftest import Memory, at, both_stores

SAID = (
    "Ann(user): I work at Luma.",
    "Ann(user): I live in Rome.",
    "Ann(user): I lead Project Kite.",
)


async def told(memory: Memory, *minutes: int, saga: str = "tour") -> str:
    """Episodes said in these minutes join a saga; its uuid."""
    episodes = [memory.episode(SAID[m % 3], at(m), uuid=f"e{m}") for m in minutes]
    await memory.run(memory.here("heard.yaml"), episodes=episodes)
    rows = [{**e, "turn": i, "saga": saga} for i, e in enumerate(episodes)]
    joined = await memory.run("join_saga", episodes=rows)
    uuid: str = joined.tables["sagas"].to_pylist()[0]["uuid"]
    return uuid


async def test_a_saga_is_told_from_its_episodes_in_one_call(memory: Memory) -> None:
    saga = await told(memory, 1, 0, 2)
    result = await memory.run("summarize_saga", sagas=[{"uuid": saga}])
    (stored,) = (await memory.around())["sagas"]
    assert stored["summary"] == "Ann works at Luma. Ann lives in Rome. Ann leads Project Kite."
    assert stored["last_summarized_episode_valid_at"] == at(2)
    assert stored["last_summarized_at"] is not None
    assert result.meter.total().calls_issued == 1


@both_stores
async def test_only_what_came_in_since_is_read_and_the_summary_goes_on(memory: Memory) -> None:
    saga = await told(memory, 0)
    await memory.run("summarize_saga", sagas=[{"uuid": saga}])
    await told(memory, 1)
    memory.model.requests.clear()
    await memory.run("summarize_saga", sagas=[{"uuid": saga}])
    (request,) = memory.model.requests
    assert "Summary so far: Ann works at Luma." in request["messages"][-1]["content"]
    assert SAID[0] not in request["messages"][-1]["content"]
    (stored,) = (await memory.around())["sagas"]
    assert stored["summary"] == "Ann works at Luma. Ann lives in Rome."


async def test_where_nothing_came_in_nothing_is_asked_or_written(memory: Memory) -> None:
    saga = await told(memory, 0)
    await memory.run("summarize_saga", sagas=[{"uuid": saga}])
    before = await memory.around()
    again = await memory.run("summarize_saga", sagas=[{"uuid": saga}])
    assert again.meter.total().calls_issued == 0
    assert again.tables["summaries"].num_rows == 0
    assert await memory.around() == before


async def test_what_came_in_at_one_time_is_read_together_and_the_rest_the_next_time(
    memory: Memory,
) -> None:
    saga = await told(memory, 0, 1, 2)
    await told(memory, 3)
    await memory.run("summarize_saga", sagas=[{"uuid": saga}], params={"episodes": 2})
    (request,) = memory.model.requests
    assert request["messages"][-1]["content"].count("Ann(user)") == 3
    await memory.run("summarize_saga", sagas=[{"uuid": saga}], params={"episodes": 2})
    assert len(memory.model.requests) == 2
    assert (await memory.around())["sagas"][0]["last_summarized_episode_valid_at"] == at(3)


async def test_many_episodes_are_told_twenty_in_a_call(memory: Memory) -> None:
    saga = await told(memory, *range(45))
    result = await memory.run("summarize_saga", sagas=[{"uuid": saga}])
    assert result.meter.total().calls_issued == 3


async def test_several_sagas_are_told_side_by_side(memory: Memory) -> None:
    sagas = [await told(memory, 0), await told(memory, 1, saga="diary")]
    result = await memory.run("summarize_saga", sagas=[{"uuid": saga} for saga in sagas])
    assert result.tables["summaries"].num_rows == 2
    assert {s["name"]: s["summary"] for s in (await memory.around())["sagas"]} == {
        "tour": "Ann works at Luma.",
        "diary": "Ann lives in Rome.",
    }


@pytest.mark.parametrize(("uuid", "group"), [("nowhere", None), ("elsewhere", "h")])
async def test_a_saga_that_is_not_there_or_of_another_group_is_set_aside_with_what_is_wrong(
    memory: Memory, uuid: str, group: str | None
) -> None:
    saga = await told(memory, 0)
    result = await memory.run(
        "summarize_saga", sagas=[{"uuid": uuid or saga, "group_id": group}, {"uuid": saga}]
    )
    (failed,) = result.failed
    assert failed.error.startswith(f"there is no saga {uuid or saga}")
    assert [s["uuid"] for s in result.tables["summaries"].to_pylist()] == [saga]
