"""Compares rows with a pivot, several at once, and goes on only where the k best are.

A round ranks the pivot of each open stretch together with `batch` other rows a call, and takes from
each ranking only who is before the pivot and who is behind; the calls of a round go out together.
Stretches that begin behind the k-th place are left as they are. A stretch that fits one call is
ranked by it. `batch=1` compares pairs only.

The first pivot is the row that stands at the k-th place by the similarity of its text to the
question (`pivot=embedding`), so that the first cut falls near k; later ones, and with
`pivot=random` that one too, are drawn, so that no order of the rows is a bad one. Scores say
places, not how well a row fits.

Source: Hoare (1961); LOTUS's sem_topk for pivots by embedding, which compares pairs only.
"""

from __future__ import annotations

import math
from typing import Literal

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
    cosines,
    dataclass,
    field,
    pa,
    queries,
    row_texts,
)


@dataclass(frozen=True)
class Quickselect(Implementation[SemTopk]):
    """Right if the model's comparisons agree with one order; if not it still ends, as each round
    settles a pivot's place.
    """

    same = False
    batch: int = 9
    pivot: Literal["embedding", "random"] = "embedding"

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError("batch must be at least 1")

    def estimate(self, node: SemTopk, rows: RowEstimate, seen: Observed | None) -> Cost:
        """About so many: a pass over all rows, then over twice k, halved until the k best are in
        order.
        """
        size = rows.items / rows.groups if rows.groups else 0
        calls, rounds, left = 0, 0, size
        while left > 1 and calls < size * (1 + node.k):
            calls, rounds = calls + math.ceil((left - 1) / self.batch), rounds + 1
            if left <= self.batch + 1:
                break
            left = min(2 * node.k, left - 1) if left > 2 * node.k else left / 2
        return Cost.of_items(calls * rows.groups, calls * self.batch * rows.groups, seen)._replace(
            rounds=rounds
        )

    async def answer(self, node: SemTopk, rows: Rows, ctx: Context) -> pa.Table:
        """Cut round by round, all groups together."""
        likely = await self._likely(node, rows, ctx)
        lefts: list[int] = rows.items.column("left").to_pylist()  # type: ignore[assignment]
        draws = {partition: ctx.random(partition, "pivot") for partition in rows.partition}
        drawn = [draws[rows.partition[left]].random() for left in lefts]
        races = [_Race(items, node.k, self.batch, likely, drawn) for items in rows.groups()]
        while asked := [(race, stretch) for race in races for stretch in race.open()]:
            windows = [
                (race, stretch, window)
                for race, stretch in asked
                for window in race.windows(stretch)
            ]
            rankings = await ctx.ask_rankings(node, rows, [window for _, _, window in windows])
            for (race, stretch, window), ranking in zip(windows, rankings, strict=True):
                race.take(stretch, window, ranking)
            for race, stretch in asked:
                race.cut(stretch)
        outcomes = {item: outcome for race in races for item, outcome in race.outcomes().items()}
        return answer_table(node, [outcomes[item] for item in range(rows.items.num_rows)])

    async def _likely(self, node: SemTopk, rows: Rows, ctx: Context) -> list[float]:
        """For each item a number that is higher for rows which are likely to be better; 0 where
        nothing is known.
        """
        lefts: list[int] = rows.items.column("left").to_pylist()  # type: ignore[assignment]
        likely = [0.0] * len(lefts)
        if self.pivot == "random":
            return likely
        texts, asked = row_texts(node, rows), queries(node, rows)
        groups: dict[tuple[str, str], list[int]] = {}
        for item, left in enumerate(lefts):
            groups.setdefault((rows.partition[left], asked[left]), []).append(item)
        for (partition, question), items in groups.items():
            readable = [item for item in items if texts[lefts[item]]]
            if len(readable) > self.batch + 1:
                vectors = await ctx.embed(
                    [question, *(texts[lefts[item]] for item in readable)], partition
                )
                for item, cosine in zip(readable, cosines(vectors[1:], vectors[0]), strict=True):
                    likely[item] = cosine
        return likely


@dataclass
class _Stretch:
    """Rows at neighbouring places whose order is open; while it is cut, who is better and who worse
    than its pivot.
    """

    items: list[int]
    batch: int = 0
    pivot: int = -1
    better: list[int] = field(default_factory=list)
    worse: list[int] = field(default_factory=list)
    done: bool = False


class _Race:
    """The rows of a group: stretches from the best to the worst, rows without a place."""

    def __init__(
        self, items: list[int], k: int, batch: int, likely: list[float], drawn: list[float]
    ) -> None:
        self.k, self.batch, self.likely, self.drawn = k, batch, likely, drawn
        self.size = len(items)
        self.stretches = [_Stretch(items)]
        self._calls: dict[int, tuple[str, ...]] = dict.fromkeys(items, ())
        self._errors: dict[int, Outcome] = {}

    def open(self) -> list[_Stretch]:
        """Stretches that reach into the first k places and are not in order."""
        stretches, place = [], 0
        for stretch in self.stretches:
            if place < self.k and len(stretch.items) > 1 and not stretch.done:
                stretches.append(stretch)
                stretch.pivot = self._pivot(stretch, self.k - place)
            place += len(stretch.items)
        return stretches

    def _pivot(self, stretch: _Stretch, wanted: int) -> int:
        """The row that is likely at the last wanted place, before anything is compared; later the
        first drawn.
        """
        if len(stretch.items) < self.size:
            return min(stretch.items, key=lambda item: self.drawn[item])
        falling = sorted(stretch.items, key=lambda item: (-self.likely[item], self.drawn[item]))
        return falling[wanted - 1 if wanted < len(falling) else (len(falling) - 1) // 2]

    def windows(self, stretch: _Stretch) -> list[list[int]]:
        """What is ranked in a round: the pivot with some others, or the stretch as a whole."""
        batch = stretch.batch or self.batch
        if len(stretch.items) <= batch + 1:
            return [stretch.items]
        others = [item for item in stretch.items if item != stretch.pivot]
        return [
            sorted([stretch.pivot, *others[i : i + batch]]) for i in range(0, len(others), batch)
        ]

    def take(self, stretch: _Stretch, window: list[int], ranking: Ranking) -> None:
        """Sort the rows of a window before or behind the pivot; the order of a whole stretch is
        kept.
        """
        for item in window:
            self._calls[item] += ranking.calls
        if ranking.order is None:
            self._without(stretch, window, ranking)
            return
        place = ranking.order.index(stretch.pivot)
        stretch.better += ranking.order[:place]
        stretch.worse += ranking.order[place + 1 :]
        stretch.done = len(window) == len(stretch.items)

    def _without(self, stretch: _Stretch, window: list[int], ranking: Ranking) -> None:
        """Rows that fail alone are errors; else a window is made smaller; of a pair both are
        errors: nothing is guessed.
        """
        for item in ranking.faulty:
            self._fail(item, ranking.faulty[item].error, ranking.faulty[item].calls)
        if not ranking.faulty and len(window) > 2:
            stretch.batch = (len(window) - 1) // 2
        elif not ranking.faulty:
            for item in window:
                self._fail(item, ranking.error, ())

    def _fail(self, item: int, error: str | None, calls: tuple[str, ...]) -> None:
        self._errors[item] = Outcome(None, error, (*self._calls[item], *calls))

    def cut(self, stretch: _Stretch) -> None:
        """Put what a round found in the place of the stretch; rows that it could not place stay in
        one with the pivot.
        """
        at = self.stretches.index(stretch)
        left = [item for item in stretch.items if item not in self._errors]
        better = [item for item in stretch.better if item not in self._errors]
        worse = [item for item in stretch.worse if item not in self._errors]
        placed = {*better, *worse, stretch.pivot}
        if stretch.pivot in self._errors or len(placed) < len(left):
            self.stretches[at : at + 1] = [_Stretch(left, stretch.batch)]
            return
        if stretch.done:
            order = [*better, stretch.pivot, *worse]
            self.stretches[at : at + 1] = [_Stretch([item], done=True) for item in order]
            return
        parts = [sorted(better), [stretch.pivot], sorted(worse)]
        self.stretches[at : at + 1] = [_Stretch(part, stretch.batch) for part in parts if part]

    def outcomes(self) -> dict[int, Outcome]:
        """The score of each row, by its place."""
        places = [
            item for stretch in self.stretches for item in stretch.items if item not in self._errors
        ]
        return self._errors | {
            item: Outcome({"score": 100.0 * (1 - place / self.size)}, None, self._calls[item])
            for place, item in enumerate(places)
        }
