"""Embeddings by models of the package sentence-transformers."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from semgraph.errors import ModelUnavailable
from semgraph.extras import install
from semgraph.llm.base import Embeddings, Usage
from semgraph.llm.local.catalogue import offline
from semgraph.llm.local.model import encodable
from semgraph.llm.local.worker import Cancelled, Worker
from semgraph.llm.tokens import TokenCounter

_BATCH = 32


class SentenceTransformersEmbedder:
    """A model of the hub or of a folder, loaded by sentence-transformers at the first request.

    Args:
        model: Its name there, such as `BAAI/bge-small-en-v1.5`, or a folder.
        device: Such as `cuda`; None: the package chooses.
        env: The environment (`SEMGRAPH_OFFLINE`); None for the process's.
    """

    def __init__(
        self, model: str, device: str | None = None, *, env: Mapping[str, str] | None = None
    ) -> None:
        self.model, self.device = model, device
        self._env = env
        self._worker = Worker(f"semgraph {self.name}")
        self._estimate = TokenCounter(model).count
        self._loaded: Any = None

    @property
    def name(self) -> str:
        """Such as `sentence-transformers:BAAI/bge-small-en-v1.5`."""
        return f"sentence-transformers:{self.model}"

    async def dimensions(self) -> int:
        """Length of the vectors; loads the model."""
        model = await self._worker.run(lambda _cancelled: self._load())
        return int(model.get_sentence_embedding_dimension())

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a text; an estimate before the model is loaded."""
        if self._loaded is None:
            return self._estimate(text)
        return len(self._loaded.tokenizer(encodable(text))["input_ids"])

    def dollars(self, usage: Usage) -> float | None:  # noqa: ARG002
        """Zero: a local model costs nothing."""
        return 0.0

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:  # noqa: ARG002
        """Embed texts, in their order.

        Raises:
            ModelUnavailable: The extra is not installed, or the model cannot be loaded.
        """
        return await self._worker.run(
            lambda cancelled: self._embed([encodable(text) for text in texts], cancelled)
        )

    async def aclose(self) -> None:
        """Free the memory."""
        await self._worker.run(lambda _cancelled: self._unload())

    def _unload(self) -> None:
        self._loaded = None

    def _embed(self, texts: list[str], cancelled: Cancelled) -> Embeddings:
        model = self._load()
        began = time.perf_counter()
        parts = [np.zeros((0, model.get_sentence_embedding_dimension()), np.float32)]
        for first in range(0, len(texts), _BATCH):
            if cancelled():
                break
            part = model.encode(
                texts[first : first + _BATCH], batch_size=_BATCH, show_progress_bar=False
            )
            parts.append(np.asarray(part, np.float32))
        usage = Usage(prompt=sum(map(self.count_tokens, texts)))
        seconds = time.perf_counter() - began
        return Embeddings(
            np.concatenate(parts), usage, calls=1, attempts=1, seconds=seconds, dollars=0.0
        )

    def _load(self) -> Any:
        if self._loaded is not None:
            return self._loaded
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise ModelUnavailable(
                f'{self.name} needs the extra "sentence-transformers": {install("sentence-transformers")} '
                "(adds torch). Or use --embedder local"
            ) from error
        try:
            self._loaded = SentenceTransformer(
                self.model, device=self.device, local_files_only=offline(self._env)
            )
        except (OSError, ValueError, RuntimeError) as error:
            first = (str(error).splitlines() or [type(error).__name__])[0]
            raise ModelUnavailable(f"{self.name} cannot be loaded: {first}") from error
        return self._loaded
