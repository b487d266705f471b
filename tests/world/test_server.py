"""The server: understands what it is sent, answers alike however it is asked, fails on demand."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from benchmarks.world import Fault, Faults, StandIn
from benchmarks.world.answers.judging import same, verdict
from benchmarks.world.answers.memory import entities, facts
from benchmarks.world.vectors import vector_of

TURNS = [
    "Alice Chen(user): Hi, I'm Alice Chen. I work at TechCorp as a senior software engineer.",
    "Alice Chen(user): I'm currently leading Project Phoenix, a major cloud migration initiative.",
    "Alice Chen(user): The project deadline is February 15th, and we have 3 team members.",
]
SAID = "2025-01-15T09:00:00Z"


def record(turn: int) -> dict[str, Any]:
    return {"content": TURNS[turn], "history": TURNS[:turn], "valid_at": SAID}


@pytest.mark.parametrize(
    ("turn", "names"),
    [
        (0, ["Alice Chen", "TechCorp"]),
        (1, ["Alice Chen", "Project Phoenix"]),
        (2, ["Alice Chen", "Project Phoenix"]),
    ],
)
def test_it_names_whom_a_message_is_about(turn: int, names: list[str]) -> None:
    assert [e["name"] for e in entities(record(turn))["entities"]] == names


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("Ann works at Luma.", SAID, None),
        ("Ann worked at Luma in 2019.", "2019-01-01T00:00:00Z", None),
        ("Ann worked at Luma from 2018 to 2020.", "2018-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("Ann worked at Luma until 2020.", None, "2020-01-01T00:00:00Z"),
        ("Ann lives in Rome since 2024-05-01.", "2024-05-01T00:00:00Z", None),
        ("Ann will start at Luma in March.", "2025-03-01T00:00:00Z", None),
        ("Ann lived in Rome once.", None, None),
    ],
)
def test_it_dates_facts_by_their_words(text: str, since: str | None, until: str | None) -> None:
    (fact,) = facts({"content": text, "history": [], "valid_at": SAID})["facts"]
    assert (fact["valid_at"], fact["invalid_at"]) == (since, until)


@pytest.mark.parametrize(
    ("new", "known", "expected"),
    [
        (
            "Alice Chen leads Project Phoenix.",
            "Alice Chen is currently leading Project Phoenix, a migration.",
            "duplicate",
        ),
        ("Ann works at Acme.", "Ann works at Luma.", "contradicts"),
        ("Ann left Luma.", "Ann works at Luma as a cook.", "contradicts"),
        ("Ann moved to Rome.", "Ann lives in Oslo.", "contradicts"),
        ("Bob leads Project Kite.", "Ann leads Project Kite.", "contradicts"),
        (
            "The deadline of Project Kite is May 1st.",
            "The deadline of Project Kite is May 3rd.",
            "contradicts",
        ),
        ("Ann works at Acme.", "Ann lives in Rome.", None),
        ("Ann will start at Acme in May.", "Ann works at Luma.", None),
        ("Ada is related to Bora.", "Bora is related to Ada.", None),
    ],
)
def test_it_compares_facts(new: str, known: str, expected: str | None) -> None:
    assert verdict(new, known) == expected


@pytest.mark.parametrize(
    ("name", "content", "known_name", "known", "expected"),
    [
        ("Alice", "Alice is here.", "Alice Chen", "", True),
        ("IBM", "IBM sells.", "International Business Machines", "", True),
        ("Alice Meyer", "Alice Meyer is here.", "Alice Chen", "", False),
        ("Sam", "Sam lost his cello.", "Sam", "Sam plays the cello.", True),
        ("Sam", "Sam lost his cello.", "Sam", "Sam works at Luma.", False),
    ],
)
def test_it_tells_names_apart(
    name: str, content: str, known_name: str, known: str, expected: bool
) -> None:
    assert same(name, content, known_name, known) is expected


def test_texts_alike_are_near_and_others_are_not() -> None:
    def near(a: str, b: str) -> float:
        return float(vector_of(a) @ vector_of(b))

    assert near("Alice Chen", "Alice Chen") == pytest.approx(1)
    assert near("Alice Chen", "Alice") > 0.6
    assert near("Alice Chen", "Project Phoenix") < 0.3
    assert near("Ann leads Project Kite.", "Ann is leading Project Kite.") > 0.6
    assert vector_of("Ann", 64).shape == (64,)


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


def chat(user: str, **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties}
    return {
        "model": "m",
        "messages": [{"role": "system", "content": "rules"}, {"role": "user", "content": user}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": schema},
        },
    }


DATES = {"since": {"type": "string"}, "until": {"type": "string"}}


async def test_it_speaks_the_protocol_and_counts(client: aiohttp.ClientSession) -> None:
    async with StandIn() as server:
        body = chat(f"Said at: {SAID}\nFact: Ann works at Luma.", **DATES)
        async with client.post(f"{server.base_url}/chat/completions", json=body) as response:
            document = await response.json()
        assert json.loads(document["choices"][0]["message"]["content"]) == {
            "since": SAID,
            "until": None,
        }
        async with client.get(server.base_url.replace("/v1", "/counters")) as response:
            counters = await response.json()
    assert (counters["calls"], counters["attempts"], counters["by_question"]) == (
        1,
        1,
        {"since until": 1},
    )
    assert counters["tokens_in"] == document["usage"]["prompt_tokens"] > 0


async def test_an_unknown_prompt_is_an_error_with_a_reason(
    client: aiohttp.ClientSession,
) -> None:
    async with (
        StandIn() as server,
        client.post(
            f"{server.base_url}/chat/completions", json=chat("?", colour={"type": "string"})
        ) as response,
    ):
        assert response.status == 400
        assert "does not understand" in (await response.json())["error"]["message"]


@pytest.mark.parametrize(
    ("kind", "status", "finish"),
    [
        ("429", 429, None),
        ("500", 500, None),
        ("prose", 200, "stop"),
        ("truncated", 200, "length"),
        ("refusal", 200, "stop"),
    ],
)
async def test_a_configured_fault_fails_the_request(
    client: aiohttp.ClientSession, kind: str, status: int, finish: str | None
) -> None:
    body = chat(f"Said at: {SAID}\nFact: Ann works at Luma.", **DATES)
    async with StandIn(faults=(Fault(kind, on=(2,)),)) as server:
        for n in (1, 2):
            async with client.post(f"{server.base_url}/chat/completions", json=body) as response:
                document = await response.json()
                assert response.status == (200 if n == 1 else status)
        assert server.faults.hit == {kind: 1}
    if finish:
        message = document["choices"][0]["message"]
        assert document["choices"][0]["finish_reason"] == finish
        assert message["content"] != json.dumps({"since": SAID, "until": None})
        assert bool(message["refusal"]) == (kind == "refusal")
    else:
        assert ("Retry-After" in response.headers) == (kind == "429")


def test_faults_with_a_rate_hit_the_same_requests_every_time() -> None:
    def hits() -> list[int]:
        faults = Faults((Fault("500", rate=0.3),), seed=7)
        return [n for n in range(1, 101) if faults.of(n)]

    assert hits() == hits()
    assert 15 < len(hits()) < 45
