"""Row by row: the answer so far and the next `rows` rows, in their order, until none is left.

Groups of any size, and of rows whose order counts; each call waits for the one before, so tree is
the quicker way where order does not count. The first call takes `rows` rows. Where a call does not
fit the model it takes fewer; one row that does not fit beside the answer so far is an error of its
group.

Source: the left fold; in databases, the accumulate step of an aggregate function.
"""

from __future__ import annotations

import math

from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Observed,
    Outcome,
    Part,
    RowEstimate,
    Rows,
    SemAgg,
    answer_table,
    dataclass,
    pa,
)


@dataclass(frozen=True)
class Fold(Implementation[SemAgg]):
    """All groups go on side by side."""

    same = False
    rows: int = 8

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError("rows must be at least 1")

    def estimate(self, node: SemAgg, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each `rows` rows of a group, one after another."""
        calls = math.ceil(rows.items / rows.groups / self.rows) if rows.groups else 0
        return Cost.of_items(calls * rows.groups, rows.items, seen)._replace(
            rounds=calls, least=calls * rows.groups
        )

    async def answer(self, node: SemAgg, rows: Rows, ctx: Context) -> pa.Table:
        """Ask step by step, all groups together."""
        groups = [_Group(number, items, self.rows) for number, items in enumerate(rows.groups())]
        while unsettled := [group for group in groups if not group.settled]:
            for group, outcome in zip(
                unsettled,
                await ctx.ask_groups(node, rows, [group.part() for group in unsettled]),
                strict=True,
            ):
                group.take(outcome)
        return answer_table(node, [group.found for group in groups if group.found is not None])


class _Group:
    """The answer so far, and the rows that are not in it."""

    def __init__(self, number: int, items: list[int], size: int) -> None:
        self.number, self.rest, self.size = number, items, size
        self.found: Outcome | None = None

    @property
    def settled(self) -> bool:
        return self.found is not None and (not self.rest or self.found.error is not None)

    def part(self) -> Part:
        """What is asked about next."""
        before = [] if self.found is None else [self.found]
        return Part(self.number, [*before, *self.rest[: self.size]])

    def take(self, outcome: Outcome) -> None:
        """Keep an answer, or try with fewer rows."""
        if (outcome.error or "").startswith("too_long:") and min(self.size, len(self.rest)) > 1:
            self.size = min(self.size, len(self.rest)) // 2
            return
        self.rest = self.rest[self.size :]
        self.found = outcome
