"""The value of an SQL scalar for a row, an aggregate for a group, a window function among its rows.

It shares no code with the engine. `tests/fuzz/test_scalar.py` compares it with DuckDB itself.
"""

from __future__ import annotations

import json
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cmp_to_key
from typing import Any

from tests.fuzz.parsing import NotUnderstood, Tree
from tests.fuzz.values import (
    Uncomputable,
    arithmetic,
    both,
    cast,
    compare,
    holds_nan,
    is_nan,
    ordered,
    same_key,
    whole,
)

_IDS = uuid.UUID(
    "5e3a1f0c-9d1b-5c55-8a40-6f7d2c1b9e10"
)  # documented by what it makes: ids of `id(...)` never change
Columns = Mapping[str, Any]


@dataclass
class Sight:
    """What is seen while expressions of one clause are evaluated: for the table of coverage."""

    null: bool = False
    nan: bool = False


@dataclass(frozen=True)
class Scope:
    """What an expression is evaluated over.

    Args:
        row: The columns of a row.
        rows: All rows of the relation, for window functions, and the place of this row among them.
        group: The rows that aggregates go over, where there may be any.
        params: Parameters of the plan, and `now`.
    """

    row: Columns
    rows: Sequence[Columns] = ()
    place: int = 0
    group: Sequence[Columns] | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    sight: Sight = field(default_factory=Sight)


def evaluate(tree: Tree, scope: Scope) -> Any:
    """The value of an expression."""
    found = _EVALUATORS[tree[0]](tree, scope)
    if found is None:
        scope.sight.null = True
    elif holds_nan(found):
        scope.sight.nan = True
    return found


def _path(tree: Tree, scope: Scope) -> Any:
    if tree[1] not in scope.row:
        raise NotUnderstood(f"no column {tree[1]!r}")
    return scope.row[tree[1]]


def _field(tree: Tree, scope: Scope) -> Any:
    value = evaluate(tree[1], scope)
    return None if value is None else value[tree[2]]


def _parameter(tree: Tree, scope: Scope) -> Any:
    return scope.params[tree[1]]


def _or(tree: Tree, scope: Scope) -> bool | None:
    left, right = evaluate(tree[1], scope), evaluate(tree[2], scope)
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _not(tree: Tree, scope: Scope) -> bool | None:
    value = evaluate(tree[1], scope)
    return None if value is None else not value


def _binary(tree: Tree, scope: Scope) -> Any:
    _, sign, one, other = tree
    left, right = evaluate(one, scope), evaluate(other, scope)
    if left is None or right is None:
        return None
    if sign not in _TESTS:
        return arithmetic(sign, left, right)
    return _TESTS[sign](compare(left, right))


_TESTS: dict[str, Callable[[int], bool]] = {
    "=": lambda c: c == 0,
    "<>": lambda c: c != 0,
    "<": lambda c: c < 0,
    "<=": lambda c: c <= 0,
    ">": lambda c: c > 0,
    ">=": lambda c: c >= 0,
}


def _equal(left: Any, right: Any) -> bool | None:
    return None if left is None or right is None else compare(left, right) == 0


def _in(tree: Tree, scope: Scope) -> bool | None:
    value = evaluate(tree[1], scope)
    found = [_equal(value, evaluate(item, scope)) for item in tree[2]]
    return True if True in found else None if None in found else False


def _between(tree: Tree, scope: Scope) -> bool | None:
    value, low, high = (evaluate(part, scope) for part in tree[1:])
    above = None if value is None or low is None else compare(value, low) >= 0
    below = None if value is None or high is None else compare(value, high) <= 0
    return both(above, below)


def _distinct(tree: Tree, scope: Scope) -> bool:
    left, right = evaluate(tree[1], scope), evaluate(tree[2], scope)
    if left is None or right is None:
        return left is not right
    return compare(left, right) != 0


def _minus(tree: Tree, scope: Scope) -> Any:
    value = evaluate(tree[1], scope)
    return None if value is None else whole(-value)


def _case(tree: Tree, scope: Scope) -> Any:
    for test, value in tree[1]:
        if evaluate(test, scope) is True:
            return evaluate(value, scope)
    return evaluate(tree[2], scope)


def _item(tree: Tree, scope: Scope) -> Any:
    values, place = evaluate(tree[1], scope), evaluate(tree[2], scope)
    if isinstance(values, str):
        raise NotUnderstood("a letter of a text")
    if values is None or place is None or place == 0 or abs(place) > len(values):
        return None
    return values[place - 1 if place > 0 else place]


def _struct(tree: Tree, scope: Scope) -> dict[str, Any]:
    return {name: evaluate(value, scope) for name, value in tree[1]}


def _call(tree: Tree, scope: Scope) -> Any:
    _, name, arguments, *_ = tree
    if name in AGGREGATES:
        if scope.group is None:
            raise NotUnderstood(f"{name} outside of a group")
        return aggregate(tree, scope.group, scope)
    if name == "coalesce":
        return next((v for v in (evaluate(a, scope) for a in arguments) if v is not None), None)
    values = [evaluate(argument, scope) for argument in arguments]
    if name in _OF_NULLS:
        return _OF_NULLS[name](values)
    return None if None in values else whole(_FUNCTIONS[name](*values))


def _number_or_text(value: Any) -> str:
    return value if isinstance(value, str) else str(value)


def made_id(values: list[Any]) -> str:
    """The id that `id(...)` makes of some values."""
    return str(uuid.uuid5(_IDS, json.dumps(values, ensure_ascii=False, separators=(",", ":"))))


def _extreme(sign: int) -> Callable[[list[Any]], Any]:
    def found(values: list[Any]) -> Any:
        known = [v for v in values if v is not None]
        return max(known, key=cmp_to_key(lambda a, b: sign * compare(a, b))) if known else None

    return found


def _contains(arguments: list[Any]) -> bool | None:
    """Whether a list holds a value: NULL without a list, and for NULL in a list that is not empty."""
    values, wanted = arguments
    if values is None or (values and wanted is None):
        return None
    return any(value is not None and compare(value, wanted) == 0 for value in values)


_OF_NULLS: dict[str, Callable[[list[Any]], Any]] = {
    "concat": lambda values: "".join(_number_or_text(v) for v in values if v is not None),
    "greatest": _extreme(1),
    "least": _extreme(-1),
    "nullif": lambda values: None if _equal(*values) else values[0],
    "id": made_id,
    "list_contains": _contains,
}


def _round(value: float) -> float:
    if math.isnan(value) or math.isinf(value):
        return value
    return math.copysign(float(math.floor(abs(value) + 0.5)), value)


def _sqrt(value: float) -> float:
    return math.nan if is_nan(value) or value < 0 else math.sqrt(value)


def _sorted(values: list[Any]) -> list[Any]:
    return sorted(values, key=cmp_to_key(lambda a, b: ordered(a, b, descending=False)))


def _range(first: int, last: int) -> list[int]:
    if last - first > 1_000_000:
        raise Uncomputable(f"range({first}, {last})")
    return list(range(first, last))


def _chunk(text: str, size: int, overlap: int, by: str) -> list[list[str]]:
    if size < 1 or overlap or by != "words":
        raise Uncomputable(f"chunk with {size}, {overlap}, {by}")
    words = text.split()
    return [words[first : first + size] for first in range(0, len(words), size)]


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "chunk": _chunk,
    "range": _range,
    "repeat": lambda text, times: text * max(times, 0),
    "length": len,
    "len": len,
    "upper": str.upper,
    "lower": str.lower,
    "reverse": lambda text: text[::-1],
    "key": lambda text: " ".join(text.lower().split()),
    "abs": abs,
    "isnan": is_nan,
    "round": _round,
    "sqrt": _sqrt,
    "starts_with": str.startswith,
    "contains": lambda text, part: part in text,
    "list_sort": _sorted,
    "year": lambda time: time.year,
    "month": lambda time: time.month,
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
}


# -------------------------------------------------------------------------------------------
# aggregates


def aggregate(tree: Tree, rows: Sequence[Columns], scope: Scope) -> Any:
    """An aggregate over rows: those that pass its filter, in its own order, each value once where
    it says so.
    """
    _, name, arguments, distinct, order, where = tree
    scopes = [replace(scope, row=row, group=None) for row in rows]
    if where is not None:
        scopes = [each for each in scopes if evaluate(where, each) is True]
    scopes = sort(scopes, order)
    if arguments[:1] in ((), (("star",),)):
        return len(scopes)
    values = [evaluate(arguments[0], each) for each in scopes]
    if distinct:
        values = _once(values)
    rest = [evaluate(argument, replace(scope, group=None)) for argument in arguments[1:]]
    return AGGREGATES[name](values, *rest)


def _once(values: list[Any]) -> list[Any]:
    """Each value once, in the order of the values."""
    return _sorted(list({same_key(value): value for value in values}.values()))


def _known(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def _sum(values: list[Any]) -> Any:
    known = _known(values)
    return whole(math.fsum(known) if _summable(known) else sum(known)) if known else None


def _summable(values: list[Any]) -> bool:
    return isinstance(values[0], float) and all(map(math.isfinite, values))


def _average(values: list[Any]) -> float | None:
    known = _known(values)
    return float(_sum_of_any(known)) / len(known) if known else None


def _sum_of_any(values: list[Any]) -> Any:
    return math.fsum(values) if _summable(values) else sum(values)


def _joined(values: list[Any], separator: str = ",") -> str | None:
    known = _known(values)
    return separator.join(known) if known else None


def _first(values: list[Any]) -> Any:
    return values[0] if values else None


AGGREGATES: dict[str, Callable[..., Any]] = {
    "count": lambda values: len(_known(values)),
    "sum": _sum,
    "avg": _average,
    "min": _extreme(-1),
    "max": _extreme(1),
    "list": lambda values: values or None,
    "string_agg": _joined,
    "first": _first,
    "last": lambda values: values[-1] if values else None,
    "any_value": lambda values: _first(_known(values)),
    "bool_and": lambda values: all(_known(values)) if _known(values) else None,
    "bool_or": lambda values: any(_known(values)) if _known(values) else None,
}


def sort(scopes: list[Scope], order: Sequence[tuple[Tree, bool]]) -> list[Scope]:
    """Scopes in an order; ties as they were."""
    keyed = [([evaluate(tree, each) for tree, _ in order], each) for each in scopes]
    for place, (_, descending) in reversed(list(enumerate(order))):
        way = cmp_to_key(lambda a, b, d=descending: ordered(a, b, d))  # type: ignore[misc]
        keyed.sort(key=lambda pair, p=place, w=way: w(pair[0][p]))  # type: ignore[misc]
    return [each for _, each in keyed]


# ------------------------------------------------------------------------------------------- window
# functions


def _over(tree: Tree, scope: Scope) -> Any:
    _, call, by, order = tree
    name, arguments = call[1], call[2]
    scopes = [replace(scope, row=row, place=i, group=None) for i, row in enumerate(scope.rows)]
    own = [same_key(evaluate(part, scopes[scope.place])) for part in by]
    peers = [each for each in scopes if [same_key(evaluate(part, each)) for part in by] == own]
    peers = sort(peers, order)
    at = next(i for i, each in enumerate(peers) if each.place == scope.place)
    if name == "row_number":
        return at + 1
    if name in {"lag", "lead"}:
        near = at - 1 if name == "lag" else at + 1
        return evaluate(arguments[0], peers[near]) if 0 <= near < len(peers) else None
    if name == "first_value":
        return evaluate(arguments[0], peers[0])
    keys = [[same_key(evaluate(part, each)) for part, _ in order] for each in peers]
    if name == "rank":
        return keys.index(keys[at]) + 1
    seen = peers if not order else peers[: len(keys) - keys[::-1].index(keys[at])]
    return aggregate(call, [each.row for each in seen], scope)


_EVALUATORS: dict[str, Callable[[Tree, Scope], Any]] = {
    "literal": lambda tree, _scope: tree[1],
    "path": _path,
    "field": _field,
    "parameter": _parameter,
    "or": _or,
    "and": lambda tree, scope: both(evaluate(tree[1], scope), evaluate(tree[2], scope)),
    "not": _not,
    "null": lambda tree, scope: evaluate(tree[1], scope) is None,
    "distinct": _distinct,
    "binary": _binary,
    "in": _in,
    "between": _between,
    "minus": _minus,
    "case": _case,
    "cast": lambda tree, scope: cast(evaluate(tree[1], scope), tree[2], tree[3]),
    "item": _item,
    "list": lambda tree, scope: [evaluate(item, scope) for item in tree[1]],
    "struct": _struct,
    "call": _call,
    "over": _over,
}

__all__ = ["Columns", "Scope", "Sight", "Uncomputable", "datetime", "evaluate", "made_id", "sort"]
