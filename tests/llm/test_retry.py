"""Repeating attempts: what is repeated, how often, after which wait, and how it ends."""

from __future__ import annotations

import asyncio
import statistics

import pytest

from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm.journal import Journal
from semgraph.llm.stack import Limited, Limiter, Retried, RetryPolicy, Stack
from tests.llm.server import Answer, Fault, ModelServer, error

QUICK = RetryPolicy(attempts=4, first=0.001, longest=0.002)


def in_turn(*answers):
    """Answers with these, one after the other, the last one for ever."""
    left = list(answers)

    async def answer(body: dict):
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


@pytest.mark.parametrize(
    "fault", [error(429, "slow"), error(500, "oops"), error(503, "busy"), Fault(drop=True)]
)
async def test_transient_failures_are_repeated_until_they_pass(
    server: ModelServer, endpoint, ask, fault
):
    server.answer = in_turn(fault, fault, "{}")
    reply = await Retried(endpoint, QUICK).complete(ask())
    assert reply.text == "{}"
    assert reply.attempts == 3
    assert len(server.requests) == 3
    assert server.requests[0] == server.requests[2]


async def test_an_endpoint_that_hangs_is_asked_again(server: ModelServer, ask):
    from semgraph.llm.openai import OpenAI

    endpoint = OpenAI("m", server.base_url, timeout=1)
    server.answer = in_turn(Fault(hang=True), "{}")
    reply = await Retried(endpoint, QUICK).complete(ask())
    assert reply.attempts == len(server.requests) >= 2
    await endpoint.aclose()


async def test_a_row_that_keeps_failing_fails_with_all_its_attempts(
    server: ModelServer, endpoint, ask
):
    server.answer = in_turn(error(500, "this prompt crashes me"))
    with pytest.raises(RowError, match=r"this prompt crashes me \(4 attempts in \d+ s\)") as caught:
        await Retried(endpoint, QUICK).complete(ask())
    assert (caught.value.kind, caught.value.attempts) == ("server", 4)
    assert len(server.requests) == 4


@pytest.mark.parametrize("status", [429, 502, 503])
async def test_an_endpoint_that_answers_nobody_stops_the_run(
    server: ModelServer, endpoint, ask, status: int
):
    server.answer = in_turn(error(status, "no"))
    with pytest.raises(
        ModelUnavailable, match=r"4 attempts in \d+ s, and no other request was answered meanwhile"
    ):
        await Retried(endpoint, QUICK).complete(ask())


async def test_an_endpoint_that_answers_others_costs_only_this_row(
    server: ModelServer, endpoint, ask
):
    async def answer(body: dict):
        return error(503, "no") if body["messages"][-1]["content"] == "unlucky" else "{}"

    server.answer = answer
    model = Retried(endpoint, RetryPolicy(attempts=3, first=0.2, longest=0.2))
    unlucky = asyncio.create_task(model.complete(ask("unlucky")))
    await server.until(lambda server: server.requests)
    await model.complete(ask("lucky"))
    with pytest.raises(RowError) as caught:
        await unlucky
    assert caught.value.kind == "server"


async def test_permanent_failures_are_not_repeated(server: ModelServer, endpoint, ask):
    server.answer = in_turn(error(400, "bad"))
    with pytest.raises(RowError) as caught:
        await Retried(endpoint, QUICK).complete(ask())
    assert caught.value.attempts == 1
    server.answer = in_turn(error(401, "who are you"))
    with pytest.raises(ModelUnavailable):
        await Retried(endpoint, QUICK).complete(ask())
    assert len(server.requests) == 2


async def test_an_error_counts_all_attempts(server: ModelServer, endpoint, ask):
    server.answer = in_turn(error(500, "oops"), Answer("{", finish="length"))
    with pytest.raises(RowError) as caught:
        await Retried(endpoint, QUICK).complete(ask())
    assert (caught.value.kind, caught.value.attempts) == ("truncated", 2)


async def test_it_waits_as_long_as_the_endpoint_asks(server: ModelServer, endpoint, ask):
    server.answer = in_turn(error(429, "slow", retry_after="0.2"), "{}")
    await Retried(endpoint, QUICK).complete(ask())
    assert server.times[1] - server.times[0] >= 0.2


async def test_a_retry_after_beyond_the_deadline_stops_the_run(server: ModelServer, endpoint, ask):
    server.answer = in_turn(error(429, "come back tomorrow", retry_after="86400"))
    with pytest.raises(
        ModelUnavailable, match=r"come back tomorrow: it asks to wait 86400 s \(1 attempt in 0 s"
    ):
        await Retried(endpoint).complete(ask())


async def test_a_row_that_asks_to_wait_a_day_holds_up_nobody(server: ModelServer, endpoint, ask):
    server.answer = in_turn(error(500, "odd", retry_after="86400"), "{}")
    limited = Limited(endpoint, Limiter(1))
    assert (await Retried(limited, QUICK).complete(ask())).attempts == 2


async def test_an_endpoint_that_answered_is_down_only_if_several_requests_fail(
    server: ModelServer, endpoint, ask
):
    server.answer = in_turn("{}", error(502, "gone"))
    model = Retried(endpoint, QUICK)
    await model.complete(ask("before"))
    for text in ("one", "two"):
        with pytest.raises(RowError, match="gone"):
            await model.complete(ask(text))
    with pytest.raises(ModelUnavailable, match="no other request was answered meanwhile"):
        await model.complete(ask("three"))


@pytest.mark.parametrize("fault", [error(403, "blocked"), error(502, "gone"), Fault(body="<p>")])
async def test_answers_in_the_journal_prove_that_an_endpoint_answers(
    server: ModelServer, endpoint, ask, journal: Journal, fault
):
    def run():
        return Stack(QUICK, journal=journal).model(endpoint, Limiter())

    await run().complete(ask("before"))
    server.answer = in_turn(fault)
    endpoint.wire.proven = False  # another process
    again = run()
    for text in ("one", "two"):
        with pytest.raises(RowError):
            await again.complete(ask(text))
    with pytest.raises(ModelUnavailable):
        await again.complete(ask("three"))


async def test_a_key_that_is_revoked_ends_the_run_soon(server: ModelServer, endpoint, ask):
    server.answer = in_turn("{}", error(401, "revoked"))
    model = Retried(endpoint, QUICK)
    await model.complete(ask("before"))
    with pytest.raises(ModelUnavailable, match="revoked. The key was not accepted"):
        await model.complete(ask("after"))
    assert len(server.requests) == 4


async def test_a_server_that_restarts_is_waited_for(server: ModelServer, endpoint, ask):
    model = Retried(endpoint, RetryPolicy(attempts=200, first=0.05, longest=0.05))
    await model.complete(ask("before"))
    await server.__aexit__()
    waiting = asyncio.create_task(model.complete(ask("after")))
    await asyncio.sleep(0.05)
    await server.__aenter__()
    assert (await waiting).attempts > 1


async def test_no_attempt_begins_after_the_deadline(server: ModelServer, endpoint, ask):
    server.answer = in_turn(error(500, "oops"))
    with pytest.raises(RowError) as caught:
        await Retried(
            endpoint, RetryPolicy(attempts=1000, first=0.05, longest=0.05, deadline=0.2)
        ).complete(ask())
    assert len(server.requests) == caught.value.attempts < 1000


async def test_every_attempt_passes_the_limiter(server: ModelServer, endpoint, ask):
    server.answer = in_turn(error(500, "oops"), "{}")
    began = asyncio.get_running_loop().time()
    await Retried(Limited(endpoint, Limiter(1, rpm=60)), QUICK).complete(ask())  # one a second
    assert server.times[1] - began >= 1


async def test_a_cancelled_wait_sends_no_further_attempt(server: ModelServer, endpoint, ask):
    server.answer = in_turn(error(429, "slow", retry_after="60"))
    waiting = asyncio.create_task(Retried(endpoint).complete(ask()))
    await server.until(lambda server: server.requests)
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(server.requests) == 1


def test_waits_grow_and_are_random():
    policy = RetryPolicy(first=1.0, longest=8.0)
    for attempt, longest in ((1, 1.0), (2, 2.0), (3, 4.0), (4, 8.0), (9, 8.0)):
        waits = [policy.wait(attempt) for _ in range(500)]
        assert all(0 <= wait <= longest for wait in waits)
        assert max(waits) > longest / 2
        assert statistics.stdev(waits) > longest / 10


async def test_the_time_of_slow_failures_counts_towards_the_deadline(
    server: ModelServer, endpoint, ask
):
    server.latency = 0.15
    server.answer = in_turn(error(500, "oops"))
    with pytest.raises(RowError) as caught:
        await Retried(
            endpoint, RetryPolicy(attempts=1000, first=0.001, longest=0.001, deadline=0.4)
        ).complete(ask())
    assert caught.value.attempts <= 3
