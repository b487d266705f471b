"""LOTUS's sem_map: its prompt, one row a call; the answer's schema is sent as its
`response_format`.

LOTUS asks once: an answer that has not the form asked for is that row's error, and is not asked for
again. Calls, journal, limits and budget are semgraph's, so one row that fails costs the others
nothing (LOTUS itself would lose them all).

Needs LOTUS 1.2.4: pip install "semgraph[lotus]", in an environment of its own, as it brings torch
and numpy below 2.

Source: LOTUS (Patel et al., VLDB 2025), the package lotus-ai.
"""

from __future__ import annotations

from functools import partial

from semgraph.lotus import Bridge, Model, Texts, by_prompt, lacking, loaded
from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Limits,
    Observed,
    Outcome,
    RowEstimate,
    Rows,
    SemMap,
    answer_table,
    dataclass,
    pa,
)
from semgraph.semantic.prompt.answers import AnswerSchema, Invalid
from semgraph.semantic.prompt.records import answer_instructions


@dataclass(frozen=True)
class Lotus(Implementation[SemMap]):
    """Each row is asked about by itself, in LOTUS's words."""

    same = True

    def refuses(self, node: SemMap, limits: Limits) -> str | None:  # noqa: ARG002
        """It needs LOTUS."""
        return lacking()

    def estimate(self, node: SemMap, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each row, all at once."""
        return Cost.of_items(rows.items, rows.items, seen)

    async def answer(self, node: SemMap, rows: Rows, ctx: Context) -> pa.Table:
        """One run of LOTUS for each prompt."""
        parts = await loaded()
        bridge, texts = Bridge(ctx), Texts(parts, node, rows)

        def run(items: list[int]) -> dict[int, Outcome]:
            prompt = node.prompt.all[rows.prompt[lefts[items[0]]]]
            form = AnswerSchema.of(prompt)
            asked = texts.documents(items, more=answer_instructions(form))
            model = Model(bridge, parts, prompt, [rows.partition[lefts[item]] for item in items])
            answers = parts.sem_map(
                asked.documents, model, asked.instruction, response_format=form.schema
            )
            return {
                item: Outcome(None, answer.error, answer.calls)
                if answer.error
                else _read(form, text, answer.calls)
                for item, text, answer in zip(items, answers.outputs, model.answers, strict=True)
            }

        lefts: list[int] = rows.items.column("left").to_pylist()  # type: ignore[assignment]
        answers = await bridge.gather([partial(run, items) for items in by_prompt(rows)])
        return answer_table(node, [answers[item] for item in range(len(lefts))])


def _read(form: AnswerSchema, text: str, calls: tuple[str, ...]) -> Outcome:
    try:
        return Outcome(form.reads(text), None, calls)
    except Invalid as error:
        return Outcome(None, f"{error.kind}: {error}", calls)
