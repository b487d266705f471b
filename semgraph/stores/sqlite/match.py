"""Patterns in SQLite: one join over the elements of the path, starting at the most selective one."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa

from semgraph.errors import EngineError
from semgraph.expr import Scalar, Type
from semgraph.logical.graph import PatternEdge, PatternNode, PatternPath, elements_of, path_ends
from semgraph.stores.base import MatchQuery
from semgraph.stores.conditions import Prop
from semgraph.stores.prepare import (
    match_schema,
    path_order,
    returned,
    scan_schema,
    struct_array,
    without_left_out,
)
from semgraph.stores.sqlite.rows import RequestRows
from semgraph.stores.sqlite.schema import ID, Table, quote, temporary
from semgraph.stores.sqlite.search import arrays_of, read_rows


def named(
    element: PatternNode | PatternEdge, alias: str, table: Table, request: RequestRows
) -> list[str]:
    """The conditions of an element's property map."""
    return [
        f"{alias}.{quote(prop)} = {request.path(path, table.type_of(prop))}"
        for prop, path in element.props
    ]


def looseness(element: PatternNode | PatternEdge, table: Table) -> int:
    """A rank of the number of rows that the property map of an element leaves: 0 is one, 3 all."""
    props = {prop for prop, _ in element.props}
    if table.graph.key in props:
        return 0
    return 1 if props & {*table.label.index} else 2 if props else 3


class PatternMatch:
    """A pattern, prepared for its rows. Element i of the path is `t<i>` in SQL; nodes are even,
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
                # Keeps SQLite off the index by partition, so that it uses that by ends.
                away = "+" if i % 2 and i != self.order[0] else ""
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
        """The condition that an edge connects its two nodes; in either direction if both are
        possible.
        """
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
        """Elements in join order: from the most selective one outwards along the path."""
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
        selected, sources = ["r.q"], [f"temp.{self.request.table} r"]
        for i, listed in names.items():
            selected += [self.tables[i].stored(name, f"t{i}") for name in listed]
        if self.parts:
            sources.append(f"temp.{self.parts} s")
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
            rows = ((part,) for part in self.partitions)
            parts = temporary(con, "#parts", ["part TEXT"], rows, unique="part")
            conditions.append(f"t.{table.partition} IN (SELECT part FROM {parts})")
        schema = scan_schema(table.graph, table.label.name, self.properties, dimensions)
        selected = ", ".join(table.stored(name) for name in schema.names)
        source = (
            f"temp.{self.request.table} r CROSS JOIN {table.name} t"
            if self.conditions
            else f"{table.name} t"
        )
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        found = con.execute(
            f"SELECT {selected} FROM {source} {where} ORDER BY t.{table.key}{self.last}"
        ).fetchall()
        arrays = arrays_of(table, schema.names, found, dimensions)
        result = pa.Table.from_arrays(arrays, schema=schema)
        return without_left_out(result, [table.graph.key])


Node = tuple[str, int]  # label and id of a row


@dataclass(frozen=True)
class _Path:
    """A match: a table row for each element of the pattern; for the variable-length path, the
    second element, the rows of its edges.
    """

    q: int
    places: tuple[tuple[Node, ...], ...]


class VariablePaths:
    """A pattern with a variable-length path, prepared for its rows."""

    def __init__(
        self,
        tables: Mapping[str, Table],
        query: MatchQuery,
        path: PatternPath,
        request: RequestRows,
    ) -> None:
        self.tables, self.query, self.path, self.request = tables, query, path, request
        self.graph = next(iter(tables.values())).graph
        self.nodes = query.pattern.nodes
        self.ends = path_ends(self.graph, query.pattern, path)
        first, second = (looseness(self.nodes[place], self._table(place)) for place in (0, 1))
        self.begin = int(second < first)
        self.parts = request.parts(query.partition) if query.partition is not None else ""
        self.props = [
            named(self.nodes[place], f"t{place}", self._table(place), request) for place in (0, 1)
        ]
        self.named = {
            place: named(edge, f"e{place}", tables[edge.label], request)
            + named(node, f"t{place}", tables[node.label], request)
            for place, edge, node in self._rest
        }
        self.where = request.conjuncts(query.where, None, self._prop)

    @property
    def _rest(self) -> list[tuple[int, PatternEdge, PatternNode]]:
        """Edges after the variable-length path with the nodes that they lead to, and the position
        of each node among the nodes.
        """
        pairs = zip(self.query.pattern.edges[1:], self.nodes[2:], strict=True)
        return [
            (place, edge, node)
            for place, (edge, node) in enumerate(pairs, 2)
            if isinstance(edge, PatternEdge)
        ]

    def _table(self, place: int) -> Table:
        """The table of an end; of several the first, because they share the properties that are
        read.
        """
        return self.tables[self.ends[place][0]]

    def _prop(self, prop: Prop) -> tuple[str, Type]:
        known = {
            node.var: (f"t{place}", self._table(place)) for place, node in enumerate(self.nodes[:2])
        }
        for place, edge, node in self._rest:
            known |= {
                edge.var: (f"e{place}", self.tables[edge.label]),
                node.var: (f"t{place}", self.tables[node.label]),
            }
        alias, table = known[prop.var]
        return table.stored(prop.name, alias), table.type_of(prop.name)

    @property
    def sql(self) -> str:
        """The statement: ordinal, label and id of both ends, the path, and the ids after it."""
        rows = f"temp.{self.request.table} r"
        walk = [*self._seeds(rows), *self._steps()]
        near, far = self.begin, 1 - self.begin
        behind = [f"{name}{place}.{ID}" for place, *_ in self._rest for name in "et"]
        selects = []
        for begin in self.ends[near]:
            for end in self.ends[far]:
                tests = [
                    f"w.begin = '{begin}' AND w.label = '{end}' AND w.depth >= {self.path.least}",
                    f"r.q = w.q AND t{near}.{ID} = w.first AND t{far}.{ID} = w.at",
                    *self.props[far],
                    *self._after(end if far else begin),
                    *self.where,
                ]
                sources = [
                    f"walk w CROSS JOIN {rows}",
                    f"{self.tables[begin].name} t{near}",
                    f"{self.tables[end].name} t{far}",
                    *(
                        f"{self.tables[edge.label].name} e{p} CROSS JOIN {self.tables[node.label].name} t{p}"
                        for p, edge, node in self._rest
                    ),
                ]
                selects.append(
                    f"SELECT {', '.join(['w.q, w.begin, w.first, w.steps, w.label, w.at', *behind])} "
                    f"FROM {' CROSS JOIN '.join(sources)} WHERE {' AND '.join(tests)}"
                )
        columns = "q, part, begin, first, label, at, key, depth, steps"
        return f"WITH RECURSIVE walk ({columns}) AS ({' UNION ALL '.join(walk)}) {' UNION ALL '.join(selects)}"

    def _after(self, label: str) -> list[str]:
        """The conditions on the rest of the pattern after a variable-length path that ends in this
        label.
        """
        tests = []
        for place, edge, node in self._rest:
            here, e, t = f"t{place - 1}", f"e{place}", f"t{place}"
            edges, nodes = self.tables[edge.label], self.tables[node.label]
            before = self.tables[label]
            directions = [
                f"({e}.{near} = {here}.{before.key} AND {e}.{far} = {t}.{nodes.key})"
                for near, far, directions in (
                    ("source", "target", ("out", "any")),
                    ("target", "source", ("in", "any")),
                )
                if edge.direction in directions
                and (getattr(edges.label, near), getattr(edges.label, far)) == (label, node.label)
            ]
            tests.append(f"({' OR '.join(directions)})" if directions else "FALSE")
            tests.append(f"instr(w.steps, ';{edge.label}:' || {e}.{ID} || ';') = 0")
            tests += [
                f"{e}.{ID} <> e{p}.{ID}"
                for p, other, _ in self._rest
                if p < place and other.label == edge.label
            ]
            tests += self.named[place]
            if self.parts:
                tests += [f"+{e}.{edges.partition} = w.part", f"+{t}.{nodes.partition} = w.part"]
            label = node.label
        return tests

    def _seeds(self, rows: str) -> list[str]:
        selects = []
        for label in self.ends[self.begin]:
            table, t = self.tables[label], f"t{self.begin}"
            sources, tests = [rows], [*self.props[self.begin]]
            if self.parts:
                sources.append(f"temp.{self.parts} s")
                tests += ["s.q = r.q", f"{t}.{table.partition} = s.part"]
            sources.append(f"{table.name} {t}")
            where = f" WHERE {' AND '.join(tests)}" if tests else ""
            part, node = "s.part" if self.parts else "NULL", f"'{label}', {t}.{ID}"
            selected = f"r.q, {part}, {node}, {node}, {t}.{table.key}, 0, ''"
            selects.append(f"SELECT {selected} FROM {' CROSS JOIN '.join(sources)}{where}")
        return selects

    def _steps(self) -> list[str]:
        out = self.path.direction == ("in" if self.begin else "out")
        selects = []
        for name in self.path.labels:
            edge = self.tables[name].label
            both = self.path.direction == "any"
            if out or both:
                selects.append(self._step(self.tables[name], "source", "target", ""))
            if not out:
                once = "e.source <> e.target" if both and edge.source == edge.target else ""
                selects.append(self._step(self.tables[name], "target", "source", once))
        return selects

    def _step(self, edges: Table, near: str, far: str, also: str) -> str:
        ends = {"source": edges.label.source, "target": edges.label.target}
        nodes, name = self.tables[ends[far]], edges.label.name
        tests = [
            f"w.label = '{ends[near]}' AND w.depth < {self.path.most}",
            f"e.{near} = w.key AND n.{nodes.key} = e.{far}",
            f"instr(w.steps, ';{name}:' || e.{ID} || ';') = 0",
            *([also] if also else []),
        ]
        if self.parts:
            tests += [f"+e.{edges.partition} = w.part", f"+n.{nodes.partition} = w.part"]
        steps = f"CASE w.steps WHEN '' THEN ';' ELSE w.steps END || '{name}:' || e.{ID} || ';'"
        return (
            f"SELECT w.q, w.part, w.begin, w.first, '{ends[far]}', n.{ID}, n.{nodes.key}, w.depth + 1, {steps} "
            f"FROM walk w CROSS JOIN {edges.name} e CROSS JOIN {nodes.name} n WHERE {' AND '.join(tests)}"
        )

    def run(self, con: sqlite3.Connection, dimensions: Mapping[tuple[str, str], int]) -> pa.Table:
        """The paths of all rows, within a transaction, after `request.load`."""
        paths = [self._path(row) for row in con.execute(self.sql)]
        keys = self._keys(con, paths)
        elements = elements_of(self.graph, self.query.pattern)
        variables = [(place, pair) for place, pair in enumerate(elements) if pair[0].var]

        def record(path: _Path) -> tuple[Any, ...]:
            values: list[Any] = [path.q]
            for place, (_, label) in variables:
                steps = [keys[step] for step in path.places[place]]
                values.append(steps if label is None else steps[0])
            return tuple(values)

        pairs = [pair for _, pair in variables]
        records = sorted(
            ((record(path), path) for path in paths), key=lambda pair: path_order(pair[0], pairs)
        )
        schema = match_schema(self.graph, self.query, dimensions)
        columns: list[pa.Array[Any]] = [pa.array([pair[0] for pair, _ in records], pa.int64())]
        for i, (place, (element, label)) in enumerate(variables, 1):
            kind = schema.field(element.var).type
            if label is None:
                paths_of = [pair[i] for pair, _ in records]
                left_out = next(iter(self.tables.values())).left_out
                columns += left_out.paths(self.graph, element.var, paths_of, kind)
            else:
                rows = [path.places[place][0] for _, path in records]
                names = list(
                    returned(self.graph, label, self.query.properties.get(element.var, ()))
                )
                columns.append(self._rows(con, rows, names, kind, dimensions))
        return without_left_out(pa.Table.from_arrays(columns, schema=schema), schema.names[1:])

    def _path(self, row: Sequence[Any]) -> _Path:
        q, begin, first, walk, label, at, *behind = row
        walked = [step.partition(":") for step in walk.split(";") if step]
        steps = tuple((name, int(number)) for name, _, number in walked)
        ends: tuple[tuple[Node, ...], ...] = ((begin, first),), steps, ((label, at),)
        if self.begin:
            ends = ((label, at),), tuple(reversed(steps)), ((begin, first),)
        labels = [name for _, edge, node in self._rest for name in (edge.label, node.label)]
        return _Path(q, (*ends, *((pair,) for pair in zip(labels, behind, strict=True))))

    def _keys(self, con: sqlite3.Connection, paths: Sequence[_Path]) -> dict[Node, tuple[str, ...]]:
        """The key of each node, and the key, label and ends of each edge."""
        wanted: dict[str, set[int]] = {}
        for path in paths:
            for label, number in chain.from_iterable(path.places):
                wanted.setdefault(label, set()).add(number)
        keys: dict[Node, tuple[str, ...]] = {}
        for label, numbers in wanted.items():
            table, ids = self.tables[label], sorted(numbers)
            rows = [
                array.to_pylist()
                for array in read_rows(con, table, [self.graph.key, *table.label.ends], ids, {})
            ]
            for number, key, *others in zip(ids, *rows, strict=True):
                keys[label, number] = (key, label, *others)
        return keys

    def _rows(
        self,
        con: sqlite3.Connection,
        nodes: Sequence[Node],
        names: Sequence[str],
        kind: pa.DataType,
        dimensions: Mapping[tuple[str, str], int],
    ) -> pa.Array[Any]:
        """The properties of rows of several labels, in their order."""
        arrays_of_label: list[pa.StructArray] = []
        place: dict[Node, int] = {}
        for label in dict.fromkeys(label for label, _ in nodes):
            ids = sorted({number for one, number in nodes if one == label})
            for number in ids:
                place[label, number] = len(place)
            arrays = read_rows(con, self.tables[label], names, ids, dimensions)
            arrays_of_label.append(struct_array(arrays, kind))
        every: Any = pa.concat_arrays(arrays_of_label) if arrays_of_label else pa.array([], kind)
        taken: pa.Array[Any] = every.take(pa.array([place[node] for node in nodes], pa.int64()))
        return taken
