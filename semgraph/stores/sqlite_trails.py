"""Trails in SQLite: a walk from the end that the pattern pins best, one type of edge and one direction at each step."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semgraph.expr import Type
from semgraph.logical.pattern import PatternNode, PatternTrail
from semgraph.logical.trails import elements_of, trail_ends
from semgraph.stores.base import MatchQuery
from semgraph.stores.conjunct import Prop
from semgraph.stores.rows import match_schema, path_order, returned, steps_of
from semgraph.stores.sqlite_schema import ID, Table, quote
from semgraph.stores.sqlite_search import read_rows
from semgraph.stores.sqlite_terms import Asking

Node = tuple[str, int]
"""Label and id of a row."""


@dataclass(frozen=True)
class _Path:
    """What a walk found: both ends, and the edges between them, in the order of the pattern."""

    q: int
    first: Node
    steps: tuple[Node, ...]
    last: Node


class Trails:
    """A pattern with a trail, prepared for its rows."""

    def __init__(self, tables: Mapping[str, Table], query: MatchQuery, trail: PatternTrail, asking: Asking) -> None:
        self.tables, self.query, self.trail, self.asking = tables, query, trail, asking
        self.graph = next(iter(tables.values())).graph
        self.nodes = query.pattern.nodes
        self.ends = trail_ends(self.graph, query.pattern, trail)
        self.begin = int(self._looseness(self.nodes[1]) < self._looseness(self.nodes[0]))
        self.parts = asking.parts(query.partition) if query.partition is not None else ""
        self.props = [self._props(place) for place in (0, 1)]
        self.where = asking.conjuncts(query.where, None, self._prop)

    def _looseness(self, node: PatternNode) -> int:
        named = {prop for prop, _ in node.props}
        return 0 if self.graph.key in named else 1 if named else 2

    def _table(self, place: int) -> Table:
        """The table of an end; of several the first, as what they are asked for they have in common."""
        return self.tables[self.ends[place][0]]

    def _prop(self, prop: Prop) -> tuple[str, Type]:
        place = 0 if prop.var == self.nodes[0].var else 1
        return self._table(place).stored(prop.name, f"t{place}"), self._table(place).type_of(prop.name)

    def _props(self, place: int) -> list[str]:
        table = self._table(place)
        return [
            f"t{place}.{quote(prop)} = {self.asking.path(path, table.type_of(prop))}"
            for prop, path in self.nodes[place].props
        ]

    @property
    def sql(self) -> str:
        """Reads the rows; gives ordinal, label and id of both ends, and the walk."""
        rows = f"temp.{self.asking.table} r"
        walk = [*self._seeds(rows), *self._steps()]
        near, far = self.begin, 1 - self.begin
        found = []
        for begin in self.ends[near]:
            for end in self.ends[far]:
                tests = [
                    f"w.begin = '{begin}' AND w.label = '{end}' AND w.depth >= {self.trail.least}",
                    f"r.q = w.q AND t{near}.{ID} = w.first AND t{far}.{ID} = w.at",
                    *self.props[far],
                    *self.where,
                ]
                sources = [
                    f"walk w CROSS JOIN {rows}",
                    f"{self.tables[begin].name} t{near}",
                    f"{self.tables[end].name} t{far}",
                ]
                found.append(
                    "SELECT w.q, w.begin, w.first, w.way, w.label, w.at "
                    f"FROM {' CROSS JOIN '.join(sources)} WHERE {' AND '.join(tests)}"
                )
        columns = "q, part, begin, first, label, at, key, depth, way"
        return f"WITH RECURSIVE walk ({columns}) AS ({' UNION ALL '.join(walk)}) {' UNION ALL '.join(found)}"

    def _seeds(self, rows: str) -> list[str]:
        found = []
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
            found.append(f"SELECT {selected} FROM {' CROSS JOIN '.join(sources)}{where}")
        return found

    def _steps(self) -> list[str]:
        out = self.trail.direction == ("in" if self.begin else "out")
        found = []
        for name in self.trail.labels:
            edge = self.tables[name].label
            both = self.trail.direction == "any"
            if out or both:
                found.append(self._step(self.tables[name], "source", "target", ""))
            if not out:
                once = "e.source <> e.target" if both and edge.source == edge.target else ""
                found.append(self._step(self.tables[name], "target", "source", once))
        return found

    def _step(self, edges: Table, here: str, there: str, also: str) -> str:
        ends = {"source": edges.label.source, "target": edges.label.target}
        nodes, name = self.tables[ends[there]], edges.label.name
        tests = [
            f"w.label = '{ends[here]}' AND w.depth < {self.trail.most}",
            f"e.{here} = w.key AND n.{nodes.key} = e.{there}",
            f"instr(w.way, ';{name}:' || e.{ID} || ';') = 0",
            *([also] if also else []),
        ]
        if self.parts:
            tests += [f"+e.{edges.partition} = w.part", f"+n.{nodes.partition} = w.part"]
        way = f"CASE w.way WHEN '' THEN ';' ELSE w.way END || '{name}:' || e.{ID} || ';'"
        return (
            f"SELECT w.q, w.part, w.begin, w.first, '{ends[there]}', n.{ID}, n.{nodes.key}, w.depth + 1, {way} "
            f"FROM walk w CROSS JOIN {edges.name} e CROSS JOIN {nodes.name} n WHERE {' AND '.join(tests)}"
        )

    def run(self, con: sqlite3.Connection, dimensions: Mapping[tuple[str, str], int]) -> pa.Table:
        """The paths of all rows, within a transaction, after `asking.load`."""
        paths = [self._path(row) for row in con.execute(self.sql)]
        keys = self._keys(con, paths)
        named = [(element, label) for element, label in elements_of(self.graph, self.query.pattern) if element.var]
        parts = {
            element.var: part
            for element, part in zip(self.query.pattern.elements, ("first", "steps", "last"), strict=True)
        }

        def record(path: _Path) -> tuple[Any, ...]:
            found: list[Any] = [path.q]
            for element, label in named:
                part = getattr(path, parts[element.var])
                found.append([keys[step] for step in part] if label is None else keys[part])
            return tuple(found)

        records = sorted(((record(path), path) for path in paths), key=lambda pair: path_order(pair[0], named))
        schema = match_schema(self.graph, self.query, dimensions)
        columns: list[pa.Array[Any]] = [pa.array([found[0] for found, _ in records], pa.int64())]
        for i, (element, label) in enumerate(named, 1):
            kind = schema.field(element.var).type
            if label is None:
                columns.append(steps_of((found[i] for found, _ in records), kind))
            else:
                nodes = [getattr(path, parts[element.var]) for _, path in records]
                names = list(returned(self.graph, label, self.query.properties.get(element.var, ())))
                columns.append(self._nodes(con, nodes, names, kind, dimensions))
        return pa.Table.from_arrays(columns, schema=schema)

    def _path(self, row: Sequence[Any]) -> _Path:
        q, begin, first, way, label, at = row
        steps = [(name, int(number)) for name, _, number in (step.partition(":") for step in way.strip(";").split(";"))]
        if self.begin:
            return _Path(q, (label, at), tuple(reversed(steps)), (begin, first))
        return _Path(q, (begin, first), tuple(steps), (label, at))

    def _keys(self, con: sqlite3.Connection, paths: Sequence[_Path]) -> dict[Node, tuple[str, ...]]:
        """The key of each node, and the key, label and ends of each edge."""
        wanted: dict[str, set[int]] = {}
        for path in paths:
            for label, number in (path.first, *path.steps, path.last):
                wanted.setdefault(label, set()).add(number)
        found: dict[Node, tuple[str, ...]] = {}
        for label, numbers in wanted.items():
            table, ids = self.tables[label], sorted(numbers)
            ends = ["source", "target"] if table.label.kind == "edge" else []
            rows = [array.to_pylist() for array in read_rows(con, table, [self.graph.key, *ends], ids, {})]
            for number, key, *others in zip(ids, *rows, strict=True):
                found[label, number] = (key, label, *others)
        return found

    def _nodes(
        self,
        con: sqlite3.Connection,
        nodes: Sequence[Node],
        names: Sequence[str],
        kind: pa.DataType,
        dimensions: Mapping[tuple[str, str], int],
    ) -> pa.Array[Any]:
        """The properties of nodes of several labels, in their order."""
        found: list[pa.StructArray] = []
        place: dict[Node, int] = {}
        for label in dict.fromkeys(label for label, _ in nodes):
            ids = sorted({number for one, number in nodes if one == label})
            for number in ids:
                place[label, number] = len(place)
            arrays = read_rows(con, self.tables[label], names, ids, dimensions)
            found.append(pa.StructArray.from_arrays(arrays, fields=list(kind)))  # type: ignore[call-overload]
        every: Any = pa.concat_arrays(found) if found else pa.array([], kind)
        taken: pa.Array[Any] = every.take(pa.array([place[node] for node in nodes], pa.int64()))
        return taken
