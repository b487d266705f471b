"""Groups that an earlier version wrote are taken over when that is asked for."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from benchmarks.world import StandIn
from semgraph.errors import PlanError
from semgraph.stores.sqlite.store import SqliteStore
from tests.refresh.test_edits import fact, names
from tests.refresh.world import Row, World, different, edited, episode

LEFT = Path(__file__).parents[1] / "fixtures" / "v0_2" / "graph.db"  # made by semgraph 0.2
ROWS = [
    episode(0, "I work at Luma."),
    episode(1, "Ben(user): I work at Luma."),
    episode(2, "I work at Acme."),
]
OTHERWISE = edited(ROWS, 1, content="Ben(user): I live in Oslo.")


def as_an_earlier_version(file: Path) -> None:
    """Take from a store what an earlier version did not write."""
    with sqlite3.connect(file) as database:
        database.executescript(
            'UPDATE "#marks" SET content = \'\', "window" = NULL, place = NULL;'
            'DELETE FROM "#windows"; DELETE FROM "#window_parts";'
        )
    database.close()


@pytest.mark.parametrize("store", ["file"], indirect=True)
async def test_an_adopted_group_is_as_it_was_and_is_then_refreshed(
    world: World, tmp_path: Path
) -> None:
    await world.write(ROWS)
    before = await world.state()
    as_an_earlier_version(tmp_path / "graph.db")
    with pytest.raises(PlanError, match="written by an earlier version") as refused:
        await world.refresh(OTHERWISE)
    assert "adopt=True" in str(refused.value)
    assert await world.state() == before
    refresh = await world.refreshed(ROWS, adopt=True)
    assert len(refresh.diff) == 0, str(refresh.diff)
    assert different(await world.state(), before) == []
    await world.require_no_change(ROWS)
    await world.refreshed(OTHERWISE)
    found = await world.state()
    assert names(found) == {"Ann", "Ben", "Luma", "Acme", "Oslo"}
    assert fact(found, "Ann works at Luma")["created_at"] == fact(before, "Ann works at Luma")["created_at"]  # fmt: skip


async def test_a_graph_of_version_0_2_is_refused_and_adopted(
    model: StandIn, tmp_path: Path
) -> None:
    file = tmp_path / "graph.db"
    shutil.copy(LEFT, file)
    store = SqliteStore(file)
    world = World(model, store, tmp_path, dimensions=64)
    try:
        rows: list[Row] = [
            {name: row[name] for name in ("uuid", "group_id", "content", "valid_at", "source")}
            for (label, _), row in (await world.state()).items()
            if label == "Episodic"
        ]
        assert len(rows) == 3
        assert await world.run("add_episode", episodes=rows)
        assert not model.requests
        with pytest.raises(PlanError, match="adopt=True"):
            await world.refresh(rows)
        assert not model.requests
        refresh = await world.refreshed(rows, adopt=True)
        assert refresh.rows.edited == {("demo", row["uuid"]) for row in rows}
        await world.require_no_change(rows)
    finally:
        await world.aclose()
        await store.aclose()


async def test_markers_of_version_0_2_ask_for_the_rows(model: StandIn, tmp_path: Path) -> None:
    """They have no fingerprints of contents, so what is stored cannot be known to be whole."""
    shutil.copy(LEFT, tmp_path / "graph.db")
    store = SqliteStore(tmp_path / "graph.db")
    world = World(model, store, tmp_path, dimensions=64)
    try:
        [first, *_] = [key for label, key in await world.state() if label == "Episodic"]
        row = {**ROWS[0], "uuid": first, "group_id": "demo"}
        with pytest.raises(PlanError, match="Give them as input episodes too"):
            await world.refresh([row], adopt=True)
    finally:
        await world.aclose()
        await store.aclose()
