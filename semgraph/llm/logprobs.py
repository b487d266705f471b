"""Log-probabilities of one-word answers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

LOGPROBS = {"logprobs": True, "top_logprobs": 20}
"""The members of a request's body that request log-probabilities: 20 is the most that OpenAI and
vLLM return.
"""


def word_logprobs(words: Sequence[str], tokens: Iterable[tuple[str, float]]) -> tuple[float, ...]:
    """The logarithm of each word's probability: the sum over all tokens that begin the word, in any
    case.

    A word without a token gets the least probability of the list, which is an upper bound. If no
    token begins a word, the model answered something else: every word gets -inf. Without tokens the
    result is empty.

    >>> [
    ...     round(p, 2)
    ...     for p in word_logprobs(
    ...         ["yes", "no"], [("Yes", -0.1), (" yes", -3.0), ("No", -2.5), ("It", -6.0)]
    ...     )
    ... ]
    [-0.05, -2.5]
    >>> word_logprobs(["yes", "no"], [("Certainly", -0.1), ("It", -6.0)])
    (-inf, -inf)
    >>> word_logprobs(["yes", "no"], [])
    ()
    """
    listed = list(tokens)
    if not listed:
        return ()
    of_words: list[list[float]] = [[] for _ in words]
    for token, logprob in listed:
        text = token.strip().lower()
        for word, logprobs in zip(words, of_words, strict=True):
            if text and word.startswith(text):
                logprobs.append(logprob)
    least = min(logprob for _, logprob in listed) if any(of_words) else -math.inf
    return tuple(_log_of_sum(logprobs) if logprobs else least for logprobs in of_words)


def _log_of_sum(logprobs: Sequence[float]) -> float:
    total = math.fsum(map(math.exp, logprobs))
    return math.log(total) if total else max(logprobs)
