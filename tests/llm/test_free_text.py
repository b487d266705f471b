"""Requests without a schema: any text is an answer, on the wire, in the journal and when it is
asked for again.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from semgraph.llm.journal import Journal
from semgraph.llm.openai import OpenAI
from semgraph.llm.stack import Limiter, Stack
from tests.llm.server import ModelServer


@pytest.mark.parametrize("structured", ["json_schema", "tool"])
async def test_free_text_has_no_response_format(server: ModelServer, ask, structured) -> None:
    async def prose(body: dict) -> str:
        return "Answer: True"

    server.answer = prose
    endpoint = OpenAI("gpt-4.1-mini", server.base_url, structured=structured)
    try:
        reply = await endpoint.complete(replace(ask("hi"), schema=""))
    finally:
        await endpoint.aclose()
    assert reply.text == "Answer: True"
    assert server.requests[0].keys() == {"model", "messages", "max_tokens", "temperature"}


async def test_free_text_and_documents_have_separate_journal_entries(
    server: ModelServer, ask, tmp_path: Path
) -> None:
    async def prose(body: dict) -> str:
        return "{}" if "response_format" in body else "Answer: True"

    server.answer = prose
    journal = Journal(tmp_path / "journal.db")
    llm = Stack(journal=journal).model(OpenAI("gpt-4.1-mini", server.base_url, "none"), Limiter())
    try:
        replies = [
            await llm.complete(request) for request in (ask("hi"), replace(ask("hi"), schema=""))
        ]
        again = await llm.complete(replace(ask("hi"), schema=""))
    finally:
        await llm.aclose()
        journal.close()
    assert [reply.text for reply in replies] == ["{}", "Answer: True"]
    assert (again.text, again.origin) == ("Answer: True", "journal")
    assert len(server.requests) == 2
