"""Intervals by the bootstrap: units are drawn with replacement as often as there are units, and the
statistic taken again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Sums = npt.NDArray[np.float64]
Statistic = Callable[[Sums], Sums]

TIMES = 2_000
_SEED = 7
_LEVEL = 0.95


class Interval(NamedTuple):
    """The middle 95 % of what the statistic was in the samples."""

    low: float
    high: float


class IntervalEstimate(NamedTuple):
    """A statistic and its interval; None where there are too few units to draw from."""

    value: float
    interval: Interval | None


def estimate(units: Sequence[Sequence[float]], statistic: Statistic) -> IntervalEstimate:
    """A statistic of sums over units, and its 95 % interval.

    Units with the same numbers are drawn together (a multinomial draw over the kinds of units), so
    the result depends on neither their order nor on how many of a kind there are.

    Args:
        units: The numbers of each unit, all of one length.
        statistic: From sums of shape (samples, numbers) to one value for each sample.
    """
    if not len(units):
        return IntervalEstimate(float(statistic(np.zeros((1, 8)))[0]), None)
    kinds, counts = np.unique(np.asarray(units, np.float64), axis=0, return_counts=True)
    value = float(statistic((counts @ kinds)[np.newaxis, :])[0])
    number = int(counts.sum())
    if number < 2:
        return IntervalEstimate(value, None)
    draws = np.random.default_rng(_SEED).multinomial(number, counts / number, size=TIMES)
    result = statistic(draws @ kinds)
    low, high = np.quantile(result, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return IntervalEstimate(value, Interval(float(low), float(high)))
