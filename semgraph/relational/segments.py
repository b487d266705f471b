"""Segments. Each maximal sequence of relational operators between calls to models and stores is one
DuckDB statement or, over few rows, one generated function.

A traced segment also computes lineage, the source rows of each row, as a hidden column. Joins
concatenate the lists of both rows, groups the lists of all their rows. An operator that makes one
row of many ends a piece of the segment, and its rows get new ids. Readers then name one id instead
of many, so that lineage takes no more space than the rows.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple, TypeVar

import duckdb
import pyarrow as pa
from sqlglot import exp

from semgraph.errors import DataError, EngineError
from semgraph.expr.duckdb import ORDINAL, prepared, type_of
from semgraph.expr.isolated import PROCESS, grows, late
from semgraph.expr.own_functions import FunctionFailed, calls_own, failure_in
from semgraph.expr.row_functions import MOST_ITEMS, FallBack
from semgraph.expr.row_scalars import Unsupported
from semgraph.expr.scalar import ROWS, Scalar, from_ast
from semgraph.expr.types import sql_type
from semgraph.logical.node import Node, walk
from semgraph.logical.relational import Aggregate, GroupJoin, Join, Project
from semgraph.relational.batch import (
    FEW,
    INPUT_ROW,
    PARTITION,
    Batch,
    Row,
    conform,
    runtime_schema,
    values,
)
from semgraph.relational.rows import RowFunction, compile_rows
from semgraph.relational.sql import LINEAGE, InputRelations, operator_sql, quote

T = TypeVar("T")
_LARGE = MOST_ITEMS  # above this number of rows, pairs or items a statement runs in another thread
_MANY = 50 * _LARGE  # above this number of pairs it runs in the DuckDB process, if there is one


@dataclass(frozen=True)
class Deadline:
    """The time left for a statement in a thread (None: no limit), and the error then."""

    seconds: Callable[[], float | None] = lambda: None
    passed: Callable[[float], Exception] = late


DEADLINE: ContextVar[Deadline] = ContextVar("deadline", default=Deadline())  # noqa: B039 - it is frozen


@dataclass(frozen=True)
class Segment:
    """One statement: SQL over tables named by `inputs` that returns the rows of `root`, in order.
    If traced, it also computes the source rows of each row.
    """

    root: Node
    inputs: tuple[tuple[str, Node], ...]
    sql: str
    traced: bool = False

    @cached_property
    def function(self) -> RowFunction | Unsupported:
        """The function of the segment for few rows, or why only DuckDB can compute it."""
        return compile_rows(self.root, [node for _, node in self.inputs], traced=self.traced)

    @cached_property
    def content(self) -> str:
        """The statement, with the names of its inputs replaced by their indices."""
        sql = self.sql
        for i, (name, _) in enumerate(self.inputs):
            sql = re.sub(rf"\b{re.escape(name)}\b", f"in{i}", sql)
        return sql

    @cached_property
    def calls_own(self) -> bool:
        """Whether it calls a user function."""
        return calls_own(self.sql)

    def is_empty_over(self, inputs: Sequence[Batch]) -> bool:
        """Whether it has no rows because its inputs have none; determined without running it."""
        empty = {
            node: not batch.num_rows for (_, node), batch in zip(self.inputs, inputs, strict=True)
        }

        def visit(node: Node) -> bool:
            known = empty.get(node)
            if known is None:
                return node.is_empty_over([visit(child) for child in node.inputs])
            return known

        return any(empty.values()) and visit(self.root)

    def pairs(self, inputs: Sequence[Batch]) -> int:
        """The maximum number of row pairs that one of its joins may compare."""
        rows = {node: batch.num_rows for (_, node), batch in zip(self.inputs, inputs, strict=True)}
        most = 0
        for node in self.operators:
            sizes = [rows[child] for child in node.inputs]
            if isinstance(node, Join | GroupJoin):
                most = max(most, math.prod(sizes))
            joined = isinstance(node, Join) and node.how in {"inner", "left"}
            rows[node] = math.prod(sizes) if joined else sum(sizes)
        return most

    @cached_property
    def operators(self) -> tuple[Node, ...]:
        """The operators that the statement computes, in topological order: inputs first."""
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

    @cached_property
    def pieces(self) -> tuple[Segment, ...]:
        """The traced segments that together compute it, in topological order: inputs first."""
        names = {node: name for name, node in self.inputs}
        for i, node in enumerate(self._ends()):
            names[node] = f"c{i}"
        ends = [node for node in self.operators if node in names]
        return tuple(compile_segment(node, names, traced=True) for node in (*ends, self.root))

    def _ends(self) -> list[Node]:
        """The operators below the root that make one row of many, or that two pieces share."""
        grouped = {node for node in self.operators if isinstance(node, Aggregate | GroupJoin)}
        ends = _ends_of_segments(self.operators, {self.root, *grouped}) - {self.root}
        return [node for node in reversed(self.operators) if node in ends]


def compile_segment(
    root: Node, materialised: Mapping[Node, str], *, traced: bool = False
) -> Segment:
    """Compile a relational node down to the materialised nodes, by the names of their tables."""
    names: dict[Node, str] = {}
    source = InputRelations(names, traced)
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
        parts.append(f"{name} AS ({operator_sql(node, source)})")
        return name

    last = visit(root)
    columns = [
        *(quote(name) for name in root.schema.names),
        *(h for h in source.hidden(root) if h != ORDINAL),
    ]
    sql = f"WITH {', '.join(parts)} SELECT {', '.join(columns)} FROM {last} ORDER BY {ORDINAL}"
    return Segment(root, tuple(inputs), sql, traced)


class Executors(NamedTuple):
    """The choice of executors for segments: generated Python, if it can, up to `few`
    rows. `both`: DuckDB computes these too, and the results must agree.
    """

    few: float
    both: bool = False


_EXECUTORS = {
    "": Executors(FEW),
    "duckdb": Executors(-1),
    "rows": Executors(math.inf),
    "both": Executors(math.inf, both=True),
}


def executors(*sql: str) -> Executors:
    """The executors of `SEMGRAPH_SEGMENTS`; DuckDB for SQL that grows. Raises EngineError."""
    if PROCESS.get() is not None and any(map(grows, sql)):
        return _EXECUTORS["duckdb"]
    name = os.environ.get("SEMGRAPH_SEGMENTS", "")
    if name in _EXECUTORS:
        return _EXECUTORS[name]
    if name.isdigit():
        return Executors(int(name))
    raise EngineError(f'SEMGRAPH_SEGMENTS is duckdb, rows, both or a number of rows, not "{name}"')


async def run_segment(segment: Segment, inputs: Sequence[Batch], now: datetime | None) -> Batch:
    """The rows of a segment, by its function or its statement. Raises DataError, EngineError."""
    few, both = executors(segment.sql)
    rows = None
    if sum(batch.num_rows for batch in inputs) <= few:
        by_function = partial(_by_function, segment, inputs, now, both=both)
        rows = await apart(by_function) if segment.calls_own else by_function()
    if rows is not None and not both:
        return _of_rows(segment, rows)
    tables = (_traced_table(batch) if segment.traced else batch.table for batch in inputs)
    named = dict(zip((name for name, _ in segment.inputs), tables, strict=True))
    pairs = segment.pairs(inputs)
    batch = _of_table(segment, await execute(segment.sql, named, _schema(segment), now, pairs))
    if rows is not None:
        ours = _of_rows(segment, rows)
        check_equal(segment.root, segment.sql, inputs, ours.rows, batch.rows)
        check_equal(segment.root, segment.sql, inputs, ours.sources or [], batch.sources or [])
    return batch


async def run_traced(
    segment: Segment,
    inputs: Sequence[Batch],
    now: datetime | None,
    number: Callable[[Batch], Batch],
) -> Batch:
    """The rows of a segment with their sources, as `run_segment` computes them. The inputs have
    ids; `number` assigns ids to the rows of each piece but the last, and records their sources.
    Raises as `run_segment`.
    """
    batches = {node: batch for (_, node), batch in zip(segment.inputs, inputs, strict=True)}
    *inner, last = segment.pieces
    for piece in inner:
        own = [batches[node] for _, node in piece.inputs]
        batches[piece.root] = number(await run_segment(piece, own, now))
    return await run_segment(last, [batches[node] for _, node in last.inputs], now)


_LINEAGE = pa.field(LINEAGE.strip('"'), pa.list_(pa.int64()))


def _schema(segment: Segment) -> pa.Schema:
    schema = runtime_schema(segment.root)
    return schema.append(_LINEAGE) if segment.traced else schema


def _traced_rows(batch: Batch) -> list[Row]:
    """The rows, each with its id as its only source."""
    return [(*row, (number,)) for row, number in zip(batch.rows, batch.ids or (), strict=True)]


def _traced_table(batch: Batch) -> pa.Table:
    ids = pa.array(batch.ids or (), pa.int64())
    offsets = pa.array(range(len(ids) + 1), pa.int32())
    return batch.table.append_column(_LINEAGE, pa.ListArray.from_arrays(offsets, ids))


def _of_rows(segment: Segment, rows: list[Row]) -> Batch:
    schema = runtime_schema(segment.root)
    if not segment.traced:
        return Batch.of_tuples(rows, schema)
    sources = [row[-1] if len(row[-1]) < 2 else _distinct(row[-1]) for row in rows]
    return Batch(schema, [row[:-1] for row in rows], sources=sources)


def _of_table(segment: Segment, table: pa.Table) -> Batch:
    if not segment.traced:
        return Batch.of_table(table)
    sources = [_distinct(row or ()) for row in values(table.column(_LINEAGE.name))]
    return Batch.of_table(table.drop_columns(_LINEAGE.name)).with_sources(sources)


def _distinct(ids: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(set(ids)))


def _by_function(
    segment: Segment, inputs: Sequence[Batch], now: datetime | None, *, both: bool
) -> list[Row] | None:
    """The rows by the segment's function; None if DuckDB must compute them."""
    if isinstance(segment.function, Unsupported):
        return None
    try:
        rows = [_traced_rows(batch) if segment.traced else batch.rows for batch in inputs]
        return segment.function(rows, now)
    except (FallBack, OverflowError, FunctionFailed):
        return None
    except Exception:
        if both:
            raise
        return None  # DuckDB reports the error


def check_equal(
    node: Node, what: str, inputs: Sequence[Batch], rows: Sequence[Row], others: Sequence[Row]
) -> None:
    """Compare the rows of both executors. Raises EngineError if they differ."""
    if len(rows) != len(others) or not all(map(same, rows, others)):
        shown = "\n".join(map(str, [what, *(batch.rows for batch in inputs), rows, others]))
        raise EngineError(f"the executors of step {node.step} differ:\n{shown}")


def same(a: Any, b: Any) -> bool:
    """Whether values and types are equal. NaN equals NaN, and 0.0 equals -0.0."""
    if isinstance(a, (tuple, list)) and type(a) is type(b):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[name], b[name]) for name in a)
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return type(a) is type(b) and bool(a == b)


async def execute(
    sql: str,
    tables: Mapping[str, pa.Table],
    schema: pa.Schema,
    now: datetime | None = None,
    pairs: int | None = None,
) -> pa.Table:
    """Run one statement over Arrow tables and cast its rows to the canonical types of `schema`.
    Raises DataError if an expression fails on a row, or the deadline has passed.

    Small statements run in the event loop's thread, because switching threads costs more than they
    do. Statements with user functions never do, because these may be slow. A statement in another
    thread is interrupted when the task is cancelled or the deadline has passed. `pairs` is the
    maximum number of row pairs that it compares; None: the pairs of all tables.
    """
    numbered = {name: Batch.of_table(table).with_ordinal() for name, table in tables.items()}
    sizes = [table.num_rows for table in tables.values()]
    most = max(sum(sizes), math.prod(sizes) if pairs is None else pairs)
    cursors: list[duckdb.DuckDBPyConnection] = []
    large = grows(sql) or (pairs or 0) > _MANY
    worker = PROCESS.get() if large and not calls_own(sql) else None

    def run() -> pa.Table:
        if worker is not None:
            table: pa.Table = worker.call("rows_of", sql, numbered, now)
            return table
        return prepared(sql, numbered).run(numbered, now, cursors)

    def stop() -> None:
        for each in cursors:
            each.interrupt()
        if worker is not None:
            worker.end()

    try:
        if large or most > _LARGE or calls_own(sql):
            rows = await apart(run, stop)
        else:
            rows = run()
    except duckdb.Error as error:
        if (failed := failure_in(str(error))) is not None:
            raise DataError(failed) from error
        msg = f"a relational segment failed while running: {str(error).splitlines()[0]}"
        raise DataError(msg) from error
    return conform(rows, schema)


async def apart(run: Callable[[], T], stop: Callable[[], object] = lambda: None) -> T:
    """The result of slow work, run in a daemon thread: user functions cannot be interrupted, and
    the process does not wait for them at its end. `stop` is called when the result is no longer
    needed. Raises what `DEADLINE` defines once it has passed.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    context = copy_context()

    def end(set_outcome: Callable[[Any], None], outcome: Any) -> None:
        if not future.done():  # cancelled
            set_outcome(outcome)

    def work() -> None:
        try:
            ended = partial(end, future.set_result, context.run(run))
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            ended = partial(end, future.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nothing waits
            loop.call_soon_threadsafe(ended)

    limit = DEADLINE.get()
    seconds = limit.seconds()
    thread = threading.Thread(target=work, name="semgraph functions", daemon=True)
    thread.start()
    try:
        async with asyncio.timeout(seconds) as deadline:
            return await future
    except (TimeoutError, asyncio.CancelledError):
        if future.cancelled():
            threading.Thread(target=_end, args=(thread, stop)).start()
        if deadline.expired():
            raise limit.passed(seconds or 0.0) from None
        raise


def _end(thread: threading.Thread, stop: Callable[[], object]) -> None:
    """Stop the work of a thread until it has ended: a statement that has not begun ignores an
    interrupt. The process waits for this at its end, at most two seconds for a user function,
    because DuckDB cannot close while a statement runs.
    """
    for _ in range(40):
        if not thread.is_alive():
            return
        stop()
        thread.join(0.05)


@lru_cache(maxsize=512)
def column_segment(scalar: Scalar, source: Node, kind: pa.DataType | None = None) -> Segment:
    """The segment of one column, `x`, of a type (None: that of the scalar). Raises Fault."""
    if kind is not None and type_of(scalar, source.schema) != kind:
        cast = exp.Cast(this=scalar.ast, to=exp.DataType.build(sql_type(kind), dialect="duckdb"))
        scalar = from_ast(cast, scalar.text)
    return compile_segment(Project(input=source, columns=(("x", scalar),)), {source: ROWS})


async def column_of(
    scalar: Scalar, source: Node, rows: Batch, now: datetime | None, kind: pa.DataType | None = None
) -> Batch:
    """A scalar over rows of `source`, as the column `x`, of another type if `kind` says so."""
    rows = rows.in_order(runtime_schema(source).names)
    if rows.num_rows <= min(executors(scalar.sql).few, FEW):
        with suppress(OverflowError):  # Python cannot hold a value
            rows = rows.reading({*scalar.roots, PARTITION, INPUT_ROW})
    return await run_segment(column_segment(scalar, source, kind), [rows], now)


def plan_segments(roots: Sequence[Node]) -> dict[Node, str]:
    """The materialised nodes, with the names of their tables: non-relational nodes, their inputs,
    the roots, and each relational node that two segments would compute.
    """
    order = list(walk(*roots))
    fixed = {node for node in order if not node.relational or not node.inputs} | set(roots)
    fixed |= {child for node in order if not node.relational for child in node.inputs}
    materialised = _ends_of_segments(order, fixed)
    return {node: f"m{i}" for i, node in enumerate(order) if node in materialised}


def _ends_of_segments(order: Sequence[Node], fixed: set[Node]) -> set[Node]:
    """The nodes at which segments end: those that are `fixed`, and those that two segments would
    compute. `order` is topological: inputs first.
    """
    ends = set(fixed)
    owners: dict[Node, set[Node]] = {}
    for node in reversed(order):
        own = owners.setdefault(node, set())
        if node in ends or len(own) > 1:
            ends.add(node)
            own = {node}
        for child in node.inputs:
            owners.setdefault(child, set()).update(own)
    return ends


_HINTS: dict[type[duckdb.Error], str] = {
    duckdb.ConversionException: "where x is not of that form, try_cast(x AS TYPE) gives NULL",
    duckdb.OutOfRangeException: "compute with larger numbers: CAST(x AS DOUBLE)",
    duckdb.InterruptException: "take fewer rows, or a condition that is quicker; --max-seconds sets the time",
    duckdb.OutOfMemoryException: "take fewer rows, or make shorter texts and lists",
}
_HINT = "leave such rows out in a step before, or say what they give: CASE WHEN ... THEN ... END"


def locate_error(error: DataError, node: Node) -> DataError:
    """An error of a node's rows, with the position of the node."""
    if error.problem.position is not None or not isinstance(error.__cause__, duckdb.Error):
        return error.at(node.step, node.origin)
    cause = error.__cause__
    if failure_in(str(cause)) is not None:
        hint = "correct the function, or leave such rows out in a step before"
        return DataError(error.problem.what, step=node.step, position=node.origin, hint=hint)
    hint = next((hint for kind, hint in _HINTS.items() if isinstance(cause, kind)), _HINT)
    written = "what is to be written cannot be computed"
    what = f"{node.keyword} cannot compute with its rows" if node.step else written
    return DataError(
        f"{what}: {str(cause).splitlines()[0]}", step=node.step, position=node.origin, hint=hint
    )


async def place_segment_error(
    error: DataError, segment: Segment, inputs: Sequence[Batch], now: datetime | None
) -> DataError:
    """An error of a segment, with the position of its first operator that fails."""
    timely = not isinstance(error.__cause__, duckdb.InterruptException)
    if timely and error.problem.position is None and isinstance(error.__cause__, duckdb.Error):
        names = {node: name for name, node in segment.inputs}
        named = dict(zip(names.values(), (batch.table for batch in inputs), strict=True))
        for operator in segment.operators:
            own = compile_segment(operator, names)
            tables = {name: named[name] for name, _ in own.inputs}
            try:
                await execute(own.sql, tables, runtime_schema(operator), now)
            except DataError as first:
                return locate_error(first, operator)
    return locate_error(error, segment.root)
