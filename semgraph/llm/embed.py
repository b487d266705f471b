"""Embedders: an OpenAI-compatible endpoint, a small local ONNX model, and the models of the package
sentence-transformers.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from semgraph.errors import ModelUnavailable, RowError
from semgraph.extras import install
from semgraph.llm import catalogue
from semgraph.llm.base import Embeddings, Usage, Vectors, comparable
from semgraph.llm.faults import FaultKind, Transient
from semgraph.llm.local import (
    Cancelled,
    InProcess,
    default_threads,
    encodable,
    fetched,
    missing_extra,
)
from semgraph.llm.openai import Endpoint
from semgraph.llm.replies import counts, vectors
from semgraph.llm.services import OPENAI, Service
from semgraph.llm.tokens import Price, TokenCounter

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_LENGTH = FaultKind(
    "vectors of another length than requested",
    "endpoint",
    "server",
    remedy="Check the model and ?dimensions=",
    attempts=1,
)


class OpenAIEmbedder(Endpoint):
    """Embeds texts over `POST {base_url}/embeddings`, with vectors of the length `dimensions`
    (None: the model's default).

    Each call is one attempt. `semgraph.llm.stack` adds retries, limits, budget and journal, and
    splits many texts into requests.
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
        options = [f"dimensions={dimensions}"] if dimensions else []
        super().__init__(model, base_url, api_key, timeout, price, service, options)
        self._requested, self._length = dimensions, service.names.get("dimensions", "dimensions")
        self.most_at_once = service.embeds_at_once
        self._lengths = Counter(() if dimensions is None else {dimensions: 1 << 40})
        self._base64 = True

    async def dimensions(self) -> int:
        """Length of the vectors: the configured one, else that of most vectors so far."""
        if not self._lengths:
            for error in (await self.embed(["dimensions"])).failed.values():
                raise error
        return max(self._lengths, key=self._lengths.__getitem__)

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:  # noqa: ARG002  # for wrappers
        """Embed texts, in order, in one request. Raises RowError if the endpoint rejects one of
        them, Transient if the next attempt may succeed, and ModelUnavailable.
        """
        if not texts:
            return Embeddings(np.empty((0, await self.dimensions()), np.float32))
        base64 = self._base64
        try:
            return await self._ask(texts)
        except (RowError, Transient) as error:
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

        return await self.wire.ask("/embeddings", self._body(texts), read)

    def _body(self, texts: Sequence[str]) -> bytes:
        body: dict[str, Any] = {"model": self.model, "input": list(texts)}
        if self._base64:
            body["encoding_format"] = "base64"
        if self._requested is not None:
            body[self._length] = self._requested
        return json.dumps(body, separators=(",", ":")).encode()

    def _vectors(self, reply: Mapping[str, Any], count: int) -> list[Vectors]:
        """The vectors in text order. Raises UnreadableReply; raises Transient if no vector of a
        first reply has the requested length.
        """
        found, size = vectors(reply, count), self._requested
        if size is None or self.wire.proven or any(len(vector) == size for vector in found):
            return found
        what = f"requested {count} vectors of {size} dimensions, got {count} of {len(found[0])}"
        raise Transient(_LENGTH, f"{self.name} at {self.wire.base_url}: {what}")


_BATCH = 32
DIMENSIONS = {"all-MiniLM-L6-v2": 384}


class _Embedder(InProcess):
    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:  # noqa: ARG002
        """Embed texts, in their order. Raises ModelUnavailable if the model cannot be loaded."""
        return await self._run(lambda cancelled: self._embedded(texts, cancelled))

    def _embedded(self, texts: Sequence[str], cancelled: Cancelled) -> Embeddings:
        model = self._model(cancelled)
        began = time.perf_counter()
        found, tokens = self._vectors(model, [encodable(text) for text in texts], cancelled)
        seconds = time.perf_counter() - began
        return Embeddings(found, Usage(tokens), calls=1, attempts=1, seconds=seconds, dollars=0.0)

    @abstractmethod
    def _vectors(self, model: Any, texts: list[str], cancelled: Cancelled) -> tuple[Vectors, int]:
        """Vectors, and the number of tokens."""


class LocalEmbedder(_Embedder):
    """all-MiniLM-L6-v2 with 8-bit weights: 384 dimensions, normalised, the mean over a text's
    tokens.

    A text's vector does not depend on the other texts. Only the first 256 tokens of a text are
    embedded. Arguments as `Local`.
    """

    def __init__(
        self,
        model: str = catalogue.DEFAULT_EMBEDDER,
        threads: int | None = None,
        *,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.model = catalogue.find(model, "embedder")
        super().__init__(f"local:{self.model.name}", env)
        self.threads = threads or default_threads()
        self._tokenizer: Tokenizer | None = None

    async def dimensions(self) -> int:
        """Length of the vectors."""
        return DIMENSIONS[self.model.name]

    def count_tokens(self, text: str) -> int:
        """Count the embedded tokens of a text; an estimate without the model's file."""
        if self._tokenizer is None and catalogue.on_disk(self.model, self._env):
            self._tokenizer = self._read_tokenizer()
        if self._tokenizer is None:
            return TokenCounter(self.model.name).count(text)
        return len(self._tokenizer.encode(encodable(text)))

    def _vectors(self, model: Any, texts: list[str], cancelled: Cancelled) -> tuple[Vectors, int]:
        """Vectors of texts, of which those of similar length share a batch."""
        assert self._tokenizer is not None
        encoded = [encoding.ids for encoding in self._tokenizer.encode_batch(texts)]
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
        vectors = np.zeros((len(encoded), DIMENSIONS[self.model.name]), np.float32)
        for first in range(0, len(order), _BATCH):
            if cancelled():
                break
            batch = order[first : first + _BATCH]
            vectors[batch] = _means(model, [encoded[i] for i in batch])
        return vectors, sum(map(len, encoded))

    def _read_tokenizer(self) -> Tokenizer:
        try:
            from tokenizers import Tokenizer
        except ImportError as error:
            raise missing_extra(self.name) from error
        tokenizer = Tokenizer.from_file(str(catalogue.paths(self.model, self._env)[1]))
        tokenizer.enable_truncation(self.model.context)
        tokenizer.no_padding()
        return tokenizer

    def _load(self, cancelled: Cancelled) -> Any:
        try:
            import onnxruntime
        except ImportError as error:
            raise missing_extra(self.name) from error
        weights, _ = fetched(self.model, cancelled, self._env)
        self._tokenizer = self._read_tokenizer()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            providers = ["CPUExecutionProvider"]
            return onnxruntime.InferenceSession(str(weights), options, providers=providers)
        except Exception as error:  # the library's errors have no common base class
            raise ModelUnavailable(
                f"onnxruntime cannot load {weights}: {error}. If the file may be damaged: "
                f"semgraph model rm {self.model.name}"
            ) from error


def _means(session: Any, encoded: Sequence[Sequence[int]]) -> Vectors:
    """The normalised mean over the tokens of each text."""
    ids = np.zeros((len(encoded), max(map(len, encoded))), np.int64)
    mask = np.zeros_like(ids)
    for row, tokens in enumerate(encoded):
        ids[row, : len(tokens)] = tokens
        mask[row, : len(tokens)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    (hidden,) = session.run(None, inputs)
    weights = mask[:, :, None].astype(np.float32)
    mean = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
    return np.asarray(mean / np.linalg.norm(mean, axis=1, keepdims=True), np.float32)


class SentenceTransformersEmbedder(_Embedder):
    """A model of the hub, such as `BAAI/bge-small-en-v1.5`, or of a folder, loaded by
    sentence-transformers at the first request. `device` is such as `cuda`; None: the package's
    choice.
    """

    def __init__(
        self, model: str, device: str | None = None, *, env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"sentence-transformers:{model}", env)
        self.model, self.device = model, device
        self._estimate = TokenCounter(model).count

    async def dimensions(self) -> int:
        """Length of the vectors; loads the model."""
        model = await self._run(self._model)
        return int(model.get_sentence_embedding_dimension())

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text; an estimate before the model is loaded."""
        if self._loaded is None:
            return self._estimate(text)
        return len(self._loaded.tokenizer(encodable(text))["input_ids"])

    def _vectors(self, model: Any, texts: list[str], cancelled: Cancelled) -> tuple[Vectors, int]:
        parts = [np.zeros((0, model.get_sentence_embedding_dimension()), np.float32)]
        for first in range(0, len(texts), _BATCH):
            if cancelled():
                break
            some = texts[first : first + _BATCH]
            part = model.encode(some, batch_size=_BATCH, show_progress_bar=False)
            parts.append(np.asarray(part, np.float32))
        return np.concatenate(parts), sum(map(self.count_tokens, texts))

    def _load(self, cancelled: Cancelled) -> Any:  # noqa: ARG002
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise ModelUnavailable(
                f'{self.name} needs the extra "sentence-transformers": {install("sentence-transformers")} '
                "(adds torch). Or use --embedder local"
            ) from error
        try:
            local = catalogue.offline(self._env)
            return SentenceTransformer(self.model, device=self.device, local_files_only=local)
        except (OSError, ValueError, RuntimeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ModelUnavailable(f"{self.name} cannot be loaded: {first}") from error
