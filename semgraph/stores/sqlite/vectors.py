"""Caches of an SQLite file: vectors, the words of full text, and its postings.

Vectors and words are one block per partition, synchronized with the file whoever writes to it.

Each transaction that writes raises the file's version and stamps the vectors and the indexed rows
that it wrote with it; a deleted one leaves the version at which its partition lost one. So within
a read a block knows by two look-ups whether it is current, and else reads only what is newer than
itself, or all if one was deleted.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from sys import intern
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from semgraph.stores.cosine import Block, Int8Block
from semgraph.stores.sqlite.schema import ID, Table, quote, word_counts

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Singles = NDArray[np.float32]

_ROW_BYTES, _WORD_BYTES = 500, 150  # what a row takes in memory, and each of its words: about


class IndexedRow(NamedTuple):
    """A row of a full-text index.

    Args:
        key: Its key.
        length: How many words its texts have.
        words: These words, each once.
    """

    key: str
    length: int
    words: frozenset[str]


class WordBlock:
    """The rows of a partition, and for each word the rows that hold it, with how often."""

    def __init__(self) -> None:
        self.rows: dict[int, IndexedRow] = {}
        self.postings: dict[str, dict[int, int]] = {}
        self._words = 0

    @property
    def count(self) -> int:
        """How many rows it has."""
        return len(self.rows)

    @property
    def bytes(self) -> int:
        """What it takes in memory, about."""
        return _ROW_BYTES * len(self.rows) + _WORD_BYTES * self._words

    def put(self, row: int, key: str, texts: Sequence[str]) -> None:
        """Add or replace a row."""
        if row in self.rows:
            self._remove(row)
        texts = [text for text in texts if isinstance(text, str)]  # no bytes of another program
        counts, length = word_counts(tuple(texts))
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


# Vectors of a partition that are held in float32: more take a quarter of the memory, in int8.
EXACT_UP_TO = 200_000
_BATCH = 8192
_DISTINCT = (
    "WITH RECURSIVE p(x) AS (SELECT min(part) FROM {table} UNION ALL "
    "SELECT (SELECT min(part) FROM {table} WHERE part > x) FROM p WHERE x IS NOT NULL) "
    "SELECT x FROM p WHERE x IS NOT NULL"
)


class _Sized(Protocol):
    @property
    def bytes(self) -> int: ...


B = TypeVar("B", bound=_Sized)


@dataclass
class _CachedBlock(Generic[B]):
    block: B
    version: int


def file_version(con: sqlite3.Connection) -> int:
    """The version of the file that this transaction sees."""
    version: int = con.execute("SELECT value FROM \"#meta\" WHERE name = 'version'").fetchone()[0]
    return version


class BlockCache(Generic[B]):
    """Blocks by the table that stamps their rows, by partition, and by what else tells them apart;
    the least recently used go when they take more than `limit` bytes.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held: OrderedDict[tuple[str, ...], _CachedBlock[B]] = OrderedDict()
        self._grown = False

    def clear(self) -> None:
        """Forget all."""
        self._held.clear()

    def _current(
        self,
        con: sqlite3.Connection,
        name: tuple[str, ...],
        make: Callable[[], B],
        read: Callable[[_CachedBlock[B]], None],
        version: int,
    ) -> B:
        """A block as of a version.

        Args:
            con: The connection.
            name: Table, partition, and what else tells it apart.
            make: Makes an empty block.
            read: Puts all that is newer than a block into it.
            version: Of the file.
        """
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
    """The vectors of partitions; by table, the rows with a vector that cannot be compared."""

    def __init__(self, exact_up_to: int = EXACT_UP_TO, limit: int = 1 << 29) -> None:
        super().__init__(limit)
        self.exact_up_to = exact_up_to
        self.odd: dict[str, set[int]] = {}

    def known(self, table: str, partitions: Iterable[str] | None) -> int | None:
        """How many vectors are held of some partitions (None: of all that are held); None if one is
        not held at all.
        """
        if partitions is None:
            counts = [held.block.count for name, held in self._held.items() if name[0] == table]
            return sum(counts) if counts else None
        cached = [self._held.get((table, partition)) for partition in partitions]
        return (
            None if None in cached else sum(held.block.count for held in cached if held is not None)
        )

    def blocks(
        self, con: sqlite3.Connection, table: str, partitions: Iterable[str] | None, size: int
    ) -> list[Block]:
        """The current blocks of some partitions (None: all), within a transaction."""
        version = file_version(con)
        if partitions is None:
            partitions = [part for (part,) in con.execute(_DISTINCT.format(table=quote(table)))]
        blocks = [self._block(con, (table, part), size, version) for part in partitions]
        self._forget(len(blocks))
        return [block for block in blocks if block.count]

    def _read(
        self, con: sqlite3.Connection, name: tuple[str, str], held: _CachedBlock[Block]
    ) -> None:
        """Put all that is newer than the block into it."""
        import numpy as np

        table, partition = name
        newer = f"FROM {quote(table)} WHERE part = ? AND changed > ?"
        if not held.block.count:
            held.block.reserve(
                con.execute(f"SELECT count(*) {newer}", (partition, held.version)).fetchone()[0]
            )
        cursor = con.execute(f'SELECT "#id", vector {newer}', (partition, held.version))
        while rows := cursor.fetchmany(_BATCH):
            ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
            odd = held.block.put(ids, _matrix(rows, held.block.size)).tolist()
            self.odd.setdefault(table, set()).update(odd)

    def _block(
        self, con: sqlite3.Connection, name: tuple[str, str], size: int, version: int
    ) -> Block:
        held = self._held.get(name)
        if held is not None and (
            held.block.size != size
            or (held.block.count > self.exact_up_to and not isinstance(held.block, Int8Block))
        ):
            del self._held[name]

        def make() -> Block:
            return (Int8Block if _is_large(con, name, self.exact_up_to) else Block)(size)

        def read(held: _CachedBlock[Block]) -> None:
            self._read(con, name, held)

        return self._current(con, name, make, read, version)


def _is_large(con: sqlite3.Connection, name: tuple[str, str], limit: int) -> bool:
    """Whether a partition has more vectors than a limit."""
    rows = f"SELECT 1 FROM {quote(name[0])} WHERE part = ? LIMIT ?"
    count: int = con.execute(f"SELECT count(*) FROM ({rows})", (name[1], limit + 1)).fetchone()[0]
    return count > limit


def read_vectors(con: sqlite3.Connection, table: str, ids: Ints, size: int) -> Block:
    """The stored vectors of some rows."""
    import numpy as np

    sql = (
        f'SELECT "#id", vector FROM {quote(table)} WHERE "#id" IN (SELECT value FROM json_each(?))'
    )
    rows = con.execute(sql, (str(ids.tolist()),)).fetchall()
    block = Block(size)
    block.put(np.fromiter((row for row, _ in rows), np.int64, len(rows)), _matrix(rows, size))
    return block


def _matrix(rows: Sequence[tuple[int, Any]], size: int) -> Singles:
    """The vectors of rows; zeros where another program stored something else."""
    import numpy as np

    odd = bytes(4 * size)
    blobs = (v if isinstance(v, bytes) and len(v) == len(odd) else odd for _, v in rows)
    return np.frombuffer(b"".join(blobs), "<f4").reshape(len(rows), size)


class WordCache(BlockCache[WordBlock]):
    """The words of partitions with few rows."""

    def __init__(self, limit: int = 1 << 28) -> None:
        super().__init__(limit)

    def known(self, table: Table, prop: str, partition: str) -> int | None:
        """How many rows are held of a partition; None if it is not held."""
        held = self._held.get(_words_name(table, prop, partition))
        return None if held is None else held.block.count

    def blocks(
        self, con: sqlite3.Connection, table: Table, prop: str, partitions: Sequence[str]
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

            return self._current(con, _words_name(table, prop, partition), WordBlock, read, version)

        blocks = [block(partition) for partition in partitions]
        self._forget(len(blocks))
        return blocks


def _words_name(table: Table, prop: str, partition: str) -> tuple[str, ...]:
    stamps, properties = table.indexed_rows(prop)
    return stamps, partition, *properties


def _lost(con: sqlite3.Connection, name: tuple[str, ...], version: int) -> bool:
    """Whether a row was deleted since a version."""
    sql = 'SELECT version FROM "#gone" WHERE name = ? AND part = ?'
    row = con.execute(sql, name[:2]).fetchone()
    return row is not None and row[0] > version


class Postings(NamedTuple):
    """The rows that hold a word of a partition.

    Args:
        ids: Of the rows, ascending.
        frequencies: The saturated frequency of the word in each.
    """

    ids: Ints
    frequencies: Floats


class TextCache:
    """Counts and postings of full text, of one version of the file; no more postings than `limit`,
    those that were used last.
    """

    def __init__(self, limit: int = 1 << 22) -> None:
        self.limit = limit
        self.counts: dict[Hashable, int] = {}
        # How many rows were scored from their texts because postings were not read.
        self.scored: dict[Hashable, int] = {}
        self._postings: OrderedDict[Hashable, Postings] = OrderedDict()
        self._length = 0
        self._version = -1

    def read_at(self, version: int) -> None:
        """Forget all that is of another version of the file."""
        if version != self._version or len(self.counts) > self.limit:
            self.counts.clear()
            self.scored.clear()
            self._postings.clear()
            self._length, self._version = 0, version

    def postings(self, name: Hashable) -> Postings | None:
        """Postings that are cached; None if they are not."""
        if name in self._postings:
            self._postings.move_to_end(name)
        return self._postings.get(name)

    def keep(self, name: Hashable, postings: Postings) -> None:
        """Cache postings, in place of the least recently used if they become too many."""
        self._postings[name] = postings
        self._length += len(postings.ids) + 1
        while self._length > self.limit:
            self._length -= len(self._postings.popitem(last=False)[1].ids) + 1


class Memory:
    """The caches of a store."""

    def __init__(self, exact_up_to: int = EXACT_UP_TO) -> None:
        self.vectors = VectorCache(exact_up_to)
        self.words = WordCache()
        self.texts = TextCache()
