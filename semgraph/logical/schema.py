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
    """A property that `merge` derives from another property, by a text function (`key(name)`) or by
    embedding.
    """

    tag: ClassVar[str] = "Derived"
    name: str
    by: Literal["embed"] | str  # noqa: PYI051 - the only value that is no text function
    of: str


@dataclass(frozen=True)
class Label:
    """A node label or an edge type.

    Args:
        name: The name in the store.
        kind: `node` or `edge`.
        properties: Types by name: key, partition and common properties first, derived text
            properties last, no vectors.
        derived: Derived properties by name, vectors included.
        fulltext: Properties by name of the full-text index.
        index: Properties with a range index, in addition to key and partition.
        open: The extensions that rows may add: `labels` (column `labels`, list<string>) and
            `attributes` (column `attributes`, json, stored as separate properties if the store
            supports this).
        source: Label of an edge's source.
        target: Label of an edge's target.
        ignore: Properties that other programs store with such rows; they are no attributes.
        aliases: The property or attribute with the keys of rows that were merged into a row.
    """

    tag: ClassVar[str] = "Label"
    name: str
    kind: Literal["node", "edge"]
    properties: Mapping[str, Type]
    derived: Mapping[str, Derived]
    fulltext: Mapping[str, tuple[str, ...]]
    index: tuple[str, ...] = ()
    open: frozenset[str] = frozenset()
    source: str = ""
    target: str = ""
    ignore: frozenset[str] = frozenset()
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
    """The properties that a picture of the graph shows, if a label has them. "" shows none.

    Args:
        node: The property with the name of a node.
        edge: The property with the name of an edge, instead of its label.
        text: The property with the text of an edge.
        start: The property with the start of an edge's validity (`from` in `graph.yaml`).
        end: The property with the end of its validity (`to` in `graph.yaml`).
        sources: The property with the list of keys of the nodes from which an edge was learnt.
        background: Whether rows of the label are behind the facts: a picture hides them until asked.
    """

    tag: ClassVar[str] = "Draw"
    node: str = ""
    edge: str = ""
    text: str = ""
    start: str = ""
    end: str = ""
    sources: str = ""
    background: bool = False


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
        """The properties of a label that a picture shows: those of the label itself, otherwise
        those of the graph that the label has. An edge at a background node is background.
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
        """Whether the labels of another graph are a subset of these, with equal key and partition
        properties. Its name may differ.
        """
        return (other.key, other.partition) == (self.key, self.partition) and all(
            self.labels.get(name) == label for name, label in other.labels.items()
        )

    def label(self, name: str) -> Label:
        """A label by name. Raises Fault with the nearest name."""
        if name in self.labels:
            return self.labels[name]
        raise Fault(
            f'graph "{self.name}" has no label "{name}"', **among(name, self.labels, "labels")
        )

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

    Args:
        label: The merged label.
        schema: The schema of its rows.
        written: The written values, by property.
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
