"""How probable each of a few words is as an answer, from the most probable first tokens of one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

TOP = 20
"""How many first tokens are asked for: as many as OpenAI and vLLM give."""


def word_logprobs(words: Sequence[str], tokens: Iterable[tuple[str, float]]) -> tuple[float, ...]:
    """The logarithm of each word's probability: of all tokens that are the word, or its beginning, in any case.

    A word without a token has the least probability of the list, which is an upper bound. Where no token is a word, the
    model answered something else: every word has -inf. Without tokens nothing is known: an empty tuple.

    >>> [round(p, 2) for p in word_logprobs(["yes", "no"], [("Yes", -0.1), (" yes", -3.0), ("No", -2.5), ("It", -6.0)])]
    [-0.05, -2.5]
    >>> word_logprobs(["yes", "no"], [("Certainly", -0.1), ("It", -6.0)])
    (-inf, -inf)
    >>> word_logprobs(["yes", "no"], [])
    ()
    """
    listed = list(tokens)
    if not listed:
        return ()
    own: list[list[float]] = [[] for _ in words]
    for token, logprob in listed:
        text = token.strip().lower()
        for place, word in enumerate(words):
            if text and word.startswith(text):
                own[place].append(logprob)
    least = min(logprob for _, logprob in listed) if any(own) else -math.inf
    return tuple(math.log(math.fsum(map(math.exp, some))) if some else least for some in own)


def first_tokens(logprobs: Any) -> list[tuple[str, float]]:
    """The first tokens in a choice's `logprobs`, in the form of OpenAI's protocol; none where it has none."""
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    top = (content[0].get("top_logprobs") or [content[0]]) if content else []
    return [(one["token"], float(one["logprob"])) for one in top]


def asks_logprobs() -> dict[str, Any]:
    """The members of a request's body that ask for log-probabilities."""
    return {"logprobs": True, "top_logprobs": TOP}
