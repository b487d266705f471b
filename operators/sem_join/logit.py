"""One token for each pair: yes or no, and how sure the model is.

The score of a pair is the log-odds of yes against no; the record of a run keeps it with the
answers. Without calibration a pair matches where the probability of yes is above `threshold`. The
log-odds of small models rank pairs well, but yes begins elsewhere than at even odds. `labels` names
a file with some twenty labelled pairs: they move and stretch the log-odds, and the run's notes say
how many of them come out right when each is left out. `split=true` needs no labels: the log-odds of
each partition are divided into two groups, which is right only where both answers are common.

What the prompt returns besides is asked for where a pair matches, in a second call, which may still
say no.

The endpoint must give log-probabilities: llama.cpp, vLLM and OpenAI's models without reasoning do.
Where it is not known, one pair is asked about first.

Sources: Fisher (1936) for the curve; Otsu (1979) for the division.
"""

from __future__ import annotations

from semgraph.operator import (
    ByLogOdds,
    Context,
    Cost,
    Observed,
    RowEstimate,
    Rows,
    SemJoin,
    answer_table,
    dataclass,
    outcomes,
    pa,
)


@dataclass(frozen=True)
class Logit(ByLogOdds[SemJoin]):
    """Each pair is asked about by itself, in the prompt's words, for one word; see the module."""

    def estimate(self, node: SemJoin, rows: RowEstimate, seen: Observed | None) -> Cost:
        """A call for each pair, all at once; where the prompt returns more, at most a second one
        for each.
        """
        cost = Cost.of_items(rows.items, rows.items, seen)
        return (
            cost._replace(calls=2 * rows.items, rounds=2, least=rows.items)
            if node.answers
            else cost
        )

    async def answer(self, node: SemJoin, rows: Rows, ctx: Context) -> pa.Table:
        """Ask about each pair, and for the answers of those that match."""
        verdicts = await self.verdicts(node, rows, ctx)
        matching = [
            i
            for i, one in enumerate(verdicts)
            if node.answers and one.values and one.values["match"]
        ]
        table = await ctx.ask_packed(
            node, rows.only(matching), ([item] for item in range(len(matching)))
        )
        for item, more in zip(matching, outcomes(node, table), strict=True):
            values = (
                None if more.values is None else {**(verdicts[item].values or {}), **more.values}
            )
            verdicts[item] = more._replace(
                values=values, calls=(*verdicts[item].calls, *more.calls)
            )
        return answer_table(node, verdicts, scored=True)
