"""Two refreshes, or a run and a refresh, of one group at once: one goes on, the other stops, and
nothing is lost.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from semgraph.errors import ConcurrentWrite
from semgraph.stores.sqlite.store import SqliteStore
from tests.execution.conftest import ROOT
from tests.patience import HANGS
from tests.refresh.conftest import both_stores
from tests.refresh.test_edits import names
from tests.refresh.world import World, edited, episode, state

ROWS = [episode(0, "I work at Luma."), episode(1, "Ben(user): I work at Luma.")]
OSLO = edited(ROWS, 1, content="Ben(user): I live in Oslo.")
ROME = edited(ROWS, 1, content="Ben(user): I live in Rome.")
KITE = episode(2, "I lead Project Kite.")


@both_stores
async def test_of_two_refreshes_the_later_stops(world: World) -> None:
    await world.write(ROWS)
    first, second = await world.refresh(OSLO), await world.refresh(ROME)
    await first.aapply()
    left = await world.state()
    with pytest.raises(ConcurrentWrite):
        await second.aapply()
    assert await world.state() == left
    await world.require_no_change(OSLO)
    await world.refreshed(ROME)
    assert "Rome" in names(await world.state())


@both_stores
async def test_a_run_that_was_faster_stops_a_refresh(world: World) -> None:
    await world.write(ROWS)
    refresh = await world.refresh(OSLO)
    await world.write([KITE])
    left = await world.state()
    with pytest.raises(ConcurrentWrite):
        await refresh.aapply()
    assert await world.state() == left
    await world.refreshed([*OSLO, KITE])
    assert {"Oslo", "Project Kite"} <= names(await world.state())


async def test_a_refresh_is_applied_once(world: World) -> None:
    await world.write(ROWS)
    refresh = await world.refresh(OSLO)
    await refresh.aapply()
    with pytest.raises(ConcurrentWrite):
        await refresh.aapply()  # a second time
    await world.require_no_change(OSLO)


async def test_a_refresh_of_one_group_stops_nobody_in_another(world: World) -> None:
    await world.write(ROWS)
    refresh = await world.refresh(OSLO)
    await world.write([episode(0, "Dora(user): I live in Lisbon.", "h")])
    await refresh.aapply()
    assert {"Oslo", "Lisbon"} <= names(await world.state())


async def start(world: World, file: Path, rows: list[dict[str, Any]], go: Path) -> Any:
    """A process that computes a refresh, waits until a file is there, and applies it."""
    url = world.model.base_url
    task = {
        "llm": f"openai:gpt-4.1-mini@{url}", "embedder": f"openai:stand-in@{url}?dimensions=256",
        "store": f"sqlite:{file}", "folder": str(world.folder), "episodes": rows, "go": str(go),
    }  # fmt: skip
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.refresh.process", json.dumps(task, default=str), stdout=PIPE,
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


@pytest.mark.parametrize("store", ["file"], indirect=True)
async def test_of_two_processes_one_applies_and_the_other_stops(
    world: World, tmp_path: Path
) -> None:
    await world.write(ROWS)
    file, go = tmp_path / "graph.db", tmp_path / "go"
    processes = [await start(world, file, rows, go) for rows in (OSLO, ROME)]
    async with asyncio.timeout(HANGS):
        for process in processes:
            assert (await process.stdout.readline()).strip() == b"computed"
        go.touch()
        ends = [(await process.communicate())[0].decode().strip() for process in processes]
    assert sorted(ends) == ["ConcurrentWrite", "applied"]
    won = "Oslo" if ends[0] == "applied" else "Rome"
    look = SqliteStore(file)
    found = names(await state(look))
    await look.aclose()
    assert found == {"Ann", "Ben", "Luma", won}
