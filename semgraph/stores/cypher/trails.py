"""Trails in Cypher: from one end, which the rows name, along edges of some types to the other, and on from there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from semgraph.logical.pattern import Element, PatternNode, PatternTrail
from semgraph.logical.schema import Graph, Label
from semgraph.logical.trails import elements_of, trail_ends
from semgraph.stores.base import MatchQuery
from semgraph.stores.cypher.hits import Indexes
from semgraph.stores.cypher.terms import ROW, Bound, Conditions, held, quoted, returned_as
from semgraph.stores.rows import returned

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
        self, graph: Graph, query: MatchQuery, trail: PatternTrail, indexes: Indexes, *, several: bool
    ) -> None:
        self.graph, self.query, self.trail, self.indexes = graph, query, trail, indexes
        self.several = several
        self.ends = trail_ends(graph, query.pattern, trail)
        self.columns = {column: f"c{i}" for i, column in enumerate(dict.fromkeys(query.pattern.columns))}
        self.elements = elements_of(graph, query.pattern)
        self.names = (*_NAMES, *(f"x{i}" for i in range(len(self.elements) - len(_NAMES))))
        labels = {element.var: label for element, label in self.elements if element.var and label is not None}
        self.conditions = Conditions(graph, labels, underived=indexes.underived)
        self.terms = self.conditions.read(query.where, None)
        self.bound = Bound(self.conditions.bound.values, {**self.conditions.bound.constants, "own": graph.partition})

    @property
    def text(self) -> str:
        """Reads `$rows`; returns the ordinal, then a list for each variable: of properties, or of the edges of the trail."""
        tests = [*self._confined(), *self._compared(), *self._where()]
        where = f"\nWHERE {' AND '.join(tests)}" if tests else ""
        returned = ", ".join([f"{ROW}._q AS q", *self._returned()])
        return f"UNWIND $rows AS {ROW}\n{self._begin()}MATCH {_WAY} = {self._drawn()}{where}\nRETURN {returned}"

    @property
    def _known(self) -> int | None:
        """The end that the rows name: by key, rather than by another property."""
        given = ((place, {p for p, _ in self._elements[place].props if not self._lacks(place, p)}) for place in (0, 2))
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
            length = f"*{element.least}..{element.most}" if isinstance(element, PatternTrail) else ""
            yield f"{left}[{inner}{length}]{right}"

    def _props(self, place: int) -> str:
        plain = [(prop, column) for prop, column in self._elements[place].props if not self._lacks(place, prop)]
        props = ", ".join(f"{quoted(prop)}: {ROW}.{self.columns[column]}" for prop, column in plain)
        return f" {{{props}}}" if props else ""

    def _lacks(self, place: int, prop: str) -> bool:
        """Whether some rows lack a property that the pattern names, so that it is compared apart."""
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
        """All nodes and edges of a path lie in the row's partition, or in the same one of several."""
        if self.query.partition is None:
            return []
        own = f"{_NAMES[0]}[$own]"
        wanted = own if self.several else f"{ROW}.p0"
        first = [f"{own} IN {ROW}.p0"] if self.several else []
        each = [f"all(x IN {what} WHERE x[$own] = {wanted})" for what in (f"nodes({_WAY})", _NAMES[1])]
        return [*first, *each, *(f"{edge}[$own] = {wanted}" for edge in self.names[3::2])]

    def _where(self) -> Sequence[str]:
        variables = {e.var: name for (e, _), name in zip(self.elements, self.names, strict=True) if e.var}
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
