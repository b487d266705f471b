"""LOTUS's sem_topk: sorts by comparisons of two rows per call.

`method` is LOTUS's: `quick` partitions by a random pivot, with concurrent comparisons; `quick-sem`
selects pivots by the similarity of row and question; `heap` compares sequentially; `naive` compares
all pairs concurrently. Groups are sorted concurrently, heaps sequentially. semgraph draws the
pivots, so that runs are reproducible.

LOTUS reads an answer that names neither document as the first; here the comparison fails. A row of a
failed comparison that also fails against itself is an error, and the rest is sorted without it.
Scores are ranks.

Needs LOTUS 1.2.4: pip install "semgraph[lotus]", in a separate environment, because it installs
torch and numpy below 2.

Source: LOTUS (Patel et al., VLDB 2025), the package lotus-ai.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Literal

import semgraph.operator as op
from semgraph.lotus import Bridge, Model, Sorter, Texts, invalid_number, lacking, loaded


@dataclass(frozen=True)
class Lotus(op.Implementation[op.SemTopk]):
    """Correct if the model's comparisons are consistent with one order; with `reasoning` the model
    reasons before it answers.
    """

    same = False
    extra = "lotus"
    shows_examples = False
    method: Literal["quick", "quick-sem", "heap", "naive"] = "quick"
    reasoning: bool = False

    def refuses(self, node: op.SemTopk, limits: op.Limits) -> str | None:
        """Refuse a missing LOTUS."""
        return lacking()

    def estimate(self, node: op.SemTopk, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """The expected comparisons of each group; groups are concurrent."""
        size = rows.items / rows.groups if rows.groups else 0
        depth = math.ceil(math.log2(max(2.0, size)))
        if self.method == "naive":
            calls, rounds = size * max(0.0, size - 1) / 2, 1.0
        elif self.method == "heap":
            calls = rounds = max(0.0, size - 1 + node.k * depth)
        else:
            calls, rounds = max(0.0, 2 * size + node.k * math.log2(node.k + 1)), float(depth)
        return op.Cost.of_items(calls * rows.groups, 2 * calls * rows.groups, seen)._replace(
            rounds=rounds
        )

    async def answer(self, node: op.SemTopk, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """One run of LOTUS for each group."""
        parts = await loaded()
        bridge, texts = Bridge(ctx), Texts(parts, node, rows)
        lefts = rows.lefts

        def run(items: list[int]) -> dict[int, op.Outcome]:
            mixed = texts.mixed(items)
            if mixed:
                return dict.fromkeys(items, op.Outcome(None, mixed))
            prompt = node.prompt.all[rows.prompt[lefts[items[0]]]]
            model = Model(bridge, parts, prompt, [rows.partition[lefts[items[0]]]], invalid_number)
            question = texts.documents(items, one_context=True)
            sorter = Sorter(bridge, parts, model, self.method, node.k, reasoning=self.reasoning)
            return sorter.sort(items, question)

        groups = [await self._ordered(node, rows, ctx, items) for items in rows.groups()]
        orders = await bridge.gather([partial(run, items) for items in groups])
        return [orders[item] for item in range(len(lefts))]

    async def _ordered(
        self, node: op.SemTopk, rows: op.Rows, ctx: op.Context, items: list[int]
    ) -> list[int]:
        """The items in the order for LOTUS, whose quick sorts use the k-th row of a range as pivot."""
        if self.method == "quick":
            partition = rows.partition[rows.lefts[items[0]]]
            return ctx.random(partition, "pivot", str(len(items))).sample(items, len(items))
        if self.method != "quick-sem":
            return items
        part = rows.only(items)
        lefts = part.lefts
        texts, query = op.row_texts(node, rows), op.queries(node, rows)[lefts[0]]
        vectors = await ctx.embed(
            [query or " ", *(texts[left] or " " for left in lefts)], rows.partition[lefts[0]]
        )
        similarity = dict(zip(items, op.cosines(vectors[1:], vectors[0]), strict=True))
        known = {item: 0.0 if math.isnan(cosine) else cosine for item, cosine in similarity.items()}
        return sorted(items, key=lambda item: -known[item])
