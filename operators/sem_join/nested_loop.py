"""One call for each pair, in the prompt's words."""

from __future__ import annotations

from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Observed,
    RowEstimate,
    Rows,
    SemJoin,
    dataclass,
    pa,
)


@dataclass(frozen=True)
class NestedLoop(Implementation[SemJoin]):
    """The reference: what it answers is what the others are measured against."""

    same = True

    def estimate(self, node: SemJoin, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each pair, all at once."""
        return Cost.of_items(rows.items, rows.items, seen)

    async def answer(self, node: SemJoin, rows: Rows, ctx: Context) -> pa.Table:
        """Ask about each pair by itself."""
        return await ctx.ask_packed(node, rows, ([item] for item in range(rows.items.num_rows)))
