"""Errors that grow with what is shown and asked, waiting that grows with what is read and with the
load; the same for every program.
"""

from __future__ import annotations

import json
import math
import time
from typing import Any

import aiohttp
import pytest

from benchmarks.world import Fault, Latency, Noise, StandIn
from benchmarks.world.__main__ import main
from benchmarks.world.protocol import Tokens
from benchmarks.world.waiting import PROFILES


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


def test_latency_grows_with_tokens_and_with_load() -> None:
    model = Latency(fixed=0.1, prompt=0.001, each=0.01, load=0.5)
    assert model.seconds("a", Tokens(100, 0, 10)) == pytest.approx(0.3)
    assert model.seconds("a", Tokens(100, 60, 10)) == pytest.approx(0.24)
    assert model.seconds("a", Tokens(100, 0, 10), others=2) == pytest.approx(0.6)
    assert {name: Latency.parse(name) for name in PROFILES} == dict(PROFILES)


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


def test_the_command_line_prints_the_messages_of_a_world(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def told(*more: str) -> list[Any]:
        main(["tell", "--people", "4", "--difficulty", "corrected", *more])
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert [row["name"] for row in told("--count", "2")] == ["message 1", "message 2"]
    assert any("not" in row["content"] for row in told("--world", "2"))
    assert all(row["valid_at"] < "2024-06-01T00:00:00Z" for row in told("--at", "2024-06-01"))
    assert {row.get("kind") for row in told("gold", "--at", "2024-06-01")} >= {
        "person",
        "place",
        None,
    }
    assert len(told("questions", "--count", "7")) == 7
