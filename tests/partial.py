"""Results of runs that may stop at a limit."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import cast

from semgraph import BudgetReached, Result


async def maybe_partial(run: Awaitable[Result]) -> Result:
    """The result of a run, also of one that a limit stopped: its error carries what it wrote."""
    try:
        return await run
    except BudgetReached as error:
        return cast("Result", error.result)
