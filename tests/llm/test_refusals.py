"""What an endpoint refuses of a request is learned once; JSON inside other text is read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import semgraph as sg
from semgraph.errors import RowError
from semgraph.llm.embed import OpenAIEmbedder
from semgraph.llm.journal import Journal
from semgraph.llm.openai import OpenAI
from semgraph.llm.replies import repaired
from semgraph.llm.stack import Limiter, RetryPolicy, Stack
from tests.llm.server import Answer, Fault, ModelServer, error
from tests.llm.test_batch import batches, rows, texts
from tests.partial import maybe_partial

GOOD = '{"city": "Riga"}'


async def run(
    server: ModelServer, count: int = 6, model: str = "m", *, text: str = "", options: str = ""
) -> sg.Result:
    table = sg.table([{"id": i, "text": f"{text}{i}"} for i in range(count)])
    plan = table.sem_map("Which city? {text}", returns={"city": "string"})
    given = {"llm": f"openai:{model}@{server.base_url}?in_flight=1{options}", "store": "memory"}
    async with sg.Session(**given, journal=False, runs="") as session:
        return await maybe_partial(session.arun(plan))


def roles(body: dict[str, Any]) -> list[str]:
    return [message["role"] for message in body["messages"]]


def form(body: dict[str, Any]) -> str:
    return body.get("response_format", {}).get("type", "")


AZURE = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
    "'max_completion_tokens' instead."
)
DEFAULT = "Unsupported value: 'temperature' does not support 0 with this model."
LITERAL = {"detail": [{"loc": ["body", "response_format", "type"], "msg": "should be 'text'"}]}
Refuses = Callable[[dict[str, Any]], Fault | None]
LEARNED: dict[str, tuple[Refuses, str, int]] = {
    "max_tokens": (lambda b: error(400, AZURE) if "max_tokens" in b else None, "max_tokens", 1),
    "temperature": (lambda b: error(400, DEFAULT) if "temperature" in b else None,
                    "temperature", 1),
    "a schema, by 400": (lambda b: error(400, "This response_format type is unavailable now")
                         if form(b) == "json_schema" else None, "json_schema", 1),
    "a schema, by 422": (lambda b: Fault(422, LITERAL) if form(b) == "json_schema" else None,
                         "json_schema", 1),
    "a schema, by 501": (lambda b: error(501, "guided decoding is not built in")
                         if form(b) == "json_schema" else None, "json_schema", 1),
    "any format": (lambda b: error(400, "response_format: extra fields not permitted")
                   if form(b) else None, "json_object", 2),
    "a system message": (lambda b: error(400, "System role not supported")
                         if "system" in roles(b) else None, "system", 1),
    "a system message, by 500": (lambda b: error(500, "Jinja: System role not supported")
                                 if "system" in roles(b) else None, "system", 1),
    "roles that alternate": (lambda b: error(400, "Conversation roles must alternate user/assistant")
                             if "system" in roles(b) else None, "system", 1),
    "several": (lambda b: error(400, AZURE) if "max_tokens" in b
                else error(400, DEFAULT) if "temperature" in b else None, "temperature", 2),
}  # fmt: skip


@pytest.mark.parametrize("name", LEARNED)
async def test_a_refusal_is_learned_once(server: ModelServer, name: str) -> None:
    refuses, member, times = LEARNED[name]

    async def answer(body: dict[str, Any]) -> str | Fault:
        return refuses(body) or GOOD

    server.answer = answer
    result = await run(server)
    assert [row["city"] for row in result.rows()] == ["Riga"] * 6
    assert sum(refuses(body) is not None for body in server.requests) == times
    assert any(f"refused {member}: " in note for note in result.notes)
    said = json.dumps(server.requests[-1]["messages"], ensure_ascii=False)
    assert "Answer with one JSON object" in said, "the instructions are sent in any case"
    assert ("The JSON Schema of the answer" in said) == member.startswith("json")


@pytest.mark.parametrize(
    "message",
    [
        "max_tokens is too large: 5000. This model supports at most 4096 completion tokens",
        "maximum context length is 8192 tokens",
        "Invalid schema for response_format 'answer': 'minimum' is not permitted",
    ],
)
async def test_a_fault_of_one_request_is_no_refusal(server: ModelServer, message: str) -> None:
    async def answer(body: dict[str, Any]) -> str | Fault:
        return error(400, message) if body["messages"][-1]["content"].endswith("0") else GOOD

    server.answer = answer
    result = await run(server, 3)
    assert (len(result.rows()), len(server.requests)) == (2, 3)
    assert [form(body) for body in server.requests] == ["json_schema"] * 3


async def test_the_name_of_a_model_is_no_refusal(server: ModelServer) -> None:
    async def answer(body: dict[str, Any]) -> Fault:
        return error(400, "the model `temperature-seed` had a bad day")

    server.answer = answer
    assert len((await run(server, 2, "temperature-seed")).failed) == 2
    assert all("temperature" in body for body in server.requests)


async def test_batches_learn_what_is_refused(server: ModelServer, journal: Journal, ask) -> None:
    async def answer(body: dict[str, Any]) -> str | Fault:
        refused = "max_tokens" in body
        return error(400, AZURE) if refused else json.dumps(body["messages"][-1]["content"])

    server.answer = answer
    async with batches(server, journal) as model:
        replies = await rows(model, ask, 3)
    assert texts(replies) == ["row 0", "row 1", "row 2"]
    sent = [["max_tokens" in body for body in batch] for batch in server.batches.submitted]
    assert sent == [[True] * 3, [False] * 3]


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (error(503, "the structured output backend is unavailable, try again"), "Riga"),
        (error(429, "temperature is not supported at this rate"), "Riga"),
        (error(400, "too long: 'The temperature in Riga is unknown to me'"), "The temperature in Riga is unknown to me"),
        (error(400, "What is the system's role in the plan?"), "Riga"),
        (error(400, "the input has grammar errors"), "Riga"),
        (error(400, "max_tokens (2048) and the prompt are 100 extra tokens over the context"), "Riga"),
        (error(400, "blocked words in 'seed'"), "Riga"),
    ],
    ids=str,
)  # fmt: skip
async def test_an_error_about_something_else_is_not_learned(
    server: ModelServer, fault: Fault, text: str
) -> None:
    async def answer(body: dict[str, Any]) -> str | Fault:
        return fault if len(server.requests) == 1 else GOOD

    server.answer = answer
    await run(server, 3, text=text)
    sent = [(form(body), roles(body), "max_tokens" in body, "temperature" in body, "seed" in body)
            for body in server.requests]  # fmt: skip
    assert len(set(map(str, sent))) == 1


async def test_what_does_not_help_is_not_learned(server: ModelServer) -> None:
    async def answer(body: dict[str, Any]) -> str | Fault:
        return error(400, DEFAULT) if body["messages"][-1]["content"].endswith("0") else GOOD

    server.answer = answer
    result = await run(server, 3)
    assert (len(result.rows()), len(result.failed), result.notes) == (2, 1, ())
    assert ["temperature" in body for body in server.requests] == [True, False, True, True]


async def test_a_cut_answer_shows_that_a_refusal_was_one(server: ModelServer) -> None:
    async def answer(body: dict[str, Any]) -> Answer | Fault:
        return error(400, DEFAULT) if "temperature" in body else Answer("{", finish="length")

    server.answer = answer
    assert len((await run(server, 2, options="&max_output=8")).failed) == 2
    assert ["temperature" in body for body in server.requests].count(True) == 1


@pytest.mark.parametrize("both", [False, True])
async def test_a_schema_is_refused_for_itself_until_another_one_is(
    server: ModelServer, both: bool
) -> None:
    async def answer(body: dict[str, Any]) -> str | Fault:
        steps = ("one", "two", "three")
        step = next(name for name in steps if f"In {name}," in str(body["messages"]))
        if form(body) == "json_schema" and step in (("one", "two") if both else ("one",)):
            return error(400, "The JSON schema has features not supported by xgrammar")
        return json.dumps({step: "Riga"})

    server.answer = answer
    plan = sg.table([{"id": i} for i in range(3)])
    for name in ("one", "two", "three"):
        plan = plan.sem_map(f"In {name}, {{id}}", returns={name: "string"})
    given = {"llm": f"openai:m@{server.base_url}?in_flight=1", "store": "memory"}
    async with sg.Session(**given, journal=False, runs="") as session:
        result = await session.arun(plan)
    assert [row["three"] for row in result.rows()] == ["Riga"] * 3
    schema, other = "json_schema", "json_object"
    rest = [schema, other, other, other] + [other] * 3 if both else [schema] * 6
    assert [form(body) for body in server.requests] == [schema, other, other, other, *rest]


async def test_a_reasoning_model_by_name_is_sent_max_tokens_where_it_takes_that(
    server: ModelServer,
) -> None:
    async def answer(body: dict[str, Any]) -> str | Fault:
        if "max_completion_tokens" in body:
            return error(400, "Unrecognized request argument supplied: max_completion_tokens")
        return GOOD

    server.answer = answer
    result = await run(server, 3, "o1-mini")
    assert len(result.rows()) == 3
    assert ["max_tokens" in body for body in server.requests] == [False, True, True, True]


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("structured=tool", "tool_choice is not supported"),
        ("reasoning_effort=low", "Unrecognized request argument supplied: reasoning_effort"),
    ],
)
async def test_an_option_that_is_refused_is_named(
    server: ModelServer, option: str, message: str
) -> None:
    async def answer(body: dict[str, Any]) -> Fault:
        return error(400, message)

    server.answer = answer
    (failed,) = (await run(server, 1, options=f"&{option}")).failed
    assert failed.error.endswith(f"{message}. It is set by ?{option}".replace("=low", '="low"'))
    assert len(server.requests) == 1


async def test_dimensions_that_are_refused_are_named(server: ModelServer) -> None:
    async def refuse(body: dict[str, Any]) -> Fault | None:
        return error(400, "This model has no dimensions") if "dimensions" in body else None

    server.embedding_fault = refuse
    embedder = OpenAIEmbedder("m", 8, base_url=server.base_url)
    with pytest.raises(RowError, match=r"no dimensions. It is set by \?dimensions=8"):
        await embedder.embed(["Riga"])
    await embedder.aclose()


THOUGHT = "<think>\nRiga or {Tallinn}?\n</think>\n\n"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"```json\n{GOOD}\n```", "JSON inside a code fence"),
        (f"```\n{GOOD}\n```\n", "JSON inside a code fence"),
        (f"  ```JSON {GOOD}```", "JSON inside a code fence"),
        (f"{THOUGHT}{GOOD}", "JSON after a think block"),
        (f"Riga, I think.</think>{GOOD}", "JSON after a think block"),
        (f"\ufeff{GOOD}", "JSON after a byte order mark"),
        (f"{THOUGHT}```json\n{GOOD}\n```", "JSON after a think block inside a code fence"),
    ],
)
async def test_json_inside_other_text_is_read_and_counted(
    server: ModelServer, text: str, what: str
) -> None:
    async def answer(body: dict[str, Any]) -> str:
        return text

    server.answer = answer
    result = await run(server, 2)
    assert [row["city"] for row in result.rows()] == ["Riga", "Riga"]
    assert len(server.requests) == 2
    assert any(f"repaired an answer: 2 times, first: {what}" in note for note in result.notes)


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{GOOD}\n```\n```json\n{GOOD}\n```",
        f"Here it is:\n```json\n{GOOD}\n```",
        f"```json\n{GOOD}\n```\nAnything else?",
        f"```json\n{GOOD}",
        f"{THOUGHT}The answer is {GOOD}",
        f"<think>{GOOD}",
        f"{GOOD} {GOOD}",
    ],
)
async def test_an_ambiguous_answer_is_asked_for_again(server: ModelServer, text: str) -> None:
    async def answer(body: dict[str, Any]) -> str:
        return text if len(server.requests) == 1 else GOOD

    server.answer = answer
    assert [row["city"] for row in (await run(server, 1)).rows()] == ["Riga"]
    assert len(server.requests) == 2
    assert "Your last answer was not valid" in server.requests[1]["messages"][-1]["content"]


@pytest.mark.parametrize("inner", ['{"a": "</think>"}', '{"a": "```"}', '["```json"]'])
def test_json_is_never_changed(inner: str) -> None:
    assert repaired(inner) == (inner, "")
    assert repaired(f"```json\n{inner}\n```")[0] == inner


@pytest.mark.parametrize("finish", ["stop", "length"])
async def test_an_answer_that_is_all_reasoning_says_so(server: ModelServer, finish: str) -> None:
    async def answer(body: dict[str, Any]) -> Fault:
        message = {"role": "assistant", "content": "", "reasoning": "Riga is a city."}
        return Fault(body={"choices": [{"message": message, "finish_reason": finish}]})

    server.answer = answer
    (failed,) = (await run(server, 1)).failed
    assert failed.error.startswith("invalid:" if finish == "stop" else "truncated:")
    assert "the model wrote its reasoning only" in failed.error
    assert "?reasoning_effort=low" in failed.error


async def test_a_schema_that_groq_could_not_keep_is_asked_for_again(server: ModelServer) -> None:
    async def answer(body: dict[str, Any]) -> str | Fault:
        refused = error(400, "Failed to generate JSON", "json_validate_failed")
        return refused if len(server.requests) == 1 else GOOD

    server.answer = answer
    assert [row["city"] for row in (await run(server, 1)).rows()] == ["Riga"]
    assert form(server.requests[1]) == "json_schema"


@pytest.mark.parametrize("status", [400, 500])
async def test_a_refused_attempt_is_counted_when_the_next_one_fails(
    server: ModelServer, ask: Any, status: int
) -> None:
    async def answer(body: dict[str, Any]) -> Fault:
        refused = "temperature" in body
        return error(400, DEFAULT) if refused else error(status, "too long")

    server.answer = answer
    endpoint = OpenAI("m", server.base_url)
    model = Stack(RetryPolicy(3, first=0.001)).model(endpoint, Limiter())
    with pytest.raises(RowError, match="too long") as caught:
        await model.complete(ask())
    await model.aclose()
    assert caught.value.attempts == len(server.requests) == (2 if status == 400 else 4)
