"""Runs that are killed, anywhere, and run again: the graph is that of a run that was not, and no answer is paid twice.

`KILLS` says how many processes are killed, `SEED` which draws are made: `make kill KILLS=200 SEED=7`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from aiohttp import web

from benchmarks.world import StandIn
from semgraph.execution.record import read_rows
from semgraph.execution.runs import all_runs
from semgraph.frontend.yaml import load_plan
from tests.conftest import without_schema
from tests.execution.conftest import PLAN, ROOT, Graph, Place, place_of, said

KILLS = int(os.environ.get("KILLS") or 4)
SEED = os.environ.get("SEED") or "0"
STORIES = {
    "g": ["Ann(user): I work at Luma.", "Ben(user): I know Ann.", "Ann(user): I moved to Oslo."],
    "h": ["Dora(user): I live in Lisbon.", "Emil(user): I know Dora.", "Dora(user): I moved to Vienna."],
}
EPISODES = [{**row, "uuid": f"{group}-{n}"} for group in STORIES for n, row in enumerate(said(STORIES[group], group))]
STEP = "spoken"  # has a row for each episode
POINTS = {  # with how often each is passed at most
    "request arrives": 14,
    "request answered": 14,
    "statement": 300,
    "store setup": 30,
    "before commit": 6,
    "inside commit": 60,
    "after commit": 6,
    "before record": 6,
    "after record": 6,
    "before journal write": 12,
    "inside journal write": 12,
    "after journal write": 12,
}


class Server(StandIn):
    """A model that kills its client when a request arrives for the n-th time, or when it was answered."""

    def __init__(self) -> None:
        super().__init__()
        self.aim(0, "", 0)
        self.embedded: list[str] = []

    def aim(self, pid: int, point: str, number: int) -> None:
        """Which process to kill, and when."""
        self.pid, self.point, self.left = pid, point, number

    def passed(self, point: str) -> None:
        """A point is passed."""
        if point == self.point:
            self.left -= 1
            if not self.left:
                os.kill(self.pid, signal.SIGKILL)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.passed("request arrives")
        reply = await super()._chat(request)
        await reply.prepare(request)
        await reply.write_eof()
        self.passed("request answered")
        return reply

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        texts = (await request.json())["input"]
        self.embedded += [texts] if isinstance(texts, str) else texts
        return await super()._embeddings(request)


class Forks:
    """A process that forks runs; see `process.py`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> Self:
        """Start it."""
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable, "-m", "tests.kill.process", stdin=PIPE, stdout=PIPE, cwd=ROOT, env=env
            )
        )

    async def run(self, task: Mapping[str, Any], server: Server) -> int:
        """Run a task; the signal that ended it. The server aims at it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        server.aim(0, "", 0)
        self._process.stdin.write(json.dumps(task, default=str).encode() + b"\n")
        server.aim(int(await self._process.stdout.readline()), task["point"], task["number"])
        return int(await self._process.stdout.readline())

    async def stop(self) -> None:
        """Stop it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


@dataclass
class World:
    """A store, a journal and records, and the runs that they see."""

    place: Place
    folder: Path
    server: Server
    forks: Forks
    lives: list[str] = field(default_factory=list)

    @property
    def journal(self) -> Path:
        """The file with what was answered."""
        return self.folder / ".semgraph" / "journal.db"

    async def run(self, point: str = "", number: int = 0, *, resume: bool = False) -> bool:
        """Run the plan until its end, or until it is killed; whether it was."""
        self.lives.append(f"{point or 'undisturbed'} {number or ''}{' (resumed)' if resume else ''}".strip())
        before = self.answered()
        vectors = self.count("vectors")
        self.server.reset()
        self.server.embedded = []
        url = self.server.base_url
        report = self.folder / "report.json"
        report.unlink(missing_ok=True)
        resume = resume and bool(all_runs(self.folder / ".semgraph" / "runs"))
        task = {
            "point": point, "number": number, "plan": str(PLAN), "inputs": {"episodes": EPISODES},
            "resume": "last" if resume else None, "report": str(report), "env": self.place.env, "folder": str(self.folder),
            "llm": f"openai:gpt-4.1-mini@{url}", "embedder": f"openai:stand-in@{url}?dimensions=256",
            "store": self.place.spec,
        }  # fmt: skip
        killed = await self.forks.run(task, self.server)
        assert killed in (0, signal.SIGKILL), self.lives
        twice = [text for body in self.server.requests if (text := body["messages"][-1]["content"]) in before]
        assert not twice, (self.lives, "answers in the journal that were asked again")
        if not killed:
            found = json.loads(report.read_text())
            assert "error" not in found, (self.lives, found["error"])
            assert (found["committed"] + found["skipped"], found["exit_code"]) == (len(EPISODES), 0), self.lives
            assert vectors + len(self.server.embedded) == self.count("vectors"), (self.lives, "a vector was paid twice")
            assert self.count("answers") == self.count("answers", "DISTINCT key"), self.lives
        return bool(killed)

    def answered(self) -> set[str]:
        """The last message of each request with an answer in the journal."""
        return {json.loads(text)[-1][-1][1] for (text,) in self._rows("answers", "request")}

    def count(self, table: str, what: str = "*") -> int:
        """How many rows a table of the journal has."""
        return next((number for (number,) in self._rows(table, f"count({what})")), 0)

    def _rows(self, table: str, what: str) -> list[Any]:
        if not self.journal.exists():
            return []
        with closing(sqlite3.connect(self.journal)) as database:
            named = database.execute("SELECT count(*) FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
            return database.execute(f"SELECT {what} FROM {table}").fetchall() if named else []

    async def check_records(self) -> None:
        """Each episode that is committed is in the record of the run that committed it."""
        plan = load_plan(PLAN)
        store = self.place.look()
        try:
            await store.ensure(plan.graph, None)
            states = await store.states(plan.name, list(STORIES))
        finally:
            await store.aclose()
        runs = {run.name: run for run in all_runs(self.folder / ".semgraph" / "runs")}
        for state in states.values():
            for row, mark in state.marked.items():
                recorded = {r["uuid"] for r in read_rows(runs[mark.run].folder, "steps", STEP)}
                assert row in recorded, (self.lives, row, mark.run)


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's settings gets in."""
    for name in list(os.environ):
        if name.startswith(("SEMGRAPH_", "OPENAI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("OPENAI_API_KEY", "none")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """The model."""
    async with Server() as started:
        yield started


@pytest.fixture
async def forks() -> AsyncIterator[Forks]:
    """Where processes come from."""
    started = await Forks.start()
    yield started
    await started.stop()


def draws(store: str) -> Iterator[tuple[random.Random, str, int]]:
    """Points, each as often as the others, in an order of the seed; and which time each is passed."""
    draw = random.Random(f"{SEED} {store}")
    while True:
        for point in draw.sample(list(POINTS), len(POINTS)):
            yield draw, point, draw.randint(1, POINTS[point])


def fresh(place: Place, folder: Path, server: Server, forks: Forks, *, setup: bool) -> World:
    """An empty world; `setup`: nothing of a store is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    if place.spec.startswith("sqlite:"):
        for file in Path(place.spec.removeprefix("sqlite:")).parent.glob("graph.db*"):
            file.unlink()
        return World(place, folder, server, forks)
    import neo4j

    auth = (place.env["NEO4J_USERNAME"], place.env["NEO4J_PASSWORD"])
    with neo4j.GraphDatabase.driver(place.spec, auth=auth) as driver:
        driver.execute_query("MATCH (n) DETACH DELETE n")
        if setup:
            without_schema(lambda text: [record.data() for record in driver.execute_query(text).records])
    return World(place, folder, server, forks)


@pytest.mark.parametrize("kind", ["sqlite", "neo4j"])
async def test_a_killed_run_is_finished_by_the_next_with_the_same_graph_and_no_answer_paid_twice(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, server: Server, forks: Forks
) -> None:
    place = place_of(kind, request, tmp_path)
    world = fresh(place, tmp_path / "world", server, forks, setup=False)
    await world.run()
    undisturbed: Graph = await place.dump()
    killed: list[str] = []
    drawn = draws(kind)
    while len(killed) < KILLS // 2:
        draw, point, number = next(drawn)
        world = fresh(place, tmp_path / "world", server, forks, setup=point == "store setup")
        for _ in range(draw.randint(1, 3)):
            if not await world.run(point, number, resume=draw.random() < 0.3):
                break
            killed.append(f"{point} {number}")
            await world.check_records()
            _, point, number = next(drawn)
        else:
            assert not await world.run(resume=draw.random() < 0.3)
        await world.check_records()
        assert await place.dump() == undisturbed, (SEED, world.lives)
    print(f"\n{kind}, SEED={SEED}: killed at {', '.join(killed)}")
