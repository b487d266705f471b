"""A left fold: each call combines the current answer with the next `rows` rows, in order.

For groups of any size, and if the order of rows matters; calls are sequential, so `tree` is faster
if it does not. A call that does not fit the model takes fewer rows; a single row that does not fit
with the current answer is an error of its group.

Source: the left fold; in databases, the accumulate step of an aggregate function.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import semgraph.operator as op


@dataclass(frozen=True)
class Fold(op.Implementation[op.SemAgg]):
    """Folds all groups concurrently."""

    same = False
    rows: int = op.tried(4, 8, 16, default=8)

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise ValueError("rows must be at least 1")

    def estimate(self, node: op.SemAgg, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """A call for each `rows` rows of a group, sequentially."""
        calls = math.ceil(rows.items / rows.groups / self.rows) if rows.groups else 0
        return op.Cost.of_items(calls * rows.groups, rows.items, seen)._replace(
            rounds=calls, least=calls * rows.groups
        )

    async def answer(self, node: op.SemAgg, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Fold step by step, all groups together."""
        groups = [_Group(number, items, self.rows) for number, items in enumerate(rows.groups())]
        while open_groups := [group for group in groups if not group.done]:
            for group, outcome in zip(
                open_groups,
                await ctx.ask_groups(node, rows, [group.part() for group in open_groups]),
                strict=True,
            ):
                group.take(outcome)
        return [group.result for group in groups if group.result is not None]


class _Group:
    """The current answer of a group, and the remaining rows."""

    def __init__(self, number: int, items: list[int], size: int) -> None:
        self.number, self.rest, self.size = number, items, size
        self.result: op.Outcome | None = None

    @property
    def done(self) -> bool:
        return self.result is not None and (not self.rest or self.result.error is not None)

    def part(self) -> op.Part:
        """The items of the next call."""
        before = [] if self.result is None else [self.result]
        return op.Part(self.number, [*before, *self.rest[: self.size]])

    def take(self, outcome: op.Outcome) -> None:
        """Take an answer, or retry with fewer rows."""
        if (outcome.error or "").startswith("too_long:") and min(self.size, len(self.rest)) > 1:
            self.size = min(self.size, len(self.rest)) // 2
            return
        self.rest = self.rest[self.size :]
        self.result = outcome
