"""From scores to verdicts: a logistic curve through labelled scores, or a cut between two groups of unlabelled ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

_STEPS = 100
_PRIOR = 0.01
"""How far the curve is held back from infinite steepness where the labels are separated cleanly."""


class Curve(NamedTuple):
    """The probability of yes at a score: `1 / (1 + exp(-(slope * score + offset)))`."""

    slope: float
    offset: float

    def log_odds(self, score: float) -> float:
        """The calibrated log-odds of yes at a score."""
        return self.slope * score + self.offset


def fitted(scores: Sequence[float], labels: Sequence[bool]) -> Curve:
    """The curve that fits labelled scores best (Platt, 1999): his targets, which are not quite 0 and 1, and Newton's method.

    >>> curve = fitted([-1.0, 0.5, 1.0, 4.0, 5.0, 6.0], [False, False, False, True, True, True])
    >>> curve.log_odds(2.0) < 0 < curve.log_odds(3.0)
    True
    """
    yes = sum(labels)
    high, low = (yes + 1) / (yes + 2), 1 / (len(labels) - yes + 2)
    centre = math.fsum(scores) / len(scores)
    spread = math.sqrt(math.fsum((s - centre) ** 2 for s in scores) / len(scores)) or 1.0
    xs = [(s - centre) / spread for s in scores]
    targets = [high if label else low for label in labels]
    slope, offset = 0.0, math.log((yes + 1) / (len(labels) - yes + 1))
    for _ in range(_STEPS):
        chances = [_sigmoid(slope * x + offset) for x in xs]
        weights = [p * (1 - p) for p in chances]
        by_slope = math.fsum((p - t) * x for p, t, x in zip(chances, targets, xs, strict=True)) + _PRIOR * slope
        by_offset = math.fsum(p - t for p, t in zip(chances, targets, strict=True))
        a = math.fsum(w * x * x for w, x in zip(weights, xs, strict=True)) + _PRIOR
        b = math.fsum(w * x for w, x in zip(weights, xs, strict=True))
        c = math.fsum(weights) + 1e-9
        determinant = a * c - b * b
        slope_step = (c * by_slope - b * by_offset) / determinant
        offset_step = (a * by_offset - b * by_slope) / determinant
        slope, offset = slope - slope_step, offset - offset_step
        if abs(slope_step) + abs(offset_step) < 1e-9:
            break
    return Curve(slope / spread, offset - slope * centre / spread)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


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
