"""Where aggregates, window functions and functions that return several rows may stand in a plan.

DuckDB's binder decides, over an empty relation: an expression over rows is bound beside a plain column, one over groups
beside GROUP BY, as the statements that run it do.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache

import duckdb
import pyarrow as pa

from semgraph.errors import Fault
from semgraph.expr.binder import (
    ORDINAL,
    UNGROUPED,
    aggregates,
    bind,
    check_scalar,
    connection,
    empty_relation,
    refused,
    type_of,
    with_now,
)
from semgraph.expr.moving import called
from semgraph.expr.names import ROWS
from semgraph.expr.scalar import Scalar, short
from semgraph.expr.types import type_of_arrow

_WINDOW_HINT = "compute it with add in a step before and use its column here"


def expect_type(scalar: Scalar, schema: pa.Schema, wanted: pa.DataType, *, windows: bool = True) -> None:
    """Refuse a scalar over rows that has another type, or an aggregate in it. Raises Fault."""
    found = type_of(scalar, schema)
    if found != wanted:
        msg = f'"{short(scalar.text)}" is {type_of_arrow(found)}, expected {type_of_arrow(wanted)}'
        raise Fault(msg)
    check_over_rows(scalar, schema, windows=windows)


def check_over_rows(scalar: Scalar, schema: pa.Schema, *, windows: bool = True) -> None:
    """Refuse what has no single value for a row. The scalar must have a type already. Raises Fault.

    Args:
        scalar: An expression over rows.
        schema: Their columns.
        windows: Whether window functions may stand here.
    """
    if "(" not in scalar.sql:
        return
    names = set(called(scalar.sql))
    _refuse_several(scalar, names)
    if not windows and scalar.has_window:
        raise Fault(f'"{short(scalar.text)}": a window function cannot stand here', hint=_WINDOW_HINT)
    if not names & aggregates():
        return
    try:
        bind(f"SELECT {with_now(scalar.sql)} AS x, {ORDINAL} FROM ({_empty(scalar, schema)}) AS {ROWS}")
    except duckdb.Error as error:
        raise refused(scalar, str(error)) from None


def type_over_groups(scalar: Scalar, schema: pa.Schema, groups: Sequence[str] = ()) -> pa.DataType:
    """The canonical type of a scalar over groups of rows. Raises Fault for what has no single value for a group.

    Args:
        scalar: Aggregates of columns, and columns that `groups` has.
        schema: The columns of the rows.
        groups: SQL of what is equal in a group.
    """
    check_scalar(scalar, schema)
    _refuse_several(scalar, set(called(scalar.sql)))
    if scalar.has_window:
        raise Fault(
            f'"{short(scalar.text)}": a window function cannot stand here', hint="add it in a step after this one"
        )
    columns = [with_now(scalar.sql), f"min({ORDINAL})", *groups]
    grouped = f" GROUP BY {', '.join(str(i + 3) for i in range(len(groups)))}" if groups else ""
    try:
        found = bind(f"SELECT {', '.join(columns)} FROM ({empty_relation(schema)}) AS {ROWS}{grouped}")
    except duckdb.Error as error:
        missing = UNGROUPED.search(str(error))
        if missing is None:
            raise refused(scalar, str(error)) from None
        name = missing["name"]
        what = f'"{short(scalar.text)}": the column "{name}" may differ within a group'
        raise Fault(what, hint=f"use an aggregate, such as first({name}) or list({name})") from None
    return type_of_arrow(found).arrow


def _empty(scalar: Scalar, schema: pa.Schema) -> str:
    roots = scalar.roots
    return empty_relation(pa.schema([field for field in schema if field.name in roots]))


def _refuse_several(scalar: Scalar, names: set[str]) -> None:
    """Refuse functions that return several rows, and macros that hide an aggregate, whose order cannot be set."""
    several, hidden = _macros()
    if found := min(names & several, default=None):
        msg = f'"{short(scalar.text)}": "{found}" returns several rows'
        raise Fault(msg, hint="the operator unnest makes rows of a list")
    if found := min(names & hidden, default=None):
        msg = f'"{short(scalar.text)}": "{found}" is a macro over an aggregate, which plans cannot call'
        raise Fault(msg, hint="write it with list or sum")


@lru_cache(maxsize=1)
def _macros() -> tuple[frozenset[str], frozenset[str]]:
    """Functions that return several rows, and macros that call an aggregate."""
    sql = "SELECT DISTINCT function_name, macro_definition FROM duckdb_functions() WHERE function_type = 'macro'"
    bodies = {name: set(called(body)) for name, body in connection().cursor().sql(sql).fetchall() if body}
    several, hidden = _callers(bodies, {"unnest"}), _callers(bodies, aggregates())
    return several, hidden - aggregates()


def _callers(bodies: Mapping[str, set[str]], names: Collection[str]) -> frozenset[str]:
    """These functions, and the macros that call one of them."""
    found = set(names)
    while more := {name for name, body in bodies.items() if name not in found and body & found}:
        found |= more
    return frozenset(found)
