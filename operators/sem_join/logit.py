"""One token for each pair, yes or no, with its probability.

The score of a pair is the log-odds of yes against no; the run's record has it with the answers.
Without calibration a pair matches if the probability of yes is above `threshold`. The log-odds of
small models rank pairs well, but are biased. `labels` names a file with about twenty labelled pairs
to calibrate the log-odds; the run's notes have its leave-one-out accuracy. `split=true` needs no
labels: the log-odds of each partition are split into two groups, which is correct only if both
answers are common.

If the prompt returns answers, a matching pair has a second call for them, which may still reject
the match.

The endpoint must return log-probabilities: llama.cpp, vLLM and OpenAI's models without reasoning do.
If that is not known, one pair is sent first.

Sources: Fisher (1936) for the calibration; Otsu (1979) for the split.
"""

from __future__ import annotations

from dataclasses import dataclass

import semgraph.operator as op


@dataclass(frozen=True)
class Logit(op.ByLogOdds[op.SemJoin]):
    """Sends each pair alone, in the prompt's words, and asks for one word; see the module."""

    def estimate(self, node: op.SemJoin, rows: op.RowEstimate, seen: op.Observed | None) -> op.Cost:
        """A call for each pair; with answers at most a second one for each."""
        cost = op.Cost.of_items(rows.items, rows.items, seen)
        return (
            cost._replace(calls=2 * rows.items, rounds=2, least=rows.items)
            if node.answers
            else cost
        )

    async def answer(self, node: op.SemJoin, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Send each pair, and matching pairs a second time for their answers. If answers were
        refused, the verdicts remain.
        """
        if rows.reasons:
            verdicts = [op.Outcome({"match": True})] * len(rows.items)
        else:
            verdicts = await self.verdicts(node, rows, ctx)
        matching = [
            i
            for i, verdict in enumerate(verdicts)
            if node.answers and verdict.values and verdict.values["match"]
        ]
        alone = ([item] for item in range(len(matching)))
        answers = await ctx.ask_packed(node, rows.only(matching), alone)
        for item, answer in zip(matching, answers, strict=True):
            verdict = verdicts[item]
            values = None if answer.values is None else {**(verdict.values or {}), **answer.values}
            verdicts[item] = answer._replace(values=values, calls=(*verdict.calls, *answer.calls))
        return verdicts
