"""A real HTTP server that speaks the OpenAI protocol, in the process of the test. What it answers
is a function.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from aiohttp import web

from benchmarks.world.batches import Batches
from benchmarks.world.canaries import Watch
from tests.patience import HANGS


@dataclass
class Fault:
    """Something else than an answer.

    `body` is sent as it is if text or bytes, as JSON otherwise; `hang` answers never; `drop` closes the
    connection; `raw` is all that the connection carries, status line and headers included.
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    hang: bool = False
    drop: bool = False
    raw: bytes = b""


@dataclass
class Answer:
    """An answer with all that the protocol says about it. Tokens are counted as a quarter of the
    characters.

    `first_tokens` are those that it might have begun with, and the logarithms of their
    probabilities.
    """

    text: str | None
    finish: str = "stop"
    refusal: str | None = None
    usage: dict[str, Any] | None = None
    omit_usage: bool = False
    first_tokens: tuple[tuple[str, float], ...] = ()


def error(status: int, message: str, code: str | None = None, **headers: str) -> Fault:
    """A fault worded as OpenAI words them. Header names are written with underscores."""
    body = {"error": {"message": message, "type": "test", "param": None, "code": code}}
    return Fault(status, body, {name.replace("_", "-"): value for name, value in headers.items()})


AnswerFunction = Callable[[dict[str, Any]], Awaitable["str | Answer | Fault"]]


async def echo(body: dict[str, Any]) -> str:
    """The last message, as a JSON string."""
    return json.dumps(body["messages"][-1]["content"])


def vector_of(text: str, dimensions: int = 8) -> np.ndarray:
    """The vector that the server gives a text: unlike for unlike texts, always the same for one."""
    seed = int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(dimensions).astype(np.float32)


class ModelServer:
    """Serves `/v1/chat/completions`, `/v1/embeddings`, `/v1/files` and `/v1/batches` on a free port of this
    machine, the same again after a restart.

    Args:
        answer: Answers a chat: takes the request's body, gives the answer's text, an `Answer`, or a
            `Fault`.
        latency: Seconds before each answer.

    `requests` and `embedding_requests` hold the bodies received, `headers` those of the chats;
    `most_in_flight` is the largest number of chats at one time, `abandoned` how many the client
    gave up.
    """

    def __init__(self, answer: AnswerFunction = echo, latency: float = 0.0) -> None:
        self.answer, self.latency = answer, latency
        self.embedding_fault: Callable[[dict[str, Any]], Awaitable[Fault | None]] | None = None
        self.plain_floats = False
        self.vectors: dict[str, list[float]] = {}  # of some texts, in place of `vector_of`
        self.requests: list[dict[str, Any]] = []
        self.embedding_requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.times: list[float] = []
        self.in_flight = self.most_in_flight = self.abandoned = 0
        self.watch = Watch()
        self.batches = Batches(self._line)
        self.has_batches = True
        self.port = 0
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 << 20)
        self.add_to(app)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    def add_to(self, app: web.Application) -> None:
        """Serve from an application."""
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/embeddings", self._embeddings)
        if self.has_batches:
            self.batches.add_to(app)

    async def until(self, condition: Callable[[ModelServer], object]) -> None:
        """Wait until something has arrived here."""
        async with asyncio.timeout(HANGS):
            while not condition(self):  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()
        self.watch.end()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        self.watch.see(body)
        self.headers.append(dict(request.headers))
        self.times.append(asyncio.get_running_loop().time())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            answer = await self.answer(body)
            if isinstance(answer, Fault):
                return await self._fault(answer, request)
            return web.json_response(completion(body, answer))
        except asyncio.CancelledError:
            self.abandoned += 1
            raise
        finally:
            self.in_flight -= 1

    async def _line(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and the document of a chat in a batch."""
        self.watch.see(body)
        answer = await self.answer(body)
        return (
            (answer.status, answer.body)
            if isinstance(answer, Fault)
            else (200, completion(body, answer))
        )

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.embedding_requests.append(body)
        if self.latency:
            await asyncio.sleep(self.latency)
        fault = await self.embedding_fault(body) if self.embedding_fault else None
        if fault is not None:
            return await self._fault(fault, request)
        vectors = [
            np.array(self.vectors[text], np.float32)
            if text in self.vectors
            else vector_of(text, body.get("dimensions", 8))
            for text in body["input"]
        ]
        if body.get("encoding_format") == "base64" and not self.plain_floats:
            embeddings: list[Any] = [
                base64.b64encode(vector.tobytes()).decode() for vector in vectors
            ]
        else:
            embeddings = [vector.tolist() for vector in vectors]
        tokens = sum(-(-len(text) // 4) for text in body["input"])
        data = [
            {"object": "embedding", "index": i, "embedding": vector}
            for i, vector in enumerate(embeddings)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        # The protocol allows any order: `index` says which is which.
        return web.json_response(
            {"object": "list", "model": body["model"], "data": data[::-1], "usage": usage}
        )

    async def _fault(self, fault: Fault, request: web.Request) -> web.StreamResponse:
        if fault.hang:
            await asyncio.Event().wait()
        if fault.drop:
            assert request.transport is not None
            request.transport.abort()
        if fault.raw:
            assert request.transport is not None
            request.transport.write(fault.raw)
            request.transport.close()
        body = fault.body if isinstance(fault.body, str | bytes) else json.dumps(fault.body)
        return web.Response(
            status=fault.status,
            body=body.encode() if isinstance(body, str) else body,
            headers=fault.headers,
            content_type=fault.content_type,
            charset=None if isinstance(body, bytes) else "utf-8",
        )


def completion(body: dict[str, Any], answer: str | Answer) -> dict[str, Any]:
    """The document of a chat completion; a forced tool is called with the answer as its
    arguments.
    """
    if isinstance(answer, str):
        answer = Answer(answer)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": answer.text,
        "refusal": answer.refusal,
    }
    if "tools" in body and answer.text is not None:
        function = {"name": body["tools"][0]["function"]["name"], "arguments": answer.text}
        message |= {
            "content": None,
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        }
    prompt = -(-sum(len(message["content"]) for message in body["messages"]) // 4)
    usage = answer.usage or {
        "prompt_tokens": prompt,
        "completion_tokens": -(-len(answer.text or "") // 4),
    }
    document = {
        "id": "chatcmpl-test",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": body["model"] + "-2025-04-14",
        "choices": [
            {
                "index": 0,
                "message": message,
                "logprobs": _logprobs(answer),
                "finish_reason": answer.finish,
            }
        ],
    }
    return document if answer.omit_usage else {**document, "usage": usage}


def _logprobs(answer: Answer) -> dict[str, Any] | None:
    if not answer.first_tokens:
        return None
    top = [
        {"token": token, "logprob": logprob, "bytes": list(token.encode())}
        for token, logprob in answer.first_tokens
    ]
    return {"content": [{**top[0], "top_logprobs": top}], "refusal": None}
