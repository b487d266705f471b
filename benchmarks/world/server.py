"""The server: the OpenAI protocol, answers from the text of the prompt, and counters of requests."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Self

from aiohttp import web

from benchmarks.world import answers
from benchmarks.world.answers import graphiti, lotus, memory, one_word, palimpzest
from benchmarks.world.batches import Batches, BatchFault
from benchmarks.world.caching import PrefixCache
from benchmarks.world.canaries import Watch
from benchmarks.world.counting import Counters
from benchmarks.world.faults import Fault, Faults, spoilt
from benchmarks.world.noise import Draw, Noise
from benchmarks.world.protocol import Said, Tokens, completion, embeddings, error
from benchmarks.world.requests import NotUnderstood, Reader, Record
from benchmarks.world.vectors import vector_of
from benchmarks.world.waiting import Rates
from semgraph.llm.tokens import TokenCounter

_MODEL = "gpt-4.1-mini"  # whose tokenizer counts


class StandIn:
    """Serves `/v1/chat/completions`, `/v1/embeddings`, `/v1/files`, `/v1/batches`, `GET /counters` and
    `POST /reset`.

    Args:
        undated: Facts have no dates; a separate question returns these.
        latency: Seconds before the answer of a chat.
        embedding_latency: Seconds before vectors.
        rates: Requests and tokens a minute; a chat beyond them gets 429.
        faults: The injected faults.
        batch_faults: Those of files and batches.
        batch_looks: Looks at a batch before it has ended.
        noise: The errors of the answers; by the first letters of a model's name, "" for all others.
        cache: The prompt tokens that count as cached.
        refuse: Chats whose last message has this text are refused, as not understood.
        max_output: The most tokens of an answer, also if a request allows more.
        seed: Of the faults that have a rate.
        port: 0: a free one.

    `requests` has the bodies of the chats, `counters` the counts. It fails at its end if a chat
    showed rows of two partitions.

    Raises:
        MixedPartitions: At its end.
    """

    def __init__(
        self,
        *,
        undated: bool = False,
        latency: float = 0.0,
        embedding_latency: float = 0.0,
        rates: Rates | None = None,
        faults: tuple[Fault, ...] = (),
        batch_faults: tuple[BatchFault, ...] = (),
        batch_looks: int = 2,
        noise: Noise | Mapping[str, Noise] | None = None,
        cache: PrefixCache | None = None,
        refuse: str = "",
        max_output: int = 1 << 20,
        seed: int = 1,
        port: int = 0,
    ) -> None:
        self.undated, self.latency = undated, latency
        self.embedding_latency = embedding_latency
        self.rates, self.cache = rates or Rates(), cache or PrefixCache()
        self.noise = noise if isinstance(noise, Mapping) else {"": noise or Noise()}
        self.faults = Faults(faults, seed)
        self.batches = Batches(self._line, batch_faults, batch_looks)
        self.port, self.max_output = port, max_output
        self.watch, self.refuse = Watch(), refuse
        self._reader = Reader()
        self._count = TokenCounter(_MODEL).count
        self._runner: web.AppRunner | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all that was counted and cached."""
        self.requests: list[dict[str, Any]] = []
        self.counters = Counters()
        self.faults.hit.clear()
        self.batches.forget()
        self.cache.forget()
        self.rates.forget()

    @property
    def base_url(self) -> str:
        """The base URL for clients."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def calls(self) -> Counter[str]:
        """Chats answered, by question."""
        return self.counters.by_question

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=256 << 20)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_post("/v1/embeddings", self._embeddings)
        self.batches.add_to(app)
        app.router.add_get("/counters", self._counters)
        app.router.add_post("/reset", self._reset)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, shutdown_timeout=0.05, access_log=None
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=1024).start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()
        self.watch.end()

    def answer(self, body: Mapping[str, Any]) -> tuple[str, str]:
        """The question of a chat, and its answer, mostly as JSON. Raises NotUnderstood."""
        if self.refuse and self.refuse in body["messages"][-1]["content"]:
            raise NotUnderstood("this row is refused")
        if form := graphiti.form_of(body):
            return form, json.dumps(
                graphiti.answer(body, self._noise(body), undated=self.undated), ensure_ascii=False
            )
        if worded := one_word.as_json(body):
            skill, text = self.answer(worded)
            return skill, one_word.chances(json.loads(text))[0][0]
        if (share := graphiti.relevance(body, self._noise(body))) is not None:
            return "relevance", str(share >= 0.5)
        texts = [message["content"] for message in body["messages"]]
        if lotus.asked(texts):
            return "lotus", lotus.answer(texts, body, self._noise(body)(lotus.size(texts)))
        if palimpzest.asked(texts):
            return "palimpzest", palimpzest.answer(texts, self._noise(body)(1))
        question = self._reader.read(body)
        draw = self._noise(body)(question.size)
        return question.skill, json.dumps(
            answers.document(question, self._row, draw), ensure_ascii=False
        )

    def _noise(self, body: Mapping[str, Any]) -> Callable[[int], Draw]:
        """The noise of a chat with this number of items."""
        prompt = json.dumps([body["messages"], body.get("seed", 0)], ensure_ascii=False)
        noise = self.noise[
            max((n for n in self.noise if str(body.get("model", "")).startswith(n)), key=len)
        ]
        tokens = self._prompt_tokens(body) if noise.length else 0
        return lambda size: noise.draw(prompt, size, tokens)

    def _prompt_tokens(self, body: Mapping[str, Any]) -> int:
        return sum(self._count(message["content"]) + 4 for message in body["messages"]) + 3

    def _row(self, skill: str, record: Record) -> dict[str, Any]:
        if skill in memory.DATED:
            return memory.DATED[skill](record, undated=self.undated)
        if skill not in memory.ROWS:
            raise NotUnderstood(f'no rule for "{skill}"')
        return memory.ROWS[skill](record)

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        body = _with_plain_texts(await request.json())
        self.requests.append(body)
        self.watch.see(body)
        # its own, also if `reset` comes during it
        counters, number = self.counters, len(self.requests)
        counters.arrived()
        try:
            return await self._answered(body, self.faults.of(number), request)
        except NotUnderstood as reason:
            return error(400, f"the stand-in does not understand: {reason}")
        except asyncio.CancelledError:
            counters.abandoned += 1
            raise
        finally:
            counters.in_flight -= 1

    async def _answered(
        self, body: Mapping[str, Any], fault: Fault | None, request: web.Request
    ) -> web.StreamResponse:
        counters = self.counters
        if wait := self.rates.wait(self._prompt_tokens(body)):
            counters.refused += 1
            return error(
                429, "Rate limit reached", "rate_limit_exceeded", retry_after=round(wait, 3)
            )
        if fault and fault.unanswered:
            await asyncio.sleep(self.latency)
            return await _unanswered(fault, request)
        skill, said, tokens = self._reply(body, fault)
        seconds = self.latency + (fault.late if fault and fault.kind == "stall" else 0.0)
        if seconds:
            await asyncio.sleep(seconds)
        self.cache.remember([message["content"] for message in body["messages"]])
        counters.seconds += seconds
        counters.answered(skill, tokens, said.text)
        return web.json_response(completion(body["model"] + "-2025-04-14", said, tokens))

    def _reply(self, body: Mapping[str, Any], fault: Fault | None) -> tuple[str, Said, Tokens]:
        """The question of a chat, the reply, with its fault, and the tokens of both."""
        skill, text = self.answer(body)
        if fault is None or fault.unanswered or fault.kind == "stall":
            said = Said(text, chances=self._chances(body))
        else:
            said = spoilt(fault, text)
        said, prompt = self._cut(said, body), self._prompt_tokens(body)
        texts = [message["content"] for message in body["messages"]]
        cached = min(prompt, self.cache.cached(texts, self._count))
        return skill, said, Tokens(prompt, cached, self._count(said.text or said.refusal or ""))

    def _cut(self, said: Said, body: Mapping[str, Any]) -> Said:
        """A reply within the limits of the request and of the model."""
        most = body.get("max_completion_tokens") or body.get("max_tokens") or self.max_output
        most = min(most, self.max_output)
        text = said.text or ""
        if len(text.encode()) <= most or (count := self._count(text)) <= most:
            return said
        text = text[: len(text) * most // count]
        while self._count(text) > most:
            text = text[: len(text) * 49 // 50]
        return replace(said, text=text, finish="length")

    async def _line(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """The status and the document of a chat in a batch."""
        self.requests.append(body)
        self.watch.see(body)
        try:
            skill, said, tokens = self._reply(body, self.faults.of(len(self.requests)))
        except NotUnderstood as reason:
            return 400, {"error": {"message": str(reason), "code": None}}
        self.cache.remember([message["content"] for message in body["messages"]])
        self.counters.attempts += 1
        self.counters.batched += 1
        self.counters.answered(skill, tokens)
        return 200, completion(body["model"] + "-2025-04-14", said, tokens)

    def _chances(self, body: Mapping[str, Any]) -> tuple[tuple[str, float], ...]:
        """The alternatives of the first token, if requested."""
        if worded := one_word.as_json(body):
            return one_word.chances(json.loads(self.answer(worded)[1]))
        share = graphiti.relevance(body, self._noise(body))
        chances = {"True": share, "False": 1 - share} if share is not None else {}
        return tuple(sorted(chances.items(), key=lambda one: one[0] != str((share or 0) >= 0.5)))

    async def _embeddings(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        if self.embedding_latency:
            await asyncio.sleep(self.embedding_latency)
        texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
        vectors = [
            vector_of(text, body["dimensions"]) if "dimensions" in body else vector_of(text)
            for text in texts
        ]
        tokens = sum(map(self._count, texts))
        self.counters.embedded(len(texts), tokens)
        return web.json_response(embeddings(body, vectors, tokens))

    async def _counters(self, _: web.Request) -> web.Response:
        return web.json_response({**self.counters.as_dict(), "faults": dict(self.faults.hit)})

    async def _reset(self, request: web.Request) -> web.Response:
        """Reset the counters; `?noise=` and `?refuse=` change these switches."""
        self.reset()
        self.refuse = request.query.get("refuse", self.refuse)
        if "noise" in request.query:
            self.noise = Noise.of_models(request.query["noise"])
        return web.json_response({})


def _with_plain_texts(body: dict[str, Any]) -> dict[str, Any]:
    """A chat with plain texts as messages, also if they came in parts."""
    told = [
        message if isinstance(message["content"], str)
        else message | {"content": "".join(part["text"] for part in message["content"] or ())}
        for message in body["messages"]
    ]  # fmt: skip
    return {**body, "messages": told}


async def _unanswered(fault: Fault, request: web.Request) -> web.StreamResponse:
    match fault.kind:
        case "429":
            return error(
                429, "Rate limit reached", "rate_limit_exceeded", retry_after=fault.retry_after
            )
        case "500":
            return error(500, "The server had an error")
        case "hang":
            await asyncio.Event().wait()
    assert request.transport is not None
    request.transport.abort()
    return web.Response()
