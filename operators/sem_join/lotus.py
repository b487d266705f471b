"""LOTUS's sem_join: its prompt, one pair a call, answered by True or False.

LOTUS compares all left rows with all right rows; here left rows with the same candidates share a
run of it, so that only candidate pairs are asked about. LOTUS takes an answer with neither word,
and one with both, for True; here it is that pair's error. Calls, journal, limits and budget are
semgraph's, so one pair that fails costs the others nothing.

LOTUS returns no answers beside a match. Its cascade is not offered: where two left rows have the
same text it loses pairs, and its thresholds are learned from the first 200 pairs, which are those
of the first left rows. `cascade` is semgraph's own.

Needs LOTUS 1.2.4: pip install "semgraph[lotus]", in an environment of its own, as it brings torch
and numpy below 2.

Source: LOTUS (Patel et al., VLDB 2025), the package lotus-ai.
"""

from __future__ import annotations

from functools import partial

from semgraph.lotus import Bridge, Model, Texts, claim, lacking, loaded, said_twice
from semgraph.operator import (
    Context,
    Cost,
    Implementation,
    Limits,
    Observed,
    Outcome,
    RowEstimate,
    Rows,
    SemJoin,
    answer_table,
    dataclass,
    pa,
)


@dataclass(frozen=True)
class Lotus(Implementation[SemJoin]):
    """Each pair is asked about by itself, in LOTUS's words; with `reasoning` the model reasons
    before it answers.
    """

    same = True
    reasoning: bool = False

    def refuses(self, node: SemJoin, limits: Limits) -> str | None:  # noqa: ARG002
        """It needs LOTUS, and a prompt that returns nothing but the match."""
        if node.answers:
            names = ", ".join(name for name, _ in node.answers)
            return f"LOTUS's sem_join says only whether a pair matches, and the prompt also returns {names}; use block"
        return lacking()

    def estimate(self, node: SemJoin, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each pair, all at once."""
        return Cost.of_items(rows.items, rows.items, seen)

    async def answer(self, node: SemJoin, rows: Rows, ctx: Context) -> pa.Table:
        """One run of LOTUS for all left rows that have one prompt and the same candidates."""
        parts = await loaded()
        bridge, texts = Bridge(ctx), Texts(parts, node, rows)

        def run(lefts: list[int], rights: tuple[int, ...]) -> dict[tuple[int, int], Outcome]:
            import pandas as pd

            prompt = node.prompt.all[rows.prompt[lefts[0]]]
            mine, theirs = (
                pd.Series(side, dtype=object) for side in texts.sides(prompt, lefts, rights)
            )
            partitions = [rows.partition[left] for left in lefts for _ in rights]
            model = Model(bridge, parts, prompt, partitions, said_twice)
            verdicts = parts.sem_join(
                mine, theirs, lefts, list(rights), "left", "right", model, claim(prompt),
                strategy=parts.reasoning if self.reasoning else None, show_progress_bar=False,
            )  # fmt: skip
            pairs = [(left, right) for left in lefts for right in rights]
            return {
                pair: Outcome(
                    None if answer.error else {"match": match}, answer.error, answer.calls
                )
                for pair, match, answer in zip(
                    pairs, verdicts.filter_outputs, model.answers, strict=True
                )
            }

        runs = [partial(run, lefts, rights) for (_, rights), lefts in _alike(rows).items()]
        verdicts = await bridge.gather(runs)
        return answer_table(
            node, [verdicts[pair["left"], pair["right"]] for pair in rows.items.to_pylist()]
        )


def _alike(rows: Rows) -> dict[tuple[int, tuple[int, ...]], list[int]]:
    """Left rows by prompt and candidates."""
    near: dict[int, list[int]] = {}
    for pair in rows.items.to_pylist():
        near.setdefault(pair["left"], []).append(pair["right"])
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for left, rights in near.items():
        groups.setdefault((rows.prompt[left], tuple(rights)), []).append(left)
    return groups
