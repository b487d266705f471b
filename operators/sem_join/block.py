"""Many pairs in a call: left and right rows once each, as numbered records; the answer lists the
matches.

`left` and `right` bound the rows of each side in a call. Without `right` each left row keeps its
whole list of candidates; without `left` as many left rows share a call as fit the model and hold at
most `pairs` pairs together (256, unless both sides are bounded: then all that `left` and `right`
allow). `block(left=1)` asks about one left row and its list at a time.
"""

from __future__ import annotations

import math

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

_PAIRS = 256


@dataclass(frozen=True)
class Block(Implementation[SemJoin]):
    """Only candidate pairs are asked about: a left record names the right records that it is to be
    compared with.

    `pairs` keeps calls from growing with the window of the model: long lists of records cost small
    models their attention. One left row's own list may be longer.
    """

    same = True
    left: int | None = None
    right: int | None = None
    pairs: int | None = None

    def __post_init__(self) -> None:
        for name in ("left", "right", "pairs"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1")

    @property
    def _most(self) -> int:
        """The pairs in a call."""
        own = self.left * self.right if self.left is not None and self.right is not None else _PAIRS
        return own if self.pairs is None else self.pairs

    def estimate(self, node: SemJoin, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each block, all at once."""
        calls = math.ceil(rows.items / self._most)
        if self.left is not None or self.right is not None:
            wide = math.ceil(rows.left / (self.left or max(rows.left, 1)))
            high = 1 if self.right is None else math.ceil(rows.right / self.right)
            calls = max(calls, wide * high)
        return Cost.of_items(min(calls, rows.items), rows.items, seen)

    async def answer(self, node: SemJoin, rows: Rows, ctx: Context) -> pa.Table:
        """Ask about the pairs in blocks."""
        blocks = rows.blocks(node, left=self.left, right=self.right, pairs=self._most)
        return await ctx.ask_packed(node, rows, blocks)
