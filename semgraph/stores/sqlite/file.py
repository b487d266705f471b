"""One connection to an SQLite file: used by one transaction at a time, off the event loop's thread
if it takes long.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from semgraph.errors import DataError, EngineError, StoreUnavailable
from semgraph.privacy import create_private, private_folder, refusal
from semgraph.stores.base import record_round_trip
from semgraph.stores.sqlite.values import add_labels, list_holds, lists_meet, partition_words, unite
from semgraph.turns import Turns

T = TypeVar("T")
_OLDEST = (3, 35)
_PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
_ANOTHER = "another file: --store sqlite:PATH, or SEMGRAPH_STORE"
_MESSAGES = {
    "FULL": "has no room to grow: the disk is full. Free some space and run again",
    "READONLY": f"is read-only for this user. Allow writing to the file and its folder, or name {_ANOTHER}",
    "CANTOPEN": f"cannot be opened. Check that its folder is there and that this user may write to it, or name {_ANOTHER}",
    "NOTADB": "is not an SQLite file. Name another file",
    "CORRUPT": "is damaged. Restore it from a copy, or name another file",
    "IOERR": "cannot be read or written: the disk reports an error",
    "PROTOCOL": "is locked by another program in a way that SQLite cannot wait for",
    "NOLFS": "has grown past what this file system takes",
}


class _Busy(Exception):
    """Another process holds the lock."""


def _translated(error: sqlite3.Error, store: str) -> Exception:
    code = getattr(error, "sqlite_errorname", "")
    family = code.removeprefix("SQLITE_").split("_")[0]
    if family in ("BUSY", "LOCKED"):
        return _Busy()
    if family in _MESSAGES:
        return StoreUnavailable(f"{store}  {_MESSAGES[family]}. ({error}) Nothing was written.")
    return EngineError(
        f"{store}  SQLite rejected a statement: {error} ({code or type(error).__name__})"
    )


class File:
    """A file, or a database in memory, and the one connection to it.

    Args:
        path: Of the file; ":memory:" for none.
        name: What to call it in messages.
    """

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name
        self.round_trips = 0
        self._con: sqlite3.Connection | None = None
        self.observer: Callable[[str], None] | None = None
        self._lock = Turns()
        self.in_file = (
            False  # whether what is open is the file, and no copy or empty database in memory
        )
        self.layouts: dict[str, int] = {}
        """By graph the schema version at which the layout was that of the graph."""

    async def open(
        self, check: Callable[[sqlite3.Connection], None], *, reads: bool = False
    ) -> None:
        """Connect, unless connected. Raises StoreUnavailable.

        Args:
            check: Checks the file before it is changed.
            reads: Neither create nor change the file; a missing file counts as empty.
        """
        async with self._lock:
            if self._con is None:
                connect = self._connect_to_read if reads else self._connect
                self._con = await self._patiently(lambda: connect(check))
                self.in_file = bool(self._con.execute("PRAGMA database_list").fetchone()[2])

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._con is not None

    async def copy(self, check: Callable[[sqlite3.Connection], None]) -> None:
        """Continue with a copy in memory; the file is not changed."""
        async with self._lock:
            con = self._con
            if con is None:
                raise EngineError(f"{self.name}  is not open")

            def copied() -> sqlite3.Connection:
                copy = self._opened(":memory:", check)
                con.backup(copy)
                return copy

            self._con = await self._patiently(copied)
            self.in_file = False
            self.layouts.clear()
            con.close()

    def _connect_to_read(self, check: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
        path = Path(self.path)
        if self.path == ":memory:" or not path.exists():
            return self._opened(":memory:", check)
        return self._opened(f"{path.absolute().as_uri()}?mode=rw", check)

    def _connect(self, check: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
        try:
            if self.path != ":memory:":
                private_folder(Path(self.path).parent)
        except OSError as error:
            reason = refusal(Path(self.path).parent, error)
            msg = f"{self.name}  its folder cannot be made ({reason}). Name {_ANOTHER}"
            raise StoreUnavailable(msg) from None
        if self.path != ":memory:":
            with suppress(OSError):  # SQLite says why the file cannot be opened
                create_private(Path(self.path))
        con = self._opened(self.path, check)
        if self.path != ":memory:":
            self._log_ahead(con)
        return con

    def _log_ahead(self, con: sqlite3.Connection) -> None:
        try:
            mode = con.execute("PRAGMA journal_mode = WAL").fetchone()[
                0
            ]  # not every file system lets it
            con.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")
        except sqlite3.Error as error:
            con.close()
            raise _translated(error, self.name) from error

    def _opened(self, path: str, check: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
        con = None
        try:
            uri = path.startswith("file:")
            con = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False, uri=uri
            )
            self._settings(con, check)
        except BaseException as error:
            if con is not None:
                con.close()
            if isinstance(error, sqlite3.Error):
                raise _translated(error, self.name) from error
            raise
        return con

    def _settings(
        self, con: sqlite3.Connection, check: Callable[[sqlite3.Connection], None]
    ) -> None:
        for function in (partition_words, list_holds, lists_meet, unite, add_labels):
            con.create_function(function.__name__, 2, function, deterministic=True)
        modules = {name for (name,) in con.execute("PRAGMA module_list")}
        check_library(sqlite3.sqlite_version, modules, self.name)
        check(con)
        con.execute("PRAGMA trusted_schema = ON")  # triggers call functions
        con.execute("PRAGMA temp_store = MEMORY")
        con.execute(
            "PRAGMA automatic_index = OFF"
        )  # SQLite would build one for each search, beside existing indexes
        con.execute("PRAGMA cache_size = -65536")

    async def run(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        writes: bool = False,
        large: bool = False,
    ) -> T:
        """One transaction, which is one round trip.

        Args:
            work: What to do; restarted if another process holds the lock.
            writes: Whether to take the lock that only one writer can have, before anything is read.
            large: Whether to leave the event loop's thread.

        Raises:
            StoreUnavailable: The file cannot be read or written; nothing was.
        """
        async with self._lock:
            con = self._con
            if con is None:
                raise EngineError(f"{self.name}  is not open: call ensure first, or it was closed")
            self.round_trips += 1
            record_round_trip()
            if not large:
                try:
                    return self._transaction(con, work, writes)
                except _Busy:
                    pass  # wait for the other process elsewhere
            return await self._patiently(lambda: self._transaction(con, work, writes), con)

    def _transaction(
        self, con: sqlite3.Connection, work: Callable[[sqlite3.Connection], T], writes: bool
    ) -> T:
        with self._rolled_back(con):
            con.set_trace_callback(self.observer)
            con.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            result = work(con)
            con.execute("COMMIT")
        return result

    @contextmanager
    def _rolled_back(self, con: sqlite3.Connection) -> Iterator[None]:
        """Roll back if anything is raised within, and raise it as an error of the store."""
        try:
            yield
        except BaseException as error:
            if con.in_transaction:
                con.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error):
                raise _translated(error, self.name) from error
            if isinstance(error, UnicodeEncodeError):
                raise DataError(
                    f"a text holds half of a surrogate pair, which is no character ({error})"
                ) from None
            raise

    async def _patiently(
        self, attempt: Callable[[], T], con: sqlite3.Connection | None = None
    ) -> T:
        """Attempt in another thread until the lock is free. If cancelled, the attempt has ended when
        this returns.
        """
        cancelled = threading.Event()

        def attempts() -> T:
            deadline = time.monotonic() + _PATIENCE
            while True:
                try:
                    return attempt()
                except _Busy:
                    if time.monotonic() > deadline:
                        msg = f"{self.name}  another process has been writing to it for {_PATIENCE:.0f} s."
                        raise StoreUnavailable(
                            f"{msg} Nothing was written. Wait for it to end, or end it."
                        ) from None
                if cancelled.wait(0.005):
                    raise StoreUnavailable(
                        f"{self.name}  cancelled while another process was writing to it"
                    )

        future = asyncio.get_running_loop().run_in_executor(None, attempts)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            cancelled.set()
            while not future.done():
                if con is not None:
                    con.interrupt()
                try:
                    await asyncio.wait([future], timeout=0.05)
                except asyncio.CancelledError:
                    continue
            if not future.cancelled():
                future.exception()
            raise

    async def close(self) -> None:
        """Close the connection, if there is one."""
        async with self._lock:
            if self._con is not None:
                self._con.close()
                self._con = None


def check_library(version: str, modules: Collection[str], store: str) -> None:
    """Refuse an SQLite library that lacks what the store is made of. Raises StoreUnavailable."""
    lacks = "is too old (3.35 is needed)" if tuple(map(int, version.split("."))) < _OLDEST else ""
    lacks = lacks or ("was built without full text (FTS5)" if "fts5" not in modules else "")
    if lacks:
        msg = f"{store}  the SQLite {version} of this Python {lacks}. Use another Python, or another store."
        raise StoreUnavailable(msg)
