"""Methods of a search that SQLite ranks: by equality, by order, by full text."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from semgraph.expr.functions import words
from semgraph.stores.base import Method
from semgraph.stores.rows import column
from semgraph.stores.sqlite_schema import ID, quote
from semgraph.stores.sqlite_scope import Found, Memory, Scope

_MANY_PARTITIONS = 64
_TIES = 200
"""How many more than k are read, as texts of one length with one word of the query are equally good."""


class Equal:
    """Hits whose property equals the row's value: one statement for all rows."""

    def __init__(self, scope: Scope, method: Method) -> None:
        self.scope, self.method = scope, method
        self.value = scope.asking.path(method.column, scope.table.type_of(method.prop))

    def found(self, con: sqlite3.Connection, _: Memory) -> Iterator[Found]:
        """The hits, by key."""
        scope, table, k = self.scope, self.scope.table, self.method.k
        conditions = [f"t.{quote(self.method.prop)} = {self.value}", *scope.where]
        parts = ""
        if scope.parts:
            parts = f"CROSS JOIN temp.{scope.parts} s"
            conditions += ["s.q = r.q", f"{scope.partition} = s.part"]
        sql = (
            f"SELECT r.q AS q, row_number() OVER (PARTITION BY r.q ORDER BY t.{table.key}) - 1 AS n, t.{ID} AS id "
            f"FROM temp.{scope.asking.table} r {parts} CROSS JOIN {table.name} t WHERE {' AND '.join(conditions)}"
        )
        for q, n, row in con.execute(
            f"SELECT q, n, id FROM ({sql}) WHERE n < ? ORDER BY q, n", (2**62 if k is None else k,)
        ):
            yield Found(q, n, 1.0, row)


@dataclass(frozen=True)
class Order:
    """Hits in an order that the search says."""

    scope: Scope
    method: Method
    by: Sequence[tuple[str, bool]]

    def found(self, con: sqlite3.Connection, _: Memory) -> Iterator[Found]:
        """The hits, NULLs last, ties by key."""
        scope = self.scope
        order = ", ".join(f"t.{quote(name)} {'DESC' if down else 'ASC'} NULLS LAST" for name, down in self.by) or "1"
        for row in range(len(scope.asking.ordinals)):
            if scope.seen(row) == ():
                continue
            condition, values = scope.confined(row)
            select = f"1.0, t.{ID} FROM {{rows}} {scope.table.name} t"
            yield from scope.one_row(con, row, select, [condition], values, order, self.method.k)


@dataclass(frozen=True)
class Words:
    """Hits by full text, ranked by FTS5's BM25."""

    scope: Scope
    method: Method

    @cached_property
    def asked(self) -> list[str | None]:
        """Queries of the rows; None: no words."""
        texts = column(self.scope.asking.rows, self.method.column).to_pylist()
        return [_any_of(text) for text in texts]

    @cached_property
    def name(self) -> str:
        """The full-text table, quoted."""
        return quote(self.scope.table.words(self.method.prop)[0])

    @property
    def score(self) -> str:
        """BM25 in SQL, greater for better; the partition token counts nothing."""
        return f"-bm25({self.name}, 0.0)"

    def found(self, con: sqlite3.Connection, memory: Memory) -> Iterator[Found]:
        """The hits, ties by key.

        Conditions and large partitions are looked up for every row that has a word. Without conditions a partition that is
        the whole table needs no confining, and a small one is confined within full text, by its token.
        """
        scope = self.scope
        cells = " ".join(f"c{i}" for i in range(len(scope.table.words(self.method.prop)[1])))
        for row, query in enumerate(self.asked):
            seen = scope.seen(row)
            if query is None or seen == ():
                continue
            match, confined = f"{{{cells}}} : ({query})", False
            if seen is not None and not scope.holds_all(con, seen):
                confined = len(seen) > _MANY_PARTITIONS or memory.sizes.is_large(con, scope.table, seen)
                if not confined:
                    match = f"p : ({' OR '.join(map(_token, seen))}) AND {match}"
            ranked = None if confined or scope.where else self._ranked(con, row, match)
            yield from self._joined(con, row, match, confined=confined) if ranked is None else ranked

    def _joined(self, con: sqlite3.Connection, row: int, match: str, *, confined: bool) -> Iterator[Found]:
        scope = self.scope
        condition, values = scope.confined(row) if confined else ("TRUE", ())
        select = f"{self.score} AS score, t.{ID} FROM {{rows}} {self.name} CROSS JOIN {scope.table.name} t"
        conditions = [f"{self.name} MATCH ?", f"t.{ID} = {self.name}.rowid", condition]
        return scope.one_row(con, row, select, conditions, [match, *values], "score DESC", self.method.k)

    def _ranked(self, con: sqlite3.Connection, row: int, match: str) -> list[Found] | None:
        """The k best by full text alone; None if too many are as good as the k-th, and keys must say who is in."""
        k = self.method.k
        if k is None:
            return None
        sql = f"SELECT {self.score} AS score, rowid FROM {self.name} WHERE {self.name} MATCH ? ORDER BY score DESC LIMIT ?"
        best: list[tuple[float, int]] = con.execute(sql, (match, k + _TIES)).fetchall()
        if len(best) > k:
            if len(best) == k + _TIES and best[-1][0] == best[k - 1][0]:
                return None
            best = [hit for hit in best if hit[0] >= best[k - 1][0]]
        q = self.scope.asking.ordinals[row]
        return [Found(q, rank, score, found) for rank, (score, found) in enumerate(self.scope.ranked(con, best)[:k])]


def _token(partition: str) -> str:
    """What full text holds of a partition."""
    return f'"x{partition.encode().hex()}"'


def _any_of(text: str | None) -> str | None:
    """Plain words as an FTS5 query: any of them, none of it syntax."""
    found = dict.fromkeys(words(text).split()) if text is not None else {}
    return " OR ".join(f'"{word}"' for word in found) or None
