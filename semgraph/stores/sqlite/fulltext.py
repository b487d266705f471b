"""Full text in SQLite, ranked by BM25.

The index holds each word together with its partition, so a search reads only the postings of its
partitions. Word frequencies are those of the partitions that a row may see; the mean length of
texts is that of the table.

The words of partitions with few rows are held in memory, and all their rows are scored there.

For larger partitions the best k rows are exact, too, although postings of very frequent words may
stay unread (MaxScore, Turtle and Flood 1995). Words are read from the rarest on, until the
remaining ones together cannot lift another row into the best k. Then only the rows read so far are
candidates. Their postings of the remaining words come from memory; if it is cheaper, the rows are
scored from their texts.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import nsmallest
from itertools import chain
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

from semgraph.expr.functions import distinct_words, overlap_of
from semgraph.stores.base import Method
from semgraph.stores.prepare import column
from semgraph.stores.sqlite.rows import RankedHit, SearchScope
from semgraph.stores.sqlite.schema import ID, Table, indexed_words, quote, word_counts
from semgraph.stores.sqlite.vectors import Caches, Postings, WordBlock, file_version

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

_K1, _B = 1.2, 0.75
_LEAST_WEIGHT = 1e-6  # of words in more than half of the rows; all four constants are those of FTS5
# If a row may see more partitions, the whole index is read and its hits are filtered.
_LISTED = 64
# The words of this many rows are held in memory: all partitions that a row may see, together.
_FEW = 2_000
# A partition with this many rows has short postings: they are read without counting first.
_SHORT = 2_000
_SCORING = 4  # postings that are read in the time of scoring one row from its texts
_CHUNK = 64
_SLACK = 1e-9  # sums of the same terms differ by less than this
Hits = list[tuple[float, str, int]]  # negative score, key, id


def weight(rows: int, holding: int) -> float:
    """The weight (inverse document frequency) of a word in `holding` of `rows` rows."""
    return max(math.log((rows - holding + 0.5) / (holding + 0.5)), _LEAST_WEIGHT)


def saturated(count: int, length: int, mean_length: float) -> float:
    """The saturated frequency of a word that occurs `count` times in a row of `length` words."""
    return count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length / mean_length))


class QueryWord(NamedTuple):
    """A word of a query and its weight."""

    text: str
    weight: float

    @property
    def most(self) -> float:
        """The maximum contribution to a score."""
        return (_K1 + 1) * self.weight


class FullTextIndex:
    """The full-text index of a property, with others, within one transaction."""

    def __init__(self, con: Connection, table: Table, prop: str, caches: Caches) -> None:
        self.con, self.table, self.prop = con, table, prop
        self._words = caches.words
        full, self.properties = table.words(prop)
        self.name, self._full = quote(full), full
        self._cache = caches.texts
        self._cache.read_at(file_version(con))
        self._ids: dict[str, int] = {}
        self.rows, self.mean_length = _averages(con, full)

    def _number(self, partition: str) -> int:
        """The number of a partition in the index; 0 if it never had a row."""
        if partition not in self._ids:
            sql = 'SELECT id FROM "#partitions" WHERE part = ?'
            row = self.con.execute(sql, (partition,)).fetchone()
            self._ids[partition] = row[0] if row else 0
        return self._ids[partition]

    def size(self, partition: str | None) -> int:
        """The number of rows of a partition (None: the table)."""
        if partition is None or partition == self._only_partition:
            return self.rows
        sql = f"SELECT count(*) FROM {self.table.name} WHERE {self.table.partition} = ?"
        return self._count((self._full, None, partition), sql, partition)

    @cached_property
    def _only_partition(self) -> str | None:
        """The partition of all rows; None if they have several."""
        part, table = self.table.partition, self.table.name
        ends = ", ".join(f"(SELECT {end}({part}) FROM {table})" for end in ("min", "max"))
        first, last = self.con.execute(f"SELECT {ends}").fetchone()
        return first if first == last else None

    def blocks(self, partitions: Sequence[str | None]) -> list[WordBlock] | None:
        """The words of some partitions; None if these have many rows."""
        names = [partition for partition in partitions if partition is not None]
        if len(names) < len(partitions) or sum(map(self.size, names)) > _FEW:
            return None
        return self._words.blocks(self.con, self.table, self.prop, names)

    def holding(self, word: str, partition: str | None) -> int:
        """The number of rows of a partition (None: all) with a word."""
        if self.size(partition) <= _SHORT:
            return len(self.postings(word, partition).ids)
        sql = f"SELECT count(*) FROM {self.name} WHERE {self.name} MATCH ?"
        return self._count((self._full, word, partition), sql, self._term(word, partition))

    def _count(self, name: tuple[str, str | None, str | None], sql: str, value: str) -> int:
        if name not in self._cache.counts:
            self._cache.counts[name] = self.con.execute(sql, (value,)).fetchone()[0]
        return self._cache.counts[name]

    def postings(self, word: str, partition: str | None) -> Postings:
        """The rows with a word."""
        import numpy as np

        name = self._full, word, partition
        if (known := self._cache.postings(name)) is not None:
            return known
        sql = f"SELECT rowid, bm25({self.name}) FROM {self.name} WHERE {self.name} MATCH ? ORDER BY rowid"
        cells = chain.from_iterable(self.con.execute(sql, (self._term(word, partition),)))
        listed = np.fromiter(cells, np.float64).reshape(-1, 2)
        frequencies = listed[:, 1] / -weight(self.rows, len(listed))
        read = Postings(listed[:, 0].astype(np.int64), frequencies)
        self._cache.keep(name, read)
        return read

    def is_cheap(self, word: str, partition: str | None, rows: int) -> bool:
        """Whether reading the postings of a word is cheaper than scoring the rows from their texts.
        Earlier scoring counts, so the postings of a word of many queries are eventually read.
        """
        name = self._full, word, partition
        if self._cache.postings(name) is not None:
            return True
        scored = self._cache.scored.get(name, 0) + rows
        self._cache.scored[name] = scored
        return scored * _SCORING >= self.holding(word, partition)

    def first_by_key(self, ids: Sequence[int], count: int) -> list[int]:
        """The first `count` of some rows in key order."""
        which = f"{ID} IN (SELECT value FROM json_each(?))"
        sql = f"SELECT {ID} FROM {self.table.name} WHERE {which} ORDER BY {self.table.key} LIMIT ?"
        return [row for (row,) in self.con.execute(sql, (json.dumps(ids), count))]

    def _term(self, word: str, partition: str | None) -> str:
        """A word of a partition (None: of any) as an FTS5 query."""
        return f'"{word}_"*' if partition is None else f'"{word}_{self._number(partition)}"'

    def texts(self, ids: Sequence[int]) -> Iterator[Any]:
        """Id, key and texts of some rows."""
        cells = ", ".join((ID, self.table.key, *map(quote, self.properties)))
        which = f"{ID} IN (SELECT value FROM json_each(?))"
        sql = f"SELECT {cells} FROM {self.table.name} WHERE {which}"
        yield from self.con.execute(sql, (json.dumps(ids),))

    def score(self, ids: Sequence[int], words: Sequence[QueryWord]) -> Hits:
        """Score rows from their texts; rows without any of the words are left out."""
        hits: Hits = []
        for row, key, *cells in self.texts(ids):
            counts, length = word_counts(tuple(filter(None, cells)))
            score = 0.0
            for word in words:
                if count := counts.get(word.text):
                    score += word.weight * saturated(count, length, self.mean_length)
            if score:
                hits.append((-score, key, row))
        return hits


def _averages(con: Connection, full: str) -> tuple[int, float]:
    """The rows of an FTS5 table and their mean number of words, from its averages record."""
    row = con.execute(f"SELECT block FROM {quote(full + '_data')} WHERE id = 1").fetchone()
    numbers, number = [], 0
    for byte in row[0] if row else b"":
        number = number << 7 | byte & 127
        if byte < 128:
            numbers.append(number)
            number = 0
    rows, *totals = numbers or [0]
    return rows, sum(totals) / rows if rows else 1.0


class Sums:
    """Rows, ascending by id, with the score contributions of the words read so far."""

    def __init__(self, ids: Ints | None = None, scores: Floats | None = None) -> None:
        import numpy as np

        self.ids = np.empty(0, np.int64) if ids is None else ids
        self.scores = np.empty(0, np.float64) if scores is None else scores

    def plus(self, postings: Postings, weight: float, *, only_known: bool) -> Sums:
        """The sums after adding a word; `only_known` adds no rows."""
        import numpy as np

        if not len(self.ids) and not only_known:
            return Sums(postings.ids, postings.frequencies * weight)
        ids, scores = self.ids, self.scores
        if not only_known:
            ids = np.sort(np.concatenate((ids, postings.ids)))
            ids = ids[np.append(True, ids[1:] != ids[:-1])]
        if len(ids) > len(self.ids):
            scores = np.zeros(len(ids))
            scores[np.searchsorted(ids, self.ids)] = self.scores
        if len(postings.ids):
            places = np.searchsorted(postings.ids, ids).clip(max=len(postings.ids) - 1)
            found = np.where(postings.ids[places] == ids, postings.frequencies[places], 0.0)
            scores = scores + weight * found
        return Sums(ids, scores)

    def best(self, k: int) -> float:
        """The k-th best score; 0 if there are fewer."""
        import numpy as np

        count = len(self.scores)
        return float(np.partition(self.scores, count - k)[count - k]) if count >= k > 0 else 0.0

    def at_least(self, floor: float) -> Sums:
        """The rows with at least this score."""
        high = self.scores >= floor
        return Sums(self.ids[high], self.scores[high])

    def but(self, others: Sums) -> Sums:
        """The rows that `others` lacks."""
        import numpy as np

        rest = ~np.isin(self.ids, others.ids, assume_unique=True)
        return Sums(self.ids[rest], self.scores[rest])

    def of(self, ids: Sequence[int]) -> Sums:
        """The sums of some of the rows."""
        import numpy as np

        places = np.searchsorted(self.ids, np.sort(np.array(ids, np.int64)))
        return Sums(self.ids[places], self.scores[places])

    def sorted(self) -> tuple[list[int], list[float]]:
        """Ids and scores, best first."""
        import numpy as np

        order = np.argsort(-self.scores, kind="stable")
        return self.ids[order].tolist(), self.scores[order].tolist()


def _weighted(rows: int, holding: Mapping[str, int]) -> list[QueryWord]:
    """Words with the number of rows that hold them, rarest first, without those that no row holds."""
    counts = sorted((n, word) for word, n in holding.items() if n)
    return [QueryWord(word, weight(rows, n)) for n, word in counts]


class RankedPostings:
    """A ranking of rows for the words of one query, over partitions with their words in memory.

    `take` gives the best k rows (None: all), best first, ties by key; `score` the scores of some
    rows, without those that have none of the words.
    """

    def __init__(
        self, blocks: Sequence[WordBlock], query: Sequence[str], mean_length: float
    ) -> None:
        self._blocks = blocks
        held = {word: sum(len(block.postings.get(word, ())) for block in blocks) for word in query}
        self._words = _weighted(sum(len(block.rows) for block in blocks), held)
        self._mean_length = mean_length

    def take(self, k: int | None) -> Hits:
        hits = [hit for block in self._blocks for hit in self._hits(block, None)]
        return sorted(hits) if k is None else nsmallest(k, hits)

    def score(self, ids: Sequence[int]) -> Hits:
        rows = set(ids)
        return [hit for block in self._blocks for hit in self._hits(block, rows)]

    def words_of(self, ids: Sequence[int]) -> Iterable[frozenset[str]]:
        for row in ids:
            yield next(block.rows[row].words for block in self._blocks if row in block.rows)

    def _hits(self, block: WordBlock, rows: set[int] | None) -> Hits:
        """The hits of a block; only among `rows` unless None."""
        scores: dict[int, float] = {}
        for word in self._words:
            counts = block.postings.get(word.text, {})
            for row in counts if rows is None else rows & counts.keys():
                count, length = counts[row], block.rows[row].length
                score = word.weight * saturated(count, length, self._mean_length)
                scores[row] = scores.get(row, 0.0) + score
        return [(-score, block.rows[row].key, row) for row, score in scores.items()]


class RarestFirst:
    """A ranking as `RankedPostings`, which reads postings as far as needed."""

    def __init__(
        self, index: FullTextIndex, query: Sequence[str], partitions: Sequence[str | None]
    ) -> None:
        self.index, self.partitions = index, partitions
        held = {word: sum(index.holding(word, part) for part in partitions) for word in query}
        self.words = _weighted(sum(map(index.size, partitions)), held)

    def score(self, ids: Sequence[int]) -> Hits:
        return self.index.score(ids, self.words)

    def words_of(self, ids: Sequence[int]) -> Iterable[frozenset[str]]:
        texts = {row: cells for row, _, *cells in self.index.texts(ids)}
        for row in ids:
            yield distinct_words(" ".join(t for t in texts[row] if isinstance(t, str)))

    def take(self, k: int | None) -> Hits:
        sums, rest = self._read(k)
        if k is None:
            return sorted(self.score(sums.ids.tolist()))
        sums = sums.at_least(sums.best(k) * (1 - _SLACK) - rest)
        if not rest:
            sums = self._without_late_ties(sums, k)
        ids, scores = sums.sorted()
        hits: Hits = []
        floor, chunk = 0.0, max(2 * k, _CHUNK)
        while ids and scores[0] >= floor:
            hits = nsmallest(k, [*hits, *self.score(ids[:chunk])])
            if len(hits) == k:
                floor = -hits[-1][0] * (1 - _SLACK) - rest
            del ids[:chunk], scores[:chunk]
        return hits

    def _read(self, k: int | None) -> tuple[Sums, float]:
        """Scores of rows by the words read, and the maximum contribution of the unread words."""
        sums = Sums()
        complete = False  # whether every other row is worse than the best k
        unread = sum(word.most for word in self.words)
        for word in self.words:
            if k is not None and (floor := sums.best(k)) > unread * (1 + _SLACK):
                complete, sums = True, sums.at_least(floor * (1 - _SLACK) - unread)
                cheap = [self.index.is_cheap(word.text, p, len(sums.ids)) for p in self.partitions]
                if not all(cheap):
                    return sums, unread
            for partition in self.partitions:
                postings = self.index.postings(word.text, partition)
                sums = sums.plus(postings, word.weight, only_known=complete)
            unread -= word.most
        return sums, 0.0

    def _without_late_ties(self, sums: Sums, k: int) -> Sums:
        """The rows with the best k; of those that tie for the last places, the first by key."""
        best = sums.best(k)
        sure = sums.at_least(best * (1 + _SLACK))
        tied = sums.but(sure)
        if len(tied.ids) <= _CHUNK or tied.scores.min() != tied.scores.max():
            return sums
        places = self.index.first_by_key(tied.ids.tolist(), k - len(sure.ids))
        return sums.of([*sure.ids.tolist(), *places])


TextRanking = RankedPostings | RarestFirst


def ranking(
    index: FullTextIndex, query: Sequence[str], partitions: Sequence[str | None]
) -> TextRanking:
    """The ranking for the words of a query, over some partitions; `[None]`: all."""
    if (blocks := index.blocks(partitions)) is not None:
        return RankedPostings(blocks, query, index.mean_length)
    return RarestFirst(index, query, partitions)


@dataclass(frozen=True)
class FullText:
    """Hits by full text."""

    scope: SearchScope
    method: Method

    @cached_property
    def queries(self) -> list[list[str]]:
        """The distinct words of each row."""
        return [list(dict.fromkeys(indexed_words(text))) for text in self._texts]

    @cached_property
    def _texts(self) -> list[str]:
        texts = column(self.scope.request.rows, self.method.column).to_pylist()
        return [text or "" for text in texts]

    def hits(self, con: Connection, caches: Caches) -> Iterator[RankedHit]:
        """The hits, ties by key."""
        index = FullTextIndex(con, self.scope.table, self.method.prop, caches)
        for row, query in enumerate(self.queries):
            seen = self.scope.seen(row)
            if not query or seen == ():
                continue
            confined = seen is not None and len(seen) > _LISTED
            best = ranking(index, query, (None,) if seen is None or confined else seen)
            q = self.scope.request.ordinals[row]
            hits = self._passing(con, best, q, confined=confined)[: self.method.ranked]
            if self.method.rank == "overlap":
                hits = _by_overlap(best, hits, self._texts[row])
            for rank, (score, _, row_id) in enumerate(hits[: self.method.k]):
                yield RankedHit(q, rank, -score, row_id)

    def _passing(self, con: Connection, best: TextRanking, q: int, *, confined: bool) -> Hits:
        """The best rows that pass the conditions. Reads more rows as long as fewer than k pass."""
        k, scope = self.method.ranked, self.scope
        if not scope.where and not confined:
            return best.take(k)
        if scope.pinned:
            passing = [row for _, _, row, _ in scope.all_passing(con, [q])]
            return sorted(best.score(passing))
        wanted = None if k is None else max(4 * k, _CHUNK)
        while True:
            hits = best.take(wanted)
            near = [(q, row, score) for score, _, row in hits]
            passed = {row for _, row, _ in scope.passing(con, near, confined=confined)}
            if wanted is None or len(hits) < wanted or len(passed) >= (k or 0):
                return [hit for hit in hits if hit[2] in passed]
            wanted *= 8


def _by_overlap(best: TextRanking, hits: Hits, text: str) -> Hits:
    """Hits ranked by the words that they share with a text, best first, ties by key."""
    sought, words = distinct_words(text), best.words_of([row for _, _, row in hits])
    pairs = zip(hits, words, strict=True)
    return sorted((-overlap_of(sought, own), key, row) for (_, key, row), own in pairs)
