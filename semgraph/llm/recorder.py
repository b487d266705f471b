"""Make a recording of a real run: wrap its model, its embedder and its clock, run, write the file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from semgraph.errors import RowError
from semgraph.llm.base import LLM, Embedder, Embeddings, Reply, Request, Usage
from semgraph.llm.recorded import bare_name
from semgraph.llm.recording import Answer, Recording, excerpt, parts
from semgraph.llm.tokens import TokenCounter
from semgraph.llm.wrapper import Wrapper


class Recorder:
    """Collects what a run is told. Wrap outermost, so that what the journal answers is recorded too.

    ```
    recorder = Recorder()
    llm, embedder, now = recorder.llm(llm), recorder.embedder(embedder), recorder.clock(now)
    ...  # run with these
    recorder.write(path)
    ```
    """

    def __init__(self) -> None:
        self.recording = Recording()

    def llm(self, inner: LLM) -> RecordingModel:
        """A model that answers as the inner one does, and is recorded."""
        self.recording.model, self.recording.limits = inner.name, inner.limits
        return RecordingModel(inner, self.recording)

    def embedder(self, inner: Embedder) -> RecordingEmbedder:
        """An embedder that embeds as the inner one does, and is recorded."""
        self.recording.embedder = inner.name
        return RecordingEmbedder(inner, self.recording)

    def clock(self, now: Callable[[str], datetime]) -> Callable[[str], datetime]:
        """A clock that tells the time of a slice or wave as the inner one does, and is recorded."""

        def told(name: str) -> datetime:
            return self.recording.now.setdefault(name, now(name))

        return told

    def write(self, path: Path | str) -> None:
        """Write the file. The date is that of the earliest `$now`."""
        self.recording.date = min(self.recording.now.values()).date().isoformat() if self.recording.now else ""
        self.recording.write(Path(path))


class RecordingModel(Wrapper):
    """Records the answers of a model. Counts tokens as the replay will, for the count decides what is packed together."""

    def __init__(self, inner: LLM, recording: Recording) -> None:
        super().__init__(inner)
        self._recording = recording
        self._counter = TokenCounter(bare_name(inner.name))

    @property
    def exact_tokens(self) -> bool:
        """Not for a model whose tokenizer the replay may lack."""
        return self._counter.exact

    def count_tokens(self, text: str) -> int:
        """Tokens of a text as the replay counts them."""
        return self._counter.count(text)

    async def complete(self, request: Request) -> Reply:
        """Answer one request and keep the answer, or the row's error."""
        try:
            reply = await self.inner.complete(request)
        except RowError as error:
            spent = error.spent if isinstance(error.spent, Reply) else Reply("")
            self._keep(request, spent, (error.kind, str(error)))
            raise
        self._keep(request, reply, None)
        return reply

    def _keep(self, request: Request, reply: Reply, error: tuple[str, str] | None) -> None:
        self._recording.answers[request.fingerprint] = Answer(
            step=request.step,
            asks=excerpt(request),
            parts=parts(request),
            text=reply.text,
            usage=reply.usage,
            seconds=reply.seconds,
            finish=reply.finish,
            logprobs=reply.logprobs,
            error=error,
        )


class RecordingEmbedder:
    """Records the vectors of an embedder."""

    def __init__(self, inner: Embedder, recording: Recording) -> None:
        self.inner = inner
        self._recording = recording

    @property
    def name(self) -> str:
        """The inner embedder's name."""
        return self.inner.name

    async def dimensions(self) -> int:
        """Length of the vectors."""
        self._recording.dimensions = await self.inner.dimensions()
        return self._recording.dimensions

    def count_tokens(self, text: str) -> int:
        """Tokens of a text, as the inner embedder counts them."""
        return self.inner.count_tokens(text)

    def dollars(self, usage: Usage) -> float | None:
        """What tokens of the inner embedder cost."""
        return self.inner.dollars(usage)

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:
        """Embed texts and keep their vectors."""
        done = await self.inner.embed(texts, partition)
        self._recording.dimensions = done.vectors.shape[1]
        self._recording.vectors.update(zip(texts, done.vectors, strict=True))
        return done

    async def aclose(self) -> None:
        """Close the inner embedder."""
        await self.inner.aclose()
