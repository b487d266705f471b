"""Matches and scans in Cypher."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from semgraph.expr import Scalar
from semgraph.logical.graph import (
    Element,
    PatternEdge,
    PatternNode,
    PatternPath,
    elements_of,
    path_ends,
)
from semgraph.logical.schema import Graph, Label
from semgraph.stores.base import MatchQuery
from semgraph.stores.batch_io import returned
from semgraph.stores.neo4j.cypher import ROW, Bound, Conditions, held, quoted, returned_as
from semgraph.stores.neo4j.schema import Indexes

_NAMES = ("a", "t", "b")
_WAY = "way"
_ARROWS = {"out": ("-", "->"), "in": ("<-", "-"), "any": ("-", "-")}


class TrailText:
    """The statement for a pattern with a trail.

    Args:
        graph: Of the store.
        query: The match.
        trail: Of its pattern.
        indexes: What the database has.
        several: Whether the partition column holds lists.
    """

    def __init__(
        self,
        graph: Graph,
        query: MatchQuery,
        trail: PatternPath,
        indexes: Indexes,
        *,
        several: bool,
    ) -> None:
        self.graph, self.query, self.trail, self.indexes = graph, query, trail, indexes
        self.several = several
        self.ends = path_ends(graph, query.pattern, trail)
        self.columns = {
            column: f"c{i}" for i, column in enumerate(dict.fromkeys(query.pattern.columns))
        }
        self.elements = elements_of(graph, query.pattern)
        self.names = (*_NAMES, *(f"x{i}" for i in range(len(self.elements) - len(_NAMES))))
        labels = {
            element.var: label
            for element, label in self.elements
            if element.var and label is not None
        }
        self.conditions = Conditions(graph, labels, underived=indexes.underived)
        self.terms = self.conditions.read(query.where, None)
        self.bound = Bound(
            self.conditions.bound.values,
            {**self.conditions.bound.constants, "own": graph.partition},
        )

    @property
    def text(self) -> str:
        """Reads `$rows`; returns the ordinal, then a list for each variable: of properties, or of
        the edges of the trail.
        """
        tests = [*self._confined(), *self._compared(), *self._where()]
        where = f"\nWHERE {' AND '.join(tests)}" if tests else ""
        returned = ", ".join([f"{ROW}._q AS q", *self._returned()])
        return f"UNWIND $rows AS {ROW}\n{self._begin()}MATCH {_WAY} = {self._drawn()}{where}\nRETURN {returned}"

    @property
    def _known(self) -> int | None:
        """The end that the rows name: by key, rather than by another property."""
        given = (
            (place, {p for p, _ in self._elements[place].props if not self._lacks(place, p)})
            for place in (0, 2)
        )
        named = [(place, props) for place, props in given if props]
        named.sort(key=lambda pair: self.graph.key not in pair[1])
        return named[0][0] if named else None

    @property
    def _elements(self) -> Sequence[Element]:
        return self.query.pattern.elements

    def _labels(self, place: int) -> tuple[str, ...]:
        """The labels that an element can have; of a trail the types of its edges."""
        if place in (0, 2):
            return self.ends[place // 2]
        label = self.elements[place][1]
        return self.trail.labels if label is None else (label.name,)

    def _begin(self) -> str:
        if self._known is None:
            return ""
        place, name = self._known, self.names[self._known]
        props = [p for p, _ in self._elements[place].props if not self._lacks(place, p)]
        prop = min(props, key=lambda p: p != self.graph.key)
        seeks = [
            f"MATCH ({name}:{quoted(one)}{self._props(place)}){self.indexes.hint(name, one, prop)}"
            for one in self._labels(place)
        ]
        if len(seeks) == 1:
            return f"{seeks[0]}\nWITH {ROW}, {name}\n"
        union = f" RETURN {name}\nUNION\n".join(seeks)
        return f"CALL ({ROW}) {{\n{union} RETURN {name}\n}}\n"

    def _drawn(self) -> str:
        return "".join(self._drawn_parts())

    def _drawn_parts(self) -> Iterator[str]:
        for place, element in enumerate(self._elements):
            inner = f"{self.names[place]}:{'|'.join(map(quoted, self._labels(place)))}{self._props(place)}"
            if isinstance(element, PatternNode):
                yield f"({self.names[place] if place == self._known else inner})"
                continue
            left, right = _ARROWS[element.direction]
            length = f"*{element.least}..{element.most}" if isinstance(element, PatternPath) else ""
            yield f"{left}[{inner}{length}]{right}"

    def _props(self, place: int) -> str:
        plain = [
            (prop, column)
            for prop, column in self._elements[place].props
            if not self._lacks(place, prop)
        ]
        props = ", ".join(f"{quoted(prop)}: {ROW}.{self.columns[column]}" for prop, column in plain)
        return f" {{{props}}}" if props else ""

    def _lacks(self, place: int, prop: str) -> bool:
        """Whether some rows lack a property that the pattern names, so that it is compared
        apart.
        """
        return any((label, prop) in self.indexes.underived for label in self._labels(place))

    def _compared(self) -> list[str]:
        """The comparisons of properties that some rows lack."""
        return [
            f"{held(self.graph, label, self.names[place], prop, self.indexes.underived)} = {ROW}.{self.columns[column]}"
            for place, (element, label) in enumerate(self.elements)
            if label is not None
            for prop, column in element.props
            if self._lacks(place, prop)
        ]

    def _confined(self) -> list[str]:
        """All nodes and edges of a path lie in the row's partition, or in the same one of
        several.
        """
        if self.query.partition is None:
            return []
        own = f"{_NAMES[0]}[$own]"
        wanted = own if self.several else f"{ROW}.p0"
        first = [f"{own} IN {ROW}.p0"] if self.several else []
        each = [
            f"all(x IN {what} WHERE x[$own] = {wanted})" for what in (f"nodes({_WAY})", _NAMES[1])
        ]
        return [*first, *each, *(f"{edge}[$own] = {wanted}" for edge in self.names[3::2])]

    def _where(self) -> Sequence[str]:
        variables = {
            e.var: name for (e, _), name in zip(self.elements, self.names, strict=True) if e.var
        }
        return [self.conditions.text(self.terms, variables)] if self.terms else []

    def _returned(self) -> list[str]:
        return [
            f"{self._steps() if label is None else self._listed(label, element.var, name)} AS {name}"
            for (element, label), name in zip(self.elements, self.names, strict=True)
            if element.var
        ]

    def _steps(self) -> str:
        key = quoted(self.graph.key)
        return f"[x IN {_NAMES[1]} | [x.{key}, type(x), startNode(x).{key}, endNode(x).{key}]]"

    def _listed(self, label: Label, var: str, name: str) -> str:
        wanted = returned(self.graph, label, self.query.properties.get(var, ()))
        return f"[{', '.join(returned_as(self.graph, label, name, prop) for prop in wanted)}]"


@dataclass(frozen=True)
class MatchText:
    """A statement for a pattern, whatever the rows.

    Args:
        text: Reads `$rows`; returns the ordinal, then for each variable a list of properties; of a
            trail's, one an edge.
        bound: Values of its conjuncts.
        columns: Row fields by the column of the rows that a property map names.
    """

    text: str
    bound: Bound
    columns: Mapping[str, str]


def compile_match(graph: Graph, query: MatchQuery, indexes: Indexes, *, several: bool) -> MatchText:
    """The statement for a pattern; `several`: the partition column holds lists. Raises
    EngineError.
    """
    if query.pattern.variable_path is not None:
        trail = TrailText(graph, query, query.pattern.variable_path, indexes, several=several)
        return MatchText(trail.text, trail.bound, trail.columns)
    path = _Path(graph, query, indexes)
    labels = {
        element.var: graph.label(element.label) for element in query.pattern.fixed if element.var
    }
    conditions = Conditions(graph, labels, underived=indexes.underived)
    terms = conditions.read(query.where, None)
    tests = [*_confined(graph, path, query.partition, several=several), *path.compared(graph)]
    if terms:
        tests.append(
            conditions.text(terms, {e.var: path.names[id(e)] for e in query.pattern.variables})
        )
    listed = [
        _listed(
            graph,
            labels[e.var],
            path.names[id(e)],
            returned(graph, labels[e.var], query.properties.get(e.var, ())),
        )
        for e in query.pattern.fixed
        if e.var
    ]
    text = f"UNWIND $rows AS {ROW}\n{path.text(tests)}\nRETURN {', '.join([f'{ROW}._q AS q', *listed])}"
    bound = conditions.bound
    return MatchText(
        text, Bound(bound.values, {**bound.constants, "own": graph.partition}), path.columns
    )


class _Path:
    """A pattern with a name for each element, and the element to begin with."""

    def __init__(self, graph: Graph, query: MatchQuery, indexes: Indexes) -> None:
        self.elements = query.pattern.fixed
        self.underived = indexes.underived
        self.names = {id(element): f"e{i}" for i, element in enumerate(self.elements)}
        self.columns = {
            column: f"c{i}" for i, column in enumerate(dict.fromkeys(query.pattern.columns))
        }
        given = [
            (e, prop)
            for e in self.elements
            for prop, _ in e.props
            if (e.label, prop) not in self.underived
        ]
        given.sort(
            key=lambda pair: (pair[1] != graph.key, (pair[0].label, pair[1]) not in indexes.ranges)
        )
        self.first = given[0][0] if given else None
        self.hint = (
            indexes.hint(self.names[id(self.first)], given[0][0].label, given[0][1])
            if given
            else ""
        )

    def text(self, tests: Sequence[str]) -> str:
        """Clauses that bind all names to what passes."""
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        if self.first is None:
            return f"MATCH {self._drawn(None)}{where}"
        name, found = self.names[id(self.first)], self._inner(self.first)
        begin = f"({found})" if isinstance(self.first, PatternNode) else f"()-[{found}]->()"
        return (
            f"MATCH {begin}{self.hint}\nWITH {ROW}, {name}\nMATCH {self._drawn(self.first)}{where}"
        )

    def compared(self, graph: Graph) -> list[str]:
        """The comparisons of properties in the pattern that some rows lack."""
        return [
            f"{held(graph, graph.label(e.label), self.names[id(e)], prop, self.underived)} = {ROW}.{self.columns[column]}"
            for e in self.elements
            for prop, column in e.props
            if (e.label, prop) in self.underived
        ]

    def _drawn(self, known: PatternNode | PatternEdge | None) -> str:
        return "".join(
            self._element(e, self.names[id(e)] if e is known else self._inner(e))
            for e in self.elements
        )

    def _inner(self, element: PatternNode | PatternEdge) -> str:
        plain = [
            (prop, column)
            for prop, column in element.props
            if (element.label, prop) not in self.underived
        ]
        props = ", ".join(f"{quoted(prop)}: {ROW}.{self.columns[column]}" for prop, column in plain)
        return f"{self.names[id(element)]}:{quoted(element.label)}" + (
            f" {{{props}}}" if props else ""
        )

    @staticmethod
    def _element(element: PatternNode | PatternEdge, inner: str) -> str:
        if isinstance(element, PatternNode):
            return f"({inner})"
        left, right = {"out": ("-", "->"), "in": ("<-", "-"), "any": ("-", "-")}[element.direction]
        return f"{left}[{inner}]{right}"


def _confined(graph: Graph, path: _Path, partition: str | None, *, several: bool) -> list[str]:
    """The conditions that keep a path in the row's partition, or in one of several.

    Where a property map says where to begin, they name the property by a parameter: given by name,
    an index on it may tempt the planner to begin with a whole partition, for every row.
    """
    if partition is None:
        return []
    first, *others = path.names.values()
    own = quoted(graph.partition)
    tested = [
        f"{name}[$own]" if path.first is not None else f"{name}.{own}" for name in (first, *others)
    ]
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
    graph: Graph,
    label: Label,
    properties: Sequence[str],
    where: Sequence[Scalar],
    indexes: Indexes,
    *,
    confined: bool,
) -> ScanText:
    """The statement for a scan; the conjuncts name properties without an alias. Raises
    EngineError.
    """
    conditions = Conditions(graph, {"": label}, underived=indexes.underived)
    terms = conditions.read(where, "")
    wanted = tuple(returned(graph, label, properties, partition=True))
    pattern = (
        f"(h:{quoted(label.name)})" if label.kind == "node" else f"()-[h:{quoted(label.name)}]->()"
    )
    tests = [f"h.{quoted(graph.partition)} IN $partitions"] if confined else []
    if terms:
        tests.append(conditions.text(terms, {"": "h"}))
    filtered = f" WHERE {' AND '.join(tests)}" if tests else ""
    listed = ", ".join(returned_as(graph, label, "h", name) for name in wanted)
    hint = indexes.hint("h", label.name, graph.partition) if confined else ""
    text = (
        f"MATCH {pattern}{hint}{filtered}\nRETURN [{listed}] AS hit ORDER BY h.{quoted(graph.key)}"
    )
    return ScanText(text, conditions.bound)
