"""SQL scalars: one expression over the columns of one relation. Parsed and admitted here, typed by DuckDB (`binder`).

sqlglot reads far more than a scalar (`a; DROP TABLE x`, sub-queries), so what is admitted is a list of node types, and all
else is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Any

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from semgraph.errors import Fault, did_you_mean
from semgraph.expr.brackets import unclosed
from semgraph.expr.dialect import Faithful
from semgraph.expr.sizes import bounded, refuse_deep, refuse_long, refuse_many

NOW = "now"
_ADMITTED: tuple[type[exp.Expr], ...] = (
    exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.Binary, exp.Unary,
    exp.Between, exp.In, exp.Case, exp.If, exp.Cast, exp.DataType, exp.DataTypeParam, exp.Func, exp.Window,
    exp.WindowSpec, exp.Order, exp.Ordered, exp.Filter, exp.Where, exp.Distinct, exp.Lambda, exp.Bracket,
    exp.PropertyEQ, exp.Interval, exp.Var, exp.Tuple, exp.Slice, exp.Parameter, exp.Placeholder, exp.Star,
    exp.Comprehension, exp.AtTimeZone, exp.Escape, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup,
    exp.Kwarg, exp.ColumnDef, exp.IntervalSpan, exp.JSONPath, exp.JSONPathPart, exp.JSONKeyValue,
)  # fmt: skip


@dataclass(frozen=True)
class Scalar:
    """An admitted SQL scalar.

    Args:
        text: As the plan says it.
        sql: Canonical DuckDB SQL: identifiers quoted, parameters substituted. What fingerprints are made of.
        columns: Paths of the columns read, such as `name` or `cand.name_key`; sorted.
    """

    text: str
    sql: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return self.text

    @property
    def roots(self) -> frozenset[str]:
        """The columns read, without struct fields."""
        return frozenset(path.split(".")[0] for path in self.columns)

    @property
    def fields(self) -> frozenset[str]:
        """As `columns`, but `cand.` for a column of which only IS NULL is asked."""
        return _fields(self.sql)

    @property
    def has_window(self) -> bool:
        """Whether it looks at other rows, so that it cannot move past an operator that drops some."""
        return _has_window(self.sql)

    @property
    def ast(self) -> exp.Expr:
        """A fresh syntax tree of `sql`."""
        return _tree(self.sql).copy()

    @property
    def asks_now(self) -> bool:
        """Whether it depends on `$now`, the time of a window."""
        return _tree(self.sql).find(exp.Parameter, exp.Placeholder) is not None

    def conjuncts(self) -> tuple[Scalar, ...]:
        """The parts of a conjunction, which may be moved one by one."""
        tree = self.ast
        while isinstance(tree, exp.Paren):
            tree = tree.this
        if not isinstance(tree, exp.And):
            return (self,)
        return tuple(part for side in tree.flatten() for part in from_ast(side).conjuncts())


def conjunction(parts: Iterable[Scalar]) -> Scalar:
    """All of the parts, as one scalar."""
    tree = exp.and_(*(part.ast for part in parts))
    return from_ast(tree)


@lru_cache(maxsize=4096)
def _tree(sql: str) -> exp.Expr:
    return sqlglot.parse_one(sql, dialect=Faithful)


def to_sql(tree: exp.Expr) -> str:
    """DuckDB SQL of a syntax tree, identifiers quoted."""
    return tree.sql(dialect=Faithful, identify=True, normalize_functions=False)


def from_ast(tree: exp.Expr, text: str | None = None) -> Scalar:
    """A scalar from an admitted syntax tree."""
    sql = to_sql(tree)
    return Scalar(sql if text is None else text, sql, tuple(sorted(set(_paths(tree)))))


def parse_scalar(text: object, params: Mapping[str, Any] | None = None) -> Scalar:
    """Read a scalar and substitute `$parameters`. Raises Fault.

    >>> parse_scalar("length(name) > $least", {"least": 3}).sql
    'LENGTH("name") > 3'
    """
    source = _source(text)
    if not isinstance(source, str):
        msg = f"expected an SQL expression, found {type(text).__name__}"
        raise Fault(msg)
    return _parse(source, params or {}) if "$" in source else _parse_constant(source)


@lru_cache(maxsize=4096)
def _parse_constant(source: str) -> Scalar:
    return _parse(source, {})


def _parse(source: str, params: Mapping[str, Any]) -> Scalar:
    refuse_long(source)
    try:
        parsed = sqlglot.parse(source, dialect=Faithful)
        lacks = unclosed(source)
    except (SqlglotError, RecursionError) as error:
        parsed, lacks = [], _first_line(error)
    if lacks is not None:
        raise Fault(f'cannot read the expression "{short(source)}"', there=lacks)
    tree = parsed[0] if len(parsed) == 1 else None
    if tree is None:
        msg = f'"{short(source)}" is not one expression'
        raise Fault(msg, hint="scalars only: no statement, no semicolon")
    refuse_deep(tree)
    _admit(tree, source)
    substituted = bounded(_substitute(tree, params))
    try:
        found = from_ast(substituted, source)
        _tree(found.sql)
    except (
        SqlglotError,
        ValueError,
    ) as error:  # an operator without what it is applied to, such as "@"; no SQL for a node
        raise Fault(f'cannot read the expression "{short(source)}"', there=_first_line(error)) from None
    return found


def _source(value: object) -> object:
    """YAML reads `true`, `null` and `3` as values; here they are SQL."""
    if value is None or isinstance(value, bool):
        return {None: "NULL", True: "TRUE", False: "FALSE"}[value]
    return str(value) if isinstance(value, (int, float)) else value


def short(text: str) -> str:
    """The beginning of an expression, as messages show it."""
    return text if len(text) <= 80 else text[:77] + "..."


def _first_line(error: BaseException) -> str:
    line = str(error).splitlines()[0] if str(error) else type(error).__name__
    return re.sub(r"Required keyword: '\w+' missing for <class '[^']*'>", "Something is missing", line)


def _admit(tree: exp.Expr, source: str) -> None:
    for node in tree.walk():
        if isinstance(node, (exp.Query, exp.Exists)):
            msg = f'"{short(source)}" holds a sub-query'
            raise Fault(msg, hint="scalars only: join the relation in a step of its own")
        if isinstance(node, exp.Alias):
            msg = f'"{short(source)}" names its value'
            raise Fault(msg, hint="the name is the key: {name: expression}")
        if isinstance(node, exp.Star) and not isinstance(node.parent, exp.Count):
            msg = f'"{short(source)}": * is not a scalar'
            raise Fault(msg, hint="list the columns; count(*) is fine")
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Func):
            name = str(node.expression.this).lower() if isinstance(node.expression, exp.Anonymous) else "f"
            raise Fault(f'"{short(source)}" calls a function behind a dot', hint=f"write {name}(x), not x.{name}()")
        if not isinstance(node, _ADMITTED):
            msg = f'"{short(source)}": {type(node).__name__.lower()} has no place in a scalar'
            raise Fault(msg, hint="scalars only: no statement, no sub-query")


def _substitute(tree: exp.Expr, params: Mapping[str, Any]) -> exp.Expr:
    def change(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Anonymous) and str(node.this).lower() == "id":
            listed = exp.Anonymous(this="json_array", expressions=node.expressions)
            return exp.Anonymous(this="uuid5", expressions=[exp.cast(listed, "varchar")])
        if isinstance(node, (exp.Parameter, exp.Placeholder)):
            name = str(node.this.name if isinstance(node.this, exp.Expr) else node.this)
            if name == NOW:
                return node
            if name not in params:
                known = [f"${p}" for p in dict.fromkeys((*params, NOW))]
                msg = f'no parameter "${name}"'
                raise Fault(msg, there="parameters: " + ", ".join(known), hint=did_you_mean(f"${name}", known))
            return literal(params[name])
        return node

    return tree.transform(change)


def literal(value: Any) -> exp.Expr:
    """A plain value as SQL. Raises Fault for what has no SQL form."""
    if isinstance(value, (list, tuple)):
        refuse_many(len(value))
        return exp.Array(expressions=[literal(v) for v in value])
    if isinstance(value, (int, float)) and value < 0:
        return exp.Paren(this=exp.convert(value))
    if value is None or isinstance(value, (str, int, float, bool)):
        return exp.convert(value)
    if isinstance(value, date):
        return exp.convert(value.isoformat())
    msg = f"a parameter in an expression is text, a number, a time, true, false, null or a list, not {type(value).__name__}"
    raise Fault(msg)


def _paths(tree: exp.Expr) -> Iterator[str]:
    for column in tree.find_all(exp.Column):
        yield from _path_of(column)


def _path_of(column: exp.Column) -> Iterator[str]:
    if column.name:
        parts = [part.name for part in column.parts if not isinstance(part, exp.Star)]
        outer: exp.Expr = column
        while isinstance(outer.parent, exp.Dot) and outer.parent.this is outer:
            outer = outer.parent
            if isinstance(outer.expression, exp.Identifier):
                parts.append(outer.expression.name)
        if parts and parts[0] not in _bound_names(column):
            yield ".".join(parts)


@lru_cache(maxsize=4096)
def _has_window(sql: str) -> bool:
    return _tree(sql).find(exp.Window) is not None


@lru_cache(maxsize=4096)
def _fields(sql: str) -> frozenset[str]:
    found = set()
    for column in _tree(sql).find_all(exp.Column):
        tested = isinstance(column.parent, exp.Is) and isinstance(column.parent.expression, exp.Null)
        path = next(_path_of(column), None)
        if path is not None:
            found.add(f"{path}." if tested and "." not in path else path)
    return frozenset(found)


def _bound_names(node: exp.Expr) -> set[str]:
    """Names that a lambda or a list comprehension around the node binds."""
    names: set[str] = set()
    parent = node.parent
    while parent is not None:
        if isinstance(parent, exp.Lambda):
            names |= {e.name for e in parent.expressions}
        if isinstance(parent, exp.Comprehension):
            names.add(parent.expression.name)
        parent = parent.parent
    return names
