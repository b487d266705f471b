"""Many pairs in a call: left and right rows once each, as numbered records; the answer lists the
matches.

`left` and `right` limit the rows of each side in a call. Without `right` each left row keeps its
whole list of candidates; without `left` a call has as many left rows as fit the model, with at most
`pairs` pairs (256; if both sides are limited, `left` times `right`). `block(left=1)` sends one left
row and its candidates in a call.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import semgraph.operator as op

_PAIRS = 256


@dataclass(frozen=True)
class Block(op.Implementation[op.SemJoin]):
    """Sends only candidate pairs: a left record names the right records to compare it with.

    `pairs` limits calls below the model's context, because small models lose track in long lists of
    records. The list of one left row may be longer.
    """

    same = True
    left: int | None = op.tried(1, 2, 5, 10, None, default=None, risk="up")
    right: int | None = None
    pairs: int | None = None

    def __post_init__(self) -> None:
        for name in ("left", "right", "pairs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1")

    @property
    def _most(self) -> int:
        """The maximum number of pairs in a call."""
        own = self.left * self.right if self.left is not None and self.right is not None else _PAIRS
        return own if self.pairs is None else self.pairs

    def estimate(self, node: op.SemJoin, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """A call for each block, in one round."""
        calls = math.ceil(rows.items / self._most)
        if self.left is not None or self.right is not None:
            wide = math.ceil(rows.left / (self.left or max(rows.left, 1)))
            high = 1 if self.right is None else math.ceil(rows.right / self.right)
            calls = max(calls, wide * high)
        return op.Cost.of_items(min(calls, rows.items), rows.items, seen)

    async def answer(self, node: op.SemJoin, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Send the pairs in blocks."""
        blocks = rows.blocks(node, left=self.left, right=self.right, pairs=self._most)
        return await ctx.ask_packed(node, rows, blocks)
