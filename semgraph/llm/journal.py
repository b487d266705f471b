"""The journal: a cache of paid answers and vectors in one SQLite file."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from semgraph.errors import RowError, SemgraphError
from semgraph.formats import plural
from semgraph.llm.base import (
    LLM,
    Embedder,
    Embeddings,
    Message,
    Reply,
    Request,
    Usage,
    Vectors,
    Wrapper,
    comparable,
    cut,
)
from semgraph.privacy import create_private, refusal

# Whether the requests of this context ignore recorded answers; new ones are recorded.
FRESH: ContextVar[bool] = ContextVar("FRESH", default=False)
# "sgj1": identifies the format for other programs.
_APPLICATION_ID = 0x73676A31
_VERSION = 2  # since 2, keys depend on the partition
_OPEN_SECONDS = 10.0
_BUSY_MS = 20
_LOCK_SECONDS = 30.0
_LOCK_PAUSE = 0.02

_TABLES = f"""
CREATE TABLE IF NOT EXISTS texts (hash BLOB PRIMARY KEY, text NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
    id INTEGER PRIMARY KEY, key BLOB NOT NULL, call_id TEXT NOT NULL UNIQUE, model TEXT NOT NULL, scope TEXT NOT NULL,
    partition NOT NULL, step TEXT NOT NULL, created REAL NOT NULL, rules BLOB NOT NULL, schema BLOB NOT NULL,
    usage TEXT NOT NULL, seconds REAL NOT NULL, dollars REAL, attempts INTEGER NOT NULL, said_model TEXT NOT NULL,
    finish TEXT NOT NULL, answer NOT NULL, request NOT NULL, logprobs TEXT
);
CREATE INDEX IF NOT EXISTS answers_key ON answers (key);
CREATE INDEX IF NOT EXISTS answers_partition ON answers (partition);
CREATE INDEX IF NOT EXISTS answers_created ON answers (created);
CREATE TABLE IF NOT EXISTS vectors (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, partition NOT NULL, created REAL NOT NULL, vector BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS vectors_partition ON vectors (partition);
CREATE INDEX IF NOT EXISTS vectors_created ON vectors (created);
CREATE TABLE IF NOT EXISTS batches (token TEXT PRIMARY KEY, id TEXT, model TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS batched (key BLOB PRIMARY KEY, token TEXT NOT NULL);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
"""

_BATCH_DAYS = 30  # OpenAI keeps the files for this long


class JournalLocked(SemgraphError):
    """Another process holds the journal."""


def open_journal(path: Path, patience: float = _OPEN_SECONDS) -> sqlite3.Connection:
    """Open or create a journal file: WAL mode, autocommit, readable only by its owner. Raises
    JournalLocked if another process held the lock for `patience` seconds, and SemgraphError if the
    file cannot be opened, is damaged, or is not a journal.
    """
    try:
        create_private(path)
    except OSError as error:
        what = f"{path}: the journal cannot be opened ({refusal(path.parent, error)})"
        raise SemgraphError(f"{what}. {_CHOOSE}") from error
    wait = min(patience, _OPEN_SECONDS)
    database = sqlite3.connect(path, timeout=wait, isolation_level=None, check_same_thread=False)
    try:
        _prepare(database, path)
    except BaseException as error:
        database.close()
        if isinstance(error, sqlite3.Error):
            raise problem(error, path) from error
        raise
    return database


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    database.execute("BEGIN")  # one snapshot of all three: another process may be creating the file
    application = database.execute("PRAGMA application_id").fetchone()[0]
    tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master")}
    version = database.execute("PRAGMA user_version").fetchone()[0]
    database.execute("COMMIT")
    if tables and (application, version) != (_APPLICATION_ID, _VERSION):
        what = "an SQLite file, but not a semgraph journal"
        if application == _APPLICATION_ID:
            what = (
                f"a journal of another version of semgraph ({version}; this one writes {_VERSION})"
            )
        raise SemgraphError(f"{path} is {what}; it was not changed. {_CHOOSE}")
    database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("PRAGMA secure_delete = ON")
    if "batched" not in tables:  # journals of earlier releases have none
        database.executescript(f"BEGIN IMMEDIATE; {_TABLES} COMMIT;")
    # From now on callers retry locked statements themselves, without blocking an event loop.
    database.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")


def shrink(database: sqlite3.Connection) -> None:
    """Free the space of deleted rows, and overwrite the log, which may still hold them."""
    database.execute("PRAGMA incremental_vacuum").fetchall()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


_CHOOSE = "Name another file for the journal, or switch it off (semgraph.toml, [journal]: path, keep_days = 0)"
_AGAIN = "then run again: earlier answers are kept"


def problem(error: sqlite3.Error, path: Path) -> SemgraphError:
    """The error to raise for an SQLite error."""
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        what = f"{path}: the disk is full, so answers cannot be recorded. Free some space, {_AGAIN}"
    elif code == sqlite3.SQLITE_IOERR:
        what = f"{path}: answers cannot be written to the disk ({error}). Free some space, {_AGAIN}"
    elif code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        what = (
            f"{path} is damaged or not a journal ({error}); it was not changed. Move it away to begin a new one: "
            "no store depends on it, but its answers are paid for again"
        )
    elif is_locked(error):
        return JournalLocked(f"{path}: another process keeps the journal locked. End it, {_AGAIN}")
    elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        what = f"{path}: the journal cannot be written ({error}). {_CHOOSE}"
    else:
        what = f"{path}: the journal cannot be used ({error}). {_CHOOSE}"
    return SemgraphError(what)


Statement = tuple[str, Sequence[Any]]
_Pending = tuple[Sequence[Statement], "asyncio.Future[Any]"]
# SQLite raises these for rejected values; other errors concern the file.
_DATA = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError)
_REJECTED = (*_DATA, OverflowError, ValueError)


class GroupCommit:
    """Collects statements and commits them together at the end of the current turn of the event
    loop.

    Commits stay on the loop's thread: in WAL mode a commit is a short write without fsync, cheaper
    than a thread switch. While another process locks the file, the commit is retried without
    blocking the loop. The connection is in autocommit mode and has a short busy timeout. `explain`
    translates an SQLite error into the error that waiters get.
    """

    def __init__(
        self, database: sqlite3.Connection, explain: Callable[[sqlite3.Error], Exception]
    ) -> None:
        self._database, self._explain = database, explain
        self._lock = threading.RLock()
        self._pending: list[_Pending] = []
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop of the scheduled commit
        self._locked_since: float | None = None

    def add(self, statements: Sequence[Statement]) -> asyncio.Future[Any]:
        """Write these statements soon, all or none.

        Returns a future with the first row that the last statement returns. It is done after the
        commit: await it behind `shield`. It raises if the statements cannot be written: only the
        ones that SQLite rejects are dropped, others stay pending for the next commit or `flush`.
        """
        loop = asyncio.get_running_loop()
        done = loop.create_future()
        # Mark its exception retrieved: the caller may be gone when it fails.
        done.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._pending.append((statements, done))
        if self._loop is not loop:  # a loop may have ended before its turn did
            self._loop = loop
            loop.call_soon(self._commit)
        return done

    def flush(self) -> None:
        """Commit pending statements now. Raises SQLite's errors, except errors of single
        statements.
        """
        pending, rows = list(self._pending), list[Any]()
        if pending:
            with self.transaction() as database:
                rows = [_written(database, statements) for statements, _ in pending]
        del self._pending[: len(pending)]
        self._done(pending, rows)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A separate transaction, which holds the write lock from its start."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            with self._database:
                yield self._database

    def _commit(self) -> None:
        if self._loop is None:
            return
        try:
            self.flush()
        except sqlite3.Error as error:
            now = time.monotonic()
            self._locked_since = self._locked_since or now
            if is_locked(error) and now - self._locked_since < _LOCK_SECONDS:
                asyncio.get_running_loop().call_later(_LOCK_PAUSE, self._commit)
            else:
                self._done(self._pending, [self._explain(error)] * len(self._pending))

    def _done(self, pending: Sequence[_Pending], results: Sequence[Any]) -> None:
        self._loop = self._locked_since = None
        for (_, done), result in zip(pending, results, strict=True):
            if not done.done() and not done.get_loop().is_closed():
                failed = isinstance(result, Exception)
                (done.set_exception if failed else done.set_result)(result)


def _written(database: sqlite3.Connection, statements: Sequence[Statement]) -> Any:
    """Execute statements, all or none. Returns the last one's first row, or the error."""
    database.execute("SAVEPOINT one")
    row = None
    try:
        for sql, values in statements:
            row = next(iter(database.execute(sql, values).fetchall()), None)
    except _REJECTED as error:
        database.execute("ROLLBACK TO one")
        row = SemgraphError(f"the journal cannot record {statements[-1][1]!r:.200}: {error}")
    database.execute("RELEASE one")
    return row


def is_locked(error: sqlite3.Error) -> bool:
    """Whether the error means that another connection locks the file."""
    return _code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def size_on_disk(path: Path) -> int:
    """The bytes of a journal's file and log; 0 if it does not exist."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())


def counted(answers: int, vectors: int) -> str:
    """Counts of answers and vectors, for messages."""
    return f"{plural(answers, 'answer')} and {plural(vectors, 'vector')} of the journal"


T = TypeVar("T")

_INSERT_ANSWER = """
INSERT INTO answers (key, call_id, model, scope, partition, step, created, request, rules, schema, answer, usage,
                     seconds, dollars, attempts, said_model, finish, logprobs)
VALUES (?1, CASE WHEN ?2 = '' OR EXISTS (SELECT 1 FROM answers WHERE call_id = ?2)
            THEN lower(hex(randomblob(16))) ELSE ?2 END, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
RETURNING call_id
"""
_INSERT_TEXT = "INSERT OR IGNORE INTO texts (hash, text) VALUES (?, ?)"
_INSERT_VECTOR = "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?, ?)"
_DELETE_BATCHED = "DELETE FROM batched WHERE key = ?"
_WITHDRAW = "UPDATE answers SET key = x'' WHERE call_id = ?"
_REPLY = "call_id, answer, usage, seconds, dollars, said_model, finish, logprobs"


@dataclass(frozen=True)
class Exchange:
    """A request and its reply, as issued."""

    request: Request
    reply: Reply
    model: str
    scope: str
    created: float


@dataclass(frozen=True)
class SubmittedBatch:
    """A batch of requests whose answers are not in the journal yet."""

    token: str  # its name in the endpoint's metadata
    id: str | None  # the endpoint's; None if the process ended before it was recorded
    model: str
    created: float
    keys: tuple[str, ...]  # of the unanswered requests


class OwnText(NamedTuple):
    """A text of a partition."""

    partition: str
    text: str


class Journal:
    """Answers and vectors by request, model, scope and partition. Partitions share none of them.
    Several processes may use one file.

    The file holds the user's text: only its owner can read it, each row names its partition so that
    `prune` can delete it, and deleted text is overwritten. Errors are not recorded. A committed
    answer survives the end of the process; a power failure may lose the last ones.

    Rows older than `keep_days` are deleted when it is opened, and `notes` has their number. Raises
    as `open_journal`.
    """

    def __init__(
        self, path: Path | str, keep_days: float | None = None, patience: float = _LOCK_SECONDS
    ) -> None:
        self.path = Path(path)
        self._database = open_journal(self.path, patience)
        self._commits = GroupCommit(self._database, lambda error: problem(error, self.path))
        self._closed = False
        self.notes: list[str] = []
        try:
            if keep_days is not None:
                before = time.time() - keep_days * 86400
                deleted = self._now(partial(self._delete, before, None), patience)
                if any(deleted):
                    self._now(partial(shrink, self._database), patience)
                    note = f"{counted(*deleted)} deleted, older than keep_days = {keep_days}"
                    self.notes.append(note)
        except BaseException:
            self._database.close()
            raise

    async def find(self, request: Request, model: str, scope: str = "") -> Reply | None:
        """The newest answer to an equal request of the same partition to this model in this scope,
        or None.
        """
        sql = f"SELECT {_REPLY} FROM answers WHERE key = ? ORDER BY id DESC LIMIT 1"
        key = answer_key(request, model, scope)
        row = await self._soon(lambda: self._database.execute(sql, (key,)).fetchone())
        return None if row is None else replace(_reply(row), origin="journal", attempts=0)

    async def record(self, request: Request, reply: Reply, model: str, scope: str = "") -> Reply:
        """Record an answer; return it after the commit. A cancelled caller does not stop the write.
        The answer gets a new id if the model gave none, or the id of an earlier answer.

        Raises SemgraphError if it could not be written (disk full, ...): it is written with the
        next one, or at `close`.
        """
        texts, answer = _answer_rows(request, reply, model, scope)
        statements = [(_INSERT_TEXT, text) for text in texts]
        statements += [(_DELETE_BATCHED, answer[:1]), (_INSERT_ANSWER, answer)]
        (own,) = await asyncio.shield(self._commits.add(statements))
        return reply if own == reply.call_id else replace(reply, call_id=own)

    def withdraw(self, calls: Iterable[str]) -> None:
        """Never serve these answers again, because they are unusable. `exchange` still returns
        them. Written at the end of the loop's turn, or at `close`.
        """
        if statements := [(_WITHDRAW, (call,)) for call in calls]:
            self._commits.add(statements)

    async def knows(self, model: str) -> bool:
        """Whether the journal has an answer or a vector of this model, in any scope."""
        sql = (
            "SELECT EXISTS (SELECT 1 FROM answers WHERE model = ?1) "
            "OR EXISTS (SELECT 1 FROM vectors WHERE model = ?1 OR instr(model, ?1 || ' ') = 1)"
        )
        return bool(await self._soon(lambda: self._database.execute(sql, (model,)).fetchone()[0]))

    async def find_vectors(self, texts: Iterable[OwnText], model: str) -> dict[OwnText, Vectors]:
        """The recorded vectors of these texts within their partitions, each of shape (dimensions,)."""
        keys = {_vector_key(text, model): text for text in texts}
        sql = "SELECT vector FROM vectors WHERE key = ?"

        def find() -> list[Any]:
            return [self._database.execute(sql, (key,)).fetchone() for key in keys]

        rows = zip(keys.values(), await self._soon(find), strict=True)
        return {text: np.frombuffer(row[0], dtype="<f4") for text, row in rows if row}

    async def record_vectors(self, vectors: Mapping[OwnText, Vectors], model: str) -> None:
        """Record the vectors of texts of partitions. Raises as `record` does."""
        now, rows = time.time(), list[Statement]()
        for text, vector in vectors.items():
            key, partition = _vector_key(text, model), _text(text.partition)
            row = (key, model, partition, now, vector.astype("<f4").tobytes())
            rows.append((_INSERT_VECTOR, row))
        await asyncio.shield(self._commits.add(rows))

    def exchange(self, call_id: str) -> Exchange | None:
        """The request and reply of one call, or None if the journal does not have it (any more)."""
        more = "request, attempts, model, scope, partition, step, created, r.text, s.text"
        joins = "LEFT JOIN texts r ON r.hash = rules LEFT JOIN texts s ON s.hash = answers.schema"
        sql = f"SELECT {_REPLY}, {more} FROM answers {joins} WHERE call_id = ?"
        row = self._now(lambda: self._database.execute(sql, (call_id,)).fetchone())
        return None if row is None else _exchange(row)

    def issued_since(self, created: float) -> list[tuple[str, Reply]]:
        """The answers issued since a time (seconds since the epoch), each with its step."""
        sql = f"SELECT step, attempts, {_REPLY} FROM answers WHERE created >= ? ORDER BY id"
        rows = self._now(lambda: self._database.execute(sql, (created,)).fetchall())
        return [(step, replace(_reply(row), attempts=attempts)) for step, attempts, *row in rows]

    async def submit(self, token: str, model: str, keys: Iterable[str]) -> None:
        """Record a batch before its submission; return after the commit. A key of an earlier batch
        moves to this one. Raises SemgraphError.
        """
        batch = "INSERT INTO batches (token, model, created) VALUES (?, ?, ?)"
        line = "INSERT OR REPLACE INTO batched (key, token) VALUES (?, ?)"
        lines = ((line, (bytes.fromhex(key), token)) for key in keys)
        await asyncio.shield(self._commits.add([(batch, (token, model, time.time())), *lines]))

    async def submitted(self, token: str, id_: str) -> None:
        """Record the endpoint's id of a batch. Raises SemgraphError."""
        update = "UPDATE batches SET id = ? WHERE token = ?"
        await asyncio.shield(self._commits.add([(update, (id_, token))]))

    def not_answered(self, keys: Iterable[str]) -> None:
        """Forget that requests are in a batch: a later run resends them. Written as by `withdraw`."""
        self._commits.add([(_DELETE_BATCHED, (bytes.fromhex(key),)) for key in keys])

    async def open_batches(self) -> list[SubmittedBatch]:
        """The batches with requests without a recorded answer, oldest first. Old batches are
        deleted: the endpoint has deleted their files. Raises SemgraphError.
        """
        batches: dict[tuple[str, str | None, str, float], list[str]] = {}
        for *batch, key in await self._soon(self._open_batches):
            batches.setdefault((*batch,), []).append(key.hex())
        return [SubmittedBatch(*batch, tuple(keys)) for batch, keys in batches.items()]

    async def prune(
        self, before: float | None, partitions: Iterable[str] | None = None
    ) -> tuple[int, int]:
        """Delete and overwrite the answers and vectors that were recorded before a time (None: all)
        for these partitions (None: all); return the number of each. Raises SemgraphError; then
        nothing was deleted.
        """
        names = None if partitions is None else list(partitions)
        deleted = await self._soon(partial(self._delete, before, names))
        if any(deleted):
            await self._soon(partial(shrink, self._database))
        return deleted

    def close(self) -> None:
        """Write pending statements and close the file. Safe to call twice. Raises SemgraphError."""
        if not self._closed:
            self._closed = True
            try:
                self._now(self._commits.flush)
            finally:
                self._database.close()

    def _delete(self, before: float | None, partitions: Sequence[str] | None) -> tuple[int, int]:
        time_ = math.inf if before is None else before
        values = [(time_,)] if partitions is None else [(time_, _text(name)) for name in partitions]
        condition = "created < ?" + " AND partition = ?" * (partitions is not None)
        self._commits.flush()
        with self._commits.transaction() as database:
            answers, vectors = (
                database.executemany(f"DELETE FROM {table} WHERE {condition}", values).rowcount
                for table in ("answers", "vectors")
            )
            if answers:
                used = "SELECT rules FROM answers UNION SELECT schema FROM answers"
                database.execute(f"DELETE FROM texts WHERE hash NOT IN ({used})")
        return answers, vectors

    def _open_batches(self) -> list[Any]:
        """The token, id, model, time and key of each batched request without a recorded answer."""
        self._commits.flush()
        with self._commits.transaction() as database:
            oldest = time.time() - _BATCH_DAYS * 86400
            database.execute("DELETE FROM batches WHERE created < ?", (oldest,))
            database.execute(
                "DELETE FROM batched WHERE EXISTS (SELECT 1 FROM answers, batches WHERE answers.key = batched.key "
                "AND batches.token = batched.token AND answers.created >= batches.created)"
            )
            database.execute("DELETE FROM batched WHERE token NOT IN (SELECT token FROM batches)")
            database.execute("DELETE FROM batches WHERE token NOT IN (SELECT token FROM batched)")
            return database.execute(
                "SELECT token, id, model, created, key FROM batches JOIN batched USING (token) ORDER BY created"
            ).fetchall()

    async def _soon(self, action: Callable[[], T]) -> T:
        """Run an action. While another process locks the file, wait without blocking the loop."""
        until = time.monotonic() + _LOCK_SECONDS
        while not (done := self._tried(action, until)):  # noqa: ASYNC110 - another process holds the file
            await asyncio.sleep(_LOCK_PAUSE)
        return done[0]

    def _now(self, action: Callable[[], T], patience: float = _LOCK_SECONDS) -> T:
        """Run an action outside of an event loop: it blocks while another process locks the file."""
        until = time.monotonic() + patience
        while not (done := self._tried(action, until)):
            time.sleep(_LOCK_PAUSE)
        return done[0]

    def _tried(self, action: Callable[[], T], until: float) -> tuple[T] | None:
        """The action's result; None if another process locks the file. Raises SemgraphError."""
        try:
            return (action(),)
        except sqlite3.Error as error:
            if not is_locked(error) or time.monotonic() > until:
                raise problem(error, self.path) from error
            return None


class Journalled(Wrapper):
    """Serves recorded answers, unless `fresh`, and records new ones before they are used. Answers
    are shared only within a `scope`: each variant of a comparison has its own.
    """

    def __init__(
        self, inner: LLM | Embedder, journal: Journal, scope: str = "", fresh: bool = False
    ) -> None:
        super().__init__(inner)
        self.journal, self.scope, self.fresh = journal, scope, fresh
        self._lengths = Counter[int]()  # the number of vectors of each length

    async def complete(self, request: Request) -> Reply:
        """Answer one request, from the journal if possible; a truncated answer is an error."""
        if not (self.fresh or FRESH.get()):
            recorded = await self.journal.find(request, self.name, self.scope)
            if recorded is not None and recorded.finish == "length" and not request.words:
                raise cut(request, recorded)
            if recorded is not None and (recorded.logprobs or not request.words):
                return recorded
        try:
            reply: Reply = await self.inner.complete(request)
        except RowError as error:
            if error.kind == "truncated" and isinstance(error.spent, Reply):
                error.spent = await self._record(request, error.spent)
            raise
        return await self._record(request, reply)

    async def _record(self, request: Request, reply: Reply) -> Reply:
        try:
            return await self.journal.record(request, reply, self.name, self.scope)
        except asyncio.CancelledError:  # the answer is paid and will be in the file: count it too
            return reply

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:
        """Embed distinct texts, with vectors from the journal if possible."""
        model = f"{self.name} {self.scope}" if self.scope else self.name
        own = [OwnText(partition, text) for text in texts]
        found = {} if self.fresh else await self.journal.find_vectors(own, model)
        vectors = {text: v for text, v in found.items() if v.any() and np.isfinite(v).all()}
        self._lengths.update(map(len, vectors.values()))  # if lengths conflict, recorded ones win
        missing = [text for text in own if text not in vectors]
        done = Embeddings(np.empty((0, 0), np.float32))
        if missing:
            done = await self.inner.embed([text.text for text in missing], partition)
            vectors |= zip(missing, done.vectors, strict=True)
        new, errors = set(missing), {own.index(missing[i]): done.failed[i] for i in done.failed}
        joined, failed = comparable((vectors[text] for text in own), self._lengths, errors)
        # NaN replaces a recorded vector of the wrong length: a later run requests it again.
        changed = {text: joined[i] for i, text in enumerate(own) if (text in new) != (i in failed)}
        if changed:
            await self.journal.record_vectors(changed, model)
        replayed = tuple(i for i, text in enumerate(own) if text not in new)
        return replace(done, vectors=joined, failed=failed, replayed=replayed)


def answer_key(request: Request, model: str, scope: str) -> bytes:
    """The key of an answer, from the request, the model, the scope and the partition."""
    return _key(f"{request.fingerprint}\n{model}\n{scope}", request.partition)


def _vector_key(text: OwnText, model: str) -> bytes:
    return _key(f"{model}\n{text.text}", text.partition)


def _key(text: str, partition: str) -> bytes:
    """The stored key of an answer or vector: of its content, then of its partition."""
    content, owner = (each.encode("utf-8", "surrogatepass") for each in (text, partition))
    return _digest(_digest(content) + owner)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()


@lru_cache(maxsize=512)
def _hashed(text: str) -> tuple[bytes, str | bytes]:
    """The key of a shared text in the table of texts, and the text as stored."""
    return _digest(text.encode("utf-8", "surrogatepass")), _text(text)


def _text(text: str) -> str | bytes:
    """A text as SQLite stores it: lone surrogates are stored as bytes."""
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
    """The rows to write: the shared texts (system messages and schema), and the answer."""
    messages, first = request.messages, request.static
    rules = _hashed(json.dumps([message.content for message in messages[:first]]))
    schema = _hashed(request.schema)
    rest = [(message.role, message.content) for message in messages[first:]]
    fields = [request.role, request.max_tokens, request.params, request.trial, rest]
    fields += [request.words] if request.words or request.sample else []
    fields += [request.sample] if request.sample else []
    own = json.dumps(fields, ensure_ascii=False)
    usage = f"{reply.usage.prompt} {reply.usage.cached} {reply.usage.completion}"
    answer = (
        answer_key(request, model, scope), reply.call_id, model, scope, _text(request.partition), request.step,
        time.time(), _text(own), rules[0], schema[0], _text(reply.text), usage, reply.seconds, reply.dollars,
        reply.attempts, reply.model, reply.finish, json.dumps(reply.logprobs) if reply.logprobs else None,
    )  # fmt: skip
    return [rules, schema], answer


def _reply(row: Sequence[Any]) -> Reply:
    call_id, answer, usage, seconds, dollars, model, finish, logprobs = row
    return Reply(
        text=_str(answer),
        usage=Usage(*map(int, usage.split())),
        seconds=seconds,
        call_id=call_id,
        model=model,
        dollars=dollars,
        finish=finish,
        logprobs=tuple(json.loads(logprobs or "[]")),
    )


def _exchange(row: Sequence[Any]) -> Exchange:
    own, attempts, model, scope, partition, step, created, rules, schema = row[8:]
    role, max_tokens, params, trial, rest, *more = json.loads(_str(own))
    system = [Message("system", content) for content in json.loads(_str(rules))]
    request = Request(
        role=role,
        messages=(*system, *(Message(who, content) for who, content in rest)),
        schema=_str(schema),
        max_tokens=max_tokens,
        params=tuple((key, value) for key, value in params),
        trial=trial,
        words=tuple(more[0]) if more else (),
        sample=more[1] if len(more) > 1 else 0,
        partition=_str(partition),
        step=step,
    )
    return Exchange(request, replace(_reply(row[:8]), attempts=attempts), model, scope, created)
