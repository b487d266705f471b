"""Failed rows: those that break a requirement, and input rows with which a segment fails, found by
bisection.
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
    """The rows that hold, and a failure for each that does not.

    Args:
        node: What must hold.
        rows: The rows.
        now: The value of `$now`.
        windows: Whether the plan cuts windows.

    Raises:
        InputError: A row does not hold that belongs to no window of such a plan.
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
    if windows and not rows.has_input_rows:
        raise InputError(
            *(Problem(error, node.step or None, node.origin) for error in dict.fromkeys(errors))
        )
    good = rows.take([place for place, value in enumerate(holds) if value])
    return good, failures(node, bad.table, range(len(wrong)), errors)


async def without_faulty(
    segment: Segment, inputs: Sequence[Batch], now: datetime, error: DataError
) -> tuple[list[Batch], list[Failure]]:
    """The inputs of a statement that failed without the input rows that it fails with, and these.

    Args:
        segment: The statement.
        inputs: The rows of its inputs.
        now: The value of `$now`.
        error: What it failed with.

    Raises:
        DataError: `error`, unless it is the fault of some input rows alone.
    """
    if isinstance(error.__cause__, duckdb.InterruptException):
        raise error  # the time is up
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
    """The input rows with which alone a statement fails, by bisection."""
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
    """The error of a statement over what derives from some input rows, if it has one."""
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
    """The first row that derives from an input row, without hidden columns."""
    for batch in inputs:
        if batch.num_rows and batch.has_input_rows:
            return python_rows(batch.slice(0, 1).visible())[0]
    return {}


def _deriving(inputs: Sequence[Batch], rows: Sequence[int]) -> list[Batch]:
    return [batch.of_rows(rows, shared=True) for batch in inputs]
