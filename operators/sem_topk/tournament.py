"""A knock-out of pairs finds the best row; each next one is among those that lost to the best
before it.

Of an odd number one match is of three, so a knock-out of n rows takes log2 n rounds, rounded down,
and less than n calls. The second best row can only have lost to the best, so it is found by a
knock-out among the few that did, and so on: 5 of 50 rows take at most 80 calls in 18 rounds. The
matches of a round, of all groups, go out together. Scores say places, not how well a row fits; rows
that are not among the k best stand behind them in the order in which they went out, the last first.

Source: Kislitsyn (1964), in Knuth, The Art of Computer Programming 3, 5.3.3: minimum-comparison
selection by tournament.
"""

from __future__ import annotations

import math

from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Observed,
    Outcome,
    Ranking,
    RowEstimate,
    Rows,
    SemTopk,
    answer_table,
    dataclass,
    pa,
)


@dataclass(frozen=True)
class Tournament(Implementation[SemTopk]):
    """Right if the model's comparisons agree with one order. No comparison is asked for twice."""

    same = False

    def estimate(self, node: SemTopk, rows: RowEstimate, seen: Observed | None) -> Cost:
        """At most so many matches; a round waits for the one before."""
        size = math.ceil(rows.items / rows.groups) if rows.groups else 0
        if size < 2:
            return Cost(0, 0)
        depth = math.floor(math.log2(size))
        more = min(node.k, size) - 1
        rounds = depth + more * math.ceil(math.log2(depth + 2))
        calls = min(size - 1 + more * (depth + 2), size * (size - 1) // 2) * rows.groups
        return Cost.of_items(calls, 2 * calls, seen)._replace(
            rounds=rounds, least=(size - 1) * rows.groups
        )

    async def answer(self, node: SemTopk, rows: Rows, ctx: Context) -> pa.Table:
        """Play round by round, all groups together."""
        cups = [_Cup(items, node.k) for items in rows.groups()]
        while matches := [(cup, match) for cup in cups for match in cup.draw()]:
            rankings = await ctx.ask_rankings(node, rows, [match for _, match in matches])
            for (cup, match), ranking in zip(matches, rankings, strict=True):
                cup.take(match, ranking)
        outcomes = {item: outcome for cup in cups for item, outcome in cup.outcomes().items()}
        return answer_table(node, [outcomes[item] for item in range(rows.items.num_rows)])


class _Cup:
    """The rows of a group: those still in this knock-out, who lost to whom, those placed, those
    without a place.
    """

    def __init__(self, items: list[int], k: int) -> None:
        self.k, self.size = k, len(items)
        self._in = list(items)
        self._lost_to: dict[int, list[int]] = {item: [] for item in items}
        self._placed: list[int] = []
        self._waiting: list[int] = []
        self._gone: list[int] = []
        self._calls: dict[int, tuple[str, ...]] = dict.fromkeys(items, ())
        self._errors: dict[int, Outcome] = {}

    def draw(self) -> list[list[int]]:
        """The matches of the next round: neighbours, in row order; of an odd number the last match
        is of three.
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
        """Place the winner; the next knock-out is among those that lost to a placed row only."""
        if self._in:
            best = self._in.pop()
            self._placed.append(best)
            self._waiting += self._lost_to[best]
        self._in, self._waiting = sorted(self._waiting), []

    def take(self, match: list[int], ranking: Ranking) -> None:
        """The winner goes on."""
        for item in match:
            self._calls[item] += ranking.calls
        if ranking.order is None:
            self._without(match, ranking)
        else:
            winner, *losers = ranking.order
            self._in.append(winner)
            self._lost_to[winner] += losers
            self._gone += reversed(losers)

    def _without(self, match: list[int], ranking: Ranking) -> None:
        """Rows that fail alone are errors; where none does the match has no answer, and all are:
        nothing is guessed.
        """
        failed = {item: outcome.error for item, outcome in ranking.faulty.items()} or dict.fromkeys(
            match, ranking.error
        )
        for item in match:
            if item in failed:
                alone = ranking.faulty[item].calls if item in ranking.faulty else ()
                self._errors[item] = Outcome(None, failed[item], (*self._calls[item], *alone))
                self._waiting += self._lost_to[item]
            else:
                self._in.append(item)

    def outcomes(self) -> dict[int, Outcome]:
        """The score of each row, by its place."""
        rest = [*self._in, *reversed(self._gone)]
        places = [
            item
            for item in dict.fromkeys([*self._placed, *rest, *self._lost_to])
            if item not in self._errors
        ]
        return self._errors | {
            item: Outcome({"score": 100.0 * (1 - place / self.size)}, None, self._calls[item])
            for place, item in enumerate(places)
        }
