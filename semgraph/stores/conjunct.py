"""What stores take of a conjunct, in no store's language: tests over hit properties, and values that rows alone decide.

Whatever part of a conjunct reads no property of a hit is a `Value`: DuckDB computes it over the rows before the store is
asked, so it means there what it means everywhere, and only comparisons of properties have to be said in Cypher or SQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import pyarrow as pa
from sqlglot import exp

from semgraph.expr import Scalar, Type
from semgraph.expr.dialect import Faithful
from semgraph.expr.names import ROWS
from semgraph.expr.scalar import to_sql
from semgraph.expr.types import type_of_arrow
from semgraph.stores.base import Alias
from semgraph.stores.rows import column

Op = Literal[
    "and",
    "or",
    "not",
    "=",
    "<>",
    "<",
    "<=",
    ">",
    ">=",
    "is null",
    "in",
    "contains",
    "overlaps",
    "coalesce",
    "same",
    "pair",
]


@dataclass(frozen=True)
class Prop:
    """A property of the hit, or of a variable of the pattern."""

    var: str
    name: str


@dataclass(frozen=True)
class Value:
    """DuckDB SQL over columns of the rows, or over none."""

    sql: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Test:
    """An operator and its operands; NULL as in SQL.

    `in` is a needle and its items; `contains` a list and an item, `overlaps` two lists (NULL if an operand is; a NULL inside
    a list counts for nothing); `same` is IS NOT DISTINCT FROM; `pair` is {a, b} = {c, d} in either order, never NULL.
    """

    op: Op
    args: tuple[Term, ...]

    def walk(self) -> Iterator[Term]:
        """This and all below it."""
        yield self
        for arg in self.args:
            yield from arg.walk() if isinstance(arg, Test) else (arg,)


Term = Prop | Value | Test

_COMPARISONS: dict[type[exp.Expr], Op] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "same",
    exp.And: "and",
    exp.Or: "or",
    exp.ArrayContains: "contains",
    exp.ArrayOverlaps: "overlaps",
}


def read(expr: Scalar, alias: Alias) -> Term | None:
    """A conjunct as a term, or None if stores do not take it.

    Args:
        expr: The conjunct.
        alias: One name, or several; None: every `a.b` is a variable and a property; "": every plain name is a property.
    """
    return _read(expr.sql, alias)


@lru_cache(maxsize=4096)
def _read(sql: str, alias: Alias) -> Term | None:
    import sqlglot

    try:
        return _term(sqlglot.parse_one(sql, dialect=Faithful), alias)
    except _Untaken:
        return None


class _Untaken(Exception):
    pass


def _term(tree: exp.Expr, alias: Alias) -> Term:
    while isinstance(tree, exp.Paren):
        tree = tree.this
    columns = list(tree.find_all(exp.Column))
    if not any(_prop(column, alias) for column in columns):
        return _value(tree)
    if isinstance(tree, exp.Column) and (found := _prop(tree, alias)):
        return found
    if type(tree) in _COMPARISONS:
        pair = _pair(tree, alias) if isinstance(tree, exp.EQ) else None
        return pair or Test(_COMPARISONS[type(tree)], (_term(tree.this, alias), _term(tree.expression, alias)))
    return _other(tree, alias)


def _other(tree: exp.Expr, alias: Alias) -> Term:
    def test(op: Op, *parts: exp.Expr) -> Test:
        return Test(op, tuple(_term(part, alias) for part in parts))

    match tree:
        case exp.Not():
            found = test("not", tree.this)
        case exp.NullSafeNEQ():
            found = Test("not", (test("same", tree.this, tree.expression),))
        case exp.Is() if isinstance(tree.expression, exp.Null):
            found = test("is null", tree.this)
        case exp.Between():
            sides = test(">=", tree.this, tree.args["low"]), test("<=", tree.this, tree.args["high"])
            found = Test("and", sides)
        case exp.Coalesce():
            found = test("coalesce", tree.this, *tree.expressions)
        case exp.In() if tree.args.get("field") is not None:
            found = test("contains", tree.args["field"], tree.this)
        case exp.In() if tree.expressions:
            found = test("in", tree.this, *tree.expressions)
        case _:
            raise _Untaken
    return found


def _path(column: exp.Column) -> tuple[str, ...]:
    return tuple(part.name for part in column.parts)


def _prop(column: exp.Column, alias: Alias) -> Prop | None:
    path = _path(column)
    if alias == "":
        return Prop("", path[0]) if len(path) == 1 else None
    names = (alias,) if isinstance(alias, str) else alias
    if len(path) == 2 and (names is None or path[0] in names):
        return Prop(path[0], path[1])
    if names and path[0] in names:
        raise _Untaken
    return None


def of_hit(terms: Sequence[Term], alias: str) -> tuple[Term, ...]:
    """The terms that read the hit alone, not the nodes at its ends."""
    return tuple(term for term in terms if all(part.var == alias for part in _props(term)))


def _props(term: Term) -> Iterator[Prop]:
    return (part for part in (term.walk() if isinstance(term, Test) else (term,)) if isinstance(part, Prop))


def _value(tree: exp.Expr) -> Value:
    if any(isinstance(node, (exp.Parameter, exp.Placeholder, exp.AggFunc, exp.Window)) for node in tree.walk()):
        raise _Untaken
    bound = {name.name for node in tree.find_all(exp.Lambda) for name in node.expressions}
    bound |= {node.expression.name for node in tree.find_all(exp.Comprehension)}
    paths = {".".join(_path(column)) for column in tree.find_all(exp.Column) if _path(column)[0] not in bound}
    return Value(to_sql(tree), tuple(sorted(paths)))


def _pair(tree: exp.EQ, alias: Alias) -> Test | None:
    """`list_sort([hit.source, hit.target]) = list_sort([x, y])`, either way round."""
    sides: list[tuple[Term, ...]] = []
    for side in (tree.this, tree.expression):
        listed = side.this if isinstance(side, exp.ArraySort) else None
        if not isinstance(listed, exp.Array) or len(listed.expressions) != 2:
            return None
        sides.append(tuple(_term(part, alias) for part in listed.expressions))
    sides.sort(key=lambda side: not all(isinstance(part, Prop) for part in side))
    ends = {part.name for part in sides[0] if isinstance(part, Prop)}
    return Test("pair", (*sides[0], *sides[1])) if ends == {"source", "target"} else None


def cast_values(term: Term, type_of: Callable[[Prop], Type | None]) -> Term:
    """The same with the values that meet a time or a date cast to it, as DuckDB would."""
    if not isinstance(term, Test):
        return term
    args = tuple(cast_values(arg, type_of) for arg in term.args)
    found = [type_of(arg) for arg in args if isinstance(arg, Prop)]
    times = [kind for kind in found if kind is not None and kind.name in ("timestamp", "date")]
    if times and term.op not in ("and", "or", "not", "is null", "contains", "overlaps"):
        args = tuple(
            replace(arg, sql=f"CAST({arg.sql} AS {times[0].sql})") if isinstance(arg, Value) else arg for arg in args
        )
    return replace(term, args=args)


def values_of(terms: Sequence[Term]) -> tuple[Value, ...]:
    """The distinct values in the terms, in order."""
    found: dict[Value, None] = {}
    for term in terms:
        for node in term.walk() if isinstance(term, Test) else (term,):
            if isinstance(node, Value):
                found[node] = None
    return tuple(found)


def evaluate(values: Sequence[Value], rows: pa.Table) -> list[pa.Array[Any]]:
    """What each value is for each of the rows, in canonical types."""
    from semgraph.expr.prepared import prepared

    if not values:
        return []
    plain = [_plain(value, rows) for value in values]
    if all(array is not None for array in plain):
        return [array for array in plain if array is not None]
    read_of = sorted({path.split(".")[0] for value in values for path in value.columns})
    numbered = rows.select(read_of).append_column("#n", pa.array(range(rows.num_rows), pa.int64()))
    listed = ", ".join(f'{value.sql} AS "{i}"' for i, value in enumerate(values))
    table = prepared(f'SELECT {listed} FROM {ROWS} ORDER BY "#n"', {ROWS: numbered}).run({ROWS: numbered})
    return [_canonical(table.column(i).combine_chunks()) for i in range(len(values))]


def _canonical(array: pa.Array[Any]) -> pa.Array[Any]:
    wanted = type_of_arrow(array.type).arrow
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.string())  # Arrow makes 0.6000000000000001 of the decimal 0.6
    return array.cast(wanted)


def _plain(value: Value, rows: pa.Table) -> pa.Array[Any] | None:
    """A value that is a column of the rows, or a field of one, without asking DuckDB."""
    if len(value.columns) != 1 or value.sql != ".".join(f'"{part}"' for part in value.columns[0].split(".")):
        return None
    return column(rows, value.columns[0])
