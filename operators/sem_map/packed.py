"""Several rows in a call, as numbered records."""

from __future__ import annotations

import math

from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Observed,
    RowEstimate,
    Rows,
    SemMap,
    dataclass,
    pa,
)


@dataclass(frozen=True)
class Packed(Implementation[SemMap]):
    """At most `rows` rows share a call; fewer, if they do not fit the model or must be kept
    apart.
    """

    same = True
    rows: int = 20

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError("rows must be at least 1")

    def estimate(self, node: SemMap, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each full block, all at once."""
        return Cost.of_items(math.ceil(rows.items / self.rows), rows.items, seen)

    async def answer(self, node: SemMap, rows: Rows, ctx: Context) -> pa.Table:
        """Ask about the rows in blocks."""
        return await ctx.ask_packed(node, rows, rows.blocks(node, left=self.rows))
