"""Operators that a store answers: `scan` and `match`; `search` is in `semgraph.logical.search`."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import ClassVar, Literal

import pyarrow as pa

from semgraph.errors import Fault, among, did_you_mean, faults_at
from semgraph.expr.canonical import canonical
from semgraph.expr.scalar import Scalar, conjunction
from semgraph.expr.types import type_of_arrow
from semgraph.logical import node as core
from semgraph.logical.schema import Graph, Label
from semgraph.logical.semantic import VECTOR

_NAME = r"[^\W\d]\w*"
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
    """`(var:Label {property: column})`. `var` is "" if the plan names none; so is `label`, which is
    optional at the end of a variable-length path.
    """

    tag: ClassVar[str] = "PatternNode"
    var: str
    label: str
    props: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        label = f":{self.label}" if self.label else ""
        return f"({f'{self.var}{label}{_show(self.props)}'.lstrip()})"


@dataclass(frozen=True)
class PatternEdge:
    """`-[var:TYPE]->`, `<-[...]-`, or `-[...]-` for either direction."""

    tag: ClassVar[str] = "PatternEdge"
    var: str
    label: str
    direction: Direction
    props: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return _arrow(self.direction, f"{self.var}:{self.label}{_show(self.props)}")


@dataclass(frozen=True)
class PatternPath:
    """`-[var:A|B*1..3]->`: from `least` to `most` edges of these types, all in one direction and
    distinct.

    Both ends of a path without edges are the same node.
    """

    tag: ClassVar[str] = "PatternTrail"
    var: str
    labels: tuple[str, ...]
    direction: Direction
    least: int
    most: int

    @property
    def props(self) -> tuple[tuple[str, str], ...]:
        """A variable-length path has no property map."""
        return ()

    def __str__(self) -> str:
        return _arrow(
            self.direction, f"{self.var}:{'|'.join(self.labels)}*{self.least}..{self.most}"
        )


Element = PatternNode | PatternEdge | PatternPath


@dataclass(frozen=True)
class Pattern:
    """A path: n nodes and the n - 1 edges between them. The first edge may be a variable-length path.

    Property maps name columns of the rows (dotted for struct fields).
    """

    tag: ClassVar[str] = "Pattern"
    nodes: tuple[PatternNode, ...]
    edges: tuple[PatternEdge | PatternPath, ...] = ()

    def __str__(self) -> str:
        parts = [str(self.nodes[0])]
        for edge, node in zip(self.edges, self.nodes[1:], strict=True):
            parts += [str(edge), str(node)]
        return "".join(parts)

    @property
    def elements(self) -> tuple[Element, ...]:
        """Nodes and edges in the order of the path."""
        elements: list[Element] = [self.nodes[0]]
        for edge, node in zip(self.edges, self.nodes[1:], strict=True):
            elements += [edge, node]
        return tuple(elements)

    @property
    def variables(self) -> tuple[Element, ...]:
        """The named elements, which become struct columns; a path becomes a list of structs."""
        return tuple(element for element in self.elements if element.var)

    @property
    def fixed(self) -> tuple[PatternNode | PatternEdge, ...]:
        """The elements that stand for one node or one edge."""
        return tuple(element for element in self.elements if not isinstance(element, PatternPath))

    @property
    def variable_path(self) -> PatternPath | None:
        """The variable-length path at its beginning, or None."""
        return next((edge for edge in self.edges if isinstance(edge, PatternPath)), None)

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
        if (
            not colon
            or not re.fullmatch(_NAME, prop)
            or not re.fullmatch(rf"{_NAME}(\.{_NAME})*", column)
        ):
            msg = f'pattern "{pattern}": cannot read "{part.strip()}"'
            raise Fault(msg, hint="a property map names columns: {uuid: uuid}")
        pairs.append((prop, column))
    return tuple(pairs)


def parse_pattern(text: str) -> Pattern:
    """Read a pattern. Raises Fault."""
    nodes: list[PatternNode] = []
    edges: list[PatternEdge | PatternPath] = []
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
            raise _unreadable(
                text, position, "an edge: -[name:TYPE]->, <-[name:TYPE]- or -[name:TYPE]-"
            )
        edges.append(_edge(edge, text))
        position = edge.end()
    pattern = Pattern(tuple(nodes), tuple(edges))
    names = [element.var for element in pattern.variables]
    if len(set(names)) < len(names):
        msg = f'pattern "{text}": a variable is used twice'
        raise Fault(msg, hint="give each node and edge its own name")
    if any(isinstance(edge, PatternPath) for edge in edges[1:]):
        msg = f'pattern "{text}": only the first edge may have a variable length'
        raise Fault(
            msg, hint="write the path the other way round, or go on from its end with another match"
        )
    must = nodes if pattern.variable_path is None else nodes[1:] if len(edges) > 1 else []
    if not all(node.label for node in must):
        free = "only the ends of a variable-length path, -[:TYPE*1..3]-, may lack one, the last if the pattern ends there"
        raise _unreadable(text, 0, f"labels: (name:Label); {free}")
    return pattern


def _edge(match: re.Match[str], text: str) -> PatternEdge | PatternPath:
    direction: Direction = "in" if match["left"] else "out" if match["right"] else "any"
    labels = tuple(label.strip() for label in match["label"].split("|"))
    if match["length"] is None:
        if len(labels) > 1:
            raise Fault(
                f'pattern "{text}": an edge has one type',
                hint=f"or a length: {match['label']}*1..1",
            )
        return PatternEdge(match["var"] or "", labels[0], direction, _props(match["map"], text))
    length = _LENGTH.match(match["length"])
    least, most = (
        (int(length["exact"] or length[at] or 1) for at in ("least", "most")) if length else (1, 0)
    )
    if least > most:
        msg = f'pattern "{text}": "*{match["length"]}" is not a length'
        raise Fault(msg, hint="give an upper bound: *1..3")
    if match["map"]:
        raise Fault(
            f'pattern "{text}": a variable-length path has no properties',
            hint="filter on its list: list_filter(name, ...)",
        )
    return PatternPath(match["var"] or "", tuple(dict.fromkeys(labels)), direction, least, most)


def _unreadable(text: str, position: int, expected: str) -> Fault:
    return Fault(
        f'pattern "{text}": cannot read "{text[position:].strip()}"', hint=f"expected {expected}"
    )


def step_type(graph: Graph) -> pa.StructType:
    """The type of an edge in a variable-length path."""
    return pa.struct([(name, pa.string()) for name in (graph.key, "label", "source", "target")])


def path_ends(
    graph: Graph, pattern: Pattern, path: PatternPath
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The possible labels of both ends of a variable-length path. Raises Fault."""
    types = [graph.label(name) for name in path.labels]
    out, back = (
        tuple(dict.fromkeys(ends))
        for ends in zip(*((t.source, t.target) for t in types), strict=True)
    )
    either = tuple(dict.fromkeys((*out, *back)))
    first, last = {"out": (out, back), "in": (back, out), "any": (either, either)}[path.direction]
    left, right = pattern.nodes[:2]
    return (left.label,) if left.label else first, (right.label,) if right.label else last


def elements_of(graph: Graph, pattern: Pattern) -> list[tuple[Element, Label | None]]:
    """The elements of a path, each with its label; None for a variable-length path. Raises Fault
    for an unknown name.

    A node with several possible labels has the common properties of these: same name and type.
    """
    if pattern.variable_path is None:
        return [(element, graph.label(element.label)) for element in pattern.fixed]
    first, last = (
        _common(graph, names) for names in path_ends(graph, pattern, pattern.variable_path)
    )
    onward = [graph.label(element.label) for element in pattern.fixed[2:]]
    return list(zip(pattern.elements, (first, None, last, *onward), strict=True))


def _common(graph: Graph, names: tuple[str, ...]) -> Label:
    first, *others = (graph.label(name) for name in names)
    if not others:
        return first
    shared = {
        n: kind
        for n, kind in first.properties.items()
        if all(o.properties.get(n) == kind for o in others)
    }
    return Label("|".join(names), "node", shared, derived={}, fulltext={})


How = Literal["inner", "left"]


def hit_fields(
    label: Label, graph: Graph, properties: tuple[str, ...] | None
) -> dict[str, pa.DataType]:
    """The fields of a stored row: key, ends of an edge, and the properties to read (None: all)."""
    columns = label.columns
    always = (graph.key, *label.ends)
    wanted = columns if properties is None else dict.fromkeys((*always, *properties))
    return {name: columns[name].arrow for name in wanted}


@dataclass(frozen=True, eq=False, kw_only=True)
class StoreRead(core.Node, reads_store=True):
    """A read of the store: the graph, and the partitions that it reads.

    By default a row reads its own partition. `partition` names a column with a list of partitions,
    or is `all`.
    """

    graph: Graph = field(metadata={"kind": "graph"}, repr=False)

    def check_partition(self, schema: pa.Schema, partition: str) -> None:
        """Refuse a lateral read of rows without a partition."""
        if partition == "all":
            return
        name = partition or self.graph.partition
        if name not in schema.names:
            msg = f'a read needs the row\'s partition, but there is no column "{name}"'
            there = "columns here: " + ", ".join(schema.names)
            raise Fault(msg, there=there, hint=f"carry {name} along, or write partition: all")
        kind = schema.field(name).type
        if kind not in (pa.string(), pa.list_(pa.string())):
            hint = "a partition is a string or a list<string>"
            raise Fault(f'"{name}" is {type_of_arrow(kind)}', hint=hint)


@dataclass(frozen=True, eq=False, kw_only=True)
class Scan(StoreRead, keyword="scan", sole="label"):
    """The stored rows of a label. Each window reads the rows of its own partition; `partition: all`
    reads the rows of all partitions.

    `limit`, set by a limit above, is the number of rows that are needed, the first by key; the scan
    may return more.
    """

    label: str = core.argument("label")
    partition: str = core.argument("name", default="")
    properties: tuple[str, ...] | None = None
    where: tuple[Scalar, ...] = ()
    limit: int | None = None

    def infer(self) -> pa.Schema:
        fields = hit_fields(self.graph.label(self.label), self.graph, self.properties)
        return pa.schema(list(fields.items()))

    @property
    def label_reads(self) -> frozenset[core.LabelRead]:
        return frozenset((self.label, name) for name in self.schema.names)

    @cached_property
    def windowed(self) -> bool:
        """Whether each window reads the rows of its partition."""
        return self.partition != "all"

    @cached_property
    def fingerprint(self) -> str:
        """The fingerprint of a node, with the pushed-down filter and limit."""
        own = super().fingerprint
        if self.limit is not None:
            own += f"limit={self.limit}"
        if not self.where:
            return own
        return hashlib.sha256(f"{own}{canonical(self.where)}".encode()).hexdigest()

    def narrowed(self, needed: frozenset[str]) -> core.Node:
        own = core.roots_of(needed).union(*(scalar.roots for scalar in self.where))
        names = (name for name in self.graph.label(self.label).columns if name in own)
        return self.with_fields(properties=tuple(names))

    def take_filter(self, where: Scalar) -> core.Node | None:
        return replace(self, where=(*self.where, where)) if self.limit is None else None


@dataclass(frozen=True, eq=False, kw_only=True)
class Match(StoreRead, keyword="match", rows="expand", carries=True):
    """A row for each path of the store that matches the pattern, for each input row. The pattern's
    variables become struct columns; a path of variable length becomes a list.
    """

    input: core.Node = core.argument("input")
    pattern: Pattern = core.argument("pattern")
    where: Scalar | None = core.argument("scalar", default=None)
    how: How = core.argument("choice", choices=("inner", "left"), default="inner")
    partition: str = core.argument("name", default="")
    vectors: tuple[str, ...] = core.argument("names", default=())
    properties: tuple[tuple[str, tuple[str, ...] | None], ...] = ()

    def infer(self) -> pa.Schema:
        schema = self.input.schema
        self.check_partition(schema, self.partition)
        result = schema
        with faults_at("pattern"):
            self._check_kinds()
            for element, label in elements_of(self.graph, self.pattern):
                for prop, column in element.props:
                    columns = label.columns if label else {}
                    if label is None or prop not in columns:
                        where = label.name if label else "a variable-length path"
                        hint = did_you_mean(prop, columns)
                        raise Fault(f'{where} has no property "{prop}"', hint=hint)
                    core.typed(((prop, core.column_scalar(column)),), schema, prop)
                if element.var:
                    core.fresh(result, element.var, "variable")
                    result = result.append(pa.field(element.var, self._kind_of(element.var, label)))
        self._check_vectors()
        core.check_condition(self.where, result)
        return result

    def _kind_of(self, var: str, label: Label | None) -> pa.DataType:
        if label is None:
            return pa.list_(step_type(self.graph))
        return pa.struct(list(self.fields_of(var, label).items()))

    @property
    def labelled(self) -> list[tuple[str, Label]]:
        """The variables that stand for a node or an edge, with their labels."""
        elements = elements_of(self.graph, self.pattern)
        return [
            (element.var, label) for element, label in elements if element.var and label is not None
        ]

    def fields_of(self, var: str, label: Label) -> dict[str, pa.DataType]:
        """The fields of a variable: those that are read if known, otherwise all; and vectors."""
        fields = hit_fields(label, self.graph, dict(self.properties).get(var))
        return fields | dict.fromkeys(self.vectors_of(label), VECTOR)

    def vectors_of(self, label: Label) -> tuple[str, ...]:
        """The stored vectors in a variable of a label."""
        return tuple(name for name in self.vectors if name in label.vectors.values())

    def _check_vectors(self) -> None:
        known = [name for _, label in self.labelled for name in label.vectors.values()]
        for name in self.vectors:
            if name not in known:
                what = f'no variable has a vector "{name}"'
                raise Fault(what, "vectors", **among(name, known, "vectors here"))

    def _check_kinds(self) -> None:
        for element in self.pattern.elements:
            kind = "node" if isinstance(element, PatternNode) else "edge"
            for name in _names(element):
                label = self.graph.label(name)
                if label.kind != kind:
                    raise Fault(f'"{name}" is declared as {label.kind} and used as {kind}')

    @property
    def reads(self) -> frozenset[str]:
        own = core.roots_of(self.pattern.columns)
        if self.where is not None:
            own |= self.where.roots - self.output_columns
        return own if self.partition == "all" else own | {self.partition or self.graph.partition}

    @property
    def label_reads(self) -> frozenset[core.LabelRead]:
        names = [name for element in self.pattern.elements for name in _names(element)]
        if self.pattern.variable_path is not None:
            names += chain(*path_ends(self.graph, self.pattern, self.pattern.variable_path))
        labels = map(self.graph.label, names)
        return frozenset((label.name, name) for label in labels for name in label.columns)

    def narrowed(self, needed: frozenset[str]) -> core.Node:
        wanted = needed | (self.where.fields if self.where is not None else frozenset())
        properties, vectors = list[tuple[str, tuple[str, ...] | None]](), set[str]()
        for var, label in self.labelled:
            fields = core.under(wanted, var)
            if fields is None:
                properties.append((var, None))
                vectors |= {*self.vectors_of(label)}
            else:
                roots = core.roots_of(fields)
                properties.append((var, tuple(n for n in label.columns if n in roots)))
                vectors |= roots.intersection(self.vectors_of(label))
        stored = tuple(n for n in self.vectors if n in vectors)
        return self.with_fields(properties=tuple(properties), vectors=stored)

    def take_filter(self, where: Scalar) -> core.Node | None:
        if self.how == "left":
            return None
        both = where if self.where is None else conjunction((self.where, where))
        return replace(self, where=both)


def _names(element: Element) -> tuple[str, ...]:
    """The labels that a pattern names for an element."""
    if isinstance(element, PatternPath):
        return element.labels
    return (element.label,) if element.label else ()
