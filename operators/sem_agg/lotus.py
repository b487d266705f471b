"""LOTUS's sem_agg: a tree with parts as large as the model's context; the last call has the answer
schema.

Calls of a level, and groups, are concurrent. Only the last call of a group has a schema: earlier
ones answer in free text, as in LOTUS. If a level has as many parts as the one before, LOTUS would
not end; here it is an error of the group. Calls, journal, limits and budget are semgraph's, so a
failed group does not affect the rest.

Needs LOTUS 1.2.4: pip install "semgraph[lotus]", in a separate environment, because it installs
torch and numpy below 2.

Source: LOTUS (Patel et al., VLDB 2025), the package lotus-ai.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import semgraph.operator as op
from semgraph.lotus import Bridge, Model, Texts, Unanswered, lacking, loaded
from semgraph.semantic.answers import AnswerSchema, Invalid, parse
from semgraph.semantic.prompt.builder import answer_instructions


@dataclass(frozen=True)
class Lotus(op.Implementation[op.SemAgg]):
    """An answer that does not fit the schema is an error of the group; it is not requested again."""

    same = False
    extra = "lotus"

    def refuses(self, node: op.SemAgg, limits: op.Limits) -> str | None:
        """Refuse a step with a check, or a missing LOTUS."""
        return op.refuse_check(node, "LOTUS asks about an item once") or lacking()

    def estimate(self, node: op.SemAgg, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """A call for each group that fits the model."""
        return op.Cost.of_items(rows.groups, rows.items, seen)

    async def answer(self, node: op.SemAgg, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """One run of LOTUS for each group."""
        parts = await loaded()
        bridge, texts = Bridge(ctx), Texts(parts, node, rows)

        def run(items: list[int]) -> op.Outcome:
            mixed = texts.mixed(items)
            if mixed:
                return op.Outcome(None, mixed)
            left = rows.lefts[items[0]]
            prompt = node.prompt.all[rows.prompt[left]]
            schema = AnswerSchema.of(prompt)
            question = texts.documents(items, one_context=True, more=answer_instructions(schema))
            model = Model(
                bridge, parts, prompt, [rows.partition[left]], strict=True, shrinking=True
            )
            documents = [document["text"] for document in question.documents]
            partition_ids = [0] * len(documents)
            try:
                answers = parts.sem_agg(
                    documents,
                    model,
                    question.instruction,
                    partition_ids,
                    response_format=schema.schema,
                )
                values = schema.read(parse(answers.outputs[0]), ctx.note)
            except Unanswered as error:
                return op.Outcome(None, error.faults[0][1].error, tuple(model.calls))
            except Invalid as error:
                return op.Outcome(None, f"{error.kind}: {error}", tuple(model.calls))
            return op.Outcome(values, None, tuple(model.calls))

        return await bridge.run([partial(run, items) for items in rows.groups()])
