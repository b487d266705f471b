"""The subset of openCypher patterns that `match` reads: one path of nodes and relationships.

>>> str(parse_pattern("(a:Person {uuid: uuid})-[r:KNOWS]-(b:Person)"))
'(a:Person {uuid: uuid})-[r:KNOWS]-(b:Person)'
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from semgraph.errors import Fault

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_MAP = r"(?:\s*\{(?P<map>[^{}]*)\})?"
_NODE = re.compile(rf"\s*\(\s*(?P<var>{_NAME})?\s*(?::\s*(?P<label>{_NAME}))?{_MAP}\s*\)")
_EDGE = re.compile(rf"\s*(?P<left><)?-\[\s*(?P<var>{_NAME})?\s*:\s*(?P<label>{_NAME}){_MAP}\s*\]-(?P<right>>)?")


@dataclass(frozen=True)
class PatternNode:
    """`(var:Label {property: column})`; `var` is "" when the plan names none."""

    var: str
    label: str
    props: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"({self.var}:{self.label}{_show(self.props)})"


@dataclass(frozen=True)
class PatternEdge:
    """`-[var:TYPE]->`, `<-[...]-`, or `-[...]-` for either direction."""

    var: str
    label: str
    direction: Literal["out", "in", "any"]
    props: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        left = "<" if self.direction == "in" else ""
        right = ">" if self.direction == "out" else ""
        return f"{left}-[{self.var}:{self.label}{_show(self.props)}]-{right}"


@dataclass(frozen=True)
class Pattern:
    """A path: n nodes and the n - 1 edges between them. Property maps name columns of the rows (dotted for struct fields)."""

    nodes: tuple[PatternNode, ...]
    edges: tuple[PatternEdge, ...] = ()

    def __str__(self) -> str:
        parts = [str(self.nodes[0])]
        for edge, node in zip(self.edges, self.nodes[1:], strict=True):
            parts += [str(edge), str(node)]
        return "".join(parts)

    @property
    def elements(self) -> tuple[PatternNode | PatternEdge, ...]:
        """Nodes and edges as they stand in the path."""
        found: list[PatternNode | PatternEdge] = [self.nodes[0]]
        for edge, node in zip(self.edges, self.nodes[1:], strict=True):
            found += [edge, node]
        return tuple(found)

    @property
    def variables(self) -> tuple[PatternNode | PatternEdge, ...]:
        """The named elements: what becomes a struct column."""
        return tuple(element for element in self.elements if element.var)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the rows that property maps name."""
        return tuple(column for element in self.elements for _, column in element.props)


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
    edges: list[PatternEdge] = []
    position = 0
    while True:
        node = _NODE.match(text, position)
        if node is None or not node["label"]:
            raise _unreadable(text, position, "a node: (name:Label {property: column})")
        nodes.append(PatternNode(node["var"] or "", node["label"], _props(node["map"], text)))
        position = node.end()
        if not text[position:].strip():
            break
        edge = _EDGE.match(text, position)
        if edge is None or (edge["left"] and edge["right"]):
            raise _unreadable(text, position, "an edge: -[name:TYPE]->, <-[name:TYPE]- or -[name:TYPE]-")
        direction: Literal["out", "in", "any"] = "in" if edge["left"] else "out" if edge["right"] else "any"
        edges.append(PatternEdge(edge["var"] or "", edge["label"], direction, _props(edge["map"], text)))
        position = edge.end()
    found = Pattern(tuple(nodes), tuple(edges))
    names = [element.var for element in found.variables]
    if len(set(names)) < len(names):
        msg = f'pattern "{text}": a variable is used twice'
        raise Fault(msg, hint="give each node and edge its own name")
    return found


def _unreadable(text: str, position: int, expected: str) -> Fault:
    return Fault(f'pattern "{text}": cannot read "{text[position:].strip()}"', hint=f"expected {expected}")
