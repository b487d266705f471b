"""One conversation told to one memory, and the questions about it: what both cost, and how good the
answers are.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from benchmarks.memories.conversations import Conversation, Score, score
from benchmarks.memories.memories import Memory
from benchmarks.suite.serving import dollars
from benchmarks.world import StandIn
from semgraph.execution.result import Result
from semgraph.llm.embed.openai import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.session import Session
from semgraph.stores.sqlite.store import SqliteStore

DIMENSIONS = 256


@dataclass(frozen=True)
class Cost:
    """What one run of a plan costs.

    Args:
        calls: Chats.
        tokens_in: Tokens of prompts.
        tokens_out: Tokens of answers.
        usd: Dollars at list price.
        seconds: Wall time.
        cpu: CPU seconds of this process.
        failed: Rows that failed.
    """

    calls: int
    tokens_in: int
    tokens_out: int
    usd: float
    seconds: float
    cpu: float
    failed: int


@dataclass(frozen=True)
class Measured:
    """A memory over a conversation: what it costs to write and to read, and the score."""

    write: Cost
    read: Cost
    score: Score
    answers: list[dict[str, Any]]


async def measured(session: Session, memory: Memory, conversation: Conversation) -> Measured:
    """Tell a conversation to a memory, then ask.

    Args:
        session: With the store that the memory is kept in.
        memory: The memory.
        conversation: The turns, and the questions.
    """
    costs = [
        (await _run(session, plan, given))[1] for plan, given in memory.written(conversation.turns)
    ]
    result, read = await _run(
        session, memory.read, {"questions": conversation.questions, **memory.read_options}
    )
    answers = result.tables["answers"].to_pylist()
    return Measured(_sum(costs), read, score(conversation.asked, answers), answers)


def _sum(costs: Sequence[Cost]) -> Cost:
    return Cost(*map(sum, zip(*map(astuple, costs), strict=True)))


async def _run(session: Session, plan: str, given: dict[str, Any]) -> tuple[Result, Cost]:
    wall, cpu = time.perf_counter(), time.process_time()
    result = await session.arun(plan, **given)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if result.stopped:
        msg = f"{plan} stopped before its end: {result.stopped}"
        raise RuntimeError(msg)
    total = result.meter.total()
    return result, Cost(
        total.calls_issued, total.tokens_in, total.tokens_out, dollars(total.tokens_in, total.tokens_out), wall, cpu,
        len(result.failed),
    )  # fmt: skip


async def over_world(memory: Memory, conversation: Conversation, server: StandIn) -> Measured:
    """The same with the simulated model and an empty store in memory."""
    return await at_server(server.base_url, memory, conversation)


async def at_server(url: str, memory: Memory, conversation: Conversation) -> Measured:
    """The same with the simulated model at an address."""
    llm = OpenAI("gpt-4.1-mini", url, "none")
    embedder = OpenAIEmbedder("stand-in", DIMENSIONS, url, "none")
    store = SqliteStore(":memory:")
    try:
        async with Session(
            llm=llm, embedder=embedder, store=store, journal=False, runs=""
        ) as session:
            return await measured(session, memory, conversation)
    finally:
        await asyncio.gather(llm.aclose(), embedder.aclose(), store.aclose())
