"""One call for each row, in the prompt's words."""

from __future__ import annotations

from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Observed,
    RowEstimate,
    Rows,
    SemFilter,
    dataclass,
    pa,
)


@dataclass(frozen=True)
class PerRow(Implementation[SemFilter]):
    """The reference: what it answers is what the others are measured against."""

    same = True

    def estimate(self, node: SemFilter, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each row, all at once."""
        return Cost.of_items(rows.items, rows.items, seen)

    async def answer(self, node: SemFilter, rows: Rows, ctx: Context) -> pa.Table:
        """Ask about each row by itself."""
        return await ctx.ask_packed(node, rows, ([item] for item in range(rows.items.num_rows)))
