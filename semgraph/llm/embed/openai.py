"""Embedders behind any OpenAI-compatible endpoint."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from semgraph.errors import ModelUnavailable
from semgraph.llm.base import Embeddings, Usage, Vectors
from semgraph.llm.faults import not_openai
from semgraph.llm.openai import OPENAI_URL, Wire, effective_url, endpoint_name
from semgraph.llm.prices import Price, price_of
from semgraph.llm.stack import Limiter, Retrier, RetryPolicy, Transient
from semgraph.llm.tokens import TokenCounter

MOST_TEXTS = 256
# OpenAI takes 300,000 tokens in one request; the rest is for estimates that are too low.
_MOST_TOKENS = 200_000


class OpenAIEmbedder:
    """Embeds texts over `POST {base_url}/embeddings`, in requests of at most 256 texts that run
    together.

    Args:
        model: The model as the endpoint calls it.
        dimensions: Length of the vectors, asked of the endpoint; None for the model's own.
        base_url: Such as `http://gpu:8000/v1`; None: the environment's `OPENAI_BASE_URL`, or
            OpenAI's own.
        api_key: The key; None: the environment's `OPENAI_API_KEY`. Endpoints other than OpenAI's
            may do without.
        limiter: The endpoint's; None for one of its own with 64 requests in flight.
        retry: When a failed attempt is repeated; None for the default policy.
        timeout: Seconds that one attempt may take in all.
        price: What tokens cost, where the list of `semgraph.llm.prices` is not to be asked.
    """

    def __init__(
        self,
        model: str,
        dimensions: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        limiter: Limiter | None = None,
        retry: RetryPolicy | None = None,
        timeout: float = 120.0,
        price: Price | None = None,
    ) -> None:
        self.model = model
        url = effective_url(base_url)
        self._name = endpoint_name(
            "openai", model, url, [f"dimensions={dimensions}"] if dimensions else []
        )
        self._wanted = self._dimensions = dimensions
        self._counter = TokenCounter(model)
        self._given_price = price
        self._limiter = limiter or Limiter()
        self._retrier = Retrier(self._name, retry or RetryPolicy())
        self._wire = Wire(self._name, base_url, api_key, timeout)

    @property
    def name(self) -> str:
        """Such as `openai:text-embedding-3-small?dimensions=1024`."""
        return self._name

    async def dimensions(self) -> int:
        """Length of the vectors: as configured, else as the endpoint's first answer has it."""
        if self._dimensions is None:
            await self.embed(["dimensions"])
        assert self._dimensions is not None
        return self._dimensions

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, by OpenAI's tokenizer for its models, else one per four bytes."""
        return self._counter.count(text)

    def dollars(self, usage: Usage) -> float | None:
        """What tokens cost, or None if no price is known."""
        price = self._price
        return price.dollars(usage) if price else None

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:  # noqa: ARG002  # for wrappers
        """Embed texts, in their order.

        Raises:
            RowError: The endpoint rejects one of the texts (too long, empty), or keeps failing.
            ModelUnavailable: It answers nothing, or no embeddings.
        """
        if not texts:
            return Embeddings(np.empty((0, await self.dimensions()), np.float32))
        batches = await asyncio.gather(
            *(self._retrier.run(self._attempt, part) for part in self._batches(texts))
        )
        usage = Usage(sum(usage.prompt for (_, usage, _), _ in batches))
        return Embeddings(
            vectors=np.concatenate([vectors for (vectors, _, _), _ in batches]),
            usage=usage,
            calls=len(batches),
            attempts=sum(1 + failed for _, failed in batches),
            seconds=sum(seconds for (_, _, seconds), _ in batches),
            dollars=self.dollars(usage),
        )

    @cached_property
    def _price(self) -> Price | None:
        url = self._wire.base_url
        return self._given_price or price_of(self.model, None if url == OPENAI_URL else url)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._wire.aclose()

    def _batches(self, texts: Sequence[str]) -> Iterator[Sequence[str]]:
        first, tokens = 0, 0
        for i, text in enumerate(texts):
            size = self.count_tokens(text)
            if i > first and (i - first == MOST_TEXTS or tokens + size > _MOST_TOKENS):
                yield texts[first:i]
                first, tokens = i, 0
            tokens += size
        yield texts[first:]

    async def _attempt(self, texts: Sequence[str]) -> tuple[Vectors, Usage, float]:
        tokens = sum(map(self.count_tokens, texts)) if self._limiter.counts_tokens else 0
        await self._limiter.enter(tokens)
        try:
            document, seconds = await self._wire.post("/embeddings", self._body(texts))
        except Transient as failure:
            if failure.retry_after is not None:
                self._limiter.pause(failure.retry_after)
            raise
        finally:
            self._limiter.leave()
        vectors = self._vectors(document, len(texts))
        said = document.get("usage")
        prompt = said.get("prompt_tokens") if isinstance(said, dict) else None
        return (
            vectors,
            Usage(sum(map(self.count_tokens, texts)) if prompt is None else prompt),
            seconds,
        )

    def _body(self, texts: Sequence[str]) -> bytes:
        body: dict[str, Any] = {
            "model": self.model,
            "input": list(texts),
            "encoding_format": "base64",
        }
        if self._wanted is not None:
            body["dimensions"] = self._wanted
        return json.dumps(body, separators=(",", ":")).encode()

    def _vectors(self, document: dict[str, Any], count: int) -> Vectors:
        """The vectors in the order of the texts, shape (texts, dimensions)."""
        try:
            data = sorted(document["data"], key=lambda item: item["index"])
            vectors = [_vector(item["embedding"]) for item in data]
        except (KeyError, TypeError, ValueError):
            raise not_openai(self._name, self._wire.base_url, json.dumps(document)) from None
        lengths = sorted({len(vector) for vector in vectors})
        expected = self._dimensions or (lengths[0] if lengths else 0)
        if len(vectors) != count or lengths != [expected]:
            raise ModelUnavailable(
                f"{self._name} at {self._wire.base_url}: asked for {count} vectors of {expected or '?'} dimensions, got "
                f"{len(vectors)} of {' or '.join(map(str, lengths)) or '?'}. Check the model and ?dimensions="
            )
        self._dimensions = expected
        return np.stack(vectors)


def _vector(embedding: str | list[float]) -> Vectors:
    """One vector: base64 of little-endian float32, or plain numbers from endpoints that know no
    base64.
    """
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding), dtype="<f4").astype(
            np.float32, copy=False
        )
    return np.asarray(embedding, dtype=np.float32)
