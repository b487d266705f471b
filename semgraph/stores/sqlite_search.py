"""Searches in SQLite. Each method first ranks ids of rows; what is returned of the hits is then read once."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from semgraph.expr import Type
from semgraph.expr.functions import words
from semgraph.stores.base import Method, SearchQuery
from semgraph.stores.conjunct import Prop, read
from semgraph.stores.rows import column, returned, search_schema
from semgraph.stores.sqlite_nearest import Nearest
from semgraph.stores.sqlite_schema import ID, Table, quote
from semgraph.stores.sqlite_terms import Asking, pinned
from semgraph.stores.sqlite_values import decode, decode_vectors
from semgraph.stores.sqlite_vectors import VectorCache

_LARGE = 4
"""A partition with more than one in so many of a label's rows is filtered after full text, a smaller one within it."""


class Hit(NamedTuple):
    """A ranked hit of one row and one method."""

    q: int
    method: int
    rank: int
    score: float
    id: int


class Sizes:
    """How many rows partitions have, about: chooses how full text is confined to them, never what it finds."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str], tuple[int, int]] = {}

    def is_large(self, con: sqlite3.Connection, table: Table, partitions: Sequence[str]) -> bool:
        """Whether some partitions hold a good part of a table. Counted anew when the table has grown by half."""
        total: int = con.execute(f"SELECT coalesce(max({ID}), 0) FROM {table.name}").fetchone()[0]
        held = 0
        for partition in partitions:
            name = (table.label.name, partition)
            count, then = self._counted.get(name, (0, 0))
            if total > 1.5 * then:
                sql = f"SELECT count(*) FROM {table.name} WHERE {table.partition} = ?"
                count = con.execute(sql, (partition,)).fetchone()[0]
                self._counted[name] = (count, total)
            held += count
        return held * _LARGE > total


class Search:
    """One search, prepared for its rows.

    Args:
        table: Of the label.
        query: The search.
        asking: The rows; takes up what the search needs of them.
    """

    def __init__(self, table: Table, query: SearchQuery, asking: Asking) -> None:
        self.table, self.query, self.asking = table, query, asking
        self.names = list(returned(table.graph, table.label, query.properties))
        self.where = asking.conjuncts(query.where, query.alias, self._prop)
        self.partitions = asking.partitions(query.partition) if query.partition is not None else None
        self.parts = asking.parts(query.partition) if query.partition is not None else ""
        self.nearest: list[Nearest] = []
        self.methods = [self._prepare(number, method) for number, method in enumerate(query.methods)]

    def _prop(self, prop: Prop) -> tuple[str, Type]:
        return self.table.stored(prop.name), self.table.type_of(prop.name)

    def _prepare(self, number: int, method: Method) -> Callable[[sqlite3.Connection, VectorCache, Sizes], list[Hit]]:
        if method.via == "equal":
            value = self.asking.path(method.column, self.table.type_of(method.prop))
            return lambda con, _, __: self._equal(con, number, method, value)
        if method.via == "fulltext":
            asked = [_match(text) for text in column(self.asking.rows, method.column).to_pylist()]
            return lambda con, _, sizes: self._fulltext(con, number, method, asked, sizes)
        if method.via == "order":
            return lambda con, _, __: self._order(con, number, method)
        names = {self.table.graph.key, *(("source", "target") if self.table.label.kind == "edge" else ())}
        terms = [read(scalar, self.query.alias) for scalar in self.query.where]
        is_pinned = any(term is not None and pinned(term, names) for term in terms)
        vectors = column(self.asking.rows, method.column)
        nearest = Nearest(self.table, method, vectors, self.asking, self.where, self.partitions, self.parts, is_pinned)
        self.nearest.append(nearest)
        return lambda con, cache, _: [
            Hit(q, number, rank, score, row) for q, rank, score, row in nearest.hits(con, cache)
        ]

    def run(
        self, con: sqlite3.Connection, cache: VectorCache, sizes: Sizes, dimensions: Mapping[tuple[str, str], int]
    ) -> pa.Table:
        """The hits of all rows and methods, within a transaction, after `asking.load`."""
        hits = [hit for method in self.methods for hit in method(con, cache, sizes)]
        hits.sort(key=itemgetter(0, 1, 2))
        schema = search_schema(self.table.graph, self.query, dimensions)
        q, method, rank, score, ids = zip(*hits, strict=True) if hits else ((), (), (), (), ())
        via = [self.query.methods[number].via for number in method]
        ranking = [pa.array(values, schema.field(n).type) for n, values in enumerate((q, via, method, rank, score))]
        found = read_rows(con, self.table, self.names, ids, dimensions)
        return pa.Table.from_arrays([*ranking, *found], schema=schema)

    def _conditions(self, *own: str) -> str:
        return " AND ".join([*own, *self.where]) or "TRUE"

    def _equal(self, con: sqlite3.Connection, number: int, method: Method, value: str) -> list[Hit]:
        table = self.table
        confined = f"JOIN temp.{self.parts} s ON s.q = r.q" if self.parts else ""
        own = [f"t.{quote(method.prop)} = {value}", *([f"t.{table.partition} = s.part"] if self.parts else [])]
        sql = (
            f"SELECT r.q, row_number() OVER (PARTITION BY r.q ORDER BY t.{table.key}) - 1 AS n, t.{ID} AS id "
            f"FROM temp.{self.asking.table} r {confined} CROSS JOIN {table.name} t WHERE {self._conditions(*own)}"
        )
        limit = -1 if method.k is None else method.k
        rows = con.execute(f"SELECT * FROM ({sql}) WHERE :k < 0 OR n < :k", {"k": limit})
        return [Hit(q, number, n, 1.0, row) for q, n, row in rows]

    def _confined(self, row: int) -> tuple[str, tuple[Any, ...]] | None:
        """The condition that confines a row's hits, and its values; None: the row sees nothing."""
        if self.partitions is None:
            return "TRUE", ()
        listed = self.partitions[row]
        if len(listed) == 1:
            return f"t.{self.table.partition} = ?", listed
        inner = f"SELECT part FROM temp.{self.parts} WHERE q = ?"
        return (f"t.{self.table.partition} IN ({inner})", (self.asking.ordinals[row],)) if listed else None

    def _each(
        self,
        con: sqlite3.Connection,
        number: int,
        row: int,
        select: str,
        own: Sequence[str],
        values: Sequence[Any],
        order: str,
    ) -> list[Hit]:
        """The hits of one row. With its own statement, an index can stop at k."""
        q = self.asking.ordinals[row]
        source = f"temp.{self.asking.table} r CROSS JOIN " if self.where else ""
        only = "r.q = ?" if self.where else "TRUE"
        k = self.query.methods[number].k
        ordered = f"ORDER BY {order}, t.{self.table.key} LIMIT ?"
        sql = f"SELECT {select.format(source)} WHERE {self._conditions(only, *own)} {ordered}"
        rows = con.execute(sql, (*((q,) if self.where else ()), *values, -1 if k is None else k))
        return [Hit(q, number, n, score, found) for n, (score, found) in enumerate(rows)]

    def _order(self, con: sqlite3.Connection, number: int, _: Method) -> list[Hit]:
        order = ", ".join(f"t.{quote(name)} {'DESC' if down else 'ASC'} NULLS LAST" for name, down in self.query.order)
        found: list[Hit] = []
        for row in range(len(self.asking.ordinals)):
            confined = self._confined(row)
            if confined is not None:
                select = f"1.0, t.{ID} FROM {{}}{self.table.name} t"
                found += self._each(con, number, row, select, confined[:1], confined[1], order or "TRUE")
        return found

    def _fulltext(
        self, con: sqlite3.Connection, number: int, method: Method, asked: Sequence[str | None], sizes: Sizes
    ) -> list[Hit]:
        name, properties = self.table.words(method.prop)
        cells = " ".join(f"c{i}" for i in range(len(properties)))
        fts = quote(name)
        select = f"-bm25({fts}, 0.0) AS score, t.{ID} FROM {{}}{fts} CROSS JOIN {self.table.name} t"
        found: list[Hit] = []
        for row, query in enumerate(asked):
            confined = self._confined(row)
            if query is None or confined is None:
                continue
            match, own, values = f"{{{cells}}} : ({query})", confined[0], confined[1]
            listed = self.partitions[row] if self.partitions is not None else ()
            if 0 < len(listed) < 64 and not sizes.is_large(con, self.table, listed):
                tokens = " OR ".join(f'"x{part.encode().hex()}"' for part in listed)
                match, own, values = f"p : ({tokens}) AND {match}", "TRUE", ()
            conditions = [f"{fts} MATCH ?", f"t.{ID} = {fts}.rowid", own]
            found += self._each(con, number, row, select, conditions, (match, *values), "score DESC")
        return found


def _match(text: str | None) -> str | None:
    """Plain words as an FTS5 query: any of them, none of it syntax."""
    found = dict.fromkeys(words(text).split()) if text is not None else {}
    return " OR ".join(f'"{word}"' for word in found) or None


def read_rows(
    con: sqlite3.Connection,
    table: Table,
    names: Sequence[str],
    ids: Sequence[int],
    dimensions: Mapping[tuple[str, str], int],
) -> list[pa.Array[Any]]:
    """Properties of rows by id, each read once, in the order of `ids`."""
    distinct = sorted(set(ids))
    con.execute('CREATE TEMP TABLE IF NOT EXISTS "#ids" (id INTEGER PRIMARY KEY)')
    con.execute('DELETE FROM temp."#ids"')
    con.executemany('INSERT INTO temp."#ids" VALUES (?)', ((i,) for i in distinct))
    selected = ", ".join(table.stored(name) for name in names)
    rows = con.execute(f'SELECT {selected} FROM temp."#ids" h CROSS JOIN {table.name} t ON t.{ID} = h.id ORDER BY h.id')
    arrays = arrays_of(table, names, rows.fetchall(), dimensions)
    place = {row: n for n, row in enumerate(distinct)}
    index = pa.array([place[row] for row in ids], pa.int64())
    return [array.take(index) for array in arrays]


def arrays_of(
    table: Table, names: Sequence[str], rows: Sequence[Sequence[Any]], dimensions: Mapping[tuple[str, str], int]
) -> list[pa.Array[Any]]:
    """Rows from SQLite as columns in their types."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    found = []
    for name, values in zip(names, columns, strict=True):
        if name in table.columns:
            found.append(decode(values, table.columns[name]))
        else:
            found.append(decode_vectors(values, dimensions.get((table.label.name, name), 1)))
    return found
