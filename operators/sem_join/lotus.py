"""LOTUS's sem_join: its prompt, one pair per call, answered with True or False.

LOTUS compares all left rows with all right rows; here left rows with the same candidates share a
run, so that only candidate pairs are sent. LOTUS reads an answer with neither word, or both, as
True; here it is an error of the pair. Calls, journal, limits and budget are semgraph's, so a failed
pair does not affect the rest.

LOTUS returns no answers besides the match. Its cascade is not available: it loses pairs if two left
rows have the same text, and it learns its thresholds from the first 200 pairs, which are those of
the first left rows. `cascade` is semgraph's own.

Needs LOTUS 1.2.4: pip install "semgraph[lotus]", in a separate environment, because it installs
torch and numpy below 2.

Source: LOTUS (Patel et al., VLDB 2025), the package lotus-ai.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import semgraph.operator as op
from semgraph.lotus import Bridge, Model, Texts, claim, invalid_verdict, lacking, loaded


@dataclass(frozen=True)
class Lotus(op.PerItem[op.SemJoin]):
    """Sends each pair alone, in LOTUS's words; with `reasoning` the model reasons before it answers."""

    extra = "lotus"
    shows_examples = False
    reasoning: bool = False

    def refuses(self, node: op.SemJoin, limits: op.Limits) -> str | None:
        """Refuse a prompt with answers besides the match, or a missing LOTUS."""
        if node.answers:
            names = ", ".join(name for name, _ in node.answers)
            return f"LOTUS's sem_join returns only whether a pair matches, and the prompt also returns {names}; use block"
        return lacking()

    async def answer(self, node: op.SemJoin, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """One run of LOTUS for all left rows with the same prompt and candidates."""
        parts = await loaded()
        bridge, texts = Bridge(ctx), Texts(parts, node, rows)

        def run(lefts: list[int], rights: tuple[int, ...]) -> dict[tuple[int, int], op.Outcome]:
            import pandas as pd

            prompt = node.prompt.all[rows.prompt[lefts[0]]]
            left_texts, right_texts = (
                pd.Series(side, dtype=object) for side in texts.sides(prompt, lefts, rights)
            )
            partitions = [rows.partition[left] for left in lefts for _ in rights]
            model = Model(bridge, parts, prompt, partitions, invalid_verdict)
            verdicts = parts.sem_join(
                left_texts, right_texts, lefts, list(rights), "left", "right", model, claim(prompt),
                strategy=parts.reasoning if self.reasoning else None, show_progress_bar=False,
            )  # fmt: skip
            pairs = [(left, right) for left in lefts for right in rights]
            found = zip(pairs, verdicts.filter_outputs, model.answers, strict=True)
            return {pair: answer.outcome({"match": match}) for pair, match, answer in found}

        runs = [partial(run, lefts, rights) for (_, rights), lefts in _by_candidates(rows).items()]
        verdicts = await bridge.gather(runs)
        return [verdicts[pair] for pair in zip(rows.lefts, rows.rights, strict=True)]


def _by_candidates(rows: op.Rows) -> dict[tuple[int, tuple[int, ...]], list[int]]:
    """Left rows by prompt and candidates."""
    candidates: dict[int, list[int]] = {}
    for left, right in zip(rows.lefts, rows.rights, strict=True):
        candidates.setdefault(left, []).append(right)
    groups: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for left, rights in candidates.items():
        groups.setdefault((rows.prompt[left], tuple(rights)), []).append(left)
    return groups
