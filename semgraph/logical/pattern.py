"""The subset of openCypher patterns that `match` reads: one path of nodes and relationships.

>>> str(parse_pattern("(a:Person {uuid: uuid})-[r:KNOWS]-(b:Person)"))
'(a:Person {uuid: uuid})-[r:KNOWS]-(b:Person)'
>>> parse_pattern("(a {uuid: who})-[way:KNOWS|NAMES*1..3]->(b:Person)").trail
PatternTrail(var='way', labels=('KNOWS', 'NAMES'), direction='out', least=1, most=3)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from semgraph.errors import Fault

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_MAP = r"(?:\s*\{(?P<map>[^{}]*)\})?"
_NODE = re.compile(rf"\s*\(\s*(?P<var>{_NAME})?\s*(?::\s*(?P<label>{_NAME}))?{_MAP}\s*\)")
_LABELS = rf"{_NAME}(?:\s*\|\s*{_NAME})*"
_EDGE = re.compile(
    rf"\s*(?P<left><)?-\[\s*(?P<var>{_NAME})?\s*:\s*(?P<label>{_LABELS})\s*(?:\*(?P<length>[^\]{{}}]*))?{_MAP}\s*\]-(?P<right>>)?"
)
_LENGTH = re.compile(r"\s*(?:(?P<exact>\d+)|(?P<least>\d+)?\s*\.\.\s*(?P<most>\d+))\s*\Z")


Direction = Literal["out", "in", "any"]


@dataclass(frozen=True)
class PatternNode:
    """`(var:Label {property: column})`; `var` is "" when the plan names none, `label` too, at the end of a trail."""

    var: str
    label: str
    props: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        label = f":{self.label}" if self.label else ""
        return f"({f'{self.var}{label}{_show(self.props)}'.lstrip()})"


@dataclass(frozen=True)
class PatternEdge:
    """`-[var:TYPE]->`, `<-[...]-`, or `-[...]-` for either direction."""

    var: str
    label: str
    direction: Direction
    props: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return _arrow(self.direction, f"{self.var}:{self.label}{_show(self.props)}")


@dataclass(frozen=True)
class PatternTrail:
    """`-[var:A|B*1..3]->`: from `least` to `most` edges of these types, all in one direction, none twice.

    Of no edges, both its ends are one node.
    """

    var: str
    labels: tuple[str, ...]
    direction: Direction
    least: int
    most: int

    @property
    def props(self) -> tuple[tuple[str, str], ...]:
        """A trail has no property map."""
        return ()

    def __str__(self) -> str:
        return _arrow(self.direction, f"{self.var}:{'|'.join(self.labels)}*{self.least}..{self.most}")


Element = PatternNode | PatternEdge | PatternTrail


@dataclass(frozen=True)
class Pattern:
    """A path: n nodes and the n - 1 edges between them, of which the first may be a trail.

    Property maps name columns of the rows (dotted for struct fields).
    """

    nodes: tuple[PatternNode, ...]
    edges: tuple[PatternEdge | PatternTrail, ...] = ()

    def __str__(self) -> str:
        parts = [str(self.nodes[0])]
        for edge, node in zip(self.edges, self.nodes[1:], strict=True):
            parts += [str(edge), str(node)]
        return "".join(parts)

    @property
    def elements(self) -> tuple[Element, ...]:
        """Nodes and edges as they stand in the path."""
        found: list[Element] = [self.nodes[0]]
        for edge, node in zip(self.edges, self.nodes[1:], strict=True):
            found += [edge, node]
        return tuple(found)

    @property
    def variables(self) -> tuple[Element, ...]:
        """The named elements: what becomes a struct column, or of a trail a list of structs."""
        return tuple(element for element in self.elements if element.var)

    @property
    def fixed(self) -> tuple[PatternNode | PatternEdge, ...]:
        """The elements that are one node or one edge each: all but a trail."""
        return tuple(element for element in self.elements if not isinstance(element, PatternTrail))

    @property
    def trail(self) -> PatternTrail | None:
        """The trail that it begins with, if it does."""
        return next((edge for edge in self.edges if isinstance(edge, PatternTrail)), None)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows that property maps name."""
        return tuple(column for element in self.elements for _, column in element.props)


def _arrow(direction: Direction, inner: str) -> str:
    return f"{'<' if direction == 'in' else ''}-[{inner}]-{'>' if direction == 'out' else ''}"


def _show(props: tuple[tuple[str, str], ...]) -> str:
    return " {" + ", ".join(f"{p}: {c}" for p, c in props) + "}" if props else ""


def _props(text: str | None, pattern: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for part in (text or "").split(","):
        if not part.strip():
            continue
        prop, colon, column = (piece.strip() for piece in part.partition(":"))
        if not colon or not re.fullmatch(_NAME, prop) or not re.fullmatch(rf"{_NAME}(\.{_NAME})*", column):
            msg = f'pattern "{pattern}": cannot read "{part.strip()}"'
            raise Fault(msg, hint="a property map names columns: {uuid: uuid}")
        pairs.append((prop, column))
    return tuple(pairs)


def parse_pattern(text: str) -> Pattern:
    """Read a pattern. Raises Fault."""
    nodes: list[PatternNode] = []
    edges: list[PatternEdge | PatternTrail] = []
    position = 0
    while True:
        node = _NODE.match(text, position)
        if node is None:
            raise _unreadable(text, position, "a node: (name:Label {property: column})")
        nodes.append(PatternNode(node["var"] or "", node["label"] or "", _props(node["map"], text)))
        position = node.end()
        if not text[position:].strip():
            break
        edge = _EDGE.match(text, position)
        if edge is None or (edge["left"] and edge["right"]):
            raise _unreadable(text, position, "an edge: -[name:TYPE]->, <-[name:TYPE]- or -[name:TYPE]-")
        edges.append(_edge(edge, text))
        position = edge.end()
    found = Pattern(tuple(nodes), tuple(edges))
    names = [element.var for element in found.variables]
    if len(set(names)) < len(names):
        msg = f'pattern "{text}": a variable is used twice'
        raise Fault(msg, hint="give each node and edge its own name")
    if any(isinstance(edge, PatternTrail) for edge in edges[1:]):
        msg = f'pattern "{text}": only the first edge of a path may be a trail'
        raise Fault(msg, hint="write the path the other way round, or go on from its end with another match")
    must = nodes if found.trail is None else nodes[1:] if len(edges) > 1 else []
    if not all(node.label for node in must):
        free = "only the ends of a trail, -[:TYPE*1..3]-, may go without, the last where the path ends there"
        raise _unreadable(text, 0, f"labels: (name:Label); {free}")
    return found


def _edge(found: re.Match[str], text: str) -> PatternEdge | PatternTrail:
    direction: Direction = "in" if found["left"] else "out" if found["right"] else "any"
    labels = tuple(label.strip() for label in found["label"].split("|"))
    if found["length"] is None:
        if len(labels) > 1:
            raise Fault(f'pattern "{text}": an edge has one type', hint=f"or a length: {found['label']}*1..1")
        return PatternEdge(found["var"] or "", labels[0], direction, _props(found["map"], text))
    length = _LENGTH.match(found["length"])
    least, most = (int(length["exact"] or length[at] or 1) for at in ("least", "most")) if length else (1, 0)
    if least > most:
        msg = f'pattern "{text}": "*{found["length"]}" is no length'
        raise Fault(msg, hint="a trail has an end: *1..3")
    if found["map"]:
        raise Fault(f'pattern "{text}": a trail has no properties', hint="filter on its list: list_filter(name, ...)")
    return PatternTrail(found["var"] or "", tuple(dict.fromkeys(labels)), direction, least, most)


def _unreadable(text: str, position: int, expected: str) -> Fault:
    return Fault(f'pattern "{text}": cannot read "{text[position:].strip()}"', hint=f"expected {expected}")
