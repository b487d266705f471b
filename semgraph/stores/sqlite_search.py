"""Searches in SQLite. Each method first ranks ids of rows; what is returned of the hits is then read once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from semgraph.expr import Type
from semgraph.stores.base import Method, SearchQuery
from semgraph.stores.conjunct import Prop, of_hit, read
from semgraph.stores.rows import Dimensions, aliases, end_column, end_nodes, returned, search_schema
from semgraph.stores.sqlite_nearest import Nearest
from semgraph.stores.sqlite_ranked import Equal, Order, Words
from semgraph.stores.sqlite_schema import ID, Table
from semgraph.stores.sqlite_scope import Memory, Ranking, Scope
from semgraph.stores.sqlite_terms import Asking, pinned
from semgraph.stores.sqlite_values import decode, decode_vectors


class Search:
    """One search, prepared for its rows.

    Args:
        tables: By label.
        query: The search.
        asking: The rows; takes up what the search needs of them.
    """

    def __init__(self, tables: Mapping[str, Table], query: SearchQuery, asking: Asking) -> None:
        self.table, self.query = tables[query.label], query
        table = self.table
        self.ends = {end: (tables[node.name], names) for end, (node, names) in end_nodes(table.graph, query).items()}
        self.named = {name: end for end, name, _ in query.ends}
        self.names = list(returned(table.graph, table.label, query.properties))
        where = asking.conjuncts(query.where, aliases(query), self._prop)
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
        if prop.var in self.named:
            end = self.named[prop.var]
            node = self.ends[end][0]
            text = f"(SELECT {node.stored(prop.name, 'n')} FROM {node.name} n WHERE n.{node.key} = t.{end})"
            return text, node.type_of(prop.name)
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
        terms = [term for scalar in self.query.where if (term := read(scalar, aliases(self.query))) is not None]
        return any(pinned(term, names) for term in of_hit(terms, self.query.alias))

    def run(self, con: sqlite3.Connection, memory: Memory, dimensions: Dimensions) -> pa.Table:
        """The hits of all rows and methods, within a transaction, after `asking.load` if it reads them."""
        hits = [(hit.q, n, *hit[1:]) for n, method in enumerate(self.methods) for hit in method.found(con, memory)]
        hits.sort(key=itemgetter(0, 1, 2))
        schema = search_schema(self.table.graph, self.query, dimensions)
        q, method, rank, score, ids = zip(*hits, strict=True) if hits else ((), (), (), (), ())
        via = [self.query.methods[number].via for number in method]
        ranking = [pa.array(values, schema.field(n).type) for n, values in enumerate((q, via, method, rank, score))]
        found = read_rows(con, self.table, self.names, ids, dimensions)
        for end, (node, names) in self.ends.items():
            keys = found[self.names.index(end)].to_pylist()
            found.append(read_nodes(con, node, names, keys, schema.field(end_column(end)).type, dimensions))
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


def read_nodes(
    con: sqlite3.Connection,
    table: Table,
    names: Sequence[str],
    keys: Sequence[str | None],
    kind: pa.StructType,
    dimensions: Mapping[tuple[str, str], int],
) -> pa.Array[Any]:
    """Nodes by key as structs, each read once, in the order of `keys`."""
    selected = ", ".join(table.stored(name) for name in names)
    where = f"t.{table.key} IN (SELECT value FROM json_each(?))"
    wanted = json.dumps(sorted({key for key in keys if key is not None}))
    rows = con.execute(
        f"SELECT {selected}, t.{table.key} FROM {table.name} t WHERE {where}",
        (wanted,),
    )
    listed = rows.fetchall()
    arrays = arrays_of(table, names, [row[:-1] for row in listed], dimensions)
    place = {row[-1]: n for n, row in enumerate(listed)}
    nodes: pa.Array[Any] = pa.StructArray.from_arrays(arrays, fields=list(kind))
    return nodes.take(pa.array([place.get(key) for key in keys], pa.int64()))


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
