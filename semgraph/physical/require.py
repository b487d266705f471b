"""`require`: the rows that are as they must be, and what is wrong with the others."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa

from semgraph.errors import InputError, Problem
from semgraph.logical.require import Require
from semgraph.physical.columns import values
from semgraph.physical.relational import column_of
from semgraph.physical.semantic.asking import Failure, failures
from semgraph.physical.sql import MEMBER


async def required(
    node: Require, table: pa.Table, now: datetime | None, *, windows: bool
) -> tuple[pa.Table, tuple[Failure, ...]]:
    """The rows that hold, and a failure for each that does not.

    Args:
        node: What must hold.
        table: The rows.
        now: The value of `$now`.
        windows: Whether the plan cuts windows.

    Raises:
        InputError: A row does not hold that belongs to no window of such a plan.
    """
    holds = await column_of(node.where, node.input, table, now, pa.bool_())
    wrong = [i for i, value in enumerate(values(holds)) if not value]
    if not wrong:
        return table, ()
    bad = table.take(pa.array(wrong, pa.int64()))
    errors = [error or "it is not as it must be" for error in values(await column_of(node.says, node.input, bad, now))]
    if windows and MEMBER not in table.column_names:
        raise InputError(*(Problem(error, node.step or None, node.origin) for error in dict.fromkeys(errors)))
    kept = table.filter(pa.array([bool(value) for value in values(holds)]))
    return kept, failures(node, bad, range(len(wrong)), errors)
