"""Types of plain scalars, inferred without DuckDB's binder, which takes half a millisecond for each.

Columns, literals, comparisons of one type, conditions, COALESCE, CASE, and functions of texts. The
binder answers for all else, and for whatever may be wrong. A property test compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from semgraph.expr.functions import TEXT_FUNCTIONS
from semgraph.expr.scalar import NOW, column_path
from semgraph.expr.types import TIMESTAMP

Kind: TypeAlias = pa.DataType | None
Infer: TypeAlias = Callable[[exp.Expr], Kind]
_STRING, _INT64, _DOUBLE, _BOOLEAN = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_DECIMAL = re.compile(r"\d+\.\d+\Z")
_DIGITS = 17  # with more, a literal may be of a type that is none of the plan language
_PARAMETERS: dict[str, pa.DataType] = {"VARCHAR": _STRING, "BIGINT": _INT64}


def inferred(tree: exp.Expr, type_of_path: Callable[[str], Kind]) -> Kind:
    """The canonical type of an expression, or None where only the binder knows it or the
    tree is too deep.

    Args:
        tree: An admitted syntax tree.
        type_of_path: The canonical type of a column or struct field; None: not known.
    """

    def infer(part: exp.Expr) -> Kind:
        if isinstance(part, (exp.Column, exp.Dot)):
            path = column_path(part)
            return None if path is None else type_of_path(path)
        rule = _RULES.get(type(part))
        return None if rule is None else rule(part, infer)

    try:
        return infer(tree)
    except RecursionError:  # hundreds of operands in a row
        return None


def _one_type(parts: Iterable[exp.Expr], infer: Infer) -> Kind:
    """The type of operands that all have the same. NULL, which has none, is for the binder."""
    first, *others = map(infer, parts)
    return first if first is not None and all(kind == first for kind in others) else None


def _all_of(kind: pa.DataType, parts: Iterable[exp.Expr], infer: Infer) -> Kind:
    return kind if all(infer(part) == kind for part in parts) else None


def _literal(literal: exp.Expr, _infer: Infer) -> Kind:
    if literal.is_string:
        return _STRING
    if len(literal.this) > _DIGITS:
        return None
    return _INT64 if literal.is_int else _DOUBLE if _DECIMAL.match(literal.this) else None


def _now(parameter: exp.Expr, _infer: Infer) -> Kind:
    return TIMESTAMP if parameter.name == NOW else None


def _condition(tree: exp.Expr, infer: Infer) -> Kind:
    return _all_of(_BOOLEAN, tree.iter_expressions(), infer)


def _comparison(tree: exp.Expr, infer: Infer) -> Kind:
    if any(isinstance(part, _COMPARISONS) for part in tree.iter_expressions()):
        return None  # DuckDB refuses `a = b = c`
    return None if _one_type(tree.iter_expressions(), infer) is None else _BOOLEAN


def _is_null(tree: exp.Expr, infer: Infer) -> Kind:
    of_null = isinstance(tree.expression, exp.Null) and infer(tree.this) is not None
    return _BOOLEAN if of_null else None


def _in(tree: exp.Expr, infer: Infer) -> Kind:
    listed = {name for name, value in tree.args.items() if value} == {"this", "expressions"}
    return _comparison(tree, infer) if listed else None


def _same_type(tree: exp.Expr, infer: Infer) -> Kind:
    return _one_type(tree.iter_expressions(), infer)


def _case(case: exp.Expr, infer: Infer) -> Kind:
    branches, default = case.args["ifs"], case.args.get("default")
    tests = [branch.this for branch in branches]
    if case.this is not None or _all_of(_BOOLEAN, tests, infer) is None:
        return None
    values = [branch.args["true"] for branch in branches]
    return _one_type(values if default is None else [*values, default], infer)


def _of_texts(tree: exp.Expr, infer: Infer) -> Kind:
    return _all_of(_STRING, tree.iter_expressions(), infer)


def _length(call: exp.Expr, infer: Infer) -> Kind:
    kind = infer(call.this)
    return _INT64 if kind is not None and (kind == _STRING or pa.types.is_list(kind)) else None


def _of_integers(tree: exp.Expr, infer: Infer) -> Kind:
    return _all_of(_INT64, tree.iter_expressions(), infer)


def _list(tree: exp.Expr, infer: Infer) -> Kind:
    kind = _one_type(tree.expressions, infer) if tree.expressions else None
    return None if kind is None else pa.list_(kind)


def _list_contains(call: exp.Expr, infer: Infer) -> Kind:
    kind = infer(call.this)
    if kind is None or not pa.types.is_list(kind):
        return None
    return _BOOLEAN if infer(call.expression) == kind.value_type else None


def _contains(call: exp.Expr, infer: Infer) -> Kind:
    return None if _of_texts(call, infer) is None else _BOOLEAN


def _json_array(call: exp.Expr, infer: Infer) -> Kind:
    return None if any(infer(part) is None for part in call.expressions) else _STRING


def _cast(cast: exp.Expr, infer: Infer) -> Kind:
    """A cast of NULL, a cast to text, and one to the type that the value has."""
    to: exp.DataType = cast.args["to"]
    wanted = None if to.expressions else _CAST.get(to.this)
    if isinstance(cast.this, exp.Null):
        return wanted
    kind = infer(cast.this)
    return wanted if kind is not None and wanted in (kind, _STRING) else None


def _own_function(call: exp.Expr, infer: Infer) -> Kind:
    """The result of one of the engine's functions of texts, or of json_array, of which ids are made."""
    name = str(call.this).lower()
    if name == "json_array":
        return _json_array(call, infer)
    function = TEXT_FUNCTIONS.get(name)
    if function is None or len(function.parameters) != len(call.expressions):
        return None
    wanted = [_PARAMETERS[kind] for kind in function.parameters]
    return function.arrow if list(map(infer, call.expressions)) == wanted else None


_CAST: dict[object, pa.DataType] = {
    exp.DType.VARCHAR: _STRING,
    exp.DType.TEXT: _STRING,
    exp.DType.BIGINT: _INT64,
    exp.DType.DOUBLE: _DOUBLE,
    exp.DType.BOOLEAN: _BOOLEAN,
    exp.DType.TIMESTAMPTZ: TIMESTAMP,
}
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_RULES: dict[type[exp.Expr], Callable[[exp.Expr, Infer], Kind]] = {
    exp.Paren: lambda tree, infer: infer(tree.this),
    exp.Boolean: lambda _tree, _infer: _BOOLEAN,
    exp.Literal: _literal,
    exp.Parameter: _now,
    exp.Placeholder: _now,
    exp.And: _condition,
    exp.Or: _condition,
    exp.Not: _condition,
    exp.Is: _is_null,
    exp.In: _in,
    exp.Coalesce: _same_type,
    exp.Least: _same_type,
    exp.Greatest: _same_type,
    exp.Nullif: _same_type,
    exp.Case: _case,
    exp.DPipe: _of_texts,
    exp.Lower: _of_texts,
    exp.Upper: _of_texts,
    exp.Trim: _of_texts,
    exp.Length: _length,
    exp.Concat: _of_texts,
    exp.Contains: _contains,
    exp.Add: _of_integers,
    exp.Sub: _of_integers,
    exp.Neg: _of_integers,
    exp.Array: _list,
    exp.ArrayContains: _list_contains,
    exp.JSONArray: _json_array,
    exp.Cast: _cast,
    exp.Anonymous: _own_function,
    **dict.fromkeys(_COMPARISONS, _comparison),
}
