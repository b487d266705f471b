"""Operators that a store answers: `scan`, `match`, `search`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, Literal

import pyarrow as pa

from semgraph.errors import Fault, did_you_mean
from semgraph.expr.binder import expect_type
from semgraph.expr.canonical import canonical
from semgraph.expr.scalar import Scalar, conjunction
from semgraph.expr.types import type_of_arrow
from semgraph.logical.checks import Sort, check_sort, column_scalar, fresh, typed
from semgraph.logical.node import LabelRead, Node, RowsTrait, argument, under
from semgraph.logical.pattern import Element, Pattern, PatternNode, PatternTrail
from semgraph.logical.schema import Graph, Label
from semgraph.logical.trails import elements_of, step_type, trail_ends

How = Literal["inner", "left"]
RANKING = (("rank", pa.int64()), ("score", pa.float64()), ("via", pa.string()))


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


@dataclass(frozen=True)
class By:
    """One method of a search: how, which property, and what of the row it is compared with."""

    via: Literal["equal", "fulltext", "nearest"]
    prop: str
    to: Scalar
    above: float = -1.0
    rank: Literal["store", "overlap"] = "store"


@dataclass(frozen=True, eq=False, kw_only=True)
class Search(Reading):
    """Lateral search: for each row the best `k` hits of a label, of a step's rows, or of both, as a struct `alias`.

    Each method of `by` ranks for itself; `fuse: rrf` scores a hit by Σ 1 / (rank + 1) over the methods and keeps it once,
    `none` gives a row for each method and hit. Without `by`, `order` decides. `where` acts before `k`. Hits have `rank`
    (from 0), `score` and `via`. On equal keys a step's row wins over the stored one.
    """

    keyword: ClassVar[str] = "search"
    rows: ClassVar[RowsTrait] = "expand"
    carries: ClassVar[bool] = True
    input: Node = argument("input")
    label: str = argument("over")
    within: Node | None = argument("within", default=None)
    alias: str = argument("name")
    k: int = argument("number")
    by: tuple[By, ...] = argument("by", default=())
    fuse: Literal["rrf", "none"] = argument("choice", choices=("rrf", "none"), default="rrf")
    where: Scalar | None = argument("scalar", default=None)
    order: tuple[Sort, ...] = argument("order", default=())
    how: How = argument("choice", choices=("inner", "left"), default="inner")
    partition: str = argument("name", default="")
    properties: tuple[str, ...] | None = None
    trip: str = ""

    @property
    def hit_type(self) -> pa.StructType:
        """The struct that a hit comes as."""
        fields: dict[str, pa.DataType] = {}
        if self.label:
            fields = hit_fields(self.graph.label(self.label), self.graph, self.properties)
        for f in self.within.schema if self.within is not None else ():
            if fields.setdefault(f.name, f.type) != f.type:
                there = f"{type_of_arrow(fields[f.name])} in {self.label}, {type_of_arrow(f.type)} in the step"
                raise Fault(f'column "{f.name}" has two types', "over", there=there)
        for name, kind in RANKING:
            if name in fields:
                raise Fault(f'"{name}" is the hit\'s own column', "over", hint="rename it in the step that is searched")
            fields[name] = kind
        return pa.struct(list(fields.items()))

    def infer(self) -> pa.Schema:
        schema = self.input.schema
        if self.label:
            self.check_partition(schema, self.partition)
        if self.within is not None and self.graph.key not in self.within.schema.names:
            raise Fault(f'a step that is searched needs the column "{self.graph.key}"', "over")
        with self.check("alias"):
            fresh(schema, self.alias, "alias")
        if self.k < 1:
            raise Fault("k must be at least 1", "k")
        found = schema.append(pa.field(self.alias, self.hit_type))
        if self.where is not None:
            with self.check("where"):
                expect_type(self.where, found, pa.bool_())
        if bool(self.by) == bool(self.order):
            raise Fault("a search ranks by its methods or by order: one of the two")
        check_sort(self.order, found)
        for i, by in enumerate(self.by):
            self._check_by(by, schema, i)
        return found

    def _check_by(self, by: By, schema: pa.Schema, i: int) -> None:
        hits = {f.name for f in self.hit_type} if self.properties is None else None
        if hits is not None and by.prop not in hits:
            msg = f'{self.label or "the step"} has no property "{by.prop}"'
            raise Fault(msg, "by", i, hint=did_you_mean(by.prop, hits))
        with self.check("by", i):
            if by.via != "equal":
                expect_type(by.to, schema, pa.string())
            else:
                typed((("value", by.to),), schema, "to")
            if not self.label:
                return
            label = self.graph.label(self.label)
            if by.via == "nearest" and by.prop not in label.vectors:
                there = "embedded here: " + (", ".join(label.vectors) or "none")
                raise Fault(f'"{by.prop}" of {self.label} is not embedded', there=there)
            if by.via == "fulltext" and not any(by.prop in props for props in label.fulltext.values()):
                there = "; ".join(f"{n}: {', '.join(p)}" for n, p in label.fulltext.items()) or "none"
                raise Fault(f'no full-text index of {self.label} has "{by.prop}"', there=f"indexes: {there}")
            if by.via == "fulltext" and by.rank == "store" and self.within is not None:
                raise Fault("a step's rows have no BM25 rank", hint="say rank: overlap")

    @property
    def adds(self) -> frozenset[str]:
        return frozenset({self.alias})

    @property
    def reads(self) -> frozenset[str]:
        scalars = [*(b.to for b in self.by), *([self.where] if self.where else []), *(t.by for t in self.order)]
        own = frozenset().union(*(s.roots for s in scalars)) - {self.alias}
        partition = {self.partition or self.graph.partition} if self.label and self.partition != "all" else frozenset()
        return own | partition

    @property
    def label_reads(self) -> frozenset[LabelRead]:
        if not self.label:
            return frozenset()
        label = self.graph.label(self.label)
        named = {path.split(".")[1] for path in _paths(self.where, self.order) if path.startswith(f"{self.alias}.")}
        named |= set(hit_fields(label, self.graph, self.properties)) | {b.prop for b in self.by}
        return frozenset((self.label, name) for name in named if name in label.columns)

    def narrowed(self, needed: frozenset[str]) -> Node:
        own = _paths(self.where, self.order)
        fields = under(needed | {p for p in own if p.startswith(f"{self.alias}.")}, self.alias)
        if not self.label or fields is None or self.alias in own:
            return self
        names = self.graph.label(self.label).columns
        return replace(self, properties=tuple(n for n in names if n in {f.split(".")[0] for f in fields}))


def _paths(where: Scalar | None, order: Iterable[Sort]) -> set[str]:
    scalars = [*([where] if where else []), *(t.by for t in order)]
    return {path for scalar in scalars for path in scalar.fields}


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
                    found = found.append(pa.field(element.var, self._brought(label)))
        if self.where is not None:
            with self.check("where"):
                expect_type(self.where, found, pa.bool_())
        return found

    def _brought(self, label: Label | None) -> pa.DataType:
        if label is None:
            return pa.list_(step_type(self.graph))
        return pa.struct(list(hit_fields(label, self.graph, None).items()))

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
