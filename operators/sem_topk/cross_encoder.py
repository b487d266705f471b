"""Scores each row with a cross-encoder, a small model that reads question and row together; no
language model is called.

The question is the prompt's `# context` if it has one (for example a query), else the words of its
item; the row is the text of the columns that its item names. Scores are the cross-encoder's own,
higher is better. It runs in this process, in its own thread, and is loaded once.

Needs sentence-transformers (which installs torch): pip install "semgraph[cross-encoder]". `model` is
a name on the Hugging Face hub or a folder; SEMGRAPH_OFFLINE=1 forbids downloads.

Source: Nogueira and Cho (2019), passage re-ranking with BERT; the cross-encoders of
sentence-transformers.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from threading import Lock
from typing import Any

import semgraph.operator as op

_LOADED: dict[tuple[str, str | None], Any] = {}
_LOCK = Lock()


@dataclass(frozen=True)
class CrossEncoder(op.Implementation[op.SemTopk]):
    """Rows without text are ranked last."""

    same = False
    extra = "cross-encoder"
    shows_examples = False
    model: str = "cross-encoder/ms-marco-MiniLM-L6-v2"
    device: str | None = None
    batch: int = 32

    def __post_init__(self) -> None:
        if not self.model.strip():
            raise ValueError("model must be the name of a cross-encoder, or a folder")
        if self.batch < 1:
            raise ValueError("batch must be at least 1")

    def estimate(self, node: op.SemTopk, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """No calls."""
        return op.Cost(0, 1, 0, 0)

    async def answer(self, node: op.SemTopk, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Score all rows of all groups."""
        lefts = rows.lefts
        texts, questions = op.row_texts(node, rows), op.queries(node, rows)
        readable = [item for item, left in enumerate(lefts) if texts[left]]
        pairs = [(questions[lefts[item]], texts[lefts[item]]) for item in readable]
        found = await asyncio.to_thread(self._scores, pairs) if pairs else []
        scores = dict(zip(readable, found, strict=True))
        least = min(scores.values(), default=0.0) - 1.0
        return [op.Outcome({"score": scores.get(item, least)}) for item in range(len(lefts))]

    def _scores(self, pairs: list[tuple[str, str]]) -> list[float]:
        scores = self._load().predict(pairs, batch_size=self.batch, show_progress_bar=False)
        return [float(score) for score in scores]

    def _load(self) -> Any:
        """The model, loaded once for each name and device. Raises ModelUnavailable."""
        try:
            from sentence_transformers import CrossEncoder as Model
        except ImportError as error:
            raise op.ModelUnavailable(f"cross_encoder: {self.lacks() or error}") from error
        with _LOCK:
            model = _LOADED.get((self.model, self.device))
            if model is None:
                offline = os.environ.get("SEMGRAPH_OFFLINE", "") not in {"", "0"}
                try:
                    model = Model(self.model, device=self.device, local_files_only=offline)
                except (OSError, ValueError, RuntimeError) as error:
                    first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
                    problem = f'cross_encoder: the model "{self.model}" cannot be loaded: {first}'
                    raise op.ModelUnavailable(
                        f"{problem}. Where the Hugging Face hub is not reachable, copy the folder of a "
                        'model to this machine, and name it: cross_encoder(model="FOLDER")'
                    ) from error
                _LOADED[self.model, self.device] = model
            return model
