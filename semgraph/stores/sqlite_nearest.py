"""Nearest neighbours in SQLite: cosine from the blocks in memory, conditions from the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from semgraph.stores.base import Method
from semgraph.stores.cosine import Block, candidates, exact, lengths
from semgraph.stores.sqlite_schema import ID, Table
from semgraph.stores.sqlite_terms import Asking
from semgraph.stores.sqlite_values import encode_vectors
from semgraph.stores.sqlite_vectors import VectorCache

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

Ranked = list[tuple[int, int, float]]
"""Ordinal of a row, id of a hit, cosine; best first within a row, ties by key."""


@dataclass(frozen=True)
class Nearest:
    """One `nearest` method, prepared for its rows.

    Args:
        table: Of the label.
        method: Says how many, and above which cosine.
        vectors: Of the rows.
        asking: The rows.
        where: Conditions in SQL.
        partitions: For each row what it may see; None: all.
        parts: The temporary table that says the same.
        pinned: Whether the conditions name the key or the ends of a hit. Then SQLite finds the few that pass, and only these
            are compared. Else the nearest are found first, and more of them as long as fewer than k pass.
    """

    table: Table
    method: Method
    vectors: pa.Array[Any]
    asking: Asking
    where: Sequence[str]
    partitions: Sequence[tuple[str, ...]] | None
    parts: str
    pinned: bool

    @property
    def embedding(self) -> str:
        """The vector property."""
        return self.table.label.vectors[self.method.prop]

    @cached_property
    def name(self) -> str:
        """The table of the vectors."""
        return self.table.vectors(self.embedding)

    @cached_property
    def queries(self) -> tuple[list[int], Floats]:
        """Numbers of the rows whose vector has a direction, and these vectors."""
        import numpy as np

        blobs, size = encode_vectors(self.vectors, f'column "{self.method.column}" of the rows')
        kept = [n for n, blob in enumerate(blobs) if blob is not None]
        flat = b"".join(blob for blob in blobs if blob is not None)
        numbers = np.frombuffer(flat, "<f4").reshape(len(kept), size or 1)
        usable = lengths(numbers) > 0
        return [n for n, ok in zip(kept, usable.tolist(), strict=True) if ok], numbers[usable].astype(np.float64)

    @property
    def size(self) -> int | None:
        """Length of the rows' vectors; None if no row has one."""
        rows, numbers = self.queries
        return numbers.shape[1] if rows else None

    def work(self, cache: VectorCache) -> int | None:
        """How many products it takes, as far as the cache knows."""
        rows, _ = self.queries
        counts = [cache.known(self.name, self.partitions[n] if self.partitions else None) for n in rows]
        return None if None in counts else sum(count for count in counts if count is not None)

    def hits(self, con: sqlite3.Connection, cache: VectorCache) -> Iterator[tuple[int, int, float, int]]:
        """Ordinal, rank, cosine and id of the hits, within a transaction."""
        ranked = self._of_passing(con, cache) if self.pinned else self._of_nearest(con, cache)
        for q, found in groupby(ranked, itemgetter(0)):
            for rank, (_, row, score) in enumerate(found):
                if self.method.k is not None and rank >= self.method.k:
                    break
                yield q, rank, score, row

    def _of_nearest(self, con: sqlite3.Connection, cache: VectorCache) -> Ranked:
        rows, numbers = self.queries
        groups: dict[tuple[str, ...] | None, list[int]] = {}
        for n, row in enumerate(rows):
            groups.setdefault(self.partitions[row] if self.partitions is not None else None, []).append(n)
        found: Ranked = []
        for partitions, members in groups.items():
            blocks = cache.blocks(con, self.name, partitions, numbers.shape[1])
            asked = [self.asking.ordinals[rows[n]] for n in members]
            found += self._best(con, blocks, asked, numbers[members])
        return found

    def _best(self, con: sqlite3.Connection, blocks: Sequence[Block], asked: Sequence[int], queries: Floats) -> Ranked:
        k = self.method.k
        wanted = max(4 * k, 64) if k is not None and self.where else k
        found: Ranked = []
        while len(asked):
            chosen = candidates(blocks, queries, self.method.above, wanted)
            near: Ranked = []
            for q, query, among in zip(asked, queries, chosen, strict=True):
                near += self._compared(blocks, among.block, among.places, q, query)
            passed = {q: list(hits) for q, hits in groupby(self._passing(con, near), itemgetter(0))}
            unsure = []
            for n, (q, among) in enumerate(zip(asked, chosen, strict=True)):
                sure = [hit for hit in passed.get(q, ()) if hit[2] >= among.floor]
                if k is None or len(sure) >= k or among.floor <= self.method.above:
                    found += passed.get(q, ())
                else:
                    unsure.append(n)
            asked, queries, wanted = [asked[n] for n in unsure], queries[unsure], wanted and wanted * 8
        return found

    def _compared(self, blocks: Sequence[Block], number: Any, places: Any, q: int, query: Floats) -> Ranked:
        found: Ranked = []
        for i in sorted(set(number.tolist())):
            mine = places[number == i]
            scores = exact(blocks[i], mine, query)
            above = scores > self.method.above
            ids = blocks[i].ids[mine][above].tolist()
            found += zip([q] * len(ids), ids, scores[above].tolist(), strict=True)
        return found

    def _passing(self, con: sqlite3.Connection, near: Ranked) -> Ranked:
        """Those that pass the conditions, in order."""
        con.execute(
            'CREATE TEMP TABLE IF NOT EXISTS "#near" (n INTEGER PRIMARY KEY, q INTEGER, id INTEGER, score REAL)'
        )
        con.execute('DELETE FROM temp."#near"')
        con.executemany('INSERT INTO temp."#near" (q, id, score) VALUES (?, ?, ?)', near)
        rows = f"CROSS JOIN temp.{self.asking.table} r" if self.where else ""
        where = " AND ".join(["r.q = h.q", *self.where]) if self.where else "TRUE"
        return con.execute(
            f'SELECT h.q, h.id, h.score FROM temp."#near" h {rows} CROSS JOIN {self.table.name} t '
            f"WHERE t.{ID} = h.id AND {where} ORDER BY h.q, h.score DESC, t.{self.table.key}"
        ).fetchall()

    def _of_passing(self, con: sqlite3.Connection, cache: VectorCache) -> Ranked:
        """All that pass the conditions, ranked."""
        confined = f"CROSS JOIN temp.{self.parts} s" if self.parts else ""
        own = ["s.q = r.q", f"+t.{self.table.partition} = s.part"] if self.parts else []  # + keeps to the other index
        sql = (
            f"SELECT t.{self.table.partition}, r.q, t.{ID}, t.{self.table.key} FROM temp.{self.asking.table} r {confined} "
            f"CROSS JOIN {self.table.name} t WHERE {' AND '.join([*own, *self.where])} ORDER BY 1, 2"
        )
        rows, numbers = self.queries
        query = {self.asking.ordinals[row]: numbers[n] for n, row in enumerate(rows)}
        found: list[tuple[int, float, str, int]] = []
        for partition, pairs in groupby(con.execute(sql).fetchall(), itemgetter(0)):
            for block in cache.blocks(con, self.name, (partition,), numbers.shape[1]):
                for q, listed in groupby(pairs, itemgetter(1)):
                    if q in query:
                        found += self._scored(block, [(row, key) for _, _, row, key in listed], q, query[q])
        return [(q, row, -score) for q, score, _, row in sorted(found)]

    def _scored(
        self, block: Block, hits: Sequence[tuple[int, str]], q: int, query: Floats
    ) -> Iterator[tuple[int, float, str, int]]:
        places = block.places([row for row, _ in hits])
        known = [(place, *hit) for place, hit in zip(places.tolist(), hits, strict=True) if place >= 0]
        scores = exact(block, places[places >= 0], query).tolist()
        for (_, row, key), score in zip(known, scores, strict=True):
            if score > self.method.above:
                yield q, -score, key, row
