"""The conditions that stores evaluate, in a form common to all stores: tests over properties of
hits, and values that depend only on the rows.

Every part of a conjunct that reads no property of a hit is a `Value`. DuckDB computes it over the
rows before the store is read, so it has its usual meaning. Only comparisons of properties are
translated to Cypher or SQL.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from semgraph.errors import DataError, EngineError, Fault
from semgraph.expr import Scalar, Type
from semgraph.expr.duckdb import type_of as type_of_scalar
from semgraph.expr.scalar import ROWS, Faithful, from_ast
from semgraph.expr.types import TIMESTAMP, type_of_arrow
from semgraph.logical.schema import Label
from semgraph.stores.base import Alias
from semgraph.stores.prepare import column


@dataclass(frozen=True)
class Prop:
    """A property of the hit, or of a variable of the pattern."""

    var: str
    name: str


@dataclass(frozen=True)
class Value:
    """DuckDB SQL over columns of the rows, or a constant."""

    sql: str
    columns: tuple[str, ...]

    @property
    def is_text(self) -> bool:
        """Whether it is a text of the plan, which DuckDB casts to the type of the other operand."""
        return _TEXT.fullmatch(self.sql) is not None


@dataclass(frozen=True)
class Test:
    """An operator and its operands, with NULL as in SQL: `and`, `or`, `not`, `is null`, `coalesce`, a
    comparison as it is written, or one of the following.

    `in` has a needle and its items; `contains` has a list and an item, `overlaps` two lists. Both
    are NULL if an operand is, but an empty list contains no NULL, and a NULL inside a list never
    matches. `same` is IS NOT DISTINCT FROM. `pair` is {a, b} = {c, d} in either order, never NULL.
    """

    op: str
    args: tuple[Term, ...]


Term = Prop | Value | Test
TypeOf = Callable[[Prop], Type | None]  # the type of a property; None for vectors


def parts_of(term: Term) -> Iterator[Term]:
    """A term and all terms below it."""
    yield term
    for arg in term.args if isinstance(term, Test) else ():
        yield from parts_of(arg)


# DuckDB casts the operands of these to one type.
_SAME_TYPE = frozenset({"=", "<>", "<", "<=", ">", ">=", "in", "same", "coalesce"})
_BOOLEAN = Type("boolean")
_TEXT = re.compile(r"'(?:[^']|'')*'")
_COMPARISONS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.NEQ: "<>", exp.NullSafeEQ: "same"}
_COMPARISONS |= {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=", exp.And: "and"}
_COMPARISONS |= {exp.Or: "or", exp.ArrayContains: "contains", exp.ArrayOverlaps: "overlaps"}


@lru_cache(maxsize=4096)
def read(expr: Scalar, alias: Alias) -> Term | None:
    """Read a conjunct as a term; None if stores cannot evaluate it. The alias is one name, or
    several; None: every `a.b` is a variable and a property; "": every name without an alias is a
    property.
    """
    import sqlglot

    try:
        return _term(sqlglot.parse_one(expr.sql, dialect=Faithful), alias)
    except _Unsupported:
        return None


class _Unsupported(Exception):
    pass


def _term(tree: exp.Expr, alias: Alias) -> Term:
    tree = tree.unnest()
    if not any(_prop(column, alias) for column in tree.find_all(exp.Column)):
        return _value(tree)
    if isinstance(tree, exp.Column) and (prop := _prop(tree, alias)):
        return prop
    return (isinstance(tree, exp.EQ) and _pair(tree, alias)) or _test(tree, alias)


def _test(tree: exp.Expr, alias: Alias) -> Test:
    def test(op: str, *parts: exp.Expr) -> Test:
        return Test(op, tuple(_term(part, alias) for part in parts))

    match tree:
        case _ if type(tree) in _COMPARISONS:
            term = test(_COMPARISONS[type(tree)], tree.this, tree.expression)
        case exp.Not():
            term = test("not", tree.this)
        case exp.NullSafeNEQ():
            term = Test("not", (test("same", tree.this, tree.expression),))
        case exp.Is() if isinstance(tree.expression, exp.Null):
            term = test("is null", tree.this)
        case exp.Between():
            low, high = tree.args["low"], tree.args["high"]
            term = Test("and", (test(">=", tree.this, low), test("<=", tree.this, high)))
        case exp.Coalesce():
            term = test("coalesce", tree.this, *tree.expressions)
        case exp.In(args={"field": exp.Array() as listed}) if _are_literals(listed):
            term = test("in", tree.this, *listed.expressions)
        case exp.In() if tree.args.get("field") is not None:
            term = test("contains", tree.args["field"], tree.this)
        case exp.In() if tree.expressions:
            term = test("in", tree.this, *tree.expressions)
        case _:
            raise _Unsupported
    return term


def _are_literals(listed: exp.Array) -> bool:
    return bool(listed.expressions) and all(isinstance(i, exp.Literal) for i in listed.expressions)


def _prop(column: exp.Column, alias: Alias) -> Prop | None:
    path = [part.name for part in column.parts]
    if alias == "":
        return Prop("", path[0]) if len(path) == 1 else None
    names = (alias,) if isinstance(alias, str) else alias
    if len(path) == 2 and (names is None or path[0] in names):
        return Prop(path[0], path[1])
    if names and path[0] in names:
        raise _Unsupported
    return None


def read_all(scalars: Sequence[Scalar], alias: Alias, type_of: TypeOf) -> tuple[Term, ...]:
    """Conjuncts as terms, values cast to what they are compared with. Raises EngineError."""
    terms = []
    for scalar in scalars:
        term = read(scalar, alias)
        if term is None:
            raise EngineError(f'stores do not take the condition "{scalar.text}"')
        terms.append(cast_values(term, type_of)[0])
    return tuple(terms)


def of_hit(terms: Sequence[Term], alias: str) -> tuple[Term, ...]:
    """The terms that read only the hit, not the nodes at its ends."""

    def reads_hit(term: Term) -> bool:
        return all(part.var == alias for part in parts_of(term) if isinstance(part, Prop))

    return tuple(filter(reads_hit, terms))


def _value(tree: exp.Expr) -> Value:
    if tree.find(exp.Parameter, exp.Placeholder, exp.AggFunc, exp.Window):
        raise _Unsupported
    scalar = from_ast(tree)
    return Value(scalar.sql, scalar.columns)


def _pair(tree: exp.EQ, alias: Alias) -> Test | None:
    """`list_sort([hit.source, hit.target]) = list_sort([x, y])`, with the sides in either order."""
    sides: list[tuple[Term, ...]] = []
    for side in (tree.this, tree.expression):
        listed = side.this if isinstance(side, exp.ArraySort) else None
        if not isinstance(listed, exp.Array) or len(listed.expressions) != 2:
            return None
        sides.append(tuple(_term(part, alias) for part in listed.expressions))
    sides.sort(key=lambda side: not all(isinstance(part, Prop) for part in side))
    ends = {part.name for part in sides[0] if isinstance(part, Prop)}
    return Test("pair", (*sides[0], *sides[1])) if ends == {"source", "target"} else None


def cast_values(term: Term, type_of: TypeOf) -> tuple[Term, Type | None]:
    """A term that `compares_alike`, with values cast to the types that they are compared with, and
    the type of its properties; None if they have none.
    """
    if isinstance(term, Value):
        return term, None
    if isinstance(term, Prop):
        return term, type_of(term)
    args, kinds = zip(*(cast_values(arg, type_of) for arg in term.args), strict=True)
    if term.op not in _SAME_TYPE:
        return replace(term, args=args), _BOOLEAN
    types = sorted(filter(None, kinds), key=lambda kind: kind.name != "double")
    cast = tuple(_cast_to(arg, types[0]) if types else arg for arg in args)
    met = next(iter(types), None)
    return replace(term, args=cast), met if term.op == "coalesce" else _BOOLEAN


def _cast_to(term: Term, kind: Type) -> Term:
    of_text = isinstance(term, Value) and term.is_text and kind.name in ("int64", "boolean")
    if isinstance(term, Value) and (of_text or kind.name in ("timestamp", "date", "double")):
        return replace(term, sql=f"CAST({term.sql} AS {kind.sql})")
    return term


def compares_alike(
    expr: Scalar, alias: Alias, type_of: TypeOf, rows: Mapping[str, pa.DataType]
) -> bool:
    """Whether every store decides a conjunct as DuckDB does: compared operands have one type, or
    values can be cast to it. `rows` are the types of the requesting rows' columns.
    """
    term = read(expr, alias)
    if term is None:
        return False
    try:
        _require(_kind(term, type_of, pa.schema(list(rows.items()))) in (pa.bool_(), None))
    except (_Unsupported, Fault):
        return False
    values = values_of([cast_values(term, type_of)[0]])
    return all(value.columns or _is_plain_constant(value) for value in values)


def _kind(term: Term, type_of: TypeOf, rows: pa.Schema) -> pa.DataType | None:
    """The type of a term; None if it fits any. Raises _Unsupported if types differ."""
    if isinstance(term, Prop):
        kind = type_of(term)
        return pa.list_(pa.float32()) if kind is None else kind.arrow
    if isinstance(term, Value):
        return _kind_of_value(term, rows)
    kinds = [_kind(arg, type_of, rows) for arg in term.args]
    types = {kind for kind in kinds if kind is not None}
    if term.op in ("and", "or", "not"):
        texts = any(isinstance(arg, Value) and arg.is_text for arg in term.args)
        _require(types <= {pa.bool_()} and not texts)
    elif term.op in ("contains", "overlaps"):
        other = pa.list_(kinds[1]) if term.op == "contains" and kinds[1] is not None else kinds[1]
        _require(None in (kinds[0], other) or kinds[0] == other)
    elif term.op in _SAME_TYPE:
        pairs = zip(term.args, kinds, strict=True)
        of_props = {kind for arg, kind in pairs if not isinstance(arg, Value)}
        if TIMESTAMP in types and pa.date32() not in of_props:
            types.discard(pa.date32())  # dates are cast to times
        _require(len(types) < 2 or types == {pa.int64(), pa.float64()})
        _require(term.op == "coalesce" or not any(map(pa.types.is_nested, types)))
        if term.op == "coalesce":
            return pa.float64() if len(types) > 1 else next(iter(types), None)
    return pa.bool_()


def _kind_of_value(value: Value, rows: pa.Schema) -> pa.DataType | None:
    if value.is_text or value.sql.upper() == "NULL":
        return None
    kind = type_of_scalar(Scalar(value.sql, value.sql, value.columns), rows)
    item = kind.value_type if pa.types.is_list(kind) else kind
    # It may be NaN, which stores compare differently.
    _require(not value.columns or not pa.types.is_floating(item))
    return kind


def _require(holds: bool) -> None:
    if not holds:
        raise _Unsupported


@lru_cache(maxsize=1024)
def constant(value: Value) -> pa.Array[Any]:
    """The value of a constant, computed once: DuckDB takes a millisecond."""
    return _computed([value], pa.table({"_q": pa.array([0], pa.int64())}))[0]


def _is_plain_constant(value: Value) -> bool:
    """Whether all stores support a constant: not NaN, not an infinite time, not too large."""
    try:
        array = constant(value)
    except (DataError, pa.ArrowException):
        return False
    values: Any = array.flatten() if isinstance(array, pa.ListArray) else array
    if pa.types.is_floating(values.type):
        return not pc.any(pc.is_nan(values)).as_py()
    if pa.types.is_temporal(values.type):
        whole = values.view(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
        largest = 2 ** (whole.type.bit_width - 1) - 1
        return all(abs(number) < largest for number in whole.drop_null().to_pylist())
    return True


def values_of(terms: Sequence[Term]) -> tuple[Value, ...]:
    """The distinct values in the terms, in order."""
    parts = chain.from_iterable(map(parts_of, terms))
    return tuple(dict.fromkeys(part for part in parts if isinstance(part, Value)))


def evaluate(values: Sequence[Value], rows: pa.Table) -> list[pa.Array[Any]]:
    """Each value for each of the rows, in canonical types. Raises DataError."""
    arrays = {value: _without_duckdb(value, rows) for value in values}
    if others := [value for value, array in arrays.items() if array is None]:
        arrays |= dict(zip(others, _computed(others, rows), strict=True))
    return [array for value in values if (array := arrays[value]) is not None]


def _computed(values: Sequence[Value], rows: pa.Table) -> list[pa.Array[Any]]:
    from semgraph.expr.duckdb import rows_of

    read_of = sorted({path.split(".")[0] for value in values for path in value.columns})
    numbered = rows.select(read_of).append_column("#n", pa.array(range(rows.num_rows), pa.int64()))
    listed = ", ".join(f'{value.sql} AS "{i}"' for i, value in enumerate(values))
    try:
        table = rows_of(f'SELECT {listed} FROM {ROWS} ORDER BY "#n"', {ROWS: numbered})
    except duckdb.Error as error:
        raise DataError(f"a condition cannot be computed: {str(error).splitlines()[0]}") from error
    return [_canonical(table.column(i).combine_chunks()) for i in range(len(values))]


def _canonical(array: pa.Array[Any]) -> pa.Array[Any]:
    wanted = type_of_arrow(array.type).arrow
    if pa.types.is_decimal(array.type):
        array = array.cast(pa.string())  # Arrow converts the decimal 0.6 to 0.6000000000000001
    return array.cast(wanted)


_COLUMN = re.compile(
    r'(?P<cast>CAST\()?"[^".]+"(?:\."[^".]+")*(?(cast) AS (?P<type>\w+)\))(?P<test> AND TRUE)?'
)


def _without_duckdb(value: Value, rows: pa.Table) -> pa.Array[Any] | None:
    """A constant; or a column of the rows or a field of one, also if it is cast to its type or is
    one side of a condition with TRUE on the other. None for other values.
    """
    if not value.columns:
        return constant(value).take(pa.array([0] * rows.num_rows, pa.int64()))
    found = _COLUMN.fullmatch(value.sql)
    if found is None:
        return None
    array = column(rows, value.columns[0])
    kind = type_of_arrow(array.type)
    same = found["type"] in (None, kind.sql) and (not found["test"] or kind.name == "boolean")
    return array if same else None


# The facts that conditions imply about hits.

Ends = tuple[Value | None, Value | None]  # source and target of an edge; None: any
_MOST_PAIRS = 8


def by_key(terms: Sequence[Term], key: str) -> bool:
    """Whether a conjunct lists the possible keys of hits."""
    return any(isinstance(t, Test) and _known(t, key) is not None for t in terms)


def pinned(terms: Sequence[Term], label: Label, key: str) -> bool:
    """Whether conjuncts restrict the hits to certain keys or, for edges, ends."""
    return by_key(terms, key) or (label.kind == "edge" and bool(ends(terms)))


def ends(terms: Sequence[Term]) -> tuple[Ends, ...]:
    """The possible pairs of ends (None: any) of all hits; empty if they are not restricted."""
    return _all_of(terms) or ()


def _ends(term: Term) -> tuple[Ends, ...] | None:
    if not isinstance(term, Test):
        return None
    match term:
        case Test("and", args):
            return _all_of(args)
        case Test("or", args):
            known = [pairs for pairs in map(_ends, args) if pairs is not None]
            return tuple(chain.from_iterable(known)) if len(known) == len(args) else None
        case Test("pair", (Prop(), Prop(), Value() as one, Value() as other)):
            return (one, other), (other, one)
    sources, targets = _known(term, "source"), _known(term, "target")
    if sources is not None:
        return tuple((value, None) for value in sources)
    return None if targets is None else tuple((None, value) for value in targets)


def _known(term: Test, name: str) -> tuple[Value, ...] | None:
    if term.op not in ("=", "in"):
        return None
    first, *others = term.args
    if term.op == "=" and isinstance(first, Value):
        first, others = others[0], [first]
    values = tuple(other for other in others if isinstance(other, Value))
    is_named = isinstance(first, Prop) and first.name == name
    return values if is_named and len(values) == len(others) else None


def _all_of(terms: Sequence[Term]) -> tuple[Ends, ...] | None:
    pairs: tuple[Ends, ...] | None = None
    for term in terms:
        more = _ends(term)
        if more is not None and pairs is not None:
            more = tuple((s or source, t or target) for s, t in pairs for source, target in more)
        if more is not None and len(more) <= _MOST_PAIRS:
            pairs = more
    return pairs
