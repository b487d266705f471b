"""Language models behind any OpenAI-compatible endpoint: OpenAI, vLLM, llama.cpp's server, OpenRouter, Azure, ..."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, Literal

from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm.base import Limits, Reply, Request, Usage
from semgraph.llm.faults import not_openai
from semgraph.llm.prices import Price, price_of
from semgraph.llm.tokens import TokenCounter, prompt_tokens
from semgraph.llm.wire import OPENAI_URL, Wire, effective_url
from semgraph.llm.words import asks_logprobs, first_tokens, word_logprobs

Structured = Literal["json_schema", "tool"]

# OpenAI's reasoning models count their thinking as part of the answer: they take `max_completion_tokens` instead of
# `max_tokens`, and no temperature. All other models, here and elsewhere, take both.
_REASONING = re.compile(r"(o\d|gpt-5(?!.*chat))(?![a-z0-9])")
_DEFAULT_LIMITS = Limits()


class OpenAI:
    """A model that is asked over `POST {base_url}/chat/completions`, with the answer's JSON Schema enforced there.

    Each request is one attempt: `semgraph.llm.stack` adds repetition, limits, budget and journal around it.

    Args:
        model: The model as the endpoint calls it.
        base_url: Such as `http://gpu:8000/v1`; None: the environment's `OPENAI_BASE_URL`, or OpenAI's own.
        api_key: The key; None: the environment's `OPENAI_API_KEY`. Endpoints other than OpenAI's may do without.
        limits: What the model takes.
        structured: How the schema is enforced: `json_schema` (`response_format`, strict) or `tool` (one function that
            must be called, for endpoints that ignore the former).
        timeout: Seconds that one attempt may take in all.
        price: What tokens cost, where the list of `semgraph.llm.prices` is not to be asked.
        extra: Further members of the request's body, such as `{"reasoning_effort": "low"}`.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        api_key: str | None = None,
        limits: Limits = _DEFAULT_LIMITS,
        structured: Structured = "json_schema",
        timeout: float = 120.0,
        price: Price | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.model, self.structured = model, structured
        url = effective_url(base_url)
        options = [f"structured={structured}"] * (structured != "json_schema")
        options += [f"{key}={_dump(value)}" for key, value in sorted((extra or {}).items())]
        self._name = endpoint_name("openai", model, url, options)
        self._limits = limits
        self._counter = TokenCounter(model)
        self._given_price = price
        self._extra = dict(extra or {})
        self._reasoning = _REASONING.match(model.lower().rpartition("/")[2]) is not None
        self._wire = Wire(self._name, base_url, api_key, timeout)
        self._format = lru_cache(maxsize=256)(self._answer_format)

    @property
    def name(self) -> str:
        """Such as `openai:gpt-4.1-mini`, with the address where it is not OpenAI's own."""
        return self._name

    @property
    def limits(self) -> Limits:
        """What the model takes."""
        return replace(self._limits, logprobs=False) if self._reasoning else self._limits

    @property
    def exact_tokens(self) -> bool:
        """Whether the model is one of OpenAI's, whose tokenizer is known."""
        return self._counter.exact

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, by OpenAI's tokenizer for its models, else one per four bytes."""
        return self._counter.count(text)

    def dollars(self, usage: Usage) -> float | None:
        """What tokens cost, or None if no price is known."""
        price = self._price
        return price.dollars(usage) if price else None

    async def complete(self, request: Request) -> Reply:
        """Send one request, once.

        Raises:
            RowError: `truncated` at max_tokens, `refused`, or `rejected` by the endpoint.
            ModelUnavailable: The endpoint will answer no request.
            Transient: This attempt failed; another may not.
        """
        document, seconds = await self._wire.post("/chat/completions", self._body(request))
        try:
            choice = document["choices"][0]
            message = choice["message"]
            text = self._text(message)
        except (KeyError, IndexError, TypeError, AttributeError):
            raise self._no_completion(document) from None
        usage = self._usage(document.get("usage"), request, text)
        finish, refusal = choice.get("finish_reason") or "stop", message.get("refusal")
        reply = Reply(
            text=text,
            usage=usage,
            seconds=seconds,
            call_id=uuid.uuid4().hex,
            model=document.get("model") or self.model,
            dollars=self.dollars(usage),
            finish="stop" if finish == "tool_calls" else "refusal" if refusal else finish,
            logprobs=word_logprobs(request.words, first_tokens(choice.get("logprobs"))),
        )
        if refusal or finish == "content_filter":
            why = f"refused by the model: {refusal}" if refusal else "refused by the provider's content filter"
            raise RowError("refused", why, attempts=1, spent=reply)
        if finish == "length" and not request.words:
            raise RowError("truncated", f"answer cut at {request.max_tokens:,} tokens", attempts=1, spent=reply)
        return reply

    @cached_property
    def _price(self) -> Price | None:
        url = self._wire.base_url
        return self._given_price or price_of(self.model, None if url == OPENAI_URL else url)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._wire.aclose()

    def _body(self, request: Request) -> bytes:
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{"role": message.role, "content": message.content} for message in request.messages],
            "max_completion_tokens" if self._reasoning else "max_tokens": request.max_tokens,
            **dict(request.params),
            **self._extra,
            **(asks_logprobs() if request.words else {}),
        }
        if self._reasoning:
            body.pop("temperature", None)
        # The schema is JSON text already: it is put in as it is, not parsed and written again for every request.
        tail = f",{self._format(request.schema)}}}" if request.schema else "}"
        try:
            return (_dump(body)[:-1] + tail).encode()
        except UnicodeEncodeError:  # half a surrogate pair can be sent as an escape only
            return (json.dumps(body)[:-1] + tail).encode("utf-8", "surrogatepass")

    def _answer_format(self, schema: str) -> str:
        if self.structured == "tool":
            function = f'{{"name":"answer","strict":true,"parameters":{schema}}}'
            choice = '"tool_choice":{"type":"function","function":{"name":"answer"}}'
            return f'"tools":[{{"type":"function","function":{function}}}],{choice}'
        return (
            '"response_format":{"type":"json_schema",'
            f'"json_schema":{{"name":"answer","strict":true,"schema":{schema}}}}}'
        )

    def _text(self, message: dict[str, Any]) -> str:
        if self.structured == "tool" and message.get("tool_calls"):
            return str(message["tool_calls"][0]["function"]["arguments"])
        return message.get("content") or ""

    def _usage(self, said: Any, request: Request, text: str) -> Usage:
        """The endpoint's own count; where it gives none, that of the tokenizer."""
        if not isinstance(said, dict) or "prompt_tokens" not in said:
            return Usage(prompt_tokens(self, request), 0, self.count_tokens(text))
        cached = (said.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
        return Usage(said["prompt_tokens"], cached, said.get("completion_tokens") or 0)

    def _no_completion(self, document: dict[str, Any]) -> ModelUnavailable:
        return not_openai(self._name, self._wire.base_url, _dump(document))


def endpoint_name(kind: str, model: str, url: str, options: list[str]) -> str:
    """A model as it is written in a configuration: `openai:MODEL@URL?option=value`, without a password in the URL."""
    address = "" if url == OPENAI_URL else "@" + re.sub(r"//[^/@]*@", "//", url)
    return f"{kind}:{model}{address}" + ("?" + "&".join(options) if options else "")


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
