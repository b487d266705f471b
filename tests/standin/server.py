"""The stand-in as a server that speaks the OpenAI protocol: chats with a JSON schema, embeddings, and counts of both."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from aiohttp import web

from semgraph.llm.tokens import TokenCounter
from tests.llm.server import Answer, completion, error
from tests.llm.server import Fault as HttpFault
from tests.standin import rules
from tests.standin.faults import Fault, Faults, spoilt
from tests.standin.reading import PLANS, NotUnderstood, Question, Reader
from tests.standin.vectors import vector_of

_MODEL = "gpt-4.1-mini"  # whose tokenizer counts


class StandIn:
    """Serves `/v1/chat/completions`, `/v1/embeddings`, `GET /stats` and `POST /reset`.

    Args:
        undated: Facts come without dates; their dates are told when they are asked for.
        latency: Seconds before each answer of a chat.
        embedding_latency: Seconds before vectors.
        faults: What goes wrong.
        seed: Of the faults that have a rate.
        plans: The folder whose `prompts/` it understands.
        port: 0: a free one.

    `requests` holds the chats' bodies.
    """

    def __init__(
        self,
        *,
        undated: bool = False,
        latency: float = 0.0,
        embedding_latency: float = 0.0,
        faults: tuple[Fault, ...] = (),
        seed: int = 1,
        plans: Path = PLANS,
        port: int = 0,
    ) -> None:
        self.undated, self.latency, self.embedding_latency = undated, latency, embedding_latency
        self.faults = Faults(faults, seed)
        self.port = port
        self._reader = Reader(plans)
        self._count = TokenCounter(_MODEL).count
        self._runner: web.AppRunner | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all that was counted."""
        self.requests: list[dict[str, Any]] = []
        self.calls: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()
        self.in_flight = self.most_in_flight = self.abandoned = 0
        self.embedding_calls = self.embedding_texts = 0
        self.faults.hit.clear()

    @property
    def base_url(self) -> str:
        """What a client is given."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def stats(self) -> dict[str, Any]:
        """Calls answered, attempts received, tokens on the wire, by question."""
        return {
            "calls": self.calls.total(),
            "attempts": len(self.requests),
            "by_question": dict(self.calls),
            "tokens_in": self.tokens["in"],
            "tokens_out": self.tokens["out"],
            "embedding_calls": self.embedding_calls,
            "embedding_texts": self.embedding_texts,
            "most_in_flight": self.most_in_flight,
            "abandoned": self.abandoned,
            "faults": dict(self.faults.hit),
        }

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=256 << 20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/embeddings", self._embeddings)
        app.router.add_get("/stats", self._stats)
        app.router.add_post("/reset", self._reset)
        self._runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.05, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=1024).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def answer(self, body: Mapping[str, Any]) -> tuple[str, str]:
        """The question that a chat asks, and the answer as JSON. Raises NotUnderstood."""
        question = self._reader.read(body)
        return question.skill, json.dumps(self._document(question), ensure_ascii=False)

    def _document(self, question: Question) -> dict[str, Any]:
        if question.form in {"row", "records"}:
            told = {n: self._row(question.skill, record) for n, record in question.lefts.items()}
            if question.form == "row":
                return told[1]
            return {"answers": [{"id": n, **values} for n, values in told.items()]}
        if question.skill not in rules.PAIRS:
            raise NotUnderstood(f'no rule for pairs with "{question.skill}"')
        decide = rules.PAIRS[question.skill]
        found = {(a, b): decide(question.lefts[a], question.rights[b]) for a, b in question.pairs}
        if question.form == "pair":
            ((_, values),) = found.items()
            names = [] if question.skill == "match" else question.skill.split()
            return {"match": values is not None, **{name: (values or {}).get(name) for name in names}}
        return {"matches": [{"left": a, "right": b, **v} for (a, b), v in found.items() if v is not None]}

    def _row(self, skill: str, record: Mapping[str, Any]) -> dict[str, Any]:
        if skill == "facts":
            return rules.facts(record, undated=self.undated)
        if skill not in rules.ROWS:
            raise NotUnderstood(f'no rule for "{skill}"')
        return rules.ROWS[skill](record)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        self.requests.append(body)
        fault = self.faults.of(len(self.requests))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            if self.latency:
                await asyncio.sleep(self.latency)
            if fault and fault.http:
                return await self._http_fault(fault.http, request)
            skill, text = self.answer(body)
            return self._completed(body, skill, spoilt(fault, text) if fault else Answer(text))
        except NotUnderstood as reason:
            return await self._http_fault(error(400, f"the stand-in does not understand: {reason}"), request)
        except asyncio.CancelledError:
            self.abandoned += 1
            raise
        finally:
            self.in_flight -= 1

    def _completed(self, body: Mapping[str, Any], skill: str, answer: Answer) -> web.Response:
        tokens_in = sum(self._count(message["content"]) + 4 for message in body["messages"]) + 3
        tokens_out = self._count(answer.text or answer.refusal or "")
        self.calls[skill] += 1
        self.tokens.update({"in": tokens_in, "out": tokens_out})
        answer.usage = {
            "prompt_tokens": tokens_in,
            "completion_tokens": tokens_out,
            "total_tokens": tokens_in + tokens_out,
        }
        return web.json_response(completion(dict(body), answer))

    async def _http_fault(self, fault: HttpFault, request: web.Request) -> web.StreamResponse:
        if fault.hang:
            await asyncio.Event().wait()
        if fault.drop:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response(fault.body, status=fault.status, headers=fault.headers)

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if self.embedding_latency:
            await asyncio.sleep(self.embedding_latency)
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        self.embedding_calls += 1
        self.embedding_texts += len(texts)
        vectors = [vector_of(text, body["dimensions"]) if "dimensions" in body else vector_of(text) for text in texts]
        packed = body.get("encoding_format") == "base64"
        data = [
            {
                "object": "embedding",
                "index": i,
                "embedding": base64.b64encode(v.tobytes()).decode() if packed else v.tolist(),
            }
            for i, v in enumerate(vectors)
        ]
        tokens = sum(map(self._count, texts))
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return web.json_response({"object": "list", "model": body["model"], "data": data, "usage": usage})

    async def _stats(self, _: web.Request) -> web.Response:
        return web.json_response(self.stats)

    async def _reset(self, _: web.Request) -> web.Response:
        self.reset()
        return web.json_response({})
