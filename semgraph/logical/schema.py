"""The schema of a graph: labels, properties, indexes, and properties derived from others.

A `Graph` is read from `graph.yaml` and is the same for every store. It is the only source of labels
and property names in queries, so values of rows never become part of a name, except where a label
is `open`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import ClassVar, Literal

import pyarrow as pa

from semgraph.errors import Fault, among, nearly
from semgraph.expr.canonical import canonical
from semgraph.expr.scalar import Scalar
from semgraph.expr.types import Type

NAME = re.compile(r"[^\W\d]\w*\Z")  # a name: letters of any script, digits and _; no digit first
PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*\Z")  # a column or a field of it


@dataclass(frozen=True)
class Derived:
    """A property that `merge` derives from another one, by a text function or by embedding."""

    tag: ClassVar[str] = "Derived"
    name: str
    by: Literal["embed"] | str  # noqa: PYI051 - the only value that is no text function
    of: str


@dataclass(frozen=True)
class Label:
    """A node label or an edge type.

    Rows may add what is `open`: `labels` (column `labels`, list<string>) and `attributes` (column
    `attributes`, json, stored as separate properties if the store supports this).
    """

    tag: ClassVar[str] = "Label"
    name: str  # in the store
    kind: Literal["node", "edge"]
    # key, partition and common properties first, derived text properties last, no vectors
    properties: Mapping[str, Type]
    derived: Mapping[str, Derived]  # vectors included
    fulltext: Mapping[str, tuple[str, ...]]  # properties, by name of the full-text index
    index: tuple[str, ...] = ()  # properties with a range index, besides key and partition
    open: frozenset[str] = frozenset()
    source: str = ""  # the label of an edge's source
    target: str = ""
    ignore: frozenset[str] = frozenset()  # properties of other programs, which are no attributes
    # the property or attribute with the keys of rows that were merged into a row
    aliases: str = field(default="", compare=False)

    @cached_property
    def vectors(self) -> Mapping[str, str]:
        """The vector properties, by the text property that each embeds."""
        return {d.of: d.name for d in self.derived.values() if d.by == "embed"}

    @property
    def ends(self) -> tuple[str, ...]:
        """The columns with the keys at the ends of an edge; nodes have none."""
        return ("source", "target") if self.kind == "edge" else ()

    @cached_property
    def columns(self) -> Mapping[str, Type]:
        """The columns that a hit can have: ends of an edge, open columns and properties; no vectors."""
        columns = {**self.properties, **dict.fromkeys(self.ends, Type("string"))}
        if "labels" in self.open:
            columns["labels"] = Type("list", item=Type("string"))
        if "attributes" in self.open:
            columns["attributes"] = Type("json")
        return columns


@dataclass(frozen=True)
class Draw:
    """The properties that a picture of the graph shows, if a label has them; "" shows none."""

    tag: ClassVar[str] = "Draw"
    node: str = ""  # the name of a node
    edge: str = ""  # the name of an edge, instead of its label
    text: str = ""  # the text of an edge
    start: str = ""  # the start of an edge's validity, `from` in `graph.yaml`
    end: str = ""  # its end, `to` in `graph.yaml`
    sources: str = ""  # a list of keys of the nodes from which an edge was learnt
    background: bool = False  # a picture hides the rows of the label until asked


@dataclass(frozen=True)
class Graph:
    """All labels of a graph, its key property and its partition property. `draw` defines what a
    picture shows, `draws` the exceptions for labels.
    """

    tag: ClassVar[str] = "Graph"
    name: str
    key: str
    partition: str
    labels: Mapping[str, Label]
    draw: Draw = field(default=Draw(), compare=False)
    draws: Mapping[str, Draw] = field(default_factory=dict, compare=False)

    def drawn(self, name: str) -> Draw:
        """What a picture shows of a label: its own choice, otherwise that of the graph. An edge at a
        background node is background.
        """
        own, label = self.draws.get(name, Draw()), self.labels[name]
        behind = any(
            self.draws.get(end, own).background for end in (name, label.source, label.target)
        )
        shown = {
            each.name: getattr(own, each.name) or getattr(self.draw, each.name)
            for each in fields(Draw)
        }
        props = {name: prop for name, prop in shown.items() if prop in label.properties}
        return Draw(**props, background=behind)

    @cached_property
    def canonical_text(self) -> str:
        """The canonical text, equal for equal graphs."""
        return canonical(
            {"name": self.name, "key": self.key, "partition": self.partition, "labels": self.labels}
        )

    def contains(self, other: Graph) -> bool:
        """Whether it has all labels of another graph, and the same key and partition."""
        return (other.key, other.partition) == (self.key, self.partition) and all(
            self.labels.get(name) == label for name, label in other.labels.items()
        )

    def label(self, name: str) -> Label:
        """A label by name. Raises Fault with the nearest name."""
        if name in self.labels:
            return self.labels[name]
        known = among(name, self.labels, "labels")
        raise Fault(f'graph "{self.name}" has no label "{name}"', **known)

    @property
    def nodes(self) -> tuple[Label, ...]:
        """The node labels, in declaration order."""
        return tuple(label for label in self.labels.values() if label.kind == "node")

    @property
    def edges(self) -> tuple[Label, ...]:
        """The edge types, in declaration order."""
        return tuple(label for label in self.labels.values() if label.kind == "edge")


def misspelt(label: Label, schema: pa.Schema, written: Mapping[str, Scalar]) -> Iterator[Fault]:
    """A fault for each column that looks like a misspelt property: nothing reads it, and an
    unwritten property has a similar name and the same type.

    A merge ignores columns that its label lacks, often on purpose (`position`, a column of a join).
    So only columns that look like typing errors are refused.
    """
    read = frozenset().union(*(scalar.roots for scalar in written.values()))
    lacking = {
        name: kind
        for name, kind in label.columns.items()
        if name not in {*written, *label.derived, *label.ends}
    }
    for column in schema:
        if column.name in read or column.name in written:
            continue
        for name, kind in lacking.items():
            if kind.arrow == column.type and nearly(column.name, name):
                yield Fault(
                    f'"{column.name}" is not a property of {label.name}, and nothing writes its "{name}"',
                    hint=f'name the column {name}, write set: {{{name}: {column.name}}}, or leave "{column.name}" out of '
                    "the rows, if it is another thing",
                )
