"""SQL scalars as Python expressions over tuples.

DuckDB defines the meaning of scalars; an expression that may give another result is refused.
Every expression has the type that DuckDB gives it: columns have theirs from the schema, and a
function is admitted for the exact types that its entry lists, so no implicit cast happens unseen.
Types are Arrow's. Some represent DuckDB types that no column has: int32 for a small literal,
`FRACTION` for a decimal literal, `HUGE` for a sum of integers, `JSON`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from sqlglot import exp

from semgraph.expr import row_functions
from semgraph.expr.functions import TEXT_FUNCTIONS, VECTOR_FUNCTIONS
from semgraph.expr.own_functions import REGISTERED
from semgraph.expr.row_functions import is_linear
from semgraph.expr.types import TIMESTAMP, canonical_type

Kind = Any  # pa.DataType, whose stubs know no nested types
TEXT, INT, SMALL, DOUBLE, BOOL = pa.string(), pa.int64(), pa.int32(), pa.float64(), pa.bool_()
DATE, NULL, JSON = pa.date32(), pa.null(), pa.large_string()
HUGE, FRACTION = pa.decimal128(38, 0), pa.decimal128(38, 1)
_WHOLE = (SMALL, INT, HUGE)
_ATOMS = (TEXT, *_WHOLE, DOUBLE, BOOL, TIMESTAMP, DATE)  # types that Python orders as DuckDB does
_DIGITS = 15  # the maximum digits of a decimal literal that a double represents


class Unsupported(Exception):
    """An expression or operator that only DuckDB computes; the text is the reason."""


class Code(NamedTuple):
    """A Python expression, and the type of its values."""

    text: str
    kind: Kind


@dataclass(frozen=True)
class NameScope:
    """The meaning of the names in an expression."""

    columns: Mapping[str, Code]
    # the columns of a row `r` of `rows`, inside aggregates; None if aggregates are refused
    group: Mapping[str, Code] | None = None
    # makes a column from a window function; None if window functions are refused
    window: Callable[[exp.Window], Code] | None = None
    prefix: str = "x"  # of the Python names that lambdas bind

    def bind(self, name: str, kind: Kind) -> tuple[str, NameScope]:
        """The Python name of a lambda's variable, and the scope of its body. Raises Unsupported."""
        if any(n != name and n.lower() == name.lower() for n in self.columns):
            raise Unsupported(f'a lambda\'s name "{name}" beside a column of other case')
        own = f"{self.prefix}{len(self.columns)}"
        columns = {**self.columns, name: Code(own, kind), f"#{own}": Code(own, kind)}
        return own, replace(self, columns=columns)


def value(tree: exp.Expr, scope: NameScope) -> Code:
    """The value of an expression. Raises Unsupported."""
    handler = _EXPRESSIONS.get(type(tree))
    if handler is not None:
        return handler(tree, scope)
    if isinstance(tree, exp.Func):
        return _call(tree, scope)
    raise Unsupported(type(tree).__name__.lower())


def kind_of(tree: exp.Expr, columns: Mapping[str, Kind]) -> Kind | None:
    """The canonical type of an expression over columns of these types, without DuckDB's binder, which
    takes half a millisecond. None if only the binder knows it, or if the expression may be invalid.
    """
    scope = NameScope({name: Code(name, kind) for name, kind in columns.items()})
    try:
        kind = value(tree, scope).kind
    except (Unsupported, RecursionError):  # the latter: hundreds of operands in a row
        return None
    return None if _holds_null(kind) else canonical_type(kind)


def _holds_null(kind: Kind) -> bool:
    inner = [kind.field(i).type for i in range(kind.num_fields)]
    return kind == NULL or any(map(_holds_null, inner))


def test(tree: exp.Expr, scope: NameScope) -> str:
    """An expression that is true in Python exactly if the condition is TRUE. Raises Unsupported."""
    if isinstance(tree, exp.Paren):
        return test(tree.this, scope)
    if isinstance(tree, (exp.And, exp.Or)):
        word = " and " if isinstance(tree, exp.And) else " or "
        return f"({word.join(test(part, scope) for part in tree.flatten())})"
    if isinstance(tree, exp.Not) and not _is_null_test(tree.this):
        return f"({_boolean(tree.this, scope)} is False)"
    return _boolean(tree, scope)


def as_kind(code: Code, kind: Kind) -> str:
    """An expression with DuckDB's implicit conversion. Raises Unsupported."""
    if _represents(code.kind, kind):
        return code.text
    if kind == DOUBLE and code.kind in {SMALL, INT}:
        return f"{code.text}.0" if code.text.isdigit() else f"number({code.text})"
    if kind == INT and code.kind == HUGE:
        return f"int64({code.text})"
    raise Unsupported(f"a conversion of {code.kind} to {kind}")


def _represents(kind: Kind, wanted: Kind) -> bool:
    """Whether values of a type have the same Python representation in the wanted type."""
    if kind in {wanted, NULL}:
        return True
    if kind in _WHOLE and wanted in _WHOLE:
        return _WHOLE.index(kind) <= _WHOLE.index(wanted)
    if kind in {FRACTION, JSON}:
        return bool(wanted == (DOUBLE if kind == FRACTION else TEXT))
    if pa.types.is_list(kind) and pa.types.is_list(wanted):
        return _represents(kind.value_type, wanted.value_type)
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        same = [f.name for f in kind] == [f.name for f in wanted]
        return same and all(_represents(a.type, b.type) for a, b in zip(kind, wanted, strict=True))
    return False


def common(kinds: Iterable[Kind]) -> Kind:
    """The type to which DuckDB casts values of several types, as in CASE. Raises Unsupported."""
    known = list(dict.fromkeys(kind for kind in kinds if kind != NULL))
    if len(known) < 2:
        return known[0] if known else NULL
    if all(kind in _WHOLE for kind in known):
        return max(known, key=_WHOLE.index)
    if DOUBLE in known and all(kind in {DOUBLE, FRACTION, SMALL, INT} for kind in known):
        return DOUBLE
    if all(pa.types.is_list(kind) for kind in known):
        return pa.list_(common(kind.value_type for kind in known))
    if all(pa.types.is_struct(kind) for kind in known):
        names = [f.name for f in known[0]]
        if all([f.name for f in kind] == names for kind in known):
            parts = (common(kind.field(i).type for kind in known) for i in range(len(names)))
            return pa.struct(list(zip(names, parts, strict=True)))
    raise Unsupported("types that differ: " + ", ".join(map(str, known)))


def meeting(trees: Sequence[exp.Expr], scope: NameScope) -> tuple[list[str], Kind]:
    """The values of several expressions, converted to their common type."""
    codes = [value(tree, scope) for tree in trees]
    kind = common(code.kind for code in codes)
    return [as_kind(code, kind) for code in codes], kind


def key(code: Code) -> str:
    """A value for grouping, joining and counting."""
    if code.kind == DOUBLE:
        return f"ordered({code.text})"
    return f"frozen({code.text})" if pa.types.is_nested(code.kind) else code.text


def sort_key(code: Code) -> str:
    """A value for sorting. Raises Unsupported."""
    _need(code.kind, "an order by", *_ATOMS)
    return key(code)


def term(ordered: exp.Expr, scope: NameScope) -> tuple[str, bool, bool]:
    """A term of an ORDER BY: its sort key, whether it descends, whether NULLs come first."""
    nulls_first = bool(ordered.args.get("nulls_first"))
    return sort_key(value(ordered.this, scope)), bool(ordered.args.get("desc")), nulls_first


def _need(kind: Kind, what: str, *admitted: Kind) -> None:
    if kind not in admitted:
        raise Unsupported(f"{what} {kind}")


# Expressions with a syntax of their own ------------------------------------------------------------

Handler = Callable[[Any, NameScope], Code]
H = TypeVar("H", bound=Handler)
_EXPRESSIONS: dict[type[exp.Expr], Handler] = {
    exp.Paren: lambda tree, scope: value(tree.this, scope),
    exp.Dot: lambda tree, scope: field(value(tree.this, scope), tree.expression.name),
    exp.Boolean: lambda tree, _: Code(repr(bool(tree.this)), BOOL),
    exp.Null: lambda *_: Code("None", NULL),
    exp.Parameter: lambda *_: Code("now", TIMESTAMP),
    exp.Placeholder: lambda *_: Code("now", TIMESTAMP),
    exp.Concat: lambda tree, scope: Code(f"concat({_texts(tree.expressions, scope)})", TEXT),
    exp.Filter: lambda tree, scope: aggregate(tree.this, scope, tree.expression.this),
}


def _of(*kinds: type[exp.Expr]) -> Callable[[H], H]:
    def register(handler: H) -> H:
        _EXPRESSIONS.update(dict.fromkeys(kinds, handler))
        return handler

    return register


def _boolean(tree: exp.Expr, scope: NameScope) -> str:
    code = value(tree, scope)
    _need(code.kind, "a condition of type", BOOL, NULL)
    return code.text


@_of(exp.Column, exp.Identifier)
def _column(tree: exp.Column | exp.Identifier, scope: NameScope) -> Code:
    root, *path = [part.name for part in getattr(tree, "parts", (tree,))]
    if root not in scope.columns:
        raise Unsupported(f'the column "{root}" here')
    code = scope.columns[root]
    for name in path:
        code = field(code, name)
    return code


def field(struct: Code, name: str) -> Code:
    """A field of a struct. Raises Unsupported."""
    if not pa.types.is_struct(struct.kind) or struct.kind.get_field_index(name) < 0:
        raise Unsupported(f'the field "{name}" of {struct.kind}')
    return Code(f"field({struct.text}, {name!r})", struct.kind.field(name).type)


@_of(exp.Literal)
def _literal(tree: exp.Literal, scope: NameScope) -> Code:  # noqa: ARG001
    text = tree.this
    if tree.is_string:
        return Code(repr(text), TEXT)
    if text.isdigit() and int(text) < 2**63:
        return Code(str(int(text)), SMALL if int(text) < 2**31 else INT)
    if re.fullmatch(r"\d*\.\d+", text) and len(text) <= _DIGITS:
        return Code(repr(float(text)), FRACTION)
    if re.fullmatch(r"\d+(\.\d+)?[eE]-?\d{1,2}", text) and len(text) <= _DIGITS:
        return Code(repr(float(text)), DOUBLE)
    raise Unsupported(f"the number {text}")


@_of(exp.And, exp.Or)
def _logical(tree: exp.Connector, scope: NameScope) -> Code:
    parts = ", ".join(_boolean(part, scope) for part in tree.flatten())
    return Code(f"{'and_' if isinstance(tree, exp.And) else 'or_'}({parts})", BOOL)


def _is_null_test(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null)


@_of(exp.Not)
def _not(tree: exp.Not, scope: NameScope) -> Code:
    if _is_null_test(tree.this) and not isinstance(tree.this.this, exp.Literal):
        return Code(f"({value(tree.this.this, scope).text} is not None)", BOOL)
    return Code(f"not_({_boolean(tree.this, scope)})", BOOL)


@_of(exp.Is)
def _is(tree: exp.Is, scope: NameScope) -> Code:
    if isinstance(tree.expression, exp.Null):
        code = value(tree.this, scope)
        known = isinstance(tree.this, exp.Literal)  # Python warns of `is` with a literal
        return Code("False" if known else f"({code.text} is None)", BOOL)
    if isinstance(tree.expression, exp.Boolean):
        return Code(f"({_boolean(tree.this, scope)} is {bool(tree.expression.this)})", BOOL)
    raise Unsupported("IS of a value")


_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq", exp.NEQ: "ne", exp.LT: "lt", exp.LTE: "le", exp.GT: "gt", exp.GTE: "ge",
}  # fmt: skip


_CHAINED = (*_COMPARISONS, exp.NullSafeEQ, exp.NullSafeNEQ)


def _compared(trees: Sequence[exp.Expr], scope: NameScope) -> list[str]:
    texts, kind = meeting(trees, scope)
    _need(kind, "a comparison of", *_ATOMS, NULL)
    return [key(Code(text, kind)) for text in texts]


@_of(*_COMPARISONS)
def _comparison(tree: exp.Binary, scope: NameScope) -> Code:
    if isinstance(tree.this, _CHAINED) or isinstance(tree.expression, _CHAINED):
        raise Unsupported("a comparison of a comparison")  # DuckDB refuses `a = b = c`
    a, b = _compared([tree.this, tree.expression], scope)
    return Code(f"{_COMPARISONS[type(tree)]}({a}, {b})", BOOL)


@_of(exp.NullSafeEQ, exp.NullSafeNEQ)
def _null_safe(tree: exp.Binary, scope: NameScope) -> Code:
    a, b = _compared([tree.this, tree.expression], scope)
    return Code(f"({a} {'==' if isinstance(tree, exp.NullSafeEQ) else '!='} {b})", BOOL)


@_of(exp.Between)
def _between(tree: exp.Between, scope: NameScope) -> Code:
    x, low, high = _compared([tree.this, tree.args["low"], tree.args["high"]], scope)
    return Code(f"and_(ge({x}, {low}), le({x}, {high}))", BOOL)


@_of(exp.In)
def _in(tree: exp.In, scope: NameScope) -> Code:
    if (listed := tree.args.get("field")) is not None:
        return value(exp.ArrayContains(this=listed, expression=tree.this), scope)
    if tree.args.get("query") or tree.args.get("unnest"):
        raise Unsupported("IN of a list")
    if len(tree.expressions) == 1:
        only = value(tree.expressions[0], scope)
        if pa.types.is_list(only.kind):
            raise Unsupported("IN of a list")
    x, *items = _compared([tree.this, *tree.expressions], scope)
    return Code(f"among({x}, ({', '.join(items)},))", BOOL)


@_of(exp.Add, exp.Sub, exp.Mul)
def _arithmetic(tree: exp.Binary, scope: NameScope) -> Code:
    (a, b), kind = meeting([tree.this, tree.expression], scope)
    _need(kind, "arithmetic of", SMALL, INT, DOUBLE)
    name = {exp.Add: "add", exp.Sub: "subtract", exp.Mul: "multiply"}[type(tree)]
    text = f"{name}({a}, {b})"
    return Code(text if kind == DOUBLE else f"{kind}({text})", kind)


@_of(exp.Div)
def _division(tree: exp.Div, scope: NameScope) -> Code:
    a, b = (as_kind(value(part, scope), DOUBLE) for part in (tree.this, tree.expression))
    return Code(f"divide({a}, {b})", DOUBLE)


@_of(exp.Neg)
def _negation(tree: exp.Neg, scope: NameScope) -> Code:
    code = value(tree.this, scope)
    _need(code.kind, "the negation of", SMALL, INT, DOUBLE, FRACTION)
    if isinstance(tree.this, exp.Literal) and code.kind != FRACTION:
        # DuckDB treats the least number of 32 bits as a separate literal
        return Code(f"(-{code.text})", SMALL if code.text == str(2**31) else code.kind)
    # decimals have no -0.0
    text = f"subtract(0.0, {code.text})" if code.kind == FRACTION else f"negated({code.text})"
    return Code(f"{code.kind}({text})" if code.kind in _WHOLE else text, code.kind)


@_of(exp.Coalesce, exp.Greatest, exp.Least)
def _one_of(tree: exp.Coalesce | exp.Greatest | exp.Least, scope: NameScope) -> Code:
    texts, kind = meeting([tree.this, *tree.expressions], scope)
    if not isinstance(tree, exp.Coalesce):
        _need(kind, "the greatest of", *_ATOMS)
    return Code(f"{type(tree).__name__.lower()}({', '.join(texts)})", kind)


@_of(exp.Nullif)
def _nullif(tree: exp.Nullif, scope: NameScope) -> Code:
    own = value(tree.this, scope)
    (a, b), kind = meeting([tree.this, tree.expression], scope)
    _need(kind, "nullif of", *_ATOMS)
    _need(own.kind, "nullif of two types, the first", kind)
    return Code(f"nullif({a}, {b})", kind)


@_of(exp.Case)
def _case(tree: exp.Case, scope: NameScope) -> Code:
    branches, default = tree.args["ifs"], tree.args.get("default") or exp.Null()
    texts, kind = meeting([*(branch.args["true"] for branch in branches), default], scope)
    text = texts.pop()
    for branch, result in reversed(list(zip(branches, texts, strict=True))):
        condition = exp.EQ(this=tree.this, expression=branch.this) if tree.this else branch.this
        text = f"({result} if {test(condition, scope)} else {text})"
    return Code(text, kind)


@_of(exp.Array)
def _array(tree: exp.Array, scope: NameScope) -> Code:
    parts = tree.expressions
    if len(parts) == 1 and isinstance(parts[0], exp.Comprehension):
        return _comprehension(parts[0], scope)
    texts, kind = meeting(parts, scope)
    return Code(f"[{', '.join(texts)}]", pa.list_(kind))


def _comprehension(tree: exp.Comprehension, scope: NameScope) -> Code:
    if tree.args.get("position") is not None:
        raise Unsupported("the places of items")
    items, condition = value(tree.args["iterator"], scope), tree.args.get("condition")
    name, inner = scope.bind(tree.expression.name, _item(items))
    made = value(tree.this, inner)
    where = "" if condition is None else f", lambda {name}: {test(condition, inner)}"
    return Code(f"each({items.text}, lambda {name}: {made.text}{where})", pa.list_(made.kind))


def _item(items: Code) -> Kind:
    if not pa.types.is_list(items.kind):
        raise Unsupported(f"the items of {items.kind}")
    return items.kind.value_type


@_of(exp.ArrayFilter)
def _list_filter(tree: exp.ArrayFilter, scope: NameScope) -> Code:
    items, function = value(tree.this, scope), tree.expression
    if not isinstance(function, exp.Lambda) or len(function.expressions) != 1:
        raise Unsupported("a filter with two names")
    name, inner = scope.bind(function.expressions[0].name, _item(items))
    where = test(function.this, inner)
    return Code(f"each({items.text}, lambda {name}: {name}, lambda {name}: {where})", items.kind)


@_of(exp.ArraySort)
def _list_sort(tree: exp.ArraySort, scope: NameScope) -> Code:
    items, nulls_first = value(tree.this, scope), tree.args.get("nulls_first")
    if tree.args.get("asc") is not None or (nulls_first is not None and nulls_first.this):
        raise Unsupported("list_sort in an order of its own")
    if not _list_of_atoms(items.kind):
        raise Unsupported(f"list_sort of {items.kind}")
    return Code(f"list_sort({items.text})", items.kind)


@_of(exp.Struct)
def _struct(tree: exp.Struct, scope: NameScope) -> Code:
    if not all(isinstance(part, exp.PropertyEQ) for part in tree.expressions):
        raise Unsupported("a struct without names")
    if len({part.this.name.lower() for part in tree.expressions}) < len(tree.expressions):
        raise Unsupported("a struct with one name twice")
    fields = [(part.this.name, value(part.expression, scope)) for part in tree.expressions]
    text = ", ".join(f"{name!r}: {code.text}" for name, code in fields)
    return Code(f"{{{text}}}", pa.struct([(name, code.kind) for name, code in fields]))


@_of(exp.Bracket)
def _bracket(tree: exp.Bracket, scope: NameScope) -> Code:
    items = value(tree.this, scope)
    kind, place = _item(items), tree.expressions[0]
    if len(tree.expressions) > 1 or not (isinstance(place, exp.Column) or _is_number(place)):
        raise Unsupported("an item by a computed place")
    code = value(place, scope)
    _need(code.kind, "an item by", SMALL, INT)
    # the parser counts literal indices from 0
    text = f"{code.text} + 1" if _is_number(place) else code.text
    return Code(f"item({items.text}, {text})", kind)


def _is_number(tree: exp.Expr) -> bool:
    return isinstance(tree.this if isinstance(tree, exp.Neg) else tree, exp.Literal)


@_of(exp.Chr)
def _chr(tree: exp.Chr, scope: NameScope) -> Code:  # noqa: ARG001
    [code] = tree.expressions
    if not isinstance(code, exp.Literal) or not 0 < int(code.this) < 128:
        raise Unsupported("chr of a value")
    return Code(repr(chr(int(code.this))), TEXT)


@_of(exp.Cast)
def _cast(tree: exp.Cast, scope: NameScope) -> Code:
    code, wanted = value(tree.this, scope), _type(tree.to)
    if (code.kind, wanted) in _CASTS:
        return Code(f"{_CASTS[code.kind, wanted]}({code.text})", wanted)
    return Code(as_kind(code, wanted), wanted)


_CASTS = {
    (BOOL, TEXT): "text_of_bool", (SMALL, TEXT): "text_of_int", (INT, TEXT): "text_of_int",
    (HUGE, TEXT): "text_of_int", (TIMESTAMP, TEXT): "text_of_time", (DOUBLE, INT): "rounded_int",
    (TEXT, INT): "int_of_text", (TEXT, JSON): "checked_json", (BOOL, INT): "int_of_bool",
}  # fmt: skip
_TYPES = {
    exp.DType.TEXT: TEXT, exp.DType.VARCHAR: TEXT, exp.DType.BIGINT: INT, exp.DType.DOUBLE: DOUBLE,
    exp.DType.BOOLEAN: BOOL, exp.DType.TIMESTAMPTZ: TIMESTAMP, exp.DType.DATE: DATE, exp.DType.JSON: JSON,
}  # fmt: skip


def _type(tree: exp.DataType) -> Kind:
    """The type that a cast names. Raises Unsupported."""
    if tree.this == exp.DType.ARRAY and len(tree.expressions) == 1 and not tree.args.get("values"):
        return pa.list_(_type(tree.expressions[0]))
    if tree.this == exp.DType.STRUCT:
        return pa.struct([(part.name, _type(part.args["kind"])) for part in tree.expressions])
    if tree.this not in _TYPES or tree.expressions:
        raise Unsupported(f"a cast to {tree.sql(dialect='duckdb')}")
    return _TYPES[tree.this]


_TEXT_OF = {BOOL: "text_of_bool", SMALL: "text_of_int", INT: "text_of_int"}


def _texts(trees: Iterable[exp.Expr], scope: NameScope, *, lists: bool = False) -> str:
    """The arguments of functions that convert arguments to texts."""
    texts = []
    for code in (value(tree, scope) for tree in trees):
        if lists and code.kind == pa.list_(TEXT):
            texts.append(f"*({code.text} or ())")
        else:
            _need(code.kind, "a text made of", TEXT, JSON, NULL, *_TEXT_OF)
            name = _TEXT_OF.get(code.kind)
            texts.append(f"{name}({code.text})" if name else code.text)
    return ", ".join(texts)


@_of(exp.ConcatWs)
def _concat_ws(tree: exp.ConcatWs, scope: NameScope) -> Code:
    separator, *parts = tree.expressions
    if not parts:
        raise Unsupported("concat_ws of nothing")
    own = value(separator, scope)
    _need(own.kind, "a separator of", TEXT)
    return Code(f"concat_ws({own.text}, {_texts(parts, scope, lists=True)})", TEXT)


@_of(exp.DPipe)
def _pipe(tree: exp.DPipe, scope: NameScope) -> Code:
    a, b = value(tree.this, scope), value(tree.expression, scope)
    _need(a.kind, "|| of", TEXT)
    _need(b.kind, "|| of", TEXT)
    return Code(f"add({a.text}, {b.text})", TEXT)


@_of(exp.JSONArray)
def _json_array(tree: exp.JSONArray, scope: NameScope) -> Code:
    texts = []
    for code in (value(part, scope) for part in tree.expressions):
        _need(code.kind, "JSON of", TEXT, BOOL, SMALL, INT, TIMESTAMP, NULL, pa.list_(TEXT))
        texts.append(f"text_of_time({code.text})" if code.kind == TIMESTAMP else code.text)
    return Code(f"json_array({', '.join(texts)})", JSON)


@_of(exp.Round)
def _round(tree: exp.Round, scope: NameScope) -> Code:
    digits, inner = tree.args.get("decimals"), tree.this
    if not isinstance(digits, exp.Literal) or int(digits.this) > 12:
        raise Unsupported("round to a computed number of digits")
    if isinstance(inner, exp.Window) and isinstance(inner.this, exp.Sum) and scope.window:
        code = scope.window(inner)  # the order of additions affects only digits that are cut
    else:
        code = value(inner, scope)
    _need(code.kind, "round of", DOUBLE)
    return Code(f"rounded({code.text}, {int(digits.this)})", DOUBLE)


@_of(exp.GenerateSeries)
def _range(tree: exp.GenerateSeries, scope: NameScope) -> Code:
    if not tree.args.get("is_end_exclusive") or tree.args.get("step"):
        raise Unsupported("generate_series")
    start, end = (value(tree.args[name], scope) for name in ("start", "end"))
    for code in (start, end):
        _need(code.kind, "range of", SMALL, INT)
    return Code(f"series({start.text}, {end.text})", pa.list_(INT))


@_of(exp.RegexpLike, exp.RegexpFullMatch)
def _regexp(tree: exp.RegexpLike | exp.RegexpFullMatch, scope: NameScope) -> Code:
    text, pattern = value(tree.this, scope), tree.expression
    flag = tree.args.get("flag") or tree.args.get("options")
    _need(text.kind, "a regular expression over", TEXT)
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise Unsupported("a regular expression that is computed")
    if flag is not None and flag.name != "i":
        raise Unsupported("an option of a regular expression")
    whole = isinstance(tree, exp.RegexpFullMatch)
    own = python_pattern(pattern.this, ignore_case=flag is not None, whole=whole)
    return Code(f"matches({text.text}, {own!r}, {flag is not None}, {whole})", BOOL)


@_of(exp.Window)
def _window(tree: exp.Window, scope: NameScope) -> Code:
    if scope.window is None:
        raise Unsupported("a window function here")
    code = scope.window(tree)
    if code.kind == DOUBLE and isinstance(tree.this, exp.Sum):
        raise Unsupported("a sum of doubles over a window")
    return code


# Regular expressions -------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"(?P<class>\[\^?(?:[^\]\[\\^-]|\\[wd]|(?<=\[)-|(?<=\^)-|-(?=\])|[A-Za-z0-9]-[A-Za-z0-9])+\])"
    r"|(?P<open>\((?:\?:)?(?!\?))|(?P<close>\))|(?P<bar>\|)|(?P<end>\$)"
    r"|(?P<count>[*+?](?![*+?{])|\{\d{1,2}(?:,\d{0,2})?\}(?![*+?{]))"
    r"|(?P<sign>\\[bdw.()\[\]*+?|/-]|[^\\()\[\]{}|*+?$^.])"
)


def python_pattern(pattern: str, *, ignore_case: bool, whole: bool = False) -> str:
    """The pattern of RE2 for Python, with equal matches, ASCII classes, and time linear in the
    text. Raises Unsupported. `whole`: it is matched against whole texts, not searched for in them.
    """
    if ignore_case and (not pattern.isascii() or "[^" in pattern):
        raise Unsupported("a regular expression that ignores the case of such letters")
    texts: list[str] = []
    place = 0
    while place < len(pattern):
        token = _TOKEN.match(pattern, place)
        if token is None:
            raise Unsupported(f"the regular expression {pattern!r}")
        texts.append(r"\Z" if token.lastgroup == "end" else token[0])
        place = token.end()
    own = "".join(texts)
    try:
        linear = is_linear(own, re.ASCII | re.IGNORECASE if ignore_case else re.ASCII, whole=whole)
    except (re.error, OverflowError, RecursionError):
        linear = False
    if not linear:
        raise Unsupported(f"the regular expression {pattern!r}")
    return own


# Functions -----------------------------------------------------------------------------------------


class Function(NamedTuple):
    """A function for exact types of arguments."""

    takes: tuple[Kind | Callable[[Kind], bool], ...]  # each argument's type, or a test of it
    gives: Kind | Callable[..., Kind]  # the type of the result, or a function of the argument types
    python: str  # its name in `row_functions`

    def result(self, *kinds: Kind) -> Kind:
        """The type of its result for arguments of these types."""
        return self.gives if isinstance(self.gives, pa.DataType) else self.gives(*kinds)

    def accepts(self, kinds: Sequence[Kind]) -> bool:
        """Whether it takes arguments of these types."""
        return len(self.takes) == len(kinds) and all(
            kind == wanted if isinstance(wanted, pa.DataType) else wanted(kind)
            for wanted, kind in zip(self.takes, kinds, strict=True)
        )


_whole = frozenset({SMALL, INT}).__contains__
_numeric = frozenset({SMALL, FRACTION, DOUBLE}).__contains__
_atom = frozenset(_ATOMS).__contains__


def _list_of_atoms(kind: Kind) -> bool:
    """Whether Python compares the items of a list as DuckDB does."""
    return pa.types.is_list(kind) and kind.value_type in {*_ATOMS, NULL} - {DOUBLE}


def _lists(kind: Kind) -> bool:
    return bool(pa.types.is_list(kind))


def _first(kind: Kind, *_rest: Kind) -> Kind:
    return kind


def _appended(items: Kind, item: Kind) -> Kind:
    return pa.list_(common([items.value_type, item]))


def _any(_kind: Kind) -> bool:
    return True


def _vector(kind: Kind) -> bool:
    fixed = pa.types.is_fixed_size_list(kind)
    return kind == pa.list_(pa.float32()) or bool(fixed and pa.types.is_float32(kind.value_type))


def _vectors(kind: Kind) -> bool:
    return _lists(kind) and _vector(kind.value_type)


def _lists_of_lists(kind: Kind) -> bool:
    return _lists(kind) and _lists(kind.value_type)


def _with_length(kind: Kind) -> bool:
    return kind == TEXT or _lists(kind)


_SQL_KINDS = {"VARCHAR": TEXT, "BIGINT": _whole}
FUNCTIONS: dict[str | type[exp.Expr], Function] = {
    exp.Length: Function((_with_length,), INT, "length"),
    exp.Left: Function((TEXT, _whole), TEXT, "left"),
    exp.Trim: Function((TEXT,), TEXT, "trim"),
    exp.Upper: Function((TEXT,), TEXT, "upper"),
    exp.Lower: Function((TEXT,), TEXT, "lower"),
    exp.Contains: Function((TEXT, TEXT), BOOL, "contains"),
    exp.StartsWith: Function((TEXT, TEXT), BOOL, "starts_with"),
    exp.EndsWith: Function((TEXT, TEXT), BOOL, "ends_with"),
    exp.Replace: Function((TEXT, TEXT, TEXT), TEXT, "replaced"),
    exp.Split: Function((TEXT, TEXT), pa.list_(TEXT), "split"),
    exp.ArrayToString: Function((pa.list_(TEXT), TEXT), TEXT, "joined_list"),
    exp.ArrayContains: Function((_list_of_atoms, _any), BOOL, "list_contains"),
    exp.ArrayOverlaps: Function((_list_of_atoms, _list_of_atoms), BOOL, "has_any"),
    "list_has_all": Function((_list_of_atoms, _list_of_atoms), BOOL, "has_all"),
    exp.ArrayDistinct: Function((_list_of_atoms,), _first, "list_distinct"),
    exp.ArrayConcat: Function((_lists, _lists), lambda *kinds: common(kinds), "list_concat"),
    exp.ArrayAppend: Function((_lists, _any), _appended, "list_append"),
    exp.Flatten: Function((_lists_of_lists,), lambda kind: kind.value_type, "flatten"),
    "list_slice": Function((_lists, _whole, _whole), _first, "list_slice"),
    "error": Function((_any,), NULL, "fail"),
}
FUNCTIONS |= {
    name: Function(tuple(map(_SQL_KINDS.__getitem__, own.parameters)), own.arrow, f"OWN[{name!r}]")
    for name, own in TEXT_FUNCTIONS.items()
}
FUNCTIONS |= {
    name: Function((_vector, _vectors, _numeric), VECTOR_FUNCTIONS[name].arrow, f"OWN[{name!r}]")
    for name in ("mmr", "mmr_static")
}


def _call(tree: exp.Func, scope: NameScope) -> Code:
    name = str(tree.this).lower() if isinstance(tree, exp.Anonymous) else type(tree)
    trees = tree.expressions if isinstance(tree, exp.Anonymous) else _arguments(tree)
    if name == "json_array":  # the argument of an id
        return _json_array(exp.JSONArray(expressions=trees), scope)
    if isinstance(name, str) and name in REGISTERED:
        return _own_call(name, trees, scope)
    if name not in FUNCTIONS:
        if type(tree) in AGGREGATES:
            return aggregate(tree, scope)
        raise Unsupported(f"the function {tree.sql(dialect='duckdb').partition('(')[0].lower()}")
    codes = [value(part, scope) for part in trees]
    kinds = [code.kind for code in codes]
    function = FUNCTIONS[name]
    if not function.accepts(kinds):
        shown = ", ".join(map(str, kinds))
        raise Unsupported(f"{tree.sql(dialect='duckdb').partition('(')[0].lower()} of {shown}")
    if function.python == "list_contains":
        common([kinds[0].value_type, kinds[1]])
    if function.python in {"has_any", "has_all"}:
        common([kinds[0].value_type, kinds[1].value_type])
    text = f"{function.python}({', '.join(code.text for code in codes)})"
    return Code(text, function.result(*kinds))


def _own_call(name: str, trees: Sequence[exp.Expr], scope: NameScope) -> Code:
    """A call of a user function, which has the types of its file."""
    function = REGISTERED[name]
    wanted = (parameter.kind.arrow for parameter in function.parameters)
    texts = [as_kind(value(part, scope), kind) for part, kind in zip(trees, wanted, strict=True)]
    return Code(f"REGISTERED[{name!r}]({', '.join(texts)})", function.result.arrow)


def _arguments(tree: exp.Func) -> list[exp.Expr]:
    parts = list[Any]()
    for value in map(tree.args.get, tree.arg_types):
        parts += value if isinstance(value, list) else [value]
    return [part for part in parts if isinstance(part, exp.Expr)]


# Aggregates ----------------------------------------------------------------------------------------


AGGREGATES: dict[type[exp.Expr], Function] = {
    exp.ArrayAgg: Function((_any,), pa.list_, "agg_list"),
    exp.First: Function((_any,), _first, "agg_first"),
    exp.Last: Function((_any,), _first, "agg_last"),
    exp.AnyValue: Function((_any,), _first, "agg_any_value"),
    exp.Min: Function((_atom,), _first, "agg_min"),
    exp.Max: Function((_atom,), _first, "agg_max"),
    exp.LogicalOr: Function((BOOL,), BOOL, "agg_bool_or"),
    exp.LogicalAnd: Function((BOOL,), BOOL, "agg_bool_and"),
    exp.Count: Function((_any,), INT, "agg_count"),
    exp.GroupConcat: Function((TEXT,), TEXT, "agg_string_agg"),
    exp.Sum: Function((_whole,), HUGE, "agg_sum"),
}
SUM_OF_DOUBLES = Function((DOUBLE,), DOUBLE, "agg_sum_double")


def aggregation(tree: exp.Expr, kind: Kind) -> Function:
    """The aggregate for values of a type. Raises Unsupported."""
    own = AGGREGATES.get(type(tree))
    if isinstance(tree, exp.Sum) and kind == DOUBLE:
        own = SUM_OF_DOUBLES
    if own is None or not own.accepts([kind]):
        raise Unsupported(f"the aggregate {type(tree).__name__.lower()} of {kind}")
    return own


def aggregate(tree: exp.Expr, scope: NameScope, where: exp.Expr | None = None) -> Code:
    """An aggregate of `rows`, which are in row order."""
    if isinstance(tree, exp.IgnoreNulls) and isinstance(tree.this, exp.AnyValue):
        tree = tree.this  # the parser wraps any_value
    if scope.group is None:
        raise Unsupported(f"the aggregate {type(tree).__name__.lower()} here")
    inner = NameScope(scope.group)
    values, code, options = _aggregated(tree, inner)
    own = aggregation(tree, code.kind)
    condition = f" if {test(where, inner)}" if where is not None else ""
    rows = f"[{values} for r in rows{condition}]"
    if options.order:
        rows = f"in_order({rows}, {options.order})"
    if options.distinct:
        rows = f"distinct({rows})"
    rest = f", {options.separator}" if options.separator else ""
    return Code(f"{own.python}({rows}{rest})", own.result(code.kind))


_EXPRESSIONS[exp.IgnoreNulls] = aggregate


class _Options(NamedTuple):
    order: str
    distinct: bool
    separator: str


def _aggregated(tree: exp.Expr, scope: NameScope) -> tuple[str, Code, _Options]:
    """The element that an aggregate takes from each row, the value in it, and the options."""
    if tree.args.get("count") is not None or tree.args.get("expressions"):
        raise Unsupported("an aggregate of several arguments")
    argument, terms, distinct = tree.this, [], False
    if isinstance(argument, exp.Order):
        argument, terms = argument.this, argument.expressions
    if isinstance(argument, exp.Distinct):
        [argument], distinct = argument.expressions, True
    code = Code("1", SMALL) if isinstance(argument, exp.Star) else value(argument, scope)
    if distinct and (terms or code.kind not in {*_ATOMS} - {DOUBLE}):
        raise Unsupported("distinct values in an order of their own, or of such a type")
    if distinct and not isinstance(tree, (exp.ArrayAgg, exp.Count)):
        raise Unsupported("an aggregate of distinct values")
    separator = ""
    if isinstance(tree, exp.GroupConcat):
        last = tree.args.get("separator")
        if not isinstance(last, (exp.Literal, exp.Chr)):
            raise Unsupported("string_agg without a constant separator")
        separator = value(last, scope).text
    if not terms:
        return code.text, code, _Options("", distinct, separator)
    own = [term(one, scope) for one in terms]
    values = f"({code.text}, {', '.join(text for text, *_ in own)})"
    order = ", ".join(f"({descending}, {nulls_first})" for _, descending, nulls_first in own)
    return values, code, _Options(order, distinct, separator)


# The names for generated code.
NAMESPACE: dict[str, Any] = {
    name: own for name, own in vars(row_functions).items() if not name.startswith("_")
} | {"REGISTERED": REGISTERED}
