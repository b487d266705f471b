"""The calls of a run, one line each in its record: when, how long, for which step, what it took, where the answer came from.

The journal has what was asked and answered. What it does not have, answers that are replayed from a recording and calls that
failed, is kept here with its text, unless the journal is off: then no text is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from semgraph.errors import RowError
from semgraph.execution.record import RunRecord, read_lines, read_rows, recorded_steps
from semgraph.execution.runs import Run
from semgraph.llm.base import LLM, Message, Reply, Request, Usage
from semgraph.llm.journal import Exchange, Journal
from semgraph.llm.roles import Roles
from semgraph.llm.wrapper import Wrapper

FILE = "calls.jsonl"
_PENDING = 200


@dataclass
class CallLog:
    """Writes `calls.jsonl` of a run.

    Args:
        record: The run's.
        texts: Whether text may be kept.
    """

    record: RunRecord
    texts: bool
    _pending: list[dict[str, Any]] = field(default_factory=list)

    def noted(self, llm: LLM) -> LLM:
        """Models whose calls are entered here."""
        return noted(llm, self.add)

    def add(self, request: Request, reply: Reply | None, at: float, error: str | None) -> None:
        """Enter one call."""
        found = reply or Reply("")
        replayed = reply is not None and found.origin == "issued" and found.attempts == 0
        line: dict[str, Any] = {
            "call": found.call_id or None, "step": request.step, "model": found.model or None,
            "origin": "recording" if replayed else found.origin if reply else None,
            "at": at, "took": time.time() - at, "seconds": found.seconds,
            "tokens_in": found.usage.prompt, "tokens_cached": found.usage.cached, "tokens_out": found.usage.completion,
            "dollars": found.dollars, "error": error,
        }  # fmt: skip
        if self.texts and (replayed or error):
            line["messages"] = [[message.role, message.content] for message in request.messages]
            line |= {"schema": request.schema, "answer": found.text}
        self._pending.append(line)
        if len(self._pending) >= _PENDING:
            self.flush()

    def flush(self) -> None:
        """Write what is pending."""
        self.record.lines(FILE, self._pending)
        self._pending = []


Add = Callable[[Request, Reply | None, float, str | None], None]


def noted(llm: LLM, add: Add) -> LLM:
    """Models whose calls are told, as `CallLog.add` takes them."""
    if isinstance(llm, Roles):
        return Roles(**{role: _Noted(model, add) for role, model in llm.models.items()})
    return _Noted(llm, add)


class _Noted(Wrapper):
    def __init__(self, inner: LLM, add: Add) -> None:
        super().__init__(inner)
        self.add = add

    async def complete(self, request: Request) -> Reply:
        at = time.time()
        try:
            reply = await self.inner.complete(request)
        except RowError as error:
            self.add(request, error.spent if isinstance(error.spent, Reply) else None, at, str(error))
            raise
        self.add(request, reply, at, None)
        return reply


def read_calls(folder: Path) -> list[dict[str, Any]]:
    """The calls of a run in the order in which they ended; none if none were entered."""
    return read_lines(folder, FILE)


def as_exchange(line: dict[str, Any]) -> Exchange | None:
    """What was asked and answered, where the line has it."""
    if "messages" not in line:
        return None
    messages = tuple(Message(role, content) for role, content in line["messages"])
    request = Request(role="", messages=messages, schema=line["schema"], step=line["step"])
    reply = Reply(
        text=line["answer"], usage=Usage(line["tokens_in"], line["tokens_cached"], line["tokens_out"]),
        seconds=line["seconds"], call_id=line["call"] or "", model=line["model"] or "", dollars=line["dollars"],
    )  # fmt: skip
    return Exchange(request, reply, line["model"] or "", "", line["at"] + line["took"])


def read_answers(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """What was asked about and answered, an item a row, by step."""
    return {step: read_rows(folder, "answers", step) for step in recorded_steps(folder, "answers")}


@contextmanager
def exchanges(run: Run, path: Path | str | None = None) -> Iterator[Callable[[str], Exchange | None]]:
    """The calls that the run's journal still has, or that its record keeps itself, by id. `path` names another journal."""
    kept = {line["call"]: found for line in read_calls(run.folder) if (found := as_exchange(line)) is not None}
    path = path or run.facts.get("journal")
    if not path or not Path(path).exists():
        yield kept.get
        return
    opened = Journal(path, keep_days=None)
    try:
        yield lambda call: kept.get(call) or opened.exchange(call)
    finally:
        opened.close()
