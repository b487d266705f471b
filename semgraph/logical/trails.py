"""What the elements of a pattern are in a graph: their labels, and what their variables bring."""

from __future__ import annotations

import pyarrow as pa

from semgraph.logical.pattern import Element, Pattern, PatternTrail
from semgraph.logical.schema import Graph, Label


def step_type(graph: Graph) -> pa.StructType:
    """What is told of each edge of a trail."""
    return pa.struct([(name, pa.string()) for name in (graph.key, "label", "source", "target")])


def trail_ends(graph: Graph, pattern: Pattern, trail: PatternTrail) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The labels that the two nodes around a trail can have. Raises Fault for an edge type that is not there."""
    types = [graph.label(name) for name in trail.labels]
    out, back = (tuple(dict.fromkeys(ends)) for ends in zip(*((t.source, t.target) for t in types), strict=True))
    either = tuple(dict.fromkeys((*out, *back)))
    first, last = {"out": (out, back), "in": (back, out), "any": (either, either)}[trail.direction]
    left, right = pattern.nodes[:2]
    return (left.label,) if left.label else first, (right.label,) if right.label else last


def elements_of(graph: Graph, pattern: Pattern) -> list[tuple[Element, Label | None]]:
    """The elements of a path, each with its label; None for a trail. Raises Fault for a name that is not there.

    A node that can have several labels has what they have in common: properties of the same name and type.
    """
    if pattern.trail is None:
        return [(element, graph.label(element.label)) for element in pattern.fixed]
    first, last = (_common(graph, names) for names in trail_ends(graph, pattern, pattern.trail))
    onward = [graph.label(element.label) for element in pattern.fixed[2:]]
    return list(zip(pattern.elements, (first, None, last, *onward), strict=True))


def _common(graph: Graph, names: tuple[str, ...]) -> Label:
    first, *others = (graph.label(name) for name in names)
    if not others:
        return first
    shared = {n: kind for n, kind in first.properties.items() if all(o.properties.get(n) == kind for o in others)}
    return Label("|".join(names), "node", shared, derived={}, fulltext={})
