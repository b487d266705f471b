"""Embedders behind any OpenAI-compatible endpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from semgraph.errors import RowError
from semgraph.llm.base import Embeddings, Usage, Vectors
from semgraph.llm.openai import Wire, effective_url, endpoint_name
from semgraph.llm.prices import Price, Prices
from semgraph.llm.replies import counts, vectors
from semgraph.llm.stack import Doubtful, Transient
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
        self._base64 = True
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
        try:
            return await self._ask(texts)
        except RowError as error:
            if not self._learns(error):
                if self._requested and "dimension" in str(error):
                    error.args = (f"{error}. It is set by ?dimensions={self._requested}",)
                raise
        return await self._ask(texts)

    async def _ask(self, texts: Sequence[str]) -> Embeddings:
        def read(reply: Mapping[str, Any], seconds: float) -> Embeddings:
            prompt = counts(reply).prompt
            usage = Usage(sum(map(self.count_tokens, texts)) if prompt is None else prompt)
            found, dollars = self._vectors(reply, len(texts)), self.dollars(usage)
            return Embeddings(found, usage, calls=1, attempts=1, seconds=seconds, dollars=dollars)

        return await self._wire.ask("/embeddings", self._body(texts), read)

    def _learns(self, error: RowError) -> bool:
        """Whether the endpoint refused vectors in base64; it is then asked for numbers."""
        refused = self._base64 and "encoding_format" in str(error)
        self._base64 = self._base64 and not refused
        return refused

    async def aclose(self) -> None:
        """Close the connections."""
        await self._wire.aclose()

    def _body(self, texts: Sequence[str]) -> bytes:
        body: dict[str, Any] = {"model": self.model, "input": list(texts)}
        if self._base64:
            body["encoding_format"] = "base64"
        if self._requested is not None:
            body["dimensions"] = self._requested
        return json.dumps(body, separators=(",", ":")).encode()

    def _vectors(self, reply: Mapping[str, Any], count: int) -> Vectors:
        """The vectors in the order of the texts, shape (texts, dimensions). Raises UnreadableReply,
        Doubtful, and RowError where the texts' vectors have several lengths.
        """
        found = vectors(reply, count)
        lengths = sorted({len(vector) for vector in found})
        expected = self._dimensions or lengths[0]
        if lengths == [expected]:
            stacked = np.stack(found)
            if np.isfinite(stacked).all():  # an odd reply does not say how long vectors are
                self._dimensions = expected
            return stacked
        if self._wire.proven or len(lengths) > 1:
            other = next(length for length in lengths if length != expected)
            what = f"its vector has {other:,} numbers, that of others {expected:,}"
            raise RowError("vector", what, attempts=1)
        message = (
            f"{self._name} at {self._wire.base_url}: requested {count} vectors of {expected} dimensions, got "
            f"{count} of {lengths[0]}"
        )
        failure = Transient("server", message, endpoint=True, attempts=1)
        raise Doubtful(f"{message}. Check the model and ?dimensions=", failure)
