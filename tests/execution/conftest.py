"""Sessions under test: the shipped plan, a stand-in for the model over HTTP, and each store in
turn.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import semgraph
from benchmarks.world import Fault, Faults, StandIn
from semgraph.execution.result import Result
from semgraph.frontend.load import load_plan
from semgraph.logical.schema import Graph as Declared
from semgraph.stores.base import Store
from tests.execution.graphs import Contents as Graph
from tests.execution.graphs import contents, wire  # noqa: F401 - for the tests
from tests.partial import maybe_partial
from tests.patience import HANGS, default_signals

ROOT = Path(__file__).parents[2]
PLAN = ROOT / "plans" / "add_episode.yaml"
STORY = [
    "Ann(user): I work at Luma.",
    "Ann(user): I live in Rome.",
    "Ben(user): I work at Luma.",
    "Ben(user): I know Ann.",
    "Ann(user): I moved to Oslo.",
    "Ben(user): I lead Project Kite.",
    "Cleo(user): I work at Acme Labs.",
    "Cleo(user): I lead Project Kite.",
    "Ann(user): I work at Luma.",
    "Ben(user): The project deadline is May 3rd.",
    "Ann(user): I work at Acme Labs.",
    "Cleo(user): I know Ben. I live in Oslo.",
]
Row = Mapping[str, Any]


@cache
def declared() -> Declared:
    """The graph that the shipped plan is about."""
    return load_plan(PLAN).graph


def said(texts: Iterable[str], group: str | None = "g", start: int = 0) -> list[dict[str, Any]]:
    """Messages of a group, a minute apart."""
    first = datetime(2025, 1, 15, 9, tzinfo=UTC)
    return [
        {"content": text, "valid_at": first + timedelta(minutes=start + n), "group_id": group}
        for n, text in enumerate(texts)
    ]


def asked_about(body: Mapping[str, Any]) -> str:
    """The message that an extraction is about; "" of every other question."""
    text: str = body["messages"][-1]["content"]
    return text.removeprefix("Message: ").split("\n")[0] if text.startswith("Message: ") else ""


def variant(folder: Path, *changes: tuple[str, str]) -> Path:
    """The shipped plans in a folder of the test's own, with texts replaced in add_episode."""
    shutil.copytree(PLAN.parent, folder / "plans")
    path = folder / "plans" / PLAN.name
    text = path.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return path


@dataclass
class Poison(Faults):
    """A fault for all requests of one kind."""

    model: Watched | None = None
    hits: Callable[[Mapping[str, Any]], bool] = lambda _: False
    kind: str = "refusal"

    def of(self, number: int) -> Fault | None:
        """The fault of the request that arrived as the `number`-th."""
        assert self.model is not None
        return Fault(self.kind) if self.hits(self.model.requests[number - 1]) else None


class Watched(StandIn):
    """A stand-in that can be held: nothing is answered while `gate` is closed."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived: list[dict[str, Any]] = []
        self.waiting = self.most_waiting = 0

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        self.arrived.append(await request.json())
        self.waiting += 1
        self.most_waiting = max(self.most_waiting, self.waiting)
        try:
            await self.gate.wait()
            return await super()._chat(request)
        finally:
            self.waiting -= 1

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait for something to happen."""
        async with asyncio.timeout(HANGS):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def poison(self, kind: str, text: str) -> None:
        """Spoil every extraction from messages that hold a text."""
        self.faults = Poison(model=self, kind=kind, hits=lambda body: text in asked_about(body))


@dataclass(frozen=True)
class Place:
    """Where a graph is kept: how settings name it, what the environment must say, and a store to
    look into it.
    """

    spec: str
    look: Callable[[], Store]
    env: dict[str, str] = field(default_factory=dict)

    async def dump(self, *, times: bool = False, group: str | None = None) -> Graph:
        """Everything that the graph holds, by label and key; times of writing only as whether there
        are any.
        """
        groups = None if group is None else [group]
        return await contents(self.look(), declared(), times=times, groups=groups)

    async def counts(self) -> dict[str, int]:
        """How many there are of each label."""
        return {name: len(rows) for name, rows in (await self.dump()).items()}


@dataclass
class Work:
    """Runs plans against a model and a place, in this process or in one of its own."""

    model: Watched
    place: Place
    folder: Path

    def session(self, **options: Any) -> semgraph.Session:
        """A session with a journal and run records in the test's folder."""
        name = f"openai:gpt-4.1-mini@{self.model.base_url}?timeout={HANGS:.0f}"
        embedder = f"openai:stand-in@{self.model.base_url}?dimensions=256"
        given = {
            "llm": name,
            "embedder": embedder,
            "store": self.place.spec,
            "folder": self.folder,
        } | options
        return semgraph.Session(**given)

    async def run(
        self,
        episodes: list[dict[str, Any]],
        plan: Any = PLAN,
        session: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Result:
        """Run a plan over episodes."""
        async with self.session(**(session or {})) as opened:
            return await maybe_partial(opened.arun(plan, episodes=episodes, **options))

    async def start(
        self,
        episodes: list[dict[str, Any]],
        journal: str = "",
        script: str = "tests.execution.process",
        llm: str = "",
    ) -> Process:
        """Start a run in a process of its own; see `process.py`."""
        task = {
            "llm": llm or f"openai:gpt-4.1-mini@{self.model.base_url}?timeout={HANGS:.0f}",
            "embedder": f"openai:stand-in@{self.model.base_url}?dimensions=256",
            "store": self.place.spec,
            "folder": str(self.folder),
            "journal": journal or None,
            "plan": str(PLAN),
            "episodes": episodes,
        }
        env = {**os.environ, **self.place.env, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", script, json.dumps(task, default=str)]
        return await asyncio.create_subprocess_exec(
            *command, stdout=PIPE, stderr=PIPE, cwd=ROOT, env=env, preexec_fn=default_signals
        )

    @property
    def records(self) -> list[dict[str, Any]]:
        """What the records of all runs say, the first run first."""
        found = [
            json.loads(p.read_text())
            for p in (self.folder / ".semgraph" / "runs").glob("*/run.json")
        ]
        return sorted(found, key=lambda facts: facts["started"])


async def ended(process: Process) -> dict[str, Any]:
    """What a process of `Work.start` says at its end; an error that it was not to have fails the
    test.
    """
    async with asyncio.timeout(HANGS):
        out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return json.loads(out)


@pytest.fixture
async def model() -> AsyncIterator[Watched]:
    """The stand-in, which dates facts."""
    async with Watched() as server:
        yield server


def place_of(kind: str, request: pytest.FixtureRequest, folder: Path) -> Place:
    """An empty store of a kind."""
    if kind == "sqlite":
        from semgraph.stores.sqlite.store import SqliteStore

        return Place(f"sqlite:{folder / 'graph.db'}", lambda: SqliteStore(folder / "graph.db"))
    from semgraph.stores.neo4j.store import Neo4jStore

    server = request.getfixturevalue("neo4j_database")
    env = {"NEO4J_USERNAME": server.user, "NEO4J_PASSWORD": server.password}
    patch = request.getfixturevalue("monkeypatch")
    for name, value in env.items():
        patch.setenv(name, value)
    return Place(server.uri, lambda: Neo4jStore(server.uri, server.user, server.password), env)


@pytest.fixture(params=["sqlite", "neo4j"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Each kind of store in turn, empty."""
    return place_of(request.param, request, tmp_path)


@pytest.fixture
def work(model: Watched, place: Place, tmp_path: Path) -> Work:
    """Runs against each store in turn."""
    return Work(model, place, tmp_path)


@pytest.fixture
def simple(model: Watched, request: pytest.FixtureRequest, tmp_path: Path) -> Work:
    """Runs against an SQLite file, for what does not depend on the store."""
    return Work(model, place_of("sqlite", request, tmp_path), tmp_path)
