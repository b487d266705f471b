"""Caches of an SQLite file: vectors, the words of full text, and its postings.

Vectors and words are one block per partition, synchronized with the file whoever writes to it.

Each write transaction increments the file's version and stamps the vectors and indexed rows that it
wrote with it. A delete records the version at which its partition lost a row. So within a read, two
look-ups tell whether a block is current. Otherwise it reads only newer rows, or all rows after a
delete.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from sqlite3 import Connection
from sys import intern
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from semgraph.stores.cosine import Block, Int8Block
from semgraph.stores.sqlite.schema import ID, Table, quote, word_counts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]

_ROW_BYTES, _WORD_BYTES = 500, 150  # approximate memory of a row, and of each of its words


class IndexedRow(NamedTuple):
    """A row of a full-text index: its key, its number of words, and the distinct ones."""

    key: str
    length: int
    words: frozenset[str]


class WordBlock:
    """The rows of a partition, and for each word the rows that hold it, with its count."""

    def __init__(self) -> None:
        self.rows: dict[int, IndexedRow] = {}
        self.postings: dict[str, dict[int, int]] = {}
        self._words = 0

    @property
    def bytes(self) -> int:
        """The approximate memory use."""
        return _ROW_BYTES * len(self.rows) + _WORD_BYTES * self._words

    def put(self, row: int, key: str, texts: Sequence[str]) -> None:
        """Add or replace a row."""
        if row in self.rows:
            self._remove(row)
        # bytes come from another program
        counts, length = word_counts(tuple(text for text in texts if isinstance(text, str)))
        words = frozenset(map(intern, counts))
        for word in words:
            self.postings.setdefault(word, {})[row] = counts[word]
        self.rows[row] = IndexedRow(key, length, words)
        self._words += len(words)

    def _remove(self, row: int) -> None:
        words = self.rows.pop(row).words
        for word in words:
            rows = self.postings[word]
            del rows[row]
            if not rows:
                del self.postings[word]
        self._words -= len(words)


_BATCH = 8192
_DISTINCT = (
    "WITH RECURSIVE p(x) AS (SELECT min(part) FROM {table} UNION ALL "
    "SELECT (SELECT min(part) FROM {table} WHERE part > x) FROM p WHERE x IS NOT NULL) "
    "SELECT x FROM p WHERE x IS NOT NULL"
)


B = TypeVar("B", Block, WordBlock)


@dataclass
class _CachedBlock(Generic[B]):
    block: B
    version: int


def file_version(con: Connection) -> int:
    """The version of the file that this transaction sees."""
    version: int = con.execute("SELECT value FROM \"#meta\" WHERE name = 'version'").fetchone()[0]
    return version


class BlockCache(Generic[B]):
    """Blocks by the table that stamps their rows, by partition, and by further distinguishing
    values. The least recently used are evicted when they take more than `limit` bytes.
    """

    limit = 1 << 28

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, ...], _CachedBlock[B]] = OrderedDict()
        self._grown = False

    def clear(self) -> None:
        """Drop all blocks."""
        self._held.clear()

    def _current(
        self,
        con: Connection,
        name: tuple[str, ...],
        make: Callable[[], B],
        read: Callable[[_CachedBlock[B]], None],
        version: int,
    ) -> B:
        """A block at a version of the file. `read` adds all newer rows to it."""
        held = self._held.get(name)
        if held is None or (held.version != version and _lost(con, name, held.version)):
            held = self._held[name] = _CachedBlock(make(), -1)
        if held.version != version:
            read(held)
            held.version = version
            self._grown = True
        self._held.move_to_end(name)
        return held.block

    def _forget(self, in_use: int) -> None:
        if not self._grown:
            return
        held = sum(one.block.bytes for one in self._held.values())
        while held > self.limit and len(self._held) > in_use:
            held -= self._held.popitem(last=False)[1].block.bytes
        self._grown = False


class VectorCache(BlockCache[Block]):
    """The vectors of partitions; also, by table, the rows with a vector that cannot be compared."""

    limit = 1 << 29

    def __init__(self, exact_up_to: int) -> None:
        super().__init__()
        self.exact_up_to = exact_up_to
        self.odd: dict[str, set[int]] = {}

    def blocks(
        self, con: Connection, table: str, partitions: Iterable[str] | None, size: int
    ) -> list[Block]:
        """The current blocks of some partitions (None: all), within a transaction."""
        version = file_version(con)
        if partitions is None:
            partitions = [part for (part,) in con.execute(_DISTINCT.format(table=quote(table)))]
        blocks = [self._block(con, (table, part), size, version) for part in partitions]
        self._forget(len(blocks))
        return [block for block in blocks if block.count]

    def _read(self, con: Connection, name: tuple[str, str], held: _CachedBlock[Block]) -> None:
        import numpy as np

        table, partition = name
        newer = f"FROM {quote(table)} WHERE part = ? AND changed > ?"
        of = partition, held.version
        if not held.block.count:
            held.block.reserve(con.execute(f"SELECT count(*) {newer}", of).fetchone()[0])
        cursor = con.execute(f'SELECT "#id", vector {newer}', of)
        while rows := cursor.fetchmany(_BATCH):
            ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
            odd = held.block.put(ids, _matrix(rows, held.block.size)).tolist()
            self.odd.setdefault(table, set()).update(odd)

    def _block(self, con: Connection, name: tuple[str, str], size: int, version: int) -> Block:
        if held := self._held.get(name):
            grown = held.block.count > self.exact_up_to and not isinstance(held.block, Int8Block)
            if grown or held.block.size != size:
                del self._held[name]

        def make() -> Block:
            rows = f"SELECT 1 FROM {quote(name[0])} WHERE part = ? LIMIT ? OFFSET ?"
            large = con.execute(rows, (name[1], 1, self.exact_up_to)).fetchone()
            return (Int8Block if large else Block)(size)

        return self._current(con, name, make, lambda held: self._read(con, name, held), version)


def read_vectors(con: Connection, table: str, ids: Ints, size: int) -> Block:
    """The stored vectors of some rows."""
    import numpy as np

    which = '"#id" IN (SELECT value FROM json_each(?))'
    sql = f'SELECT "#id", vector FROM {quote(table)} WHERE {which}'
    rows = con.execute(sql, (str(ids.tolist()),)).fetchall()
    block = Block(size)
    block.put(np.fromiter((row for row, _ in rows), np.int64, len(rows)), _matrix(rows, size))
    return block


def _matrix(rows: Sequence[tuple[int, Any]], size: int) -> Singles:
    """The vectors of rows; zeros if another program stored another value."""
    import numpy as np

    odd = bytes(4 * size)
    blobs = (v if isinstance(v, bytes) and len(v) == len(odd) else odd for _, v in rows)
    return np.frombuffer(b"".join(blobs), "<f4").reshape(len(rows), size)


class WordCache(BlockCache[WordBlock]):
    """The words of partitions with few rows."""

    def blocks(
        self, con: Connection, table: Table, prop: str, partitions: Sequence[str]
    ) -> list[WordBlock]:
        """The current blocks of some partitions, within a transaction."""
        version = file_version(con)
        stamps, properties = table.indexed_rows(prop)
        texts = ", ".join(f"t.{quote(name)}" for name in properties)
        newer = (
            f"SELECT t.{ID}, t.{table.key}, {texts} FROM {quote(stamps)} s "
            f"CROSS JOIN {table.name} t WHERE s.part = ? AND s.changed > ? AND t.{ID} = s.{ID}"
        )

        def block(partition: str) -> WordBlock:
            def read(held: _CachedBlock[WordBlock]) -> None:
                for row, key, *cells in con.execute(newer, (partition, held.version)):
                    held.block.put(row, key, [text for text in cells if text])

            return self._current(con, (stamps, partition, *properties), WordBlock, read, version)

        blocks = [block(partition) for partition in partitions]
        self._forget(len(blocks))
        return blocks


def _lost(con: Connection, name: tuple[str, ...], version: int) -> bool:
    sql = 'SELECT version FROM "#gone" WHERE name = ? AND part = ?'
    row = con.execute(sql, name[:2]).fetchone()
    return row is not None and row[0] > version


class Postings(NamedTuple):
    """The rows with a word, by id, and the saturated frequency of the word in each."""

    ids: Ints
    frequencies: Floats


class TextCache:
    """Counts and the last used postings of full text for one version of the file."""

    limit = 1 << 22

    def __init__(self) -> None:
        self.counts: dict[Hashable, int] = {}
        # The number of rows that were scored from their texts because postings were not read.
        self.scored: dict[Hashable, int] = {}
        self._postings: OrderedDict[Hashable, Postings] = OrderedDict()
        self._length = 0
        self._version = -1

    def read_at(self, version: int) -> None:
        """Drop all data of another version of the file."""
        if version != self._version or len(self.counts) > self.limit:
            self.counts.clear()
            self.scored.clear()
            self._postings.clear()
            self._length, self._version = 0, version

    def postings(self, name: Hashable) -> Postings | None:
        """The cached postings; None if they are not cached."""
        if name in self._postings:
            self._postings.move_to_end(name)
        return self._postings.get(name)

    def keep(self, name: Hashable, postings: Postings) -> None:
        """Cache postings. Evicts the least recently used if there are too many."""
        self._postings[name] = postings
        self._length += len(postings.ids) + 1
        while self._length > self.limit:
            self._length -= len(self._postings.popitem(last=False)[1].ids) + 1


class Caches:
    """The caches of a store."""

    def __init__(self, exact_up_to: int) -> None:
        self.vectors = VectorCache(exact_up_to)
        self.words = WordCache()
        self.texts = TextCache()
