"""The journal: every answer that was paid for, kept in one SQLite file, so that it is never paid for again."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from semgraph.llm.base import LLM, Message, Reply, Request, Usage, Vectors
from semgraph.llm.commits import GroupCommit, is_locked
from semgraph.llm.journal_file import key_in_partition, open_journal, problem, shrink
from semgraph.llm.wrapper import Wrapper

T = TypeVar("T")

_INSERT_ANSWER = """
INSERT INTO answers (key, call_id, model, scope, partition, step, created, request, rules, schema, answer, usage,
                     seconds, dollars, attempts, said_model, finish, logprobs)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_TEXT = "INSERT OR IGNORE INTO texts (hash, text) VALUES (?, ?)"
_INSERT_VECTOR = "INSERT OR REPLACE INTO vectors (key, model, partition, created, vector) VALUES (?, ?, ?, ?, ?)"
_WITHDRAW = "UPDATE answers SET key = x'' WHERE call_id = ?"
_REPLY = "call_id, answer, usage, seconds, dollars, said_model, finish, logprobs"
_AT_ONCE = 500
_PATIENCE = 30.0


@dataclass(frozen=True)
class Exchange:
    """What was asked and what was answered. `reply` is as it was when it was issued."""

    request: Request
    reply: Reply
    model: str
    scope: str
    created: float


class OwnText(NamedTuple):
    """A text of a partition."""

    partition: str
    text: str


class Journal:
    """Answers and vectors by what was asked, of which model, in which scope, by which partition. No partition is served
    what another one asked for. Several processes may use one file.

    The file holds text of the user's: it is readable by its owner only, each row knows its partition so that `forget`
    can delete it, deleted text is overwritten, and rows leave after `keep_days`. Only answers are kept, never errors.
    A committed answer survives the death of the process; the last ones before a power failure may be paid again.

    Args:
        path: The file; it and its folder are made if they are not there.
        keep_days: Rows older than this are deleted now; None keeps all.
        patience: Seconds to wait while another process holds the file.

    Raises:
        JournalLocked: Another process held the file all the time.
        SemgraphError: The file cannot be opened, is damaged, or is not a journal.
    """

    def __init__(self, path: Path | str, keep_days: float | None = 30, patience: float = _PATIENCE) -> None:
        self.path = Path(path)
        self._patience = patience
        self._database = open_journal(self.path, patience)
        self._commits = GroupCommit(self._database, lambda error: problem(error, self.path))
        self._closed = False
        try:
            if keep_days is not None:
                oldest = time.time() - keep_days * 86400
                self._delete("created < ?", [(oldest,)])
        except BaseException:
            self._database.close()
            raise
        self._patience = _PATIENCE

    async def find(self, request: Request, model: str, scope: str = "") -> Reply | None:
        """The newest answer to an equal request of the same partition to this model in this scope, or None."""
        sql = f"SELECT {_REPLY} FROM answers WHERE key = ? ORDER BY id DESC LIMIT 1"
        key = _answer_key(request, model, scope)
        row = await self._read(lambda: self._database.execute(sql, (key,)).fetchone())
        return None if row is None else replace(_reply(row), origin="journal", attempts=0)

    async def record(self, request: Request, reply: Reply, model: str, scope: str = "") -> None:
        """Keep an answer; returns when it is in the file. It is kept also if the caller is cancelled meanwhile.

        Raises:
            SemgraphError: It could not be written (disk full, ...). It is tried again with the next one, and at `close`.
        """
        texts, answer = _answer_rows(request, reply, model, scope)
        await asyncio.shield(self._commits.add([*((_INSERT_TEXT, text) for text in texts), (_INSERT_ANSWER, answer)]))

    def withdraw(self, calls: Iterable[str]) -> None:
        """Never serve these answers again: they turned out to be of no use. What was asked and answered stays readable.

        Written with what is written next, at the end of the loop's turn, or at `close`.
        """
        if statements := [(_WITHDRAW, (call,)) for call in calls]:
            self._commits.add(statements)

    async def find_vectors(self, texts: Iterable[OwnText], model: str) -> dict[OwnText, Vectors]:
        """The vectors that are known of these texts within their partitions, each of shape (dimensions,)."""
        keys = {_vector_key(text, model): text for text in texts}
        found: dict[OwnText, Vectors] = {}
        for part in _parts(list(keys)):
            sql = f"SELECT key, vector FROM vectors WHERE key IN ({','.join('?' * len(part))})"
            rows = await self._read(lambda sql=sql, part=part: self._database.execute(sql, part).fetchall())  # type: ignore[misc]
            found.update((keys[key], np.frombuffer(vector, dtype="<f4")) for key, vector in rows)
        return found

    async def record_vectors(self, vectors: Mapping[OwnText, Vectors], model: str) -> None:
        """Keep the vectors of texts of partitions. Raises as `record` does."""
        now = time.time()
        rows = [
            (_vector_key(text, model), model, _text(text.partition), now, vector.astype("<f4").tobytes())
            for text, vector in vectors.items()
        ]
        await asyncio.shield(self._commits.add([(_INSERT_VECTOR, row) for row in rows]))

    def exchange(self, call_id: str) -> Exchange | None:
        """What was asked and answered in one call, or None if the journal does not have it (any more)."""
        columns = f"{_REPLY}, request, attempts, model, scope, partition, step, created, r.text, s.text"
        joins = "LEFT JOIN texts r ON r.hash = rules LEFT JOIN texts s ON s.hash = answers.schema"
        sql = f"SELECT {columns} FROM answers {joins} WHERE call_id = ?"
        row = self._now(lambda: self._database.execute(sql, (call_id,)).fetchone())
        return None if row is None else _exchange(row)

    def forget(self, partitions: Iterable[str]) -> int:
        """Delete all rows of these partitions and overwrite what they held. Returns how many rows there were.

        Raises:
            SemgraphError: Another process holds the file, or it cannot be written; nothing was deleted.
        """
        return self._delete("partition = ?", [(_text(partition),) for partition in partitions])

    def close(self) -> None:
        """Write what is pending and close the file. Safe to call twice.

        Raises:
            SemgraphError: Something is pending that still cannot be written.
        """
        if not self._closed:
            self._closed = True
            try:
                self._now(self._commits.flush)
            finally:
                self._database.close()

    def _delete(self, condition: str, values: Sequence[tuple[Any, ...]]) -> int:
        def delete() -> int:
            self._commits.flush()
            with self._commits.transaction() as database:
                gone = [
                    database.execute(f"DELETE FROM {table} WHERE {condition}", value).rowcount
                    for value in values
                    for table in ("answers", "vectors")
                ]
                if sum(gone):
                    database.execute(
                        "DELETE FROM texts WHERE hash NOT IN (SELECT rules FROM answers UNION SELECT schema FROM answers)"
                    )
            return sum(gone)

        count = self._now(delete)
        if count:
            self._now(lambda: shrink(self._database))
        return count

    async def _read(self, query: Callable[[], T]) -> T:
        """Run a query; wait without blocking the loop while another process holds the file (it rarely bars readers)."""
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                return query()
            except sqlite3.Error as error:
                if not is_locked(error) or time.monotonic() > until:
                    raise problem(error, self.path) from error
            await asyncio.sleep(0.02)

    def _now(self, action: Callable[[], T]) -> T:
        """Do something that is not for the event loop's hot path: it may wait for another process."""
        until = time.monotonic() + self._patience
        while True:
            try:
                return action()
            except sqlite3.Error as error:
                if not is_locked(error) or time.monotonic() > until:
                    raise problem(error, self.path) from error
            time.sleep(0.02)


class Journalled(Wrapper):
    """Answers from the journal what was answered before, and keeps what is answered now before it is used.

    Args:
        inner: The model.
        journal: The file.
        scope: Answers are shared within a scope only: the arms of a comparison have one each.
        fresh: Ask anew even what is known; the new answers are kept.
    """

    def __init__(self, inner: LLM, journal: Journal, scope: str = "", fresh: bool = False) -> None:
        super().__init__(inner)
        self.journal, self.scope, self.fresh = journal, scope, fresh

    async def complete(self, request: Request) -> Reply:
        """Answer one request, from the journal if it is there."""
        name = self.inner.name
        if not self.fresh:
            known = await self.journal.find(request, name, self.scope)
            if known is not None and (known.logprobs or not request.words):
                return known
        reply = await self.inner.complete(request)
        await self.journal.record(request, reply, name, self.scope)
        return reply


def _answer_key(request: Request, model: str, scope: str) -> bytes:
    asked = hashlib.blake2b(f"{request.fingerprint}\n{model}\n{scope}".encode(), digest_size=16).digest()
    return key_in_partition(asked, _text(request.partition))


def _vector_key(text: OwnText, model: str) -> bytes:
    embedded = hashlib.blake2b(f"{model}\n{text.text}".encode("utf-8", "surrogatepass"), digest_size=16).digest()
    return key_in_partition(embedded, _text(text.partition))


@lru_cache(maxsize=512)
def _hashed(text: str) -> tuple[bytes, str | bytes]:
    """A text that many requests have in common, with its key in the table of texts."""
    stored = _text(text)
    raw = stored if isinstance(stored, bytes) else stored.encode()
    return hashlib.blake2b(raw, digest_size=16).digest(), stored


def _text(text: str) -> str | bytes:
    """A text as SQLite takes it: half a surrogate pair is no text to it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def _str(stored: str | bytes) -> str:
    return stored if isinstance(stored, str) else stored.decode("utf-8", "surrogatepass")


def _answer_rows(
    request: Request, reply: Reply, model: str, scope: str
) -> tuple[list[tuple[Any, ...]], tuple[Any, ...]]:
    """The rows to write: shared texts (what stands before the first user message, and the schema), then the answer."""
    messages = request.messages
    first = next((i for i, message in enumerate(messages) if message.role != "system"), len(messages))
    rules = _hashed(json.dumps([message.content for message in messages[:first]]))
    schema = _hashed(request.schema)
    rest = [(message.role, message.content) for message in messages[first:]]
    words = [request.words] if request.words else []
    asked = json.dumps(
        [request.role, request.max_tokens, request.params, request.trial, rest, *words], ensure_ascii=False
    )
    usage = f"{reply.usage.prompt} {reply.usage.cached} {reply.usage.completion}"
    answer = (
        _answer_key(request, model, scope), reply.call_id, model, scope, _text(request.partition), request.step,
        time.time(), _text(asked), rules[0], schema[0], _text(reply.text), usage, reply.seconds, reply.dollars,
        reply.attempts, reply.model, reply.finish, json.dumps(reply.logprobs) if reply.logprobs else None,
    )  # fmt: skip
    return [rules, schema], answer


def _reply(row: Sequence[Any]) -> Reply:
    call_id, answer, usage, seconds, dollars, model, finish, logprobs = row
    prompt, cached, completion = map(int, usage.split())
    return Reply(
        text=_str(answer),
        usage=Usage(prompt, cached, completion),
        seconds=seconds,
        call_id=call_id,
        model=model,
        dollars=dollars,
        finish=finish,
        logprobs=tuple(json.loads(logprobs or "[]")),
    )


def _exchange(row: Sequence[Any]) -> Exchange:
    asked, attempts, model, scope, partition, step, created, rules, schema = row[8:]
    role, max_tokens, params, trial, rest, *words = json.loads(_str(asked))
    system = [Message("system", content) for content in json.loads(_str(rules))]
    request = Request(
        role=role,
        messages=(*system, *(Message(who, content) for who, content in rest)),
        schema=_str(schema),
        max_tokens=max_tokens,
        params=tuple((key, value) for key, value in params),
        trial=trial,
        words=tuple(words[0]) if words else (),
        partition=_str(partition),
        step=step,
    )
    return Exchange(request, replace(_reply(row[:8]), attempts=attempts), model, scope, created)


def _parts(keys: list[bytes]) -> Iterable[list[bytes]]:
    return (keys[i : i + _AT_ONCE] for i in range(0, len(keys), _AT_ONCE))
