"""A score for each row, one call a row."""

from __future__ import annotations

from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Observed,
    RowEstimate,
    Rows,
    SemTopk,
    dataclass,
    pa,
)


@dataclass(frozen=True)
class Pointwise(Implementation[SemTopk]):
    """The reference: a row's score depends on the row alone; equal scores stay in row order."""

    same = True

    def estimate(self, node: SemTopk, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each row, all at once."""
        return Cost.of_items(rows.items, rows.items, seen)

    async def answer(self, node: SemTopk, rows: Rows, ctx: Context) -> pa.Table:
        """Ask for the score of each row by itself."""
        return await ctx.ask_packed(node, rows, ([item] for item in range(rows.items.num_rows)))
