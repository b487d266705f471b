"""What was removed from a graph does not come back by a refresh, and no byte of it stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from semgraph.errors import PlanError
from semgraph.stores.base import Store
from tests.refresh.conftest import both_stores
from tests.refresh.test_edits import facts, names, other
from tests.refresh.world import World, edited, episode, of_group

CANARY = "Zanzibar"
ROWS = [
    episode(0, "I work at Luma."),
    episode(1, f"I live in {CANARY}.", source_description=f"chat {CANARY}"),
    episode(2, "Ben(user): I work at Luma."),
]
OTHERWISE = edited(ROWS, 2, content="Ben(user): I work at Acme.")
on_disk = pytest.mark.parametrize("store", ["file"], indirect=True)


def on_disk_of(folder: Path) -> bytes:
    """All bytes of a store: its file and its log."""
    return b"".join(file.read_bytes() for file in folder.glob("graph.db*"))


async def remove(world: World) -> Any:
    """Remove the episode with the canary."""
    return await other(world, "remove_episode", episodes=[{"uuid": "g-e1"}])


@both_stores
async def test_a_removed_episode_stays_removed(world: World) -> None:
    await world.write(ROWS)
    await remove(world)
    left = await world.state()
    assert CANARY not in str(left)
    rest = [ROWS[0], ROWS[2]]
    refresh = await world.refreshed(rest)
    assert len(refresh.diff) == 0, str(refresh.diff)
    assert await world.state() == left
    await world.require_no_change(rest)
    await world.refreshed(edited(rest, 1, content="Ben(user): I work at Acme."))
    found = await world.state()
    assert CANARY not in str(found)
    assert {row.row for window in (await world.history()).windows for row in window.rows} == {
        "g-e0", "g-e2"
    }  # fmt: skip
    await world.refreshed(ROWS)  # given again, it is a new row
    assert CANARY in names(await world.state())


@on_disk
async def test_no_byte_of_a_removed_row_is_in_the_store(
    world: World, store: Store, tmp_path: Path
) -> None:
    await world.write(ROWS)
    await world.refreshed(edited(ROWS, 2, content="Ben(user): I live in Oslo."))
    assert CANARY.encode() in on_disk_of(tmp_path)
    await remove(world)
    await world.refreshed([ROWS[0], OTHERWISE[2]])
    await store.aclose()
    kept = on_disk_of(tmp_path)
    assert b"Acme" in kept
    for word in (CANARY, CANARY.lower()):
        assert word.encode() not in kept


@on_disk
async def test_no_byte_of_a_retracted_row_is_in_the_store(
    world: World, store: Store, tmp_path: Path
) -> None:
    await world.write(ROWS)
    await world.refreshed([ROWS[0], ROWS[2]], complete=True)
    assert CANARY not in str(await world.state())
    await store.aclose()
    assert CANARY.encode() not in on_disk_of(tmp_path)


async def test_a_committed_row_keeps_fingerprints_and_no_text(world: World) -> None:
    await world.write(ROWS)
    assert CANARY not in str(await world.history())


async def test_rows_whose_text_was_not_kept_are_asked_for(world: World) -> None:
    options = {"params": {"keep_content": False}}
    await world.write(ROWS, **options)
    before = len(world.model.requests)
    with pytest.raises(PlanError) as refused:
        await world.refresh([OTHERWISE[2]], **options)
    said = str(refused.value)
    assert "g-e0, g-e1" in said
    assert "Give them as input episodes too" in said
    assert len(world.model.requests) == before
    await world.refreshed(OTHERWISE, **options)
    found = await world.state()
    assert "Acme" in names(found)
    assert "Acme" not in {row.get("content") for (at, _), row in found.items() if at == "Episodic"}
    await world.require_no_change(OTHERWISE, **options)


async def test_an_episode_that_is_not_given_is_read_from_the_graph(world: World) -> None:
    await world.write(ROWS)
    whole = World(world.model, world.store, world.folder)
    refresh = await whole.refreshed([OTHERWISE[2]])
    assert len(refresh.rows.kept) == 2
    found = await world.state()
    assert {row["fact"] for row in facts(found)} == {
        "Ann works at Luma.", f"Ann lives in {CANARY}.", "Ben works at Acme.",
    }  # fmt: skip
    await world.require_no_change(OTHERWISE)
    await whole.aclose()


@both_stores
async def test_a_cleared_group_is_empty_and_its_rows_are_new(world: World) -> None:
    await world.write([*ROWS, episode(0, "Dora(user): I live in Lisbon.", "h")])
    there = of_group(await world.state(), "h")
    await other(world, "clear_data", groups=[{"group_id": "g"}])
    assert not (await world.history()).windows
    refresh = await world.refresh([OTHERWISE[2]])
    assert refresh.rows.new == {("g", "g-e2")}
    await refresh.aapply()
    found = await world.state()
    assert names(of_group(found, "g")) == {"Ben", "Acme"}
    assert of_group(found, "h") == there
    assert CANARY not in str(found)


async def test_more_than_a_tenth_is_retracted_only_when_told(world: World) -> None:
    await world.write(ROWS)
    with pytest.raises(PlanError, match=r'2 of 3 rows of group "g" are not in the inputs'):
        await world.refresh(ROWS[:1], complete=True)
    await world.refreshed(ROWS[:1], complete=True, retract=2)
    assert names(await world.state()) == {"Ann", "Luma"}
