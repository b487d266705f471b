"""Matches and scans in Cypher."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from semgraph.expr import Scalar
from semgraph.logical.pattern import PatternEdge, PatternNode
from semgraph.logical.schema import Graph, Label
from semgraph.stores.base import MatchQuery
from semgraph.stores.cypher.hits import Indexes
from semgraph.stores.cypher.terms import ROW, Bound, Conditions, held, quoted, returned_as
from semgraph.stores.cypher.trails import TrailText
from semgraph.stores.rows import returned


@dataclass(frozen=True)
class MatchText:
    """A statement for a pattern, whatever the rows.

    Args:
        text: Reads `$rows`; returns the ordinal, then for each variable a list of properties; of a trail's, one an edge.
        bound: Values of its conjuncts.
        columns: Row fields by the column of the rows that a property map names.
    """

    text: str
    bound: Bound
    columns: Mapping[str, str]


def compile_match(graph: Graph, query: MatchQuery, indexes: Indexes, *, several: bool) -> MatchText:
    """The statement for a pattern; `several`: the partition column holds lists. Raises EngineError."""
    if query.pattern.trail is not None:
        trail = TrailText(graph, query, query.pattern.trail, indexes, several=several)
        return MatchText(trail.text, trail.bound, trail.columns)
    path = _Path(graph, query, indexes)
    labels = {element.var: graph.label(element.label) for element in query.pattern.fixed if element.var}
    conditions = Conditions(graph, labels, underived=indexes.underived)
    terms = conditions.read(query.where, None)
    tests = [*_confined(graph, path, query.partition, several=several), *path.compared(graph)]
    if terms:
        tests.append(conditions.text(terms, {e.var: path.names[id(e)] for e in query.pattern.variables}))
    listed = [
        _listed(
            graph, labels[e.var], path.names[id(e)], returned(graph, labels[e.var], query.properties.get(e.var, ()))
        )
        for e in query.pattern.fixed
        if e.var
    ]
    text = f"UNWIND $rows AS {ROW}\n{path.text(tests)}\nRETURN {', '.join([f'{ROW}._q AS q', *listed])}"
    bound = conditions.bound
    return MatchText(text, Bound(bound.values, {**bound.constants, "own": graph.partition}), path.columns)


class _Path:
    """A pattern with a name for each element, and the element to begin with."""

    def __init__(self, graph: Graph, query: MatchQuery, indexes: Indexes) -> None:
        self.elements = query.pattern.fixed
        self.underived = indexes.underived
        self.names = {id(element): f"e{i}" for i, element in enumerate(self.elements)}
        self.columns = {column: f"c{i}" for i, column in enumerate(dict.fromkeys(query.pattern.columns))}
        given = [(e, prop) for e in self.elements for prop, _ in e.props if (e.label, prop) not in self.underived]
        given.sort(key=lambda pair: (pair[1] != graph.key, (pair[0].label, pair[1]) not in indexes.ranges))
        self.first = given[0][0] if given else None
        self.hint = indexes.hint(self.names[id(self.first)], given[0][0].label, given[0][1]) if given else ""

    def text(self, tests: Sequence[str]) -> str:
        """Clauses that bind all names to what passes."""
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        if self.first is None:
            return f"MATCH {self._drawn(None)}{where}"
        name, found = self.names[id(self.first)], self._inner(self.first)
        begin = f"({found})" if isinstance(self.first, PatternNode) else f"()-[{found}]->()"
        return f"MATCH {begin}{self.hint}\nWITH {ROW}, {name}\nMATCH {self._drawn(self.first)}{where}"

    def compared(self, graph: Graph) -> list[str]:
        """The comparisons of properties in the pattern that some rows lack."""
        return [
            f"{held(graph, graph.label(e.label), self.names[id(e)], prop, self.underived)} = {ROW}.{self.columns[column]}"
            for e in self.elements
            for prop, column in e.props
            if (e.label, prop) in self.underived
        ]

    def _drawn(self, known: PatternNode | PatternEdge | None) -> str:
        return "".join(self._element(e, self.names[id(e)] if e is known else self._inner(e)) for e in self.elements)

    def _inner(self, element: PatternNode | PatternEdge) -> str:
        plain = [(prop, column) for prop, column in element.props if (element.label, prop) not in self.underived]
        props = ", ".join(f"{quoted(prop)}: {ROW}.{self.columns[column]}" for prop, column in plain)
        return f"{self.names[id(element)]}:{quoted(element.label)}" + (f" {{{props}}}" if props else "")

    @staticmethod
    def _element(element: PatternNode | PatternEdge, inner: str) -> str:
        if isinstance(element, PatternNode):
            return f"({inner})"
        left, right = {"out": ("-", "->"), "in": ("<-", "-"), "any": ("-", "-")}[element.direction]
        return f"{left}[{inner}]{right}"


def _confined(graph: Graph, path: _Path, partition: str | None, *, several: bool) -> list[str]:
    """The conditions that keep a path in the row's partition, or in one of several.

    Where a property map says where to begin, they name the property by a parameter: given by name, an index on it may tempt
    the planner to begin with a whole partition, for every row.
    """
    if partition is None:
        return []
    first, *others = path.names.values()
    own = quoted(graph.partition)
    tested = [f"{name}[$own]" if path.first is not None else f"{name}.{own}" for name in (first, *others)]
    if not several:
        return [f"{value} = {ROW}.p0" for value in tested]
    return [f"{tested[0]} IN {ROW}.p0", *(f"{value} = {tested[0]}" for value in tested[1:])]


def _listed(graph: Graph, label: Label, name: str, properties: Iterable[str]) -> str:
    return f"[{', '.join(returned_as(graph, label, name, prop) for prop in properties)}] AS {name}"


@dataclass(frozen=True)
class ScanText:
    """A statement for all rows of a label.

    Args:
        text: Reads `$partitions` if it is confined to some.
        bound: Values of its conjuncts; none of rows.
    """

    text: str
    bound: Bound


def compile_scan(
    graph: Graph, label: Label, properties: Sequence[str], where: Sequence[Scalar], indexes: Indexes, *, confined: bool
) -> ScanText:
    """The statement for a scan; the conjuncts name properties without an alias. Raises EngineError."""
    conditions = Conditions(graph, {"": label}, underived=indexes.underived)
    terms = conditions.read(where, "")
    wanted = tuple(returned(graph, label, properties, partition=True))
    pattern = f"(h:{quoted(label.name)})" if label.kind == "node" else f"()-[h:{quoted(label.name)}]->()"
    tests = [f"h.{quoted(graph.partition)} IN $partitions"] if confined else []
    if terms:
        tests.append(conditions.text(terms, {"": "h"}))
    filtered = f" WHERE {' AND '.join(tests)}" if tests else ""
    listed = ", ".join(returned_as(graph, label, "h", name) for name in wanted)
    hint = indexes.hint("h", label.name, graph.partition) if confined else ""
    text = f"MATCH {pattern}{hint}{filtered}\nRETURN [{listed}] AS hit ORDER BY h.{quoted(graph.key)}"
    return ScanText(text, conditions.bound)
