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

from benchmarks.world import Fault, Latency, Noise, PrefixCache, StandIn
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


def form(name: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "json_schema",
        "json_schema": {"name": name, "schema": {"properties": properties}},
    }


def reranked(query: str, passage: str) -> dict[str, Any]:
    """As graphiti-core asks, one word and its probability."""
    text = (
        'Respond with "True" if PASSAGE is relevant to QUERY and "False" otherwise.\n'
        f"<PASSAGE>\n {passage}\n </PASSAGE>\n <QUERY>\n {query}\n </QUERY>\n"
    )
    return chat("You are an expert", text, logprobs=True, top_logprobs=2, max_tokens=1)


def resolved(names: list[str], known: list[str]) -> dict[str, Any]:
    """As graphiti-core asks which entities are the same."""
    mine = json.dumps([{"id": n, "name": name} for n, name in enumerate(names)])
    theirs = json.dumps(
        [{"candidate_id": n, "name": name, "summary": ""} for n, name in enumerate(known)]
    )
    text = (
        f"<CURRENT MESSAGE>\nAda speaks.\n</CURRENT MESSAGE>\n<ENTITIES>\n{mine}\n</ENTITIES>\n"
        f"<EXISTING ENTITIES>\n{theirs}\n</EXISTING ENTITIES>"
    )
    return chat(text, response_format=form("NodeResolutions"))


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


def test_the_same_errors_are_made_whoever_asks() -> None:
    lotus = [claimed(f"Ada Costa(user): I have moved to Oslo {n}.") for n in range(200)]
    graphiti = [resolved([f"Ada Costa {n}"], ["Bruno Weber"]) for n in range(200)]
    scores = [reranked("Where does Ada live?", f"Ada Costa lives in Oslo {n}.") for n in range(200)]
    for bodies in (lotus, graphiti):
        assert wrong(Noise(), bodies) == 0
        assert 0.06 < wrong(Noise(verdict=0.1), bodies) < 0.16
    assert 0.01 < wrong(Noise(verdict=0.2), scores) < 0.2, (
        "a wrong score is any score: every second is on the right side"
    )


def test_many_pairs_in_one_prompt_of_graphitis_are_judged_worse() -> None:
    def matches(size: int) -> float:
        bodies = [
            resolved([f"Ada Costa {n}"], [f"Bruno Weber {k}" for k in range(size)])
            for n in range(100)
        ]
        return wrong(Noise(verdict=0.01, growth=0.5), bodies)

    assert matches(1) < 0.05
    assert matches(10) > 0.25, "ten pairs at 0.01 * (1 + 0.5 * 9)"


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


def test_messages_in_parts_are_read_as_one_text() -> None:
    from benchmarks.world.server import _with_plain_texts

    parts = [{"type": "text", "text": "Ada "}, {"type": "text", "text": "moved."}]
    (message,) = _with_plain_texts({"messages": [{"role": "user", "content": parts}]})["messages"]
    assert message["content"] == "Ada moved."


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


def test_a_cache_may_be_off() -> None:
    cache = PrefixCache.parse("off")
    cache.remember(["rule " * 5000])
    assert cache.cached(["rule " * 5000], len) == 0


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--noise", "length=-1"),
        ("--fault", "500=2"),
        ("--fault", "500=0.1:3"),
        ("--cache", "size=3"),
        ("--latency", "gpt-0"),
    ],
)
def test_switches_that_make_no_sense_are_refused(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([option, value])
    assert f"argument {option}: invalid" in capsys.readouterr().err


def test_help_names_every_switch(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    said = capsys.readouterr().out
    names = [
        "load=",
        "growth=",
        "length=",
        "429",
        "stall",
        "vllm-32b",
        "--rpm",
        "--tpm",
        "--cache",
        "tell",
        "score",
    ]
    assert all(name in said for name in names)


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
