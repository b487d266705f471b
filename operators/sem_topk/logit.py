"""One token for each row: a digit from 0 to 9 with its probability; the score is the expected digit.

Such scores rarely tie, and one token costs less than a JSON answer. The endpoint must return
log-probabilities: llama.cpp, vLLM and OpenAI's models without reasoning do. If that is not known,
one row is sent first.

Source: Liu et al., G-Eval (EMNLP 2023), for scores weighted by the probabilities of their tokens.
"""

from __future__ import annotations

from semgraph.operator import (
    Context,
    Limits,
    PerItem,
    Rows,
    SemTopk,
    answer_table,
    dataclass,
    pa,
)


@dataclass(frozen=True)
class Logit(PerItem[SemTopk]):
    """Scores each row alone, from 0 to 100, in the prompt's words."""

    same = False

    def refuses(self, node: SemTopk, limits: Limits) -> str | None:  # noqa: ARG002
        """Refuse a model that is known to return no log-probabilities."""
        return (
            "the model returns no log-probabilities; use pointwise"
            if limits.logprobs is False
            else None
        )

    async def answer(self, node: SemTopk, rows: Rows, ctx: Context) -> pa.Table:
        """Ask for a digit for each row."""
        return answer_table(node, await ctx.ask_words(node, rows))
