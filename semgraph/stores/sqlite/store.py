"""The embedded store: a graph in one SQLite file, or in memory. It needs no installation; several
processes may use one file.

A commit is in the file when `commit` returns, and survives the end of the process. A power failure
may lose the latest commits, each with its commit markers, so a run repeats them.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from copy import copy
from functools import partial
from os import PathLike, fspath
from pathlib import Path
from sqlite3 import Connection
from typing import Self, TypeVar

import pyarrow as pa

from semgraph.errors import DataError, EngineError, StoreUnavailable
from semgraph.expr import Scalar
from semgraph.logical.schema import Graph
from semgraph.privacy import create_private, private_folder, refusal
from semgraph.stores import base
from semgraph.stores.conditions import read
from semgraph.stores.prepare import (
    PreparedMerge,
    check_length,
    match_schema,
    prepare_batch,
    scan_schema,
    search_schema,
)
from semgraph.stores.sqlite.match import LabelScan, PatternMatch, VariablePaths
from semgraph.stores.sqlite.rows import RequestRows, StoredRows
from semgraph.stores.sqlite.schema import (
    Numbers,
    Table,
    Tables,
    add_labels,
    bring_up_to_date,
    check_dimensions,
    check_file,
    check_layout,
    count_unembedded,
    fill_derived,
    is_current,
    labels_in,
    list_holds,
    lists_meet,
    part_in,
    partition_words,
    quote,
    read_dimensions,
    tables_of,
    unite,
)
from semgraph.stores.sqlite.search import PreparedSearch
from semgraph.stores.sqlite.vectors import Caches
from semgraph.stores.sqlite.write import (
    EncodedMerge,
    ReadMarkers,
    clear,
    commit,
    next_version,
)
from semgraph.turns import Turns

T = TypeVar("T")
Check = Callable[[Connection], None]  # of a file, before any change
_MANY_ROWS = 2_000  # more run outside the event loop's thread


class SqliteStore:
    """A store over one SQLite file, which is created with its folder if missing; ":memory:" keeps
    all data in memory, only for this store. See `Store` for the contract of each method. Partitions
    with more vectors than `exact_up_to` are held in int8, in a quarter of the memory.
    """

    def __init__(self, path: str | PathLike[str], *, exact_up_to: int = 200_000) -> None:
        self.path = fspath(path)
        self._exact_up_to = exact_up_to
        self._file = self._main = File(self.path, self.name)
        self._tables: Tables = {}
        self._caches = self._caches_of_main = Caches(exact_up_to)
        self._readers: dict[File, Caches] = {}  # connections that neither make nor change the file
        self._part = ""  # a description, if an earlier version recorded it as a part of a store
        self._attaching = Turns()
        self._dimensions: Numbers = {}

    def share(self) -> Self:
        """As `Store.share`; caches are shared, too."""
        other = copy(self)
        other._tables, other._dimensions = {}, {}  # noqa: SLF001 - its own copy
        return other

    @property
    def name(self) -> str:
        return "memory" if self.path == ":memory:" else f"sqlite:{self.path}"

    @property
    def nearest(self) -> str:
        """Exact; for very many vectors, int8 proposes the candidates."""
        return "exact"

    @property
    def tables(self) -> Tables:
        """The tables of the graph that it was opened for. Raises EngineError before `ensure`."""
        if not self._tables:
            raise EngineError(f"{self.name}  is not open: call ensure first")
        return self._tables

    @property
    def graph(self) -> Graph:
        """The graph that it was opened for. Raises EngineError before `ensure`."""
        return next(iter(self.tables.values())).graph

    def takes(self, expr: Scalar, alias: base.Alias) -> bool:
        return read(expr, alias) is not None

    async def ensure(self, graph: Graph, dimensions: int | None) -> None:
        self._file, self._caches = self._main, self._caches_of_main
        await self._file.open(partial(self._check, writes=True))
        await self._make_ready(tables_of(graph), dimensions)

    async def attach(self, graph: Graph, dimensions: int | None = None) -> None:
        """The file is neither created nor changed: a missing one counts as empty, and one that
        lacks parts of the graph is copied into memory.
        """
        if self.path == ":memory:":
            await self.ensure(graph, dimensions)
            return
        tables = tables_of(graph)
        if self._main.is_open and await self._has(self._main, tables):
            self._file, self._caches = self._main, self._caches_of_main
        else:
            async with self._attaching:
                self._file = await self._reader(tables)
            self._caches = self._readers[self._file]
        await self._make_ready(tables, dimensions)

    async def _reader(self, tables: Tables) -> File:
        """A connection that does not change the file, reused if it has all; a copy serves once."""
        if self._readers.get(self._file) and not self._file.in_file:
            del self._readers[self._file]
            await self._file.close()
        for reader in list(self._readers):
            if reader.in_file and await self._has(reader, tables):
                return reader
        reader = File(self.path, self.name)
        reader.observer = self._main.observer
        await reader.open(self._check, reads=True)
        self._readers[reader] = Caches(self._exact_up_to)
        if not await self._has(reader, tables):
            await reader.copy(self._check)
            self._readers[reader] = Caches(self._exact_up_to)
        return reader

    async def _has(self, file: File, tables: Tables) -> bool:
        return await file.run(lambda con: is_current(con, tables, file.layouts))

    def _check(self, con: Connection, *, writes: bool = False) -> None:
        check_file(con, self.name)
        self._part = part_in(con)
        if writes and self._part:
            raise StoreUnavailable(f"{self.name}  {self._part}. Nothing was written.")

    async def _make_ready(self, tables: Tables, dimensions: int | None) -> None:
        def is_ready(con: Connection, *, make: bool = False) -> bool:
            self._check(con)
            check_layout(con, tables, self.name)
            if make:
                bring_up_to_date(con, tables)
                next_version(con)
                fill_derived(con, tables.values())
            elif not is_current(con, tables, self._file.layouts):
                return False
            check_dimensions(con, tables, dimensions, self.name)
            self._dimensions = read_dimensions(con)
            return True

        if not await self._file.run(is_ready):
            await self._file.run(partial(is_ready, make=True), writes=True, large=True)
        self._tables = tables

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on rows that reads left out, and on a file that is a part of a store. Parts are
        never missing: a file belongs to semgraph, and `ensure` migrates it.
        """
        part = [f"{self.name} {self._part}"] if self._part else []
        left_out = [note for table in self._tables.values() for note in table.left_out.notes]
        return tuple(dict.fromkeys((*part, *left_out)))

    async def check_derived(self, places: Iterable[tuple[str, str]]) -> None:
        """Do nothing: rows always have their derived texts."""

    async def migrate(self, graph: Graph, dimensions: int | None, *, drop: bool) -> list[str]:
        """Indexes belong to the layout of the file: none is created or dropped."""
        del drop
        await self.ensure(graph, dimensions)
        tables = self._tables

        def work(con: Connection) -> Numbers:
            next_version(con)
            return {**fill_derived(con, tables.values()), **count_unembedded(con, tables)}

        lacked = await self._file.run(work, writes=True, large=True)
        report: list[str] = []
        for label in graph.labels.values():
            for name, derived in label.derived.items():
                report += base.derived_report(label, derived, lacked.get((label.name, name), 0))
        return report

    def observe(self, callback: Callable[[str], None] | None) -> None:
        self._main.observer = callback
        for reader in self._readers:
            reader.observer = callback

    async def search(self, queries: Sequence[base.SearchQuery], rows: pa.Table) -> list[pa.Table]:
        if not queries or not rows.num_rows:
            schemas = (search_schema(self.graph, query, self._dimensions) for query in queries)
            return [schema.empty_table() for schema in schemas]
        for query in queries:
            self._table(query.label)
        request = RequestRows(rows)
        searches = [PreparedSearch(self.tables, query, request) for query in queries]

        def work(con: Connection) -> list[pa.Table]:
            read = self._stored(con)
            for search in searches:
                for nearest in search.nearest:
                    label, name = search.query.label, nearest.embedding
                    stored = self._dimensions.get((label, name))
                    check_length(self.name, label, name, stored, nearest.size)
            if any(search.reads_rows for search in searches):
                request.load(con)
            return [search.run(read, self._caches) for search in searches]

        near = any(search.nearest for search in searches)
        return await self._file.run(work, large=near or _large(rows.num_rows))

    async def match(self, query: base.MatchQuery, rows: pa.Table) -> pa.Table:
        if not rows.num_rows:
            return match_schema(self.graph, query, self._dimensions).empty_table()
        request, path = RequestRows(rows), query.pattern.variable_path
        matched = (
            PatternMatch(self.tables, query, request)
            if path is None
            else VariablePaths(self.tables, query, path, request)
        )

        def work(con: Connection) -> pa.Table:
            request.load(con)
            return matched.run(self._stored(con))

        return await self._file.run(work, large=_large(rows.num_rows))

    async def scan(self, query: base.ScanQuery) -> pa.Table:
        scan = LabelScan(self._table(query.label), query)
        if query.partitions is not None and not query.partitions:
            return scan_schema(self.graph, query, self._dimensions).empty_table()
        return await self._file.run(lambda con: scan.run(self._stored(con)), large=True)

    async def states(self, plan: str, rows: base.RowIds) -> Mapping[str, base.PartitionState]:
        tables, count = self.tables, len(rows) + sum(map(len, rows.values()))
        if not rows:
            return {}
        return await self._file.run(
            lambda con: ReadMarkers(con, tables, plan).states(rows), large=_large(count)
        )

    async def history(self, plan: str, partitions: Sequence[str]) -> Mapping[str, base.History]:
        tables = self.tables
        if not partitions:
            return {}
        return await self._file.run(
            lambda con: ReadMarkers(con, tables, plan).history(partitions), large=True
        )

    async def commit(
        self, batch: base.WriteBatch, marker: base.CommitMarker | None = None
    ) -> base.Written:
        if not batch.rows and marker is None:
            return base.Written()
        new = base.NewContent.of(batch, marker)
        return await self._commit(new, forgets=batch.deletes and marker is None)

    async def replace(self, new: base.NewContent) -> base.Written:
        return await self._commit(new, whole=True, forgets=True)

    async def _commit(
        self, new: base.NewContent, *, whole: bool = False, forgets: bool
    ) -> base.Written:
        tables = self.tables
        merges = await self._encoded(new.batch)
        counts = await self._file.run(
            lambda con: commit(con, tables, new, merges, whole=whole, forgets=forgets),
            writes=True,
            large=forgets or _large(new.batch.rows),
            forgets=forgets,
        )
        return base.Written(counts)

    async def _encoded(self, batch: base.WriteBatch) -> list[EncodedMerge]:
        def convert(prepared: PreparedMerge) -> EncodedMerge:
            return EncodedMerge(self._table(prepared.write.label), prepared, self.name)

        def prepare() -> list[EncodedMerge]:
            return [merge for merge in prepare_batch(self.graph, batch, convert) if merge]

        return await asyncio.to_thread(prepare) if _large(batch.rows) else prepare()

    async def statistics(self) -> base.Statistics:
        """Counts by label, also of other graphs in the file, and lengths of the stored vectors."""
        tables = self.tables

        def work(con: Connection) -> base.Statistics:
            counts = {
                name: con.execute(f"SELECT count(*) FROM {quote(name)}").fetchone()[0]
                for name in dict.fromkeys([*tables, *labels_in(con)])
            }
            counts = {name: count for name, count in counts.items() if count or name in tables}
            sizes = self._stored(con).dimensions.items()
            return base.Statistics(counts, {at: size for at, size in sizes if at[0] in tables})

        return await self._file.run(work)

    async def clear(self, partitions: Sequence[str] | None = None) -> None:
        tables = self.tables
        if partitions is None or partitions:
            await self._file.run(
                lambda con: clear(con, tables, partitions), writes=True, large=True, forgets=True
            )

    async def aclose(self) -> None:
        await self._main.close()
        while self._readers:
            await self._readers.popitem()[0].close()
        self._caches_of_main.vectors.clear()
        self._caches_of_main.words.clear()

    def _table(self, label: str) -> Table:
        if label not in self.tables:
            known = ", ".join(self.tables)
            raise EngineError(f'{self.name}  has no label "{label}"; its labels are {known}')
        return self.tables[label]

    def _stored(self, con: Connection) -> StoredRows:
        self._dimensions = read_dimensions(con)
        return StoredRows(con, self._dimensions)


def _large(rows: int) -> bool:
    return rows > _MANY_ROWS


_OLDEST = (3, 35)
_PATIENCE = 60.0  # seconds to wait for another writing process
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
    kind = code or type(error).__name__
    return EngineError(f"{store}  SQLite rejected a statement: {error} ({kind})")


class File:
    """A file, or an in-memory database (":memory:"), and its only connection."""

    def __init__(self, path: str, name: str) -> None:
        self.path, self.name = path, name
        self._con: Connection | None = None
        self.observer: Callable[[str], None] | None = None
        self._lock = Turns()
        self.in_file = False  # whether the file is open, not a copy or an empty database in memory
        # For each graph, the schema version at which the layout was current.
        self.layouts: dict[str, int] = {}

    async def open(self, check: Check, *, reads: bool = False) -> None:
        """Connect, unless connected; `check` examines the file before any change. With `reads` it
        is neither created nor changed, and a missing one counts as empty. Raises StoreUnavailable.
        """
        async with self._lock:
            if self._con is None:
                self._con = await self._patiently(lambda: self._connect(check, reads=reads))
                self.in_file = bool(self._con.execute("PRAGMA database_list").fetchone()[2])

    @property
    def is_open(self) -> bool:
        return self._con is not None

    async def copy(self, check: Check) -> None:
        """Continue with an in-memory copy; the file is not changed."""
        async with self._lock:
            con = self._con
            if con is None:
                raise EngineError(f"{self.name}  is not open")

            def copied() -> Connection:
                copy = self._opened(":memory:", check)
                con.backup(copy)
                return copy

            self._con = await self._patiently(copied)
            self.in_file = False
            self.layouts.clear()
            con.close()

    def _connect(self, check: Check, *, reads: bool) -> Connection:
        path = Path(self.path)
        if self.path == ":memory:" or (reads and not path.exists()):
            return self._opened(":memory:", check)
        if reads:
            return self._opened(f"{path.absolute().as_uri()}?mode=rw", check)
        try:
            private_folder(path.parent)
        except OSError as error:
            reason = refusal(path.parent, error)
            msg = f"{self.name}  its folder cannot be made ({reason}). Name {_ANOTHER}"
            raise StoreUnavailable(msg) from None
        with suppress(OSError):  # SQLite reports why the file cannot be opened
            create_private(path)
        return self._opened(self.path, check, log_ahead=True)

    def _opened(self, path: str, check: Check, *, log_ahead: bool = False) -> Connection:
        with self._translating(), ExitStack() as failed:
            con = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False,
                uri=path.startswith("file:"),
            )  # fmt: skip
            failed.callback(con.close)
            self._settings(con, check)
            if log_ahead:
                # Some file systems do not support it.
                mode = con.execute("PRAGMA journal_mode = WAL").fetchone()[0]
                con.execute(f"PRAGMA synchronous = {'NORMAL' if mode == 'wal' else 'FULL'}")
            failed.pop_all()
        return con

    @contextmanager
    def _translating(self) -> Iterator[None]:
        """Raise errors of SQLite as errors of the store."""
        try:
            yield
        except sqlite3.Error as error:
            raise _translated(error, self.name) from error
        except UnicodeEncodeError as error:
            what = f"a text holds half of a surrogate pair, which is no character ({error})"
            raise DataError(what) from None

    def _settings(self, con: Connection, check: Check) -> None:
        for function in (partition_words, list_holds, lists_meet, unite, add_labels):
            con.create_function(function.__name__, 2, function, deterministic=True)
        modules = {name for (name,) in con.execute("PRAGMA module_list")}
        check_library(sqlite3.sqlite_version, modules, self.name)
        check(con)
        con.execute("PRAGMA trusted_schema = ON")  # triggers call functions
        con.execute("PRAGMA secure_delete = ON")  # as most, but not all, systems build SQLite
        con.execute("PRAGMA temp_store = MEMORY")
        # SQLite would build one for each search, despite existing indexes.
        con.execute("PRAGMA automatic_index = OFF")
        con.execute("PRAGMA cache_size = -65536")

    async def run(
        self,
        work: Callable[[Connection], T],
        *,
        writes: bool = False,
        large: bool = False,
        forgets: bool = False,
    ) -> T:
        """Run one transaction, which is one round trip. The work is restarted if another process
        holds the lock. Raises StoreUnavailable if nothing can be read or written.

        `writes` takes the exclusive write lock before any read; `large` leaves the event loop's
        thread. After a transaction that `forgets`, nothing of deleted rows stays in the log of
        writes, unless another process reads it.
        """
        async with self._lock:
            con = self._con
            if con is None:
                raise EngineError(f"{self.name}  is not open: call ensure first, or it was closed")
            base.record_round_trip()
            if not large:
                with suppress(_Busy):  # wait for the other process in another thread
                    return self._transaction(con, work, writes)
            return await self._patiently(lambda: self._transaction(con, work, writes, forgets), con)

    def _transaction(
        self, con: Connection, work: Callable[[Connection], T], writes: bool, forgets: bool = False
    ) -> T:
        with self._translating():
            try:
                con.set_trace_callback(self.observer)
                con.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
                result = work(con)
                con.execute("COMMIT")
            finally:
                if con.in_transaction:  # after an exception
                    con.execute("ROLLBACK")
        if forgets:
            con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return result

    def _until_free(self, attempt: Callable[[], T], cancelled: threading.Event) -> T:
        """Attempt until no other process holds the lock. Raises StoreUnavailable."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                return attempt()
            except _Busy:
                if time.monotonic() > deadline:
                    msg = f"{self.name}  another process has been writing to it for {_PATIENCE:.0f} s."
                    hint = "Nothing was written. Wait for it to end, or end it."
                    raise StoreUnavailable(f"{msg} {hint}") from None
            if cancelled.wait(0.005):
                msg = f"{self.name}  cancelled while another process was writing to it"
                raise StoreUnavailable(msg)

    async def _patiently(self, attempt: Callable[[], T], con: Connection | None = None) -> T:
        """Attempt in a thread until the lock is free; it has ended when this returns."""
        cancelled = threading.Event()
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(None, self._until_free, attempt, cancelled)
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
        async with self._lock:
            if self._con is not None:
                self._con.close()
                self._con = None


def check_library(version: str, modules: Collection[str], store: str) -> None:
    """Refuse an SQLite library without the modules that the store needs. Raises StoreUnavailable."""
    lacks = "is too old (3.35 is needed)" if tuple(map(int, version.split("."))) < _OLDEST else ""
    lacks = lacks or ("was built without full text (FTS5)" if "fts5" not in modules else "")
    if lacks:
        msg = f"{store}  the SQLite {version} of this Python {lacks}. Use another Python, or another store."
        raise StoreUnavailable(msg)
