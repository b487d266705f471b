"""A memory as its user has it: a folder, the shipped plans, a stand-in for the model that counts
what reaches it on the wire.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from benchmarks.world import Fault, StandIn
from benchmarks.world.faults import Faults
from benchmarks.world.requests import Record
from tests.cli.conftest import Ended, Project
from tests.patience import HANGS

NOISE = (
    "Traceback",
    "nanobind",
    "Unclosed",
    "asyncio",
    "Task ",
    "Exception ignored",
    "Warning",
    "never awaited",
    "Errno",
)


class Taught(StandIn):
    """The stand-in, which is told what some messages name and say: `taught[content]` is names and
    facts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.taught: dict[str, tuple[Sequence[str], Sequence[Mapping[str, str]]]] = {}
        self.gate = asyncio.Event()  # while it is closed nothing is answered
        self.gate.set()
        self.held = threading.Event()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        if not self.gate.is_set():
            self.held.set()
            await self.gate.wait()
        return await super()._chat(request)

    def _row(self, skill: str, record: Record) -> dict[str, Any]:
        names, facts = self.taught.get(record.get("content", ""), ((), ()))
        if names and skill == "entities":
            return {"entities": [{"name": name, "kind": "other"} for name in names]}
        if names and skill == "facts":
            return {
                "facts": [
                    {**fact, "relation": "SAYS", "valid_at": None, "invalid_at": None}
                    for fact in facts
                ]
            }
        return super()._row(skill, record)


@dataclass
class Serving:
    """The stand-in in a thread of its own."""

    server: Taught
    loop: asyncio.AbstractEventLoop

    @property
    def requests(self) -> int:
        """Requests that came: chats and embeddings."""
        return len(self.server.requests) + self.server.counters.embedding_calls

    def spoil(self, *faults: Fault) -> None:
        """What goes wrong from now on."""
        self.server.faults = Faults(faults)

    def hold(self) -> None:
        """Answer no chat from now on."""
        self.server.held.clear()
        self.loop.call_soon_threadsafe(self.server.gate.clear)

    def until_held(self) -> None:
        """Wait for a chat that is held."""
        assert self.server.held.wait(HANGS)

    def release(self) -> None:
        """Answer chats again."""
        self.loop.call_soon_threadsafe(self.server.gate.set)

    def until(self, requests: int) -> None:
        """Wait for so many chats."""

        async def waiting() -> None:
            async with asyncio.timeout(HANGS):
                while len(self.server.requests) < requests:  # noqa: ASYNC110 - a server in another thread
                    await asyncio.sleep(0.005)

        asyncio.run_coroutine_threadsafe(waiting(), self.loop).result(HANGS)


@pytest.fixture
def serving() -> Iterator[Serving]:
    """The server, for the time of a test."""
    loop = asyncio.new_event_loop()
    server = Taught()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(HANGS)
    yield Serving(server, loop)
    asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(HANGS)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(HANGS)
    loop.close()


@pytest.fixture
def project(tmp_path: Path, serving: Serving) -> Project:
    """An empty folder; the environment names the stand-in as model and embedder."""
    clean = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("SEMGRAPH_", "OPENAI_", "NEO4J_", "COV_"))
    }
    env = clean | {
        "SEMGRAPH_LLM": f"openai:gpt-4.1-mini@{serving.server.base_url}",
        "SEMGRAPH_EMBEDDER": f"openai:stand-in@{serving.server.base_url}?dimensions=64",
        "SEMGRAPH_HOME": str(tmp_path / "home"),
        "SEMGRAPH_RETRIES_ATTEMPTS": "2",
        "OPENAI_API_KEY": "key",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    (tmp_path / "work").mkdir()
    return Project(tmp_path / "work", env)


def episode(content: str, minute: int = 0, **more: Any) -> dict[str, Any]:
    """An episode of group g."""
    return {
        "group_id": "g",
        "valid_at": f"2025-01-15T09:{minute:02}:00Z",
        "content": content,
        **more,
    }


def told(
    project: Project, rows: Sequence[Mapping[str, Any]], name: str = "episodes.jsonl"
) -> list[str]:
    """Write rows into a file; the arguments that have them remembered."""
    project.write(name, "".join(json.dumps(row) + "\n" for row in rows))
    return ["run", "add_episode", "-i", f"episodes={name}"]


def quiet(ended: Ended, code: int) -> str:
    """Check that a command ended with a code and without noise; its stderr."""
    assert ended.code == code, ended
    assert not [word for word in NOISE if word in ended.err], ended.err
    return ended.err


POWERLESS = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(24, 1, 0, 0, 0)     # the superuser obeys permissions too: PR_CAPBSET_DROP, CAP_DAC_OVERRIDE
os.execv(sys.executable, [sys.executable, "-c", "from semgraph.cli import main; main()", *sys.argv[1:]])
"""


def powerless(project: Project, *args: str) -> Ended:
    """Run a command that obeys the permissions of files, whoever runs the tests."""
    done = subprocess.run(
        [sys.executable, "-c", POWERLESS, *args], cwd=project.folder, env=project.env,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANGS, check=False,
    )  # fmt: skip
    return Ended(done.returncode, done.stdout, done.stderr)


def held(project: Project, label: str, store: str = ".semgraph/graph.db") -> list[dict[str, Any]]:
    """The rows of a label in an SQLite store, read past semgraph."""
    con = sqlite3.connect(project.folder / store)
    con.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in con.execute(f'SELECT * FROM "{label}"')]
    finally:
        con.close()


@pytest.fixture
def untouched(project: Project, serving: Serving) -> Iterator[None]:
    """For a test of what must cost nothing: afterwards no request has come, and nothing was written
    into the folder.
    """
    yield
    assert serving.requests == 0
    assert not (project.folder / ".semgraph").exists()
