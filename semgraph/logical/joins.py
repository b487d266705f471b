"""Operators over several relations: joins and unions.

What the other side of a join brings is one struct column, so names never clash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import pyarrow as pa

from semgraph.errors import Fault
from semgraph.expr.places import expect_type
from semgraph.expr.scalar import Scalar, parse_scalar
from semgraph.expr.types import sql_type, type_of_arrow
from semgraph.logical.checks import (
    Columns,
    Sort,
    Using,
    check_sort,
    check_using,
    combined,
    fresh,
    joined_fields,
    kept,
    merged,
    typed_of_groups,
    with_own,
)
from semgraph.logical.node import Needs, Node, RowsTrait, argument, under
from semgraph.logical.relational import Add, Project

JoinHow = Literal["inner", "left", "semi", "anti"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Join(Node):
    """⋈: pairs of rows for which `using` (equal paths) and `where` hold. `where` sees the left columns and `alias`.

    `semi` and `anti` keep the left rows with and without a match, and bring nothing.
    """

    keyword: ClassVar[str] = "join"
    relational: ClassVar[bool] = True
    carries: ClassVar[bool] = True
    by_row: ClassVar[bool] = True
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
        if not self.using and self.where is None:
            raise Fault("a join needs using or where", hint='all pairs: where: "TRUE"')
        if self.where is not None:
            with self.check("where"):
                expect_type(self.where, combined(left, right, alias, self.fields), pa.bool_(), windows=False)
        if self.how in {"semi", "anti"}:
            return left
        if not self.alias:
            raise Fault("an inner or left join needs alias, the name of the column with the other row")
        with self.check("alias"):
            fresh(left, self.alias, "alias")
        return combined(left, right, self.alias, self.fields)

    def narrowed(self, needed: frozenset[str]) -> Node:
        if self.how in {"semi", "anti"}:
            return self
        scalars = [self.where] if self.where else []
        return replace(self, fields=joined_fields(needed, self.alias, self.using, scalars, self.other.schema))

    @cached_property
    def partitioned(self) -> bool:
        """A semi or anti join only keeps left rows."""
        return self.input.partitioned or (self.how not in {"semi", "anti"} and self.other.partitioned)

    def gives_nothing(self, empty: Sequence[bool]) -> bool:
        return empty[0] or (empty[1] and self.how in {"inner", "semi"})

    def without(self, empty: Sequence[bool]) -> Node:
        """Without another side an anti join keeps every row, and a left join adds NULL."""
        if not empty[1] or self.how not in {"anti", "left"}:
            return self
        if self.how == "anti":
            return self.input
        null = parse_scalar(f"CAST(NULL AS {sql_type(self.schema.field(self.alias).type)})")
        return Add(input=self.input, columns=((self.alias, null),), step=self.step, origin=self.origin)

    @property
    def adds(self) -> frozenset[str]:
        return frozenset() if self.how in {"semi", "anti"} else frozenset({self.alias})

    @property
    def drops(self) -> bool:
        return self.how != "left"

    @property
    def reads(self) -> frozenset[str]:
        own = frozenset(a.split(".")[0] for a, _ in self.using)
        return own | (self.where.roots - {self.alias or "_right"} if self.where else frozenset())

    def other_needs(self, needed: Needs) -> tuple[Needs, ...]:
        alias = self.alias or "_right"
        wanted = frozenset[str]() if self.how in {"semi", "anti"} else under(needed, alias)
        return (with_own(wanted, alias, self.using, [self.where] if self.where else []),)


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupJoin(Node):
    """Each left row once, with aggregates of its matches: `order` and `limit` choose among them, `add` aggregates `alias`."""

    keyword: ClassVar[str] = "group_join"
    relational: ClassVar[bool] = True
    rows: ClassVar[RowsTrait] = "1:1"
    carries: ClassVar[bool] = True
    by_row: ClassVar[bool] = True
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
        with self.check("alias"):
            fresh(left, self.alias, "alias")
        check_using(self.using, left, right)
        both = combined(left, right, self.alias)
        if not self.using and self.where is None:
            raise Fault("a group_join needs using or where")
        if self.where is not None:
            with self.check("where"):
                expect_type(self.where, both, pa.bool_(), windows=False)
        check_sort(self.order, both)
        return merged(left, typed_of_groups(self.add, both, "add"))

    @property
    def adds(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.add)

    @property
    def reads(self) -> frozenset[str]:
        scalars = [*(s for _, s in self.add), *(t.by for t in self.order), *([self.where] if self.where else [])]
        own = frozenset(a.split(".")[0] for a, _ in self.using)
        return (own | frozenset().union(*(s.roots for s in scalars))) - {self.alias}

    def other_needs(self, needed: Needs) -> tuple[Needs, ...]:  # noqa: ARG002
        scalars = [*(s for _, s in self.add), *(t.by for t in self.order), *([self.where] if self.where else [])]
        return (with_own(frozenset(), self.alias, self.using, scalars),)

    def narrowed(self, needed: frozenset[str]) -> Node:
        return replace(self, add=kept(self.add, needed) or self.add[:1])


def common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type of what two structs both have, in the order of the first; None for types of which one is no struct."""
    if one == other:
        return one
    if not pa.types.is_struct(one) or not pa.types.is_struct(other):
        return None
    theirs = {f.name: f.type for f in other}
    found = []
    for f in one:
        kind = common(f.type, theirs[f.name]) if f.name in theirs else f.type
        if kind is None:
            return None
        if f.name in theirs:
            found.append(pa.field(f.name, kind))
    return pa.struct(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class Union(Node):
    """∪ (all rows, the first relation's first): relations with the same columns, matched by name."""

    keyword: ClassVar[str] = "union"
    sole: ClassVar[str] = "relations"
    relational: ClassVar[bool] = True
    relations: tuple[Node, ...] = argument("relations")
    fields: tuple[str, ...] | None = None

    def infer(self) -> pa.Schema:
        first = self.relations[0].schema
        for i, node in enumerate(self.relations[1:], 1):
            mine, theirs = set(first.names), set(node.schema.names)
            if mine != theirs and self.fields is None:
                missing, more = sorted(mine - theirs), sorted(theirs - mine)
                there = "; ".join(
                    f"{word} {', '.join(names)}" for word, names in (("without", missing), ("also with", more)) if names
                )
                raise Fault("the relations of a union differ", "relations", i, there=f"this one is {there}")
        return pa.schema([self._column(f) for f in first if self.fields is None or f.name in self.fields])

    def _column(self, first: pa.Field[Any]) -> pa.Field[Any]:
        found = first.type
        for i, node in enumerate(self.relations[1:], 1):
            other = node.schema.field(first.name).type
            both = common(found, other)
            if both is None or (both != found and self.fields is None):
                msg = f'column "{first.name}" is {type_of_arrow(found)} in the first relation, {type_of_arrow(other)} here'
                raise Fault(msg, "relations", i)
            found = both
        return pa.field(first.name, found)

    @property
    def reads(self) -> frozenset[str]:
        return frozenset(self.schema.names)

    def first_needs(self, needed: Needs) -> Needs:
        if needed is None:
            return frozenset(self.schema.names)
        return frozenset(p for p in needed if p.split(".")[0] in self.schema.names) or frozenset(self.schema.names)

    def other_needs(self, needed: Needs) -> tuple[Needs, ...]:
        return (self.first_needs(needed),) * (len(self.relations) - 1)

    def with_inputs(self, *inputs: Node) -> Self:
        """As of every node. Rules may narrow structs, each of these relations in its own way: what all have is left."""
        if self.fields is None and any(a is not b for a, b in zip(inputs, self.inputs, strict=True)):
            return replace(self, fields=tuple(self.schema.names)).with_inputs(*inputs)
        return super().with_inputs(*inputs)

    def narrowed(self, needed: frozenset[str]) -> Node:
        roots = {path.split(".")[0] for path in needed}
        kept = tuple(name for name in self.schema.names if name in roots)
        return replace(self, fields=kept or tuple(self.schema.names[:1]))

    def gives_nothing(self, empty: Sequence[bool]) -> bool:
        return all(empty)

    def without(self, empty: Sequence[bool]) -> Node:
        """The relations that may have rows, in their order; the columns stay in that of the first."""
        rest = tuple(node for node, none in zip(self.relations, empty, strict=True) if not none)
        if len(rest) == len(self.relations) or not rest:
            return self
        found = rest[0] if len(rest) == 1 else replace(self, relations=rest)
        if found.schema.names == self.schema.names:
            return found
        columns = tuple((name, parse_scalar(f'"{name}"')) for name in self.schema.names)
        return Project(input=found, columns=columns, step=self.step, origin=self.origin)
