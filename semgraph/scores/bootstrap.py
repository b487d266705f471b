"""Bootstrap intervals: units are resampled with replacement, and the statistic is recomputed."""

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
    """The middle 95 % of the statistic over the samples."""

    low: float
    high: float


class IntervalEstimate(NamedTuple):
    """A statistic and its interval; None with too few units."""

    value: float
    interval: Interval | None


def estimate(units: Sequence[Sequence[float]], statistic: Statistic) -> IntervalEstimate:
    """A statistic of sums over units, and its 95 % interval.

    Units with the same numbers are drawn together (a multinomial draw over the kinds of units), so
    the result does not depend on their order.

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
