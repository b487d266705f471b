"""Caches of an SQLite file: vectors, and postings of full text.

Vectors are one block per partition, synchronized with the file whoever writes to it.

Each transaction that writes raises the file's version and stamps the vectors that it wrote with it;
a deleted vector leaves the version at which its partition lost one. So within a read a block
knows by two look-ups whether it is current, and else reads only what is newer than itself, or all
if one was deleted.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from semgraph.stores.cosine import Block
from semgraph.stores.sqlite.schema import quote

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_BATCH = 8192
_DISTINCT = (
    "WITH RECURSIVE p(x) AS (SELECT min(part) FROM {table} UNION ALL "
    "SELECT (SELECT min(part) FROM {table} WHERE part > x) FROM p WHERE x IS NOT NULL) "
    "SELECT x FROM p WHERE x IS NOT NULL"
)


@dataclass
class _CachedBlock:
    block: Block
    version: int


def file_version(con: sqlite3.Connection) -> int:
    """The version of the file that this transaction sees."""
    version: int = con.execute("SELECT value FROM \"#meta\" WHERE name = 'version'").fetchone()[0]
    return version


class VectorCache:
    """Blocks by table and partition; the least recently used go when they take more than `limit`
    bytes.
    """

    def __init__(self, limit: int = 4 << 30) -> None:
        self.limit = limit
        self._held: OrderedDict[tuple[str, str], _CachedBlock] = OrderedDict()
        self._grown = False

    def known(self, table: str, partitions: Iterable[str] | None) -> int | None:
        """How many vectors are held of some partitions (None: of all that are held); None if one is
        not held at all.
        """
        if partitions is None:
            counts = [held.block.count for (name, _), held in self._held.items() if name == table]
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
        blocks = [self._block(con, table, partition, size, version) for partition in partitions]
        if self._grown:
            self._forget(len(blocks))
        return [block for block in blocks if block.count]

    def clear(self) -> None:
        """Forget all."""
        self._held.clear()

    def _block(
        self, con: sqlite3.Connection, table: str, partition: str, size: int, version: int
    ) -> Block:
        name = (table, partition)
        held = self._held.get(name)
        if (
            held is None
            or held.block.size != size
            or (held.version != version and _lost(con, name, held.version))
        ):
            held = self._held[name] = _CachedBlock(Block(size), -1)
        if held.version != version:
            _read(con, table, partition, held)
            held.version = version
            self._grown = True
        self._held.move_to_end(name)
        return held.block

    def _forget(self, in_use: int) -> None:
        held = sum(one.block.bytes for one in self._held.values())
        while held > self.limit and len(self._held) > in_use:
            held -= self._held.popitem(last=False)[1].block.bytes
        self._grown = False


def _lost(con: sqlite3.Connection, name: tuple[str, str], version: int) -> bool:
    """Whether a vector was deleted since a version."""
    row = con.execute('SELECT version FROM "#gone" WHERE name = ? AND part = ?', name).fetchone()
    return row is not None and row[0] > version


def _read(con: sqlite3.Connection, table: str, partition: str, held: _CachedBlock) -> None:
    """Put all that is newer than the block into it."""
    import numpy as np

    newer = f"FROM {quote(table)} WHERE part = ? AND changed > ?"
    if not held.block.count:
        held.block.reserve(
            con.execute(f"SELECT count(*) {newer}", (partition, held.version)).fetchone()[0]
        )
    cursor = con.execute(f'SELECT "#id", vector {newer}', (partition, held.version))
    while rows := cursor.fetchmany(_BATCH):
        ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
        held.block.put(
            ids,
            np.frombuffer(b"".join(row[1] for row in rows), "<f4").reshape(
                len(rows), held.block.size
            ),
        )


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
        self.scored: dict[Hashable, int] = {}
        """How many rows were scored from their texts because postings were not read."""
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

    def __init__(self) -> None:
        self.vectors = VectorCache()
        self.texts = TextCache()
