"""The lateral search of a store, of a step's rows, or of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import pyarrow as pa

from semgraph.errors import Fault, among, did_you_mean, faults_at
from semgraph.expr.duckdb import always, expect_type, type_of
from semgraph.expr.own_functions import own_calls
from semgraph.expr.scalar import Scalar, short
from semgraph.expr.types import type_of_arrow
from semgraph.logical import node as core
from semgraph.logical.graph import How, StoreRead, hit_fields
from semgraph.logical.semantic import VECTOR

RANKING = (("rank", pa.int64()), ("score", pa.float64()), ("via", pa.string()))


@dataclass(frozen=True)
class SearchMethod:
    """One method of a search: its kind, the property, and the value of the row to compare; for
    `nearest` a text or vector.
    """

    tag: ClassVar[str] = "By"
    via: Literal["equal", "fulltext", "nearest"]
    prop: str
    to: Scalar
    above: float = -1.0
    rank: Literal["store", "overlap"] = "store"


@dataclass(frozen=True, eq=False, kw_only=True)
class Search(StoreRead, keyword="search", rows="expand", carries=True):
    """For each row the best `k` hits among the stored rows of a label, the rows of a step, or both.
    A hit is the struct `alias`.

    Each of the `methods` ranks the hits. `fuse: rrf` returns a hit once and scores it by
    Σ 1 / (rank + 1) over the methods that found it. `fuse: none` returns a row for each method and
    hit, with the method's score, as a search with one method does. Without `methods`, hits are
    sorted by `order`. `where` filters before `k` is applied.

    A hit has `rank` (from 0), `score`, `via`, and the stored vectors listed in `vectors`. `key`
    names the rows of a step (default: the graph's key); on equal keys the step's row replaces the
    stored one. For stored edges, `source` and `target` name structs with the nodes at the ends,
    which `where` may read.
    """

    input: core.Node = core.argument("input")
    label: str = core.argument("over")
    within: core.Node | None = core.argument("within", default=None)
    alias: str = core.argument("name")
    k: int = core.argument("number")
    methods: tuple[SearchMethod, ...] = core.argument("methods", default=(), tag="by")
    fuse: Literal["rrf", "none"] = core.argument("choice", choices=("rrf", "none"), default="rrf")
    where: Scalar | None = core.argument("scalar", default=None)
    order: tuple[core.Sort, ...] = core.argument("order", default=())
    how: How = core.argument("choice", choices=("inner", "left"), default="inner")
    partition: str = core.argument("partition", default="")
    or_all: bool = core.argument("or_all", default=False)
    vectors: tuple[str, ...] = core.argument("names", default=())
    source: str = core.argument("name", default="")
    target: str = core.argument("name", default="")
    key: str = core.argument("name", default="", added=True)
    fields: tuple[str, ...] | None = None
    end_properties: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    trip: str = ""

    def __post_init__(self) -> None:
        if self.where is not None and always(self.where):
            object.__setattr__(self, "where", None)
        super().__post_init__()

    @property
    def hit_type(self) -> pa.StructType:
        """The struct of a hit."""
        fields: dict[str, pa.DataType] = {}
        if self.label:
            fields = hit_fields(self.graph.label(self.label), self.graph, self.properties)
        fields |= dict.fromkeys(self.vectors, VECTOR)
        for f in self.within.schema if self.within is not None else ():
            if f.name != self.hit_key and not self._kept(f.name):
                continue
            if fields.setdefault(f.name, f.type) != f.type:
                there = f"{type_of_arrow(fields[f.name])} in {self.label}, {type_of_arrow(f.type)} in the step"
                raise Fault(f'column "{f.name}" has two types', "over", there=there)
        for name, kind in RANKING:
            if name in fields:
                hint = "rename it in the step that is searched"
                raise Fault(f'"{name}" is the hit\'s own column', "over", hint=hint)
            if self._kept(name):
                fields[name] = kind
        return pa.struct(list(fields.items()))

    def _kept(self, field: str) -> bool:
        return self.fields is None or field in self.fields

    @property
    def properties(self) -> tuple[str, ...] | None:
        """The properties of the label that hits return; None: all."""
        if self.fields is None:
            return None
        columns = self.graph.label(self.label).columns if self.label else ()
        return tuple(name for name in columns if name in self.fields)

    @cached_property
    def texts(self) -> dict[int, tuple[str, ...]]:
        """For each full-text method, the properties of its index."""
        indexes = self.graph.label(self.label).fulltext.values() if self.label else ()
        return {
            i: next((props for props in indexes if by.prop in props), (by.prop,))
            for i, by in enumerate(self.methods)
            if by.via == "fulltext"
        }

    @cached_property
    def ranked_by(self) -> frozenset[str]:
        """The fields of a hit on which its rank depends."""
        terms = frozenset().union(*(term.by.columns for term in self.order)) - {self.alias}
        ordered_by = core.roots_of(core.under(terms, self.alias) or ())
        return ordered_by.union(self._compared, *self.texts.values())

    @property
    def _compared(self) -> set[str]:
        """The properties of its methods."""
        return {by.prop for by in self.methods}

    @cached_property
    def _own_paths(self) -> frozenset[str]:
        """The paths that its condition and its order name."""
        own = [] if self.where is None else [self.where]
        return frozenset().union(*(scalar.fields for scalar in (*own, *(t.by for t in self.order))))

    @property
    def hit_key(self) -> str:
        """The field of a hit that identifies it."""
        return self.key or self.graph.key

    @property
    def fused(self) -> bool:
        """Whether the scores of several methods are fused."""
        return self.fuse == "rrf" and len(self.methods) > 1

    @property
    def ends(self) -> dict[str, pa.StructType]:
        """The structs of the nodes at an edge's ends, by `source` and `target`, if named."""
        label = self.graph.label(self.label) if self.label else None
        wanted = self.end_properties or (None, None)
        ends = {}
        for end, properties in zip(("source", "target"), wanted, strict=True):
            if getattr(self, end):
                if label is None or label.kind != "edge" or self.within is not None:
                    what = f"only of stored edges the {end} comes along"
                    raise Fault(what, end, hint="search the label of an edge alone")
                node = self.graph.label(getattr(label, end))
                ends[end] = pa.struct(list(hit_fields(node, self.graph, properties).items()))
        return ends

    def infer(self) -> pa.Schema:
        schema = self.input.schema
        if self.label:
            self.check_partition(schema, self.partition)
        self._check_key()
        core.fresh(schema, self.alias, "alias", "alias")
        if self.k < 1:
            raise Fault("k must be at least 1", "k")
        self._check_vectors()
        result = schema.append(pa.field(self.alias, self.hit_type))
        for end, kind in self.ends.items():
            core.fresh(result, getattr(self, end), end, end)
            result = result.append(pa.field(getattr(self, end), kind))
        core.check_condition(self.where, result)
        if self.where is not None:
            with faults_at("where"):
                if self.label:
                    _refuse_own(self.where, self.label)
                self._refuse_ranking(self.where)
        if bool(self.methods) == bool(self.order):
            raise Fault("a search ranks by its methods or by order: one of the two")
        core.check_sort(self.order, result)
        for i, by in enumerate(self.methods):
            self._check_by(by, schema, i)
        return result

    def _check_key(self) -> None:
        if self.key and (self.label or self.within is None):
            what = "key names the rows of a step that is searched alone"
            raise Fault(what, "key", hint="leave key out")
        if self.within is None:
            return
        if not self.key and not self.graph.labels:
            hint = "write key: COLUMN, or add graph: graph.yaml to the plan"
            raise Fault("search needs key: which column names the rows of the step", hint=hint)
        names = self.within.schema.names
        if self.key and self.key not in names:
            raise Fault(f'key: no column "{self.key}"', "key", **among(self.key, names, "columns"))
        if self.hit_key not in names:
            what = f'a step that is searched needs the column "{self.hit_key}"'
            raise Fault(what, "over", hint="or write key: which column names its rows")
        kind = self.within.schema.field(self.hit_key).type
        if self.key and kind not in (pa.string(), pa.int64()):
            raise Fault(f'key: "{self.key}" is {type_of_arrow(kind)}, not string or int64', "key")

    def _refuse_ranking(self, where: Scalar) -> None:
        """Refuse a condition on ranks, which follow the condition. Raises Fault."""
        stored = self.graph.label(self.label).columns if self.label else {}
        own = {*stored, *(self.within.schema.names if self.within is not None else ())}
        for name, _ in RANKING:
            if name not in own and f"{self.alias}.{name}" in where.columns:
                what = f'"{self.alias}.{name}" is not known before hits are ranked'
                raise Fault(what, hint="filter in a step after this one")

    def _check_vectors(self) -> None:
        known = self._vectors.values()
        for name in self.vectors:
            if name not in known:
                what = f'{self.label or "a step"} has no vector "{name}"'
                raise Fault(what, "vectors", **among(name, known, "vectors here"))

    def _check_by(self, by: SearchMethod, schema: pa.Schema, i: int) -> None:
        hits = {f.name for f in self.hit_type} if self.fields is None else None
        if hits is not None and by.prop not in hits:
            msg = f'{self.label or "the step"} has no property "{by.prop}"'
            raise Fault(msg, "methods", i, hint=did_you_mean(by.prop, hits))
        with faults_at("methods", i):
            if by.via == "equal":
                core.typed((("value", by.to),), schema, "to")
            elif by.via == "fulltext" or not self.given_as_vector(by):
                expect_type(by.to, schema, pa.string())
            if not self.label:
                return
            label = self.graph.label(self.label)
            if by.via == "nearest" and by.prop not in label.vectors:
                there = "embedded here: " + (", ".join(label.vectors) or "none")
                raise Fault(f'"{by.prop}" of {self.label} is not embedded', there=there)
            indexes = label.fulltext
            if by.via == "fulltext" and not any(by.prop in props for props in indexes.values()):
                listed = "; ".join(f"{name}: {', '.join(props)}" for name, props in indexes.items())
                what = f'no full-text index of {self.label} has "{by.prop}"'
                raise Fault(what, there=f"indexes: {listed or 'none'}")
            if by.via == "fulltext" and by.rank == "store" and self.within is not None:
                raise Fault("a step's rows have no BM25 rank", hint="write rank: overlap")

    def given_as_vector(self, by: SearchMethod) -> bool:
        """Whether a method `nearest` compares a vector of the row instead of an embedded text."""
        kind = type_of(by.to, self.input.schema)
        return by.via == "nearest" and type_of_arrow(kind).name == "vector"

    @cached_property
    def by_window(self) -> bool:
        """Whether a row finds only rows of the step in the partition of its window."""
        return self.within is not None and self.within.windowed and self.input.windowed

    @cached_property
    def by_owner(self) -> bool:
        """Whether a row finds rows of the step only if both have the same partition column value.
        This applies unless both sides have windows.
        """
        if self.within is None or self.by_window or self.partition:
            return False
        return all(self.graph.partition in node.schema.names for node in (self.input, self.within))

    @property
    def embeds(self) -> bool:
        nearest = (by for by in self.methods if by.via == "nearest")
        of_rows = bool(self.vectors) and self.within is not None
        return of_rows or not all(map(self.given_as_vector, nearest))

    @property
    def reads(self) -> frozenset[str]:
        paths = self._own_paths.union(*(by.to.fields for by in self.methods))
        columns = core.roots_of(paths) - self.output_columns
        if self.label and self.partition != "all":
            columns |= {self.partition or self.graph.partition}
        if self.by_owner:
            columns |= {self.graph.partition}
        if self.embeds:
            columns |= core.owner_column(self.input, self.graph.partition)
        return columns

    @property
    def label_reads(self) -> frozenset[core.LabelRead]:
        if not self.label:
            return frozenset()
        label = self.graph.label(self.label)
        named = core.roots_of(core.under(self._own_paths - {self.alias}, self.alias) or ())
        named = named.union(hit_fields(label, self.graph, self.properties), self._compared)
        reads = {(self.label, name) for name in named if name in label.columns}
        for end, kind in self.ends.items():
            reads |= {(getattr(label, end), f.name) for f in kind}
        return frozenset(reads)

    def narrowed(self, needed: frozenset[str]) -> core.Node:
        own = self._own_paths
        fields = core.under(needed | own, self.alias)
        if fields is None:
            return self
        roots = core.roots_of(fields)
        vectors = tuple(n for n in self.vectors if n in roots)
        names = tuple(f.name for f in self.hit_type if f.name in roots)
        ends = tuple(self._end_narrowed(end, needed | own) for end in ("source", "target"))
        return self.with_fields(fields=names, vectors=vectors, end_properties=ends)

    def other_needs(self, needed: core.Needs) -> tuple[core.Needs, ...]:
        if self.within is None:
            return ()
        fields = None if needed is None else core.under(needed | self._own_paths, self.alias)
        if fields is None:
            return (None,)
        texts = frozenset(text for text, vector in self._vectors.items() if vector in self.vectors)
        ranking = frozenset(name for name, _ in RANKING)
        wanted, names = (fields | self.ranked_by | texts) - ranking, self.within.schema.names
        always = {self.hit_key, self.graph.partition}.intersection(names)
        return (frozenset(f for f in wanted if f.split(".")[0] in names) | always,)

    @property
    def _vectors(self) -> Mapping[str, str]:
        """The vectors of the label, by the text property that each embeds."""
        return self.graph.label(self.label).vectors if self.label else {}

    def _end_narrowed(self, end: str, needed: frozenset[str]) -> tuple[str, ...]:
        if not getattr(self, end):
            return ()
        names = tuple(self.graph.label(getattr(self.graph.label(self.label), end)).columns)
        fields = core.under(needed, getattr(self, end))
        wanted = names if fields is None else core.roots_of(fields)
        return tuple(name for name in names if name in wanted)


def _refuse_own(where: Scalar, label: str) -> None:
    own = next(own_calls(where.sql), None)
    if own is not None:
        what = f'"{short(where.text)}" calls {own.name}, a function of Python'
        hint = "search without it, and filter in a step afterwards"
        raise Fault(f"{what}, over the stored {label}", hint=hint)
