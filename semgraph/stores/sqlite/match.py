"""Patterns in SQLite: one join over the elements of the path, starting at the most selective one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from semgraph.errors import EngineError
from semgraph.expr import Type
from semgraph.logical import graph
from semgraph.logical.schema import Label
from semgraph.stores.base import MatchQuery, ScanQuery
from semgraph.stores.conditions import Prop
from semgraph.stores.prepare import (
    match_schema,
    match_table,
    returned,
    scan_schema,
    without_left_out,
)
from semgraph.stores.sqlite.rows import RequestRows, StoredRows
from semgraph.stores.sqlite.schema import ID, Table, Tables, quote, temporary


def named(
    element: graph.PatternNode | graph.PatternEdge, alias: str, table: Table, request: RequestRows
) -> list[str]:
    """The conditions of an element's property map."""
    return [
        f"{alias}.{quote(prop)} = {request.path(path, table.type_of(prop))}"
        for prop, path in element.props
    ]


def looseness(element: graph.PatternNode | graph.PatternEdge, table: Table) -> int:
    """A rank of the number of rows that the property map of an element leaves: 0 is one, 3 all."""
    props = {prop for prop, _ in element.props}
    if table.graph.key in props:
        return 0
    return 1 if props & {*table.label.index} else 2 if props else 3


class _Match:
    """A pattern, prepared for its rows, and the properties that its variables return."""

    known: dict[str, tuple[str, Table]]  # the alias and the table of each variable

    def __init__(self, tables: Tables, query: MatchQuery, request: RequestRows) -> None:
        self.tables, self.query, self.request = tables, query, request
        self.graph = next(iter(tables.values())).graph
        self.left_out = next(iter(tables.values())).left_out
        self.parts = request.parts(query.partition) if query.partition is not None else ""
        self.names = {
            element.var: list(returned(self.graph, label, query.properties.get(element.var, ())))
            for element, label in graph.elements_of(self.graph, query.pattern)
            if element.var and label is not None
        }

    def _prop(self, prop: Prop) -> tuple[str, Type]:
        if not prop.var or prop.var not in self.known:
            named = ", ".join(filter(None, self.known))
            raise EngineError(f'a conjunct names "{prop.var}", which the pattern does not: {named}')
        alias, table = self.known[prop.var]
        return table.stored(prop.name, alias), table.type_of(prop.name)

    def joined(
        self, edge: graph.PatternEdge, e: str, near: tuple[str, Table], far: tuple[str, Table]
    ) -> str:
        """The condition that an edge connects two nodes, each an alias and its table, in one of the
        possible directions.
        """
        label, names = self.tables[edge.label].label, (near[1].label.name, far[1].label.name)
        tests = [
            f"({e}.{begin} = {near[0]}.{near[1].key} AND {e}.{end} = {far[0]}.{far[1].key})"
            for begin, end, way in (("source", "target", "out"), ("target", "source", "in"))
            if edge.direction in (way, "any")
            and (getattr(label, begin), getattr(label, end)) == names
        ]
        return f"({' OR '.join(tests)})" if tests else "FALSE"

    def stored(self, element: graph.Element, table: Table, alias: str) -> list[str]:
        """The returned properties of an element, in SQL."""
        return [table.stored(name, alias) for name in self.names.get(element.var, ())]

    def result(self, read: StoredRows, sql: str, way: int = 1) -> pa.Table:
        """The matches of a statement that returns the ordinal, the walk of a variable-length path
        (its edges, each as `label:id;`; `way` is -1 if it was walked backwards), and the properties
        of all other variables.
        """
        rows = read.con.execute(sql).fetchall()
        walks = [walk.strip(";").split(";")[::way] if walk else [] for _, walk, *_ in rows]
        edges = self._edges(read, chain.from_iterable(walks))

        def record(row: Sequence[Any], walk: Sequence[str]) -> list[Any]:
            values, cells = list(row[:1]), iter(row[2:])
            for element in self.query.pattern.variables:
                names = self.names.get(element.var)
                steps = [edges[step] for step in walk] if names is None else []
                values.append(steps if names is None else list(islice(cells, len(names))))
            return values

        def columns(
            label: Label, fields: Sequence[pa.Field[Any]], found: Sequence[Sequence[Any]]
        ) -> list[pa.Array[Any]]:
            table = Table(self.graph, label, self.left_out)
            return read.arrays(table, [field.name for field in fields], found)

        schema = match_schema(self.graph, self.query, read.dimensions)
        records = map(record, rows, walks)
        return match_table(self.graph, self.query, schema, self.left_out, records, columns)

    def _edges(self, read: StoredRows, steps: Iterable[str]) -> dict[str, tuple[str, ...]]:
        ids: dict[str, list[int]] = {}
        for step in dict.fromkeys(steps):
            label, _, number = step.partition(":")
            ids.setdefault(label, []).append(int(number))
        edges: dict[str, tuple[str, ...]] = {}
        for label, numbers in ids.items():
            table = self.tables[label]
            columns = read.by_id(table, [self.graph.key, *table.label.ends], numbers)
            for number, key, *ends in zip(numbers, *(c.to_pylist() for c in columns), strict=True):
                edges[f"{label}:{number}"] = (key, label, *ends)
        return edges


class PatternMatch(_Match):
    """A pattern of fixed length. Element i of the path is `t<i>` in SQL; nodes are even, edges odd."""

    def __init__(self, tables: Tables, query: MatchQuery, request: RequestRows) -> None:
        super().__init__(tables, query, request)
        self.elements = query.pattern.fixed
        self.tables_of = [tables[element.label] for element in self.elements]
        self.known = {e.var: (f"t{i}", self.tables_of[i]) for i, e in enumerate(self.elements)}
        where = request.conjuncts(query.where, None, self._prop)
        self.conditions = [*self._props(), *self._joins(), *where]

    def _props(self) -> list[str]:
        tests = ["s.q = r.q"] if self.parts else []
        for i, (element, table) in enumerate(zip(self.elements, self.tables_of, strict=True)):
            if self.parts:
                # Keeps SQLite off the index by partition, so that it uses that by ends.
                away = "+" if i % 2 and i != self.order[0] else ""
                tests.append(f"{away}t{i}.{table.partition} = s.part")
            tests += named(element, f"t{i}", table, self.request)
        return tests

    def _joins(self) -> list[str]:
        tests = []
        for i, edge in enumerate(self.elements):
            if isinstance(edge, graph.PatternEdge):
                near, far = ((f"t{n}", self.tables_of[n]) for n in (i - 1, i + 1))
                tests.append(self.joined(edge, f"t{i}", near, far))
                same = [j for j in range(1, i, 2) if self.tables_of[j].label.name == edge.label]
                tests += [f"t{i}.{ID} <> t{j}.{ID}" for j in same]
        return tests

    @cached_property
    def order(self) -> list[int]:
        """Elements in join order: from the most selective one outwards along the path."""
        start = min(
            range(len(self.elements)),
            key=lambda i: (looseness(self.elements[i], self.tables_of[i]), i % 2, i),
        )
        return [start, *range(start + 1, len(self.elements)), *range(start - 1, -1, -1)]

    def run(self, read: StoredRows) -> pa.Table:
        """The paths of all rows, within a transaction, after `request.load`."""
        selected, sources = ["r.q", "''"], [f"temp.{self.request.table} r"]
        for i, (element, table) in enumerate(zip(self.elements, self.tables_of, strict=True)):
            selected += self.stored(element, table, f"t{i}")
        if self.parts:
            sources.append(f"temp.{self.parts} s")
        sources += [f"{self.tables_of[i].name} t{i}" for i in self.order]
        where = f"WHERE {' AND '.join(self.conditions)}" if self.conditions else ""
        key = quote(self.graph.key)
        # Without this order SQLite reads all edges if they may have either direction.
        order = ", ".join(["r.q", *(f"t{i}.{key}" for i, e in enumerate(self.elements) if e.var)])
        sql = f"SELECT {', '.join(selected)} FROM {' CROSS JOIN '.join(sources)} {where} ORDER BY {order}"
        return self.result(read, sql)


class LabelScan:
    """A scan, prepared."""

    def __init__(self, table: Table, query: ScanQuery) -> None:
        self.table, self.query = table, query
        self.request = RequestRows(pa.table({"_q": pa.array([0], pa.int64())}))
        self.conditions = self.request.conjuncts(
            query.where, "", lambda prop: (table.stored(prop.name), table.type_of(prop.name))
        )

    def run(self, read: StoredRows) -> pa.Table:
        """The rows, within a transaction."""
        table, conditions = self.table, list(self.conditions)
        self.request.load(read.con)
        if self.query.partitions is not None:
            listed = ((part,) for part in self.query.partitions)
            parts = temporary(read.con, "#parts", ["part TEXT"], listed, unique="part")
            conditions.append(f"t.{table.partition} IN (SELECT part FROM {parts})")
        schema = scan_schema(table.graph, self.query, read.dimensions)
        selected = ", ".join(table.stored(name) for name in schema.names)
        rows = f"temp.{self.request.table} r CROSS JOIN " if self.conditions else ""
        where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        limit = "" if self.query.limit is None else f"LIMIT {int(self.query.limit)}"
        sql = f"SELECT {selected} FROM {rows}{table.name} t {where} ORDER BY t.{table.key} {limit}"
        arrays = read.arrays(table, schema.names, read.con.execute(sql).fetchall())
        result = pa.Table.from_arrays(arrays, schema=schema)
        return without_left_out(result, [table.graph.key])


class VariablePaths(_Match):
    """A pattern with a variable-length path."""

    def __init__(
        self, tables: Tables, query: MatchQuery, path: graph.PatternPath, request: RequestRows
    ) -> None:
        super().__init__(tables, query, request)
        self.path = path
        self.nodes = query.pattern.nodes
        self.ends = graph.path_ends(self.graph, query.pattern, path)
        first, second = (looseness(self.nodes[place], self._table(place)) for place in (0, 1))
        self.begin = int(second < first)
        ends = [(self.nodes[place], f"t{place}", self._table(place)) for place in (0, 1)]
        self.props = [named(*end, request) for end in ends]
        self.named = {
            place: named(edge, f"e{place}", tables[edge.label], request)
            + named(node, f"t{place}", tables[node.label], request)
            for place, edge, node in self._rest
        }
        self.known = {n.var: (f"t{i}", self._table(i)) for i, n in enumerate(self.nodes[:2])}
        for place, edge, node in self._rest:
            self.known[edge.var] = f"e{place}", tables[edge.label]
            self.known[node.var] = f"t{place}", tables[node.label]
        self.where = request.conjuncts(query.where, None, self._prop)

    @property
    def _rest(self) -> list[tuple[int, graph.PatternEdge, graph.PatternNode]]:
        """Edges after the path, the nodes that they lead to, and the positions of these."""
        pairs = zip(self.query.pattern.edges[1:], self.nodes[2:], strict=True)
        return [
            (place, edge, node)
            for place, (edge, node) in enumerate(pairs, 2)
            if isinstance(edge, graph.PatternEdge)
        ]

    def _table(self, place: int) -> Table:
        """The table of an end; of several the first, because they share what is read."""
        return self.tables[self.ends[place][0]]

    @property
    def sql(self) -> str:
        """The statement, as `result` reads it."""
        rows = f"temp.{self.request.table} r"
        walk = [*self._seeds(rows), *self._steps()]
        near, far = self.begin, 1 - self.begin
        behind = [
            cell
            for place, edge, node in self._rest
            for element, alias in ((edge, f"e{place}"), (node, f"t{place}"))
            for cell in self.stored(element, self.tables[element.label], alias)
        ]
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
                first, last = (end, begin) if near else (begin, end)
                cells = [
                    *self.stored(self.nodes[0], self.tables[first], "t0"),
                    *self.stored(self.nodes[1], self.tables[last], "t1"),
                    *behind,
                ]
                selects.append(
                    f"SELECT {', '.join(['w.q', 'w.steps', *cells])} FROM {' CROSS JOIN '.join(sources)} "
                    f"WHERE {' AND '.join(tests)}"
                )
        columns = "q, part, begin, first, label, at, key, depth, steps"
        return f"WITH RECURSIVE walk ({columns}) AS ({' UNION ALL '.join(walk)}) {' UNION ALL '.join(selects)}"

    def _after(self, label: str) -> list[str]:
        """The conditions on the rest of the pattern after a path that ends in this label."""
        tests = []
        for place, edge, node in self._rest:
            here, e, t = f"t{place - 1}", f"e{place}", f"t{place}"
            edges, nodes = self.tables[edge.label], self.tables[node.label]
            tests.append(self.joined(edge, e, (here, self.tables[label]), (t, nodes)))
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

    def run(self, read: StoredRows) -> pa.Table:
        """The paths of all rows, within a transaction, after `request.load`."""
        return self.result(read, self.sql, -1 if self.begin else 1)
