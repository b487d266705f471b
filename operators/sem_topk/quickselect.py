"""Compares rows with a pivot, several per call, and continues only with ranges that contain the k
best.

A round ranks the pivot of each open range together with `batch` other rows per call, and uses only
which rows are before and after the pivot; the calls of a round are concurrent. Ranges that begin
after the k-th rank are not sorted. A range that fits one call is ranked by it. `batch=1` compares
pairs only.

The first pivot is the k-th row by the similarity of its text to the question (`pivot=embedding`), so
that the first cut is near k; later ones are random, and with `pivot=random` the first one, too, so
that no order of the rows is a bad case. Scores are ranks, not relevance.

Source: Hoare (1961); LOTUS's sem_topk for pivots by embedding, which compares pairs only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import semgraph.operator as op


@dataclass(frozen=True)
class Quickselect(op.Implementation[op.SemTopk]):
    """Correct if the model's comparisons are consistent with one order. It always ends, because each
    round fixes the rank of a pivot.
    """

    same = False
    batch: int = op.tried(3, 9, 18, default=9, risk="up")
    pivot: Literal["embedding", "random"] = "embedding"

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise ValueError("batch must be at least 1")

    def estimate(self, node: op.SemTopk, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """An approximation: a pass over all rows, then over 2 * k, halved until the k best are
        sorted.
        """
        size = rows.items / rows.groups if rows.groups else 0
        calls, rounds, left = 0, 0, size
        while left > 1 and calls < size * (1 + node.k):
            calls, rounds = calls + math.ceil((left - 1) / self.batch), rounds + 1
            if left <= self.batch + 1:
                break
            left = min(2 * node.k, left - 1) if left > 2 * node.k else left / 2
        return op.Cost.of_items(
            calls * rows.groups, calls * self.batch * rows.groups, seen
        )._replace(rounds=rounds)

    async def answer(self, node: op.SemTopk, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Cut round by round, all groups together."""
        likely = await self._likely(node, rows, ctx)
        lefts = rows.lefts
        draws = {partition: ctx.random(partition, "pivot") for partition in rows.partition}
        drawn = [draws[rows.partition[left]].random() for left in lefts]
        groups = [_Group(items, node.k, self.batch, likely, drawn) for items in rows.groups()]
        return await op.ranked(node, rows, ctx, groups)

    async def _likely(self, node: op.SemTopk, rows: op.Rows, ctx: op.Context) -> list[float]:
        """For each item an estimate of its score; 0 if it is unknown."""
        lefts = rows.lefts
        likely = [0.0] * len(lefts)
        if self.pivot == "random":
            return likely
        texts, questions = op.row_texts(node, rows), op.queries(node, rows)
        groups: dict[tuple[str, str], list[int]] = {}
        for item, left in enumerate(lefts):
            groups.setdefault((rows.partition[left], questions[left]), []).append(item)
        for (partition, question), items in groups.items():
            readable = [item for item in items if texts[lefts[item]]]
            if len(readable) > self.batch + 1:
                vectors = await ctx.embed(
                    [question, *(texts[lefts[item]] for item in readable)], partition
                )
                for item, cosine in zip(readable, op.cosines(vectors[1:], vectors[0]), strict=True):
                    likely[item] = 0.0 if math.isnan(cosine) else cosine
        return likely


@dataclass
class _Segment:
    """Rows at consecutive ranks in unknown order; during a cut, the rows that are better and worse
    than its pivot.
    """

    items: list[int]
    batch: int = 0
    pivot: int = -1
    better: list[int] = field(default_factory=list)
    worse: list[int] = field(default_factory=list)
    done: bool = False


class _Group(op.RankedGroup):
    """The rows of a group: ranges from the best to the worst."""

    def __init__(
        self, items: list[int], k: int, batch: int, likely: list[float], drawn: list[float]
    ) -> None:
        super().__init__(items, k)
        self.batch, self.likely, self.drawn = batch, likely, drawn
        self.segments = [_Segment(items)]
        self._open: list[_Segment] = []
        self._segment_of: dict[int, _Segment] = {}

    def windows(self) -> list[list[int]]:
        """Cut the ranges of the last round. The windows of those that overlap the first k ranks and
        are not sorted.
        """
        for segment in self._open:
            self._cut(segment)
        self._open, place = [], 0
        for segment in self.segments:
            if place < self.k and len(segment.items) > 1 and not segment.done:
                self._open.append(segment)
                segment.pivot = self._pivot(segment, self.k - place)
                self._segment_of |= dict.fromkeys(segment.items, segment)
            place += len(segment.items)
        return [window for segment in self._open for window in self._windows(segment)]

    def _pivot(self, segment: _Segment, wanted: int) -> int:
        """The pivot: before any comparison the row that is probably at the last wanted rank, later
        a random row.
        """
        if len(segment.items) < self.size:
            return min(segment.items, key=lambda item: self.drawn[item])
        falling = sorted(segment.items, key=lambda item: (-self.likely[item], self.drawn[item]))
        return falling[wanted - 1 if wanted < len(falling) else (len(falling) - 1) // 2]

    def _windows(self, segment: _Segment) -> list[list[int]]:
        """The windows of a round: the pivot with some other rows, or the whole range."""
        batch = segment.batch or self.batch
        if len(segment.items) <= batch + 1:
            return [segment.items]
        rest = [item for item in segment.items if item != segment.pivot]
        return [sorted([segment.pivot, *rest[i : i + batch]]) for i in range(0, len(rest), batch)]

    def take(self, window: Sequence[int], ranking: op.Ranking) -> None:
        """Sort the rows of a window before or after the pivot; a ranking of the whole range sorts
        it. Windows of which no row failed alone get smaller.
        """
        segment = self._segment_of[window[0]]
        if ranking.order is not None:
            place = ranking.order.index(segment.pivot)
            segment.better += ranking.order[:place]
            segment.worse += ranking.order[place + 1 :]
            segment.done = len(window) == len(segment.items)
        elif not ranking.faulty and len(window) > 2:
            segment.batch = (len(window) - 1) // 2
        else:
            self.fail(window, ranking)

    def _cut(self, segment: _Segment) -> None:
        """Replace the range by its parts. If some rows could not be compared, it is unchanged."""
        at = self.segments.index(segment)
        left = [item for item in segment.items if item not in self.errors]
        better = [item for item in segment.better if item not in self.errors]
        worse = [item for item in segment.worse if item not in self.errors]
        placed = {*better, *worse, segment.pivot}
        if segment.pivot in self.errors or len(placed) < len(left):
            self.segments[at : at + 1] = [_Segment(left, segment.batch)]
            return
        if segment.done:
            order = [*better, segment.pivot, *worse]
            self.segments[at : at + 1] = [_Segment([item], done=True) for item in order]
            return
        parts = [sorted(better), [segment.pivot], sorted(worse)]
        self.segments[at : at + 1] = [_Segment(items, segment.batch) for items in parts if items]

    def places(self) -> list[int]:
        """The rows of all ranges."""
        return [item for segment in self.segments for item in segment.items]
