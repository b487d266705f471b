"""Sessions under load: a small plan with one call for each row, and the simulated server, which
counts what it gets.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import semgraph as sg
from benchmarks.world import StandIn

PLAN = """
plan: complaints
inputs: {tickets: {id: int64, body: string}}
steps:
  complaints:
    - from: tickets
    - sem_filter: {prompt: "Does it leak: {body}"}
returns: [complaints]
"""


class Server(StandIn):
    """The simulated server, which says yes to every question, and knows the connections that its
    requests came over.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.connections: set[tuple[str, int]] = set()

    def answer(self, body: Mapping[str, Any]) -> tuple[str, str]:
        """Yes."""
        return "leaks", json.dumps({"answer": "yes"})

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        self.connections.add(request.transport.get_extra_info("peername"))
        return await super()._chat(request)


def tickets(run: int, count: int = 1) -> list[dict[str, Any]]:
    """Rows that no other run has."""
    return [{"id": n, "body": f"The kettle {run}.{n} leaks."} for n in range(count)]


def session(server: Server, folder: Path, options: str = "", **more: Any) -> sg.Session:
    """A session in a folder that holds the plan."""
    (folder / "complaints.yaml").write_text(PLAN, encoding="utf-8")
    return sg.Session(
        **{"llm": f"openai:m@{server.base_url}{options}", "store": "memory", "folder": folder}
        | more
    )


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """The server, without limits of its own."""
    async with Server() as server:
        yield server
