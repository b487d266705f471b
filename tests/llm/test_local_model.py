"""A real small model (SmolLM2, 135 million parameters) run by llama.cpp in this process.

It is fetched into the user's cache once. Its answers are poor; that they are well-formed,
repeatable and counted is what is tested. One thread: on a machine that runs other tests two are
slower.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from dataclasses import replace

import jsonschema
import pytest

from semgraph.display import noticing
from semgraph.errors import ModelUnavailable, PlanError, RowError
from semgraph.llm.base import LLM, Limits, Message, Request, Usage
from semgraph.llm.catalogue import CatalogueModel, ModelFile, find, paths
from semgraph.llm.local import Local, default_threads
from tests.patience import HANGS

PEOPLE = {
    "type": "object",
    "properties": {
        "people": {
            "type": "array",
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "maxLength": 20},
                    "kind": {"enum": ["Person", "Company"]},
                },
                "required": ["name", "kind"],
                "additionalProperties": False,
            },
        },
        "sure": {"type": "boolean"},
    },
    "required": ["people", "sure"],
    "additionalProperties": False,
}
TALE = {
    "type": "object",
    "properties": {"tale": {"type": "string"}},
    "required": ["tale"],
    "additionalProperties": False,
}
MOOD = {
    "type": "object",
    "properties": {"mood": {"type": "string", "maxLength": 4}},
    "required": ["mood"],
    "additionalProperties": False,
}
"""An answer of few tokens, where any will do."""
RULES = "You list the people and companies that a message names. " * 8


def ask(text: str, schema: dict = MOOD, *, rules: str = RULES, **more) -> Request:
    messages = (Message("system", rules), Message("user", text))
    return Request("default", messages, json.dumps(schema), **{"max_tokens": 200, **more})


@pytest.fixture(scope="module")
def local():
    model = Local("SmolLM2-135M", threads=1)
    yield model
    asyncio.run(model.aclose())


@pytest.fixture
def without_file(tmp_path):
    """A model whose file is not here and may not be fetched."""
    return Local(
        "SmolLM2-135M", threads=1, env={"SEMGRAPH_HOME": str(tmp_path), "SEMGRAPH_OFFLINE": "1"}
    )


def test_it_is_a_model_with_a_name_and_limits(local):
    assert isinstance(local, LLM)
    assert local.name == "local:SmolLM2-135M"
    assert local.limits == Limits(
        context_tokens=8192, max_output_tokens=4096, in_flight=1, logprobs=True
    )
    assert local.dollars(Usage(1000, 0, 1000)) == 0


def test_threads_are_all_cores_of_an_idle_machine_and_one_of_a_busy_one():
    cores = len(os.sched_getaffinity(0))
    assert default_threads(busy=0.0) == (cores if cores <= 4 else cores // 2)
    assert default_threads(busy=float(cores)) == 1


class TestAnswers:
    async def test_an_answer_has_its_schema_and_no_needless_blanks(self, local):
        reply = await local.complete(ask("Alice works at TechCorp.", PEOPLE))
        answer = json.loads(reply.text)
        jsonschema.validate(answer, PEOPLE)
        assert reply.text == json.dumps(answer, ensure_ascii=False)
        assert (reply.finish, reply.origin, reply.dollars, reply.model) == (
            "stop",
            "issued",
            0.0,
            "SmolLM2-135M",
        )
        assert reply.usage.completion > 0
        assert reply.call_id

    async def test_equal_requests_have_equal_answers(self, local):
        first = await local.complete(ask("Bob met Carla in Rome."))
        await local.complete(ask("Something else.", rules="Other rules."))
        assert (await local.complete(ask("Bob met Carla in Rome."))).text == first.text

    async def test_static_text_at_the_beginning_is_read_once(self, local):
        rules = "Rules that no other test has. " * 20
        first = await local.complete(ask("Dora sings.", rules=rules))
        second = await local.complete(ask("Emil paints.", rules=rules))
        assert first.usage.cached < local.count_tokens(rules)
        assert local.count_tokens(rules) <= second.usage.cached < second.usage.prompt

    async def test_static_texts_of_several_steps_in_turn_are_each_read_once(self, local):
        rules = [f"Rules of step {n}, unlike the others. " * 10 for n in (5, 6, 7)]
        for text in rules:
            await local.complete(ask("Dora sings.", rules=text))
        for text in rules:
            assert (
                await local.complete(ask("Emil paints.", rules=text))
            ).usage.cached >= local.count_tokens(text)

    async def test_requests_at_the_same_time_are_all_answered(self, local):
        replies = await asyncio.gather(
            *(local.complete(ask(f"{name} is here.")) for name in ("Ann", "Ben"))
        )
        assert replies[0].call_id != replies[1].call_id
        for reply in replies:
            jsonschema.validate(json.loads(reply.text), MOOD)

    async def test_a_one_word_answer_has_the_probability_of_each_word(self, local):
        question = (Message("user", "Is snow white? Answer with one word: yes or no."),)
        reply = await local.complete(
            Request("default", question, "", max_tokens=1, words=("yes", "no"))
        )
        assert reply.usage.completion == 1
        assert len(reply.logprobs) == 2
        assert all(logprob < 0 for logprob in reply.logprobs)

    async def test_parameters_reach_the_model(self, local):
        """At a high temperature trials differ, for the seed is the trial."""
        hot = (("temperature", 5.0),)
        texts = {
            (await local.complete(ask("Tell.", params=hot, trial=trial))).text
            for trial in (0, 1, 2, 0)
        }
        assert len(texts) == 3

    async def test_draws_of_one_answer_differ_and_are_repeated_by_their_number(self, local):
        hot = (("temperature", 5.0),)
        texts = [
            (await local.complete(ask("Tell.", params=hot, sample=number))).text
            for number in (1, 2, 3, 2)
        ]
        assert len(set(texts)) == 3
        assert texts[1] == texts[3]

    async def test_lone_surrogates_are_accepted(self, local):
        reply = await local.complete(ask("A broken \ud83d emoji."))
        jsonschema.validate(json.loads(reply.text), MOOD)
        assert local.count_tokens("\ud83d") > 0


class TestErrors:
    async def test_a_truncated_answer_is_an_error_and_is_charged(self, local):
        with pytest.raises(RowError, match="answer cut at 5 tokens") as caught:
            await local.complete(ask("Tell a long tale.", TALE, max_tokens=5))
        assert caught.value.kind == "truncated"
        assert caught.value.spent.usage.completion == 5
        assert caught.value.attempts == 1

    async def test_a_prompt_longer_than_the_context_is_rejected(self, local):
        with pytest.raises(
            RowError, match=r"local:SmolLM2-135M rejected the request: .*context size \(8192"
        ) as caught:
            await local.complete(ask("word " * 9000))
        assert caught.value.kind == "rejected"

    async def test_a_schema_that_llama_cpp_does_not_understand_is_not_left_unenforced(self, local):
        schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
        with pytest.raises(RowError, match="cannot enforce this schema") as caught:
            await local.complete(ask("Say hello.", schema, rules="You are kind.", max_tokens=300))
        assert caught.value.kind == "rejected"

    async def test_a_missing_extra_is_named(self, monkeypatch, without_file):
        monkeypatch.setitem(sys.modules, "xllamacpp", None)
        with pytest.raises(ModelUnavailable, match=r'pip install "semgraph\[local\]"'):
            await without_file.complete(ask("x"))

    async def test_offline_without_the_file_names_the_command_to_copy_it(self, without_file):
        with pytest.raises(ModelUnavailable, match="semgraph model pull SmolLM2-135M --from PATH"):
            await without_file.complete(ask("x"))

    async def test_a_context_beyond_the_memory_is_refused_before_the_machine_swaps(self):
        model = replace(find("SmolLM2-135M"), context=10**9)
        with pytest.raises(
            ModelUnavailable, match=r"needs .* GB of memory with a context of 1,000,000,000 tokens"
        ):
            await Local(model, threads=1, context=10**9).complete(ask("x"))

    @pytest.mark.parametrize("body", [b"not a model at all", b"GGUF\x03\x00\x00\x00"])
    async def test_a_file_that_is_not_a_model_is_rejected(self, tmp_path, body):
        env = {"SEMGRAPH_HOME": str(tmp_path)}
        model = CatalogueModel(
            "junk",
            "model",
            (ModelFile("junk.gguf", len(body), "0" * 64),),
            "MIT",
            ("en",),
            "0",
            1,
            "junk",
        )
        (path,) = paths(model, env)
        path.parent.mkdir(parents=True)
        path.write_bytes(body)
        with pytest.raises(ModelUnavailable, match="is not a readable GGUF file"):
            await Local(model, env=env).complete(ask("x"))

    def test_an_unknown_name_is_rejected(self):
        with pytest.raises(PlanError, match="Did you mean"):
            Local("SmolLM-135M")


class TestTokens:
    @pytest.mark.parametrize(
        "text",
        [
            "Alice Chen works at TechCorp as a senior software engineer.",
            "1234567890 and 3.14159, 2025-01-15",
            "Grüße aus Köln! Привет, мир. 你好，世界 👋🏽",
            '{"name": "x",  "list": [1, 2,   3]}\n\n\tindented\r\n',
            "don't we'll I'm THEY'RE   several   blanks",
            "a",
        ],
    )
    async def test_tokens_are_counted_as_the_model_does(self, local, text):
        async def prompt(content: str) -> int:
            with pytest.raises(RowError) as caught:
                await local.complete(ask(f"x{content}x", TALE, rules="r", max_tokens=1))
            return caught.value.spent.usage.prompt

        assert await prompt(text) - await prompt("") == local.count_tokens(
            f"x{text}x"
        ) - local.count_tokens("xx")
        assert local.exact_tokens

    def test_tokens_are_estimated_without_the_file(self, without_file):
        assert not without_file.exact_tokens
        assert without_file.count_tokens("12345678") == 2


class TestLoading:
    async def test_a_watched_load_is_announced_before_and_ended_behind(self):
        notices = []
        model = Local("SmolLM2-135M", threads=1, context=512)
        with noticing(lambda kind, text: notices.append((kind, text))):
            await model.complete(ask("Ann is here."))
            await model.complete(ask("Ben is here."))
        await model.aclose()
        (announced, ended) = [each for each in notices if each[0] == "load"]
        assert announced == ("load", "loading the model SmolLM2-135M (98.4 MB)…")
        assert ended == ("load", "")

    async def test_a_model_loaded_on_a_busy_machine_gets_the_cores_that_become_free(
        self, monkeypatch
    ):
        load, notices = [99.0], []
        monkeypatch.setattr(os, "getloadavg", lambda: (load[0], 0.0, 0.0))
        model = Local("SmolLM2-135M", context=512)
        given = Local("SmolLM2-135M", threads=1, context=512)
        with noticing(lambda _kind, text: notices.append(text)):
            await model.complete(ask("Ann is here."))
            assert model.threads == 1
            load[0] = 0.0
            await model.complete(ask("Ben is here."))
            assert model.threads == default_threads(0.0)
            load[0] = 99.0
            await model.complete(ask("Cid is here."))
            assert model.threads == default_threads(0.0), "its own threads are part of the load"
            assert len([text for text in notices if text.startswith("loading")]) == 2
            load[0] = 0.0
            await given.complete(ask("Dora is here."))
        assert given.threads == 1, "a number that is given stays"
        await model.aclose()
        await given.aclose()


class TestStopping:
    async def test_a_cancelled_request_lets_the_next_one_in(self, local):
        """Were it not stopped, it would go on for thousands of tokens."""
        long = asyncio.create_task(local.complete(ask("Tell a long tale.", TALE, max_tokens=7000)))
        await asyncio.sleep(1)
        waiting = asyncio.create_task(local.complete(ask("Never asked.", TALE, max_tokens=7000)))
        await asyncio.sleep(0)
        for task in (long, waiting):
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with asyncio.timeout(60):
            await local.complete(ask("Next."))

    async def test_a_long_prompt_is_stopped_while_it_is_read(self, local):
        task = asyncio.create_task(local.complete(ask("many words " * 3000)))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with asyncio.timeout(60):
            await local.complete(ask("Next."))

    def test_it_serves_one_event_loop_after_the_other(self, local):
        for name in ("Ann", "Ben"):
            asyncio.run(local.complete(ask(f"{name} is here.")))

    async def test_a_closed_model_is_loaded_again_by_a_later_request(self):
        before = threading.enumerate()
        model = Local("SmolLM2-135M", threads=1, context=512)
        await model.complete(ask("Ann is here."))
        await model.aclose()
        await model.aclose()
        assert model._loaded is None
        await model.complete(ask("Ben is here."))
        await model.aclose()
        for thread in [each for each in threading.enumerate() if each not in before]:
            thread.join(10)
            assert not thread.is_alive(), "no thread waits for work that does not come"

    def test_a_program_can_end_while_the_model_runs(self):
        """Nothing is closed and nothing cancelled: the loop just stops. And llama.cpp says
        nothing.
        """
        program = (
            "import asyncio\n"
            "from semgraph.llm.local import Local\n"
            "from tests.llm.test_local_model import ask, TALE\n"
            "local = Local('SmolLM2-135M', threads=1)\n"
            "loop = asyncio.new_event_loop()\n"
            "print(loop.run_until_complete(local.complete(ask('Ann is here.'))).finish, flush=True)\n"
            "task = loop.create_task(local.complete(ask('A long tale.', TALE, max_tokens=7000)))\n"
            "loop.run_until_complete(asyncio.sleep(0.5))\n"
            "task._log_destroy_pending = False\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            check=False,
            text=True,
            timeout=HANGS,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "stop\n", "")


async def test_nobody_else_on_this_machine_may_use_it(local):
    await local.complete(ask("Ann is here."))
    request = urllib.request.Request(
        f"{local._loaded.listening_address}/tokenize", b'{"content": "x"}'
    )
    with pytest.raises(urllib.error.HTTPError) as caught:
        await asyncio.to_thread(urllib.request.urlopen, request)
    with caught.value as answer:
        assert answer.code == 401
