"""Operators that a store answers: `scan` and `match`; `search` is in `semgraph.logical.search`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal

import pyarrow as pa

from semgraph.errors import Fault, did_you_mean
from semgraph.expr.canonical import canonical
from semgraph.expr.places import expect_type
from semgraph.expr.scalar import Scalar, conjunction
from semgraph.expr.types import type_of_arrow
from semgraph.logical.checks import column_scalar, fresh, typed
from semgraph.logical.embed import VECTOR
from semgraph.logical.node import LabelRead, Node, RowsTrait, argument, under
from semgraph.logical.pattern import Element, Pattern, PatternNode, PatternTrail
from semgraph.logical.schema import Graph, Label
from semgraph.logical.trails import elements_of, step_type, trail_ends

How = Literal["inner", "left"]


def hit_fields(label: Label, graph: Graph, properties: tuple[str, ...] | None) -> dict[str, pa.DataType]:
    """What a stored row brings: its key, an edge's ends, and the properties that are read (None: all)."""
    columns = label.columns
    always = [graph.key, *(("source", "target") if label.kind == "edge" else ())]
    wanted = columns if properties is None else dict.fromkeys((*always, *properties))
    return {name: columns[name].arrow for name in wanted}


@dataclass(frozen=True, eq=False, kw_only=True)
class Reading(Node):
    """What all store reads have in common: the graph, and whose rows they may see.

    A row sees its own partition only. `partition` names a column with a list of others, or says `all`.
    """

    calls_store: ClassVar[bool] = True
    graph: Graph = field(metadata={"kind": "graph"}, repr=False)

    def check_partition(self, schema: pa.Schema, partition: str) -> None:
        """Refuse a lateral read whose rows do not say whose they are."""
        if partition == "all":
            return
        name = partition or self.graph.partition
        if name not in schema.names:
            msg = f'a read is confined to the row\'s partition, and there is no column "{name}"'
            there = "columns here: " + ", ".join(schema.names)
            raise Fault(msg, there=there, hint=f"carry {name} along, or say partition: all")
        kind = schema.field(name).type
        if kind not in (pa.string(), pa.list_(pa.string())):
            raise Fault(f'"{name}" is {type_of_arrow(kind)}', hint="a partition is a string or a list<string>")


@dataclass(frozen=True, eq=False, kw_only=True)
class Scan(Reading):
    """The stored rows of a label: each window sees those of its own partition; with `partition: all` those of all.

    Of `limit` rows, the first by key, a limit above needs no more; there may be more than these.
    """

    keyword: ClassVar[str] = "scan"
    sole: ClassVar[str] = "label"
    label: str = argument("label")
    partition: str = argument("name", default="")
    properties: tuple[str, ...] | None = None
    where: tuple[Scalar, ...] = ()
    limit: int | None = None

    def infer(self) -> pa.Schema:
        fields = hit_fields(self.graph.label(self.label), self.graph, self.properties)
        return pa.schema(list(fields.items()))

    @property
    def label_reads(self) -> frozenset[LabelRead]:
        return frozenset((self.label, name) for name in self.schema.names)

    @cached_property
    def partitioned(self) -> bool:
        """Whether its rows are those of a window's own partition."""
        return self.partition != "all"

    @cached_property
    def fingerprint(self) -> str:
        """As of every node; what was pushed into it tells it from others."""
        own = super().fingerprint
        if self.limit is not None:
            own += f"limit={self.limit}"
        return hashlib.sha256(f"{own}{canonical(self.where)}".encode()).hexdigest() if self.where else own

    def narrowed(self, needed: frozenset[str]) -> Node:
        own = {path.split(".")[0] for path in needed} | frozenset().union(*(s.roots for s in self.where))
        return replace(self, properties=tuple(n for n in self.graph.label(self.label).columns if n in own))

    def take_filter(self, where: Scalar) -> Node | None:
        return replace(self, where=(*self.where, where)) if self.limit is None else None


@dataclass(frozen=True, eq=False, kw_only=True)
class Match(Reading):
    """Lateral pattern match: a row for each path; the pattern's variables become struct columns, that of a trail a list."""

    keyword: ClassVar[str] = "match"
    rows: ClassVar[RowsTrait] = "expand"
    carries: ClassVar[bool] = True
    input: Node = argument("input")
    pattern: Pattern = argument("pattern")
    where: Scalar | None = argument("scalar", default=None)
    how: How = argument("choice", choices=("inner", "left"), default="inner")
    partition: str = argument("name", default="")
    vectors: tuple[str, ...] = argument("names", default=())
    properties: tuple[tuple[str, tuple[str, ...] | None], ...] = ()

    def infer(self) -> pa.Schema:
        schema = self.input.schema
        self.check_partition(schema, self.partition)
        found = schema
        with self.check("pattern"):
            self._check_kinds()
            for element, label in elements_of(self.graph, self.pattern):
                for prop, column in element.props:
                    columns = label.columns if label else {}
                    if label is None or prop not in columns:
                        where = label.name if label else "a trail"
                        raise Fault(f'{where} has no property "{prop}"', hint=did_you_mean(prop, columns))
                    typed(((prop, column_scalar(column)),), schema, prop)
                if element.var:
                    fresh(found, element.var, "variable")
                    found = found.append(pa.field(element.var, self._brought(element.var, label)))
        self._check_vectors()
        if self.where is not None:
            with self.check("where"):
                expect_type(self.where, found, pa.bool_(), windows=False)
        return found

    def _brought(self, var: str, label: Label | None) -> pa.DataType:
        if label is None:
            return pa.list_(step_type(self.graph))
        return pa.struct(list(self.brought(var, label).items()))

    @property
    def labelled(self) -> list[tuple[str, Label]]:
        """The variables that stand for a node or an edge, with their labels."""
        elements = elements_of(self.graph, self.pattern)
        return [(element.var, label) for element, label in elements if element.var and label is not None]

    def brought(self, var: str, label: Label) -> dict[str, pa.DataType]:
        """What a variable of a label brings: what is read of it, where that is known, else all; and vectors."""
        fields = hit_fields(label, self.graph, dict(self.properties).get(var))
        return fields | dict.fromkeys(self.vectors_of(label), VECTOR)

    def vectors_of(self, label: Label) -> tuple[str, ...]:
        """The stored vectors that a variable of a label brings."""
        return tuple(name for name in self.vectors if name in label.vectors.values())

    def _check_vectors(self) -> None:
        known = [name for _, label in self.labelled for name in label.vectors.values()]
        for name in self.vectors:
            if name not in known:
                there = "vectors here: " + (", ".join(known) or "none")
                raise Fault(
                    f'no variable has a vector "{name}"', "vectors", there=there, hint=did_you_mean(name, known)
                )

    def _check_kinds(self) -> None:
        for element in self.pattern.elements:
            kind = "node" if isinstance(element, PatternNode) else "edge"
            for name in _names(element):
                label = self.graph.label(name)
                if label.kind != kind:
                    raise Fault(f'"{name}" is declared as {label.kind} and used as {kind}')

    @property
    def adds(self) -> frozenset[str]:
        return frozenset(element.var for element in self.pattern.variables)

    @property
    def reads(self) -> frozenset[str]:
        own = frozenset(column.split(".")[0] for column in self.pattern.columns)
        where = self.where.roots - self.adds if self.where else frozenset()
        partition = {self.partition or self.graph.partition} if self.partition != "all" else frozenset()
        return own | where | partition

    @property
    def label_reads(self) -> frozenset[LabelRead]:
        labels = [self.graph.label(name) for element in self.pattern.elements for name in _names(element)]
        if self.pattern.trail is not None:
            labels += [
                self.graph.label(name)
                for ends in trail_ends(self.graph, self.pattern, self.pattern.trail)
                for name in ends
            ]
        return frozenset((label.name, name) for label in labels for name in label.columns)

    def narrowed(self, needed: frozenset[str]) -> Node:
        wanted = needed | (self.where.fields if self.where is not None else frozenset())
        properties, vectors = [], set[str]()
        for var, label in self.labelled:
            fields = under(wanted, var)
            roots = None if fields is None else {f.split(".")[0] for f in fields}
            properties.append((var, None if roots is None else tuple(n for n in label.columns if n in roots)))
            vectors |= {n for n in self.vectors_of(label) if roots is None or n in roots}
        kept = tuple(n for n in self.vectors if n in vectors)
        return replace(self, properties=tuple(properties), vectors=kept)

    def take_filter(self, where: Scalar) -> Node | None:
        if self.how == "left":
            return None
        both = where if self.where is None else conjunction((self.where, where))
        return replace(self, where=both)


def _names(element: Element) -> tuple[str, ...]:
    """The labels that a pattern names for an element."""
    if isinstance(element, PatternTrail):
        return element.labels
    return (element.label,) if element.label else ()
