"""Errors that grow with what is shown and asked, and late answers; the same for every program."""

from __future__ import annotations

import math
import time
from typing import Any

import aiohttp
import pytest

from benchmarks.world import Fault, Noise, StandIn


def chat(*texts: str, **more: Any) -> dict[str, Any]:
    roles = ["system", "user"][-len(texts) :]
    return {
        "model": "m",
        "messages": [{"role": r, "content": t} for r, t in zip(roles, texts, strict=True)],
        **more,
    }


def reranked(query: str, passage: str) -> dict[str, Any]:
    """As graphiti-core asks, one word and its probability."""
    text = (
        'Respond with "True" if PASSAGE is relevant to QUERY and "False" otherwise.\n'
        f"<PASSAGE>\n {passage}\n </PASSAGE>\n <QUERY>\n {query}\n </QUERY>\n"
    )
    return chat("You are an expert", text, logprobs=True, top_logprobs=2, max_tokens=1)


def claimed(text: str) -> dict[str, Any]:
    """As LOTUS asks a filter."""
    said = f"Context:\n[Text]: «{text}»\n\nClaim: Does “{{Text}}” say that somebody moved?"
    return chat("The user will provide a claim and some relevant context.", said)


def wrong(noise: Noise, bodies: list[dict[str, Any]]) -> float:
    """The share of the answers that are not those without noise."""
    clean, noisy = StandIn(), StandIn(noise=noise)
    return sum(clean.answer(body) != noisy.answer(body) for body in bodies) / len(bodies)


def test_errors_are_more_frequent_in_longer_prompts() -> None:
    def asked(words: int) -> list[dict[str, Any]]:
        return [
            claimed(f"Ada Costa(user): I have moved to Oslo {n}. {'And so on. ' * words}")
            for n in range(200)
        ]

    noise = Noise(verdict=0.05, length=2.0)
    assert wrong(noise, asked(0)) < 0.12, "some 60 tokens: 0.05 * 1.1"
    assert 0.18 < wrong(noise, asked(600)) < 0.36, "some 1,860 tokens: 0.05 * 4.7"
    assert wrong(Noise(verdict=0.05), asked(600)) < 0.12


async def test_graphitis_reranker_gets_the_probability_of_its_word() -> None:
    said = {"Ada Costa is employed by Luma.": "True", "Ada Costa lives in Oslo.": "False"}
    async with StandIn() as server, aiohttp.ClientSession() as client:
        for passage, word in said.items():
            body = reranked("Where does Ada Costa work?", passage)
            async with client.post(f"{server.base_url}/chat/completions", json=body) as response:
                (choice,) = (await response.json())["choices"]
            (token,) = choice["logprobs"]["content"]
            shares = {one["token"]: math.exp(one["logprob"]) for one in token["top_logprobs"]}
            assert (
                choice["message"]["content"]
                == token["token"]
                == token["top_logprobs"][0]["token"]
                == word
            )
            assert sum(shares.values()) == pytest.approx(1)
            assert shares[word] >= 0.5
        assert server.calls == {"relevance": 2}


async def test_a_stalled_answer_comes_late_and_is_right() -> None:
    async with (
        StandIn(faults=(Fault.parse("stall@2:0.3"),)) as server,
        aiohttp.ClientSession() as client,
    ):
        seconds, texts = [], []
        for _ in range(2):
            began = time.perf_counter()
            async with client.post(
                f"{server.base_url}/chat/completions", json=claimed("Ann has moved to Oslo.")
            ) as got:
                texts.append((await got.json())["choices"][0]["message"]["content"])
            seconds.append(time.perf_counter() - began)
    assert texts == ["Answer: True", "Answer: True"]
    assert seconds[1] >= 0.3
    assert server.counters.seconds == pytest.approx(0.3)
