"""The quality of a ranked list against its relevant items: recall, nDCG, reciprocal rank."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

K = 10


def recall(found: Sequence[str], gold: Collection[str], k: int = K) -> float:
    """The share of relevant items among the first k."""
    return len(set(found[:k]) & set(gold)) / len(gold)


def ndcg(found: Sequence[str], gold: Collection[str], k: int = K) -> float:
    """Discounted gain of the first k, each 1 or 0, as a share of the best possible order's."""
    gain = sum(1 / math.log2(place + 2) for place, one in enumerate(found[:k]) if one in gold)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(k, len(gold))))


def reciprocal_rank(found: Sequence[str], gold: Collection[str], k: int = K) -> float:
    """1 over the rank, from 1, of the first relevant item; 0 if none is among the first k."""
    return next((1 / place for place, one in enumerate(found[:k], 1) if one in gold), 0.0)


@dataclass(frozen=True)
class Ranked:
    """Means over the questions with relevant items."""

    recall: float
    ndcg: float
    mrr: float
    gold: float
    questions: int


def ranked(pairs: Iterable[tuple[Sequence[str], Collection[str]]]) -> Ranked:
    """Compare hits with relevant items, question by question. Raises ValueError if no question has
    any.
    """
    asked = [(found, gold) for found, gold in pairs if gold]
    if not asked:
        msg = "no question has anything that is to be found"
        raise ValueError(msg)
    return Ranked(
        recall=fmean(recall(found, gold) for found, gold in asked),
        ndcg=fmean(ndcg(found, gold) for found, gold in asked),
        mrr=fmean(reciprocal_rank(found, gold) for found, gold in asked),
        gold=fmean(len(gold) for _, gold in asked),
        questions=len(asked),
    )
