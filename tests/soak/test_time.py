"""`max_seconds` ends a run whatever hangs: a model, an embedder, or the probe for the length of its
vectors.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

import semgraph as sg
from semgraph.errors import BudgetReached
from tests.partial import maybe_partial
from tests.patience import HANGS
from tests.soak.conftest import Server

GRAPH = """
graph: taps
nodes:
  Tap: {properties: {text: string}, derived: {text_embedding: {embed: text}}}
"""
PLAN = """
plan: taps
graph: graph.yaml
inputs: {notes: {id: string, text: string, group_id: string}}
windows: {input: notes, partition: group_id, key: id, size: 1}
steps:
  kept: [{from: notes}]
writes:
  - merge: {from: kept, node: Tap, key: id}
returns: [kept]
"""
NOTES = [{"id": str(n), "text": f"Tap {n} leaks.", "group_id": "g"} for n in range(2)]


class Hanging(Server):
    """The simulated server, whose embeddings hang."""

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        await request.json()
        await asyncio.Event().wait()
        raise AssertionError


def hanging(server: Server, folder: Path, **more: Any) -> sg.Session:
    """A session over it, with a plan that embeds what it writes."""
    (folder / "graph.yaml").write_text(GRAPH, encoding="utf-8")
    (folder / "taps.yaml").write_text(PLAN, encoding="utf-8")
    given = {
        "embedder": f"openai:e@{server.base_url}?dimensions=8",
        "store": "memory",
        "max_seconds": 4,
    } | more
    return sg.Session(**{"llm": f"openai:m@{server.base_url}", "folder": folder} | given)


async def test_a_run_whose_embedder_hangs_stops_at_its_limit(tmp_path: Path) -> None:
    async with Hanging() as server, hanging(server, tmp_path) as session, asyncio.timeout(HANGS):
        result = await maybe_partial(session.arun("taps", notes=NOTES))
    assert result.stopped is not None
    assert "the next embeddings" in result.stopped
    assert "max_seconds 4" in result.stopped
    assert (result.exit_code, result.committed) == (4, 0)


async def test_a_run_whose_embedder_never_reports_its_dimensions_stops_at_its_limit(
    tmp_path: Path,
) -> None:
    async with Hanging() as server, asyncio.timeout(HANGS):
        session = hanging(server, tmp_path, embedder=f"openai:e@{server.base_url}")
        with pytest.raises(BudgetReached, match="the embedder's probe.*max_seconds 4"):
            await session.arun("taps", notes=NOTES)
        await session.aclose()
