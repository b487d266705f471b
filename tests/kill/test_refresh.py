"""Refreshes that are killed: the graph is the old one or the new one, and the next refresh makes it
the new one without paying for an answer twice.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from semgraph.frontend.load import load_plan
from tests.execution.conftest import PLAN, Graph, Place, Row, place_of, wire
from tests.kill.points import INSIDE
from tests.kill.test_kill import EPISODES, KILLS, SEED, Forks, Server, World, forks, fresh, server

__all__ = ["forks", "server"]  # fixtures

POINTS = ("request arrives", "request answered", *INSIDE)
EDITED = [
    {**row, "content": row["content"].replace("Luma", "Acme").replace("Lisbon", "Rome")}
    for row in EPISODES
]


@dataclass
class Written:
    """A world that is written, to begin with again and again."""

    world: World
    kept: Path

    def keep(self) -> None:
        """Keep the files as they are."""
        shutil.rmtree(self.kept, ignore_errors=True)
        shutil.copytree(self.world.folder, self.kept / "world")
        for file in self.world.folder.parent.glob("graph.db*"):
            shutil.copy(file, self.kept)

    async def restore(self) -> None:
        """Put them back; a server is brought back by a refresh, for which all answers are kept."""
        folder = self.world.folder
        if "sqlite:" not in self.world.place.spec:
            assert await self.refresh(EPISODES) is not None
        shutil.rmtree(folder)
        shutil.copytree(self.kept / "world", folder)
        for file in folder.parent.glob("graph.db*"):
            file.unlink()
        for file in self.kept.glob("graph.db*"):
            shutil.copy(file, folder.parent)

    async def refresh(self, rows: list[Row], point: str = "", number: int = 0) -> Any:
        """Refresh until the end, or until it is killed: what came of it; None if it was killed."""
        world = self.world
        answered = world.answered()
        world.server.reset()
        url, report = world.server.base_url, world.folder / "report.json"
        report.unlink(missing_ok=True)
        task = {
            "point": point, "number": number, "plan": str(PLAN), "inputs": {"episodes": rows},
            "refresh": True, "report": str(report), "env": world.place.env,
            "folder": str(world.folder), "llm": f"openai:gpt-4.1-mini@{url}",
            "embedder": f"openai:stand-in@{url}?dimensions=256", "store": world.place.spec,
        }  # fmt: skip
        killed = await world.forks.run(task, world.server)
        assert killed in (0, signal.SIGKILL)
        texts = [body["messages"][-1]["content"] for body in world.server.requests]
        assert not [text for text in texts if text in answered], (point, number, "asked twice")
        if killed:
            return None
        found = json.loads(report.read_text())
        assert "error" not in found, (point, number, found["error"])
        found["passed"] = Counter(found["passed"]) + world.server.counts
        return found


async def begun(place: Place, folder: Path, model: Server, processes: Forks) -> Written:
    """A world with all episodes."""
    world = fresh(place, folder / "world", model, processes, setup=True)
    assert await world.run() is not None
    return Written(world, folder / "kept")


async def marked(world: World) -> dict[str, Any]:
    """What the markers say of each row: its content."""
    store = world.place.look()
    try:
        await store.attach(load_plan(PLAN).graph)  # type: ignore[attr-defined]
        found = await store.history("add_episode", ["g", "h"])
    finally:
        await store.aclose()
    return {
        row.row: row.content
        for history in found.values()
        for window in history.windows
        for row in window.rows
    }


async def look(world: World) -> tuple[Graph, dict[str, Any]]:
    """The graph and its markers."""
    return await world.place.dump(), await marked(world)


@pytest.mark.parametrize("kind", ["sqlite", "neo4j"])
async def test_a_killed_refresh_leaves_the_old_graph_or_the_new_one(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, server: Server, forks: Forks
) -> None:
    begin = await begun(place_of(kind, request, tmp_path), tmp_path, server, forks)
    begin.keep()
    old = await look(begin.world)
    undisturbed = await begin.refresh(EDITED)
    new = await look(begin.world)
    assert new != old
    assert undisturbed["changes"]
    passed = undisturbed["passed"]
    points = [point for point in POINTS if passed[point]]
    assert {"request arrives", "inside commit", "before journal write"} <= {*points}
    draw = random.Random(f"{SEED} refresh {kind}")
    killed: list[str] = []
    while len(killed) < (KILLS if kind == "sqlite" else max(KILLS // 4, 1)):
        await begin.restore()
        for point in draw.sample(points, min(len(points), 2)):
            number = draw.choice([1, passed[point], draw.randint(1, passed[point])])
            if await begin.refresh(EDITED, point, number) is not None:
                break
            killed.append(f"{point} {number}")
            assert await look(begin.world) in (old, new), (SEED, killed)
        is_new = await look(begin.world) == new
        last = await begin.refresh(EDITED)
        assert bool(last["changes"]) is not is_new, (SEED, killed)
        assert await look(begin.world) == new, (SEED, killed)
    assert max(wire(server.requests).values(), default=1) == 1
    print(f"\n{kind}, SEED={SEED}: killed at {', '.join(killed)}")
