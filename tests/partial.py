"""Results of runs that may stop at a limit, or in which every row may fail."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from semgraph import BudgetReached, Result
from semgraph.errors import RowError


async def maybe_partial(run: Awaitable[Result]) -> Result:
    """The result of a run, also of one that raises: its error carries the result."""
    try:
        return await run
    except (BudgetReached, RowError) as error:
        return cast("Result", error.result)


def partial_result(run: Callable[..., Result], *args: Any, **options: Any) -> Result:
    """The same of a synchronous run."""
    try:
        return run(*args, **options)
    except (BudgetReached, RowError) as error:
        return cast("Result", error.result)
