"""From scores to verdicts: a curve between labelled scores of yes and of no, or a cut between two groups without labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import mean
from typing import NamedTuple

_FEW = 5
"""Labels of each answer that count as seen beforehand: a few labels tell little of how often each answer is right."""
_SPREAD = 1 / 6
"""The least spread within an answer, in distances between the two: labels that are separated cleanly do not make sure."""


class Curve(NamedTuple):
    """The probability of yes at a score: `1 / (1 + exp(-(slope * score + offset)))`."""

    slope: float
    offset: float

    def log_odds(self, score: float) -> float:
        """The calibrated log-odds of yes at a score."""
        return self.slope * score + self.offset


def fitted(scores: Sequence[float], labels: Sequence[bool]) -> Curve:
    """The curve between the labelled scores of both answers, taken as two bells of one width (Fisher, 1936).

    With some twenty labels it is nearer to the best curve than logistic regression, which does not know of the bells.

    Args:
        scores: Of labelled items.
        labels: Whether their answer is yes; each answer must be there.

    >>> curve = fitted([-1.0, 0.5, 1.0, 4.0, 5.0, 6.0], [False, False, False, True, True, True])
    >>> curve.log_odds(2.0) < 0 < curve.log_odds(3.0)
    True
    """
    pairs = list(zip(scores, labels, strict=True))
    yes, no = [s for s, label in pairs if label], [s for s, label in pairs if not label]
    high, low = mean(yes), mean(no)
    squares = math.fsum((s - high) ** 2 for s in yes) + math.fsum((s - low) ** 2 for s in no)
    variance = max(squares / max(len(pairs) - 2, 1), ((high - low) * _SPREAD) ** 2) or 1.0
    slope = (high - low) / variance
    before = math.log((len(yes) + _FEW) / (len(no) + _FEW))
    return Curve(slope, before - slope * (high + low) / 2)


def right_when_left_out(scores: Sequence[float], labels: Sequence[bool]) -> int:
    """How many labels a curve through all the others gets right, each left out in turn."""
    right = 0
    for i, (score, label) in enumerate(zip(scores, labels, strict=True)):
        curve = fitted([*scores[:i], *scores[i + 1 :]], [*labels[:i], *labels[i + 1 :]])
        right += (curve.log_odds(score) > 0) == label
    return right


def cut(scores: Sequence[float]) -> float:
    """The score between the two groups that scores fall into: those with the least spread within (Otsu, 1979).

    >>> cut([1.0, 1.5, 2.0, 7.0, 8.0])
    4.5
    """
    rising = sorted(scores)
    total, below, best = math.fsum(rising), 0.0, (-1.0, rising[0])
    for count, (low, high) in enumerate(pairwise(rising), 1):
        below += low
        rest = len(rising) - count
        between = count * rest * (below / count - (total - below) / rest) ** 2
        if low < high:
            best = max(best, (between, (low + high) / 2))
    return best[1]
