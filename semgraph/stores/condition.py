"""Which conjuncts a store can answer itself, and what they are in its query language.

The list is short on purpose: comparisons, AND, OR, NOT, IS NULL, BETWEEN, IN over literals and COALESCE mean the same with
NULLs in DuckDB, SQLite and Cypher. What is not on it runs in DuckDB.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import ClassVar, Protocol

from sqlglot import exp

from semgraph.errors import EngineError
from semgraph.expr import Scalar

Plain = str | int | float | bool | datetime | date | None
_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_TEMPORAL = {
    exp.DataType.Type.TIMESTAMP: "timestamp",
    exp.DataType.Type.TIMESTAMPNTZ: "timestamp",
    exp.DataType.Type.TIMESTAMPTZ: "timestamp",
    exp.DataType.Type.DATE: "date",
}
_CONNECTIVES = (exp.Paren, exp.And, exp.Or, exp.Not, exp.Is, exp.In, exp.Between, exp.Coalesce)
_COMPARABLE = {
    "string": "text", "json": "text", "enum": "text", "int64": "number", "double": "number", "boolean": "boolean",
    "timestamp": "timestamp", "date": "date", "null": "null",
}  # fmt: skip
_INT64 = 2**63


@dataclass(frozen=True)
class Term:
    """Text in a store's query language, and the name of its type (as in `Type.name`, or "null")."""

    text: str
    kind: str


class Names(Protocol):
    """What a store knows that a conjunct does not say."""

    brackets: ClassVar[tuple[str, str]]
    """What stands around the list after IN."""

    def column(self, path: str) -> Term:
        """A column read by the conjunct: `alias.property`, or a column of the rows, dotted for struct fields."""
        ...

    def value(self, value: Plain) -> str:
        """Bind a value and return what stands for it in the text. Timestamps are in UTC."""
        ...


class _NotAdmitted(Exception):
    pass


class _NoConstant(Exception):
    pass


def admits(scalar: Scalar, alias: str | None) -> bool:
    """Whether a conjunct is made only of what every store can answer.

    >>> from semgraph.expr import parse_scalar
    >>> (
    ...     admits(parse_scalar("hit.at <= at OR hit.at IS NULL"), "hit"),
    ...     admits(parse_scalar("lower(hit.name) = name"), "hit"),
    ... )
    (True, False)
    """
    try:
        _check(scalar.ast, alias)
    except _NotAdmitted:
        return False
    return True


def _check(node: exp.Expr, alias: str | None) -> None:
    if _is_constant(node):
        return
    path = _path(node)
    if path is not None:
        if alias is not None and path.split(".")[0] == alias and path.count(".") != 1:
            raise _NotAdmitted
        return
    if isinstance(node, exp.Is) and not isinstance(node.expression, exp.Null):
        raise _NotAdmitted
    if isinstance(node, exp.In) and not (node.expressions and all(map(_is_constant, node.expressions))):
        raise _NotAdmitted
    if not isinstance(node, _CONNECTIVES) and type(node) not in _COMPARISONS:
        raise _NotAdmitted
    for inner in _operands(node):
        _check(inner, alias)


def _operands(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Between):
        return [node.this, node.args["low"], node.args["high"]]
    if isinstance(node, exp.Binary):
        return [node.this, node.expression]
    return [node.this, *node.expressions]


def _path(node: exp.Expr) -> str | None:
    if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star):
        return ".".join(part.name for part in node.parts)
    if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        outer = _path(node.this)
        return outer and f"{outer}.{node.expression.name}"
    return None


def _is_constant(node: exp.Expr) -> bool:
    try:
        _constant(node)
    except _NoConstant:
        return False
    return True


def _constant(node: exp.Expr) -> Plain:
    if isinstance(node, exp.Paren):
        return _constant(node.this)
    if isinstance(node, exp.Null):
        return None
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if isinstance(node, exp.Literal):
        return str(node.this) if node.is_string else _number(str(node.this))
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return -_number(str(node.this.this))
    if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal) and node.this.is_string:
        kind = _TEMPORAL.get(node.to.this)
        if kind is not None and (found := _time(str(node.this.this), kind)) is not None:
            return found
    raise _NoConstant


def _number(text: str) -> int | float:
    try:
        number: int | float = int(text)
    except ValueError:
        return float(text)
    if abs(number) >= _INT64:
        raise _NoConstant
    return number


def _time(text: str, kind: str) -> datetime | date | None:
    try:
        if kind == "date":
            return date.fromisoformat(text)
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _kind(value: Plain) -> str:
    kinds = (
        (type(None), "null"),
        (bool, "boolean"),
        (int, "int64"),
        (float, "double"),
        (datetime, "timestamp"),
        (date, "date"),
    )
    return next((name for type_, name in kinds if isinstance(value, type_)), "string")


def render(scalar: Scalar, names: Names) -> str:
    """An admitted conjunct in a store's query language. Raises EngineError for types that do not compare."""
    return _Renderer(scalar, names).term(scalar.ast).text


class _Renderer:
    def __init__(self, scalar: Scalar, names: Names) -> None:
        self.scalar, self.names = scalar, names

    def term(self, node: exp.Expr) -> Term:
        if _is_constant(node):
            return self.bound(_constant(node))
        path = _path(node)
        if path is not None:
            return self.names.column(path)
        if isinstance(node, (exp.Coalesce, exp.In, exp.Between)) or type(node) in _COMPARISONS:
            return self.alike(node)
        inner = self.term(node.this)
        if isinstance(node, (exp.And, exp.Or)):
            word = "AND" if isinstance(node, exp.And) else "OR"
            return Term(f"({inner.text} {word} {self.term(node.expression).text})", "boolean")
        if isinstance(node, exp.Paren):
            return inner
        return Term(f"(NOT {inner.text})" if isinstance(node, exp.Not) else f"({inner.text} IS NULL)", "boolean")

    def bound(self, value: Plain) -> Term:
        if value is None or isinstance(value, bool):
            return Term({None: "NULL", True: "TRUE", False: "FALSE"}[value], _kind(value))
        return Term(self.names.value(value), _kind(value))

    def alike(self, node: exp.Expr) -> Term:
        """What compares its operands, so that they must be of one kind."""
        terms = self.of_one_kind(_operands(node))
        first, *rest = (term.text for term in terms)
        if isinstance(node, exp.Coalesce):
            kind = next((term.kind for term in terms if term.kind != "null"), "null")
            return Term(f"coalesce({', '.join([first, *rest])})" if rest else first, kind)
        if isinstance(node, exp.In):
            opening, closing = self.names.brackets
            return Term(f"({first} IN {opening}{', '.join(rest)}{closing})", "boolean")
        if isinstance(node, exp.Between):
            return Term(f"({first} >= {rest[0]} AND {first} <= {rest[1]})", "boolean")
        return Term(f"({first} {_COMPARISONS[type(node)]} {rest[0]})", "boolean")

    def of_one_kind(self, nodes: list[exp.Expr]) -> list[Term]:
        read = [None if _is_constant(node) else self.term(node) for node in nodes]
        temporal = next((t.kind for t in read if t is not None and t.kind in ("timestamp", "date")), None)
        terms = [self.fitting(node, temporal) if t is None else t for node, t in zip(nodes, read, strict=True)]
        if len({_COMPARABLE.get(t.kind, t.kind) for t in terms} - {"null"}) > 1 or any(
            t.kind not in _COMPARABLE for t in terms
        ):
            kinds = " with ".join(t.kind for t in terms)
            msg = f'a store cannot compare {kinds} in "{self.scalar.text}": compare values of one type'
            raise EngineError(msg)
        return terms

    def fitting(self, node: exp.Expr, temporal: str | None) -> Term:
        """A constant; a text that is compared with times is read as one, as DuckDB does."""
        value = _constant(node)
        if temporal is not None and isinstance(value, str):
            found = _time(value, temporal)
            if found is None:
                msg = (
                    f'"{value}" in "{self.scalar.text}" is no {temporal}: write it as in ISO 8601, 2025-01-31T12:00:00Z'
                )
                raise EngineError(msg)
            value = found
        return self.bound(value)


def pins(scalar: Scalar, alias: str, properties: Collection[str]) -> bool:
    """Whether a conjunct leaves only hits whose value of one of the properties is among a few known ones.

    >>> from semgraph.expr import parse_scalar
    >>> pins(parse_scalar("hit.source = a AND hit.target = b OR hit.source = b"), "hit", {"source"})
    True
    """
    return _pins(scalar.ast, alias, properties)


def _pins(node: exp.Expr, alias: str, properties: Collection[str]) -> bool:
    if isinstance(node, exp.Paren):
        return _pins(node.this, alias, properties)
    if isinstance(node, exp.And):
        return _pins(node.this, alias, properties) or _pins(node.expression, alias, properties)
    if isinstance(node, exp.Or):
        return _pins(node.this, alias, properties) and _pins(node.expression, alias, properties)
    if not isinstance(node, (exp.EQ, exp.In)):
        return False
    pinned = {f"{alias}.{name}" for name in properties}
    if isinstance(node, exp.In):
        return _path(node.this) in pinned
    sides = (node.this, node.expression), (node.expression, node.this)
    return any(_path(hit) in pinned and not _reads(value, alias) for hit, value in sides)


def _reads(node: exp.Expr, alias: str) -> bool:
    return any(column.parts[0].name == alias for column in node.find_all(exp.Column))
