"""The journal's file: how it is made, opened, made smaller, and what is said when it cannot be used."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path

from semgraph.errors import SemgraphError
from semgraph.private import create_private

# "sgj1": what `file` and other programs can recognise the format by.
_APPLICATION_ID = 0x73676A31
_VERSION = 2  # from 2 on keys depend on the partition
_OPEN_SECONDS = 10.0
_BUSY_MS = 20

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
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {_VERSION};
"""


class JournalLocked(SemgraphError):
    """Another process holds the journal."""


def open_journal(path: Path, patience: float = _OPEN_SECONDS) -> sqlite3.Connection:
    """Open or make a journal's file: WAL, autocommit, readable by its owner only.

    Args:
        path: The file.
        patience: Seconds to wait while another process holds it.

    Raises:
        JournalLocked: Another process held it all the time.
        SemgraphError: It cannot be opened, is damaged, or is another kind of file.
    """
    try:
        create_private(path)
    except OSError as error:
        raise SemgraphError(f"{path}: the journal cannot be opened ({error.strerror}). {_CHOOSE}") from error
    database = sqlite3.connect(
        path, timeout=min(patience, _OPEN_SECONDS), isolation_level=None, check_same_thread=False
    )
    try:
        _prepare(database, path)
    except sqlite3.Error as error:
        database.close()
        raise problem(error, path) from error
    except BaseException:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    database.execute("BEGIN")  # one view of all three, while another process may be making the file
    application = database.execute("PRAGMA application_id").fetchone()[0]
    tables = database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    version = database.execute("PRAGMA user_version").fetchone()[0]
    database.execute("COMMIT")
    if tables and application != _APPLICATION_ID:
        raise SemgraphError(f"{path} is an SQLite file, but not a journal of semgraph; it was not touched. {_CHOOSE}")
    if tables and version not in (1, _VERSION):
        raise SemgraphError(
            f"{path} is a journal of another version of semgraph ({version}; this one writes {_VERSION}); it was not "
            f"touched. {_CHOOSE}"
        )
    database.execute("PRAGMA auto_vacuum = INCREMENTAL")
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("PRAGMA secure_delete = ON")
    if not tables:
        database.execute("BEGIN IMMEDIATE")
        for statement in _TABLES.split(";\n"):
            database.execute(statement)
        database.execute("COMMIT")
    _migrate(database)
    # From here on whoever finds the file locked tries again by itself, without blocking an event loop.
    database.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")


def _migrate(database: sqlite3.Connection) -> None:
    """Bring a journal of an earlier release up to date, all or nothing.

    Release 0.1.0 served an answer to every partition. From now on it is served to the one that asked for it alone.
    """
    if database.execute("PRAGMA user_version").fetchone()[0] == _VERSION:
        return
    database.create_function("key_of", 2, key_in_partition, deterministic=True)
    database.execute("BEGIN IMMEDIATE")
    try:
        if database.execute("PRAGMA user_version").fetchone()[0] != _VERSION:  # another process may have been here
            if "logprobs" not in {row[1] for row in database.execute("PRAGMA table_info(answers)")}:
                database.execute("ALTER TABLE answers ADD COLUMN logprobs TEXT")
            database.execute("UPDATE answers SET key = key_of(key, partition) WHERE key <> x''")
            database.execute("UPDATE vectors SET key = key_of(key, partition)")
            database.execute(f"PRAGMA user_version = {_VERSION}")
        database.execute("COMMIT")
    except BaseException:
        database.execute("ROLLBACK")
        raise


def key_in_partition(key: bytes, partition: str | bytes) -> bytes:
    """The key of what is known by `key` within a partition, which is given as it is stored."""
    stored = partition.encode() if isinstance(partition, str) else partition
    return hashlib.blake2b(key + stored, digest_size=16).digest()


def shrink(database: sqlite3.Connection) -> None:
    """Give the space of deleted rows back, and overwrite the log that may still hold them."""
    database.execute("PRAGMA incremental_vacuum").fetchall()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


_CHOOSE = "Name another file for the journal, or switch it off (semgraph.toml, [journal]: path, keep_days = 0)"
_AGAIN = "then run again: what was answered before is kept"


def problem(error: sqlite3.Error, path: Path) -> SemgraphError:
    """What to tell about one of SQLite's errors."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        what = f"{path}: no room left to keep what the model answers. Free some space, {_AGAIN}"
    elif code == sqlite3.SQLITE_IOERR:
        what = f"{path}: the disk does not take what the model answers ({error}). Free some space, {_AGAIN}"
    elif code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        what = (
            f"{path} is damaged, or no journal at all ({error}); it was not changed. Move it away and a new one is "
            "begun: no store depends on it, only answers kept there are paid again"
        )
    elif code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return JournalLocked(f"{path}: another process has kept the journal locked for long. End it, {_AGAIN}")
    elif code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        what = f"{path}: the journal cannot be written ({error}). {_CHOOSE}"
    else:
        what = f"{path}: the journal cannot be used ({error}). {_CHOOSE}"
    return SemgraphError(what)
