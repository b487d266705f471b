"""A knockout tournament of pairs finds the best row; the next one is among the rows that lost to it.

With an odd number of rows one match has three, so a tournament of n rows has log2 n rounds, rounded
down, and less than n calls. The second best row can only have lost to the best, so it is found by a
tournament of the few rows that did, and so on: the best 5 of 50 rows need at most 80 calls in 18
rounds. The matches of a round, of all groups, are concurrent. Scores are ranks, not relevance; rows
after the k best are in the order of their elimination, the last first.

Source: Kislitsyn (1964), in Knuth, The Art of Computer Programming 3, 5.3.3: minimum-comparison
selection by tournament.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import semgraph.operator as op


@dataclass(frozen=True)
class Tournament(op.Implementation[op.SemTopk]):
    """Correct if the model's comparisons are consistent with one order. No comparison is repeated."""

    same = False

    def estimate(self, node: op.SemTopk, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """An upper bound of the matches; rounds are sequential."""
        size = math.ceil(rows.items / rows.groups) if rows.groups else 0
        if size < 2:
            return op.Cost(0, 0)
        depth = math.floor(math.log2(size))
        more = min(node.k, size) - 1
        rounds = depth + more * math.ceil(math.log2(depth + 2))
        calls = min(size - 1 + more * (depth + 2), size * (size - 1) // 2) * rows.groups
        return op.Cost.of_items(calls, 2 * calls, seen)._replace(
            rounds=rounds, least=(size - 1) * rows.groups
        )

    async def answer(self, node: op.SemTopk, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Play round by round, all groups together."""
        return await op.ranked(node, rows, ctx, [_Cup(items, node.k) for items in rows.groups()])


class _Cup(op.RankedGroup):
    """The state of a group: rows in the current tournament, losses between rows, ranked rows."""

    def __init__(self, items: list[int], k: int) -> None:
        super().__init__(items, k)
        self._in = list(items)
        self._lost_to: dict[int, list[int]] = {item: [] for item in items}
        self._placed: list[int] = []
        self._waiting: list[int] = []
        self._eliminated: list[int] = []

    def windows(self) -> list[list[int]]:
        """The matches of the next round: neighbours in row order; the last match may have three
        rows.
        """
        while len(self._in) < 2 and len(self._placed) < self.k and (self._in or self._waiting):
            self._crown()
        if len(self._placed) >= self.k or len(self._in) < 2:
            return []
        last = len(self._in) // 2 * 2 - 2
        matches = [*(self._in[i : i + 2] for i in range(0, last, 2)), self._in[last:]]
        self._in = []
        return matches

    def _crown(self) -> None:
        """Rank the winner. The next tournament is among the rows that lost only to ranked rows."""
        if self._in:
            best = self._in.pop()
            self._placed.append(best)
            self._waiting += self._lost_to[best]
        self._in, self._waiting = sorted(self._waiting), []

    def take(self, window: Sequence[int], ranking: op.Ranking) -> None:
        """Advance the winner, or the rows that did not fail."""
        if ranking.order is not None:
            winner, *losers = ranking.order
            self._in.append(winner)
            self._lost_to[winner] += losers
            self._eliminated += reversed(losers)
            return
        self.fail(window, ranking)
        for item in window:
            if item in self.errors:
                self._waiting += self._lost_to[item]
            else:
                self._in.append(item)

    def places(self) -> list[int]:
        """The ranked rows, then the others, the last eliminated first."""
        rest = [*self._in, *reversed(self._eliminated)]
        return [*dict.fromkeys([*self._placed, *rest, *self._lost_to])]
