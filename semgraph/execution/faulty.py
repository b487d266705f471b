"""The member rows with which a statement cannot be computed: they are set aside, and the others go on."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import DataError
from semgraph.execution.settling import of_members
from semgraph.physical.locating import placed
from semgraph.physical.relational import Segment, run_segment
from semgraph.physical.semantic.asking import Failure
from semgraph.physical.sql import MEMBER, PARTITION


async def without_faulty(
    segment: Segment, tables: Sequence[pa.Table], now: datetime | None, error: DataError
) -> tuple[pa.Table, list[Failure]]:
    """The rows of a statement that failed without the member rows at fault, and these.

    Args:
        segment: The statement.
        tables: The rows of its inputs.
        now: The value of `$now`.
        error: What it failed with.

    Raises:
        DataError: The error that was given, if it is not that of some member rows alone.
    """
    members = sorted({m for table in tables if MEMBER in table.column_names for m in _members(table)})
    if not members or await _failing(segment, tables, now, []) is not None:
        raise error
    faulty = await _faulty(segment, tables, now, members)
    left = [member for member in members if member not in faulty]
    if not faulty or await _failing(segment, tables, now, left) is not None:
        raise error
    failures = [await _failure(segment, tables, now, member, found) for member, found in faulty.items()]
    return await run_segment(segment, _of(tables, left), now), failures


async def _faulty(
    segment: Segment, tables: Sequence[pa.Table], now: datetime | None, members: Sequence[int]
) -> dict[int, DataError]:
    """Those of some members with which alone a statement fails, found by halving."""
    error = await _failing(segment, tables, now, members)
    if error is None:
        return {}
    if len(members) == 1:
        return {members[0]: error}
    half = len(members) // 2
    first = await _faulty(segment, tables, now, members[:half])
    return first | await _faulty(segment, tables, now, members[half:])


async def _failing(
    segment: Segment, tables: Sequence[pa.Table], now: datetime | None, members: Sequence[int]
) -> DataError | None:
    """The error of a statement over the rows that derive from some members; None if it has none."""
    try:
        await run_segment(segment, _of(tables, members), now)
    except DataError as error:
        return error
    return None


async def _failure(
    segment: Segment, tables: Sequence[pa.Table], now: datetime | None, member: int, error: DataError
) -> Failure:
    own = dict(zip((id(node) for _, node in segment.inputs), _of(tables, [member]), strict=True))

    async def rows(nodes: Sequence[object]) -> list[pa.Table]:
        return [own[id(node)] for node in nodes]

    found = await placed(error, segment.root, {id(segment.root): segment}, rows, now)
    step = found.problem.step or segment.root.step
    return Failure(step, found.without_step, member, _first_row(list(own.values())))


def _first_row(tables: Sequence[pa.Table]) -> dict[str, Any]:
    """The first row that derives from a member, without hidden columns."""
    for table in tables:
        if table.num_rows and MEMBER in table.column_names:
            hidden = [name for name in (PARTITION, MEMBER) if name in table.column_names]
            return dict(table.slice(0, 1).drop_columns(hidden).to_pylist()[0])
    return {}


def _of(tables: Sequence[pa.Table], members: Sequence[int]) -> list[pa.Table]:
    return [of_members(table, members) for table in tables]


def _members(table: pa.Table) -> list[int]:
    return [m for m in pc.unique(table.column(MEMBER)).to_pylist() if m is not None]
