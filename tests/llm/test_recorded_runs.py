"""Recording a run and replaying it: the same answers, vectors and times, or an error that says what
changed.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest

from semgraph.errors import ModelUnavailable, PlanError, RowError
from semgraph.llm.base import LLM, Embedder, Message, Request
from semgraph.llm.embed import OpenAIEmbedder
from semgraph.llm.openai import OpenAI
from semgraph.llm.recording import Recorded, RecordedEmbedder, Recorder
from semgraph.llm.stack import Limiter, Stack
from tests.llm.server import Answer, error

SCHEMA = '{"type":"string"}'
NOON = datetime(2026, 11, 21, 12, 0, 0, 123456, tzinfo=UTC)


def ask(text: str, step: str = "people", rules: str = "List the people.", **more) -> Request:
    return Request(
        "default", (Message("system", rules), Message("user", text)), SCHEMA, step=step, **more
    )


def clock(name: str) -> datetime:
    return NOON.replace(minute=len(name))


@pytest.fixture
async def model(server):
    model = OpenAI("gpt-4.1-mini", server.base_url, "key")
    yield model
    await model.aclose()


@pytest.fixture
async def embedder(server):
    embedder = OpenAIEmbedder("text-embedding-3-small", 8, server.base_url, "key")
    yield embedder
    await embedder.aclose()


@pytest.fixture
async def path(model, embedder, tmp_path):
    """A recording of two steps, three texts and two times."""
    recorder = Recorder()
    llm, vectors, now = recorder.llm(model), recorder.embedder(embedder), recorder.clock(clock)
    assert isinstance(llm, LLM)
    assert isinstance(vectors, Embedder)
    for request in (
        ask("Bob met Ann."),
        ask("Ann met Bob."),
        ask("Bob\nAnn", "facts", "List the facts."),
    ):
        await llm.complete(request)
    await vectors.embed(["Bob", "Ann", "line\u2028separator"])
    now("wave 0"), now("run")
    recorder.write(tmp_path / "plan.jsonl")
    return tmp_path / "plan.jsonl"


async def test_replayed_answers_have_their_tokens_and_cost_nothing(path, model, server):
    live = await model.complete(ask("Bob met Ann."))
    requests = len(server.requests)
    recorded = Recorded(path)
    assert isinstance(recorded, LLM)
    reply = await recorded.complete(ask("Bob met Ann."))
    assert (reply.text, reply.usage, reply.model) == (live.text, live.usage, model.name)
    assert (reply.origin, reply.dollars, reply.attempts, reply.finish) == ("issued", 0.0, 0, "stop")
    assert reply.seconds > 0
    assert reply.call_id == (await recorded.complete(ask("Bob met Ann."))).call_id
    assert len(server.requests) == requests, "nothing was sent"
    assert recorded.name == f"recorded:{model.name}"
    assert recorded.date == "2026-11-21"


async def test_limits_and_token_counts_are_replayed(path, model):
    recorded = Recorded(path)
    assert recorded.limits == model.limits
    assert recorded.count_tokens("How many tokens?") == model.count_tokens("How many tokens?")


async def test_vectors_are_replayed_bit_by_bit(path, embedder):
    recorded = RecordedEmbedder(path)
    assert isinstance(recorded, Embedder)
    live = await embedder.embed(["Ann", "line\u2028separator"])
    done = await recorded.embed(["Ann", "line\u2028separator"])
    assert np.array_equal(done.vectors, live.vectors)
    assert (done.dollars, done.attempts) == (0.0, 0)
    assert await recorded.dimensions() == 8
    assert recorded.name == embedder.name, "stores hold vectors of that embedder"


async def test_times_are_replayed_by_name(path):
    recorded = Recorded(path)
    assert recorded.now("wave 0") == clock("wave 0")
    assert recorded.now("run") == clock("run")
    with pytest.raises(
        ModelUnavailable, match=r'no time of "wave 7": the windows of the rows changed'
    ):
        recorded.now("wave 7")


async def test_a_recorded_clock_has_one_time_per_name():
    times = iter([NOON, NOON.replace(hour=13)])
    now = Recorder().clock(lambda _name: next(times))
    assert now("run") == now("run") == NOON


class TestMisses:
    """The error names the step, the recording, and the part of the request that is not as it
    was.
    """

    @pytest.mark.parametrize(
        ("request_", "said"),
        [
            (ask("Bob met Ann.", rules="List all people."), "the prompt (its rules) changed"),
            (
                replace(ask("Bob met Ann."), schema='{"type":"object"}'),
                "the schema of the answer changed",
            ),
            (
                ask("Bob met Ann.", max_tokens=9),
                "the parameters (max_tokens, trial, ...) changed",
            ),
            (ask("Bob met Ann.", trial=1), "the parameters (max_tokens, trial, ...) changed"),
            (ask("Bob met Carla."), "the rows changed"),
            (
                ask("Bob met Ann.", "places", "List the places."),
                "it has answers of other steps only (facts, people)",
            ),
        ],
        ids=["rules", "schema", "parameters", "trial", "rows", "step"],
    )
    async def test_answers(self, path, request_, said):
        with pytest.raises(ModelUnavailable) as caught:
            await Recorded(path).complete(request_)
        text = str(caught.value)
        assert text.startswith(
            f"step {request_.step}: the recording plan.jsonl (openai:gpt-4.1-mini@"
        )
        assert said in text
        assert f"“{request_.messages[-1].content}”" in text
        assert "Record it again" in text

    async def test_the_fingerprint_ignores_model_and_partition(self, path):
        await Recorded(path).complete(replace(ask("Bob met Ann."), partition="another group"))

    async def test_vectors(self, path):
        with pytest.raises(ModelUnavailable, match="has no vector of “Carla”"):
            await RecordedEmbedder(path).embed(["Bob", "Carla"])


async def test_a_text_that_was_rejected_is_rejected_again(server, tmp_path):
    async def fault(body):
        return error(400, "too long") if "bad" in body["input"] else None

    server.embedding_fault = fault
    endpoint = OpenAIEmbedder("embed-8", base_url=server.base_url, api_key="key")
    recorder = Recorder()
    live = await recorder.embedder(Stack().embedder(endpoint, Limiter())).embed(["good", "bad"])
    recorder.write(tmp_path / "r.jsonl")
    replayed = await RecordedEmbedder(tmp_path / "r.jsonl").embed(["good", "bad"])
    assert {p: (e.kind, str(e)) for p, e in replayed.failed.items()} == {
        1: (live.failed[1].kind, str(live.failed[1]))
    }
    assert np.array_equal(replayed.vectors[0], live.vectors[0])
    await endpoint.aclose()


async def test_a_row_that_got_an_error_gets_it_again(server, model, tmp_path):
    async def cut(body):
        return Answer("half an ans", "length")

    server.answer = cut
    recorder = Recorder()
    with pytest.raises(RowError) as live:
        await recorder.llm(model).complete(ask("Long."))
    recorder.write(tmp_path / "r.jsonl")
    with pytest.raises(RowError) as replayed:
        await Recorded(tmp_path / "r.jsonl").complete(ask("Long."))
    assert (
        (replayed.value.kind, str(replayed.value))
        == (live.value.kind, str(live.value))
        == ("truncated", str(live.value))
    )
    assert replayed.value.spent.usage == live.value.spent.usage
    assert replayed.value.spent.text == "half an ans"


class TestFile:
    async def test_a_recording_does_not_depend_on_the_order_of_the_run(
        self, model, embedder, tmp_path
    ):
        texts = [f"row {n}" for n in range(6)]
        files = []
        for order in (texts, texts[::-1]):
            recorder = Recorder()
            llm, vectors = recorder.llm(model), recorder.embedder(embedder)
            await asyncio.gather(*(llm.complete(ask(text)) for text in order))
            await vectors.embed(order)
            recorder.recording.answers = {
                k: replace(a, reply=replace(a.reply, seconds=0.0))
                for k, a in recorder.recording.answers.items()
            }
            recorder.write(tmp_path / "r.jsonl")
            files.append((tmp_path / "r.jsonl").read_bytes())
        assert files[0] == files[1]
        assert sorted(p.name for p in tmp_path.iterdir()) == ["r.jsonl"]

    async def test_a_recording_is_readable(self, path):
        head, *lines = [
            json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line
        ]
        assert head["recording"] == 1
        assert head["dimensions"] == 8
        assert head["now"] == {
            "run": clock("run").isoformat(),
            "wave 0": clock("wave 0").isoformat(),
        }
        assert [(line["step"], line["asks"]) for line in lines if "answer" in line] == [
            ("facts", "Bob Ann"), ("people", "Ann met Bob."), ("people", "Bob met Ann."),
        ]  # fmt: skip
        assert [line["embeds"] for line in lines if "embeds" in line] == [
            "Ann",
            "Bob",
            "line\u2028separator",
        ]

    async def test_reading_and_writing_again_changes_nothing(self, path, tmp_path):
        Recorded(path).recording.write(tmp_path / "again.jsonl")
        assert (tmp_path / "again.jsonl").read_bytes() == path.read_bytes()

    def test_a_missing_recording_is_reported(self, tmp_path):
        with pytest.raises(PlanError, match=r"no recording can be read at .*none\.jsonl"):
            Recorded(tmp_path / "none.jsonl")

    @pytest.mark.parametrize(
        ("number", "line"),
        [
            (1, ""),
            (1, "{}"),
            (1, '{"recording": 99}'),
            (2, "not json"),
            (2, '{"answer": "x"}'),
            (2, '{"embeds": "x", "vector": "AAAA"}'),
            (2, '{"embeds": "x", "vector": "?"}'),
        ],
    )
    async def test_an_invalid_line_is_named(self, path, number, line):
        lines = path.read_text(encoding="utf-8").split("\n")
        lines[number - 1] = line
        path.write_text("\n".join(lines), encoding="utf-8")
        with pytest.raises(PlanError, match=rf"plan\.jsonl:{number}:1  not a line of a recording"):
            Recorded(path)
