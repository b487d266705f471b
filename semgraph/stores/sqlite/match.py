"""Patterns in SQLite: one join over the elements of the path, started where the pattern names
most.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import pyarrow as pa

from semgraph.errors import EngineError
from semgraph.expr import Scalar, Type
from semgraph.logical.graph import PatternEdge, PatternNode
from semgraph.stores.base import MatchQuery
from semgraph.stores.batch_io import match_schema, returned, scan_schema
from semgraph.stores.conditions import Prop
from semgraph.stores.left_out import struct_array, without_left_out
from semgraph.stores.sqlite.rows import RequestRows
from semgraph.stores.sqlite.schema import ID, Table, quote
from semgraph.stores.sqlite.search import arrays_of


def named(
    element: PatternNode | PatternEdge, alias: str, table: Table, request: RequestRows
) -> list[str]:
    """The conditions that the property map of an element makes."""
    return [
        f"{alias}.{quote(prop)} = {request.path(path, table.type_of(prop))}"
        for prop, path in element.props
    ]


def looseness(element: PatternNode | PatternEdge, table: Table) -> int:
    """How many rows the property map of an element leaves: 0 is one, 3 all."""
    props = {prop for prop, _ in element.props}
    if table.graph.key in props:
        return 0
    return 1 if props & {*table.label.index} else 2 if props else 3


class PatternMatch:
    """A pattern, prepared for its rows. Element i of the path is `t<i>` in SQL: nodes are even,
    edges odd.
    """

    def __init__(
        self, tables: Mapping[str, Table], query: MatchQuery, request: RequestRows
    ) -> None:
        self.query, self.request = query, request
        self.elements = query.pattern.fixed
        self.tables = [tables[element.label] for element in self.elements]
        self.graph = self.tables[0].graph
        self.place = {element.var: i for i, element in enumerate(self.elements) if element.var}
        self.parts = request.parts(query.partition) if query.partition is not None else ""
        self.conditions = [
            *self._props(),
            *self._joins(),
            *request.conjuncts(query.where, None, self._prop),
        ]

    def _prop(self, prop: Prop) -> tuple[str, Type]:
        if prop.var not in self.place:
            raise EngineError(
                f'a conjunct names "{prop.var}", which the pattern does not: {", ".join(self.place)}'
            )
        i = self.place[prop.var]
        return self.tables[i].stored(prop.name, f"t{i}"), self.tables[i].type_of(prop.name)

    def _props(self) -> list[str]:
        tests = ["s.q = r.q"] if self.parts else []
        for i, (element, table) in enumerate(zip(self.elements, self.tables, strict=True)):
            if self.parts:
                away = (
                    "+" if i % 2 and i != self.order[0] else ""
                )  # from the index by partition, to that by ends
                tests.append(f"{away}t{i}.{table.partition} = s.part")
            tests += named(element, f"t{i}", table, self.request)
        return tests

    def _joins(self) -> list[str]:
        tests = []
        for i, edge in enumerate(self.elements):
            if isinstance(edge, PatternEdge):
                tests.append(self._ends(i, edge))
                same = [j for j in range(1, i, 2) if self.tables[j].label.name == edge.label]
                tests += [f"t{i}.{ID} <> t{j}.{ID}" for j in same]
        return tests

    def _ends(self, i: int, edge: PatternEdge) -> str:
        """That an edge lies between its two nodes; in either direction if both can be."""
        key, label = quote(self.graph.key), self.tables[i].label
        tests = []
        for source, target, directions in (
            (i - 1, i + 1, ("out", "any")),
            (i + 1, i - 1, ("in", "any")),
        ):
            fits = (label.source, label.target) == (
                self.elements[source].label,
                self.elements[target].label,
            )
            if fits and edge.direction in directions:
                tests.append(f"(t{i}.source = t{source}.{key} AND t{i}.target = t{target}.{key})")
        return f"({' OR '.join(tests)})" if tests else "FALSE"

    @cached_property
    def order(self) -> list[int]:
        """Elements in the order of the join: from the one that the pattern pins best, outwards
        along the path.
        """
        start = min(
            range(len(self.elements)),
            key=lambda i: (looseness(self.elements[i], self.tables[i]), i % 2, i),
        )
        return [start, *range(start + 1, len(self.elements)), *range(start - 1, -1, -1)]

    def run(self, con: sqlite3.Connection, dimensions: Mapping[tuple[str, str], int]) -> pa.Table:
        """The paths of all rows, within a transaction, after `request.load`."""
        variables = [(i, e) for i, e in enumerate(self.elements) if e.var]
        names = {
            i: list(
                returned(self.graph, self.tables[i].label, self.query.properties.get(e.var, ()))
            )
            for i, e in variables
        }
        selected = [
            "r.q",
            *(
                self.tables[i].stored(name, f"t{i}")
                for i, listed in names.items()
                for name in listed
            ),
        ]
        sources = [
            f"temp.{self.request.table} r",
            *([f"temp.{self.parts} s"] if self.parts else []),
        ]
        sources += [f"{self.tables[i].name} t{i}" for i in self.order]
        order = ["r.q", *(f"t{i}.{quote(self.graph.key)}" for i in names)]
        where = f"WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        sql = f"SELECT {', '.join(selected)} FROM {' CROSS JOIN '.join(sources)} {where} ORDER BY {', '.join(order)}"
        rows = con.execute(sql).fetchall()
        schema = match_schema(self.graph, self.query, dimensions)
        columns: list[pa.Array[Any]] = [pa.array([row[0] for row in rows], pa.int64())]
        at = 1
        for i, element in variables:
            cells = [row[at : at + len(names[i])] for row in rows]
            arrays = arrays_of(self.tables[i], names[i], cells, dimensions)
            columns.append(struct_array(arrays, schema.field(element.var).type))
            at += len(names[i])
        return without_left_out(pa.Table.from_arrays(columns, schema=schema), schema.names[1:])


class LabelScan:
    """A scan, prepared."""

    def __init__(
        self,
        table: Table,
        properties: Sequence[str],
        partitions: Sequence[str] | None,
        where: Sequence[Scalar],
        limit: int | None = None,
    ) -> None:
        self.table, self.properties, self.partitions = table, properties, partitions
        self.last = "" if limit is None else f" LIMIT {int(limit)}"
        self.request = RequestRows(pa.table({"_q": pa.array([0], pa.int64())}))
        self.conditions = self.request.conjuncts(
            where, "", lambda prop: (table.stored(prop.name), table.type_of(prop.name))
        )

    def run(self, con: sqlite3.Connection, dimensions: Mapping[tuple[str, str], int]) -> pa.Table:
        """The rows, within a transaction."""
        table, conditions = self.table, list(self.conditions)
        self.request.load(con)
        if self.partitions is not None:
            con.execute(
                'CREATE TEMP TABLE IF NOT EXISTS "#parts" (part TEXT PRIMARY KEY) WITHOUT ROWID'
            )
            con.execute('DELETE FROM temp."#parts"')
            con.executemany(
                'INSERT OR IGNORE INTO temp."#parts" VALUES (?)',
                ((part,) for part in self.partitions),
            )
            conditions.append(f't.{table.partition} IN (SELECT part FROM temp."#parts")')
        schema = scan_schema(table.graph, table.label.name, self.properties, dimensions)
        selected = ", ".join(table.stored(name) for name in schema.names)
        source = (
            f"temp.{self.request.table} r CROSS JOIN {table.name} t"
            if self.conditions
            else f"{table.name} t"
        )
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        rows = con.execute(
            f"SELECT {selected} FROM {source} {where} ORDER BY t.{table.key}{self.last}"
        ).fetchall()
        arrays = arrays_of(table, schema.names, rows, dimensions)
        result = pa.Table.from_arrays(arrays, schema=schema)
        return without_left_out(result, [table.graph.key])
