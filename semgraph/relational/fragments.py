"""Segments: each maximal relational run between calls to models and stores is one DuckDB
statement.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, cached_property, lru_cache, reduce
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from semgraph.errors import DataError, EngineError, Fault
from semgraph.expr.duckdb import ORDINAL, Prepared, connection, prepared, type_of
from semgraph.expr.functions import TEXT_FUNCTIONS, on_columns
from semgraph.expr.scalar import ROWS, Scalar, from_ast
from semgraph.expr.types import TIMESTAMP, sql_type
from semgraph.logical.node import Node, walk
from semgraph.logical.relational import Add, Filter, Project
from semgraph.relational.batch import (
    FEW,
    INPUT_ROW,
    PARTITION,
    Batch,
    Column,
    Row,
    conform,
    hidden,
    pick,
    runtime_schema,
    table_of,
    tuples_of,
    values,
)
from semgraph.relational.row_functions import FallBack
from semgraph.relational.row_scalars import Unsupported
from semgraph.relational.rows import RowFunction, compile_rows, compile_scalar
from semgraph.relational.sql import operator_sql, quote, scalar_sql

Value = Callable[[pa.Table, datetime | None], Column]
Change = Callable[[pa.Table, datetime | None], pa.Table]


def direct(root: Node, source: Node) -> Change | None:
    """How to get from the rows of `source` to those of `root` in Arrow alone; None where it takes
    DuckDB.
    """
    changes: list[Change] = []
    node = root
    while node is not source:
        change = _change(node)
        if change is None or len(node.inputs) != 1:
            return None
        changes.append(change)
        node = node.inputs[0]

    def apply(table: pa.Table, now: datetime | None) -> pa.Table:
        for change in reversed(changes):
            table = change(table, now)
        return table

    return apply


def _change(node: Node) -> Change | None:
    if isinstance(node, Filter):
        test = value_of(node.where, node.input.schema)
        if test is None:
            return None
        return lambda table, now: table.filter(test(table, now))
    if not isinstance(node, (Project, Add)):
        return None
    computed = {name: value_of(scalar, node.input.schema) for name, scalar in node.columns}
    if None in computed.values():
        return None
    names, schema = node.schema.names, node.schema

    def project(table: pa.Table, now: datetime | None) -> pa.Table:
        columns: dict[str, Column] = {}
        for name in names:
            compute = computed.get(name)
            columns[name] = table.column(name) if compute is None else compute(table, now)
        hidden_names = [name for name in (PARTITION, INPUT_ROW) if name in table.column_names]
        full = pa.schema([*schema, *(table.schema.field(name) for name in hidden_names)])
        return pa.table(columns | {name: table.column(name) for name in hidden_names}, schema=full)

    return project


def value_of(scalar: Scalar, schema: pa.Schema) -> Value | None:
    """A scalar as a function of a table, if it is simple enough; with the type that the plan gives
    it.
    """
    kind = type_of(scalar, schema)
    try:
        inner = _compile(scalar.ast, schema)
    except Fault:  # a part that fails by itself, such as a cast of a constant that no row reaches
        return None
    return inner and (lambda table, now: inner(table, now).cast(kind))


@lru_cache(maxsize=1024)
def _constant(sql: str, kind: pa.DataType) -> pa.Scalar[Any]:
    table = (
        connection().cursor().sql(f"SELECT CAST({sql} AS {sql_type(kind)}) AS x").to_arrow_table()
    )
    constant: pa.Scalar[Any] = table.column(0).cast(kind)[
        0
    ]  # not from a decimal: Arrow makes 0.6000000000000001 of 0.6
    return constant


_LOGICAL: dict[type[exp.Expr], str] = {
    exp.And: "and_kleene",
    exp.Or: "or_kleene",
    exp.Not: "invert",
}
_COMPARED: dict[type[exp.Expr], str] = {
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.GT: "greater",
    exp.GTE: "greater_equal",
    exp.LT: "less",
    exp.LTE: "less_equal",
}


def _compile(tree: exp.Expr, schema: pa.Schema) -> Value | None:  # noqa: PLR0911 - a return for each form
    """A syntax tree of a kind that Arrow computes as DuckDB does, NULLs included; both sides of a
    comparison have one type.
    """
    if isinstance(tree, exp.Paren):
        return _compile(tree.this, schema)
    if isinstance(tree, exp.Column):
        path = ".".join(part.name for part in tree.parts)
        return (
            (lambda table, _now: pick(table, path)) if tree.parts[0].name in schema.names else None
        )
    if isinstance(tree, (exp.Parameter, exp.Placeholder)):
        return lambda table, now: _repeat(pa.scalar(now, TIMESTAMP), table.num_rows)
    if not tree.find(exp.Column):
        return None if tree.find(exp.Window, exp.Parameter, exp.Placeholder) else _fixed(tree)
    name = type(tree)
    if name in _LOGICAL:
        return (
            _applied(_LOGICAL[name], _operands(tree), schema)
            if _have(pa.types.is_boolean, tree, schema)
            else None
        )
    if name in _COMPARED and _comparable(tree, schema):
        floats = _have(pa.types.is_floating, tree, schema)
        return _applied(
            _COMPARED[name], _operands(tree), schema, _nan_is_greatest if floats else None
        )
    if isinstance(tree, exp.Is) and isinstance(tree.expression, exp.Null):
        return _applied("is_null", [tree.this], schema)
    if isinstance(tree, exp.Coalesce):
        operands = [tree.this, *tree.expressions]
        return _applied("coalesce", operands, schema) if _of_one_type(operands, schema) else None
    if isinstance(tree, exp.Array) and len(tree.expressions) == 1:
        return _listed(_compile(tree.expressions[0], schema))
    return _text_function(tree, schema)


def _fixed(tree: exp.Expr) -> Value | None:
    scalar = from_ast(tree)
    try:
        constant = _constant(scalar.sql, type_of(scalar, pa.schema([])))
    except duckdb.Error:  # of no type that rows have, such as a number of 128 bits
        return None
    return lambda table, _now: _repeat(constant, table.num_rows)


def _repeat(value: Any, times: int) -> Column:
    return pa.repeat(value, times) if times else pa.array([], value.type)


def _operands(tree: exp.Expr) -> list[exp.Expr]:
    if isinstance(tree, (exp.And, exp.Or)):
        return list(tree.flatten())
    return [part for part in (tree.this, tree.args.get("expression")) if part is not None]


def _kind(tree: exp.Expr, schema: pa.Schema) -> pa.DataType:
    return type_of(from_ast(tree), schema)


def _have(test: Callable[[pa.DataType], bool], tree: exp.Expr, schema: pa.Schema) -> bool:
    return all(test(_kind(part, schema)) for part in _operands(tree))


def _comparable(tree: exp.Expr, schema: pa.Schema) -> bool:
    return _of_one_type(_operands(tree), schema)


def _of_one_type(operands: Sequence[exp.Expr], schema: pa.Schema) -> bool:
    """Arrow refuses, or widens in its own way, what differs in type; DuckDB is asked then."""
    first, *rest = (_kind(operand, schema) for operand in operands)
    return (
        all(kind == first for kind in rest)
        and not pa.types.is_nested(first)
        and not pa.types.is_null(first)
    )


def _applied(
    function: str,
    operands: Sequence[exp.Expr],
    schema: pa.Schema,
    change: Callable[[str], Any] | None = None,
) -> Value | None:
    inner = [_compile(operand, schema) for operand in operands]
    compute = change(function) if change else getattr(pc, function)
    if None in inner:
        return None
    if function not in {"and_kleene", "or_kleene"}:
        return lambda table, now: compute(
            *(value(table, now) for value in inner if value is not None)
        )
    return lambda table, now: reduce(
        compute, (value(table, now) for value in inner if value is not None)
    )


def _nan_is_greatest(function: str) -> Callable[[Column, Column], Column]:
    """A comparison of floats as DuckDB has it: NaN is equal to itself and greater than all else."""

    def greater(a: Column, b: Column) -> Column:
        return pc.or_(pc.greater(a, b), pc.and_(pc.is_nan(a), pc.invert(pc.is_nan(b))))

    def equal(a: Column, b: Column) -> Column:
        return pc.or_(pc.equal(a, b), pc.and_(pc.is_nan(a), pc.is_nan(b)))

    return {
        "equal": equal,
        "not_equal": lambda a, b: pc.invert(equal(a, b)),
        "greater": greater,
        "greater_equal": lambda a, b: pc.invert(greater(b, a)),
        "less": lambda a, b: greater(b, a),
        "less_equal": lambda a, b: pc.invert(greater(a, b)),
    }[function]


def _text_function(tree: exp.Expr, schema: pa.Schema) -> Value | None:
    function = (
        TEXT_FUNCTIONS.get(str(tree.this).lower()) if isinstance(tree, exp.Anonymous) else None
    )
    if (
        function is None
        or len(tree.expressions) != 1
        or not pa.types.is_string(_kind(tree.expressions[0], schema))
    ):
        return None
    inner = _compile(tree.expressions[0], schema)
    if inner is None:
        return None
    apply = on_columns(function)
    return lambda table, now: apply(inner(table, now))


def _listed(inner: Value | None) -> Value | None:
    """A list of one element for each row."""
    if inner is None:
        return None

    def listed(table: pa.Table, now: datetime | None) -> Column:
        flat = inner(table, now)
        flat = flat.combine_chunks() if isinstance(flat, pa.ChunkedArray) else flat
        return pa.ListArray.from_arrays(pa.array(range(len(flat) + 1), pa.int32()), flat)

    return listed


_LARGE = 20_000  # rows from which a statement leaves the event loop's thread


@dataclass(frozen=True)
class Segment:
    """One statement: SQL over tables named by `inputs`, giving the rows of `root`, in order.

    Args:
        root: The node whose rows it computes.
        inputs: The nodes that it reads, by the name of their table.
        sql: The statement.
        direct: The same in Arrow alone, where it is simple enough.
    """

    root: Node
    inputs: tuple[tuple[str, Node], ...]
    sql: str
    direct: Change | None = None

    @cached_property
    def function(self) -> RowFunction | Unsupported:
        """The same over few rows, or why only DuckDB computes it."""
        return compile_rows(self.root, [node for _, node in self.inputs])

    @cached_property
    def operators(self) -> tuple[Node, ...]:
        """The operators that the statement computes, inputs before what reads them."""
        inputs = {node for _, node in self.inputs}
        operators: dict[Node, None] = {}

        def visit(node: Node) -> None:
            for child in node.inputs:
                if child not in inputs and child not in operators:
                    visit(child)
            if node.inputs:
                operators[node] = None

        visit(self.root)
        return tuple(operators)


def compile_segment(root: Node, materialised: Mapping[Node, str]) -> Segment:
    """Compile a relational node down to the materialised nodes, given with the names of their
    tables.
    """
    names: dict[Node, str] = {}
    inputs: list[tuple[str, Node]] = []
    parts: list[str] = []

    def visit(node: Node) -> str:
        if node in names:
            return names[node]
        if node is not root and node in materialised:
            names[node] = name = materialised[node]
            inputs.append((name, node))
            return name
        for child in node.inputs:
            visit(child)
        names[node] = name = f"n{len(parts)}"
        parts.append(f"{name} AS ({operator_sql(node, names.__getitem__)})")
        return name

    last = visit(root)
    columns = [
        *(quote(name) for name in root.schema.names),
        *(h for h in hidden(root) if h != ORDINAL),
    ]
    sql = f"WITH {', '.join(parts)} SELECT {', '.join(columns)} FROM {last} ORDER BY {ORDINAL}"
    return Segment(
        root, tuple(inputs), sql, direct(root, inputs[0][1]) if len(inputs) == 1 else None
    )


def gives_nothing(segment: Segment, inputs: Sequence[Batch]) -> bool:
    """Whether a segment has no rows because inputs have none: known without running it."""
    empty = {
        node: not batch.num_rows for (_, node), batch in zip(segment.inputs, inputs, strict=True)
    }

    def visit(node: Node) -> bool:
        known = empty.get(node)
        return node.empty_over([visit(child) for child in node.inputs]) if known is None else known

    return any(empty.values()) and visit(segment.root)


async def run_segment(segment: Segment, inputs: Sequence[Batch], now: datetime | None) -> Batch:
    """The rows of a segment over those of its inputs: by its Python function where they are few,
    else by its statement. `SEMGRAPH_SEGMENTS` names one executor for all segments, or both, which
    must agree.

    Raises:
        DataError: A row has no value.
        EngineError: The executors differ.
    """
    executor = _executor()
    if executor != "duckdb" and (executor or sum(batch.num_rows for batch in inputs) <= FEW):
        rows = _by_function(segment, inputs, now)
        if rows is not None and executor != "both":
            return Batch.of_tuples(rows, runtime_schema(segment.root))
    else:
        rows = None
    named = dict(zip((name for name, _ in segment.inputs), [b.table for b in inputs], strict=True))
    table = await execute(segment.sql, named, runtime_schema(segment.root), now)
    batch = Batch.of_table(table)
    if rows is not None:
        check_equal(segment.root, segment.sql, inputs, rows, batch.rows)
    return batch


@cache
def _executor() -> str:
    name = os.environ.get("SEMGRAPH_SEGMENTS", "")
    if name not in {"", "duckdb", "rows", "both"}:
        raise EngineError(f'SEMGRAPH_SEGMENTS is duckdb, rows or both, not "{name}"')
    return name


def _by_function(
    segment: Segment, inputs: Sequence[Batch], now: datetime | None
) -> list[Row] | None:
    """The rows by the segment's function; None where DuckDB must compute them."""
    if isinstance(segment.function, Unsupported):
        return None
    try:
        return segment.function([batch.rows for batch in inputs], now)
    except FallBack:
        return None
    except Exception:
        if _executor() == "both":
            raise
        return None  # of a value that Python cannot hold; an error is DuckDB's to report


def check_equal(
    node: Node, what: str, inputs: Sequence[Batch], rows: list[Row], others: list[Row]
) -> None:
    """Refuse rows of the two executors that differ. Raises EngineError."""
    if len(rows) != len(others) or not all(map(same, rows, others)):
        shown = "\n".join(map(str, [what, *(batch.rows for batch in inputs), rows, others]))
        raise EngineError(f"the executors of step {node.step} differ:\n{shown}")


def same(a: Any, b: Any) -> bool:
    """Whether values are equal, their types and NaN included; DuckDB's sorts lose the sign of
    zero.
    """
    if isinstance(a, (tuple, list)) and type(a) is type(b):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[name], b[name]) for name in a)
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and bool(a == b)


async def execute(
    sql: str, tables: Mapping[str, pa.Table], schema: pa.Schema, now: datetime | None = None
) -> pa.Table:
    """Run one statement over Arrow tables and give its rows the canonical types of `schema`.

    Small ones run on the event loop's thread: a hand-off to another costs more than they do.
    """
    numbered = {name: Batch.of_table(table).with_ordinal() for name, table in tables.items()}
    try:
        if sum(table.num_rows for table in tables.values()) > _LARGE:
            found = await asyncio.to_thread(lambda: Prepared(sql, numbered).run(numbered, now))
        else:
            found = prepared(sql, numbered).run(numbered, now)
    except duckdb.Error as error:
        msg = f"a relational segment failed while running: {str(error).splitlines()[0]}"
        raise DataError(msg) from error
    return conform(found, schema)


async def column_of(
    scalar: Scalar,
    source: Node,
    table: pa.Table,
    now: datetime | None,
    kind: pa.DataType | None = None,
) -> pa.Array:  # type: ignore[type-arg]
    """A scalar over the rows of `source`, as a column of the type that the plan gives it, or of
    another.
    """
    own = type_of(scalar, source.schema)
    wanted = kind or own
    simple = (
        value_of(scalar, source.schema) if own == wanted else None
    )  # else a NULL, which is of any type
    if simple is not None:
        column = simple(table, now)
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    rows = _few_values(scalar, source, table, now, wanted)
    schema = pa.schema([pa.field("x", wanted)])
    if rows is not None and _executor() != "both":
        return table_of(rows, schema).column("x").combine_chunks()
    value = f"CAST({scalar_sql(scalar, source.partitioned)} AS {sql_type(wanted)})"
    sql = f"SELECT {value} AS x FROM {ROWS} ORDER BY {ORDINAL}"
    computed = await execute(sql, {ROWS: table}, schema, now)
    if rows is not None:
        check_equal(source, sql, [Batch.of_table(table)], rows, tuples_of(computed))
    return computed.column("x").combine_chunks()


def _few_values(
    scalar: Scalar, source: Node, table: pa.Table, now: datetime | None, kind: pa.DataType
) -> list[Row] | None:
    """The values of a scalar as rows of one column, by its function; None where DuckDB must
    compute them.
    """
    executor, names = _executor(), runtime_schema(source).names
    if executor == "duckdb" or not (executor or table.num_rows <= FEW):
        return None
    function = _scalar_function(scalar, source, kind)
    if isinstance(function, Unsupported) or not set(names) <= set(table.column_names):
        return None
    read = {path.split(".")[0] for path in scalar.columns} | {PARTITION, INPUT_ROW}
    unread = [None] * table.num_rows
    columns = [values(table.column(name)) if name in read else unread for name in names]
    try:
        return function([list(zip(*columns, strict=True))], now)
    except FallBack:
        return None
    except Exception:
        if executor == "both":
            raise
        return None  # of a value that Python cannot hold; an error is DuckDB's to report


_scalar_function = lru_cache(maxsize=1024)(compile_scalar)


def plan_segments(roots: Sequence[Node]) -> dict[Node, str]:
    """The nodes that are materialised, with the names of their tables.

    These are the nodes that are not relational, the inputs of such nodes, the roots, and each
    relational node that two segments would compute.
    """
    order = list(walk(*roots))
    materialised = {node for node in (*order, *roots) if not node.relational or not node.inputs}
    materialised |= set(roots)
    owners: dict[Node, set[Node]] = {}
    for node in reversed(order):
        mine = owners.setdefault(node, set())
        if node in materialised or len(mine) > 1:
            materialised.add(node)
            mine = {node}
        for child in node.inputs:
            if not node.relational:
                materialised.add(child)
            owners.setdefault(child, set()).update(mine)
    return {node: f"m{i}" for i, node in enumerate(order) if node in materialised}


_HINTS: dict[type[duckdb.Error], str] = {
    duckdb.ConversionException: "where x is not of that form, try_cast(x AS TYPE) gives NULL",
    duckdb.OutOfRangeException: "compute with larger numbers: CAST(x AS DOUBLE)",
}
_HINT = "leave such rows out in a step before, or say what they give: CASE WHEN ... THEN ... END"


def place_error(error: DataError, node: Node) -> DataError:
    """An error of a node's rows with the place of the node."""
    if error.problem.position is not None or not isinstance(error.__cause__, duckdb.Error):
        return error.at(node.step, node.origin)
    cause = error.__cause__
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(cause, kind)), _HINT)
    what = (
        f"{node.keyword} cannot compute with its rows"
        if node.step
        else "what is to be written cannot be computed"
    )
    return DataError(
        f"{what}: {str(cause).splitlines()[0]}", step=node.step, position=node.origin, hint=hint
    )


async def place_segment_error(
    error: DataError, segment: Segment, inputs: Sequence[Batch], now: datetime | None
) -> DataError:
    """An error of a segment with the place of its first operator that fails."""
    if error.problem.position is None and isinstance(error.__cause__, duckdb.Error):
        names = {node: name for name, node in segment.inputs}
        named = dict(zip(names.values(), (batch.table for batch in inputs), strict=True))
        for operator in segment.operators:
            own = compile_segment(operator, names)
            tables = {name: named[name] for name, _ in own.inputs}
            try:
                await execute(own.sql, tables, runtime_schema(operator), now)
            except DataError as first:
                return place_error(first, operator)
    return place_error(error, segment.root)
