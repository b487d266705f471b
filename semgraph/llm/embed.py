"""Embedders: an OpenAI-compatible endpoint, a small local ONNX model, and the models of the package
sentence-transformers.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from semgraph.errors import ModelUnavailable, RowError
from semgraph.extras import install
from semgraph.llm.base import Embeddings, Free, Usage, Vectors, comparable
from semgraph.llm.catalogue import (
    DEFAULT_EMBEDDER,
    CatalogueModel,
    Progress,
    find,
    offline,
    on_disk,
    paths,
)
from semgraph.llm.faults import FaultKind, Transient
from semgraph.llm.local import Cancelled, Worker, default_threads, encodable, fetched, missing_extra
from semgraph.llm.openai import Wire, endpoint_name
from semgraph.llm.replies import counts, vectors
from semgraph.llm.services import OPENAI, Service
from semgraph.llm.tokens import CountsTokens, Price, TokenCounter, cost

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_LENGTH = FaultKind(
    "vectors of another length than requested",
    "endpoint",
    "server",
    remedy="Check the model and ?dimensions=",
    attempts=1,
)


class OpenAIEmbedder(CountsTokens):
    """Embeds texts over `POST {base_url}/embeddings`.

    Each call is one attempt. `semgraph.llm.stack` adds retries, limits, budget and journal, and
    splits many texts into requests.

    Args:
        model: The endpoint's name of the model.
        dimensions: Length of the vectors to request; None: the model's default.
        base_url: Such as `http://gpu:8000/v1`; None: the environment's `OPENAI_BASE_URL`, or
            OpenAI's address.
        api_key: The key; None: the environment's `OPENAI_API_KEY`. Endpoints other than OpenAI's
            may need none.
        timeout: Limit of one attempt, in seconds.
        price: The price of tokens; overrides the list of `semgraph.llm.tokens`.
        service: The service of the model, if it is neither OpenAI nor a server at `base_url`.
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
        self._requested, self._length = dimensions, service.names.get("dimensions", "dimensions")
        self.most_at_once = service.embeds_at_once
        self._lengths = Counter(() if dimensions is None else {dimensions: 1 << 40})
        self._base64 = True
        self._counter = TokenCounter(model)
        self._wire = Wire(self._name, base_url, api_key, timeout, service)
        self._price, self._service = price, service

    @property
    def name(self) -> str:
        """Such as `openai:text-embedding-3-small?dimensions=1024`."""
        return self._name

    async def dimensions(self) -> int:
        """Length of the vectors: the configured one, else that of most vectors so far."""
        if not self._lengths:
            for error in (await self.embed(["dimensions"])).failed.values():
                raise error
        return max(self._lengths, key=self._lengths.__getitem__)

    def dollars(self, usage: Usage) -> float | None:
        """The cost of tokens, or None if no price is known."""
        return cost(usage, self.model, self._wire.base_url, self._price, self._service)

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:  # noqa: ARG002  # for wrappers
        """Embed texts, in order, in one request.

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

        return await self._wire.ask("/embeddings", self._body(texts), read)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._wire.aclose()

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
        if size is None or self._wire.proven or any(len(vector) == size for vector in found):
            return found
        what = f"requested {count} vectors of {size} dimensions, got {count} of {len(found[0])}"
        raise Transient(_LENGTH, f"{self._name} at {self._wire.base_url}: {what}")


_BATCH = 32
DIMENSIONS = {"all-MiniLM-L6-v2": 384}


class InProcess(Free, ABC):
    """An embedder that loads its model into this process at the first request, in a thread of its own.

    Args:
        name: Its name.
        env: The environment (`SEMGRAPH_HOME`, `SEMGRAPH_OFFLINE`); None for the process's.
    """

    def __init__(self, name: str, env: Mapping[str, str] | None) -> None:
        self.name, self._env = name, env
        self._worker = Worker(f"semgraph {name}")
        self._loaded: Any = None

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:  # noqa: ARG002
        """Embed texts, in their order.

        Raises:
            ModelUnavailable: The extra is not installed, or the model cannot be fetched or loaded.
        """
        return await self._worker.run(lambda cancelled: self._embedded(texts, cancelled))

    async def aclose(self) -> None:
        """Free the memory. A later request reloads the model."""
        await self._worker.run(lambda _cancelled: self._unload())

    def _unload(self) -> None:
        self._loaded = None

    def _model(self, cancelled: Cancelled) -> Any:
        if self._loaded is None:
            self._loaded = self._load(cancelled)
        return self._loaded

    def _embedded(self, texts: Sequence[str], cancelled: Cancelled) -> Embeddings:
        model = self._model(cancelled)
        began = time.perf_counter()
        found, tokens = self._vectors(model, [encodable(text) for text in texts], cancelled)
        seconds = time.perf_counter() - began
        return Embeddings(found, Usage(tokens), calls=1, attempts=1, seconds=seconds, dollars=0.0)

    @abstractmethod
    def _load(self, cancelled: Cancelled) -> Any:
        """The model. Raises ModelUnavailable."""

    @abstractmethod
    def _vectors(self, model: Any, texts: list[str], cancelled: Cancelled) -> tuple[Vectors, int]:
        """Vectors, and the number of tokens."""


class LocalEmbedder(InProcess):
    """all-MiniLM-L6-v2 with 8-bit weights: 384 dimensions, normalised, the mean over a text's
    tokens.

    A text's vector does not depend on the other texts. Only the first 256 tokens of a text are
    embedded.

    Args:
        model: Its name in the catalogue.
        threads: CPU threads; None for one per core, or one if all cores are busy.
        progress: Called with the progress of a download.
        env: The environment (`SEMGRAPH_HOME`, `SEMGRAPH_OFFLINE`); None for the process's.
    """

    def __init__(
        self,
        model: str = DEFAULT_EMBEDDER,
        threads: int | None = None,
        *,
        progress: Progress | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.model = find(model, "embedder")
        super().__init__(f"local:{self.model.name}", env)
        self.threads = threads or default_threads()
        self._progress = progress
        self._tokenizer: Tokenizer | None = None

    async def dimensions(self) -> int:
        """Length of the vectors."""
        return DIMENSIONS[self.model.name]

    def count_tokens(self, text: str) -> int:
        """Count the embedded tokens of a text; an estimate without the model's file."""
        if self._tokenizer is None and on_disk(self.model, self._env):
            try:
                self._tokenizer = _tokenizer(self.model, self._env)
            except ImportError as error:
                raise missing_extra(self.name) from error
        if self._tokenizer is None:
            return TokenCounter(self.model.name).count(text)
        return len(self._tokenizer.encode(encodable(text)))

    def _vectors(self, model: Any, texts: list[str], cancelled: Cancelled) -> tuple[Vectors, int]:
        found: tuple[Vectors, int] = model.embed(texts, cancelled)
        return found

    def _load(self, cancelled: Cancelled) -> _OnnxNetwork:
        try:
            import onnxruntime

            weights, _ = fetched(self.model, cancelled, self._progress, self._env)
            tokenizer = _tokenizer(self.model, self._env)
        except ImportError as error:
            raise missing_extra(self.name) from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        try:
            session = onnxruntime.InferenceSession(
                str(weights), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # the library's errors have no common base class
            raise ModelUnavailable(
                f"onnxruntime cannot load {weights}: {error}. If the file may be damaged: "
                f"semgraph model rm {self.model.name}"
            ) from error
        return _OnnxNetwork(session, tokenizer, DIMENSIONS[self.model.name])


def _tokenizer(model: CatalogueModel, env: Mapping[str, str] | None) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(paths(model, env)[1]))
    tokenizer.enable_truncation(model.context)
    tokenizer.no_padding()
    return tokenizer


@dataclass(frozen=True)
class _OnnxNetwork:
    """The loaded model."""

    session: Any
    tokenizer: Tokenizer
    dimensions: int

    def embed(self, texts: Sequence[str], cancelled: Cancelled) -> tuple[Vectors, int]:
        """Vectors of shape (texts, dimensions), and the number of tokens. Texts of similar length
        share a batch.
        """
        encoded = [encoding.ids for encoding in self.tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i]))
        vectors = np.zeros((len(encoded), self.dimensions), np.float32)
        for first in range(0, len(order), _BATCH):
            if cancelled():
                break
            batch = order[first : first + _BATCH]
            vectors[batch] = self._vectors([encoded[i] for i in batch])
        return vectors, sum(map(len, encoded))

    def _vectors(self, encoded: Sequence[Sequence[int]]) -> Vectors:
        ids = np.zeros((len(encoded), max(map(len, encoded))), np.int64)
        mask = np.zeros_like(ids)
        for row, tokens in enumerate(encoded):
            ids[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        (hidden,) = self.session.run(None, inputs)
        weights = mask[:, :, None].astype(np.float32)
        mean = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        return np.asarray(mean / np.linalg.norm(mean, axis=1, keepdims=True), np.float32)


class SentenceTransformersEmbedder(InProcess):
    """A model of the hub or of a folder, loaded by sentence-transformers at the first request.

    Args:
        model: Its name on the hub, such as `BAAI/bge-small-en-v1.5`, or a folder.
        device: Such as `cuda`; None: the package's choice.
        env: The environment (`SEMGRAPH_OFFLINE`); None for the process's.
    """

    def __init__(
        self, model: str, device: str | None = None, *, env: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(f"sentence-transformers:{model}", env)
        self.model, self.device = model, device
        self._estimate = TokenCounter(model).count

    async def dimensions(self) -> int:
        """Length of the vectors; loads the model."""
        model = await self._worker.run(self._model)
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
            part = model.encode(
                texts[first : first + _BATCH], batch_size=_BATCH, show_progress_bar=False
            )
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
            return SentenceTransformer(
                self.model, device=self.device, local_files_only=offline(self._env)
            )
        except (OSError, ValueError, RuntimeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ModelUnavailable(f"{self.name} cannot be loaded: {first}") from error
