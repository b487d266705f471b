"""One token for each row: a digit from 0 to 9, and how probable each digit is; the score is the
mean digit.

Such scores seldom tie, and one token costs less than a JSON answer. The endpoint must give
log-probabilities: llama.cpp, vLLM and OpenAI's models without reasoning do. Where it is not known,
one row is asked about first.

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
    """Each row is scored by itself, from 0 to 100, in the prompt's words."""

    same = False

    def refuses(self, node: SemTopk, limits: Limits) -> str | None:  # noqa: ARG002
        """The model must not be known to give no log-probabilities."""
        return (
            "the model returns no log-probabilities; use pointwise"
            if limits.logprobs is False
            else None
        )

    async def answer(self, node: SemTopk, rows: Rows, ctx: Context) -> pa.Table:
        """Ask for a digit for each row."""
        return answer_table(node, await ctx.ask_words(node, rows))
