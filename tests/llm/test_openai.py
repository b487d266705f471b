"""What goes over the wire to an OpenAI-compatible endpoint, and what its answers and failures
mean.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm.base import Limits, Usage
from semgraph.llm.faults import Transient
from semgraph.llm.openai import OpenAI
from semgraph.llm.stack import Retried, RetryPolicy
from tests.llm.conftest import SCHEMA
from tests.llm.server import Answer, Fault, ModelServer, completion, error
from tests.patience import HANGS


async def send(server: ModelServer, request, *, model: str = "gpt-4.1-mini", **options):
    endpoint = OpenAI(model, **{"base_url": server.base_url, **options})
    try:
        return await endpoint.complete(request)
    finally:
        await endpoint.aclose()


def always(answer):
    async def function(body: dict):
        return answer

    return function


async def test_the_request_is_strict_about_its_schema(server: ModelServer, ask):
    await send(server, ask("hi", max_tokens=77), api_key="secret")
    assert server.requests == [
        {
            "model": "gpt-4.1-mini",
            "messages": [
                {"role": "system", "content": "Answer with one JSON document."},
                {"role": "user", "content": "hi"},
            ],
            "max_tokens": 77,
            "temperature": 0,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "answer", "strict": True, "schema": json.loads(SCHEMA)},
            },
        }
    ]
    assert server.headers[0]["Authorization"] == "Bearer secret"
    assert server.headers[0]["Content-Type"] == "application/json"


async def test_a_required_tool_call_gives_the_same_answer(server: ModelServer, ask):
    server.answer = always('{"keep": true}')
    reply = await send(server, ask(), structured="tool")
    assert reply.text == '{"keep": true}'
    assert "response_format" not in server.requests[0]
    (tool,) = server.requests[0]["tools"]
    assert tool["function"] == {"name": "answer", "strict": True, "parameters": json.loads(SCHEMA)}
    assert server.requests[0]["tool_choice"] == {"type": "function", "function": {"name": "answer"}}


@pytest.mark.parametrize(
    "model", ["o3", "o4-mini", "gpt-5", "gpt-5-mini-2025-08-07", "openai/gpt-5.2"]
)
async def test_reasoning_models_count_thinking_and_take_no_temperature(
    server: ModelServer, ask, model: str
):
    await send(server, ask(max_tokens=99), model=model)
    assert server.requests[0]["max_completion_tokens"] == 99
    assert not {"max_tokens", "temperature"} & server.requests[0].keys()


@pytest.mark.parametrize(
    "model", ["gpt-4o", "gpt-4.1-nano", "gpt-5-chat-latest", "gpt-oss-20b", "Qwen3-32B", "o365-llm"]
)
async def test_all_other_models_take_max_tokens_and_temperature(
    server: ModelServer, ask, model: str
):
    await send(server, ask(max_tokens=99), model=model)
    assert server.requests[0]["max_tokens"] == 99
    assert server.requests[0]["temperature"] == 0
    assert "max_completion_tokens" not in server.requests[0]


async def test_further_members_of_the_body_are_sent_and_named(server: ModelServer, ask):
    extra = {"seed": 7, "chat_template_kwargs": {"enable_thinking": False}}
    await send(server, ask(params=(("temperature", 0.5), ("top_p", 0.9))), extra=extra)
    sent = server.requests[0]
    assert (sent["seed"], sent["temperature"], sent["top_p"]) == (7, 0.5, 0.9)
    assert sent["chat_template_kwargs"] == {"enable_thinking": False}
    name = OpenAI("m", "http://gpu:8000/v1/", structured="tool", extra=extra).name
    assert (
        name
        == 'openai:m@http://gpu:8000/v1?structured=tool&chat_template_kwargs={"enable_thinking":false}&seed=7'
    )


def test_the_name_has_the_address_and_no_secret(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert OpenAI("gpt-4.1-mini").name == "openai:gpt-4.1-mini"
    assert OpenAI("m", "https://me:secret@host/v1").name == "openai:m@https://host/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://proxy/v1")
    assert OpenAI("gpt-4.1-mini").name == "openai:gpt-4.1-mini@http://proxy/v1"


def test_limits_are_those_of_the_caller():
    assert (
        OpenAI(
            "m", limits=Limits(context_tokens=4096, max_output_tokens=512, in_flight=2)
        ).limits.in_flight
        == 2
    )


async def test_prose_is_returned_unchecked(server: ModelServer, ask):
    server.answer = always("I think you should keep it.")
    assert (await send(server, ask())).text == "I think you should keep it."


async def test_truncated_json_is_returned_unchecked(server: ModelServer, ask):
    server.answer = always('{"keep": tr')
    assert (await send(server, ask())).text == '{"keep": tr'


async def test_a_wrong_content_type_does_not_matter(server: ModelServer, ask):
    async def answer(body: dict) -> Fault:
        return Fault(body=json.dumps(completion(body, "{}")), content_type="text/plain")

    server.answer = answer
    assert (await send(server, ask())).text == "{}"


async def test_an_answer_without_text_is_empty(server: ModelServer, ask):
    server.answer = always(Answer(None))
    assert (await send(server, ask())).text == ""


async def test_tokens_are_counted_if_the_endpoint_does_not_report_them(server: ModelServer, ask):
    server.answer = always(Answer('{"keep": true}', omit_usage=True))
    reply = await send(server, ask(), model="Qwen3-32B")
    # 3 + (4 + 8) + (4 + 2) + the schema; and a quarter of the answer's 14 characters
    assert reply.usage == Usage(prompt=3 + 12 + 6 + -(-len(SCHEMA) // 4), completion=4)


async def test_a_truncated_answer_is_a_row_error_and_is_charged(server: ModelServer, ask):
    server.answer = always(Answer('{"ke', finish="length"))
    with pytest.raises(RowError, match=r"answer cut at 4,096 tokens") as caught:
        await send(server, ask(max_tokens=4096))
    assert caught.value.kind == "truncated"
    assert caught.value.spent.usage.completion == 1
    assert caught.value.spent.text == '{"ke'
    assert caught.value.spent.finish == "length"


async def test_a_refusal_is_a_row_error_with_the_models_words(server: ModelServer, ask):
    server.answer = always(Answer(None, refusal="I cannot help with that."))
    with pytest.raises(RowError, match=r"I cannot help with that\.") as caught:
        await send(server, ask())
    assert caught.value.kind == "refused"
    assert caught.value.spent.finish == "refusal"


async def test_a_content_filter_is_a_refusal(server: ModelServer, ask):
    server.answer = always(Answer("", finish="content_filter"))
    with pytest.raises(RowError, match="content filter") as caught:
        await send(server, ask())
    assert caught.value.kind == "refused"


async def test_a_filtered_prompt_is_a_refusal(server: ModelServer, ask):
    server.answer = always(error(400, "The prompt was filtered", "content_filter"))
    with pytest.raises(RowError, match="The prompt was filtered") as caught:
        await send(server, ask())
    assert caught.value.kind == "refused"


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_rejected_request_quotes_the_endpoint(server: ModelServer, ask, status: int):
    server.answer = always(error(status, "context length is 8192 tokens"))
    with pytest.raises(
        RowError, match=rf"rejected the request \({status}\): context length is 8192 tokens"
    ) as caught:
        await send(server, ask())
    assert caught.value.kind == "rejected"


@pytest.mark.parametrize(
    ("status", "remedy"),
    [
        (401, "key was not accepted: set OPENAI_API_KEY"),
        (402, "no credit left"),
        (403, "no access to this model"),
        (404, "Check the model's name and the address"),
    ],
)
async def test_permanent_endpoint_errors_stop_the_run(
    server: ModelServer, ask, status: int, remedy: str
):
    server.answer = always(error(status, "what they say"))
    with pytest.raises(ModelUnavailable) as caught:
        await send(server, ask())
    message = str(caught.value)
    assert message.startswith(f"openai:gpt-4.1-mini@{server.base_url} ({status}): what they say. ")
    assert remedy in message


async def test_an_exhausted_account_is_not_a_rate_limit(server: ModelServer, ask):
    server.answer = always(error(429, "You exceeded your current quota", "insufficient_quota"))
    with pytest.raises(ModelUnavailable, match="no credit left"):
        await send(server, ask())


@pytest.mark.parametrize(
    ("status", "kind", "endpoint"),
    [
        (408, "timeout", False),
        (429, "throttled", True),
        (500, "server", False),
        (502, "server", True),
        (503, "server", True),
    ],
)
async def test_transient_failures_are_left_to_retry(
    server: ModelServer, ask, status: int, kind: str, endpoint: bool
):
    server.answer = always(error(status, "busy"))
    with pytest.raises(Transient, match=rf"\({status}\): busy") as caught:
        await send(server, ask())
    assert (caught.value.kind, caught.value.endpoint, caught.value.retry_after) == (
        kind,
        endpoint,
        None,
    )


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "3"}, 3.0),
        ({"retry_after_ms": "250", "retry_after": "9"}, 0.25),
        ({"retry_after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry_after": "soon"}, None),
    ],
)
async def test_retry_after_is_read_from_the_headers(
    server: ModelServer, ask, headers: dict, seconds: float | None
):
    server.answer = always(error(429, "slow down", **headers))
    with pytest.raises(Transient) as caught:
        await send(server, ask())
    assert caught.value.retry_after == seconds


async def test_the_endpoint_does_not_repeat_attempts(server: ModelServer, ask):
    server.answer = always(error(500, "oops"))
    with pytest.raises(Transient):
        await send(server, ask())
    assert len(server.requests) == 1


async def test_an_endpoint_that_hangs_is_given_up(server: ModelServer, ask):
    server.answer = always(Fault(hang=True))
    with pytest.raises(Transient, match=r"no answer from http://127.* in 0\.2 s") as caught:
        await send(server, ask(), timeout=0.2)
    assert (caught.value.kind, caught.value.seconds) == ("timeout", 0.2)


async def test_a_broken_connection_is_transient(server: ModelServer, ask):
    server.answer = always(Fault(drop=True))
    with pytest.raises(Transient, match=r"connection to 127\.0\.0\.1:\d+ broke") as caught:
        await send(server, ask())
    assert caught.value.kind == "connection"


async def test_a_host_that_does_not_exist_stops_the_run(ask):
    endpoint = OpenAI("m", "http://no-such-host.invalid/v1")
    with pytest.raises(ModelUnavailable, match=r"unknown host no-such-host\.invalid"):
        await endpoint.complete(ask())
    await endpoint.aclose()


async def test_a_connection_that_cannot_be_made_secure_stops_the_run(server: ModelServer, ask):
    endpoint = OpenAI("m", server.base_url.replace("http:", "https:"))
    with pytest.raises(
        ModelUnavailable,
        match=r"no secure connection to 127\.0\.0\.1:\d+ \(.*\)\. Check the address",
    ):
        await endpoint.complete(ask())
    await endpoint.aclose()


@pytest.mark.parametrize("url", ["http://", "ftp://host/v1", "localhost:8000"])
async def test_an_invalid_address_stops_the_run(ask, url: str):
    endpoint = OpenAI("m", url)
    with pytest.raises(ModelUnavailable, match="invalid address"):
        await endpoint.complete(ask())
    await endpoint.aclose()


@pytest.mark.parametrize(
    "fault",
    [
        Fault(body="<html><body>Welcome to nginx!</body></html>", content_type="text/html"),
        Fault(body={"models": ["a"]}),
        Fault(body=["not", "an", "object"]),
    ],
)
async def test_an_answer_of_another_protocol_stops_the_run(server: ModelServer, ask, fault: Fault):
    server.answer = always(fault)
    with pytest.raises(
        ModelUnavailable,
        match=r"not that of an OpenAI-compatible endpoint: “.*”\. Check the address",
    ):
        await send(server, ask())


@pytest.mark.parametrize(
    "fault",
    [
        Fault(body='{"choices": [{"mess'),
        Fault(body={"choices": []}),
        Fault(body={"choices": [{"message": None}]}),
        Fault(body=""),
    ],
)
async def test_an_empty_or_cut_reply_is_transient(server: ModelServer, ask, fault: Fault):
    server.answer = always(fault)
    with pytest.raises(Transient, match="the reply (is empty|is no JSON|has no choice)"):
        await send(server, ask())


async def test_a_gateway_may_report_the_providers_error_as_a_success(server: ModelServer, ask):
    server.answer = always(Fault(body={"error": {"code": 429, "message": "provider is busy"}}))
    with pytest.raises(Transient, match="provider is busy") as caught:
        await send(server, ask())
    assert caught.value.kind == "throttled"


@pytest.fixture
async def elsewhere():
    """A second server."""
    async with ModelServer() as server:
        yield server


async def test_requests_name_the_organization_of_the_environment(
    server: ModelServer, ask, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)  # else the organization is not sent
    await send(server, ask("Grüße"), api_key="secret")
    (headers,) = server.headers
    assert headers["OpenAI-Organization"] == "org"
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/json"


async def test_an_environment_with_a_proxy_uses_it(
    server: ModelServer, elsewhere: ModelServer, ask, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.setenv("HTTP_PROXY", elsewhere.base_url.removesuffix("/v1"))
    await send(server, ask(), base_url="http://gpu.invalid/v1")
    assert (len(server.requests), len(elsewhere.requests)) == (0, 1)


@pytest.mark.parametrize(
    ("variable", "address", "said"),
    [
        ("HTTPS_PROXY", "https://gpu.invalid/v1", r"the proxy answers 4\d\d .*user and password"),
        ("HTTP_PROXY", "http://gpu.invalid/v1", r"no answer from the proxy 127\.0\.0\.1:9\. "),
    ],
)
async def test_a_proxy_that_refuses_or_does_not_answer_is_named(
    elsewhere: ModelServer,
    ask,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    address: str,
    said: str,
):
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    refuses = elsewhere.base_url.removesuffix("/v1")
    monkeypatch.setenv(variable, refuses if variable == "HTTPS_PROXY" else "http://127.0.0.1:9")
    endpoint = OpenAI("m", address)
    with pytest.raises(ModelUnavailable, match=said):
        await endpoint.complete(ask())
    await endpoint.aclose()


async def test_a_redirected_request_arrives(server: ModelServer, elsewhere: ModelServer, ask):
    moved = {"Location": f"{elsewhere.base_url}/chat/completions"}
    server.answer = always(Fault(status=307, headers=moved))
    elsewhere.answer = always("here")
    assert (await send(server, ask())).text == "here"
    assert elsewhere.requests == server.requests[:1]


async def test_a_compressed_answer_is_read(server: ModelServer, ask):
    async def answer(body: dict) -> Fault:
        packed = gzip.compress(json.dumps(completion(body, "{}")).encode())
        return Fault(body=packed, headers={"Content-Encoding": "gzip"})

    server.answer = answer
    assert (await send(server, ask())).text == "{}"


async def test_openai_itself_needs_a_key(monkeypatch: pytest.MonkeyPatch, ask):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ModelUnavailable, match=r"gpt-4\.1-mini needs a key: set OPENAI_API_KEY"):
        await OpenAI("gpt-4.1-mini").complete(ask())


async def test_other_endpoints_may_do_without_a_key(
    server: ModelServer, monkeypatch: pytest.MonkeyPatch, ask
):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    server.answer = always("{}")
    assert (await send(server, ask())).text == "{}"


class _SlowLoop(BaseHTTPRequestHandler):
    """Answers while the event loop of the client is blocked until its time is over."""

    loop: asyncio.AbstractEventLoop
    late: Callable[[], None]
    answers = 0

    def do_POST(self) -> None:
        blocked, answered = threading.Event(), threading.Event()

        def block() -> None:
            blocked.set()
            answered.wait()
            self.late()

        self.rfile.read(int(self.headers["content-length"]))
        self.loop.call_soon_threadsafe(block)
        blocked.wait()
        body = json.dumps(completion({"model": "m", "messages": []}, "{}")).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        type(self).answers += 1
        answered.set()

    def log_message(self, *_: object) -> None:
        pass


async def test_an_answer_that_arrived_while_the_loop_was_busy_is_taken_although_its_time_is_over(
    ask, monkeypatch: pytest.MonkeyPatch
):
    """It is paid: a second request would be paid once more, and the first one counted by nobody."""
    loop = _SlowLoop.loop = asyncio.get_running_loop()
    later = partial(monkeypatch.setattr, loop, "time", lambda now=loop.time: now() + 2 * HANGS)
    _SlowLoop.late = staticmethod(later)
    with ThreadingHTTPServer(("127.0.0.1", 0), _SlowLoop) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        model = OpenAI("m", f"http://127.0.0.1:{server.server_port}/v1", "key", timeout=HANGS)
        reply = await Retried(model, RetryPolicy(first=0.001)).complete(ask())
        await model.aclose()
        server.shutdown()
    assert (_SlowLoop.answers, reply.attempts, reply.text) == (1, 1, "{}")
