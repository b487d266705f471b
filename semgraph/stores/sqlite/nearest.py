"""Nearest neighbours in SQLite: cosine from the blocks in memory, conditions from the file."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING

from semgraph.stores.base import Method
from semgraph.stores.batch_io import column, vectors_of
from semgraph.stores.cosine import Block, Candidates, Int8Block, candidates, exact, lengths
from semgraph.stores.sqlite.rows import RankedHit, SearchScope
from semgraph.stores.sqlite.schema import ID, quote
from semgraph.stores.sqlite.values import decode_vectors
from semgraph.stores.sqlite.vectors import Memory, VectorCache, read_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Queries = dict[int, Floats]


_AT_ONCE = 8_192  # stored vectors that are read at one time
Ranked = list[tuple[int, int, float]]
"""Ordinal of a row, id of a hit, cosine; best first within a row, ties by key."""


@dataclass(frozen=True)
class Nearest:
    """Hits by the cosine of their embedding.

    Where conditions leave few hits, SQLite finds those that pass, and only these are compared. Else
    the nearest come first, and more of them are read as long as fewer than k pass.
    """

    scope: SearchScope
    method: Method

    @property
    def embedding(self) -> str:
        """The vector property."""
        return self.scope.table.label.vectors[self.method.prop]

    @cached_property
    def name(self) -> str:
        """The table of the vectors."""
        return self.scope.table.vectors(self.embedding)

    @cached_property
    def queries(self) -> tuple[list[int], Floats]:
        """Numbers of the rows that have a vector with a direction, and these vectors."""
        import numpy as np

        name = self.method.column
        vectors = vectors_of(column(self.scope.request.rows, name), f'column "{name}" of the rows')
        usable = (lengths(vectors.numbers) > 0).tolist()
        rows = [n for n, ok in enumerate(vectors.spread(usable)) if ok]
        return rows, vectors.numbers[usable].astype(np.float64)

    @property
    def size(self) -> int | None:
        """Length of the rows' vectors; None if no row has one."""
        rows, numbers = self.queries
        return numbers.shape[1] if rows else None

    def work(self, cache: VectorCache) -> int | None:
        """How many products it takes; None if the cache does not know yet."""
        rows, _ = self.queries
        counts = [cache.known(self.name, self.scope.seen(row)) for row in rows]
        return None if None in counts else sum(count for count in counts if count is not None)

    def hits(self, con: sqlite3.Connection, memory: Memory) -> Iterator[RankedHit]:
        """The hits, ties by key."""
        rows, numbers = self.queries
        queries = {self.scope.request.ordinals[row]: numbers[n] for n, row in enumerate(rows)}
        ranked = self._of_passing if self.scope.pinned else self._of_nearest
        hits_of = ranked(con, memory.vectors, queries)
        self._note_left_out(con, memory.vectors.odd.pop(self.name, set()))
        for q, hits in groupby(hits_of, itemgetter(0)):
            for rank, (_, row, score) in enumerate(islice(hits, self.method.k)):
                yield RankedHit(q, rank, score, row)

    def _note_left_out(self, con: sqlite3.Connection, rows: set[int]) -> None:
        """Note rows with a vector that cannot be compared."""
        table = self.scope.table
        sql = (
            f"SELECT t.{table.key}, v.vector FROM {table.name} t JOIN {quote(self.name)} v USING ({ID}) "
            f"WHERE t.{ID} IN (SELECT value FROM json_each(?)) ORDER BY 1"
        )
        for key, vector in con.execute(sql, (str(sorted(rows)),)) if rows else ():
            shown = decode_vectors([vector], len(vector) // 4).to_pylist()[0]
            row = {table.graph.key: key}
            table.left_out.note(table.graph, table.label.name, self.embedding, shown, row)

    def _of_nearest(self, con: sqlite3.Connection, cache: VectorCache, queries: Queries) -> Ranked:
        groups: dict[tuple[str, ...] | None, Queries] = {}
        for row, q in enumerate(self.scope.request.ordinals):
            if q in queries:
                groups.setdefault(self.scope.seen(row), {})[q] = queries[q]
        hits: Ranked = []
        for partitions, queries_of in groups.items():
            blocks = cache.blocks(con, self.name, partitions, self.size or 1)
            best, unsure = self._best(con, blocks, queries_of)
            hits += best
            if unsure:
                hits += self._of_passing(con, cache, unsure)
        return hits

    def _best(
        self, con: sqlite3.Connection, blocks: list[Block], queries: Queries
    ) -> tuple[Ranked, Queries]:
        """The best hits that pass the conditions, for rows with the same partitions; and the queries
        for which hardly any passes.
        """
        import numpy as np

        k, total = self.method.k, sum(block.count for block in blocks)
        wanted = max(4 * k, 64) if k is not None and self.scope.where else k
        best: Ranked = []
        while queries and (wanted is None or wanted <= max(total // 8, k or 0, 64)):
            asked = np.stack([*queries.values()])
            chosen = candidates(blocks, asked, self.method.above, wanted)
            ranked: Ranked = []
            for (q, query), candidates_of in zip(queries.items(), chosen, strict=True):
                hits = self.scope.ranked(con, self._compared(con, blocks, candidates_of, query))
                ranked += ((q, row, score) for score, row in hits)
            passing = (
                self.scope.passing(con, ranked, confined=False) if self.scope.where else ranked
            )
            passed = {q: list(hits) for q, hits in groupby(passing, itemgetter(0))}
            for q, candidates_of in zip([*queries], chosen, strict=True):
                sure = [hit for hit in passed.get(q, ()) if hit[2] >= candidates_of.floor]
                if k is None or len(sure) >= k or candidates_of.floor <= self.method.above:
                    best += passed.get(q, ())
                    queries = {other: query for other, query in queries.items() if other != q}
            wanted = wanted and wanted * 8
        return best, queries

    def _compared(
        self,
        con: sqlite3.Connection,
        blocks: Sequence[Block],
        chosen: Candidates,
        query: Floats,
    ) -> list[tuple[float, int]]:
        compared: list[tuple[float, int]] = []
        for i in sorted(set(chosen.block.tolist())):
            ids = blocks[i].ids[chosen.places[chosen.block == i]]
            for some, block in self._stored(con, blocks[i], ids):
                scores = exact(block, block.places(some.tolist()), query)
                above = scores > self.method.above
                compared += zip(scores[above].tolist(), some[above].tolist(), strict=True)
        return compared

    def _stored(
        self, con: sqlite3.Connection, block: Block, ids: Ints
    ) -> Iterator[tuple[Ints, Block]]:
        """Some rows of a block, in pieces, with their stored vectors."""
        if not isinstance(block, Int8Block):
            yield ids, block
            return
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            yield some, read_vectors(con, self.name, some, block.size)

    def _of_passing(self, con: sqlite3.Connection, cache: VectorCache, queries: Queries) -> Ranked:
        """All rows that pass the conditions, ranked."""
        import numpy as np

        scored: list[tuple[int, float, str, int]] = []
        for partition, pairs in groupby(self.scope.all_passing(con, [*queries]), itemgetter(0)):
            listed_pairs = list(pairs)
            rows = np.array(sorted({row for _, _, row, _ in listed_pairs}), np.int64)
            [whole] = cache.blocks(con, self.name, (partition,), self.size or 1) or [Block(1)]
            for _, block in self._stored(con, whole, rows):
                for q, listed in groupby(listed_pairs, itemgetter(1)):
                    scored += self._scored(
                        block, [(row, key) for _, _, row, key in listed], q, queries[q]
                    )
        return [(q, row, -score) for q, score, _, row in sorted(scored)]

    def _scored(
        self, block: Block, hits: Sequence[tuple[int, str]], q: int, query: Floats
    ) -> Iterator[tuple[int, float, str, int]]:
        places = block.places([row for row, _ in hits])
        known = [hit for place, hit in zip(places.tolist(), hits, strict=True) if place >= 0]
        for (row, key), score in zip(
            known, exact(block, places[places >= 0], query).tolist(), strict=True
        ):
            if score > self.method.above:
                yield q, -score, key, row
