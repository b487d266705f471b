"""Matches and scans in Cypher."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from semgraph.expr import Scalar
from semgraph.logical.pattern import PatternEdge, PatternNode
from semgraph.logical.schema import Graph, Label
from semgraph.stores.base import MatchQuery
from semgraph.stores.cypher.hits import Indexes
from semgraph.stores.cypher.terms import ROW, Bound, Conditions, quoted, stored
from semgraph.stores.rows import returned


@dataclass(frozen=True)
class MatchText:
    """A statement for a pattern, whatever the rows.

    Args:
        text: Reads `$rows`; returns the ordinal, then a list of properties for each variable.
        bound: Values of its conjuncts.
        columns: Row fields by the column of the rows that a property map names.
    """

    text: str
    bound: Bound
    columns: Mapping[str, str]


def compile_match(graph: Graph, query: MatchQuery, indexes: Indexes, *, several: bool) -> MatchText:
    """The statement for a pattern; `several`: the partition column holds lists. Raises EngineError."""
    elements = query.pattern.elements
    names = {id(element): f"e{i}" for i, element in enumerate(elements)}
    labels = {element.var: graph.label(element.label) for element in query.pattern.variables}
    conditions = Conditions(graph, labels)
    terms = conditions.read(query.where, None)
    columns = {column: f"c{i}" for i, column in enumerate(dict.fromkeys(query.pattern.columns))}
    tests = _confined(graph, list(names.values()), query.partition, several=several)
    if terms:
        tests.append(conditions.text(terms, {element.var: names[id(element)] for element in query.pattern.variables}))
    path = "".join(_element(element, names[id(element)], columns) for element in elements)
    wanted = {var: tuple(returned(graph, label, query.properties.get(var, ()))) for var, label in labels.items()}
    listed = [_listed(graph, labels[e.var], names[id(e)], wanted[e.var]) for e in query.pattern.variables]
    where = f"\nWHERE {' AND '.join(tests)}" if tests else ""
    hint = _hint(graph, elements, names, indexes)
    text = f"UNWIND $rows AS {ROW}\nMATCH {path}{hint}{where}\nRETURN {', '.join([f'{ROW}._q AS q', *listed])}"
    return MatchText(text, conditions.bound, columns)


def _confined(graph: Graph, names: Sequence[str], partition: str | None, *, several: bool) -> list[str]:
    if partition is None:
        return []
    own = quoted(graph.partition)
    first = f"{names[0]}.{own} {'IN' if several else '='} {ROW}.p0"
    if not several:
        return [f"{name}.{own} = {ROW}.p0" for name in names]
    return [first, *(f"{name}.{own} = {names[0]}.{own}" for name in names[1:])]


def _hint(
    graph: Graph, elements: Sequence[PatternNode | PatternEdge], names: Mapping[int, str], indexes: Indexes
) -> str:
    """Begin where a key is given, else where another indexed property is."""
    given = [(element, prop) for element in elements for prop, _ in element.props]
    given.sort(key=lambda pair: pair[1] != graph.key)
    hints = (indexes.hint(names[id(element)], element.label, prop) for element, prop in given)
    return next((hint for hint in hints if hint), "")


def _element(element: PatternNode | PatternEdge, name: str, columns: Mapping[str, str]) -> str:
    props = ", ".join(f"{quoted(prop)}: {ROW}.{columns[column]}" for prop, column in element.props)
    inner = f"{name}:{quoted(element.label)}" + (f" {{{props}}}" if props else "")
    if isinstance(element, PatternNode):
        return f"({inner})"
    left, right = {"out": ("-", "->"), "in": ("<-", "-"), "any": ("-", "-")}[element.direction]
    return f"{left}[{inner}]{right}"


def _listed(graph: Graph, label: Label, name: str, properties: Sequence[str]) -> str:
    return f"[{', '.join(stored(graph, label, name, prop) for prop in properties)}] AS {name}"


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
    conditions = Conditions(graph, {"": label})
    terms = conditions.read(where, "")
    wanted = tuple(returned(graph, label, properties, partition=True))
    pattern = f"(h:{quoted(label.name)})" if label.kind == "node" else f"()-[h:{quoted(label.name)}]->()"
    tests = [f"h.{quoted(graph.partition)} IN $partitions"] if confined else []
    if terms:
        tests.append(conditions.text(terms, {"": "h"}))
    filtered = f" WHERE {' AND '.join(tests)}" if tests else ""
    listed = ", ".join(stored(graph, label, "h", name) for name in wanted)
    hint = indexes.hint("h", label.name, graph.partition) if confined else ""
    text = f"MATCH {pattern}{hint}{filtered}\nRETURN [{listed}] AS hit ORDER BY h.{quoted(graph.key)}"
    return ScanText(text, conditions.bound)
