"""A server that misbehaves: one odd reply costs its row at most, and the run goes on.

Each case is what the server says to one row, `odd`, after good replies to the others.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import pytest

import semgraph as sg
from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm.stack import RetryPolicy
from tests.llm.server import Answer, Fault, ModelServer, completion, error

GOOD = '{"city": "Riga"}'
CHECK = "Check the address: it usually ends in /v1"
Documents = Callable[[dict[str, Any]], "str | Answer | Fault"]


class Case(NamedTuple):
    """What the server says, the city of the row or the kind of its error, and how a run ends whose
    first and only request is answered so: the same, unless `first` says otherwise.
    """

    name: str
    says: Documents
    then: str
    first: str = ""


def changed(**members: Any) -> Documents:
    """A good completion with other members."""
    return lambda body: Fault(body={**completion(body, GOOD), **members})


def message(**members: Any) -> Documents:
    """A good completion whose message has other members."""
    return lambda body: _with_choice(body, message={"role": "assistant", "content": GOOD} | members)


def choice(**members: Any) -> Documents:
    """A good completion whose choice has other members."""
    return lambda body: _with_choice(body, **members)


def _with_choice(body: dict[str, Any], **members: Any) -> Fault:
    document = completion(body, GOOD)
    return Fault(body={**document, "choices": [document["choices"][0] | members]})


def without(*names: str) -> Documents:
    """A good completion without members."""

    def says(body: dict[str, Any]) -> Fault:
        document = completion(body, GOOD)
        return Fault(body={k: v for k, v in document.items() if k not in names})

    return says


def body(value: Any, **more: Any) -> Documents:
    return lambda _: Fault(body=value, **more)


def raw(text: bytes) -> Documents:
    return lambda _: Fault(raw=text)


def status(number: int, text: str = "what it says", code: Any = None, **headers: str) -> Documents:
    return lambda _: error(number, text, code, **headers)


def usage(value: Any) -> Documents:
    return changed(usage=value)


def packed(body: dict[str, Any]) -> bytes:
    return gzip.compress(json.dumps(completion(body, GOOD)).encode())


GZIP = {"Content-Encoding": "gzip"}
PAGE = "<!doctype html><html><body>Sign in</body></html>"
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
TEXT = {"type": "text", "text": GOOD}

CASES = [
    # bodies
    Case("an empty body", body(""), "server"),
    Case("blanks", body(" \n "), "server"),
    Case("a cut body", lambda b: Fault(body=json.dumps(completion(b, GOOD))[:80]), "server"),
    Case("a page", body(PAGE, content_type="text/html"), "server", CHECK),
    Case("a line of text", body("upstream connect error"), "server", CHECK),
    Case("an event stream", body('data: {"choices": []}\n\n'), "server", CHECK),
    Case("null", body(b"null"), "server"),
    Case("a list", body([1, 2]), "server", CHECK),
    Case("a number", body(b"7"), "server", CHECK),
    Case("an object of another protocol", body({"models": ["a"]}), "server", CHECK),
    Case("an empty object", body({}), "server", CHECK),
    Case("very deep JSON", body("[" * 200_000), "server"),
    Case("no UTF-8", lambda b: Fault(body=b'{"choices": "\xff\xfe"}'), "server"),
    Case("UTF-16", lambda b: Fault(body=json.dumps(completion(b, GOOD)).encode("utf-16")), "Riga"),
    Case("a byte order mark", lambda b: Fault(
        body=json.dumps(completion(b, GOOD)).encode("utf-8-sig")), "Riga"),
    Case("a number of 5,000 digits", body(b'{"choices": ' + b"9" * 5000 + b"}"), "server"),
    # encodings and connections
    Case("gzip", lambda b: Fault(body=packed(b), headers=GZIP), "Riga"),
    Case("cut gzip", lambda b: Fault(body=packed(b)[:40], headers=GZIP), "server"),
    Case("no gzip", body("{}", headers=GZIP), "connection"),
    Case("gzip unannounced", lambda b: Fault(body=packed(b)), "server", CHECK),
    Case("an unknown encoding", lambda b: Fault(
        body=json.dumps(completion(b, GOOD)), headers={"Content-Encoding": "x-own"}), "Riga"),
    Case("a cut chunk", raw(OK + b'Transfer-Encoding: chunked\r\n\r\n40\r\n{"cho'), "connection"),
    Case("a chunk without a size", raw(OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}"),
         "connection"),
    Case("fewer bytes than announced", raw(OK + b"Content-Length: 400\r\n\r\n{}"), "connection"),
    Case("no status line", raw(b"SSH-2.0-OpenSSH_9.6\r\n"), "connection"),
    Case("a header without a colon", raw(OK + b"Odd\r\n\r\n{}"), "connection"),
    Case("a closed connection", lambda _: Fault(drop=True), "connection"),
    # choices
    Case("choices null", changed(choices=None), "server"),
    Case("choices []", changed(choices=[]), "server"),
    Case("choices {}", changed(choices={}), "server"),
    Case("choices a text", changed(choices="x"), "server"),
    Case("no choices", without("choices"), "server"),
    Case("a choice null", changed(choices=[None]), "server"),
    Case("a choice that is a list", changed(choices=[[]]), "server"),
    Case("a choice without a message", choice(message=None), "server"),
    Case("a message that is a text", choice(message=GOOD), "server"),
    Case("a choice with an error", choice(error={"code": 502, "message": "gone"}), "server",
         "no other request was answered"),
    # messages
    Case("content null", message(content=None), "invalid"),
    Case("content empty", message(content=""), "invalid"),
    Case("content a number", message(content=5), "server"),
    Case("content an unknown object", message(content={"city": "Riga"}), "server"),
    Case("content of no parts", message(content=[]), "invalid"),
    Case("content of numbers", message(content=[1]), "server"),
    Case("content of parts", message(content=[TEXT]), "Riga"),
    Case("content of several parts", message(content=[
        {"type": "text", "text": '{"city":'}, {"type": "text", "text": ' "Riga"}'}]), "Riga"),
    Case("content of texts", message(content=['{"city": ', '"Riga"}']), "Riga"),
    Case("one part", message(content=TEXT), "Riga"),
    Case("a thought before the text", message(content=[
        {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, TEXT]), "Riga"),
    Case("a reasoning part", message(content=[{"type": "reasoning", "text": "Hm."}, TEXT]), "Riga"),
    Case("a part null", message(content=[{"type": "text", "text": None}, TEXT]), "Riga"),
    *(Case(f"{part} beside a text", message(content=[part, TEXT]), "Riga") for part in (
        None, 3, {"foo": 1}, {"type": "thinking", "thinking": 5}, {"type": "citation", "of": [1]},
    )),
    Case("an untyped part", message(content=[{"foo": 1}]), "server"),
    Case("a deep thought", message(content=json.loads(
        '[{"type":"thinking","thinking":' * 300 + '"x"' + "}]" * 300)), "invalid"),
    Case("reasoning beside the text", message(reasoning_content="Hm.", reasoning={"a": 1}), "Riga"),
    Case("reasoning only", message(content=None, reasoning_content="Riga, I think."), "invalid"),
    Case("a thought only", message(content=[{"type": "thinking", "thinking": "Hm."}]), "invalid"),
    Case("a refusal of another type", message(refusal={"why": 1}), "Riga"),
    Case("odd tool calls", message(tool_calls=[None, 4]), "Riga"),
    Case("a lone surrogate", message(content='{"city": "Riga"}\ud800'), "invalid"),
    # other members
    Case("finish_reason null", choice(finish_reason=None), "Riga"),
    Case("finish_reason a number", choice(finish_reason=3), "Riga"),
    Case("finish_reason a list", choice(finish_reason=["stop"]), "Riga"),
    Case("finish_reason of another API", choice(finish_reason="max_tokens"), "truncated"),
    Case("finish_reason of Together", choice(finish_reason="eos"), "Riga"),
    Case("finish_reason of DeepSeek", choice(finish_reason="insufficient_system_resource"), "server"),
    Case("finish_reason error", choice(finish_reason="error"), "server"),
    Case("finish_reason in capitals", choice(finish_reason="MAX_TOKENS"), "truncated"),
    Case("model a number", changed(model=7), "Riga"),
    Case("model null", changed(model=None), "Riga"),
    Case("logprobs a text", choice(logprobs="none"), "Riga"),
    Case("logprobs of null", choice(logprobs={"content": [None]}), "Riga"),
    Case("id missing", without("id", "created", "object"), "Riga"),
    Case("no usage", without("usage"), "Riga"),
    *(Case(f"usage {value}", usage(value), "Riga") for value in (
        None, [], "12", {}, {"prompt_tokens": None, "completion_tokens": None},
        {"prompt_tokens": "12"}, {"prompt_tokens": -5, "completion_tokens": -1},
        {"prompt_tokens": 1.5, "completion_tokens": True}, {"prompt_tokens": 10**400},
        {"prompt_tokens": 9, "prompt_tokens_details": [1]},
        {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 90}},
    )),
    # errors in a reply with status 200
    Case("an error that is a text", body({"error": "model is loading"}), "server"),
    Case("an error that is a list", body({"error": [1]}), "server"),
    Case("an error with an odd code", body({"error": {"code": True, "message": None}}), "server"),
    Case("an error with its status as text", body({"error": {"code": "400", "message": "no"}}),
         "rejected"),
    Case("an error with a code of 5,000 digits",
         body({"error": {"code": "9" * 5000, "message": "no"}}), "server"),
    Case("an error beside null choices", changed(error={"message": "x"}, choices=None), "server"),
    # statuses and headers
    Case("204", raw(b"HTTP/1.1 204 No Content\r\n\r\n"), "server"),
    Case("206", lambda b: Fault(206, completion(b, GOOD)), "Riga"),
    Case("304", raw(b"HTTP/1.1 304 Not Modified\r\n\r\n"), "rejected", CHECK),
    Case("302 to nowhere", body("", status=302), "rejected", CHECK),
    Case("400", status(400), "rejected"),
    Case("400 without JSON", body("Bad Request", status=400), "rejected"),
    Case("400 with a list", body([{"msg": "odd"}], status=400), "rejected"),
    Case("400 with null members", body({"error": {"message": None, "code": None}}, status=400),
         "rejected"),
    Case("400 with odd codes", body({"error": {"code": {"a": 1}, "type": 3}}, status=400),
         "rejected"),
    Case("400 json_validate_failed", status(400, "Failed to generate JSON", "json_validate_failed"),
         "invalid"),
    Case("403", status(403), "rejected", "no access to this model"),
    Case("404", status(404), "rejected", "Check the model's name and the address"),
    Case("405", status(405), "rejected", CHECK),
    Case("408", status(408), "timeout"),
    Case("413", status(413), "rejected"),
    Case("418", status(418), "rejected"),
    Case("425", status(425), "server"),
    Case("429", status(429), "throttled", "no other request was answered"),
    Case("429 with odd headers", status(429, retry_after="soon", retry_after_ms="-1e400"),
         "throttled", "no other request was answered"),
    Case("429 until the year 99999", status(429, retry_after="Wed, 21 Oct 99999 07:28:00 GMT"),
         "throttled", "no other request was answered"),
    Case("500", status(500), "server"),
    Case("500 with a page", body(PAGE, status=500, content_type="text/html"), "server"),
    Case("501", status(501), "rejected"),
    Case("503 without a body", body("", status=503), "server", "no other request was answered"),
    Case("529", status(529), "server", "no other request was answered"),
    Case("599", status(599), "server"),
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other at once."""
    monkeypatch.setattr(RetryPolicy, "wait", lambda self, attempt: 0.0)


async def run(server: ModelServer, rows: list[str], **options: Any) -> sg.Result:
    """Ask for a city in each of some rows."""
    table = sg.table([{"id": i, "text": text} for i, text in enumerate(rows)])
    plan = table.sem_map("Which city? {text}", returns={"city": "string"}, on_error="raise")
    given = {"llm": f"openai:m@{server.base_url}", "store": "memory", "journal": False, "runs": ""}
    async with sg.Session(**given | options) as session:
        try:
            return await session.arun(plan)
        except RowError as every:  # every row failed
            return cast("sg.Result", every.result)


def outcome(result: sg.Result) -> str:
    """The kind of the error of the odd row, or its city."""
    return result.failed[0].error.partition(":")[0] if result.failed else result.rows()[-1]["city"]


def is_odd(body: dict[str, Any]) -> bool:
    return "odd" in body["messages"][-1]["content"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_an_odd_reply_costs_its_row_at_most(server: ModelServer, case: Case) -> None:
    good = asyncio.Event()

    async def answer(body: dict[str, Any]) -> str | Answer | Fault:
        if is_odd(body):
            await good.wait()
            return case.says(body)
        if len(server.requests) >= 4:
            good.set()
        return GOOD

    server.answer = answer
    result = await run(server, ["Riga", "odd", "in Riga", "Riga!"])
    cities = [row["city"] for row in result.rows()]
    assert (cities[:3], outcome(result)) == (["Riga"] * 3, case.then)
    assert len(cities) + len(result.failed) == 4


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_a_first_reply_ends_the_run_only_if_it_speaks_of_the_endpoint(
    server: ModelServer, case: Case
) -> None:
    async def answer(body: dict[str, Any]) -> str | Answer | Fault:
        return case.says(body)

    server.answer = answer
    if case.first:
        with pytest.raises(ModelUnavailable, match=case.first.replace("?", "[?]")):
            await run(server, ["odd"])
        assert len(server.requests) > 1, "it was tried a second time"
    else:
        result = await run(server, ["odd"])
        assert outcome(result) == case.then


@pytest.mark.parametrize(
    "case", [case for case in CASES if case.then != "Riga"][::3], ids=lambda case: case.name
)
async def test_an_odd_reply_that_passes_is_not_seen(server: ModelServer, case: Case) -> None:
    odd: list[object] = []

    async def answer(body: dict[str, Any]) -> str | Answer | Fault:
        odd.append(is_odd(body))
        return case.says(body) if odd.count(True) == 1 and odd[-1] else GOOD

    server.answer = answer
    if case.then not in ("rejected", "truncated") or case.first:
        result = await run(server, ["odd", "Riga"])
        assert [row["city"] for row in result.rows()] == ["Riga", "Riga"]
