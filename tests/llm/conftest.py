"""What the tests of the model layer share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from semgraph.llm.base import Message, Request
from semgraph.llm.journal import Journal
from semgraph.llm.openai import OpenAI
from tests.llm.server import ModelServer

SCHEMA = '{"additionalProperties":false,"properties":{"keep":{"type":"boolean"}},"required":["keep"],"type":"object"}'


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


@pytest.fixture
async def endpoint(server: ModelServer) -> AsyncIterator[OpenAI]:
    endpoint = OpenAI("gpt-4.1-mini", server.base_url, "key", timeout=600)
    yield endpoint
    await endpoint.aclose()


@pytest.fixture
def ask() -> Callable[..., Request]:
    """Makes requests that differ in their last message only."""

    def ask(text: str = "hello", **more: object) -> Request:
        messages = (Message("system", "Answer with one JSON document."), Message("user", text))
        return Request("default", messages, SCHEMA, **more)  # type: ignore[arg-type]

    return ask


@pytest.fixture
def journal(tmp_path: Path):
    journal = Journal(tmp_path / "journal.db")
    yield journal
    journal.close()
