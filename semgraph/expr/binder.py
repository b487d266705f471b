"""DuckDB's binder as the type checker: a scalar over an empty relation, never executed.

One connection for the process (connecting costs 9 ms); cursors of it execute the relational parts of plans.
"""

from __future__ import annotations

import atexit
import re
from functools import lru_cache

import duckdb
import pyarrow as pa
import sqlglot
from duckdb.func import FunctionNullHandling, PythonUDFType
from sqlglot import exp

from semgraph.errors import Fault, did_you_mean, interruptible
from semgraph.expr.dialect import Faithful
from semgraph.expr.functions import TEXT_FUNCTIONS, on_columns
from semgraph.expr.moving import callable_names, called, refuse_moving
from semgraph.expr.names import ROWS
from semgraph.expr.scalar import NOW, Scalar, short, to_sql
from semgraph.expr.types import sql_type, type_of_arrow
from semgraph.expr.vectors import VECTOR_FUNCTIONS, on_vectors

ORDINAL = "_o"
UNGROUPED = re.compile(r'column "(?P<name>[^"]+)" must appear in the GROUP BY clause')
_NO_FUNCTION = re.compile(r"Function with name (?P<name>\w+) does not exist!")
_NOW_OR_QUOTED = re.compile(rf"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\${NOW}\b""")


@lru_cache(maxsize=1)
def connection() -> duckdb.DuckDBPyConnection:
    """The process's DuckDB: in memory, one thread (row order is part of the meaning), UTC, no access to files.

    It starts no thread of its own: a forked process, which has none, would wait for them at its end, and crash.
    """
    con = duckdb.connect(config={"threads": 1, "async_threads": 0})
    con.execute("SET TimeZone='UTC'")
    con.execute("SET preserve_insertion_order=true")
    con.execute("SET python_enable_replacements=false")
    con.execute("SET enable_external_access=false")
    con.execute("SET GLOBAL order_by_non_integer_literal=true")  # list(x ORDER BY 'a'): a constant orders nothing
    texts = {name: (on_columns(f), f.parameters, f.result) for name, f in TEXT_FUNCTIONS.items()}
    vectors = {name: (on_vectors(f), f.parameters, f.result) for name, f in VECTOR_FUNCTIONS.items()}
    for name, (function, parameters, result) in (texts | vectors).items():
        con.create_function(
            name,
            function,
            list(parameters),
            result,
            type=PythonUDFType.ARROW,
            null_handling=FunctionNullHandling.SPECIAL,
        )
    con.execute("SET lock_configuration=true")
    atexit.register(con.close)
    return con


@lru_cache(maxsize=1)
def aggregates() -> frozenset[str]:
    """Names of DuckDB's aggregate functions."""
    sql = "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
    return frozenset(name for (name,) in connection().cursor().sql(sql).fetchall())


def is_aggregate(call: exp.Func) -> bool:
    """Whether a function makes one value of the values of many rows."""
    return isinstance(call, exp.AggFunc) or (isinstance(call, exp.Anonymous) and call.name.lower() in aggregates())


def window_of(call: exp.Expr) -> exp.Window | None:
    """The window whose function a call is."""
    while isinstance(call.parent, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
        call = call.parent
    return call.parent if isinstance(call.parent, exp.Window) and call.parent.this is call else None


def empty_relation(schema: pa.Schema) -> str:
    """SQL of an empty relation with these columns and an ordinal."""
    columns = [f'NULL::{sql_type(field.type)} AS "{field.name}"' for field in schema]
    return f"SELECT {', '.join([*columns, f'NULL::BIGINT AS {ORDINAL}'])} WHERE false"


def check_columns(scalar: Scalar, schema: pa.Schema) -> None:
    """Refuse a scalar that reads a column or struct field that is not there. Raises Fault."""
    for path in scalar.columns:
        root, *fields = path.split(".")
        if root not in schema.names:
            raise _missing(path, schema)
        inner: pa.DataType = schema.field(root).type
        for depth, name in enumerate(fields):
            if not pa.types.is_struct(inner):
                break
            names = [f.name for f in inner]
            if name not in names:
                prefix = ".".join([root, *fields[:depth]])
                here = ", ".join(f"{prefix}.{n}" for n in names)
                raise Fault(f'no column "{path}"', there=f"fields here: {here}", hint=_suggest(prefix, name, names))
            inner = inner.field(name).type


def _suggest(prefix: str, name: str, names: list[str]) -> str | None:
    hint = did_you_mean(name, names)
    return hint.replace('"', f'"{prefix}.', 1) if hint else None


def _missing(path: str, schema: pa.Schema) -> Fault:
    dotted = [f"{f.name}.{g.name}" for f in schema if pa.types.is_struct(f.type) for g in f.type]
    there = "columns here: " + (", ".join(schema.names) or "none")
    return Fault(f'no column "{path}"', there=there, hint=did_you_mean(path, [*schema.names, *dotted]))


def with_now(sql: str) -> str:
    """A statement whose parameter for the time says its type; the same text where it has none. Texts may hold "$now"."""
    return _NOW_OR_QUOTED.sub(lambda m: f"CAST({m[0]} AS TIMESTAMPTZ)" if m[0] == f"${NOW}" else m[0], sql)


def _asks_now(sql: str) -> bool:
    return any(match[0] == f"${NOW}" for match in _NOW_OR_QUOTED.finditer(sql))


@lru_cache(maxsize=8192)
def bind(sql: str) -> pa.DataType:
    """The type of the first column of a statement over empty relations. Raises duckdb.Error."""
    cursor = connection().cursor()
    params = {NOW: None} if _asks_now(sql) else {}
    try:
        with interruptible():
            table = cursor.sql(sql, params=params).to_arrow_table() if params else cursor.sql(sql).to_arrow_table()
        found: pa.DataType = table.schema.field(0).type
        return found
    finally:
        cursor.close()


@lru_cache(maxsize=8192)
def _refuse_failing_casts(sql: str) -> None:
    """Refuse a cast of a constant that fails, such as that of a parameter, unless the plan looks at the value first."""
    for conversion in sqlglot.parse_one(sql, dialect=Faithful).find_all(exp.Cast):
        guarded = isinstance(conversion, exp.TryCast) or conversion.find_ancestor(exp.Case, exp.If, exp.Coalesce)
        if guarded or conversion.find(exp.Column, exp.Parameter, exp.Placeholder, exp.AggFunc, exp.Window):
            continue
        cursor = connection().cursor()
        try:
            with interruptible():
                cursor.sql(f"SELECT {to_sql(conversion)}").fetchall()
        except duckdb.Error as error:
            raise Fault(f'"{to_sql(conversion)}": {str(error).splitlines()[0].split(": ", 1)[-1]}') from None
        finally:
            cursor.close()


def type_of(scalar: Scalar, schema: pa.Schema) -> pa.DataType:
    """The canonical Arrow type of a scalar over a relation. Raises Fault with what DuckDB says of it."""
    check_scalar(scalar, schema)
    return type_of_arrow(_plain_column(scalar, schema) or _bound(scalar, schema)).arrow


def check_scalar(scalar: Scalar, schema: pa.Schema) -> None:
    """Refuse what no binder needs to see: missing columns, volatile functions, casts that always fail. Raises Fault."""
    check_columns(scalar, schema)
    refuse_moving(scalar, connection())
    if "CAST(" in scalar.sql:
        _refuse_failing_casts(scalar.sql)


def _bound(scalar: Scalar, schema: pa.Schema) -> pa.DataType:
    """The type that DuckDB finds. Raises Fault."""
    sql = with_now(scalar.sql)
    roots = scalar.roots
    read = pa.schema([field for field in schema if field.name in roots])  # few columns: quick, and often bound before
    try:
        found = bind(f"SELECT {sql} AS x FROM ({empty_relation(read)}) AS {ROWS}")
    except duckdb.Error as error:
        raise refused(scalar, str(error)) from None
    return found


def refused(scalar: Scalar, error: str) -> Fault:
    """What DuckDB says of a scalar, in its first line; of a function that is not there, the nearest that plans may call."""
    unknown = _NO_FUNCTION.search(error)
    if unknown is not None:
        hint = did_you_mean(unknown["name"], callable_names(connection()))
        return Fault(f'"{short(scalar.text)}": there is no function "{unknown["name"]}"', hint=hint)
    name = _first_aggregate(scalar)
    if UNGROUPED.search(error) and name:
        hint = "compute it in an aggregate or a group_join step and use its column here"
        return Fault(f'"{short(scalar.text)}": an aggregate ({name}) cannot stand here', hint=hint)
    lines = [line for line in error.splitlines() if line.strip()]
    message = lines[0].split(": ", 1)[-1] if lines else "does not bind"
    return Fault(f'"{short(scalar.text)}": {message}')


def _first_aggregate(scalar: Scalar) -> str | None:
    """The first aggregate that is no window function, as the plan writes it."""
    if not scalar.has_window:
        return next((name for name in called(scalar.text) if name in aggregates()), None)
    calls = (call for call in scalar.ast.find_all(exp.Func) if is_aggregate(call) and window_of(call) is None)
    return next((name for call in calls for name in called(to_sql(call))), None)


def stands_for(scalar: Scalar, schema: pa.Schema, wanted: pa.DataType) -> bool:
    """Whether a scalar has a type, or is NULL or made of NULLs and so has any. Raises Fault as `type_of`."""
    return type_of(scalar, schema) == wanted or _untyped(_bound(scalar, schema), wanted)


def _untyped(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type only lacks what a NULL or an empty list leaves open."""
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return _untyped(found.value_type, wanted.value_type)
    return pa.types.is_null(found)


def _plain_column(scalar: Scalar, schema: pa.Schema) -> pa.DataType | None:
    """The type of a scalar that is a column or a struct's field, which needs no binder."""
    if len(scalar.columns) != 1 or scalar.sql.replace('"', "") != scalar.columns[0]:
        return None
    root, *fields = scalar.columns[0].split(".")
    found: pa.DataType = schema.field(root).type
    for name in fields:
        if not pa.types.is_struct(found):
            return None
        found = found.field(name).type
    return found
