"""One token for each row: a digit from 0 to 9 with its probability; the score is the expected digit.

Such scores rarely tie, and one token costs less than a JSON answer. The endpoint must return
log-probabilities: llama.cpp, vLLM and OpenAI's models without reasoning do. If that is not known,
one row is sent first.

Source: Liu et al., G-Eval (EMNLP 2023), for scores weighted by the probabilities of their tokens.
"""

from __future__ import annotations

from dataclasses import dataclass

import semgraph.operator as op


@dataclass(frozen=True)
class Logit(op.PerItem[op.SemTopk]):
    """Scores each row alone, from 0 to 100, in the prompt's words."""

    same = False

    def refuses(self, node: op.SemTopk, limits: op.Limits) -> str | None:
        """Refuse a model that is known to return no log-probabilities."""
        return (
            "the model returns no log-probabilities; use pointwise"
            if limits.logprobs is False
            else None
        )

    async def answer(self, node: op.SemTopk, rows: op.Rows, ctx: op.Context) -> list[op.Outcome]:
        """Ask for a digit for each row."""
        return await ctx.ask_words(node, rows)
