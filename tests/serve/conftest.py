"""A server in a process of its own, and the SDK's client, over standard streams or HTTP."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from tests.cli import conftest as commands
from tests.cli.conftest import Project, Serving
from tests.patience import HANGS

project, serving = commands.project, commands.serving

MAIN = ["-c", "from semgraph.cli import main; main()", "serve", "--mcp"]
Connect = Callable[..., AbstractAsyncContextManager[Client]]


@dataclass
class Web:
    """A server that listens."""

    url: str
    process: subprocess.Popen[str]

    def end(self) -> int:
        """Stop it as the system does; gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANGS)

    @asynccontextmanager
    async def connected(self, token: str = "", mode: str = "auto") -> AsyncIterator[Client]:
        """A client."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(headers=headers, timeout=HANGS) as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=mode) as client:
                yield client


@contextmanager
def listening(project: Project, *args: str) -> Iterator[Web]:
    """A server at a free port of this machine."""
    process = project.start(*MAIN[2:], "--http", "127.0.0.1:0", *args)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"serving \d+ tools? at (\S+):", line)
        assert found, line + process.stderr.read()
        yield Web(found[1], process)
    finally:
        process.kill()
        process.communicate()


def piped(project: Project, *args: str) -> StdioServerParameters:
    """How the SDK starts a server."""
    return StdioServerParameters(
        command=sys.executable, args=[*MAIN, *args], env=project.env, cwd=project.folder
    )


both_transports = pytest.mark.parametrize("connect", ["stdio", "http"], indirect=True)
"""For what depends on the transport: calls at the same time."""
both_modes = pytest.mark.parametrize(
    ("connect", "mode"), [("stdio", "auto"), ("http", "legacy")], indirect=["connect"]
)
"""For what depends on transport and mode: calls, and cancelling."""


@pytest.fixture
def connect(request: pytest.FixtureRequest, project: Project, tmp_path: Path) -> Connect:
    """Starts a server and connects a client to it, over standard streams unless
    `both_transports` asks for each.
    """
    transport = getattr(request, "param", "stdio")

    @asynccontextmanager
    async def connected(*args: str, mode: str = "auto") -> AsyncIterator[Client]:
        if transport == "http":
            with listening(project, *args) as web:
                async with web.connected(mode=mode) as client:
                    yield client
            return
        with (tmp_path / "stderr").open("w") as errors:
            async with Client(stdio_client(piped(project, *args), errors), mode=mode) as client:
                yield client

    return connected


def text_of(result: CallToolResult) -> str:
    """The first text of a result."""
    (first, *_) = result.content
    assert first.type == "text"
    return first.text


def note(text: str, group: str | None = None, day: int = 1, **more: Any) -> dict[str, Any]:
    """A note of the plan `people`."""
    own = {} if group is None else {"group_id": group}
    return {"text": text, "at": f"2025-01-{day:02}T09:00:00Z", **own, **more}


async def until_called(serving: Serving, calls: int = 1) -> None:
    """Wait until the model was asked so often."""
    await asyncio.to_thread(serving.until, lambda server: len(server.requests) >= calls)
