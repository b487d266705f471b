"""A model and an embedder that replay a recording. What was not recorded is an error, never a guess."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import numpy as np

from semgraph.errors import ModelUnavailable, RowError
from semgraph.llm.base import Embeddings, Limits, Reply, Request, Usage
from semgraph.llm.recording import Recording, excerpt, parts
from semgraph.llm.tokens import TokenCounter

_CHANGED = {
    "rules": "its prompt changed since (the rules)",
    "schema": "the schema of its answer changed since",
    "parameters": "it is asked with other parameters (role, max_tokens, trial, ...)",
    "rows": "it is asked about other rows: another input, other content of the store, or a change in a step before",
}


class Recorded:
    """Replays the answers of a recorded run, on any store.

    A reply is `issued` and has the tokens and seconds that it took when it was recorded, so that tables show what the
    run took then; it comes at once, it costs nothing, and its `attempts` are 0, for nothing is sent. Rows that got an
    error get it again.

    Args:
        recording: The file, or one that is read already.
    """

    def __init__(self, recording: Path | str | Recording) -> None:
        self.path = None if isinstance(recording, Recording) else Path(recording)
        self.recording = recording if isinstance(recording, Recording) else Recording.read(Path(recording))
        self._counter = TokenCounter(bare_name(self.recording.model))

    @property
    def name(self) -> str:
        """Such as `recorded:local:Qwen2.5-Coder-1.5B`: the model that answered."""
        return f"recorded:{self.recording.model}"

    @property
    def date(self) -> str:
        """The day of the recording, ISO 8601."""
        return self.recording.date

    @property
    def limits(self) -> Limits:
        """Those of the model that answered: they decide what is packed into one request."""
        return self.recording.limits

    @property
    def exact_tokens(self) -> bool:
        """Only for models whose tokenizer needs no files."""
        return self._counter.exact

    def count_tokens(self, text: str) -> int:
        """Tokens as they were counted while recording: without the files of a local model."""
        return self._counter.count(text)

    def dollars(self, usage: Usage) -> float | None:  # noqa: ARG002 - whatever they are
        """Nothing."""
        return 0.0

    async def complete(self, request: Request) -> Reply:
        """The recorded answer to an equal request.

        Raises:
            RowError: As recorded.
            ModelUnavailable: There is none; says what is different from what was recorded.
        """
        answer = self.recording.answers.get(request.fingerprint)
        if answer is None:
            raise ModelUnavailable(self._miss(request))
        reply = Reply(
            text=answer.text,
            usage=answer.usage,
            seconds=answer.seconds,
            call_id=_call_id(request),
            model=self.recording.model,
            attempts=0,
            dollars=0.0,
            finish=answer.finish,
            logprobs=answer.logprobs,
        )
        if answer.error:
            kind, message = answer.error
            raise RowError(kind, message, spent=reply if answer.text else None)
        return reply

    def now(self, name: str) -> datetime:
        """The `$now` of a slice or wave, as recorded.

        Raises:
            ModelUnavailable: None of that name was recorded.
        """
        if name not in self.recording.now:
            raise ModelUnavailable(
                f'{self._what} knows no time of "{name}": the rows are cut into other windows than were recorded. '
                + _REMEDY
            )
        return self.recording.now[name]

    async def aclose(self) -> None:
        """Nothing to close."""

    @property
    def _what(self) -> str:
        where = self.path.name if self.path else "in memory"
        return f"the recording {where} ({self.recording.model}, {self.recording.date})"

    def _miss(self, request: Request) -> str:
        asked = parts(request)
        alike = [answer for answer in self.recording.answers.values() if answer.step == request.step]
        if not alike:
            steps = ", ".join(sorted({answer.step for answer in self.recording.answers.values()})) or "none"
            why = f"it has no answers of this step (of {steps})"
        else:
            for part in asked:
                alike = [answer for answer in alike if answer.parts.get(part) == asked[part]]
                if not alike:
                    break
            why = _CHANGED[part]
        return f"step {request.step}: {self._what} has no answer to “{excerpt(request)}”: {why}. {_REMEDY}"


_REMEDY = (
    "Record it anew, Session(llm=MODEL).run(PLAN, ..., record_to=FILE), or use a model: --llm local, --llm openai:MODEL"
)


def _call_id(request: Request) -> str:
    """The id of a replayed call: equal requests of two partitions are two calls."""
    if not request.partition:
        return request.fingerprint[:32]
    text = f"{request.fingerprint}\n{request.partition}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class RecordedEmbedder:
    """Replays recorded vectors. As a recorded answer, a vector is counted and costs nothing.

    Args:
        recording: The file, or one that is read already.
    """

    def __init__(self, recording: Path | str | Recording) -> None:
        self.recording = recording if isinstance(recording, Recording) else Recording.read(Path(recording))
        self._counter = TokenCounter(bare_name(self.recording.embedder))

    @property
    def name(self) -> str:
        """The embedder that made the vectors: stores may hold its vectors beside these."""
        return self.recording.embedder

    async def dimensions(self) -> int:
        """Length of the vectors."""
        return self.recording.dimensions

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, without the files of a local model."""
        return self._counter.count(text)

    def dollars(self, usage: Usage) -> float | None:  # noqa: ARG002 - whatever they are
        """Nothing."""
        return 0.0

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:  # noqa: ARG002 - as the protocol has it
        """The recorded vectors.

        Raises:
            ModelUnavailable: A text was not embedded when the recording was made.
        """
        began = time.perf_counter()
        vectors = np.zeros((len(texts), self.recording.dimensions), np.float32)
        for i, text in enumerate(texts):
            vector = self.recording.vectors.get(text)
            if vector is None:
                raise ModelUnavailable(
                    f"the recording ({self.recording.embedder}, {self.recording.date}) has no vector of “{text[:80]}”: "
                    f"the input, or a step that makes this text, is not as it was. {_REMEDY}"
                )
            vectors[i] = vector
        usage = Usage(prompt=sum(map(self.count_tokens, texts)))
        return Embeddings(vectors, usage, calls=1, seconds=time.perf_counter() - began, dollars=0.0)

    async def aclose(self) -> None:
        """Nothing to close."""


def bare_name(name: str) -> str:
    """The model in `openai:gpt-4.1-mini@http://host/v1?structured=tool`: `gpt-4.1-mini`."""
    return name.partition(":")[2].partition("@")[0].partition("?")[0]
