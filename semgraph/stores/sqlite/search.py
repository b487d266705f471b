"""Searches in SQLite. Each method first ranks ids of rows; what is returned of the hits is then
read once.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import pyarrow as pa

from semgraph.expr import Type
from semgraph.stores.base import Method, SearchQuery
from semgraph.stores.batch_io import (
    Dimensions,
    aliases,
    end_column,
    end_nodes,
    further_labels,
    returned,
    search_schema,
)
from semgraph.stores.conditions import Prop, of_hit, pinned, read
from semgraph.stores.left_out import struct_array, without_left_out
from semgraph.stores.sqlite.fulltext import FullText
from semgraph.stores.sqlite.nearest import Nearest
from semgraph.stores.sqlite.rows import RankedHit, Ranker, RequestRows, SearchScope
from semgraph.stores.sqlite.schema import ID, Table, quote
from semgraph.stores.sqlite.values import decode, decode_vectors
from semgraph.stores.sqlite.vectors import Memory


class Equal:
    """Hits with the row's value in a property: one statement for all rows."""

    def __init__(self, scope: SearchScope, method: Method) -> None:
        self.scope, self.method = scope, method
        self.value = scope.request.path(method.column, scope.table.type_of(method.prop))

    def hits(self, con: sqlite3.Connection, _: Memory) -> Iterator[RankedHit]:
        """The hits, by key."""
        scope, table, k = self.scope, self.scope.table, self.method.k
        conditions = [f"t.{quote(self.method.prop)} = {self.value}", *scope.where]
        parts = ""
        if scope.parts:
            parts = f"CROSS JOIN temp.{scope.parts} s"
            conditions += ["s.q = r.q", f"{scope.partition} = s.part"]
        sql = (
            f"SELECT r.q AS q, row_number() OVER (PARTITION BY r.q ORDER BY t.{table.key}) - 1 AS n, t.{ID} AS id "
            f"FROM temp.{scope.request.table} r {parts} CROSS JOIN {table.name} t WHERE {' AND '.join(conditions)}"
        )
        for q, n, row in con.execute(
            f"SELECT q, n, id FROM ({sql}) WHERE n < ? ORDER BY q, n", (2**62 if k is None else k,)
        ):
            yield RankedHit(q, n, 1.0, row)


@dataclass(frozen=True)
class InOrder:
    """Hits in the order of the search."""

    scope: SearchScope
    method: Method
    by: Sequence[tuple[str, bool]]

    def hits(self, con: sqlite3.Connection, _: Memory) -> Iterator[RankedHit]:
        """The hits, NULLs last, ties by key."""
        scope = self.scope
        order = (
            ", ".join(
                f"t.{quote(name)} {'DESC' if down else 'ASC'} NULLS LAST" for name, down in self.by
            )
            or "1"
        )
        for row in range(len(scope.request.ordinals)):
            if scope.seen(row) == ():
                continue
            condition, values = scope.confined(row)
            select = f"1.0, t.{ID} FROM {{rows}} {scope.table.name} t"
            yield from scope.one_row(con, row, select, [condition], values, order, self.method.k)


class PreparedSearch:
    """One search, prepared for its rows.

    Args:
        tables: By label.
        query: The search.
        request: The rows; takes up what the search needs of them.
    """

    def __init__(
        self, tables: Mapping[str, Table], query: SearchQuery, request: RequestRows
    ) -> None:
        self.table, self.query = tables[query.label], query
        table = self.table
        self.ends = {
            end: (tables[node.name], names)
            for end, (node, names) in end_nodes(table.graph, query).items()
        }
        self.named = {name: end for end, name, _ in query.ends}
        self.names = list(returned(table.graph, table.label, query.properties))
        where = request.conjuncts(query.where, aliases(query), self._prop)
        by = query.partition
        partitions = request.partitions(by) if by is not None else None
        parts = request.parts(by) if by is not None else ""
        self.scope = SearchScope(table, request, tuple(where), partitions, parts, self._is_pinned())
        self.methods = [self._prepare(method) for method in query.methods]

    @property
    def nearest(self) -> list[Nearest]:
        """The methods that compare vectors."""
        return [method for method in self.methods if isinstance(method, Nearest)]

    @property
    def reads_rows(self) -> bool:
        """Whether it needs the rows in SQL."""
        several = any(len(seen) > 1 for seen in self.scope.partitions or ())
        return (
            bool(self.scope.where)
            or several
            or any(isinstance(method, Equal) for method in self.methods)
        )

    def _prop(self, prop: Prop) -> tuple[str, Type]:
        if prop.var in self.named:
            end = self.named[prop.var]
            node = self.ends[end][0]
            text = f"(SELECT {node.stored(prop.name, 'n')} FROM {node.name} n WHERE n.{node.key} = t.{end})"
            return text, node.type_of(prop.name)
        return self.table.stored(prop.name), self.table.type_of(prop.name)

    def _prepare(self, method: Method) -> Ranker:
        if method.via == "equal":
            return Equal(self.scope, method)
        if method.via == "order":
            return InOrder(self.scope, method, self.query.order)
        if method.via == "fulltext":
            return FullText(self.scope, method)
        return Nearest(self.scope, method)

    def _is_pinned(self) -> bool:
        names = {
            self.table.graph.key,
            *(("source", "target") if self.table.label.kind == "edge" else ()),
        }
        terms = [
            term
            for scalar in self.query.where
            if (term := read(scalar, aliases(self.query))) is not None
        ]
        return any(pinned(term, names) for term in of_hit(terms, self.query.alias))

    def run(self, con: sqlite3.Connection, memory: Memory, dimensions: Dimensions) -> pa.Table:
        """The hits of all rows and methods, within a transaction, after `request.load` if it reads
        them.
        """
        hits = [
            (hit.q, n, *hit[1:])
            for n, method in enumerate(self.methods)
            for hit in method.hits(con, memory)
        ]
        hits.sort(key=itemgetter(0, 1, 2))
        schema = search_schema(self.table.graph, self.query, dimensions)
        q, method, rank, score, ids = zip(*hits, strict=True) if hits else ((), (), (), (), ())
        via = [self.query.methods[number].via for number in method]
        ranking = [
            pa.array(values, schema.field(n).type)
            for n, values in enumerate((q, via, method, rank, score))
        ]
        columns = read_rows(con, self.table, self.names, ids, dimensions)
        for end, (node, names) in self.ends.items():
            keys = columns[self.names.index(end)].to_pylist()
            columns.append(
                read_nodes(con, node, names, keys, schema.field(end_column(end)).type, dimensions)
            )
        hits_of = pa.Table.from_arrays([*ranking, *columns], schema=schema)
        return without_left_out(hits_of, [self.table.graph.key])


def read_rows(
    con: sqlite3.Connection,
    table: Table,
    names: Sequence[str],
    ids: Sequence[int],
    dimensions: Dimensions,
) -> list[pa.Array[Any]]:
    """Properties of rows by id, each read once, in the order of `ids`."""
    arrays, places = _read_by(con, table, names, ID, sorted(set(ids)), dimensions)
    index = pa.array([places[row] for row in ids], pa.int64())
    return [array.take(index) for array in arrays]


def read_nodes(
    con: sqlite3.Connection,
    table: Table,
    names: Sequence[str],
    keys: Sequence[str | None],
    kind: pa.StructType,
    dimensions: Dimensions,
) -> pa.Array[Any]:
    """Nodes by key as structs, each read once, in the order of `keys`."""
    distinct = sorted({key for key in keys if key is not None})
    arrays, places = _read_by(con, table, names, table.key, distinct, dimensions)
    nodes: pa.Array[Any] = struct_array(arrays, kind)
    return nodes.take(pa.array([places.get(key) for key in keys], pa.int64()))


def _read_by(
    con: sqlite3.Connection,
    table: Table,
    names: Sequence[str],
    by: str,
    values: Sequence[Any],
    dimensions: Dimensions,
) -> tuple[list[pa.Array[Any]], dict[Any, int]]:
    """Properties of the rows with one of some values in the column `by`, and their places by value."""
    selected = ", ".join(table.stored(name) for name in names)
    where = f"t.{by} IN (SELECT value FROM json_each(?))"
    sql = f"SELECT {selected}, t.{by} FROM {table.name} t WHERE {where}"
    rows = con.execute(sql, (json.dumps(values),)).fetchall()
    arrays = arrays_of(table, names, [row[:-1] for row in rows], dimensions)
    return arrays, {row[-1]: n for n, row in enumerate(rows)}


def arrays_of(
    table: Table,
    names: Sequence[str],
    rows: Sequence[Sequence[Any]],
    dimensions: Mapping[tuple[str, str], int],
) -> list[pa.Array[Any]]:
    """Rows from SQLite as columns in their types; see `LeftOut.columns`."""
    label, sizes = table.label, dimensions

    def convert(name: str, values: Sequence[Any]) -> pa.Array[Any]:
        if name not in table.columns:
            return decode_vectors(values, sizes.get((label.name, name), 1))
        column = decode(values, table.columns[name])
        if name == "labels" and name in label.open:
            listed = [v and further_labels(table.graph, v) for v in column.to_pylist()]
            column = pa.array(listed, column.type)
        if name == "attributes" and name in label.open:
            for text in values:
                dict(json.loads(text or "{}").items())
        return column

    return table.left_out.columns(table.graph, label.name, names, rows, convert)
