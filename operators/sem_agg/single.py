"""One call for each group, with all its rows."""

from __future__ import annotations

from dataclasses import dataclass

import semgraph.operator as op


@dataclass(frozen=True)
class Single(op.Implementation[op.SemAgg]):
    """The reference. A group that does not fit the model is an error; use `tree` for such groups."""

    same = True

    def estimate(self, node: op.SemAgg, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """A call for each group, in one round."""
        return op.Cost.of_items(rows.groups, rows.items, seen)

    async def answer(self, node: op.SemAgg, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Send each group as a whole."""
        parts = [op.Part(group, items) for group, items in enumerate(rows.groups())]
        return await ctx.ask_groups(node, rows, parts)
