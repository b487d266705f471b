"""The file of a recording: what a model answered, what an embedder gave, what time it was.

One JSON document per line, in an order that does not depend on the run, so that a recording that was made again differs
where its answers differ:

1. The head: the format's version, the model and its limits, the embedder and its dimensions, the date, and every `$now`
   by the name of its slice or wave.
2. One line for each answer: the request's fingerprint (the model is no part of it), the step, how the question begins,
   hashes of the parts of the request, and the text with what it took; or the error that the row got.
3. One line for each embedded text: its vector as little-endian float32 in base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from semgraph.errors import PlanError, Position, Problem
from semgraph.llm.base import Limits, Request, Usage, Vectors
from semgraph.private import write_private

VERSION = 1
_EXCERPT = 80


@dataclass(frozen=True)
class Answer:
    """What was answered to one request.

    Args:
        step: The step that asked.
        asks: How the last message begins, for people.
        parts: Short hashes of the request's parts by name: `rules`, `schema`, `parameters`, `rows`.
        text: The answer; of an error what was paid for.
        usage: Tokens.
        seconds: How long it took.
        finish: As in `Reply`.
        logprobs: As in `Reply`.
        error: Kind and message of the row's error, where it got one.
    """

    step: str
    asks: str
    parts: Mapping[str, str]
    text: str = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    finish: str = "stop"
    logprobs: tuple[float, ...] = ()
    error: tuple[str, str] | None = None


@dataclass
class Recording:
    """A recording in memory."""

    model: str = ""
    limits: Limits = Limits()
    embedder: str = ""
    dimensions: int = 0
    date: str = ""
    now: dict[str, datetime] = field(default_factory=dict)
    answers: dict[str, Answer] = field(default_factory=dict)
    vectors: dict[str, Vectors] = field(default_factory=dict)

    def write(self, path: Path) -> None:
        """Write the file anew, whole or not at all."""
        draft = path.with_name(f"{path.name}.new")
        lines = (json.dumps(line, ensure_ascii=False) for line in self._lines())
        write_private(draft, "".join(f"{line}\n" for line in lines), errors="surrogatepass")
        draft.replace(path)

    @classmethod
    def read(cls, path: Path) -> Recording:
        """Read a file.

        Raises:
            PlanError: There is none, or it is no recording.
        """
        try:
            lines = path.read_text(encoding="utf-8", errors="surrogatepass").rstrip("\n").split("\n")
        except OSError as error:
            hint = 'Make one: Session(llm="local").run(PLAN, record_to=FILE). Or use a model: --llm local'
            raise PlanError(Problem(f"no recording can be read at {path}", there=error.strerror, hint=hint)) from error
        recording = cls()
        for number, line in enumerate(lines, start=1):
            try:
                recording._take(json.loads(line), first=number == 1)
            except (ValueError, KeyError, TypeError, binascii.Error) as error:
                there = f"{type(error).__name__}: {error}"
                raise PlanError(
                    Problem("is no line of a recording", None, Position(str(path), number, 1), there)
                ) from error
        return recording

    def _lines(self) -> Iterator[dict[str, Any]]:
        yield {
            "recording": VERSION,
            "model": self.model,
            "limits": [self.limits.context_tokens, self.limits.max_output_tokens, self.limits.in_flight],
            **({"logprobs": self.limits.logprobs} if self.limits.logprobs is not None else {}),
            **({"yes_no": self.limits.yes_no} if self.limits.yes_no != "json" else {}),
            **({"yes_from": self.limits.yes_from} if self.limits.yes_from else {}),
            "embedder": self.embedder,
            "dimensions": self.dimensions,
            "date": self.date,
            "now": {name: self.now[name].isoformat() for name in sorted(self.now)},
        }
        for fingerprint, answer in sorted(self.answers.items(), key=lambda item: (item[1].step, item[1].asks, item[0])):
            usage = answer.usage
            yield {
                "step": answer.step,
                "asks": answer.asks,
                "answer": fingerprint,
                "parts": dict(answer.parts),
                **({"error": list(answer.error)} if answer.error else {}),
                "text": answer.text,
                "usage": [usage.prompt, usage.cached, usage.completion],
                "seconds": round(answer.seconds, 3),
                "finish": answer.finish,
                **({"logprobs": list(answer.logprobs)} if answer.logprobs else {}),
            }
        for text in sorted(self.vectors):
            yield {"embeds": text, "vector": base64.b64encode(self.vectors[text].astype("<f4").tobytes()).decode()}

    def _take(self, line: dict[str, Any], *, first: bool) -> None:
        if first:
            if line["recording"] != VERSION:
                raise ValueError(f"its version is {line['recording']}, known is {VERSION}")
            asking = {name: line[name] for name in ("logprobs", "yes_no", "yes_from") if name in line}
            self.model, self.limits = line["model"], Limits(*line["limits"], **asking)
            self.embedder, self.dimensions, self.date = line["embedder"], line["dimensions"], line["date"]
            self.now = {name: datetime.fromisoformat(text) for name, text in line["now"].items()}
        elif "embeds" in line:
            vector = np.frombuffer(base64.b64decode(line["vector"], validate=True), dtype="<f4")
            if len(vector) != self.dimensions:
                raise ValueError(f"the vector has {len(vector)} dimensions, the head says {self.dimensions}")
            self.vectors[line["embeds"]] = vector.astype(np.float32)
        else:
            self.answers[line["answer"]] = Answer(
                step=line["step"],
                asks=line["asks"],
                parts=line["parts"],
                text=line["text"],
                usage=Usage(*line["usage"]),
                seconds=line["seconds"],
                finish=line["finish"],
                logprobs=tuple(line.get("logprobs", ())),
                error=(line["error"][0], line["error"][1]) if "error" in line else None,
            )


def parts(request: Request) -> dict[str, str]:
    """Short hashes of a request's parts, which say what is different when there is no recorded answer to it."""
    static = next((i for i, m in enumerate(request.messages) if m.role != "system"), len(request.messages))
    return {
        "rules": _hash([m.content for m in request.messages[:static]]),
        "schema": _hash(request.schema),
        "parameters": _hash(
            [request.role, request.max_tokens, request.params, request.trial, *filter(None, [request.words])]
        ),
        "rows": _hash([(m.role, m.content) for m in request.messages[static:]]),
    }


def excerpt(request: Request) -> str:
    """How the last message begins, on one line."""
    text = " ".join(request.messages[-1].content.split()) if request.messages else ""
    return text if len(text) <= _EXCERPT else text[: _EXCERPT - 1] + "…"


def _hash(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
