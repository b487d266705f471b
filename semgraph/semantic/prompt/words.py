"""Questions with one word as the answer: yes or no, or a digit. One token is read, and how probable
each word was.

The question stands in the user message, after examples of other questions. Small models answer far
more often right after examples than when they are asked for JSON (`benchmarks/results/real.md`);
the examples are equal in all requests, so they are read once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from semgraph.llm.base import Reply
from semgraph.logical.semantic import Semantic
from semgraph.semantic.contract import Outcome
from semgraph.semantic.prompt.answers import Invalid


class Words(NamedTuple):
    """The words that may be the answer, how they are asked for, and examples: pairs (question,
    answer).
    """

    words: tuple[str, ...]
    instruction: str
    examples: tuple[tuple[str, str], ...] = ()


YES_NO = Words(
    ("yes", "no"),
    "Answer with exactly one word: yes or no.",
    (
        ("Is this about cooking?\nThe train to Vienna was an hour late.", "No"),
        ("The text mentions an animal: Two dogs slept in front of the oven.", "Yes"),
        ("Keep notes written by a teacher.\n\nNote: I drive a taxi, mostly at night.", "No"),
        ("Text: She practises the violin every morning.\n\nDoes she play an instrument?", "Yes"),
    ),
)
DIGITS = Words(
    tuple("0123456789"),
    "Answer with exactly one digit, from 0 (it does not fit at all) to 9 (it fits perfectly).",
)


def words_of(node: Semantic) -> Words:
    """The words that an operator's question is answered with."""
    return DIGITS if node.keyword == "sem_topk" else YES_NO


def by_default(node: Semantic, yes_no: str) -> Words | None:
    """The words that a model is asked for wherever it is asked about one row; None: for JSON.

    Pairs are asked about in JSON by every model: the prompts of the shipped plans were written and
        recorded for it.
    """
    return YES_NO if node.keyword == "sem_filter" and yes_no == "word" else None


def read_word(node: Semantic, words: Words, reply: Reply, yes_from: float) -> dict[str, Any]:
    """The verdict in a reply, and under `logprobs` how probable each word was, where that is known.

    Args:
        node: Whose question it was.
        words: The words that may be the answer.
        reply: What came back.
        yes_from: The log-odds from which on the answer is yes.

    Raises:
        Invalid: It is none of the words.
    """
    said = reply.text.strip().lower()
    found = [word for word in words.words if said.startswith(word)]
    if reply.logprobs and max(reply.logprobs) > -math.inf:
        found = [words.words[reply.logprobs.index(max(reply.logprobs))]]
    if not found:
        raise Invalid(f"the answer must be one of the words {', '.join(words.words)}")
    verdict: dict[str, Any]
    if node.keyword == "sem_topk":
        digit = expected(reply.logprobs) if reply.logprobs else float(found[0])
        verdict = {"score": digit * 100 / 9}
    else:
        yes = (
            reply.logprobs[0] - reply.logprobs[1] > yes_from
            if reply.logprobs
            else found[0] == words.words[0]
        )
        verdict = {"keep" if node.keyword == "sem_filter" else "match": yes}
    return verdict | {"logprobs": reply.logprobs}


def log_odds(outcome: Outcome) -> float:
    """How much more probable yes is than no, as a natural logarithm, in an outcome of
    `Context.ask_words`.
    """
    assert outcome.values is not None
    yes, no = outcome.values["logprobs"]
    return float(yes - no)


def expected(logprobs: tuple[float, ...]) -> float:
    """The mean digit, of the probabilities of the digits from 0 on.

    >>> round(expected((-9.0, -0.7, -0.7)), 2)
    1.5
    """
    weights = [math.exp(logprob) for logprob in logprobs]
    return math.fsum(digit * weight for digit, weight in enumerate(weights)) / math.fsum(weights)
