"""How much is asked of one endpoint at a time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from semgraph.llm.openai import OpenAI
from semgraph.llm.stack import Limited, Limiter, Retried, RetryPolicy
from semgraph.turns import Turns
from tests.llm.server import Answer, ModelServer, error


async def test_no_more_are_in_flight_than_allowed(server: ModelServer, endpoint, ask):
    server.latency = 0.01
    model = Limited(endpoint, Limiter(in_flight=5))
    await asyncio.gather(*(model.complete(ask(str(i))) for i in range(40)))
    assert server.most_in_flight == 5


async def test_two_models_with_one_limiter_share_it(server: ModelServer, ask):
    server.latency = 0.01
    limiter = Limiter(in_flight=3)
    small, large = OpenAI("small", server.base_url), OpenAI("large", server.base_url)
    requests = [
        Limited(model, limiter).complete(ask(str(i))) for i in range(12) for model in (small, large)
    ]
    await asyncio.gather(*requests)
    assert server.most_in_flight == 3
    await small.aclose()
    await large.aclose()


async def test_requests_per_minute_are_spread_evenly(server: ModelServer, endpoint, ask):
    model = Limited(endpoint, Limiter(rpm=1200))  # 20 a second
    began = asyncio.get_running_loop().time()
    await asyncio.gather(*(model.complete(ask(str(i))) for i in range(30)))
    assert max(server.times) - began >= 10 / 20  # a second's worth at once, then 20 a second


async def test_tokens_per_minute_count_the_prompt_and_the_longest_answer(server: ModelServer, ask):
    async def answer(body: dict) -> Answer:
        return Answer("{}", usage={"prompt_tokens": 100, "completion_tokens": 900})

    server.answer = answer
    endpoint = OpenAI("Qwen3", server.base_url)
    request = ask("x" * 276, max_tokens=900)  # 100 tokens and a little
    model = Limited(endpoint, Limiter(tpm=240_000))  # 4,000 a second
    began = asyncio.get_running_loop().time()
    await asyncio.gather(
        *(model.complete(ask("x" * 200 + str(i), max_tokens=900)) for i in range(8))
    )
    assert model.count_tokens(request.messages[-1].content) == 69
    assert max(server.times) - began >= 3 / 4
    await endpoint.aclose()


async def test_unused_tokens_are_given_back(server: ModelServer, ask):
    """Four answers that may take 4,000 tokens each at 4,000 a second: without giving back they
    would take 3 seconds.
    """
    endpoint = OpenAI("Qwen3", server.base_url)
    limiter = Limiter(tpm=240_000)
    model = Limited(endpoint, limiter)
    for i in range(4):
        await model.complete(ask(str(i), max_tokens=3900))
    assert limiter.tokens.level > 3000
    await endpoint.aclose()


async def test_a_request_larger_than_a_second_of_tokens_is_sent(server: ModelServer, endpoint, ask):
    model = Limited(endpoint, Limiter(tpm=6000))  # 100 a second
    assert (await model.complete(ask(max_tokens=5000))).attempts == 1


async def test_retry_after_pauses_all_requests(server: ModelServer, endpoint, ask):
    slow = True

    async def answer(body: dict):
        nonlocal slow
        if slow:
            slow = False
            return error(429, "slow down", retry_after="0.3")
        return "{}"

    server.answer = answer
    model = Retried(Limited(endpoint, Limiter(8)), RetryPolicy(first=0.001))
    first = asyncio.create_task(model.complete(ask("first")))
    await server.until(lambda server: server.requests)
    await asyncio.sleep(0.05)  # the answer is here by now
    await asyncio.gather(*(model.complete(ask(str(i))) for i in range(5)), first)
    assert min(server.times[1:]) - server.times[0] >= 0.3


async def test_first_come_first_served(endpoint, server: ModelServer, ask):
    model = Limited(endpoint, Limiter(in_flight=1, rpm=60_000))
    await asyncio.gather(*(model.complete(ask(str(i))) for i in range(20)))
    assert [request["messages"][-1]["content"] for request in server.requests] == [
        str(i) for i in range(20)
    ]


async def test_a_cancelled_wait_takes_nothing(server: ModelServer, endpoint, ask):
    limiter = Limiter(in_flight=2, rpm=60)
    model = Limited(endpoint, limiter)
    began = asyncio.get_running_loop().time()
    await model.complete(ask("takes what this second brings"))
    waiting = [asyncio.create_task(model.complete(ask(str(i)))) for i in range(4)]
    await asyncio.sleep(0.05)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert limiter.slots.free == 2
    assert limiter.requests.level <= asyncio.get_running_loop().time() - began, "one a second"
    assert (await model.complete(ask("next"))).attempts == 1
    assert len(server.requests) == 2


async def test_a_failed_request_frees_its_place(server: ModelServer, endpoint, ask):
    async def answer(body: dict):
        return error(400, "no")

    server.answer = answer
    model = Limited(endpoint, Limiter(in_flight=1))
    outcomes = await asyncio.gather(
        *(model.complete(ask(str(i))) for i in range(3)), return_exceptions=True
    )
    assert len(outcomes) == len(server.requests) == 3


def test_a_limit_of_zero_is_an_error():
    with pytest.raises(ValueError, match="in_flight"):
        Limiter(in_flight=0)


def test_event_loops_of_several_threads_share_a_limiter():
    """Four loops with ten tasks each take turns at two places: never three at a time, and none
    waits for ever.
    """
    limiter, guard, held, most = Limiter(in_flight=2), threading.Lock(), 0, []

    async def one() -> None:
        nonlocal held
        await limiter.enter()
        with guard:
            held += 1
            most.append(held)
        await asyncio.sleep(0)
        with guard:
            held -= 1
        limiter.leave()

    async def ten() -> None:
        await asyncio.gather(*(one() for _ in range(10)))

    threads = [threading.Thread(target=lambda: asyncio.run(ten())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 40
    assert max(most) <= 2


async def test_a_place_of_a_cancelled_wait_goes_to_the_next():
    turns, order = Turns(), []

    async def wait(name: str) -> None:
        async with turns:
            order.append(name)

    await turns.acquire()
    waiting = [asyncio.create_task(wait(name)) for name in ("first", "second", "third")]
    await asyncio.sleep(0)
    turns.release()  # to the first, which is cancelled before it sees it
    waiting[0].cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (order, turns.free) == (["second", "third"], 1)


async def test_the_rate_follows_the_clock():
    now = 100.0

    def clock() -> float:
        return now

    limiter = Limiter(rpm=60, clock=clock)
    await limiter.enter()
    waiting = asyncio.create_task(limiter.enter())
    await asyncio.wait([waiting], timeout=0.05)
    assert not waiting.done()
    now = 101.0
    await waiting
