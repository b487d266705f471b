"""Ranks windows of rows and advances the k best of each, until one window is left.

Eliminated rows are ranked after all remaining ones, those of later rounds first. Scores are ranks,
not relevance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import semgraph.operator as op


@dataclass(frozen=True)
class Listwise(op.Implementation[op.SemTopk]):
    """Few calls, but the rank of a row may depend on its window, so answers may differ from the
    reference.

    A window must have at least 2 * k rows, so that each round halves the remaining rows. In a window
    without a ranking, rows that fail alone are errors; if none does, the window gets smaller, and at
    the smallest size its rows are errors.
    """

    same = False
    window: int = op.tried(10, 20, 40, default=20, risk="up")

    def __post_init__(self) -> None:
        if self.window < 2:
            raise ValueError("window must be at least 2")

    def refuses(self, node: op.SemTopk, limits: object) -> str | None:
        """Refuse a `k` above half a window."""
        if node.k * 2 <= self.window:
            return None
        most, needed = self.window // 2, node.k * 2
        return f"windows of {self.window} return at most {most} rows, not {node.k}; use listwise(window={needed})"

    def estimate(self, node: op.SemTopk, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """The calls of all rounds; rounds are sequential."""
        left = math.ceil(rows.items / rows.groups) if rows.groups else 0
        calls, rounds = (1, 1) if left > 1 else (0, 0)
        while left > self.window > node.k:
            full, rest = divmod(left, self.window)
            calls, rounds = calls + full + (rest > node.k), rounds + 1
            left = full * node.k + min(rest, node.k)
        return op.Cost.of_items(calls * rows.groups, rows.items, seen)._replace(
            rounds=rounds, least=calls * rows.groups
        )

    async def answer(self, node: op.SemTopk, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Rank round by round, all groups together."""
        refusal = self.refuses(node, ctx.limits)
        if refusal:
            raise ValueError(refusal)  # it would never end
        groups = [_Group(items, node.k, self.window) for items in rows.groups()]
        return await op.ranked(node, rows, ctx, groups)


class _Group(op.RankedGroup):
    """Remaining rows, and eliminated rows (the latest last)."""

    def __init__(self, items: list[int], k: int, window: int) -> None:
        super().__init__(items, k)
        self._window, self._stay, self._ranked = window, items, False
        self._out: list[list[int]] = []

    def windows(self) -> list[list[int]]:
        """The windows of a round; a last window of at most k rows advances without a call."""
        if self._ranked or len(self._stay) < 2:
            return []
        cuts = range(0, len(self._stay), self._window)
        windows = [self._stay[i : i + self._window] for i in cuts]
        self._out.append([])
        return [window for window in windows if len(window) > self.k or len(windows) == 1]

    def take(self, window: Sequence[int], ranking: op.Ranking) -> None:
        """Advance the best of a window; the last window ranks the group."""
        if ranking.order is not None and len(window) == len(self._stay):
            self._stay, self._ranked = list(ranking.order), True
            return
        left = set(() if ranking.order is None else ranking.order[self.k :])
        if ranking.order is not None:
            self._out[-1] += ranking.order[self.k :]
        elif not ranking.faulty and len(window) > self.k + 1:
            self._window = min(self._window, max(self.k + 1, len(window) // 2))
        else:
            self.fail(window, ranking)
            left = {*self.errors}
        self._stay = [item for item in self._stay if item not in left]

    def places(self) -> list[int]:
        """The remaining rows, then the eliminated ones."""
        return [*self._stay, *(item for out in reversed(self._out) for item in out)]
