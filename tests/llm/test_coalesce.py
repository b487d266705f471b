"""Equal requests in flight are one call."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm.base import Embeddings
from semgraph.llm.coalesce import CoalescedTexts
from semgraph.llm.embed import OpenAIEmbedder
from semgraph.llm.stack import Coalesced
from tests.llm.server import Answer, ModelServer, error


@pytest.fixture
def gate(server: ModelServer) -> asyncio.Event:
    """The server answers when it opens."""
    gate = asyncio.Event()

    async def answer(body: dict):
        await gate.wait()
        return "{}"

    server.answer = answer
    return gate


async def test_equal_requests_at_one_time_are_one_call(server: ModelServer, endpoint, ask):
    server.latency = 0.01
    model = Coalesced(endpoint)
    replies = await asyncio.gather(*(model.complete(ask(str(i % 10))) for i in range(100)))
    assert len(server.requests) == 10
    assert sum(reply.origin == "issued" for reply in replies) == 10
    assert sum(reply.origin == "coalesced" for reply in replies) == 90
    assert sum(reply.attempts for reply in replies) == 10
    assert len({(reply.text, reply.call_id) for reply in replies}) == 10


async def test_equal_requests_of_two_partitions_are_two_calls(server: ModelServer, endpoint, ask):
    model = Coalesced(endpoint)
    replies = await asyncio.gather(
        *(model.complete(ask(partition=group)) for group in ("g", "h", "g", ""))
    )
    assert len(server.requests) == 3
    assert sorted(reply.origin for reply in replies) == ["coalesced", "issued", "issued", "issued"]


async def test_equal_requests_one_after_the_other_are_two_calls(server: ModelServer, endpoint, ask):
    model = Coalesced(endpoint)
    assert [(await model.complete(ask())).origin for _ in range(2)] == ["issued", "issued"]
    assert len(server.requests) == 2


async def test_trials_have_different_fingerprints(server: ModelServer, endpoint, ask):
    model = Coalesced(endpoint)
    await asyncio.gather(*(model.complete(ask(trial=i)) for i in range(3)))
    assert len(server.requests) == 3


async def test_a_cancelled_caller_does_not_disturb_the_others(
    server: ModelServer, endpoint, ask, gate
):
    model = Coalesced(endpoint)
    tasks = [asyncio.create_task(model.complete(ask())) for _ in range(3)]
    await server.until(lambda server: server.requests)
    tasks[0].cancel()
    await asyncio.sleep(0)
    gate.set()
    first, second, third = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(first, asyncio.CancelledError)
    # The call was made once, and is counted once: by the first of those that are left.
    assert (second.origin, third.origin) == ("issued", "coalesced")
    assert len(server.requests) == 1


async def test_a_call_without_callers_is_cancelled(server: ModelServer, endpoint, ask, gate):
    model = Coalesced(endpoint)
    tasks = [asyncio.create_task(model.complete(ask())) for _ in range(3)]
    await server.until(lambda server: server.requests)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await server.until(lambda server: server.abandoned)
    gate.set()
    assert (await model.complete(ask())).origin == "issued"


@pytest.mark.parametrize("turns", range(6))
async def test_a_request_after_a_cancelled_flight_is_sent_again(
    server, endpoint, ask, gate, turns: int
):
    """However many turns of the event loop it takes to give the call up."""
    model = Coalesced(endpoint)
    task = asyncio.create_task(model.complete(ask()))
    await server.until(lambda server: server.requests)
    task.cancel()
    for _ in range(turns):
        await asyncio.sleep(0)
    gate.set()
    reply = await model.complete(ask())
    assert reply.origin == "issued"


async def test_an_error_reaches_all_callers_but_is_charged_once(server: ModelServer, endpoint, ask):
    async def answer(body: dict):
        return Answer("{", finish="length")

    server.answer, server.latency = answer, 0.01
    model = Coalesced(endpoint)
    errors = await asyncio.gather(
        *(model.complete(ask()) for _ in range(5)), return_exceptions=True
    )
    assert all(isinstance(e, RowError) and e.kind == "truncated" for e in errors)
    assert sum(e.attempts for e in errors) == 1
    assert sorted(e.spent.origin for e in errors) == [*["coalesced"] * 4, "issued"]
    assert {e.spent.text for e in errors} == {"{"}


async def test_an_endpoint_that_fails_fails_for_all(server: ModelServer, endpoint, ask):
    async def answer(body: dict):
        return error(401, "no")

    server.answer, server.latency = answer, 0.01
    model = Coalesced(endpoint)
    errors = await asyncio.gather(
        *(model.complete(ask()) for _ in range(3)), return_exceptions=True
    )
    assert all(isinstance(e, ModelUnavailable) for e in errors)
    assert len(server.requests) == 1


async def test_closing_cancels_requests_in_flight(server: ModelServer, endpoint, ask, gate):
    model = Coalesced(endpoint)
    task = asyncio.create_task(model.complete(ask()))
    await server.until(lambda server: server.requests)
    await model.aclose()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert model._tasks == set()


async def test_a_paid_answer_of_a_cancelled_caller_is_counted(
    server: ModelServer, endpoint, ask, gate
):
    """It has arrived when the caller is cancelled, in the same turn of the event loop."""
    model = Coalesced(endpoint)
    task = asyncio.create_task(model.complete(ask()))
    await server.until(lambda server: server.requests)
    (flight,) = model._tasks
    flight.add_done_callback(lambda _: task.cancel())
    gate.set()
    reply = await task
    assert (reply.origin, reply.attempts, len(server.requests)) == ("issued", 1, 1)


async def test_the_tokens_of_a_cancelled_caller_are_charged_to_another_one(server: ModelServer):
    gate = asyncio.Event()

    async def held(body: dict) -> None:
        await gate.wait()

    server.embedding_fault = held
    endpoint = OpenAIEmbedder("e", 8, server.base_url)
    model = CoalescedTexts(endpoint)
    first, second = (asyncio.create_task(model.embed(["a text", name])) for name in "ab")
    await server.until(lambda server: server.embedding_requests)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    gate.set()
    done = await second
    await model.aclose()
    assert (done.calls, done.attempts, len(server.embedding_requests)) == (1, 1, 1)
    assert done.usage.prompt == sum(-(-len(text) // 4) for text in ("a text", "a", "b"))


async def test_the_work_for_known_vectors_grows_with_their_number_alone():
    compared = 0

    class Text(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    class Replaying:
        name, count_tokens = "replaying", staticmethod(len)

        async def embed(self, texts: list[str], partition: str) -> Embeddings:
            vectors = np.ones((len(texts), 2), np.float32)
            return Embeddings(vectors, replayed=tuple(range(len(texts))))

    texts = [Text(i) for i in range(500)]
    done = await CoalescedTexts(Replaying()).embed([*texts, texts[0]])
    assert done.replayed == tuple(range(500))
    assert compared < 20 * len(texts)
