"""Embedders behind any OpenAI-compatible endpoint."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from semgraph.errors import RowError
from semgraph.llm.base import OPENAI, Embeddings, Service, Usage, Vectors, comparable
from semgraph.llm.faults import FaultKind, Transient
from semgraph.llm.openai import Wire, endpoint_name
from semgraph.llm.prices import Price, Prices
from semgraph.llm.replies import counts, vectors
from semgraph.llm.tokens import TokenCounter

_LENGTH = FaultKind(
    "vectors of another length than requested",
    "endpoint",
    "server",
    remedy="Check the model and ?dimensions=",
    attempts=1,
)


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
        service: The service of the model, unless it is OpenAI or a server at `base_url`.
    """

    def __init__(
        self,
        model: str,
        dimensions: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 120.0,
        price: Price | None = None,
        service: Service = OPENAI,
    ) -> None:
        self.model = model
        options = [f"dimensions={dimensions}"] if dimensions else []
        self._name = endpoint_name(model, base_url, options, service)
        self._requested = dimensions
        self._lengths = Counter(() if dimensions is None else {dimensions: 1 << 40})
        self._base64 = True
        self._counter = TokenCounter(model)
        self._wire = Wire(self._name, base_url, api_key, timeout, service)
        self._prices = Prices(model, self._wire.base_url, price, service)

    @property
    def name(self) -> str:
        """Such as `openai:text-embedding-3-small?dimensions=1024`."""
        return self._name

    async def dimensions(self) -> int:
        """Length of the vectors: as configured, else of most vectors so far."""
        if not self._lengths:
            for error in (await self.embed(["dimensions"])).failed.values():
                raise error
        return max(self._lengths, key=self._lengths.__getitem__)

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
        base64 = self._base64
        try:
            return await self._ask(texts)
        except RowError as error:
            if not base64 or "encoding_format" not in str(error):
                if self._requested and "dimension" in str(error):
                    error.args = (f"{error}. It is set by ?dimensions={self._requested}",)
                raise
        self._base64 = False
        try:
            done = await self._ask(texts)
        except (RowError, Transient) as error:
            error.attempts += 1
            raise
        return replace(done, attempts=done.attempts + 1)

    async def _ask(self, texts: Sequence[str]) -> Embeddings:
        def read(reply: Mapping[str, Any], seconds: float) -> Embeddings:
            prompt = counts(reply).prompt
            usage = Usage(sum(map(self.count_tokens, texts)) if prompt is None else prompt)
            found, failed = comparable(self._vectors(reply, len(texts)), self._lengths, {})
            dollars = self.dollars(usage)
            return Embeddings(found, usage, 1, 1, seconds=seconds, dollars=dollars, failed=failed)

        return await self._wire.ask("/embeddings", self._body(texts), read)

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

    def _vectors(self, reply: Mapping[str, Any], count: int) -> list[Vectors]:
        """The vectors in the order of the texts. Raises UnreadableReply, and Transient if none of a
        first reply has the length that is requested.
        """
        found, size = vectors(reply, count), self._requested
        if size is None or self._wire.proven or any(len(vector) == size for vector in found):
            return found
        what = f"requested {count} vectors of {size} dimensions, got {count} of {len(found[0])}"
        raise Transient(_LENGTH, f"{self._name} at {self._wire.base_url}: {what}")
