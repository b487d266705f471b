"""Windows of rows are ranked, the k best of each go on, until one window is left.

Rows that go out are placed behind all that stay, those of later rounds first. Scores say places,
not how well a row fits.
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
class Listwise(Implementation[SemTopk]):
    """Few calls; but which rows a row is beside may change its place, so it need not answer as the
    reference does.

    A window must hold at least twice k rows, so that each round halves what is left. Of a window
    that gets no ranking, the rows that have none alone either are errors; else it is made smaller,
    and if it cannot be, its rows are errors.
    """

    same = False
    window: int = 20

    def __post_init__(self) -> None:
        if self.window < 2:
            raise ValueError("window must be at least 2")

    def refuses(self, node: SemTopk, limits: object) -> str | None:  # noqa: ARG002
        """It cannot find more than half a window."""
        if node.k * 2 <= self.window:
            return None
        most, needed = self.window // 2, node.k * 2
        return f"windows of {self.window} find at most {most} rows, not {node.k}; use listwise(window={needed})"

    def estimate(self, node: SemTopk, rows: RowEstimate, seen: Observed | None) -> Cost:
        """The calls of all rounds; each round waits for the one before."""
        left = math.ceil(rows.items / rows.groups) if rows.groups else 0
        calls, rounds = (1, 1) if left > 1 else (0, 0)
        while left > self.window > node.k:
            full, rest = divmod(left, self.window)
            calls, rounds = calls + full + (rest > node.k), rounds + 1
            left = full * node.k + min(rest, node.k)
        return Cost.of_items(calls * rows.groups, rows.items, seen)._replace(
            rounds=rounds, least=calls * rows.groups
        )

    async def answer(self, node: SemTopk, rows: Rows, ctx: Context) -> pa.Table:
        """Rank round by round, all groups together."""
        refusal = self.refuses(node, ctx.limits)
        if refusal:
            raise ValueError(refusal)  # it would never end
        groups = [_Group(items, node.k, self.window) for items in rows.groups()]
        while unsettled := [group for group in groups if not group.settled]:
            windows = [(group, window) for group in unsettled for window in group.divide()]
            rankings = await ctx.ask_rankings(node, rows, [window for _, window in windows])
            for (group, window), ranking in zip(windows, rankings, strict=True):
                group.take(window, ranking)
        outcomes = {item: outcome for group in groups for item, outcome in group.outcomes().items()}
        return answer_table(node, [outcomes[item] for item in range(rows.items.num_rows)])


class _Group:
    """Rows still in the race, rows that went out (the latest last), and rows without a place."""

    def __init__(self, items: list[int], k: int, window: int) -> None:
        self.k, self.window, self.size = k, window, len(items)
        self.settled = len(items) < 2
        self._stay = list(items)
        self._out: list[list[int]] = []
        self._errors: dict[int, Outcome] = {}
        self._calls: dict[int, tuple[str, ...]] = dict.fromkeys(items, ())

    def divide(self) -> list[list[int]]:
        """The windows of a round; k rows or fewer at the end go on as they are."""
        cuts = range(0, len(self._stay), self.window)
        windows = [self._stay[i : i + self.window] for i in cuts]
        self._out.append([])
        return [window for window in windows if len(window) > self.k or len(windows) == 1]

    def take(self, window: list[int], ranking: Ranking) -> None:
        """Keep the best of a window; the last window settles the group."""
        for item in window:
            self._calls[item] += ranking.calls
        last = len(window) == len(self._stay)
        if ranking.order is None:
            self._without(window, ranking)
        elif last:
            self._stay, self.settled = list(ranking.order), True
        else:
            self._out[-1] += ranking.order[self.k :]
            gone = set(ranking.order[self.k :])
            self._stay = [item for item in self._stay if item not in gone]

    def _without(self, window: list[int], ranking: Ranking) -> None:
        if not ranking.faulty and len(window) > self.k + 1:
            self.window = min(self.window, max(self.k + 1, len(window) // 2))
            return
        wrong = ranking.faulty or dict.fromkeys(window, Outcome(None, ranking.error))
        for item, outcome in wrong.items():
            self._errors[item] = Outcome(None, outcome.error, (*self._calls[item], *outcome.calls))
        self._stay = [item for item in self._stay if item not in self._errors]
        self.settled = len(self._stay) < 2

    def outcomes(self) -> dict[int, Outcome]:
        """The score of each row, by its place."""
        places = [*self._stay, *(item for gone in reversed(self._out) for item in gone)]
        return self._errors | {
            item: Outcome({"score": 100.0 * (1 - place / self.size)}, None, self._calls[item])
            for place, item in enumerate(places)
        }
