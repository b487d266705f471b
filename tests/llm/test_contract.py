"""What every model does, endpoint or wrapper, alone or stacked. `test_providers.py` has the services."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm.base import LLM, Message, Request, Usage
from semgraph.llm.journal import Journal, Journalled
from semgraph.llm.openai import OpenAI
from semgraph.llm.recording import Recorder
from semgraph.llm.stack import Budget, Budgeted, Coalesced, Limited, Limiter, Retried, Roles, Stack
from semgraph.llm.tokens import FlatPrice
from tests.llm.server import Answer, Fault, ModelServer, error

ASKED = (Message("user", "Is it so?"),)
Make = Callable[[LLM, Path], LLM]
MODELS: dict[str, Callable[[LLM, Journal], LLM]] = {
    "endpoint": lambda endpoint, _: endpoint,
    "limited": lambda endpoint, _: Limited(endpoint, Limiter(8, rpm=60_000, tpm=60_000_000)),
    "retried": lambda endpoint, _: Retried(endpoint),
    "budgeted": lambda endpoint, _: Budgeted(endpoint, Budget(1000, 1_000_000, 100, 1000)),
    "journalled": Journalled,
    "coalesced": lambda endpoint, _: Coalesced(endpoint),
    "recorder": lambda endpoint, _: Recorder().llm(endpoint),
    "roles": lambda endpoint, _: Roles(endpoint),
    "stack": lambda endpoint, journal: Stack(budget=Budget(1000), journal=journal).model(
        endpoint, Limiter(8)
    ),
}


@asynccontextmanager
async def made(kind: str, server: ModelServer, folder: Path) -> AsyncIterator[LLM]:
    price = FlatPrice(1.0, 10.0, 0.5)
    endpoint = OpenAI("m", server.base_url, "key", price=price, timeout=600)
    journal = Journal(folder / "contract.db")
    model = MODELS[kind](endpoint, journal)
    yield model
    await model.aclose()
    journal.close()


@pytest.fixture(params=MODELS)
async def model(
    request: pytest.FixtureRequest, server: ModelServer, tmp_path: Path
) -> AsyncIterator[LLM]:
    async with made(request.param, server, tmp_path) as model:
        yield model


def test_it_is_a_model(model: LLM, server: ModelServer):
    assert isinstance(model, LLM)
    assert model.name == f"openai:m@{server.base_url}"
    assert model.limits.in_flight == 64
    assert model.exact_tokens is False
    assert model.count_tokens("12345") == 2
    assert model.dollars(Usage(prompt=1_000_000, cached=500_000, completion=100_000)) == 1.75


async def test_an_answer_of_one_word_has_the_probability_of_each_word(
    model: LLM, server: ModelServer
):
    async def answer(body: dict) -> Answer:
        return Answer(
            "Yes",
            finish="length",
            first_tokens=(("Yes", -0.25), ("No", -2.0), (" yes", -3.0), ("It", -9.0)),
        )

    server.answer = answer
    reply = await model.complete(Request("default", ASKED, "", max_tokens=1, words=("yes", "no")))
    assert reply.logprobs == pytest.approx((math.log(math.exp(-0.25) + math.exp(-3)), -2.0))
    assert (reply.text, reply.finish) == ("Yes", "length")
    assert (server.requests[0]["logprobs"], server.requests[0]["top_logprobs"]) == (True, 20)


async def test_an_answer_has_its_tokens_and_seconds(model: LLM, server: ModelServer, ask):
    async def answer(body: dict) -> Answer:
        details = {"cached_tokens": 40}
        return Answer(
            '{"keep": true}',
            usage={"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": details},
        )

    server.answer = answer
    reply = await model.complete(ask())
    assert reply.text == '{"keep": true}'
    assert reply.usage == Usage(prompt=100, cached=40, completion=7)
    assert (reply.origin, reply.attempts, reply.finish) == ("issued", 1, "stop")
    assert reply.model == "m-2025-04-14"
    assert reply.dollars == pytest.approx((60 + 40 * 0.5 + 70) / 1e6)
    assert reply.seconds > 0
    assert reply.call_id


async def test_every_request_gets_its_own_answer(model: LLM, server: ModelServer, ask):
    async def answer(body: dict) -> str:
        text = body["messages"][-1]["content"]
        await asyncio.sleep(0.02 if text.endswith("0") else 0)  # some overtake others
        return json.dumps(text)

    server.answer = answer
    replies = await asyncio.gather(*(model.complete(ask(f"row {i}")) for i in range(50)))
    assert [json.loads(reply.text) for reply in replies] == [f"row {i}" for i in range(50)]
    assert len({reply.call_id for reply in replies}) == 50


async def test_any_text_passes_unchanged(model: LLM, ask):
    text = 'quotes " \\ newline \n tab \t NUL \0 „Grüße“ 日本語 🎉'
    assert json.loads((await model.complete(ask(text))).text) == text


async def test_lone_surrogates_do_not_stop_a_run(model: LLM, ask):
    assert (
        json.loads((await model.complete(ask("broken \ud83d emoji"))).text) == "broken \ud83d emoji"
    )


async def test_a_row_error_passes_the_stack(model: LLM, server: ModelServer, ask):
    async def answer(body: dict) -> str | Fault:
        return error(400, "no verbs allowed") if body["messages"][-1]["content"] == "bad" else "{}"

    server.answer = answer
    outcomes = await asyncio.gather(
        *(model.complete(ask(t)) for t in ("a", "bad", "b")), return_exceptions=True
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["Reply", "RowError", "Reply"]
    failed = outcomes[1]
    assert isinstance(failed, RowError)
    assert failed.kind == "rejected"
    assert "no verbs allowed" in str(failed)
    assert failed.attempts == 1


async def test_an_unreachable_endpoint_stops_the_run(model: LLM, server: ModelServer, ask):
    await server.__aexit__()
    with pytest.raises(ModelUnavailable, match=r"no answer from 127\.0\.0\.1:\d+ \(.*refused"):
        await model.complete(ask())


async def test_a_cancelled_request_ends_and_others_are_answered(
    model: LLM, server: ModelServer, ask
):
    asked, release = asyncio.Event(), asyncio.Event()

    async def answer(body: dict) -> str:
        if body["messages"][-1]["content"] == "slow":
            asked.set()
            await release.wait()
        return "{}"

    server.answer = answer
    slow = asyncio.create_task(model.complete(ask("slow")))
    await asked.wait()
    slow.cancel()
    with pytest.raises(asyncio.CancelledError):
        await slow
    assert (await model.complete(ask("quick"))).text == "{}"
    await server.until(lambda server: server.abandoned)
    release.set()
    assert (await model.complete(ask("slow"))).text == "{}"


async def test_cancelling_many_leaves_room_for_as_many(model: LLM, server: ModelServer, ask):
    gate = asyncio.Event()

    async def answer(body: dict) -> str:
        await gate.wait()
        return "{}"

    server.answer = answer
    tasks = [asyncio.create_task(model.complete(ask(str(i)))) for i in range(20)]
    await server.until(lambda server: server.in_flight >= 8)
    for task in tasks:
        task.cancel()
    assert all(
        isinstance(e, asyncio.CancelledError)
        for e in await asyncio.gather(*tasks, return_exceptions=True)
    )
    gate.set()
    replies = await asyncio.gather(*(model.complete(ask(f"again {i}")) for i in range(20)))
    assert [reply.text for reply in replies] == ["{}"] * 20


async def test_partition_and_step_are_not_part_of_the_question(
    model: LLM, server: ModelServer, ask
):
    await model.complete(ask("x", partition="p", step="s"))
    assert "p" not in server.requests[0].values()
    assert ask("x", partition="p", step="s").fingerprint == ask("x").fingerprint


async def test_closing_twice_is_safe(model: LLM, ask):
    await model.complete(ask())
    await model.aclose()
    await model.aclose()


async def test_closing_unused_opens_nothing(model: LLM, server: ModelServer):
    await model.aclose()
    assert server.requests == []


def test_requests_of_different_trials_differ(ask: Callable[..., Request]):
    assert ask("x", trial=1).fingerprint != ask("x", trial=2).fingerprint


def test_draws_differ_by_number_and_trial(ask: Callable[..., Request]):
    draws = [ask("x", trial=trial, sample=sample) for trial in (0, 1) for sample in (1, 2, 3)]
    assert len({request.fingerprint for request in draws}) == len(draws)
    assert len({request.seed for request in draws}) == len(draws)


def test_the_fingerprint_of_what_is_no_draw_is_that_of_earlier_releases():
    request = Request("default", (Message("user", "hi"),), "{}", 77, (("temperature", 0),), 3)
    words = replace(request, words=("yes", "no"))
    assert request.fingerprint == "1d069e441a8d28318ec870a4e0e4e88e853ae23cc454df94c194c2a76ec9edd6"
    assert words.fingerprint == "9dd7775a24e818ee6e1b42982e08490c62a8a8b50fe67324e0564d078daba6ca"
