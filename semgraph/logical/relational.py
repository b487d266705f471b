"""Relational operators: DuckDB computes them between calls to models and stores.

A relation is a flat list of unique columns. `join` and `unnest` add one struct column, named by
`alias`, which is NULL without a match. Rows are ordered by an ordinal that plans cannot read: for a
join by left row, then right row; for an unnest by row, then position; for an aggregate by first
row. The ordinal breaks the ties of every other order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa

from semgraph.errors import Fault, Faults, faults_at
from semgraph.expr.duckdb import always, executable, expect_type
from semgraph.expr.scalar import Scalar, lists_of, parse_scalar, replace_column
from semgraph.expr.types import sql_type, type_of_arrow
from semgraph.logical.node import (
    Columns,
    JoinHow,
    Needs,
    Node,
    Pairing,
    Sort,
    Using,
    argument,
    check_condition,
    check_names,
    check_sort,
    check_using,
    column_scalar,
    combined,
    computed_sql,
    fresh,
    merged,
    needed_columns,
    read_through,
    roots_of,
    typed,
    typed_of_groups,
    under,
    with_own,
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Input(Node, keyword="input", relational=True):
    """The rows of an input of the plan.

    `windowed`: the plan cuts these rows into windows.
    """

    name: str = argument("name")
    columns: pa.Schema = argument("schema")
    windowed: bool = argument("flag", default=False)

    def infer(self) -> pa.Schema:
        return self.columns


@dataclass(frozen=True, eq=False, kw_only=True)
class Empty(Input, is_empty=True, tag="Nothing"):
    """A relation without rows: a missing input, and operators that have no rows because of it."""

    @classmethod
    def like(cls, node: Node) -> Empty:
        """The empty relation that replaces a node without rows."""
        place: Any = {"step": node.step, "origin": node.origin, "name": node.step}
        return cls(columns=node.schema, windowed=node.windowed, **place)


@dataclass(frozen=True, eq=False, kw_only=True)
class Filter(
    Node, keyword="filter", sole="where", relational=True, rows="subset", carries=True, by_row=True
):
    """σ: the rows for which `where` is true."""

    input: Node = argument("input")
    where: Scalar = argument("scalar")

    def infer(self) -> pa.Schema:
        check_condition(self.where, self.input.schema, windows=True)
        return self.input.schema

    @property
    def is_identity(self) -> bool:
        return self.where.sql == "TRUE"


@dataclass(frozen=True, eq=False, kw_only=True)
class Computing(Node, sole="columns", relational=True, rows="1:1", by_row=True):
    """Both forms of π: columns computed from a row of the input."""

    input: Node = argument("input")
    columns: Columns = argument("columns")

    def paths_for(self, needed: Needs) -> frozenset[str]:
        return self.read_paths if needed is None else read_through(self.columns, needed)


@dataclass(frozen=True, eq=False, kw_only=True)
class Project(Computing, keyword="project"):
    """π: only the listed columns. A name without an expression keeps the column of that name."""

    def infer(self) -> pa.Schema:
        return pa.schema(typed(self.columns, self.input.schema, "columns"))

    @property
    def passes(self) -> frozenset[str]:
        return frozenset(name for name, scalar in self.columns if scalar.sql == f'"{name}"')

    def narrowed(self, needed: frozenset[str]) -> Node:
        return self.with_fields(columns=needed_columns(self.columns, needed) or self.columns[:1])

    @property
    def is_identity(self) -> bool:
        own = [name for name, scalar in self.columns if scalar.sql == f'"{name}"']
        return own == self.input.schema.names and len(own) == len(self.columns)


@dataclass(frozen=True, eq=False, kw_only=True)
class Add(Computing, keyword="add", carries=True):
    """π that keeps all columns and adds the listed ones. A column of the same name is replaced."""

    def infer(self) -> pa.Schema:
        return merged(self.input.schema, typed(self.columns, self.input.schema, "columns"))

    @property
    def output_columns(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.columns)

    def first_needs(self, needed: Needs) -> Needs:
        """As the base class. A replaced column keeps its position only if the input has it."""
        needs = super().first_needs(needed)
        if needs is None or needed is None:
            return needs
        kinds = {f.name: f.type for f in self.input.schema}
        replaced = self.output_columns & kinds.keys() & roots_of(needed)
        return needs | {
            f"{name}." if pa.types.is_struct(kinds[name]) else name for name in replaced
        }

    def narrowed(self, needed: frozenset[str]) -> Node:
        return self.with_fields(columns=needed_columns(self.columns, needed))

    @property
    def is_identity(self) -> bool:
        return not self.columns


@dataclass(frozen=True, eq=False, kw_only=True)
class Limit(Node, keyword="limit", sole="n", relational=True, rows="subset", carries=True):
    """The first `n` rows by `order`, of the whole relation or of each group with equal `by`."""

    input: Node = argument("input")
    n: int = argument("number")
    by: tuple[str, ...] = argument("names", tag="per", default=())
    order: tuple[Sort, ...] = argument("order", default=())

    def infer(self) -> pa.Schema:
        check_names(self.by, self.input.schema, "by")
        check_sort(self.order, self.input.schema)
        return self.input.schema


def hashed(columns: Sequence[str], seed: int) -> Scalar:
    """The hash of some columns of a row, as an expression: the same wherever the row stands."""
    struct = ", ".join(f"'{name}': {column_scalar(name).sql}" for name in columns)
    return parse_scalar(f"md5(concat_ws(chr(31), '{seed}', to_json({{{struct}}})))")


@dataclass(frozen=True, eq=False, kw_only=True)
class SampleRows(Node, keyword="sample", sole="n", relational=True, rows="subset", carries=True):
    """`n` rows by their hash: any order of the rows, and any rows beside them, give the same choice
    among the same rows. With `by`: all rows of `n` values of these columns.
    """

    input: Node = argument("input")
    n: int = argument("number")
    by: tuple[str, ...] = argument("names", default=())
    seed: int = argument("number", default=0)

    def infer(self) -> pa.Schema:
        check_names(self.by, self.input.schema, "by")
        return self.input.schema

    def lowered(self) -> Node:
        """The operators that choose the rows."""
        place: Any = {"step": self.step, "origin": self.origin}
        names = self.input.schema.names
        vectors = {f.name for f in self.input.schema if pa.types.is_fixed_size_list(f.type)}
        order = hashed(self.by or [name for name in names if name not in vectors], self.seed)
        if not self.by:
            return Limit(input=self.input, n=self.n, order=(Sort(order),), **place)
        rank = "_rank"
        scalar = parse_scalar(f"dense_rank() OVER (ORDER BY {order.sql})")
        ranked = Add(input=self.input, columns=((rank, scalar),), **place)
        kept = Filter(input=ranked, where=parse_scalar(f"{rank} <= {self.n}"), **place)
        columns = tuple((name, column_scalar(name)) for name in names)
        return Project(input=kept, columns=columns, **place)


@dataclass(frozen=True, eq=False, kw_only=True)
class Ordered(Node, keyword="sort", sole="by", relational=True, rows="1:1", carries=True):
    """τ: the rows sorted by `by`. NULLs come last; ties keep their order."""

    input: Node = argument("input")
    by: tuple[Sort, ...] = argument("order")

    def infer(self) -> pa.Schema:
        check_sort(self.by, self.input.schema, "by")
        return self.input.schema


@dataclass(frozen=True, eq=False, kw_only=True)
class Distinct(Node, keyword="distinct", sole="by", relational=True, rows="subset", carries=True):
    """δ: the first row of each group with equal `by`. Without `by`, equal rows are one group."""

    input: Node = argument("input")
    by: tuple[str, ...] = argument("names", default=())

    def infer(self) -> pa.Schema:
        check_names(self.by, self.input.schema, "by")
        return self.input.schema

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.by or self.input.schema.names)


@dataclass(frozen=True, eq=False, kw_only=True)
class Aggregate(Node, keyword="aggregate", relational=True, rows="collapse"):
    """γ: one row for each group with equal `by`. `add` lists the aggregates; `having` filters the
    groups.
    """

    input: Node = argument("input")
    by: Columns = argument("columns", default=())
    add: Columns = argument("columns", default=())
    having: Scalar | None = argument("scalar", default=None)

    def infer(self) -> pa.Schema:
        if not self.by and not self.add:
            hint = "add: {n: count(*)} counts the rows"
            raise Fault("aggregate needs at least one column in by or add", hint=hint)
        groups = typed(self.by, self.input.schema, "by", windows=False)
        clash = {n for n, _ in self.by} & {n for n, _ in self.add}
        if clash:
            raise Fault(f'"{min(clash)}" is in by and in add', "add", min(clash))
        pairs = zip(self.by, groups, strict=True)
        equal = [executable(computed_sql(scalar, f.type)) for (_, scalar), f in pairs]
        result = pa.schema([*groups, *typed_of_groups(self.add, self.input.schema, equal)])
        check_condition(self.having, result, "having")
        return result

    @property
    def reads(self) -> frozenset[str]:
        return frozenset().union(*(s.roots for _, s in (*self.by, *self.add)))

    def is_empty_over(self, empty: Sequence[bool]) -> bool:
        # an aggregate over everything has a row even for an empty input
        return empty[0] and (bool(self.by) or self.windowed)

    def narrowed(self, needed: frozenset[str]) -> Node:
        of_having = self.having.fields if self.having else frozenset[str]()
        add = needed_columns(self.add, needed | of_having)
        return self.with_fields(add=add or (() if self.by else self.add[:1]))


@dataclass(frozen=True, eq=False, kw_only=True)
class Unnest(Node, keyword="unnest", relational=True, rows="expand", carries=True, by_row=True):
    """μ: one row for each element of the list `column`. The column `alias` holds the element and
    replaces the list; `position` is the element's number, from 1.
    """

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
        result = [pa.field(self.alias, kind.value_type)]
        if self.position:
            result.append(pa.field(self.position, pa.int64()))
        for f in result:
            fresh(rest, f.name, "alias")
        return pa.schema([*rest, *result])

    @property
    def output_columns(self) -> frozenset[str]:
        return frozenset({self.alias, self.position} - {""})

    def paths_for(self, needed: Needs) -> frozenset[str]:
        """The needed paths of the list's elements."""
        fields = under(needed, self.alias)
        if fields is None:
            return frozenset({self.column})
        return frozenset(f"{self.column}.{name}" for name in fields or ("",))


@dataclass(frozen=True, eq=False, kw_only=True)
class Join(Pairing, keyword="join", relational=True, carries=True, by_row=True):
    """⋈: pairs of rows with equal paths `using` for which `where` is true. `where` reads the left
    columns and the right row as the struct `alias`.

    `how: semi` keeps the left rows that have a match, `anti` those that have none; neither adds a
    column.
    """

    input: Node = argument("input")
    other: Node = argument("relation")
    alias: str = argument("name", default="")
    using: Using = argument("using", default=())
    where: Scalar | None = argument("scalar", default=None)
    how: JoinHow = argument("choice", choices=("inner", "left", "semi", "anti"), default="inner")
    fields: tuple[str, ...] | None = None

    def infer(self) -> pa.Schema:
        left, right = self.input.schema, self.other.schema
        alias = self.alias or "_right"
        check_using(self.using, left, right)
        fresh(left, alias, "alias", "alias")
        if not self.using and self.where is None:
            raise Fault("a join needs using or where", hint='all pairs: where: "TRUE"')
        check_condition(self.where, combined(left, right, alias, self.fields))
        if self.only_left:
            return left
        if not self.alias:
            what = "an inner or left join needs alias, the name of the column with the other row"
            raise Fault(what)
        return combined(left, right, self.alias, self.fields)

    @property
    def _scalars(self) -> list[Scalar]:
        return [] if self.where is None else [self.where]

    def without_empty(self, empty: Sequence[bool]) -> Node:
        """Over an empty other side an anti join keeps every row, and a left join adds NULL."""
        if not empty[1] or self.how not in {"anti", "left"}:
            return self
        if self.how == "anti":
            return self.input
        null = parse_scalar(f"CAST(NULL AS {sql_type(self.schema.field(self.alias).type)})")
        columns = ((self.alias, null),)
        return Add(input=self.input, columns=columns, step=self.step, origin=self.origin)

    @property
    def drops(self) -> bool:
        return self.how != "left"


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupJoin(Node, keyword="group_join", relational=True, rows="1:1", carries=True, by_row=True):
    """Each left row once, with aggregates of its matches. `order` and `limit` choose among the
    matches; the aggregates `add` read a match as `alias`.
    """

    input: Node = argument("input")
    other: Node = argument("relation")
    alias: str = argument("name")
    using: Using = argument("using", default=())
    where: Scalar | None = argument("scalar", default=None)
    order: tuple[Sort, ...] = argument("order", default=())
    limit: int | None = argument("number", default=None)
    add: Columns = argument("columns")

    def infer(self) -> pa.Schema:
        left, right = self.input.schema, self.other.schema
        fresh(left, self.alias, "alias", "alias")
        check_using(self.using, left, right)
        both = combined(left, right, self.alias)
        if not self.using and self.where is None:
            raise Fault("a group_join needs using or where")
        check_condition(self.where, both)
        check_sort(self.order, both)
        return merged(left, typed_of_groups(self.add, both))

    @property
    def output_columns(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.add)

    @property
    def _scalars(self) -> list[Scalar]:
        where = [] if self.where is None else [self.where]
        return [*where, *(scalar for _, scalar in self.add), *(term.by for term in self.order)]

    def other_needs(self, needed: Needs) -> tuple[Needs, ...]:  # noqa: ARG002
        return (with_own(frozenset(), self.alias, self.using, self._scalars),)

    def narrowed(self, needed: frozenset[str]) -> Node:
        """The operator without unneeded aggregates; a list of matches has only needed fields."""
        add, row = needed_columns(self.add, needed) or self.add[:1], self.other.schema
        listed = ((name, _listed(scalar, self.alias, row, needed, name)) for name, scalar in add)
        return self.with_fields(add=tuple(listed))


def _listed(
    scalar: Scalar, alias: str, row: pa.Schema, needed: frozenset[str], name: str
) -> Scalar:
    """A list of whole rows, reduced to the needed fields."""
    fields = under(needed, name)
    if fields is None or not lists_of(scalar, alias):
        return scalar
    own = narrowed_struct(f'"{alias}"', pa.struct(list(row)), fields)
    return replace_column(scalar, alias, own)


def narrowed_struct(path: str, kind: pa.StructType, fields: frozenset[str]) -> str:
    """A struct reduced to some of its fields, or to one field if `fields` is empty; NULL stays NULL."""
    names = roots_of(fields)
    chosen = [f for f in kind if f.name in names] or [kind.field(0)]
    parts = []
    for f in chosen:
        text, inner = f'{path}."{f.name}"', under(fields, f.name)
        if inner is not None and isinstance(f.type, pa.StructType) and f.name in names:
            text = narrowed_struct(text, f.type, inner)
        parts.append(f"'{f.name}': {text}")
    return f"CASE WHEN {path} IS NULL THEN NULL ELSE {{{', '.join(parts)}}} END"


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type of the common fields of two structs, in the order of the first; None: no structs."""
    if one == other:
        return one
    if not pa.types.is_struct(one) or not pa.types.is_struct(other):
        return None
    others = {f.name: f.type for f in other}
    fields = []
    for f in one:
        kind = common(f.type, others[f.name]) if f.name in others else f.type
        if kind is None:
            return None
        if f.name in others:
            fields.append(pa.field(f.name, kind))
    return pa.struct(fields)


@dataclass(frozen=True, eq=False, kw_only=True)
class OfAlike(Node, sole="of", relational=True):
    """A source over relations with the same columns, in any order."""

    relations: tuple[Node, ...] = argument("relations", key="of")
    fields: tuple[str, ...] | None = None

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.schema.names)

    def _alike(self) -> pa.Schema:
        """The columns of all relations. Raises Fault if they differ."""
        first = self.relations[0].schema
        if self.fields is None and (faults := list(self._lacking())):
            raise Faults(faults)
        names = first.names if self.fields is None else self.fields
        return pa.schema([self._column(f) for f in first if f.name in names])

    def _lacking(self) -> Iterator[Fault]:
        """A fault for each relation that lacks columns of another."""
        kinds = {f.name: f.type for node in reversed(self.relations) for f in node.schema}
        for i, node in enumerate(self.relations):
            lacking = sorted(kinds.keys() - set(node.schema.names))
            if lacking:
                name = node.step if node.step not in ("", self.step) else f"{i + 1}"
                columns = ", ".join(f'"{n}" ({type_of_arrow(kinds[n])})' for n in lacking)
                nulls = ", ".join(
                    f'{n}: "CAST(NULL AS {type_of_arrow(kinds[n]).sql})"' for n in lacking
                )
                fill = "fill: true, or " if isinstance(self, Union) else ""
                what = f"relation {name} lacks {columns}: {fill}add: {{{nulls}}}"
                yield Fault(what, "relations", i)

    def _column(self, first: pa.Field[Any]) -> pa.Field[Any]:
        kind = first.type
        for i, node in enumerate(self.relations[1:], 1):
            other = node.schema.field(first.name).type
            both = common(kind, other)
            if both is None or (both != kind and self.fields is None):
                msg = f'column "{first.name}" is {type_of_arrow(kind)} in the first relation, {type_of_arrow(other)} here'
                raise Fault(msg, "relations", i)
            kind = both
        return pa.field(first.name, kind)


@dataclass(frozen=True, eq=False, kw_only=True)
class Union(OfAlike, keyword="union"):
    """∪: the rows of all relations, those of the first relation first. The relations have the same
    columns, in any order. With `fill`, a column that one relation lacks is NULL in its rows.
    """

    fill: bool = argument("flag", default=False, added=True)

    def infer(self) -> pa.Schema:
        return self._alike()

    def first_needs(self, needed: Needs) -> Needs:
        names = frozenset(self.schema.names)
        return frozenset(path for path in needed or () if path.split(".")[0] in names) or names

    def other_needs(self, needed: Needs) -> tuple[Needs, ...]:
        return (self.first_needs(needed),) * (len(self.relations) - 1)

    def with_inputs(self, *inputs: Node) -> Self:
        """As the base class; of structs that rules narrow differently, common fields remain."""
        if self.fields is None and any(
            a is not b for a, b in zip(inputs, self.inputs, strict=True)
        ):
            return replace(self, fields=tuple(self.schema.names)).with_inputs(*inputs)
        return super().with_inputs(*inputs)

    def narrowed(self, needed: frozenset[str]) -> Node:
        roots = roots_of(needed)
        names = tuple(name for name in self.schema.names if name in roots)
        return self.with_fields(fields=names or tuple(self.schema.names[:1]))

    def is_empty_over(self, empty: Sequence[bool]) -> bool:
        return all(empty)

    def without_empty(self, empty: Sequence[bool]) -> Node:
        """The union of relations that may have rows, with the first relation's order of columns."""
        rest = tuple(node for node, none in zip(self.relations, empty, strict=True) if not none)
        if len(rest) == len(self.relations) or not rest:
            return self
        union = rest[0] if len(rest) == 1 else replace(self, relations=rest)
        if union.schema.names == self.schema.names:
            return union
        columns = tuple((name, parse_scalar(f'"{name}"')) for name in self.schema.names)
        return Project(input=union, columns=columns, step=self.step, origin=self.origin)


@dataclass(frozen=True, eq=False, kw_only=True)
class Intersect(OfAlike, keyword="intersect", rows="subset", carries=True):
    """∩: the rows of the first relation that are in every other, equal rows once. NULL equals NULL.
    The relations have the same columns, in any order.
    """

    relations: tuple[Node, ...] = argument("all_relations", key="of")
    present: ClassVar[bool] = True  # whether the rows are in the other relations

    def infer(self) -> pa.Schema:
        return self._alike()

    @cached_property
    def windowed(self) -> bool:
        """Whether the first relation is windowed."""
        return self.relations[0].windowed

    def is_empty_over(self, empty: Sequence[bool]) -> bool:
        return any(empty) if self.present else empty[0]


@dataclass(frozen=True, eq=False, kw_only=True)
class Except(Intersect, keyword="except"):
    """−: the rows of the first relation that are in none of the others, equal rows once. NULL equals
    NULL. The relations have the same columns, in any order.
    """

    present = False

    def without_empty(self, empty: Sequence[bool]) -> Node:
        rest = zip(self.relations, empty, strict=True)
        return replace(self, relations=tuple(node for node, none in rest if not none))


@dataclass(frozen=True, eq=False, kw_only=True)
class Require(Node, keyword="require", rows="subset", carries=True):
    """The rows for which `where` is true. Any other row fails with the error `says`.

    A failed row is set aside with its input row, like a row without an answer. In a plan with
    windows, the run ends if the failed row derives from no row of the input that is cut; with
    `ends: false`, that row is left out, with a note. With `fails: false` all rows stay, and the
    metrics of the run count the texts of those for which `where` is not true.
    """

    input: Node = argument("input")
    where: Scalar = argument("scalar")
    says: Scalar = argument("scalar")
    ends: bool = argument("flag", default=True, added=True)
    fails: bool = argument("flag", default=True, added=True)

    def infer(self) -> pa.Schema:
        for name, scalar, kind in (
            ("where", self.where, pa.bool_()),
            ("says", self.says, pa.string()),
        ):
            with faults_at(name):
                expect_type(scalar, self.input.schema, kind, windows=name == "where")
        return self.input.schema

    @property
    def is_identity(self) -> bool:
        return always(self.where)
