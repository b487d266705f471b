"""What a run says it did is what came over the wire: attempts all of them, tokens of the answers
that came, however much goes wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from benchmarks.frame.serving import same_as_counted
from benchmarks.world import Fault, PrefixCache, Rates, StandIn
from semgraph.llm.embed import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.session import Result, Session

Run = tuple[Result, StandIn]
MOVED = [f"Ada Costa(user): I have moved to Oslo {n}." for n in range(24)]
KNOWN = [
    "Ada Costa has moved to Oslo 3.",
    "Ada Costa lives in Porto.",
    "Bruno Weber works at Luma.",
    "Ada works at Luma.",
]
PLAN = """
plan: asked
inputs: {{texts: {{id: int64, text: string}}, others: {{id: int64, text: string}}}}
optional: [others]
steps:
  found:
    - from: texts
    - {step}
returns: [found]
"""
WAYS = {
    "one by one": ('sem_filter: {prompt: "Does {text} say that somebody moved?"}', "per_row"),
    "packed": ('sem_filter: {prompt: "Does {text} say that somebody moved?"}', "packed(rows=5)"),
    "taken apart": ('sem_map: {prompt: "Take apart: {text}", returns: {person: string null, facts: list<string>}}', "packed(rows=4)"),
    "pairs": ('sem_join: {other: others, alias: o, prompt: "Do {text} and {o.text} contradict each other?"}', "block(left=4)"),
    "ranked": ('sem_topk: {k: 3, prompt: "How strongly does {text} say that somebody moved?"}', "tournament"),
    "only the first": (
        'sem_filter: {prompt: "Does {text} say that somebody moved?"}\n    - limit: {n: 2, order: id}', "",
    ),
}  # fmt: skip
WRONG = (
    Fault("429", on=(2, 6), retry_after=0.01),
    Fault("500", on=(3,)),
    Fault("drop", on=(4,)),
    Fault("hang", on=(5,)),
    Fault("stall", on=(7,), late=60),
    Fault("prose", on=(8,)),
    Fault("truncated", on=(9,)),
    Fault("refusal", on=(10,)),
    Fault("wrong_ids", on=(11,)),
    Fault("missing_ids", on=(12,)),
    Fault("double_ids", on=(1, 13)),
)


async def run(server: StandIn, way: str, folder: Path) -> Result:
    step, use = WAYS[way]
    path = folder / "asked.yaml"
    path.write_text(PLAN.format(step=step))
    inputs: dict[str, Any] = {"texts": [{"id": n, "text": text} for n, text in enumerate(MOVED)]}
    inputs |= (
        {"others": [{"id": n, "text": text} for n, text in enumerate(KNOWN)]}
        if way == "pairs"
        else {}
    )
    llm = OpenAI(
        "gpt-4.1-mini", server.base_url, "none", timeout=5
    )  # no answer is on its way when it is given up
    embedder = OpenAIEmbedder("stand-in", 256, server.base_url, "none")
    try:
        async with Session(
            llm=llm, embedder=embedder, store="memory", journal=False, runs=""
        ) as session:
            return await session.arun(path, **inputs, use={"found": use} if use else None)
    finally:
        await asyncio.gather(llm.aclose(), embedder.aclose())


def agree(result: Result, server: StandIn) -> None:
    mine, wire = result.meter.total(), server.counters
    assert mine.attempts == wire.attempts + wire.embedding_calls
    assert mine.calls_issued == wire.calls
    assert mine.tokens_in == wire.tokens_in + wire.embedding_tokens
    assert (mine.tokens_cached, mine.tokens_out) == (wire.tokens_cached, wire.tokens_out)
    same_as_counted(mine, wire.as_dict())  # what the benchmarks check after every run


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runs(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[dict[str, Run]]:
    """Each step run with everything that goes wrong, all at once: each waits for its timeouts."""

    async def one(way: str, stack: AsyncExitStack) -> Run:
        world = StandIn(faults=WRONG, latency=0.01, cache=PrefixCache(block=1, least=0))
        server = await stack.enter_async_context(world)
        return await run(server, way, tmp_path_factory.mktemp("run")), server

    async with AsyncExitStack() as stack:
        ended = await asyncio.gather(*(one(way, stack) for way in WAYS))
        yield dict(zip(WAYS, ended, strict=True))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.asyncio(loop_scope="module")
async def test_when_everything_goes_wrong_both_count_the_same(
    way: str, runs: dict[str, Run]
) -> None:
    result, server = runs[way]
    agree(result, server)
    assert server.faults.hit
    assert server.counters.attempts > server.counters.calls


async def test_a_rate_limited_request_counts_as_an_attempt_without_an_answer(
    tmp_path: Path,
) -> None:
    async with StandIn(rates=Rates(rpm=1200, burst=0.5)) as server:
        result = await run(server, "one by one", tmp_path)
        agree(result, server)
    assert result.tables["found"].num_rows == len(MOVED)
    assert server.counters.refused == server.counters.attempts - len(MOVED) > 0


async def test_a_timed_out_request_counts_as_an_abandoned_attempt(tmp_path: Path) -> None:
    async with StandIn(latency=0.05, faults=(Fault("stall", on=(1, 2), late=60),)) as server:
        result = await run(server, "packed", tmp_path)
        agree(result, server)
    assert not result.failed
    assert server.counters.abandoned == 2


async def test_requests_in_flight_at_a_reset_are_not_counted() -> None:
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "Said at: 2025-01-15T09:00:00Z\nFact: Ann works at Luma."}
        ],
        "response_format": {"json_schema": {"schema": {"properties": {"since": {}, "until": {}}}}},
    }
    async with StandIn(latency=0.2) as server, aiohttp.ClientSession() as client:
        url = f"{server.base_url}/chat/completions"
        early = asyncio.create_task(_status(client, url, body))
        while not server.counters.in_flight:  # noqa: ASYNC110 - it is the server that changes
            await asyncio.sleep(0.01)
        server.reset()
        assert await early == 200
        assert await _status(client, url, body) == 200
        told = server.counters
        assert (told.attempts, told.calls, told.rounds, told.in_flight) == (1, 1, 1, 0)


async def _status(client: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> int:
    async with client.post(url, json=body) as response:
        return response.status
