"""Embedders behind any OpenAI-compatible endpoint."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm.base import Embeddings, Usage, Vectors
from semgraph.llm.faults import not_openai
from semgraph.llm.openai import Wire, effective_url, endpoint_name
from semgraph.llm.prices import Price, Prices
from semgraph.llm.tokens import TokenCounter


class OpenAIEmbedder:
    """Embeds texts over `POST {base_url}/embeddings`.

    Each call is one attempt: `semgraph.llm.stack` adds repetition, limits, budget and journal
    around it, and cuts many texts into requests.

    Args:
        model: The model as the endpoint calls it.
        dimensions: Length of the vectors to request; None for the model's own.
        base_url: Such as `http://gpu:8000/v1`; None: the environment's `OPENAI_BASE_URL`, or
            OpenAI's own.
        api_key: The key; None: the environment's `OPENAI_API_KEY`. Endpoints other than OpenAI's
            may do without.
        timeout: Seconds that one attempt may take.
        price: The price of tokens, instead of the list of `semgraph.llm.prices`.
    """

    def __init__(
        self,
        model: str,
        dimensions: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        price: Price | None = None,
    ) -> None:
        self.model = model
        options = [f"dimensions={dimensions}"] if dimensions else []
        self._name = endpoint_name(model, effective_url(base_url), options)
        self._requested = self._dimensions = dimensions
        self._answered = False
        self._counter = TokenCounter(model)
        self._wire = Wire(self._name, base_url, api_key, timeout)
        self._prices = Prices(model, self._wire.base_url, price)

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
        """The cost of tokens, or None if no price is known."""
        return self._prices.dollars(usage)

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:  # noqa: ARG002  # for wrappers
        """Embed texts, in their order, in one request.

        Raises:
            RowError: The endpoint rejects one of the texts (too long, empty).
            ModelUnavailable: The reply has no embeddings, or the endpoint answers no request.
            Transient: This attempt failed; the next may succeed.
        """
        if not texts:
            return Embeddings(np.empty((0, await self.dimensions()), np.float32))
        document, seconds = await self._wire.post("/embeddings", self._body(texts))
        vectors = self._vectors(document, len(texts))
        counts = document.get("usage")
        prompt = counts.get("prompt_tokens") if isinstance(counts, dict) else None
        usage = Usage(sum(map(self.count_tokens, texts)) if prompt is None else prompt)
        dollars = self.dollars(usage)
        return Embeddings(vectors, usage, calls=1, attempts=1, seconds=seconds, dollars=dollars)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._wire.aclose()

    def _body(self, texts: Sequence[str]) -> bytes:
        body: dict[str, Any] = {
            "model": self.model,
            "input": list(texts),
            "encoding_format": "base64",
        }
        if self._requested is not None:
            body["dimensions"] = self._requested
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
        alone = count == 1 and self._answered
        if len(vectors) == count and lengths != [expected] and (alone or len(lengths) > 1):
            other = f"its vector has {lengths[0]:,} numbers, that of others {expected:,}"
            raise RowError("vector", other, attempts=1)
        if len(vectors) != count or lengths != [expected]:
            raise ModelUnavailable(
                f"{self._name} at {self._wire.base_url}: requested {count} vectors of {expected or '?'} dimensions, got "
                f"{len(vectors)} of {' or '.join(map(str, lengths)) or '?'}. Check the model and ?dimensions="
            )
        self._dimensions, self._answered = expected, True
        return np.stack(vectors)


def _vector(embedding: str | list[float]) -> Vectors:
    """One vector: base64 of little-endian float32, or a list of numbers from endpoints without
    base64.
    """
    if isinstance(embedding, str):
        return np.frombuffer(base64.b64decode(embedding), dtype="<f4").astype(
            np.float32, copy=False
        )
    return np.asarray(embedding, dtype=np.float32)
