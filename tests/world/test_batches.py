"""The server's files and batches: as the OpenAI package uses them, and with faults on demand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from openai import AsyncOpenAI

from benchmarks.world import BatchFault, StandIn
from tests.llm.server import ModelServer


@pytest.fixture
async def server() -> AsyncIterator[ModelServer]:
    async with ModelServer() as server:
        yield server


async def ended(
    server: ModelServer | StandIn, texts: list[str]
) -> tuple[Any, list[dict[str, Any]]]:
    """A batch of chats when it has ended, and the lines of its results."""
    lines = [
        {
            "custom_id": f"c{n}", "method": "POST", "url": "/v1/chat/completions",
            "body": {"model": "m", "messages": [{"role": "user", "content": text}]},
        }
        for n, text in enumerate(texts)
    ]  # fmt: skip
    content = "\n".join(map(json.dumps, lines)).encode()
    async with AsyncOpenAI(base_url=server.base_url, api_key="none", max_retries=0) as client:
        file = await client.files.create(file=("a.jsonl", content), purpose="batch")
        batch = await client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h",
            metadata={"mine": "yes"},
        )  # fmt: skip
        assert [each.metadata async for each in client.batches.list()] == [{"mine": "yes"}]
        for _ in range(server.batches.looks):
            batch = await client.batches.retrieve(batch.id)
        results = []
        for name in filter(None, (batch.output_file_id, batch.error_file_id)):
            text = (await client.files.content(name)).text
            results += [json.loads(line) for line in text.splitlines()]
        return batch, results


async def test_a_batch_has_the_answers_of_its_chats_in_another_order(server: ModelServer) -> None:
    batch, results = await ended(server, ["a", "b", "c"])
    assert batch.status == "completed"
    assert [each["custom_id"] for each in results] == ["c2", "c1", "c0"]
    texts = [each["response"]["body"]["choices"][0]["message"]["content"] for each in results]
    assert texts == ['"c"', '"b"', '"a"']


@pytest.mark.parametrize(
    ("kind", "status", "answered"),
    [("expired", "expired", 1), ("cancelled", "cancelled", 1), ("failed", "failed", 0), ("line_500", "completed", 2)],
)  # fmt: skip
async def test_a_fault_strikes_where_it_was_ordered(
    kind: str, status: str, answered: int, server: ModelServer
) -> None:
    server.batches.faults = (BatchFault(kind),)
    batch, results = await ended(server, ["a", "b", "c"])
    good = [each for each in results if (each["response"] or {}).get("status_code") == 200]
    assert (batch.status, len(good)) == (status, answered)
    assert server.batches.answered.total() == answered


async def test_chats_that_the_stand_in_does_not_understand_are_errors_of_their_lines() -> None:
    async with StandIn() as server:
        batch, [result] = await ended(server, ["What?"])
        assert batch.status == "completed"
        assert result["response"]["status_code"] == 400


def test_a_fault_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match='"flood" is no fault'):
        BatchFault("flood")
