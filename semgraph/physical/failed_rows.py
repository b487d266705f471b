"""Failed rows: rows that violate a requirement, and input rows that make a segment fail. The latter
are found by bisection.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import duckdb
import pyarrow as pa

from semgraph.errors import DataError, InputError, Problem
from semgraph.expr.types import python_rows
from semgraph.logical.relational import Require
from semgraph.relational.batch import Batch
from semgraph.relational.segments import Segment, column_of, place_segment_error, run_segment
from semgraph.semantic.ask import Failure, failures


async def required(
    node: Require, rows: Batch, now: datetime | None, *, windows: bool
) -> tuple[Batch, tuple[Failure, ...]]:
    """The rows that meet a requirement, and a failure for each other row. Raises InputError if the
    plan cuts `windows`, a row outside of them violates the requirement, and that ends the run.
    """
    holds = (await column_of(node.where, node.input, rows, now, pa.bool_())).column("x")
    wrong = [place for place, value in enumerate(holds) if not value]
    if not wrong:
        return rows, ()
    bad = rows.take(wrong)
    errors = [
        error or "it is not as it must be"
        for error in (await column_of(node.says, node.input, bad, now)).column("x")
    ]
    if windows and node.ends and node.fails and not rows.has_input_rows:
        raise InputError(
            *(Problem(error, node.step or None, node.origin) for error in dict.fromkeys(errors))
        )
    good = rows.take([place for place, value in enumerate(holds) if value])
    return good, failures(node, bad.table, range(len(wrong)), errors)


async def without_faulty(
    segment: Segment, inputs: Sequence[Batch], now: datetime, error: DataError
) -> tuple[list[Batch], list[Failure]]:
    """The inputs without faulty input rows, and their failures; raises if that does not help."""
    if isinstance(error.__cause__, duckdb.InterruptException):
        raise error  # the statement timed out
    numbers = {row for batch in inputs for row in batch.input_rows() if row is not None}
    if not numbers or await _error_with(segment, inputs, now, []) is not None:
        raise error
    faulty = await _faulty(segment, inputs, now, sorted(numbers))
    rest = sorted(numbers - faulty.keys())
    if not faulty or await _error_with(segment, inputs, now, rest) is not None:
        raise error
    failures = [await _failure(segment, inputs, now, row, own) for row, own in faulty.items()]
    return _deriving(inputs, rest), failures


async def _faulty(
    segment: Segment, inputs: Sequence[Batch], now: datetime, rows: Sequence[int]
) -> dict[int, DataError]:
    """The errors of the input rows that fail a statement alone, by input row; found by bisection."""
    error = await _error_with(segment, inputs, now, rows)
    if error is None:
        return {}
    if len(rows) == 1:
        return {rows[0]: error}
    half = len(rows) // 2
    first = await _faulty(segment, inputs, now, rows[:half])
    return first | await _faulty(segment, inputs, now, rows[half:])


async def _error_with(
    segment: Segment, inputs: Sequence[Batch], now: datetime, rows: Sequence[int]
) -> DataError | None:
    """The error of a statement over the rows that derive from some input rows, or None."""
    try:
        await run_segment(segment, _deriving(inputs, rows), now)
    except DataError as error:
        return error
    return None


async def _failure(
    segment: Segment, inputs: Sequence[Batch], now: datetime, row: int, error: DataError
) -> Failure:
    own = _deriving(inputs, [row])
    placed = await place_segment_error(error, segment, own, now)
    step = placed.problem.step or segment.root.step
    return Failure(step, placed.without_step, row, _first_row(own))


def _first_row(inputs: Sequence[Batch]) -> dict[str, Any]:
    for batch in inputs:
        if batch.num_rows and batch.has_input_rows:
            return python_rows(batch.slice(0, 1).visible())[0]
    return {}


def _deriving(inputs: Sequence[Batch], rows: Sequence[int]) -> list[Batch]:
    return [batch.of_input_rows(rows, shared=True) for batch in inputs]
