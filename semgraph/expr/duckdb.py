"""DuckDB's binder as the type checker: it binds a scalar over an empty relation without executing
it.

One connection for the process (connecting costs 9 ms); cursors of it execute the relational parts
of plans.
"""

from __future__ import annotations

import atexit
import inspect
import re
import threading
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

import duckdb
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType
from duckdb.sqltypes import DuckDBPyType
from sqlglot import exp

from semgraph.errors import Fault, did_you_mean, interruptible
from semgraph.expr import own_functions
from semgraph.expr.functions import TEXT_FUNCTIONS, VECTOR_FUNCTIONS
from semgraph.expr.isolated import CONFIG, MOST_BYTES, folds, grows, isolated
from semgraph.expr.row_scalars import kind_of
from semgraph.expr.scalar import (
    NOW,
    ROWS,
    Faithful,
    Scalar,
    called_in,
    from_ast,
    short,
    to_sql,
    with_bound_fields,
)
from semgraph.expr.types import TIMESTAMP, canonical_type, sql_type, type_of_arrow

_WORD = re.compile(
    r"""'(?:[^']|'')*'|"(?P<quoted>(?:[^"]|"")*)"(?P<quoted_call>\s*\()?|(?P<word>[A-Za-z_]\w*)(?P<called>\s*\()?"""
)
_LOCAL = {"current_localtime", "current_localtimestamp", "session_user", "current_role"}
_CALLED_CONSISTENT = {"version", *_LOCAL}
_BARE = frozenset({
    "current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "current_catalog",
    "current_schema", "current_role", "current_user", "session_user", "user",
})  # fmt: skip
# An overload over instants also depends on the time zone, which `connection` fixes.
_FUNCTIONS = """
SELECT function_name, function_type, bool_and(stability IS DISTINCT FROM 'VOLATILE') AND bool_or(
    coalesce(stability, 'CONSISTENT') = 'CONSISTENT' OR len(parameter_types) > 0
    AND regexp_matches(list_append(parameter_types, return_type)::VARCHAR, 'TIMESTAMP(TZ| WITH)')
  ) AS stable, macro_definition
FROM duckdb_functions() GROUP BY ALL
"""
_SCALAR = {"scalar", "aggregate", "window", "macro"}
_WORDS = """
SELECT keyword_name FROM duckdb_keywords() UNION SELECT type_name FROM duckdb_types() UNION
VALUES ('id'), ('try'), ('unnest'), ('ifnull'), ('percentile_cont'), ('percentile_disc')
"""
_CLOCK = ("now", "time", "today", "date", "age", "ago")


@dataclass(frozen=True)
class _Catalog:
    """The functions of DuckDB, by their properties."""

    volatile: frozenset[str]  # also macros: the result does not depend on their arguments alone
    callable: frozenset[str]  # in plans, with macros and `id`
    aggregates: frozenset[str]
    several: frozenset[str]  # functions that return several rows, and macros over them
    hidden: frozenset[str]  # macros over an aggregate
    words: frozenset[str]  # that may precede a parenthesis: functions, keywords, types


@lru_cache(maxsize=1)
def _catalog(con: duckdb.DuckDBPyConnection) -> _Catalog:
    listed = con.cursor().sql(_FUNCTIONS).fetchall()
    rows = {row for row in listed if row[1] in _SCALAR and not own_functions.calls_own(row[0])}
    unstable = {name for name, _, stable, _ in rows if not stable}
    macros = {name: body for name, kind, _, body in rows if kind == "macro" and body}
    words_of = {name: set(_words(body)) for name, body in macros.items()}
    called_by = {name: set(called(body)) for name, body in macros.items()}
    aggregate = frozenset(name for name, kind, _, _ in rows if kind == "aggregate")
    volatile = _callers(words_of, _CALLED_CONSISTENT | _BARE | (unstable - {"error"}))
    words = {name for (name,) in con.cursor().sql(_WORDS).fetchall()}
    named = {name for name, *_ in rows if name[:1].isalpha() and not name.startswith("pg_")}
    return _Catalog(
        volatile=volatile,
        callable=frozenset(named | {"id"}) - volatile,
        aggregates=aggregate,
        several=_callers(called_by, {"unnest"}),
        hidden=_callers(called_by, aggregate) - aggregate,
        words=frozenset(words | {name.lower() for name, *_ in listed}),
    )


def taken_names() -> frozenset[str]:
    """The names that user functions cannot have: functions of DuckDB and semgraph, and words of
    SQL.
    """
    catalog = _catalog(connection())
    words = {name.lower() for name in (*exp.FUNCTION_BY_NAME, *Faithful.Tokenizer.KEYWORDS)}
    return catalog.callable | catalog.volatile | catalog.aggregates | words


def register_function(function: own_functions.OwnFunction) -> None:
    """Register a user function for SQL."""
    own_functions.register(function, _define)


def _define(function: own_functions.OwnFunction) -> None:
    name = function.sql_name

    def compute(*columns: Any) -> Any:
        return own_functions.REGISTERED[name].on_columns(*columns)

    types = [own.kind.sql for own in function.parameters]
    _create(connection(), name, compute, types, function.result.sql)


def _create(
    con: duckdb.DuckDBPyConnection,
    name: str,
    compute: Callable[..., Any],
    types: Sequence[str],
    result: str,
) -> None:
    """Register a function of whole Arrow columns, NULLs included."""

    def whole(*columns: Any) -> Any:
        return compute(*columns)

    # DuckDB counts the parameters
    kind = inspect.Parameter.POSITIONAL_ONLY
    names = [inspect.Parameter(f"x{i}", kind) for i in range(len(types))]
    whole.__signature__ = inspect.Signature(names)  # type: ignore[attr-defined]
    con.create_function(
        name, whole, list(types), result, type=PythonUDFType.ARROW, null_handling=FunctionNullHandling.SPECIAL
    )  # fmt: skip


def aggregates() -> frozenset[str]:
    """Names of DuckDB's aggregate functions."""
    return _catalog(connection()).aggregates


def _callers(bodies: Mapping[str, set[str]], names: Collection[str]) -> frozenset[str]:
    """These functions, and the macros that call one of them."""
    functions, before = set(names), -1
    while len(functions) > before:
        before = len(functions)
        functions |= {name for name, body in bodies.items() if body & functions}
    return frozenset(functions)


def called(sql: str) -> Iterator[str]:
    """Names of the functions that SQL calls, in lower case."""
    return _words(sql, frozenset())


def _words(sql: str, bare: frozenset[str] = _BARE) -> Iterator[str]:
    """The functions called in SQL, and the words in `bare` that are calls without parentheses. SQL
    quotes identifiers.
    """
    for match in _WORD.finditer(sql):
        word = (match["word"] or "").lower()
        if match["quoted_call"]:
            yield match["quoted"].lower()
        elif match["called"] or word in bare:
            yield word


@lru_cache(maxsize=8192)
def refuse_volatile(scalar: Scalar, con: duckdb.DuckDBPyConnection) -> None:
    """Refuse a volatile scalar, whose result may differ between calls. Raises Fault."""
    if "(" not in scalar.sql and not any(word in scalar.sql.lower() for word in _BARE):
        return
    words = (*called(scalar.text), *_words(scalar.sql))
    volatile = _catalog(con).volatile
    name = next((word for word in words if word in volatile), None)
    if name is not None:
        hint = "the time of a window is $now" if any(part in name for part in _CLOCK) else None
        hint = "id(columns) makes ids" if "uuid" in name else hint
        raise Fault(f'"{name}" would make the plan give another result each time', hint=hint)
    for call in scalar.shared_ast.find_all(exp.Anonymous):
        if call.name.lower() == "age" and len(call.expressions) == 1:
            hint = "the time of a window is $now: age($now, time)"
            raise Fault('"age" of one time depends on today\'s date', hint=hint)


@lru_cache(maxsize=8192)
def _refuse_foreign(scalar: Scalar) -> None:
    """Refuse a function of another database, which the parser would translate. Raises Fault."""
    known = _catalog(connection()).words | {own.name for own in own_functions.own_calls(scalar.sql)}
    name = next((name for name in called_in(scalar.text) if name not in known), None)
    if name is not None:
        raise _no_function(scalar, name)


ORDINAL = "_o"
UNGROUPED = re.compile(r'column "(?P<name>[^"]+)" must appear in the GROUP BY clause')
_NO_FUNCTION = re.compile(r"Function with name (?P<name>\w+) does not exist!")
_CHANGED = re.compile(rf"""'(?:[^']|'')*'|"(?:[^"]|"")*"|\${NOW}\b|\b(?i:error)(?=\s*\()""")
# The name of `error` in statements. DuckDB's own `error` is volatile, so that DuckDB refuses it in
# orders and among distinct values.
_FAIL = "semgraph_error"
_RAISED = "Python exception occurred while executing the UDF: ValueError: "


@lru_cache(maxsize=1)
def connection() -> duckdb.DuckDBPyConnection:
    """The process's DuckDB: in memory, one thread (row order is part of the meaning), UTC, no
    access to files.

    It starts no threads. A forked process would lack them, wait for them at its end, and crash.
    """
    con = duckdb.connect(config={"threads": 1, "async_threads": 0, **CONFIG})
    con.execute("SET GLOBAL TimeZone='UTC'")  # GLOBAL: cursors have settings of their own
    con.execute("SET preserve_insertion_order=true")
    con.execute("SET GLOBAL python_enable_replacements=false")
    con.execute("SET enable_external_access=false")
    # list(x ORDER BY 'a'): a constant has no effect
    con.execute("SET GLOBAL order_by_non_integer_literal=true")
    for name, own in (TEXT_FUNCTIONS | VECTOR_FUNCTIONS).items():
        _create(con, name, own.on_columns, own.parameters, sql_type(own.arrow))
    _create(con, _FAIL, _fail, ["VARCHAR"], "NULL")
    con.execute("SET lock_configuration=true")
    atexit.register(con.close)
    return con


def _fail(texts: pa.Array[Any]) -> Any:
    raise ValueError(texts[0].as_py() or "")


def is_aggregate(call: exp.Func) -> bool:
    """Whether a function aggregates the values of many rows."""
    return isinstance(call, exp.AggFunc) or (
        isinstance(call, exp.Anonymous) and call.name.lower() in aggregates()
    )


def window_of(call: exp.Expr) -> exp.Window | None:
    """The window of a window function's call, or None."""
    while isinstance(call.parent, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls, exp.WithinGroup)):
        call = call.parent
    return call.parent if isinstance(call.parent, exp.Window) and call.parent.this is call else None


def empty_relation(schema: pa.Schema) -> str:
    """SQL of an empty relation with these columns and an ordinal."""
    columns = [f'NULL::{sql_type(field.type)} AS "{field.name}"' for field in schema]
    return f"SELECT {', '.join([*columns, f'NULL::BIGINT AS {ORDINAL}'])} WHERE false"


def check_columns(scalar: Scalar, schema: pa.Schema) -> None:
    """Refuse a scalar that reads an unknown column or struct field. Raises Fault."""
    for path in scalar.columns:
        type_of_path(path, schema)


def type_of_path(path: str, schema: pa.Schema) -> pa.DataType | None:
    """The canonical type of a column or struct field; None if only the binder knows it. Raises
    Fault.
    """
    root, *fields = path.split(".")
    index = schema.get_field_index(root)
    if index < 0:
        raise _missing(path, schema)
    inner: pa.DataType = schema.field(index).type
    for level, name in enumerate(fields):
        if not pa.types.is_struct(inner):
            return None
        index = inner.get_field_index(name)
        if index < 0:
            names = [f.name for f in inner]
            prefix = ".".join([root, *fields[:level]])
            there = "fields here: " + ", ".join(f"{prefix}.{n}" for n in names)
            near = did_you_mean(name, names)
            hint = near and near.replace('"', f'"{prefix}.', 1)
            raise Fault(f'no column "{path}"', there=there, hint=hint)
        inner = inner.field(index).type
    return canonical_type(inner)


def _missing(path: str, schema: pa.Schema) -> Fault:
    dotted = [f"{f.name}.{g.name}" for f in schema if pa.types.is_struct(f.type) for g in f.type]
    there = "columns here: " + (", ".join(schema.names) or "none")
    hint = did_you_mean(path, [*schema.names, *dotted]) or _CALLS.get(path.lower())
    return Fault(f'no column "{path}"', there=there, hint=hint)


# Hints for aggregates written as columns.
_CALLS = {
    name: f"{name} takes a column, in an aggregate: {{n: {name}(COLUMN)}}"
    for name in ("avg", "max", "min", "sum")
} | {"count": "an aggregate counts rows: {n: count(*)}"}


def executable(sql: str) -> str:
    """SQL for execution, with a typed parameter for the time and the registered `error`. Texts and
    names that contain these words are unchanged.
    """

    def changed(match: re.Match[str]) -> str:
        if match[0] == f"${NOW}":
            return f"CAST({match[0]} AS TIMESTAMPTZ)"
        return _FAIL if match[0].lower() == "error" else match[0]

    return _CHANGED.sub(changed, sql)


def _asks_now(sql: str) -> bool:
    return any(match[0] == f"${NOW}" for match in _CHANGED.finditer(sql))


@lru_cache(maxsize=8192)
@isolated(folds)
def bind(sql: str) -> pa.DataType:
    """The type of the first column of a statement over empty relations. Raises duckdb.Error."""
    cursor = connection().cursor()
    params: dict[str, Any] = {NOW: None} if _asks_now(sql) else {}
    try:
        with interruptible(), own_functions.not_called():
            relation = cursor.sql(sql, params=params) if params else cursor.sql(sql)
            kind: pa.DataType | None = _arrow_type(relation.types[0])
            if kind is None:  # only Arrow's reader knows the type: execute the statement
                kind = relation.to_arrow_table().schema.field(0).type
        return kind
    finally:
        cursor.close()


_ARROW_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "hugeint": pa.decimal128(38, 0),
    "float": pa.float32(),
    "double": pa.float64(),
    "varchar": pa.string(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamp with time zone": TIMESTAMP,
    "null": pa.null(),
}


def _arrow_type(kind: DuckDBPyType) -> pa.DataType | None:
    """The Arrow type of a DuckDB type; None if it is not listed."""
    if kind.id == "decimal":
        (_, precision), (_, scale) = kind.children
        return pa.decimal128(precision, scale)
    if kind.id not in ("struct", "list", "array"):
        return _ARROW_TYPES.get(kind.id)
    children: list[tuple[str, Any]] = kind.children
    parts: list[tuple[str, Any]] = [
        (name, part if isinstance(part, int) else _arrow_type(part)) for name, part in children
    ]
    if any(part is None for _, part in parts):
        return None
    return pa.struct(parts) if kind.id == "struct" else pa.list_(*(part for _, part in parts))


@lru_cache(maxsize=8192)
def _refuse_failing_casts(scalar: Scalar) -> None:
    """Refuse a failing cast of a constant, such as a parameter, unless the plan tests the value
    first.
    """
    of_rows = (exp.Column, exp.Parameter, exp.Placeholder, exp.AggFunc, exp.Window)
    for conversion in scalar.shared_ast.find_all(exp.Cast):
        tested = conversion.find_ancestor(exp.Case, exp.If, exp.Coalesce)
        sql = to_sql(conversion)
        if (
            isinstance(conversion, exp.TryCast)
            or tested
            or own_functions.calls_own(sql)
            or conversion.find(*of_rows)
        ):
            continue
        try:
            value_of(sql)
        except duckdb.Error as error:
            raise Fault(f'"{sql}": {_first_line(error)}') from None


def _first_line(error: duckdb.Error) -> str:
    """The first line of DuckDB's message, without the kind of the error."""
    return str(error).splitlines()[0].split(": ", 1)[-1]


@isolated(grows)
def value_of(sql: str) -> Any:
    """The value of SQL that reads no rows. Raises duckdb.Error."""
    cursor: Any = connection().cursor()
    try:
        with interruptible():
            return cursor.execute(f"SELECT {sql}").fetchone()[0]
    finally:
        cursor.close()


@isolated(grows)
def kind_of_value(sql: str) -> pa.DataType:
    """The Arrow type of the value of SQL that reads no rows. Raises duckdb.Error."""
    table = connection().cursor().sql(f"SELECT {sql} AS x").to_arrow_table()
    return cast("pa.DataType", table.schema.field(0).type)


@isolated(lambda _sql: False)
def rows_of(sql: str, tables: Mapping[str, pa.Table], now: datetime | None = None) -> pa.Table:
    """The rows of a statement over tables. Raises duckdb.Error; OutOfMemoryException if the rows
    would fill the memory of the parent process.
    """
    rows = prepared(sql, tables).run(tables, now)
    if CONFIG and rows.nbytes > MOST_BYTES + sum(table.nbytes for table in tables.values()):
        what = f"its rows have more than {MOST_BYTES >> 20} MB"
        raise duckdb.OutOfMemoryException(f"Out of Memory Error: {what}")
    return rows


def type_of(scalar: Scalar, schema: pa.Schema) -> pa.DataType:
    """The canonical Arrow type of a scalar over a relation. Raises Fault with DuckDB's message."""
    if scalar.is_column and (kind := type_of_path(scalar.columns[0], schema)) is not None:
        return kind
    check_scalar(scalar, schema)
    columns = {name: schema.field(name).type for name in scalar.roots}
    kind = kind_of(scalar.shared_ast, columns)
    return type_of_arrow(_bound(scalar, schema)).arrow if kind is None else kind


def check_scalar(scalar: Scalar, schema: pa.Schema) -> None:
    """Refuse errors that need no binder: missing columns, volatile functions, casts that always
    fail. Raises Fault.
    """
    check_columns(scalar, schema)
    refuse_volatile(scalar, connection())
    if "(" in scalar.text:
        _refuse_foreign(scalar)
    if "CAST(" in scalar.sql:
        _refuse_failing_casts(scalar)


def _bound(scalar: Scalar, schema: pa.Schema) -> pa.DataType:
    """The type that DuckDB binds. Raises Fault."""
    binds = scalar.shared_ast.find(exp.Lambda, exp.Comprehension) is not None
    sql = executable(to_sql(with_bound_fields(scalar.ast)) if binds else scalar.sql)
    read = _columns_read(scalar, schema)  # few columns: fast, and often cached
    try:
        kind = bind(f"SELECT {sql} AS x FROM ({empty_relation(read)}) AS {ROWS}")
    except duckdb.Error as error:
        raise refused(scalar, str(error)) from None
    return kind


def _columns_read(scalar: Scalar, schema: pa.Schema, groups: str = "") -> pa.Schema:
    """The columns that a scalar or `groups` reads, with only the read fields of structs: DuckDB
    binds few columns five times faster than all.
    """
    roots = scalar.roots
    columns = []
    for field in schema:
        if f'"{field.name}"' in groups:
            columns.append(field)
            continue
        if field.name not in roots:
            continue
        if field.name not in scalar.columns and pa.types.is_struct(field.type):
            paths = (path.split(".") for path in scalar.columns)
            names = {path[1] for path in paths if path[0] == field.name}
            inner = [part for part in field.type if part.name in names]
            field = pa.field(field.name, pa.struct(inner))  # noqa: PLW2901
        columns.append(field)
    return pa.schema(columns)


class UnknownFunction(Fault):
    """A call of an unknown function. `name` is its name."""

    name: str = ""

    def nearest_of(self, own: Iterable[str] = ()) -> UnknownFunction:
        """The fault with a hint at the nearest function, among those of all plans and `own`."""
        fault = copy(self)
        fault.hint = did_you_mean(self.name, {*own, *_catalog(connection()).callable})
        return fault


def refused(scalar: Scalar, error: str) -> Fault:
    """The fault with the first line of DuckDB's message; for an unknown function, with the nearest
    function that plans may call.
    """
    unknown = _NO_FUNCTION.search(error)
    if unknown is not None:
        return _no_function(scalar, unknown["name"])
    name = _first_aggregate(scalar)
    if UNGROUPED.search(error) and name:
        what = f'"{short(scalar.text)}": an aggregate ({name}) is not allowed here'
        hint = "compute it in an aggregate or a group_join step and use its column here"
        return Fault(what, hint=hint)
    lines = [line for line in error.splitlines() if line.strip()]
    message = own_functions.plain_names(lines[0].split(": ", 1)[-1]) if lines else "does not bind"
    lacks = "No function matches" in message
    own = next(own_functions.own_calls(scalar.sql), None) if lacks else None
    if own is not None and own.name in message:
        return Fault(f'"{short(scalar.text)}": {message}', there=f"its signature: {own.signature}")
    return Fault(f'"{short(scalar.text)}": {message}')


def _no_function(scalar: Scalar, name: str) -> UnknownFunction:
    what = f'"{short(scalar.text)}": there is no function "{name}"'
    fault = UnknownFunction(what, there="functions of your own: --functions DIR")
    fault.name = name
    return fault.nearest_of()


def _first_aggregate(scalar: Scalar) -> str | None:
    """The first aggregate that is no window function, as written in the plan."""
    if not scalar.has_window:
        return next((name for name in called(scalar.text) if name in aggregates()), None)
    for call in scalar.shared_ast.find_all(exp.Func):
        if is_aggregate(call) and window_of(call) is None:
            return next(called(to_sql(call)), None)
    return None


def stands_for(scalar: Scalar, schema: pa.Schema, wanted: pa.DataType) -> bool:
    """Whether a scalar has the wanted type, or any type because it is NULL or made of NULLs. Raises
    Fault as `type_of`.
    """
    kind = type_of(scalar, schema)
    return kind == wanted or _untyped(_bound(scalar, schema), wanted)


def _untyped(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a type differs only where a NULL or an empty list leaves it open."""
    if pa.types.is_list(kind) and pa.types.is_list(wanted):
        return _untyped(kind.value_type, wanted.value_type)
    return pa.types.is_null(kind)


_EXECUTE = "EXECUTE statement"
Schemas = tuple[tuple[str, pa.Schema], ...]  # of tables, by their names


class _Slot:
    """A table under a fixed name, replaced for each run: DuckDB asks it for its rows when a
    statement runs.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._empty = schema.empty_table()
        self.table = self._empty

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream: object = self.table.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]
        return stream

    def clear(self) -> None:
        """Release the rows."""
        self.table = self._empty


class Prepared:
    """One statement over tables with the fixed names and schemas of its SQL. While one thread runs
    it, other threads run copies, so that none waits.
    """

    def __init__(self, sql: str, schemas: Schemas) -> None:
        self._sql, self._schemas = sql, schemas
        self._lock = threading.Lock()
        # a cursor of its own, so that equal table names do not collide
        self._cursor = connection().cursor()
        self._slots = {name: _Slot(schema) for name, schema in schemas}
        self._timed = _asks_now(sql)
        for name, slot in self._slots.items():
            self._cursor.register(name.strip('"'), slot)
        self._cursor.execute("PREPARE statement AS " + executable(sql))
        [self._parsed] = self._cursor.extract_statements(_EXECUTE)

    def run(
        self,
        tables: Mapping[str, pa.Table],
        now: datetime | None = None,
        cursors: list[duckdb.DuckDBPyConnection] | None = None,
    ) -> pa.Table:
        """The rows over these tables. The executing cursor is added to `cursors`, so that another
        thread can interrupt it. Raises duckdb.Error.
        """
        statement = f"{_EXECUTE}({NOW} := {_literal(now)})" if self._timed else self._parsed
        if not self._lock.acquire(blocking=False):
            return Prepared(self._sql, self._schemas).run(tables, now, cursors)
        try:
            if cursors is not None:
                cursors.append(self._cursor)
            for name, table in tables.items():
                self._slots[name].table = table
            # a relation of `sql` binds the statement twice, longer than a small statement takes
            return cast("pa.Table", self._cursor.execute(statement).to_arrow_table())
        except duckdb.InvalidInputException as error:
            raise duckdb.InvalidInputException(str(error).replace(_RAISED, "")) from None
        finally:
            for slot in self._slots.values():
                slot.clear()
            self._lock.release()


# DuckDB warns about copying rows. Once at import: statements run in several threads, and a temporary
# filter affects all threads.
warnings.filterwarnings(
    "ignore", "Arrow output on a DB-API result", UserWarning, r"semgraph\.expr\.duckdb"
)


def _literal(now: datetime | None) -> str:
    if now is None:
        return "NULL::TIMESTAMPTZ"
    return f"TIMESTAMPTZ '{now.astimezone(UTC).isoformat(sep=' ')}'"


_cached = lru_cache(maxsize=256)(Prepared)


def prepared(sql: str, tables: Mapping[str, pa.Table]) -> Prepared:
    """The cached statement over tables with these names and schemas. Raises duckdb.Error."""
    return _cached(sql, tuple((name, table.schema) for name, table in tables.items()))


@lru_cache(maxsize=4096)
def constant(scalar: Scalar) -> Any:
    """The value of a scalar that reads no columns, time or rows. Raises Fault for other scalars,
    and for a scalar that fails.
    """
    hint = "a constant: numbers and parameters"
    if (own := next(own_functions.own_calls(scalar.sql), None)) is not None:
        what = f"calls {own.name}, a function of Python: it is called with rows only"
        raise Fault(f'"{scalar.text}" {what}', hint=hint)
    over_rows = scalar.has_window or any(map(is_aggregate, scalar.shared_ast.find_all(exp.Func)))
    if scalar.columns or scalar.asks_now or over_rows:
        raise Fault(f'"{scalar.text}" depends on the rows', hint=hint)
    refuse_volatile(scalar, connection())
    try:
        return value_of(scalar.sql)
    except duckdb.Error as error:
        raise Fault(f'"{scalar.text}": {_first_line(error)}') from None


@lru_cache(maxsize=4096)
def always(scalar: Scalar) -> bool:
    """Whether a condition holds for all rows: TRUE, or an OR with a part that is TRUE.

    >>> from semgraph.expr.scalar import parse_scalar
    >>> always(parse_scalar("$least IS NULL OR n >= $least", {"least": None}))
    True
    """
    tree = scalar.shared_ast
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


def expect_type(
    scalar: Scalar, schema: pa.Schema, wanted: pa.DataType, *, windows: bool = True
) -> None:
    """Refuse a scalar over rows with another type or with an aggregate. Raises Fault."""
    kind = type_of(scalar, schema)
    if kind != wanted:
        msg = f'"{short(scalar.text)}" is {type_of_arrow(kind)}, expected {type_of_arrow(wanted)}'
        raise Fault(msg)
    check_over_rows(scalar, schema, windows=windows)


def check_over_rows(scalar: Scalar, schema: pa.Schema, *, windows: bool = True) -> None:
    """Refuse a scalar over rows of a schema without a single value per row; it must be typed.
    `windows`: whether window functions are allowed. Raises Fault.
    """
    if "(" not in scalar.sql:
        return
    names = set(called(scalar.sql))
    _refuse_several(scalar, names)
    if not windows:
        _refuse_window(scalar, "compute it with add in a step before and use its column here")
    if not names & aggregates():
        return
    rows = empty_relation(pa.schema([field for field in schema if field.name in scalar.roots]))
    try:
        bind(f"SELECT {executable(scalar.sql)} AS x, {ORDINAL} FROM ({rows}) AS {ROWS}")
    except duckdb.Error as error:
        raise refused(scalar, str(error)) from None


def _refuse_window(scalar: Scalar, hint: str) -> None:
    if scalar.has_window:
        raise Fault(f'"{short(scalar.text)}": a window function is not allowed here', hint=hint)


def type_over_groups(scalar: Scalar, schema: pa.Schema, groups: Sequence[str] = ()) -> pa.DataType:
    """The canonical type of a scalar over groups of rows: aggregates of their columns, and columns
    in `groups`, the SQL of the values that are equal in a group. Raises Fault for a scalar without
    a single value per group.
    """
    check_scalar(scalar, schema)
    _refuse_several(scalar, set(called(scalar.sql)))
    _refuse_window(scalar, "add it in a step after this one")
    columns = [executable(scalar.sql), f"min({ORDINAL})", *groups]
    grouped = f" GROUP BY {', '.join(str(i + 3) for i in range(len(groups)))}" if groups else ""
    read = _columns_read(scalar, schema, "".join(groups))
    try:
        kind = bind(f"SELECT {', '.join(columns)} FROM ({empty_relation(read)}) AS {ROWS}{grouped}")
    except duckdb.Error as error:
        missing = UNGROUPED.search(str(error))
        if missing is None:
            raise refused(scalar, str(error)) from None
        name = missing["name"]
        what = f'"{short(scalar.text)}": the column "{name}" may differ within a group'
        raise Fault(what, hint=f"use an aggregate, such as first({name}) or list({name})") from None
    return type_of_arrow(kind).arrow


def _refuse_several(scalar: Scalar, names: set[str]) -> None:
    """Refuse functions that return several rows, and macros that hide an aggregate, whose order
    cannot be set.
    """
    catalog = _catalog(connection())
    if name := min(names & catalog.several, default=None):
        msg = f'"{short(scalar.text)}": "{name}" returns several rows'
        raise Fault(msg, hint="the operator unnest makes rows of a list")
    if name := min(names & catalog.hidden, default=None):
        msg = f'"{short(scalar.text)}": "{name}" is a macro over an aggregate, which plans cannot call'
        raise Fault(msg, hint="write it with list or sum")
