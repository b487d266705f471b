"""LOTUS's sem_filter: its prompt, one row a call, answered by True or False.

LOTUS takes an answer with neither word, and one with both, for True; here it is that row's error.
Calls, journal, limits and budget are semgraph's, so one row that fails costs the others nothing
(LOTUS itself would lose them all).

LOTUS's cascades are not offered. With an embedding model it uses scores sorted by similarity as if
they were in the order of the rows, so wrong rows come back; a small model needs log-probabilities,
which model endpoints do not hand to this layer; and its thresholds are learned from the first 200
rows, so the recall and precision it states do not hold for rows in any order. `cascade` is
semgraph's own.

Needs LOTUS 1.2.4: pip install "semgraph[lotus]", in an environment of its own, as it brings torch
and numpy below 2.

Source: LOTUS (Patel et al., VLDB 2025), the package lotus-ai.
"""

from __future__ import annotations

from functools import partial

from semgraph.lotus import Bridge, Model, Texts, by_prompt, lacking, loaded, said_twice
from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Limits,
    Observed,
    Outcome,
    RowEstimate,
    Rows,
    SemFilter,
    answer_table,
    dataclass,
    pa,
)


@dataclass(frozen=True)
class Lotus(Implementation[SemFilter]):
    """Each row is asked about by itself, in LOTUS's words; with `reasoning` the model reasons
    before it answers.
    """

    same = True
    reasoning: bool = False

    def refuses(self, node: SemFilter, limits: Limits) -> str | None:  # noqa: ARG002
        """It needs LOTUS."""
        return lacking()

    def estimate(self, node: SemFilter, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each row, all at once."""
        return Cost.of_items(rows.items, rows.items, seen)

    async def answer(self, node: SemFilter, rows: Rows, ctx: Context) -> pa.Table:
        """One run of LOTUS for each prompt."""
        parts = await loaded()
        bridge, texts = Bridge(ctx), Texts(parts, node, rows)

        def run(items: list[int]) -> dict[int, Outcome]:
            prompt = node.prompt.all[rows.prompt[lefts[items[0]]]]
            asked = texts.documents(items)
            model = Model(
                bridge, parts, prompt, [rows.partition[lefts[item]] for item in items], said_twice
            )
            strategy = parts.reasoning if self.reasoning else None
            verdicts = parts.sem_filter(
                asked.documents, model, asked.instruction, strategy=strategy
            )
            return {
                item: Outcome(None if answer.error else {"keep": keep}, answer.error, answer.calls)
                for item, keep, answer in zip(items, verdicts.outputs, model.answers, strict=True)
            }

        lefts: list[int] = rows.items.column("left").to_pylist()  # type: ignore[assignment]
        verdicts = await bridge.gather([partial(run, items) for items in by_prompt(rows)])
        return answer_table(node, [verdicts[item] for item in range(len(lefts))])
