"""Searches in SQLite. Each method first ranks ids of rows; what is returned of the hits is then read once."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from semgraph.expr import Type
from semgraph.stores.base import Method, SearchQuery
from semgraph.stores.conjunct import Prop, read
from semgraph.stores.rows import Dimensions, returned, search_schema
from semgraph.stores.sqlite_nearest import Nearest
from semgraph.stores.sqlite_ranked import Equal, Order, Words
from semgraph.stores.sqlite_schema import ID, Table
from semgraph.stores.sqlite_scope import Memory, Ranking, Scope
from semgraph.stores.sqlite_terms import Asking, pinned
from semgraph.stores.sqlite_values import decode, decode_vectors


class Search:
    """One search, prepared for its rows.

    Args:
        table: Of the label.
        query: The search.
        asking: The rows; takes up what the search needs of them.
    """

    def __init__(self, table: Table, query: SearchQuery, asking: Asking) -> None:
        self.table, self.query = table, query
        self.names = list(returned(table.graph, table.label, query.properties))
        where = asking.conjuncts(query.where, query.alias, self._prop)
        by = query.partition
        partitions = asking.partitions(by) if by is not None else None
        parts = asking.parts(by) if by is not None else ""
        self.scope = Scope(table, asking, tuple(where), partitions, parts, self._is_pinned())
        self.methods = [self._prepare(method) for method in query.methods]

    @property
    def nearest(self) -> list[Nearest]:
        """The methods that compare vectors."""
        return [method for method in self.methods if isinstance(method, Nearest)]

    @property
    def reads_rows(self) -> bool:
        """Whether it needs the rows in SQL."""
        several = any(len(seen) > 1 for seen in self.scope.partitions or ())
        return bool(self.scope.where) or several or any(isinstance(method, Equal) for method in self.methods)

    def _prop(self, prop: Prop) -> tuple[str, Type]:
        return self.table.stored(prop.name), self.table.type_of(prop.name)

    def _prepare(self, method: Method) -> Ranking:
        if method.via == "equal":
            return Equal(self.scope, method)
        if method.via == "order":
            return Order(self.scope, method, self.query.order)
        if method.via == "fulltext":
            return Words(self.scope, method)
        return Nearest(self.scope, method)

    def _is_pinned(self) -> bool:
        names = {self.table.graph.key, *(("source", "target") if self.table.label.kind == "edge" else ())}
        terms = [read(scalar, self.query.alias) for scalar in self.query.where]
        return any(term is not None and pinned(term, names) for term in terms)

    def run(self, con: sqlite3.Connection, memory: Memory, dimensions: Dimensions) -> pa.Table:
        """The hits of all rows and methods, within a transaction, after `asking.load` if it reads them."""
        hits = [(hit.q, n, *hit[1:]) for n, method in enumerate(self.methods) for hit in method.found(con, memory)]
        hits.sort(key=itemgetter(0, 1, 2))
        schema = search_schema(self.table.graph, self.query, dimensions)
        q, method, rank, score, ids = zip(*hits, strict=True) if hits else ((), (), (), (), ())
        via = [self.query.methods[number].via for number in method]
        ranking = [pa.array(values, schema.field(n).type) for n, values in enumerate((q, via, method, rank, score))]
        found = read_rows(con, self.table, self.names, ids, dimensions)
        return pa.Table.from_arrays([*ranking, *found], schema=schema)


def read_rows(
    con: sqlite3.Connection,
    table: Table,
    names: Sequence[str],
    ids: Sequence[int],
    dimensions: Mapping[tuple[str, str], int],
) -> list[pa.Array[Any]]:
    """Properties of rows by id, each read once, in the order of `ids`."""
    distinct = str(sorted(set(ids)))
    selected = ", ".join(table.stored(name) for name in names)
    where = f"t.{ID} IN (SELECT value FROM json_each(?))"
    rows = con.execute(f"SELECT {selected}, t.{ID} FROM {table.name} t WHERE {where}", (distinct,)).fetchall()
    arrays = arrays_of(table, names, [row[:-1] for row in rows], dimensions)
    place = {row[-1]: n for n, row in enumerate(rows)}
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
