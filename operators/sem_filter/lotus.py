"""LOTUS's sem_filter: its prompt, one row per call, answered with True or False.

LOTUS reads an answer with neither word, or both, as True; here it is an error of the row. Calls,
journal, limits and budget are semgraph's, so a failed row does not affect the rest (LOTUS itself
would lose all).

LOTUS's cascades are not available. With an embedding model it reads scores sorted by similarity as
if they were in row order, and returns wrong rows; with a small model it needs log-probabilities,
which this layer does not get; and it learns its thresholds from the first 200 rows, so that its
recall and precision do not hold for rows in arbitrary order. `cascade` is semgraph's own.

Needs LOTUS 1.2.4: pip install "semgraph[lotus]", in a separate environment, because it installs
torch and numpy below 2.

Source: LOTUS (Patel et al., VLDB 2025), the package lotus-ai.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import semgraph.operator as op
from semgraph.lotus import Bridge, Model, Texts, by_prompt, invalid_verdict, lacking, loaded


@dataclass(frozen=True)
class Lotus(op.PerItem[op.SemFilter]):
    """Sends each row alone, in LOTUS's words; with `reasoning` the model reasons before it answers."""

    extra = "lotus"
    shows_examples = False
    reasoning: bool = False

    def refuses(self, node: op.SemFilter, limits: op.Limits) -> str | None:
        """Refuse a prompt with answers besides the verdict, or a missing LOTUS."""
        return op.refuse_answers(node, "LOTUS's sem_filter returns only the verdict") or lacking()

    async def answer(self, node: op.SemFilter, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """One run of LOTUS for each prompt."""
        parts = await loaded()
        bridge, texts = Bridge(ctx), Texts(parts, node, rows)

        def run(items: list[int]) -> dict[int, op.Outcome]:
            prompt = node.prompt.all[rows.prompt[lefts[items[0]]]]
            question = texts.documents(items)
            partitions = [rows.partition[lefts[item]] for item in items]
            model = Model(bridge, parts, prompt, partitions, invalid_verdict)
            strategy = parts.reasoning if self.reasoning else None
            verdicts = parts.sem_filter(
                question.documents, model, question.instruction, strategy=strategy
            )
            found = zip(items, verdicts.outputs, model.answers, strict=True)
            return {item: answer.outcome({"keep": keep}) for item, keep, answer in found}

        lefts = rows.lefts
        verdicts = await bridge.gather([partial(run, items) for items in by_prompt(rows)])
        return [verdicts[item] for item in range(len(lefts))]
