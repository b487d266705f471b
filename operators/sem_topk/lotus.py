"""LOTUS's sem_topk: two rows are compared a call, and sorted by that.

`method` is LOTUS's: `quick` partitions by a random pivot, with the comparisons of a partition at
once; `quick-sem` takes its pivots by the similarity of row and question; `heap` waits for each
comparison before the next; `naive` compares all pairs at once. Groups are sorted beside each other,
heaps one after another. Pivots are drawn by semgraph, so that a run repeats.

An answer that names neither document LOTUS takes for the first; here the comparison failed. A row
of a failed comparison that cannot be compared with itself either is an error, and the others are
sorted without it. Scores say places.

LOTUS's `cascade_threshold` always ends in an AssertionError, so it is refused.

Needs LOTUS 1.2.4: pip install "semgraph[lotus]", in an environment of its own, as it brings torch
and numpy below 2.

Source: LOTUS (Patel et al., VLDB 2025), the package lotus-ai.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

from semgraph.lotus import Bridge, Group, Model, Sorter, Texts, lacking, loaded, unnumbered
from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Limits,
    Observed,
    Outcome,
    RowEstimate,
    Rows,
    SemTopk,
    answer_table,
    cosines,
    dataclass,
    pa,
    queries,
    row_texts,
)


@dataclass(frozen=True)
class Lotus(Implementation[SemTopk]):
    """Right if the model's comparisons agree with one order; with `reasoning` the model reasons
    before it answers.
    """

    same = False
    method: Literal["quick", "quick-sem", "heap", "naive"] = "quick"
    reasoning: bool = False
    cascade_threshold: float | None = None

    def refuses(self, node: SemTopk, limits: Limits) -> str | None:  # noqa: ARG002
        """It needs LOTUS, and no cascade."""
        if self.cascade_threshold is not None:
            return "LOTUS 1.2.4's sem_topk fails with any cascade_threshold (it never asks for the log-probabilities)"
        return lacking()

    def estimate(self, node: SemTopk, rows: RowEstimate, seen: Observed | None) -> Cost:
        """Comparisons of each group, as they are to be expected; groups go beside each other."""
        size = rows.items / rows.groups if rows.groups else 0
        depth = math.ceil(math.log2(max(2.0, size)))
        if self.method == "naive":
            calls, rounds = size * max(0.0, size - 1) / 2, 1.0
        elif self.method == "heap":
            calls = rounds = max(0.0, size - 1 + node.k * depth)
        else:
            calls, rounds = max(0.0, 2 * size + node.k * math.log2(node.k + 1)), float(depth)
        return Cost.of_items(calls * rows.groups, 2 * calls * rows.groups, seen)._replace(
            rounds=rounds
        )

    async def answer(self, node: SemTopk, rows: Rows, ctx: Context) -> pa.Table:
        """One run of LOTUS for each group."""
        parts = await loaded()
        bridge, texts = Bridge(ctx), Texts(parts, node, rows)
        lefts: list[int] = rows.items.column("left").to_pylist()  # type: ignore[assignment]

        def run(items: list[int]) -> dict[int, Outcome]:
            wrong = texts.mixed(items)
            if wrong:
                return dict.fromkeys(items, Outcome(None, wrong))
            prompt = node.prompt.all[rows.prompt[lefts[items[0]]]]
            model = Model(bridge, parts, prompt, [rows.partition[lefts[items[0]]]], unnumbered)
            asked = texts.documents(items, apart=True)
            sorter = Sorter(bridge, parts, model, self.method, node.k, reasoning=self.reasoning)
            return sorter.sort(Group(items, asked.documents, asked.instruction)).outcomes

        groups = [await self._ordered(node, rows, ctx, items) for items in rows.groups()]
        orders = await bridge.gather([partial(run, items) for items in groups])
        return answer_table(node, [orders[item] for item in range(len(lefts))])

    async def _ordered(
        self, node: SemTopk, rows: Rows, ctx: Context, items: list[int]
    ) -> list[int]:
        """The items as LOTUS is to get them: its quick sorts take the k-th of a stretch for their
        pivot.
        """
        if self.method == "quick":
            partition = rows.partition[rows.items.column("left")[items[0]].as_py()]
            return ctx.random(partition, "pivot", str(len(items))).sample(items, len(items))
        if self.method != "quick-sem":
            return items
        part = rows.only(items)
        lefts: list[int] = part.items.column("left").to_pylist()  # type: ignore[assignment]
        texts, asked = row_texts(node, rows), queries(node, rows)[lefts[0]]
        vectors = await ctx.embed(
            [asked or " ", *(texts[left] or " " for left in lefts)], rows.partition[lefts[0]]
        )
        near = dict(zip(items, cosines(vectors[1:], vectors[0]), strict=True))
        return sorted(items, key=lambda item: -near[item])
