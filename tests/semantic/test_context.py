"""What an implementation may touch, in the name of one node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from semgraph.conformance.cases import Case, Mind, Oracle
from semgraph.errors import BudgetReached, RowError
from semgraph.llm.base import Embeddings, Limits, Reply, Request, Usage
from semgraph.llm.stack import Roles
from semgraph.meter import StepMetrics
from semgraph.semantic.calls import count_embeddings, count_failure, count_reply
from semgraph.semantic.context import Context
from tests.operators.cases import NoEmbedder


class Scripted:
    """A model that does with a request what its text says: an answer, after being let go on;
    `fail`; `stop`.
    """

    name, exact_tokens = "scripted", True

    def __init__(self, **replies: Reply) -> None:
        self.limits = Limits(in_flight=2)
        self.replies = replies
        self.running: set[str] = set()
        self.gates: dict[str, asyncio.Event] = {}

    def count_tokens(self, text: str) -> int:
        return len(text)

    async def complete(self, request: Request) -> Reply:
        text = request.messages[-1].content
        self.running.add(text)
        try:
            if text.startswith("wait"):
                await self.gates.setdefault(text, asyncio.Event()).wait()
            if text.startswith("fail"):
                raise RowError("rejected", text, attempts=3)
            if text.startswith("stop"):
                raise BudgetReached(text)
            return self.replies.get(text, Reply(text, call_id=f"id-{text}"))
        finally:
            self.running.discard(text)


NODE = Case("sem_filter", []).node()
PROMPT = NODE.prompt.first


def context(llm: Any, metrics: StepMetrics | None = None, **more: Any) -> Context:
    return Context(llm, NoEmbedder(), NODE, metrics or StepMetrics(), **more)  # type: ignore[arg-type]


def asked(ctx: Context, *texts: str) -> Iterator[Request]:
    return (ctx.request(PROMPT, "", text, {"type": "object"}, "g", 5) for text in texts)


async def turns() -> None:
    """Let the event loop turn until everything that can go on has."""
    for _ in range(100):
        await asyncio.sleep(0)


async def test_replies_and_errors_come_with_their_index_as_they_arrive() -> None:
    llm = Scripted()
    async with context(llm) as ctx:
        found = []
        async for index, reply in ctx.ask(asked(ctx, "wait", "fail", "c")):
            found.append((index, type(reply).__name__))
            llm.gates["wait"].set()
    assert sorted(found[:2]) == [(1, "RowError"), (2, "Reply")]
    assert found[2] == (0, "Reply")


async def test_requests_are_taken_lazily_and_no_more_than_twice_what_the_model_takes_at_once() -> (
    None
):
    llm = Scripted()
    taken = []

    def requests() -> Iterator[Request]:
        for request in asked(ctx, *(f"wait {i}" for i in range(20))):
            taken.append(request)
            yield request

    async with context(llm) as ctx:
        stream = ctx.ask(requests())
        first = asyncio.ensure_future(anext(stream))
        await turns()
        assert len(llm.running) == len(taken) == 4
        llm.gates["wait 2"].set()
        assert (await first)[0] == 2
        assert len(taken) == 4
        second = asyncio.ensure_future(anext(stream))
        await turns()
        assert len(taken) == 5
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
    assert llm.running == set()


async def test_what_is_left_early_is_cancelled_at_once() -> None:
    llm = Scripted()
    async with context(llm) as ctx:
        async with aclosing(ctx.ask(asked(ctx, "a", "wait 1", "wait 2"))) as replies:
            async for _ in replies:
                break
        assert llm.running == set()


async def test_closing_the_context_ends_what_a_careless_author_left_under_way() -> None:
    llm = Scripted()
    ctx = context(llm)
    stream = ctx.ask(asked(ctx, "a", "wait 1", "wait 2"))
    async with ctx:
        await anext(stream)
        assert llm.running == {"wait 1", "wait 2"}
    assert llm.running == set()
    await stream.aclose()


async def test_an_error_that_ends_the_run_cancels_the_rest() -> None:
    llm = Scripted()
    async with context(llm) as ctx:
        with pytest.raises(BudgetReached):
            async for _ in ctx.ask(asked(ctx, "wait 1", "stop", "wait 2")):
                pass
        assert llm.running == set()


async def test_calls_are_counted_for_the_step_by_where_they_came_from() -> None:
    usage = Usage(100, 60, 7)
    llm = Scripted(
        issued=Reply("", usage, "issued", call_id="1", attempts=2, dollars=0.5),
        journal=Reply("", usage, "journal", call_id="2", attempts=0, dollars=0.5),
        coalesced=Reply("", usage, "coalesced", call_id="1", attempts=0, dollars=0.5),
    )
    metrics = StepMetrics()
    async with context(llm, metrics) as ctx:
        async for _ in ctx.ask(asked(ctx, "issued", "journal", "coalesced", "fail")):
            pass
    assert metrics == StepMetrics(
        calls_issued=1, calls_journal=1, calls_coalesced=1, attempts=5, tokens_in=100, tokens_cached=60, tokens_out=7,
        dollars=0.5,
    )  # fmt: skip
    assert sorted(ctx.calls) == ["1", "1", "2"]


async def test_a_reply_counts_even_if_nobody_reads_it_any_more() -> None:
    llm, metrics = Scripted(), StepMetrics()
    async with context(llm, metrics) as ctx:
        await anext(ctx.ask(asked(ctx, "a", "b", "wait")))
        await turns()
    assert metrics.calls_issued == 2


def test_what_was_paid_for_a_failed_row_is_counted() -> None:
    metrics = StepMetrics()
    spent = Reply("cut", Usage(10, 0, 5), attempts=1, dollars=0.25, finish="length")
    count_failure(metrics, RowError("truncated", "cut", attempts=3, spent=spent))
    count_failure(metrics, RowError("timeout", "no answer", attempts=2))
    assert metrics == StepMetrics(
        calls_issued=1, attempts=5, tokens_in=10, tokens_out=5, dollars=0.25
    )


def test_dollars_are_unknown_once_a_price_was_and_stay_so() -> None:
    metrics = StepMetrics()
    count_reply(metrics, Reply("", dollars=1.0))
    count_reply(metrics, Reply("", origin="journal", dollars=None))
    assert metrics.dollars == 1.0
    count_reply(metrics, Reply("", dollars=None))
    count_reply(metrics, Reply("", dollars=1.0))
    count_embeddings(metrics, Embeddings(np.zeros((1, 2), np.float32), dollars=1.0))
    assert metrics.dollars is None


async def test_equal_texts_are_embedded_once_and_counted() -> None:
    metrics = StepMetrics()
    async with context(Scripted(), metrics) as ctx:
        found = await ctx.embed(["a", "bbb", "a"])
        assert found.tolist() == [[1, 1], [3, 1], [1, 1]]
        assert found.dtype == np.float32
        assert (await ctx.embed([])).shape == (0, 2)
    assert (metrics.embeddings, metrics.attempts) == (1, 1)


async def test_a_request_is_made_in_the_node_s_name() -> None:
    ctx = context(Scripted(), trial=3)
    schema = {"type": "object", "properties": {"z": {}, "a": {}}}
    request = ctx.request(replace(PROMPT, role="small"), "rules", "row", schema, "group", 9)
    assert (
        request.schema == '{"type":"object","properties":{"z":{},"a":{}}}'
    )  # in the order models answer in
    assert (request.role, request.partition, request.step) == ("small", "group", "asked")
    assert (request.trial, request.max_tokens) == (3, 9)
    assert [m.role for m in request.messages] == ["system", "user"]


async def test_limits_and_tokens_are_those_of_the_model_bound_to_the_role() -> None:
    small = Oracle(Mind(), Limits(context_tokens=10))
    llm = Roles(Oracle(Mind()), small=small)
    node = NODE.with_inputs(NODE.input)
    prompts = replace(node.prompt, prompts=(("", replace(PROMPT, role="small")),))
    ctx = Context(llm, NoEmbedder(), replace(node, prompt=prompts), StepMetrics())  # type: ignore[arg-type]
    assert ctx.limits.context_tokens == 10
    assert ctx.count_tokens("12345") == 2


async def test_draws_depend_on_seed_step_partition_and_key_alone() -> None:
    def draw(ctx: Context, partition: str, *key: str) -> float:
        return ctx.random(partition, *key).random()

    one, same, other = context(Scripted()), context(Scripted()), context(Scripted(), seed="x")
    assert draw(one, "a", "b") == draw(same, "a", "b") == draw(one, "a", "b")
    assert (
        len({draw(one, "a", "b"), draw(one, "ab"), draw(one, "b", "a"), draw(other, "a", "b")}) == 4
    )
    reworded = context(Scripted())
    reworded._node = replace(NODE, prompt=NODE.prompt.of_role("small"))
    assert draw(reworded, "a", "b") == draw(one, "a", "b")
    renamed = context(Scripted())
    renamed._node = replace(NODE, step="another")
    assert draw(renamed, "a", "b") != draw(one, "a", "b")
