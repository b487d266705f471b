"""Local embeddings: a small sentence model in ONNX, run by onnxruntime."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from semgraph.errors import ModelUnavailable
from semgraph.llm.base import Embeddings, Usage, Vectors
from semgraph.llm.local.catalogue import DEFAULT_EMBEDDER, CatalogueModel, find, on_disk, paths
from semgraph.llm.local.download import Progress
from semgraph.llm.local.gguf import default_threads
from semgraph.llm.local.model import encodable, fetched, missing_extra
from semgraph.llm.local.worker import Cancelled, Worker
from semgraph.llm.tokens import TokenCounter

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_BATCH = 32
DIMENSIONS = {"all-MiniLM-L6-v2": 384}


class LocalEmbedder:
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
        self.threads = threads or default_threads()
        self._progress, self._env = progress, env
        self._worker = Worker(f"semgraph {self.name}")
        self._network: _OnnxNetwork | None = None
        self._tokenizer: Tokenizer | None = None

    @property
    def name(self) -> str:
        """Such as `local:all-MiniLM-L6-v2`."""
        return f"local:{self.model.name}"

    async def dimensions(self) -> int:
        """Length of the vectors."""
        return DIMENSIONS[self.model.name]

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text that are embedded; an estimate without the model's file."""
        if self._tokenizer is None and on_disk(self.model, self._env):
            try:
                self._tokenizer = _tokenizer(self.model, self._env)
            except ImportError as error:
                raise missing_extra(self.name) from error
        if self._tokenizer is None:
            return TokenCounter(self.model.name).count(text)
        return len(self._tokenizer.encode(encodable(text)))

    def dollars(self, usage: Usage) -> float | None:  # noqa: ARG002
        """Zero: a local model costs nothing."""
        return 0.0

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:  # noqa: ARG002
        """Embed texts, in their order.

        Raises:
            ModelUnavailable: The extra is not installed, or the files cannot be downloaded.
        """
        return await self._worker.run(lambda cancelled: self._embed(texts, cancelled))

    async def aclose(self) -> None:
        """Free the memory. A later request would load the model again."""
        await self._worker.run(lambda _cancelled: self._unload())

    def _unload(self) -> None:
        self._network = None

    def _embed(self, texts: Sequence[str], cancelled: Cancelled) -> Embeddings:
        if self._network is None:
            self._network = self._load(cancelled)
        began = time.perf_counter()
        vectors, tokens = self._network.embed([encodable(text) for text in texts], cancelled)
        seconds = time.perf_counter() - began
        return Embeddings(
            vectors, Usage(prompt=tokens), calls=1, attempts=1, seconds=seconds, dollars=0.0
        )

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
        except Exception as error:  # the library's errors have no common class
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
