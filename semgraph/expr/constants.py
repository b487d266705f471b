"""What a scalar is whatever the rows are."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import duckdb
from sqlglot import exp

from semgraph.errors import Fault
from semgraph.expr.binder import connection, is_aggregate
from semgraph.expr.scalar import Scalar, from_ast


@lru_cache(maxsize=4096)
def constant(scalar: Scalar) -> Any:
    """The value of a scalar that reads no column, no time and no rows. Raises Fault for one that does, or that has none."""
    if scalar.columns or scalar.asks_now or _over_rows(scalar):
        raise Fault(f'"{scalar.text}" depends on the rows', hint="a constant: numbers and parameters")
    cursor: Any = connection().cursor()
    try:
        row = cursor.execute(f"SELECT {scalar.sql}").fetchone()
    except duckdb.Error as error:
        raise Fault(f'"{scalar.text}": {str(error).splitlines()[0].split(": ", 1)[-1]}') from None
    finally:
        cursor.close()
    return row[0] if row else None


def _over_rows(scalar: Scalar) -> bool:
    """Whether it is computed over several rows, as `row_number() OVER ()` and `count(*)` are without any column."""
    return scalar.has_window or any(is_aggregate(call) for call in scalar.ast.find_all(exp.Func))


def always(scalar: Scalar) -> bool:
    """Whether a condition holds whatever the rows are: TRUE, or an alternative of which one part is.

    >>> from semgraph.expr.scalar import parse_scalar
    >>> always(parse_scalar("$least IS NULL OR n >= $least", {"least": None}))
    True
    """
    tree = scalar.ast
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.Or):
        return any(always(from_ast(part)) for part in tree.flatten())
    if scalar.columns or scalar.asks_now:
        return False
    try:
        return constant(scalar) is True
    except Fault:
        return False
