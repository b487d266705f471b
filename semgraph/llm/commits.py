"""Writing to an SQLite file from an event loop: all that is written in one turn of the loop is one transaction."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

Statement = tuple[str, Sequence[Any]]

_LOCK_PATIENCE = 30.0
_LOCK_PAUSE = 0.02


class GroupCommit:
    """Collects statements and commits them together at the end of the current turn of the event loop.

    Committing stays on the loop's thread: in WAL mode it is a short write without fsync, cheaper than handing it to
    another. While another process holds the file's lock, the loop goes on and the commit is tried again.

    Args:
        database: A connection in autocommit mode (`isolation_level=None`) with a short busy timeout.
        explain: Makes the error that waiters get from SQLite's.
    """

    def __init__(self, database: sqlite3.Connection, explain: Callable[[sqlite3.Error], Exception]) -> None:
        self._database, self._explain = database, explain
        self._lock = threading.RLock()
        self._pending: list[Statement] = []
        self._committed: asyncio.Future[None] | None = None
        self._locked_since: float | None = None

    def add(self, statements: Sequence[Statement]) -> asyncio.Future[None]:
        """Write these soon, all or none.

        Returns:
            A future that is done when they are committed, shared by all of the same turn: await it behind `shield`.
            If they cannot be written it raises, and they are kept for the next commit, or for `flush`.
        """
        self._pending.extend(statements)
        loop = asyncio.get_running_loop()
        # A loop that ended before its turn did has left a future that nobody will set.
        if self._committed is None or self._committed.get_loop() is not loop:
            self._committed = loop.create_future()
            # Nobody may be waiting any more when it fails.
            self._committed.add_done_callback(lambda done: done.cancelled() or done.exception())
            loop.call_soon(self._commit)
        return self._committed

    def flush(self) -> None:
        """Commit now what is pending. Raises SQLite's errors."""
        if self._pending:
            with self.transaction() as database:
                for sql, values in self._pending:
                    database.execute(sql, values)
            self._pending = []
        self._done(None)

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """A transaction of its own that has the write lock from its beginning."""
        with self._lock:
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield self._database
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise

    def _commit(self) -> None:
        if self._committed is None:
            return
        try:
            self.flush()
        except sqlite3.Error as error:
            if is_locked(error) and self._patient():
                asyncio.get_running_loop().call_later(_LOCK_PAUSE, self._commit)
            else:
                self._done(self._explain(error))

    def _patient(self) -> bool:
        self._locked_since = self._locked_since or time.monotonic()
        return time.monotonic() - self._locked_since < _LOCK_PATIENCE

    def _done(self, error: Exception | None) -> None:
        committed, self._committed, self._locked_since = self._committed, None, None
        if committed is None or committed.done() or committed.get_loop().is_closed():
            return
        if error is None:
            committed.set_result(None)
        else:
            committed.set_exception(error)


def is_locked(error: sqlite3.Error) -> bool:
    """Whether another connection holds the file at the moment."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
