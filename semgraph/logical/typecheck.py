"""Checks of arguments, shared by all operators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from semgraph.errors import Fault, did_you_mean
from semgraph.expr.duckdb import (
    check_columns,
    check_over_rows,
    stands_for,
    type_of,
    type_over_groups,
)
from semgraph.expr.scalar import Scalar, paths_for, short
from semgraph.expr.types import sql_type, type_of_arrow

Columns = tuple[tuple[str, Scalar], ...]
Using = tuple[tuple[str, str], ...]  # pairs (left path, right path)


@dataclass(frozen=True)
class Sort:
    """One term of an order. NULLs come last, whatever the direction."""

    tag: ClassVar[str] = "Sort"
    by: Scalar
    descending: bool = False

    def __str__(self) -> str:
        return f"{self.by}{' desc' if self.descending else ''}"


@dataclass(frozen=True)
class Stop:
    """When enough rows are known: the first `n` by `order`, of the whole relation or of each group
    of equal `by`.

    The optimizer sets it on an operator of which a limit above needs no more.
    """

    tag: ClassVar[str] = "Stop"
    n: int
    by: tuple[str, ...] = ()
    order: tuple[Sort, ...] = ()


def merged(schema: pa.Schema, columns: list[pa.Field[Any]]) -> pa.Schema:
    """A schema with columns replaced where the name is there, else put at the end."""
    fields = {f.name: f for f in schema}
    fields |= {f.name: f for f in columns}
    return pa.schema(list(fields.values()))


def fresh(schema: pa.Schema, name: str, what: str) -> None:
    """Refuse a name that is a column already."""
    if name in schema.names:
        msg = f'{what} "{name}" is a column already'
        raise Fault(
            msg, there="columns here: " + ", ".join(schema.names), hint="choose another name"
        )


def struct_of(schema: pa.Schema) -> pa.DataType:
    """The type of a row, as one struct column."""
    return pa.struct(list(schema))


def combined(
    left: pa.Schema, right: pa.Schema, alias: str, fields: tuple[str, ...] | None = None
) -> pa.Schema:
    """Left columns and the right row as a struct (of some fields): what a join's condition sees."""
    brought = right if fields is None else pa.schema([f for f in right if f.name in fields])
    return left.append(pa.field(alias, struct_of(brought)))


def check_sort(order: tuple[Sort, ...], schema: pa.Schema, key: str = "order") -> None:
    """Type every term of an order, the argument `key`."""
    for i, term in enumerate(order):
        try:
            type_of(term.by, schema)
            check_over_rows(term.by, schema, windows=False)
        except Fault as fault:
            raise fault.under(key, i) from None


def check_names(names: tuple[str, ...], schema: pa.Schema, key: str) -> None:
    """Refuse names of unknown columns."""
    for i, name in enumerate(names):
        if name not in schema.names:
            msg = f'no column "{name}"'
            there = "columns here: " + ", ".join(schema.names)
            raise Fault(msg, key, i, there=there, hint=did_you_mean(name, schema.names))


def check_using(using: Using, left: pa.Schema, right: pa.Schema) -> None:
    """Both sides of every pair must be there and of one type."""
    for i, (a, b) in enumerate(using):
        sides = []
        for path, schema in ((a, left), (b, right)):
            scalar = column_scalar(path)
            try:
                check_columns(scalar, schema)
                sides.append(type_of(scalar, schema))
            except Fault as fault:
                raise fault.under("using", i) from None
        if sides[0] != sides[1]:
            msg = f'"{a}" is {type_of_arrow(sides[0])}, "{b}" is {type_of_arrow(sides[1])}'
            raise Fault(msg, "using", i, hint="cast one of them in a step before")


def typed(
    columns: Columns, schema: pa.Schema, key: str, *, windows: bool = True
) -> list[pa.Field[Any]]:
    """The fields of columns that are computed from rows."""

    def kind(scalar: Scalar) -> pa.DataType:
        result = type_of(scalar, schema)
        check_over_rows(scalar, schema, windows=windows)
        return result

    return _fields(columns, key, kind)


def typed_of_groups(
    columns: Columns, schema: pa.Schema, key: str, groups: Sequence[str] = ()
) -> list[pa.Field[Any]]:
    """The fields of columns that are computed from groups of rows, which are equal in `groups`
    (SQL).
    """
    return _fields(columns, key, lambda scalar: type_over_groups(scalar, schema, groups))


def _fields(
    columns: Columns, key: str, kind: Callable[[Scalar], pa.DataType]
) -> list[pa.Field[Any]]:
    fields = []
    for name, scalar in columns:
        try:
            fields.append(pa.field(name, kind(scalar)))
        except Fault as fault:
            raise fault.under(key, name) from None
    return fields


def check_standing_in(
    columns: Columns,
    schema: pa.Schema,
    key: str,
    answers: Iterable[pa.Field[Any]],
    groups: Sequence[str] | None = None,
) -> None:
    """Refuse columns that cannot replace the answers of rows without a call; a NULL replaces an answer
    of any type. With `groups`, SQL of what is equal in a group, they are those of groups of rows.
    """
    kinds = {f.name: f.type for f in answers}
    for name, scalar in columns:
        try:
            _check_stands_for(name, scalar, schema, key, kinds, groups)
        except Fault as fault:
            raise fault.under(key, name) from None


def _check_stands_for(
    name: str,
    scalar: Scalar,
    schema: pa.Schema,
    key: str,
    kinds: dict[str, pa.DataType],
    groups: Sequence[str] | None,
) -> None:
    if name not in kinds:
        msg = f'{key}: "{name}" is not an answer of this prompt'
        raise Fault(msg, there="its answers: " + ", ".join(kinds), hint=did_you_mean(name, kinds))
    own = type_of(scalar, schema) if groups is None else type_over_groups(scalar, schema, groups)
    alike = own == kinds[name]
    if not alike and (
        (groups is not None and scalar.columns) or not stands_for(scalar, schema, kinds[name])
    ):
        actual, wanted = type_of_arrow(own), type_of_arrow(kinds[name])
        raise Fault(f'{key}: "{scalar.text}" is {actual}, but the answer "{name}" is {wanted}')
    if groups is None:
        check_over_rows(scalar, schema)


def expect_type_of_groups(
    scalar: Scalar, schema: pa.Schema, wanted: pa.DataType, groups: Sequence[str]
) -> None:
    """Refuse a scalar over groups of rows that has another type. Raises Fault."""
    kind = type_over_groups(scalar, schema, groups)
    if kind != wanted:
        raise Fault(
            f'"{short(scalar.text)}" is {type_of_arrow(kind)}, expected {type_of_arrow(wanted)}'
        )


def computed_sql(scalar: Scalar, kind: pa.DataType) -> str:
    """SQL of a computed column, cast to the type that the schema has."""
    plain = len(scalar.columns) == 1 and scalar.sql == f'"{scalar.columns[0]}"'
    return scalar.sql if plain else f"CAST({scalar.sql} AS {sql_type(kind)})"


def column_scalar(path: str) -> Scalar:
    """A column, or a field of a struct column, as a scalar."""
    return Scalar(path, ".".join(f'"{part}"' for part in path.split(".")), (path,))


def needed_columns(columns: Columns, needed: frozenset[str]) -> Columns:
    """The computed columns that are needed, by paths."""
    roots = {path.split(".")[0] for path in needed}
    return tuple((name, scalar) for name, scalar in columns if name in roots)


def read_through(columns: Columns, needed: frozenset[str]) -> frozenset[str]:
    """The paths that computed columns read, where only these paths of them are needed."""
    paths: set[str] = set()
    for name, scalar in columns:
        fields = frozenset(p.split(".", 1)[1] for p in needed if p.startswith(f"{name}.")) - {""}
        paths |= scalar.fields if name in needed else paths_for(scalar, fields)
    return frozenset(paths)


def with_own(
    needed: frozenset[str] | None, alias: str, using: Using, scalars: Iterable[Scalar]
) -> frozenset[str] | None:
    """What a join needs of its other side: what is needed of `alias`, and what its own conditions
    read of it.
    """
    own = frozenset().union(*(s.fields for s in scalars))
    if needed is None or alias in own:
        return None
    fields = {path.split(".", 1)[1] for path in own if path.startswith(f"{alias}.")} - {""}
    return needed | fields | {right for _, right in using}


def joined_fields(
    needed: frozenset[str], alias: str, using: Using, scalars: Iterable[Scalar], right: pa.Schema
) -> tuple[str, ...] | None:
    """The fields of the other row that a join must bring: what is needed of `alias`, and what its
    conditions read.
    """
    own = frozenset().union(*(s.fields for s in scalars), needed)
    if alias in own:
        return None
    wanted = {path.split(".")[1] for path in own if path.startswith(f"{alias}.")} | {
        r.split(".")[0] for _, r in using
    }
    names = tuple(name for name in right.names if name in wanted)
    return names or tuple(right.names[:1])
