"""A server and the SDK's client: in this process, also over HTTP, or a process over standard streams."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult

from semgraph.serve import transports
from semgraph.serve.server import ToolServer
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

    @asynccontextmanager
    async def connected(self, token: str = "", mode: str = "auto") -> AsyncIterator[Client]:
        """A client."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with httpx2.AsyncClient(headers=headers, timeout=HANGS) as http:
            transport = streamable_http_client(self.url, http_client=http)
            async with Client(transport, mode=mode) as client:
                yield client


@dataclass
class WebProcess(Web):
    """A server that listens, in a process of its own."""

    process: subprocess.Popen[str]

    def end(self) -> int:
        """Stop it as the system does; gives its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HANGS)


@contextmanager
def listening(project: Project, *args: str) -> Iterator[WebProcess]:
    """A process that serves at a free port of this machine."""
    process = project.start(*MAIN[2:], "--http", "127.0.0.1:0", *args)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"serving \d+ tools? at (\S+):", line)
        assert found, line + process.stderr.read()
        yield WebProcess(found[1], process)
    finally:
        process.kill()
        process.communicate()


@asynccontextmanager
async def made(project: Project, *args: str) -> AsyncIterator[tuple[ToolServer, Any]]:
    """The server that the command makes, and its address; it and its plans are in this process."""
    command, given = import_module("semgraph.cli.serve"), list[Any]()
    with pytest.MonkeyPatch.context() as patch, project.inside():
        patch.setattr(transports, "standard_streams", lambda: nullcontext((0, 1)))
        patch.setattr(command, "_serve_stdio", lambda *all_of_it: given.extend(all_of_it))
        patch.setattr(command, "_serve_http", lambda _options, *rest: given.extend(rest))
        ended = project(*MAIN[2:], *args)
        assert ended.code == 0, ended.err
        server, session, address, *_ = given
        async with session:
            await session.arequire_prices(server.plans)
            yield server, address
        server.stop()


@asynccontextmanager
async def answering(project: Project, *args: str) -> AsyncIterator[Web]:
    """A server in this process that listens at a free port."""
    async with made(project, "--http", "127.0.0.1:0", *args) as (server, address):
        ready = asyncio.get_running_loop().create_future()
        listens = transports.serve_http(server.protocol(), address, ready.set_result, server.stop)
        serving = asyncio.ensure_future(listens)
        await asyncio.wait({ready, serving}, return_when=asyncio.FIRST_COMPLETED)
        try:
            yield Web(await ready if ready.done() else await serving)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def piped(project: Project, *args: str) -> StdioServerParameters:
    """How the SDK starts a server."""
    return StdioServerParameters(
        command=sys.executable, args=[*MAIN, *args], env=project.env, cwd=project.folder
    )


both_transports = pytest.mark.parametrize(
    "connect", [pytest.param("stdio", marks=pytest.mark.nightly), "http"], indirect=True
)
"""For what depends on the transport: calls at the same time."""
both_modes = pytest.mark.parametrize(
    ("connect", "mode"), [("stdio", "auto"), ("http", "legacy")], indirect=["connect"]
)
"""For what depends on transport and mode: calls, and cancelling."""


@pytest.fixture
def connect(request: pytest.FixtureRequest, project: Project, tmp_path: Path) -> Connect:
    """Makes a server in this process and connects a client to it, directly or over HTTP; over standard
    streams it is a process of its own.
    """
    transport = getattr(request, "param", "here")

    @asynccontextmanager
    async def connected(*args: str, mode: str = "auto") -> AsyncIterator[Client]:
        if transport == "here":
            async with (
                made(project, *args) as (server, _),
                Client(server.protocol(), mode=mode) as client,
            ):
                yield client
            return
        if transport == "http":
            async with answering(project, *args) as web, web.connected(mode=mode) as client:
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
