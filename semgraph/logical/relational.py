"""Relational operators: what DuckDB computes between calls to models and stores.

A relation is a flat list of unique columns. What `join` and `unnest` bring is one struct column, named by `alias`, NULL
where nothing matched. Rows are ordered, by an ordinal that no plan sees: a join's by left then right, an unnest's by row
then position, an aggregate's by its first row; every other order is broken by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import pyarrow as pa

from semgraph.errors import Fault
from semgraph.expr.binder import with_now
from semgraph.expr.places import expect_type
from semgraph.expr.scalar import Scalar
from semgraph.expr.types import type_of_arrow
from semgraph.logical.checks import (
    Columns,
    Sort,
    check_names,
    check_sort,
    computed_sql,
    fresh,
    kept,
    merged,
    read_through,
    typed,
    typed_of_groups,
)
from semgraph.logical.node import Needs, Node, RowsTrait, argument


@dataclass(frozen=True, eq=False, kw_only=True)
class Input(Node):
    """The rows of an input of the plan. `windowed`: its rows are what the plan's order cuts into windows."""

    keyword: ClassVar[str] = "input"
    relational: ClassVar[bool] = True
    name: str = argument("name")
    columns: pa.Schema = argument("schema")
    windowed: bool = argument("flag", default=False)

    def infer(self) -> pa.Schema:
        return self.columns

    @property
    def partitioned(self) -> bool:
        return self.windowed


@dataclass(frozen=True, eq=False, kw_only=True)
class Nothing(Input):
    """A relation without rows: an input that is not given, and what is known to give nothing because of that."""

    is_empty: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, kw_only=True)
class Filter(Node):
    """σ: the rows for which `where` is true."""

    keyword: ClassVar[str] = "filter"
    sole: ClassVar[str] = "where"
    relational: ClassVar[bool] = True
    rows: ClassVar[RowsTrait] = "subset"
    carries: ClassVar[bool] = True
    by_row: ClassVar[bool] = True
    input: Node = argument("input")
    where: Scalar = argument("scalar")

    def infer(self) -> pa.Schema:
        with self.check("where"):
            expect_type(self.where, self.input.schema, pa.bool_())
        return self.input.schema

    @property
    def adds(self) -> frozenset[str]:
        return frozenset()

    @property
    def reads(self) -> frozenset[str]:
        return self.where.roots

    @property
    def is_identity(self) -> bool:
        return self.where.sql == "TRUE"


@dataclass(frozen=True, eq=False, kw_only=True)
class Computing(Node):
    """What both forms of π have in common: columns that are computed from a row of the input."""

    sole: ClassVar[str] = "columns"
    relational: ClassVar[bool] = True
    rows: ClassVar[RowsTrait] = "1:1"
    by_row: ClassVar[bool] = True
    input: Node = argument("input")
    columns: Columns = argument("columns")

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(s.roots for _, s in self.columns))

    def paths_for(self, needed: Needs) -> frozenset[str]:
        return self.read_paths if needed is None else read_through(self.columns, needed)


@dataclass(frozen=True, eq=False, kw_only=True)
class Project(Computing):
    """π: the listed columns and no others. A column without an expression is the one of that name."""

    keyword: ClassVar[str] = "project"

    def infer(self) -> pa.Schema:
        if not self.columns:
            raise Fault("project needs at least one column", hint="write {name: expression}, or a list of names")
        return pa.schema(typed(self.columns, self.input.schema, "columns"))

    @property
    def passes(self) -> frozenset[str]:
        return frozenset(name for name, scalar in self.columns if scalar.sql == f'"{name}"')

    def narrowed(self, needed: frozenset[str]) -> Node:
        return replace(self, columns=kept(self.columns, needed) or self.columns[:1])

    @property
    def is_identity(self) -> bool:
        own = [name for name, scalar in self.columns if scalar.sql == f'"{name}"']
        return own == self.input.schema.names and len(own) == len(self.columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class Add(Computing):
    """Extended π: all columns, and the listed ones computed from them; a name that is there is replaced."""

    keyword: ClassVar[str] = "add"
    carries: ClassVar[bool] = True

    def infer(self) -> pa.Schema:
        return merged(self.input.schema, typed(self.columns, self.input.schema, "columns"))

    @property
    def adds(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.columns)

    def first_needs(self, needed: Needs) -> Needs:
        """As of every node; a column that is replaced keeps its place only if the input has it."""
        found = super().first_needs(needed)
        if found is None or needed is None:
            return found
        kinds = {f.name: f.type for f in self.input.schema}
        replaced = (self.adds & kinds.keys()) & {path.split(".")[0] for path in needed}
        return found | {f"{name}." if pa.types.is_struct(kinds[name]) else name for name in replaced}

    def narrowed(self, needed: frozenset[str]) -> Node:
        return replace(self, columns=kept(self.columns, needed))

    @property
    def is_identity(self) -> bool:
        return not self.columns


@dataclass(frozen=True, eq=False, kw_only=True)
class Limit(Node):
    """The first `n` rows by `order`, of the whole relation or of each group of equal `per`."""

    keyword: ClassVar[str] = "limit"
    sole: ClassVar[str] = "n"
    relational: ClassVar[bool] = True
    rows: ClassVar[RowsTrait] = "subset"
    carries: ClassVar[bool] = True
    input: Node = argument("input")
    n: int = argument("number")
    per: tuple[str, ...] = argument("names", default=())
    order: tuple[Sort, ...] = argument("order", default=())

    def infer(self) -> pa.Schema:
        check_names(self.per, self.input.schema, "per")
        check_sort(self.order, self.input.schema)
        return self.input.schema

    @property
    def adds(self) -> frozenset[str]:
        return frozenset()

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.per).union(*(t.by.roots for t in self.order))


@dataclass(frozen=True, eq=False, kw_only=True)
class Ordered(Node):
    """τ: the same rows, in the order of `by`; NULLs last, ties as they were."""

    keyword: ClassVar[str] = "sort"
    sole: ClassVar[str] = "by"
    relational: ClassVar[bool] = True
    rows: ClassVar[RowsTrait] = "1:1"
    carries: ClassVar[bool] = True
    input: Node = argument("input")
    by: tuple[Sort, ...] = argument("order")

    def infer(self) -> pa.Schema:
        check_sort(self.by, self.input.schema, "by")
        return self.input.schema

    @property
    def adds(self) -> frozenset[str]:
        return frozenset()

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(t.by.roots for t in self.by))


@dataclass(frozen=True, eq=False, kw_only=True)
class Distinct(Node):
    """δ: the first row of each group of equal `by`; without `by`, of equal rows."""

    keyword: ClassVar[str] = "distinct"
    sole: ClassVar[str] = "by"
    relational: ClassVar[bool] = True
    rows: ClassVar[RowsTrait] = "subset"
    carries: ClassVar[bool] = True
    input: Node = argument("input")
    by: tuple[str, ...] = argument("names", default=())

    def infer(self) -> pa.Schema:
        check_names(self.by, self.input.schema, "by")
        return self.input.schema

    @property
    def adds(self) -> frozenset[str]:
        return frozenset()

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.by or self.input.schema.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class Aggregate(Node):
    """γ: one row for each group of equal `by`, with aggregates `add`; `having` filters the groups."""

    keyword: ClassVar[str] = "aggregate"
    relational: ClassVar[bool] = True
    rows: ClassVar[RowsTrait] = "collapse"
    input: Node = argument("input")
    by: Columns = argument("columns", default=())
    add: Columns = argument("columns", default=())
    having: Scalar | None = argument("scalar", default=None)

    def infer(self) -> pa.Schema:
        if not self.by and not self.add:
            raise Fault("aggregate needs at least one column in by or add", hint="add: {n: count(*)} counts the rows")
        groups = typed(self.by, self.input.schema, "by", windows=False)
        clash = {n for n, _ in self.by} & {n for n, _ in self.add}
        if clash:
            raise Fault(f'"{min(clash)}" is in by and in add', "add", min(clash))
        equal = [with_now(computed_sql(scalar, f.type)) for (_, scalar), f in zip(self.by, groups, strict=True)]
        found = pa.schema([*groups, *typed_of_groups(self.add, self.input.schema, "add", equal)])
        if self.having is not None:
            with self.check("having"):
                expect_type(self.having, found, pa.bool_(), windows=False)
        return found

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(s.roots for _, s in (*self.by, *self.add)))

    def gives_nothing(self, empty: Sequence[bool]) -> bool:
        return empty[0] and (bool(self.by) or self.partitioned)  # one over everything has a row where there is none

    def narrowed(self, needed: frozenset[str]) -> Node:
        add = kept(self.add, needed | (self.having.fields if self.having else frozenset()))
        return replace(self, add=add or (() if self.by else self.add[:1]))


@dataclass(frozen=True, eq=False, kw_only=True)
class Unnest(Node):
    """μ: a row for each element of the list `column`, which is replaced by the element `alias` and its `position` (from 1)."""

    keyword: ClassVar[str] = "unnest"
    relational: ClassVar[bool] = True
    rows: ClassVar[RowsTrait] = "expand"
    carries: ClassVar[bool] = True
    by_row: ClassVar[bool] = True
    input: Node = argument("input")
    column: str = argument("name")
    alias: str = argument("name")
    position: str = argument("name", default="")
    how: Literal["inner", "left"] = argument("choice", choices=("inner", "left"), default="inner")

    def infer(self) -> pa.Schema:
        schema = self.input.schema
        if self.column not in schema.names:
            check_names((self.column,), schema, "column")
        kind = schema.field(self.column).type
        if not pa.types.is_list(kind):
            raise Fault(f'"{self.column}" is {type_of_arrow(kind)}, not a list', "column")
        rest = pa.schema([f for f in schema if f.name != self.column])
        found = [pa.field(self.alias, kind.value_type)]
        if self.position:
            found.append(pa.field(self.position, pa.int64()))
        for f in found:
            fresh(rest, f.name, "alias")
        return pa.schema([*rest, *found])

    @property
    def adds(self) -> frozenset[str]:
        return frozenset({self.alias, self.position} - {""})

    @property
    def reads(self) -> frozenset[str]:
        return frozenset({self.column})
