"""Recordings of runs: answers, vectors and times, made by `Recorder` and replayed by `Recorded`.

A recording is a file with one JSON document per line. The order of lines is independent of the run,
so two recordings differ only where their answers differ:

1. The head: the format's version, the model and its limits, the embedder and its dimensions, the
   date, and every `$now` by the name of its slice or wave.
2. One line for each answer: the request's fingerprint (without the model; with the step, if the step
   has a model of its own), the step, the beginning of the last message, hashes of the parts of the
   request, and the text with its tokens and seconds; or the row's error.
3. One line for each embedded text: its vector as little-endian float32 in base64.
"""

from __future__ import annotations

import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from semgraph.errors import ModelUnavailable, PlanError, Position, Problem, RowError
from semgraph.folders import example_file
from semgraph.formats import shortened
from semgraph.llm import base
from semgraph.llm.stack import bound
from semgraph.llm.tokens import CountsTokens, TokenCounter
from semgraph.privacy import write_private

VERSION = 1
_EXCERPT = 80
_FIRST_LIMITS = ("context_tokens", "max_output_tokens", "in_flight")
_LIMITS = ("logprobs", "yes_no", "yes_from", "min_output_tokens", "assumed")


@dataclass(frozen=True)
class RecordedAnswer:
    """The recorded answer to one request. Of a reply only text, usage, seconds, finish and
    log-probabilities are recorded.
    """

    step: str  # that sent the request
    asks: str  # the beginning of the last message, for readers
    # short hashes of the request's `rules`, `schema`, `parameters` and `rows`
    parts: Mapping[str, str]
    reply: base.Reply  # for an error, the paid answer, if any
    error: tuple[str, str] | None = None  # kind and message of the row's error

    def line(self, fingerprint: str) -> dict[str, Any]:
        """The line of a recording that holds it."""
        reply, usage = self.reply, self.reply.usage
        return {
            "step": self.step,
            "asks": self.asks,
            "answer": fingerprint,
            "parts": dict(self.parts),
            **({"error": list(self.error)} if self.error else {}),
            "text": reply.text,
            "usage": [usage.prompt, usage.cached, usage.completion],
            "seconds": round(reply.seconds, 3),
            "finish": reply.finish,
            **({"logprobs": list(reply.logprobs)} if reply.logprobs else {}),
        }


@dataclass
class Recording:
    """A recording in memory."""

    model: str = ""
    limits: base.Limits = base.Limits()
    embedder: str = ""
    dimensions: int = 0
    date: str = ""
    now: dict[str, datetime] = field(default_factory=dict)
    answers: dict[str, RecordedAnswer] = field(default_factory=dict)
    vectors: dict[str, base.Vectors] = field(default_factory=dict)
    unembedded: dict[str, tuple[str, str]] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Replace the file atomically."""
        draft = path.with_name(f"{path.name}.new")
        lines = (json.dumps(line, ensure_ascii=False) for line in self._lines())
        write_private(draft, "".join(f"{line}\n" for line in lines), errors="surrogatepass")
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Read a file. Raises PlanError if it cannot be read, or is not a recording."""
        try:
            text = path.read_text(encoding="utf-8", errors="surrogatepass")
        except OSError as error:
            hint = 'make one: Session(llm="local").run(PLAN, record_to=FILE); or use a model: llm="local", --llm local'
            what = f"no recording can be read at {path}"
            raise PlanError(what, there=error.strerror, hint=hint) from error
        recording = cls()
        for number, line in enumerate(text.rstrip("\n").split("\n"), start=1):
            try:
                recording._take(json.loads(line), first=number == 1)
            except (ValueError, KeyError, TypeError) as error:
                what, there = "not a line of a recording", f"{type(error).__name__}: {error}"
                place = Position(str(path), number, 1)
                raise PlanError(Problem(what, None, place, there)) from error
        return recording

    def _lines(self) -> Iterator[dict[str, Any]]:
        limits, usual = vars(self.limits), vars(base.Limits())
        yield {
            "recording": VERSION,
            "model": self.model,
            "limits": [limits[name] for name in _FIRST_LIMITS],
            **{name: limits[name] for name in _LIMITS if limits[name] != usual[name]},
            "embedder": self.embedder,
            "dimensions": self.dimensions,
            "date": self.date,
            "now": {name: self.now[name].isoformat() for name in sorted(self.now)},
        }
        places = {key: (answer.step, answer.asks, key) for key, answer in self.answers.items()}
        for fingerprint in sorted(self.answers, key=places.__getitem__):
            yield self.answers[fingerprint].line(fingerprint)
        for text in sorted(self.vectors):
            vector = base64.b64encode(self.vectors[text].astype("<f4").tobytes())
            yield {"embeds": text, "vector": vector.decode()}
        for text, error in sorted(self.unembedded.items()):
            yield {"embeds": text, "error": list(error)}

    def _take(self, line: dict[str, Any], *, first: bool) -> None:
        if first:
            if line["recording"] != VERSION:
                raise ValueError(f"version {line['recording']}, expected {VERSION}")
            options = {name: line[name] for name in _LIMITS if name in line}
            self.model, self.limits = line["model"], base.Limits(*line["limits"], **options)
            self.embedder, self.dimensions = line["embedder"], line["dimensions"]
            self.date = line["date"]
            self.now = {name: datetime.fromisoformat(text) for name, text in line["now"].items()}
        elif "embeds" in line and "error" in line:
            self.unembedded[line["embeds"]] = (line["error"][0], line["error"][1])
        elif "embeds" in line:
            vector = np.frombuffer(base64.b64decode(line["vector"], validate=True), dtype="<f4")
            if len(vector) != self.dimensions:
                what = f"the vector has {len(vector)} dimensions"
                raise ValueError(f"{what}, the head says {self.dimensions}")
            self.vectors[line["embeds"]] = vector.astype(np.float32)
        else:
            reply = base.Reply(
                text=line["text"],
                usage=base.Usage(*line["usage"]),
                seconds=line["seconds"],
                finish=line["finish"],
                logprobs=tuple(line.get("logprobs", ())),
            )
            error = (line["error"][0], line["error"][1]) if "error" in line else None
            answer = RecordedAnswer(line["step"], line["asks"], line["parts"], reply, error)
            self.answers[line["answer"]] = answer


def parts(request: base.Request) -> dict[str, str]:
    """Short hashes of a request's parts. They name the difference if no recorded answer matches."""
    rules, rows = request.messages[: request.static], request.messages[request.static :]
    parameters = ["default", request.max_tokens, request.params, request.trial]
    return {
        "rules": _hash([m.content for m in rules]),
        "schema": _hash(request.schema),
        "parameters": _hash([*parameters, *filter(None, [request.words, request.sample])]),
        "rows": _hash([(m.role, m.content) for m in rows]),
    }


def excerpt(request: base.Request) -> str:
    """The beginning of the last message, on one line."""
    text = " ".join(request.messages[-1].content.split()) if request.messages else ""
    return shortened(text, _EXCERPT)


def _hash(value: Any) -> str:
    return _sha256(json.dumps(value, ensure_ascii=False, separators=(",", ":")))[:12]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_CHANGED = {
    "rules": "the prompt (its rules) changed",
    "schema": "the schema of the answer changed",
    "parameters": "the parameters (max_tokens, trial, ...) changed",
    "rows": "the rows changed: the input, the content of the store, or an earlier step",
}


class Recorded(CountsTokens, base.Free):
    """Replays the answers of a recorded run, from a file or from memory, on any store.

    A reply is `issued` and has its recorded tokens and seconds, so tables show those of the
    recorded run. It arrives at once and costs nothing; its `attempts` are 0, because nothing is
    sent. Recorded row errors are raised again.
    """

    def __init__(self, recording: Path | str | Recording) -> None:
        self.path = None if isinstance(recording, Recording) else Path(recording)
        self.recording = _read(recording)
        self._counter = TokenCounter(bare_name(self.recording.model))

    @property
    def name(self) -> str:
        """The model that answered, such as `recorded:local:Qwen2.5-Coder-1.5B`."""
        return f"recorded:{self.recording.model}"

    @property
    def date(self) -> str:
        """The day of the recording, ISO 8601."""
        return self.recording.date

    @property
    def limits(self) -> base.Limits:
        """The limits of the model that answered: they determine which rows share a request."""
        return self.recording.limits

    async def complete(self, request: base.Request) -> base.Reply:
        """Return the recorded answer to an equal request, or raise the recorded RowError. Raises
        ModelUnavailable if none is recorded; the message names the difference from the recorded
        requests.
        """
        answers = self.recording.answers
        answer = answers.get(_key(request)) or answers.get(request.fingerprint)
        if answer is None:
            raise ModelUnavailable(self._miss(request))
        # Equal requests of two partitions are two calls.
        text = f"{request.fingerprint}\n{request.partition}"
        call = (_sha256(text) if request.partition else request.fingerprint)[:32]
        reply = replace(answer.reply, call_id=call, model=self.recording.model, attempts=0)
        reply = replace(reply, origin="issued", dollars=0.0)
        if answer.error:
            kind, message = answer.error
            raise RowError(kind, message, spent=reply if reply.text else None)
        return reply

    def now(self, name: str) -> datetime:
        """The `$now` of a slice or wave, as recorded. Raises ModelUnavailable if none is."""
        if name not in self.recording.now:
            raise ModelUnavailable(
                f'{self._what} has no time of "{name}": the windows of the rows changed. ' + _REMEDY
            )
        return self.recording.now[name]

    @property
    def _what(self) -> str:
        where = self.path.name if self.path else "in memory"
        return f"the recording {where} ({self.recording.model}, {self.recording.date})"

    def _miss(self, request: base.Request) -> str:
        hashes = parts(request)
        answers = self.recording.answers.values()
        candidates = [answer for answer in answers if answer.step == request.step]
        if not candidates:
            steps = ", ".join(sorted({answer.step for answer in answers})) or "none"
            reason = f"it has answers of other steps only ({steps})"
        else:
            for part, value in hashes.items():
                candidates = [answer for answer in candidates if answer.parts.get(part) == value]
                if not candidates:
                    break
            reason = _CHANGED[part]
        return f"step {request.step}: {self._what} has no answer to “{excerpt(request)}”: {reason}. {_REMEDY}"


_REMEDY = (
    "Record it again, Session(llm=MODEL).run(PLAN, ..., record_to=FILE), or use a model: "
    'in Python llm="local" or llm="openai:MODEL", in a shell --llm local or --llm openai:MODEL'
)


def _key(request: base.Request) -> str:
    """The key of an answer in a step with a model of its own."""
    return _sha256(f"{request.step}\n{request.fingerprint}")


def _read(recording: Path | str | Recording) -> Recording:
    return recording if isinstance(recording, Recording) else Recording.read(Path(recording))


class RecordedEmbedder(CountsTokens, base.Free):
    """Replays recorded vectors. Like recorded answers, they are counted and cost nothing."""

    def __init__(self, recording: Path | str | Recording) -> None:
        self.recording = _read(recording)
        self._counter = TokenCounter(bare_name(self.recording.embedder))

    @property
    def name(self) -> str:
        """The embedder that made the vectors, so that a store can hold its vectors, too."""
        return self.recording.embedder

    async def dimensions(self) -> int:
        """Length of the vectors."""
        return self.recording.dimensions

    async def embed(self, texts: Sequence[str], partition: str = "") -> base.Embeddings:  # noqa: ARG002
        """Return the recorded vectors. Raises ModelUnavailable for a text without one."""
        began = time.perf_counter()
        vectors = np.zeros((len(texts), self.recording.dimensions), np.float32)
        failed: dict[int, RowError] = {}
        for i, text in enumerate(texts):
            if text in self.recording.unembedded:
                failed[i] = RowError(*self.recording.unembedded[text])
                continue
            vector = self.recording.vectors.get(text)
            if vector is None:
                raise ModelUnavailable(
                    f"the recording ({self.recording.embedder}, {self.recording.date}) has no vector of “{text[:80]}”: "
                    f"the input, or the step that makes this text, changed. {_REMEDY}"
                )
            vectors[i] = vector
        usage = base.Usage(prompt=sum(map(self.count_tokens, texts)))
        seconds = time.perf_counter() - began
        return base.Embeddings(vectors, usage, calls=1, seconds=seconds, dollars=0.0, failed=failed)


def bare_name(name: str) -> str:
    """The model in `openai:gpt-4.1-mini@http://host/v1?structured=tool`: `gpt-4.1-mini`."""
    return name.partition(":")[2].partition("@")[0].partition("?")[0]


def recording_file(name: str, folder: Path) -> Path:
    """The file of `recorded:NAME`: in the folder, else among the examples, `examples/first_graph.jsonl`."""
    own = folder / name
    return own if own.exists() else example_file(name, "recordings") or own


class Recorder:
    """Records a run. Wrap outermost, so that answers of the journal are recorded too.

    ```
    recorder = Recorder()
    llm, embedder, now = recorder.llm(llm), recorder.embedder(embedder), recorder.clock(now)
    ...  # run with these
    recorder.write(path)
    ```
    """

    def __init__(self) -> None:
        self.recording = Recording()

    def llm(self, inner: base.LLM) -> RecordingModel:
        """The same model, recorded."""
        self.recording.model, self.recording.limits = inner.name, inner.limits
        return RecordingModel(inner, self.recording)

    def embedder(self, inner: base.Embedder) -> RecordingEmbedder:
        """The same embedder, recorded."""
        self.recording.embedder = inner.name
        return RecordingEmbedder(inner, self.recording)

    def models(self, scoped: Callable[[str], base.LLM]) -> Callable[[str], base.LLM]:
        """The same models of each scope, recorded."""
        return lambda scope: self.llm(scoped(scope))

    def embedders(self, scoped: Callable[[str], base.Embedder]) -> Callable[[str], base.Embedder]:
        """The same embedders of each scope, recorded."""
        return lambda scope: self.embedder(scoped(scope))

    def clock(self, now: Callable[[str], datetime]) -> Callable[[str], datetime]:
        """The same clock, recorded."""
        return lambda name: self.recording.now.setdefault(name, now(name))

    def write(self, path: Path | str) -> None:
        """Write the file. The date is that of the earliest `$now`."""
        if times := self.recording.now.values():
            self.recording.date = min(times).date().isoformat()
        self.recording.write(Path(path))


class RecordingModel(CountsTokens, base.Wrapper):
    """Records the answers of a model. It counts tokens as the replay does, because the counts
    determine which rows share a request.
    """

    def __init__(self, inner: base.LLM, recording: Recording) -> None:
        super().__init__(inner)
        self._recording = recording
        self._counter = TokenCounter(bare_name(inner.name))

    async def complete(self, request: base.Request) -> base.Reply:
        """Answer one request, and record the answer or the row's error."""
        try:
            reply = await self.inner.complete(request)
        except RowError as error:
            spent = error.spent if isinstance(error.spent, base.Reply) else base.Reply("")
            self._record(request, spent, (error.kind, str(error)))
            raise
        self._record(request, reply, None)
        return reply

    def _record(
        self, request: base.Request, reply: base.Reply, error: tuple[str, str] | None
    ) -> None:
        shared = bound(self.inner, request.role) is bound(self.inner, "default")
        key = request.fingerprint if shared else _key(request)
        self._recording.answers[key] = RecordedAnswer(
            request.step, excerpt(request), parts(request), reply, error
        )


class RecordingEmbedder(base.Wrapper):
    """Records the vectors of an embedder."""

    def __init__(self, inner: base.Embedder, recording: Recording) -> None:
        super().__init__(inner)
        self._recording = recording

    async def dimensions(self) -> int:
        """Length of the vectors."""
        self._recording.dimensions = await self.inner.dimensions()
        return self._recording.dimensions

    async def embed(self, texts: Sequence[str], partition: str = "") -> base.Embeddings:
        """Embed texts, and record their vectors."""
        done = await self.inner.embed(texts, partition)
        for place, (text, vector) in enumerate(zip(texts, done.vectors, strict=True)):
            if (error := done.failed.get(place)) is not None:
                self._recording.unembedded[text] = (error.kind, str(error))
            else:
                self._recording.dimensions, self._recording.vectors[text] = len(vector), vector
        return done
