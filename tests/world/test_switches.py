"""Rates, noise, faults and the cache: each by itself, each drawn alike every time; and
counters that agree with semgraph's.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from benchmarks.world import Fault, Noise, PrefixCache, Rates, StandIn
from benchmarks.world.__main__ import main
from benchmarks.world.claims import write
from benchmarks.world.faults import spoilt

NAME = {"type": "object", "properties": {"name": {"type": "string"}, "kind": {"type": "string"}}}
ENTITIES = {"entities": {"type": "array", "items": NAME}}
SINCE = {"since": {"type": "string"}, "until": {"type": "string"}}
SAID = "2025-01-15T09:00:00Z"


def chat(user: str, system: str = "rules", **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {
        "model": "m",
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema},
        },
    }


def message(content: str) -> dict[str, Any]:
    asked = f'Message: {content}\nEarlier messages, to look up what "she" or "the project" stand for: []'
    return chat(asked, **ENTITIES)


def compare(rights: list[str]) -> dict[str, Any]:
    system = "Numbered records follow, each a JSON object on a line of its own.\n\nAnswer with one JSON object and nothing else"
    lines = "\n".join(
        f"{n}. {json.dumps({'old.fact': text})}" for n, text in enumerate(rights, 101)
    )
    user = f'Left records:\n1. {{"fact": "Ann works at Acme."}} compare with: all\n\nRight records:\n{lines}'
    number = {"type": "integer"}
    verdict = {"type": "string", "enum": ["duplicate", "contradicts"]}
    entry = {"type": "object", "properties": {"left": number, "right": number, "verdict": verdict}}
    return chat(user, system, matches={"type": "array", "items": entry})


def answer(server: StandIn, body: dict[str, Any]) -> Any:
    return json.loads(server.answer(body)[1])


def test_answers_are_about_the_records_that_stand_in_the_prompt_and_follow_their_numbers() -> None:
    server = StandIn()
    rights = ["Ann works at Luma.", "Bob works at Luma.", "Ann is employed by Acme."]
    assert answer(server, compare(rights))["matches"] == [
        {"left": 1, "right": 101, "verdict": "contradicts"},
        {"left": 1, "right": 103, "verdict": "duplicate"},
    ]
    assert answer(server, compare(rights[::-1]))["matches"] == [
        {"left": 1, "right": 101, "verdict": "duplicate"},
        {"left": 1, "right": 103, "verdict": "contradicts"},
    ]
    assert answer(server, compare(rights[1:2]))["matches"] == [], "what is not shown is not known"


def test_two_servers_and_two_orders_of_asking_give_the_same_answers() -> None:
    bodies = [message(f"Ann(user): I know Bob{n}.") for n in range(5)]
    noise = Noise(drop=0.3, spurious=0.3)
    one, other = StandIn(noise=noise), StandIn(noise=noise)
    assert [answer(one, b) for b in bodies] == [answer(other, b) for b in bodies[::-1]][::-1]


def test_without_noise_nothing_is_wrong_and_with_it_as_much_as_was_asked_for() -> None:
    bodies = [message(f"Ann(user): I know Bob Marsh and Carl Ott {n}.") for n in range(200)]
    clean, noisy = StandIn(), StandIn(noise=Noise(drop=0.2))
    whole = sum(len(answer(clean, body)["entities"]) for body in bodies)
    left = sum(len(answer(noisy, body)["entities"]) for body in bodies)
    assert whole == 600
    assert 0.75 < left / whole < 0.85


def test_dates_slip_by_at_most_sixty_days() -> None:
    from datetime import datetime

    body = chat(f"Said at: {SAID}\nFact: Ann works at Luma.", **SINCE)
    told = answer(StandIn(noise=Noise(slip=1)), body)
    assert told["since"] != SAID
    assert abs((datetime.fromisoformat(told["since"]) - datetime.fromisoformat(SAID)).days) <= 60
    assert told["until"] is None


def test_verdicts_are_wrong_more_often_the_more_is_asked_in_one_call() -> None:
    noise = Noise(verdict=0.02, growth=0.5)
    server = StandIn(noise=noise)

    def wrong(size: int) -> float:
        asked = [
            [f"Ann{call} works at Firm{n}." for n in range(size)] for call in range(400 // size)
        ]
        return sum(len(answer(server, compare(rights))["matches"]) for rights in asked) / 400

    assert wrong(1) < 0.06
    assert 0.14 < wrong(20) < 0.28, "0.02 * (1 + 0.5 * 19) = 0.21"


def test_rate_limits_reject_requests_with_a_time_to_wait() -> None:
    now = [0.0]
    rates = Rates(rpm=60, tpm=6000, burst=1.0, clock=lambda: now[0])
    assert rates.wait(50) == 0
    assert rates.wait(50) == pytest.approx(1.0), "one a second"
    now[0] = 1.0
    assert rates.wait(100) == 0
    now[0] = 1.5
    assert rates.wait(1) == pytest.approx(0.5)
    assert rates.refused == 2


def test_prompts_are_cached_by_whole_blocks_from_their_beginning() -> None:
    cache = PrefixCache(block=10, least=20)
    rules = "rule " * 100
    assert cache.cached([rules, "one"], len) == 0
    cache.remember([rules, "one"])
    assert cache.cached([rules, "two"], len) == 250, (
        "all 256-character steps that are equal, in tens"
    )
    assert cache.cached(["x" + rules, "one"], len) == 0
    assert PrefixCache(least=1024).cached([rules, "two"], len) == 0


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("wrong_ids", {"answers": [{"id": 901, "x": 1}, {"id": 902, "x": 2}]}),
        ("missing_ids", {"answers": [{"id": 2, "x": 2}]}),
        ("double_ids", {"answers": [{"id": 1, "x": 1}, {"id": 1, "x": 1}, {"id": 2, "x": 2}]}),
    ],
)
def test_numbers_of_records_go_wrong(kind: str, said: dict[str, Any]) -> None:
    right = {"answers": [{"id": 1, "x": 1}, {"id": 2, "x": 2}]}
    assert json.loads(spoilt(Fault(kind), json.dumps(right)).text or "") == said
    ranking = json.loads(spoilt(Fault(kind), '{"ranking": [2, 1]}').text or "")["ranking"]
    assert ranking == {"wrong_ids": [902, 901], "missing_ids": [1], "double_ids": [2, 2, 1]}[kind]


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def test_counters_are_served_over_http_and_can_be_reset(
    client: aiohttp.ClientSession,
) -> None:
    async with StandIn(rates=Rates(rpm=2), cache=PrefixCache(block=1, least=0)) as server:
        url = server.base_url.removesuffix("/v1")
        statuses = []
        for _ in range(3):
            async with client.post(
                f"{url}/v1/chat/completions", json=message("Ann(user): I know Bob.")
            ) as response:
                statuses.append(response.status)
        assert statuses == [200, 200, 429]
        assert float(response.headers["Retry-After"]) > 0
        async with client.get(f"{url}/counters") as response:
            told = await response.json()
        assert (told["calls"], told["attempts"], told["refused"], told["by_question"]) == (
            2,
            3,
            1,
            {"entities": 2},
        )
        assert told["tokens_in"] / 2 > told["tokens_cached"] > 0, (
            "the second prompt, without what surrounds its messages"
        )
        async with client.post(f"{url}/reset") as response:
            assert response.status == 200
        assert server.counters.as_dict()["calls"] == server.counters.attempts == 0


def test_the_server_parses_sentences_without_hints_from_the_world() -> None:
    """The server reads sentences; it has never seen the world's keys, so a sentence of nobody's is
    answered as well.
    """
    text = write("home", "Nobody Known", None, "Atlantis", when="from 2001-01-01 to 2002-01-01")
    told = answer(StandIn(), chat(f"Said at: {SAID}\nFact: {text}", **SINCE))
    assert told == {"since": "2001-01-01T00:00:00Z", "until": "2002-01-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--noise", "drop=2"),
        ("--noise", "doubt=1"),
        ("--latency", "slow"),
        ("--fault", "flood=1"),
    ],
)
def test_unknown_switches_are_rejected(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([option, value])
    assert f"argument {option}: invalid" in capsys.readouterr().err
