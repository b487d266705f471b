"""Matches and scans in Cypher."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from semgraph.logical.graph import PatternNode, PatternPath, elements_of, path_ends
from semgraph.logical.schema import Graph
from semgraph.stores.base import MatchQuery, ScanQuery
from semgraph.stores.neo4j import cypher
from semgraph.stores.neo4j.schema import Indexes
from semgraph.stores.prepare import returned

_PATH = "path"
_ARROWS = {"out": ("-", "->"), "in": ("<-", "-"), "any": ("-", "-")}


@dataclass(frozen=True)
class ReadText:
    """A read statement, independent of the rows. A match reads `$lists.rows`, and returns the
    ordinal, then for each variable a list of properties, or of the edges of a variable-length path.
    A scan reads `$lists.partitions` if it is confined to some. `columns` has the row fields by the
    row column that a property map names.
    """

    text: str
    bound: cypher.Bound
    columns: Mapping[str, str] = field(default_factory=dict)


def compile_match(graph: Graph, query: MatchQuery, indexes: Indexes, *, several: bool) -> ReadText:
    """The statement for a pattern; `several`: the partition column has lists. Raises EngineError."""
    path = _PathText(graph, query, indexes, several=several)
    bound = path.conditions.bound
    constants = {**bound.constants, "own": graph.partition}
    return ReadText(path.text, cypher.Bound(bound.values, constants), path.columns)


class _PathText:
    """The statement for a pattern. Element i of the path is `e<i>`.

    If a property map names an element, the path starts there, and conditions on the partition name
    it by a parameter. With its property, an index on it may tempt the planner to start with the
    whole partition, for every row.
    """

    def __init__(self, graph: Graph, query: MatchQuery, indexes: Indexes, *, several: bool) -> None:
        self.graph, self.query, self.indexes, self.several = graph, query, indexes, several
        self.elements = query.pattern.elements
        self.variable_path = query.pattern.variable_path
        self.labels = [label for _, label in elements_of(graph, query.pattern)]
        self.names = [f"e{i}" for i in range(len(self.elements))]
        columns = dict.fromkeys(query.pattern.columns)
        self.columns = {column: f"c{i}" for i, column in enumerate(columns)}
        labelled = zip(self.elements, self.labels, strict=True)
        variables = {e.var: label for e, label in labelled if e.var and label is not None}
        self.conditions = cypher.Conditions(graph, variables, incomplete=indexes.incomplete)
        self.terms = self.conditions.read(query.where, None)

    @property
    def text(self) -> str:
        """The whole statement."""
        tests = [*self._confined(), *self._compared()]
        if self.terms:
            variables = {e.var: n for e, n in zip(self.elements, self.names, strict=True) if e.var}
            tests.append(self.conditions.text(self.terms, variables))
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        path = f"{_PATH} = " if self.variable_path else ""
        returned = ", ".join([f"{cypher.ROW}._q AS q", *self._returned()])
        drawn = "".join(self._drawn(i) for i in range(len(self.elements)))
        return f"UNWIND ${cypher.LISTS}.rows AS {cypher.ROW}\n{self._begin()}MATCH {path}{drawn}{where}\nRETURN {returned}"

    @cached_property
    def first(self) -> tuple[int, str] | None:
        """The element to start with, and the property that names it: a key, or an indexed one."""
        numbers = range(len(self.elements)) if self.variable_path is None else (0, 2)
        named = [(i, prop) for i in numbers for prop in self._plain(i)]

        def rank(pair: tuple[int, str]) -> tuple[bool, bool]:
            i, prop = pair
            return prop != self.graph.key, (self._labels(i)[0], prop) not in self.indexes.ranges

        return min(named, key=rank, default=None)

    def _labels(self, i: int) -> tuple[str, ...]:
        """The possible labels of an element; for a variable-length path the types of its edges."""
        label, path = self.labels[i], self.variable_path
        if path is not None and i in (0, 2):
            return path_ends(self.graph, self.query.pattern, path)[i // 2]
        if label is not None:
            return (label.name,)
        return path.labels if path is not None else ()

    def _begin(self) -> str:
        if self.first is None:
            return ""
        i, prop = self.first
        name, seeks = self.names[i], list[str]()
        for label in self._labels(i):
            pattern = cypher.pattern_of(self.graph.label(label), name, self._props(i))
            seeks.append(f"MATCH {pattern}{self.indexes.hint(name, label, prop)}")
        if len(seeks) == 1:
            return f"{seeks[0]}\nWITH {cypher.ROW}, {name}\n"
        union = f" RETURN {name}\nUNION\n".join(seeks)
        return f"CALL ({cypher.ROW}) {{\n{union} RETURN {name}\n}}\n"

    def _drawn(self, i: int) -> str:
        element = self.elements[i]
        inner = f"{self.names[i]}:{'|'.join(map(cypher.quoted, self._labels(i)))}{self._props(i)}"
        if self.first is not None and i == self.first[0]:
            inner = self.names[i]
        if isinstance(element, PatternNode):
            return f"({inner})"
        left, right = _ARROWS[element.direction]
        length = f"*{element.least}..{element.most}" if isinstance(element, PatternPath) else ""
        return f"{left}[{inner}{length}]{right}"

    def _plain(self, i: int) -> dict[str, str]:
        """The property map of an element, without properties that are compared in the condition."""
        return {p: column for p, column in self.elements[i].props if not self._apart(i, p)}

    def _apart(self, i: int, prop: str) -> bool:
        """Whether a property is compared in the condition: some rows lack it, or its values are
        times, which are equal in a map only with the same kind of time zone.
        """
        label = self.labels[i]
        kind = None if label is None else label.columns.get(prop)
        incomplete = any((name, prop) in self.indexes.incomplete for name in self._labels(i))
        return incomplete or (kind is not None and kind.name == "timestamp")

    def _props(self, i: int) -> str:
        plain = self._plain(i).items()
        props = ", ".join(f"{cypher.quoted(p)}: {cypher.ROW}.{self.columns[c]}" for p, c in plain)
        return f" {{{props}}}" if props else ""

    def _compared(self) -> list[str]:
        tests = []
        for i, (element, label) in enumerate(zip(self.elements, self.labels, strict=True)):
            for prop, column in element.props:
                if label is not None and self._apart(i, prop):
                    missing = self.indexes.incomplete
                    value = cypher.held(self.graph, label, self.names[i], prop, missing)
                    text = cypher.comparable(value, cypher.type_of(label, prop))
                    tests.append(f"{text} = {cypher.ROW}.{self.columns[column]}")
        return tests

    def _confined(self) -> list[str]:
        """The condition that a whole path is in the row's partition, or in one of several."""
        if self.query.partition is None:
            return []
        dynamic = self.first is not None or self.variable_path is not None
        own = "[$own]" if dynamic else f".{cypher.quoted(self.graph.partition)}"
        begin = f"{self.names[0]}{own}"
        wanted = begin if self.several else f"{cypher.ROW}.p0"
        tests = [f"{begin} IN {cypher.ROW}.p0"] if self.several else []
        if self.variable_path is not None:
            parts = (f"nodes({_PATH})", self.names[1])
            tests += [f"all(x IN {part} WHERE x{own} = {wanted})" for part in parts]
            return [*tests, *(f"{edge}{own} = {wanted}" for edge in self.names[3::2])]
        others = self.names[1:] if self.several else self.names
        return [*tests, *(f"{name}{own} = {wanted}" for name in others)]

    def _returned(self) -> list[str]:
        listed = []
        for element, label, name in zip(self.elements, self.labels, self.names, strict=True):
            if not element.var:
                continue
            if label is None:
                key = cypher.quoted(self.graph.key)
                edge = f"[x.{key}, type(x), startNode(x).{key}, endNode(x).{key}]"
                listed.append(f"[x IN {name} | {edge}] AS {name}")
                continue
            wanted = returned(self.graph, label, self.query.properties.get(element.var, ()))
            values = ", ".join(cypher.returned_as(self.graph, label, name, prop) for prop in wanted)
            listed.append(f"[{values}] AS {name}")
        return listed


def compile_scan(graph: Graph, query: ScanQuery, indexes: Indexes) -> ReadText:
    """The statement for a scan. Raises EngineError."""
    label, confined = graph.label(query.label), query.partitions is not None
    conditions = cypher.Conditions(graph, {"": label}, incomplete=indexes.incomplete)
    terms = conditions.read(query.where, "")
    own = f"h.{cypher.quoted(graph.partition)} IN ${cypher.LISTS}.partitions"
    tests = [own] if confined else []
    if terms:
        tests.append(conditions.text(terms, {"": "h"}))
    filtered = f" WHERE {' AND '.join(tests)}" if tests else ""
    wanted = returned(graph, label, query.properties, partition=True)
    listed = ", ".join(cypher.returned_as(graph, label, "h", name) for name in wanted)
    hint = indexes.hint("h", label.name, graph.partition) if confined else ""
    text = (
        f"MATCH {cypher.pattern_of(label, 'h')}{hint}{filtered}\n"
        f"RETURN [{listed}] AS hit ORDER BY h.{cypher.quoted(graph.key)}"
        + ("" if query.limit is None else f" LIMIT {int(query.limit)}")
    )
    return ReadText(text, conditions.bound)
