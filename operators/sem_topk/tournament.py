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
        cups = [_Cup(items, node.k) for items in rows.groups()]
        while matches := [(cup, match) for cup in cups for match in cup.draw()]:
            rankings = await ctx.ask_rankings(node, rows, [match for _, match in matches])
            for (cup, match), ranking in zip(matches, rankings, strict=True):
                cup.take(match, ranking)
        outcomes = {item: outcome for cup in cups for item, outcome in cup.outcomes().items()}
        return [outcomes[item] for item in range(len(rows.items))]


class _Cup:
    """The state of a group: rows in the current tournament, losses between rows, ranked rows, and
    failed rows.
    """

    def __init__(self, items: list[int], k: int) -> None:
        self.k, self.size = k, len(items)
        self._in = list(items)
        self._lost_to: dict[int, list[int]] = {item: [] for item in items}
        self._placed: list[int] = []
        self._waiting: list[int] = []
        self._eliminated: list[int] = []
        self._calls: dict[int, tuple[str, ...]] = dict.fromkeys(items, ())
        self._errors: dict[int, op.Outcome] = {}

    def draw(self) -> list[list[int]]:
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

    def take(self, match: list[int], ranking: op.Ranking) -> None:
        """Advance the winner."""
        for item in match:
            self._calls[item] += ranking.calls
        if ranking.order is None:
            self._without(match, ranking)
        else:
            winner, *losers = ranking.order
            self._in.append(winner)
            self._lost_to[winner] += losers
            self._eliminated += reversed(losers)

    def _without(self, match: list[int], ranking: op.Ranking) -> None:
        """Rows that fail alone are errors; if none does, all rows of the match are errors."""
        failed = {item: outcome.error for item, outcome in ranking.faulty.items()} or dict.fromkeys(
            match, ranking.error
        )
        for item in match:
            if item in failed:
                alone = ranking.faulty[item].calls if item in ranking.faulty else ()
                self._errors[item] = op.Outcome(None, failed[item], (*self._calls[item], *alone))
                self._waiting += self._lost_to[item]
            else:
                self._in.append(item)

    def outcomes(self) -> dict[int, op.Outcome]:
        """The score of each row, by its rank."""
        rest = [*self._in, *reversed(self._eliminated)]
        places = [
            item
            for item in dict.fromkeys([*self._placed, *rest, *self._lost_to])
            if item not in self._errors
        ]
        return self._errors | {
            item: op.Outcome({"score": 100.0 * (1 - place / self.size)}, None, self._calls[item])
            for place, item in enumerate(places)
        }
