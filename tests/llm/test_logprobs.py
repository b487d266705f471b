"""Log-probabilities of a word that is the whole answer: where they come from, where they are
kept.
"""

from __future__ import annotations

import json
import math

import pytest

from semgraph.llm.base import Limits, Message, Request
from semgraph.llm.journal import Journal, Journalled
from semgraph.llm.openai import OpenAI
from semgraph.llm.recording import Recorded, Recorder, Recording
from semgraph.llm.tokens import word_logprobs
from tests.llm.server import Answer, ModelServer

ASKED = Request("default", (Message("user", "Is it so?"),), "", max_tokens=1, words=("yes", "no"))
SURE = Answer("Yes", finish="length", first_tokens=(("Yes", -0.1), ("No", -2.5)))


def always(answer):
    async def function(body: dict):
        return answer

    return function


def test_spellings_of_a_word_are_added_and_a_word_not_listed_has_the_least_probability():
    tokens = [("Yes", -0.2), (" yes", -2.0), ("y", -4.0), ("Perhaps", -5.0)]
    yes, no = word_logprobs(("yes", "no"), tokens)
    assert yes == pytest.approx(math.log(math.exp(-0.2) + math.exp(-2.0) + math.exp(-4.0)))
    assert no == -5.0


def test_an_answer_that_is_none_of_the_words_has_no_probabilities():
    assert word_logprobs(("yes", "no"), [("Perhaps", -0.1), ("Nothing", -4.0)]) == (
        -math.inf,
        -math.inf,
    )


def test_words_may_be_digits():
    assert word_logprobs(
        ("0", "1", "2"), [("2", -0.1), ("1", -3.0), ("12", -4.0)]
    ) == pytest.approx((-4.0, -3.0, -0.1))


async def test_an_endpoint_without_logprobs_leaves_them_empty(server: ModelServer, endpoint):
    server.answer = always(Answer("Yes", finish="length"))
    assert (await endpoint.complete(ASKED)).logprobs == ()


async def test_logprobs_are_requested_only_for_one_word_answers(server: ModelServer, endpoint, ask):
    await endpoint.complete(ask())
    assert not {"logprobs", "top_logprobs"} & server.requests[0].keys()


def test_a_reasoning_model_has_no_logprobs():
    assert OpenAI("gpt-5-mini").limits.logprobs is False
    assert OpenAI("gpt-4.1-mini").limits.logprobs is None


def test_words_are_part_of_the_fingerprint():
    plain = Request("default", ASKED.messages, "", max_tokens=1)
    assert plain.fingerprint != ASKED.fingerprint


class TestJournal:
    async def test_a_recording_keeps_logprobs(
        self, server: ModelServer, endpoint, journal: Journal
    ):
        server.answer = always(SURE)
        model = Journalled(endpoint, journal)
        first, again = [await model.complete(ASKED) for _ in range(2)]
        assert (again.origin, again.logprobs) == ("journal", first.logprobs)
        assert again.logprobs == pytest.approx((-0.1, -2.5))
        assert journal.exchange(first.call_id).request == ASKED

    async def test_an_answer_without_logprobs_is_requested_again(
        self, server: ModelServer, endpoint, journal: Journal
    ):
        """The endpoint may give them by now: vLLM and others can be started so that they do."""
        model = Journalled(endpoint, journal)
        server.answer = always(Answer("Yes", finish="length"))
        await model.complete(ASKED)
        server.answer = always(SURE)
        assert (await model.complete(ASKED)).logprobs == pytest.approx((-0.1, -2.5))


class TestRecording:
    async def test_a_recording_keeps_logprobs_and_the_form_of_questions(
        self, server: ModelServer, tmp_path
    ):
        server.answer = always(SURE)
        recorder = Recorder()
        model = OpenAI("m", server.base_url, limits=Limits(logprobs=True, yes_no="word"))
        said = await recorder.llm(model).complete(ASKED)
        await model.aclose()
        recorder.write(tmp_path / "run.jsonl")
        replay = Recorded(tmp_path / "run.jsonl")
        assert (
            (await replay.complete(ASKED)).logprobs == said.logprobs == pytest.approx((-0.1, -2.5))
        )
        assert (replay.limits.logprobs, replay.limits.yes_no) == (True, "word")

    async def test_a_recording_without_logprobs_is_written_as_before(
        self, server: ModelServer, endpoint, ask, tmp_path
    ):
        recorder = Recorder()
        await recorder.llm(endpoint).complete(ask())
        path = tmp_path / "run.jsonl"
        recorder.write(path)
        head, answer = (json.loads(line) for line in path.read_text().splitlines())
        assert not {"logprobs", "yes_no"} & (head.keys() | answer.keys())
        assert Recording.read(path).limits == endpoint.limits
