"""One call for each group, with all its rows."""

from __future__ import annotations

from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Observed,
    Part,
    RowEstimate,
    Rows,
    SemAgg,
    answer_table,
    dataclass,
    pa,
)


@dataclass(frozen=True)
class Single(Implementation[SemAgg]):
    """The reference. A group that does not fit the model is an error; use `tree` for such groups."""

    same = True

    def estimate(self, node: SemAgg, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each group, in one round."""
        return Cost.of_items(rows.groups, rows.items, seen)

    async def answer(self, node: SemAgg, rows: Rows, ctx: Context) -> pa.Table:
        """Send each group as a whole."""
        parts = [Part(group, items) for group, items in enumerate(rows.groups())]
        return answer_table(node, await ctx.ask_groups(node, rows, parts))
