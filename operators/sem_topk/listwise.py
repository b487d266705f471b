"""Ranks windows of rows and advances the k best of each, until one window is left.

Eliminated rows are ranked after all remaining ones, those of later rounds first. Scores are ranks,
not relevance.
"""

from __future__ import annotations

import math
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
        while open_groups := [group for group in groups if not group.done]:
            windows = [(group, window) for group in open_groups for window in group.divide()]
            rankings = await ctx.ask_rankings(node, rows, [window for _, window in windows])
            for (group, window), ranking in zip(windows, rankings, strict=True):
                group.take(window, ranking)
        outcomes = {item: outcome for group in groups for item, outcome in group.outcomes().items()}
        return [outcomes[item] for item in range(len(rows.items))]


class _Group:
    """Remaining rows, eliminated rows (the latest last), and failed rows."""

    def __init__(self, items: list[int], k: int, window: int) -> None:
        self.k, self.window, self.size = k, window, len(items)
        self.done = len(items) < 2
        self._stay = list(items)
        self._out: list[list[int]] = []
        self._errors: dict[int, op.Outcome] = {}
        self._calls: dict[int, tuple[str, ...]] = dict.fromkeys(items, ())

    def divide(self) -> list[list[int]]:
        """The windows of a round; a last window of at most k rows advances without a call."""
        cuts = range(0, len(self._stay), self.window)
        windows = [self._stay[i : i + self.window] for i in cuts]
        self._out.append([])
        return [window for window in windows if len(window) > self.k or len(windows) == 1]

    def take(self, window: list[int], ranking: op.Ranking) -> None:
        """Advance the best of a window; the last window ranks the group."""
        for item in window:
            self._calls[item] += ranking.calls
        last = len(window) == len(self._stay)
        if ranking.order is None:
            self._without(window, ranking)
        elif last:
            self._stay, self.done = list(ranking.order), True
        else:
            self._out[-1] += ranking.order[self.k :]
            eliminated = set(ranking.order[self.k :])
            self._stay = [item for item in self._stay if item not in eliminated]

    def _without(self, window: list[int], ranking: op.Ranking) -> None:
        if not ranking.faulty and len(window) > self.k + 1:
            self.window = min(self.window, max(self.k + 1, len(window) // 2))
            return
        failed = ranking.faulty or dict.fromkeys(window, op.Outcome(None, ranking.error))
        for item, outcome in failed.items():
            self._errors[item] = op.Outcome(
                None, outcome.error, (*self._calls[item], *outcome.calls)
            )
        self._stay = [item for item in self._stay if item not in self._errors]
        self.done = len(self._stay) < 2

    def outcomes(self) -> dict[int, op.Outcome]:
        """The score of each row, by its rank."""
        places = [*self._stay, *(item for out in reversed(self._out) for item in out)]
        return self._errors | {
            item: op.Outcome({"score": 100.0 * (1 - place / self.size)}, None, self._calls[item])
            for place, item in enumerate(places)
        }
