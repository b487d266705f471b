"""LOTUS's sem_agg: a tree, whose parts are as large as the model takes; the last call has the
answer's schema.

Calls of a level go out together, groups beside each other. Only the last call of a group is typed:
those below it answer in free text, as LOTUS has it. Where a level has as many parts as the one
before, LOTUS would go on for ever; here it is that group's error. Calls, journal, limits and budget
are semgraph's; a group that fails costs the others nothing.

Needs LOTUS 1.2.4: pip install "semgraph[lotus]", in an environment of its own, as it brings torch
and numpy below 2.

Source: LOTUS (Patel et al., VLDB 2025), the package lotus-ai.
"""

from __future__ import annotations

from functools import partial

from semgraph.lotus import Bridge, Model, Texts, Unanswered, lacking, loaded
from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Limits,
    Observed,
    Outcome,
    RowEstimate,
    Rows,
    SemAgg,
    answer_table,
    dataclass,
    pa,
)
from semgraph.semantic.prompt.answers import AnswerSchema, Invalid
from semgraph.semantic.prompt.records import answer_instructions


@dataclass(frozen=True)
class Lotus(Implementation[SemAgg]):
    """LOTUS asks once: an answer that has not the form asked for is that group's error."""

    same = False

    def refuses(self, node: SemAgg, limits: Limits) -> str | None:  # noqa: ARG002
        """It needs LOTUS."""
        return lacking()

    def estimate(self, node: SemAgg, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each group that fits the model."""
        return Cost.of_items(rows.groups, rows.items, seen)

    async def answer(self, node: SemAgg, rows: Rows, ctx: Context) -> pa.Table:
        """One run of LOTUS for each group."""
        parts = await loaded()
        bridge, texts = Bridge(ctx), Texts(parts, node, rows)

        def run(items: list[int]) -> Outcome:
            wrong = texts.mixed(items)
            if wrong:
                return Outcome(None, wrong)
            left: int = rows.items.column("left")[items[0]].as_py()
            prompt = node.prompt.all[rows.prompt[left]]
            form = AnswerSchema.of(prompt)
            asked = texts.documents(items, apart=True, more=answer_instructions(form))
            model = Model(
                bridge, parts, prompt, [rows.partition[left]], strict=True, shrinking=True
            )
            words = [document["text"] for document in asked.documents]
            try:
                answers = parts.sem_agg(
                    words, model, asked.instruction, [0] * len(words), response_format=form.schema
                )
                values = form.reads(answers.outputs[0])
            except Unanswered as lost:
                return Outcome(None, lost.faults[0][1].error, tuple(model.calls))
            except Invalid as error:
                return Outcome(None, f"{error.kind}: {error}", tuple(model.calls))
            return Outcome(values, None, tuple(model.calls))

        return answer_table(
            node, await bridge.run([partial(run, items) for items in rows.groups()])
        )
