"""LOTUS's sem_map: its prompt, one row per call, with the answer schema as its `response_format`.

An answer that does not fit the schema is an error of the row and is not requested again. Calls,
journal, limits and budget are semgraph's, so a failed row does not affect the rest (LOTUS itself
would lose all).

Needs LOTUS 1.2.4: pip install "semgraph[lotus]", in a separate environment, because it installs
torch and numpy below 2.

Source: LOTUS (Patel et al., VLDB 2025), the package lotus-ai.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import semgraph.operator as op
from semgraph.lotus import Bridge, Model, Texts, by_prompt, lacking, loaded
from semgraph.semantic.answers import AnswerSchema, Invalid, Note, parse
from semgraph.semantic.prompt.builder import answer_instructions


@dataclass(frozen=True)
class Lotus(op.PerItem[op.SemMap]):
    """Sends each row alone, in LOTUS's words."""

    extra = "lotus"
    shows_examples = False

    def refuses(self, node: op.SemMap, limits: op.Limits) -> str | None:
        """Refuse a step with a check, or a missing LOTUS."""
        return op.refuse_check(node, "LOTUS asks about an item once") or lacking()

    async def answer(self, node: op.SemMap, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """One run of LOTUS for each prompt."""
        parts = await loaded()
        bridge, texts = Bridge(ctx), Texts(parts, node, rows)

        def run(items: list[int]) -> dict[int, op.Outcome]:
            prompt = node.prompt.all[rows.prompt[lefts[items[0]]]]
            schema = AnswerSchema.of(prompt)
            question = texts.documents(items, more=answer_instructions(schema))
            model = Model(bridge, parts, prompt, [rows.partition[lefts[item]] for item in items])
            answers = parts.sem_map(
                question.documents, model, question.instruction, response_format=schema.schema
            )
            return {
                item: op.Outcome(None, answer.error, answer.calls)
                if answer.error
                else _read(schema, text, answer.calls, ctx.note)
                for item, text, answer in zip(items, answers.outputs, model.answers, strict=True)
            }

        lefts = rows.lefts
        answers = await bridge.gather([partial(run, items) for items in by_prompt(rows)])
        return [answers[item] for item in range(len(lefts))]


def _read(schema: AnswerSchema, text: str, calls: tuple[str, ...], note: Note) -> op.Outcome:
    try:
        return op.Outcome(schema.read(parse(text), note), None, calls)
    except Invalid as error:
        return op.Outcome(None, f"{error.kind}: {error}", calls)
