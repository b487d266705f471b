"""A server that listens: who reaches it, and how it ends."""

from __future__ import annotations

import asyncio
import json
import socket

import httpx2
import pytest

from semgraph.errors import PlanError
from semgraph.serve.transports import Address
from tests.cli.conftest import Project, Serving
from tests.patience import HANGS
from tests.serve.conftest import answering, listening, note, until_called

TOKEN = "0123456789abcdef-secret"
HELLO = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    },
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


def hello(url: str, **headers: str) -> httpx2.Response:
    """The answer to a client that begins."""
    return httpx2.post(url, json=HELLO, headers=ACCEPT | headers, timeout=HANGS)


def test_only_requests_with_the_token_are_answered(project: Project) -> None:
    project.env["SEMGRAPH_TOKEN"] = TOKEN
    with listening(project, "--plans", "find") as web:
        wrong = (
            "",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
            f"Basic {TOKEN}",
            TOKEN,
            "Bearer é",
        )
        for given in wrong:
            headers = {"Authorization": given.encode("latin-1")} if given else {}
            answer = httpx2.post(web.url, json=HELLO, headers=ACCEPT | headers, timeout=HANGS)
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), (
                given
            )
            assert TOKEN not in answer.text
        assert hello(web.url, Authorization=f"Bearer {TOKEN}").status_code == 200
        assert web.end() == 0
        assert web.process.stderr is not None
        assert TOKEN not in web.process.stderr.read()


async def test_the_token_may_be_in_another_variable(project: Project) -> None:
    project.env["MEMORY_SECRET"] = TOKEN
    async with answering(project, "--plans", "find", "--token", "MEMORY_SECRET") as web:
        assert (await asyncio.to_thread(hello, web.url)).status_code == 401
        async with web.connected(TOKEN) as client:
            assert [tool.name for tool in (await client.list_tools()).tools] == ["find"]


async def test_requests_for_other_hosts_and_of_other_origins_are_refused(
    project: Project,
) -> None:
    named = ("--plans", "find", "--allow-host", "memory.example.org")
    async with answering(project, *named) as web:
        for headers, code in (
            ({"Host": "evil.example.org"}, 421),
            ({"Origin": "http://evil.example.org"}, 403),
            ({"Host": "memory.example.org"}, 200),
            ({"Origin": "https://memory.example.org"}, 200),
            ({"Origin": "http://localhost:3000"}, 200),
        ):
            answer = await asyncio.to_thread(hello, web.url, **headers)
            assert answer.status_code == code, headers


@pytest.mark.parametrize(
    ("args", "token", "expected"),
    [
        (("0.0.0.0:0",), "", "can be reached from other machines, and there is no token"),
        (("[::]:0",), "", "can be reached from other machines, and there is no token"),
        (("example.org:0",), "", "can be reached from other machines, and there is no token"),
        (("0.0.0.0:0",), TOKEN, "--allow-host memory.example.org"),
        (("127.0.0.1:0",), "short", "is not at least 16 printable ASCII characters"),
        (("127.0.0.1:0",), "é" * 20, "is not at least 16 printable ASCII characters"),
        (("127.0.0.1:0", "--token", "UNSET"), "", "--token UNSET: this variable is not set"),
        (("127.0.0.1:http",), "", '"127.0.0.1:http" is no address'),
        (("127.0.0.1:70000",), "", '"127.0.0.1:70000" is no address'),
    ],
)
def test_an_address_that_is_not_safe_is_refused(
    project: Project, args: tuple[str, ...], token: str, expected: str
) -> None:
    if token:
        project.env["SEMGRAPH_TOKEN"] = token
    done = project("serve", "--mcp", "--plans", "find", "--http", *args)
    assert done.code == 2
    assert expected in done.err
    assert not token or token not in done.err


def test_a_port_that_is_taken_is_told(project: Project) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = project("serve", "--mcp", "--plans", "find", "--http", address)
    assert done.code == 1
    assert f"{address}: Address already in use" in done.err


def test_addresses() -> None:
    assert Address.parse(None) == Address("127.0.0.1", 8000)
    assert Address.parse(":9000") == Address("127.0.0.1", 9000)
    assert Address.parse("localhost") == Address("localhost", 8000)
    assert Address.parse("[::1]:1") == Address("::1", 1)
    assert Address.parse("[::1]") == Address("::1", 8000)
    assert Address.parse("[::1]:1").url(1) == "http://[::1]:1/mcp"
    with pytest.raises(PlanError):
        Address.parse("host:port")


async def test_a_signal_interrupts_what_runs_and_ends_it(
    project: Project, serving: Serving
) -> None:
    with listening(project, "--plans", "people") as web:
        async with web.connected(mode="legacy") as client:
            call = asyncio.ensure_future(client.call_tool("people", {"notes": [note("slow", "g")]}))
            await until_called(serving)
            assert await asyncio.to_thread(web.end) == 0
            call.cancel()
            await asyncio.gather(call, return_exceptions=True)
    (record,) = (project.folder / ".semgraph" / "runs").glob("*/run.json")
    assert json.loads(record.read_text())["status"] == "interrupted"
    await asyncio.to_thread(serving.until, lambda server: server.abandoned)


async def test_clients_share_the_server(project: Project) -> None:
    async with (
        answering(project, "--plans", "people,find") as web,
        web.connected() as one,
        web.connected(mode="legacy") as other,
    ):
        await one.call_tool("people", {"notes": [note("Ann knows Bob.", "g")]})
        found = await other.call_tool("find", {"queries": [{"query": "Bob"}]})
    assert len(found.structured_content["tables"]["hits"]) == 1
