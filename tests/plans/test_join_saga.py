"""Episodes in sagas: which follows which, and what a saga knows of its ends."""

from __future__ import annotations

from typing import Any

import pytest

from semgraph.errors import SemgraphError
from tests.plans.conftest import Memory, at, both_stores


async def stored(memory: Memory, *minutes: int, group: str = "g") -> dict[int, str]:
    """Stored episodes without text, by the minute in which they were said: their uuids."""
    await memory.hear(*(memory.episode("", at(m), group, uuid=f"{group}{m}") for m in minutes))
    return {m: f"{group}{m}" for m in minutes}


async def join(
    memory: Memory, *minutes: int, saga: str = "tour", group: str = "g", **more: Any
) -> Any:
    """Episodes join a saga in one run."""
    rows = [
        {
            "uuid": f"{group}{m}",
            "group_id": group,
            "valid_at": at(m),
            "turn": turn,
            "saga": saga,
            **more,
        }
        for turn, m in enumerate(minutes)
    ]
    return await memory.run("join_saga", episodes=rows)


async def chain(memory: Memory) -> set[tuple[str, str]]:
    """Which episode follows which."""
    return {(e["source"], e["target"]) for e in (await memory.around())["follows"]}


async def test_episodes_of_one_run_follow_each_other_in_time(memory: Memory) -> None:
    await stored(memory, 1, 2, 3)
    await join(memory, 3, 1, 2)
    around = await memory.around()
    (saga,) = around["sagas"]
    assert (saga["name"], saga["group_id"], saga["created_at"]) == ("tour", "g", at(1))
    assert (saga["first_episode_uuid"], saga["last_episode_uuid"]) == ("g1", "g3")
    assert {(e["source"], e["target"]) for e in around["holds"]} == {
        (saga["uuid"], f"g{m}") for m in (1, 2, 3)
    }
    assert await chain(memory) == {("g1", "g2"), ("g2", "g3")}


@both_stores
async def test_a_later_run_goes_on_where_the_saga_ended(memory: Memory) -> None:
    await stored(memory, 1, 2, 3)
    await join(memory, 1)
    await join(memory, 2, 3)
    (saga,) = (await memory.around())["sagas"]
    assert await chain(memory) == {("g1", "g2"), ("g2", "g3")}
    assert (saga["first_episode_uuid"], saga["last_episode_uuid"]) == ("g1", "g3")


async def test_a_saga_that_skips_back_in_time_goes_on_in_the_order_in_which_it_is_told(
    memory: Memory,
) -> None:
    await stored(memory, 1, 2, 5)
    await join(memory, 5)
    await join(memory, 1)
    await join(memory, 2)
    (saga,) = (await memory.around())["sagas"]
    assert await chain(memory) == {("g5", "g1"), ("g1", "g2")}, "nothing has two followers"
    assert (saga["first_episode_uuid"], saga["last_episode_uuid"]) == ("g5", "g2")


async def test_equal_times_follow_each_other_by_turn(memory: Memory) -> None:
    await memory.hear(*(memory.episode("", at(1), uuid=f"e{n}") for n in (2, 1)))
    rows = [
        {"uuid": f"e{n}", "group_id": "g", "valid_at": at(1), "turn": n, "saga": "tour"}
        for n in (2, 1)
    ]
    await memory.run("join_saga", episodes=rows)
    assert await chain(memory) == {("e1", "e2")}


async def test_the_episode_before_may_be_given(memory: Memory) -> None:
    await stored(memory, 1, 2, 3)
    await join(memory, 1, 2)
    await join(memory, 3, previous="g1")
    assert await chain(memory) == {("g1", "g2"), ("g1", "g3")}


async def test_joining_again_changes_nothing(memory: Memory) -> None:
    await stored(memory, 1, 2, 3)
    await join(memory, 1, 2)
    before = await memory.around()
    again = await join(memory, 1, 2)
    assert await memory.around() == before
    assert again.tables["episodes"].num_rows == 0
    await join(memory, 1, 2, 3)
    assert await chain(memory) == {("g1", "g2"), ("g2", "g3")}


async def test_sagas_of_one_name_in_two_groups_are_two(memory: Memory) -> None:
    await stored(memory, 1, 2)
    await stored(memory, 1, 2, group="h")
    rows = [
        {"uuid": f"{group}{m}", "group_id": group, "valid_at": at(m), "turn": m, "saga": saga}
        for group, m, saga in [
            ("g", 1, "tour"),
            ("h", 2, "tour"),
            ("g", 2, "tour"),
            ("h", 1, "diary"),
        ]
    ]
    await memory.run("join_saga", episodes=rows)
    assert sorted((s["group_id"], s["name"]) for s in (await memory.around())["sagas"]) == [
        ("g", "tour"),
        ("h", "diary"),
        ("h", "tour"),
    ]
    assert await chain(memory) == {("g1", "g2")}


async def test_a_blank_name_is_no_saga(memory: Memory) -> None:
    await stored(memory, 1)
    await join(memory, 1, saga="  ")
    assert (await memory.around())["sagas"] == []


@pytest.mark.parametrize(
    "given", [{"uuid": "nowhere"}, {"previous": "nowhere"}, {"uuid": "h1"}, {"previous": "h1"}]
)
async def test_an_episode_that_is_not_there_or_of_another_group_is_refused_and_nothing_is_written(
    memory: Memory, given: dict[str, str]
) -> None:
    await stored(memory, 1)
    await stored(memory, 1, group="h")
    row = {"uuid": "g1", "group_id": "g", "valid_at": at(1), "turn": 1, "saga": "tour", **given}
    with pytest.raises(SemgraphError) as refused:
        await memory.run("join_saga", episodes=[row])
    assert next(iter(given.values())) in str(refused.value)
    assert not any((await memory.around()).values())
