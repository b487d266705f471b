"""Votes: the answer of several draws that agrees most with all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semgraph.expr.functions import key
from semgraph.logical.semantic import Semantic
from semgraph.semantic.answers import answer_table
from semgraph.semantic.context import Context
from semgraph.semantic.contract import (
    SCORE,
    Cost,
    Implementation,
    N,
    Observed,
    Outcome,
    RowEstimate,
    Rows,
    verdict_field,
)

_MOST = 100


@dataclass(frozen=True)
class Vote(Implementation[N]):
    """Asks about each row several times, and takes the answer that agrees most with all of them.

    Args:
        samples: How often each row is asked about.
        temperature: The temperature of the requests.

    Raises:
        ValueError: A parameter is out of range.
    """

    same = False
    samples: int = 5
    temperature: float = 0.7

    def __post_init__(self) -> None:
        if not 2 <= self.samples <= _MOST:
            raise ValueError(f"samples must be from 2 to {_MOST}")
        if not 0 < self.temperature <= 2:
            raise ValueError("temperature must be above 0, and at most 2")

    def estimate(self, node: N, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """A call for each row and sample, in one round."""
        calls = rows.items * self.samples
        return Cost.of_items(calls, calls, seen)

    async def answer(self, node: N, rows: Rows, ctx: Context) -> pa.Table:
        """Send each row alone, several times."""
        drawn = await ctx.ask_samples(node, rows, self.samples, self.temperature)
        scored = verdict_field(node) is not None
        return answer_table(node, [elected(node, each) for each in drawn], scored=scored)


def elected(node: Semantic, samples: Sequence[Outcome]) -> Outcome:
    """The outcome of a vote: an answer that was drawn, with the share of yes as its `score`.

    Verdicts are counted; on a tie the first one wins. Of the answers with the winning verdict the
    one wins that agrees most with all of these, field by field; on a tie the first one. So the quote
    of a yes is what most yes rest on, whatever those said that were outvoted. If fewer than half of
    the draws are valid, the error of the first failed one is the row's.
    """
    valid = [each for each in samples if each.values is not None]
    if not valid or 2 * len(valid) < len(samples):
        failed = [each for each in samples if each.values is None]
        calls = tuple(call for each in failed for call in each.calls)
        return Outcome(None, failed[0].error, calls)
    answers: list[Mapping[str, Any]] = [each.values or {} for each in valid]
    verdict = verdict_field(node)
    candidates, values = answers, dict[str, Any]()
    if verdict is not None:
        votes = [bool(each[verdict.name]) for each in answers]
        yes = sum(votes)
        winner = votes[0] if 2 * yes == len(votes) else 2 * yes > len(votes)
        candidates = [each for each, vote in zip(answers, votes, strict=True) if vote == winner]
        values[SCORE] = yes / len(votes)
    names = [name for name, _ in node.answers]
    best = max(candidates, key=lambda each: _agreement(each, candidates, names))
    return Outcome({**best, **values}, None, tuple(call for each in samples for call in each.calls))


def _agreement(
    answer: Mapping[str, Any], answers: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> float:
    """How far an answer agrees with all answers, itself included."""
    return math.fsum(
        similarity(answer[name], other[name]) for other in answers for name in names
    )  # the exact sum, so that equal answers have equal sums


def similarity(one: Any, other: Any) -> float:
    """How far two values agree, from 0 to 1: of lists the share of common entries, of structs the
    mean of their fields; all else is equal or not, texts but for case and white space.

    >>> similarity(" Rome", "rome"), similarity(["a", "b"], ["b", "c"])
    (1.0, 0.3333333333333333)
    """
    if isinstance(one, Mapping) and isinstance(other, Mapping) and one.keys() == other.keys():
        return math.fsum(similarity(one[name], other[name]) for name in one) / max(len(one), 1)
    if isinstance(one, list) and isinstance(other, list):
        entries, others = set(map(_normal, one)), set(map(_normal, other))
        either = entries | others
        return len(entries & others) / len(either) if either else 1.0
    return float(_normal(one) == _normal(other))


def _normal(value: Any) -> Any:
    """A value that is equal for texts that differ only in case and white space, and hashable."""
    if isinstance(value, str):
        return key(value)
    if isinstance(value, Mapping):
        return tuple((name, _normal(inner)) for name, inner in value.items())
    return tuple(map(_normal, value)) if isinstance(value, list) else value
