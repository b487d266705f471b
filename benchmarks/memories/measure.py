"""One conversation told to one memory, and the questions about it: what both cost, and how good the
answers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from benchmarks.frame.processes import Watch
from benchmarks.frame.serving import dollars, session_at
from benchmarks.memories import interface
from benchmarks.memories.conversations import Conversation, Score, score
from benchmarks.memories.memories import Memory
from benchmarks.world import StandIn
from semgraph.execution.result import Result
from semgraph.session import Session


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
    """A memory over a conversation: what it costs to write and to read, and the score.

    Args:
        write: Of all plans that write.
        read: Of the plan that answers.
        score: Of the answers.
        answers: Rows of `answers`.
        shown: Rows of `shown`; none where the plan returns none.
        warnings: Why rows failed, and breaches of the interface of docs/memories.md that leave a score.
    """

    write: Cost
    read: Cost
    score: Score
    answers: list[dict[str, Any]]
    shown: list[dict[str, Any]]
    warnings: tuple[str, ...] = ()


async def measured(session: Session, memory: Memory, conversation: Conversation) -> Measured:
    """Tell a conversation to a memory, then ask.

    Args:
        session: With the store that the memory is kept in.
        memory: The memory.
        conversation: The turns, and the questions.

    Raises:
        PlanError: The read plan returns no answers to be scored.
    """
    runs = [await _run(session, plan, given) for plan, given in memory.written(conversation.turns)]
    result, read = await _run(
        session, memory.read, {"questions": conversation.questions, **memory.read_options}
    )
    tables = {name: table.to_pylist() for name, table in result.tables.items()}
    columns = {name: table.column_names for name, table in result.tables.items()}
    interface.require_answers(memory.read, columns)
    answers = tables["answers"]
    return Measured(
        _sum([cost for _, cost in runs]), read, score(conversation.asked, answers), answers, tables.get("shown", []),
        (
            *interface.failures([*(written for written, _ in runs), result]),
            *interface.breaches(memory.read, columns, answers, conversation),
        ),
    )  # fmt: skip


def _sum(costs: Sequence[Cost]) -> Cost:
    return Cost(*map(sum, zip(*map(astuple, costs), strict=True)))


async def _run(session: Session, plan: str, given: dict[str, Any]) -> tuple[Result, Cost]:
    with Watch() as watch:
        result = await session.arun(plan, **given)
    if result.stopped or result.exit_code == 1:  # 1: a conversation was stopped, as the notes say
        msg = f"{plan} stopped before its end: {result.stopped or '; '.join(result.notes)}"
        raise RuntimeError(msg)
    total = result.meter.total()
    tokens = total.tokens_in, total.tokens_out
    spent = dollars(*tokens), watch.seconds, watch.cpu
    return result, Cost(total.calls_issued, *tokens, *spent, len(result.failed))


async def over_world(memory: Memory, conversation: Conversation, server: StandIn) -> Measured:
    """The same with the simulated model and an empty store in memory."""
    return await at_server(server.base_url, memory, conversation)


async def at_server(url: str, memory: Memory, conversation: Conversation) -> Measured:
    """The same with the simulated model at an address."""
    async with session_at(url, "memory") as session:
        return await measured(session, memory, conversation)
