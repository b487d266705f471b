"""Statistics of a few trials: medians, multiples with intervals, exponents of growth."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

_ONCE = 0.05
"""The least relative difference of a single trial that counts."""


class Multiple(NamedTuple):
    """The ratio of two figures of the same trials.

    Args:
        value: The median of the trials' ratios.
        low: Lower end of the 95 % interval; None with a single trial.
        high: Its upper end.
        trials: The number of pairs.
    """

    value: float
    low: float | None
    high: float | None
    trials: int

    def __str__(self) -> str:
        """`2.50× [2.10–2.90]`; without the interval if it is a point."""
        value, low, high = (short(end) if end is not None else None for end in self[:3])
        return f"{value}×" if low is None or low == high else f"{value}× [{low}–{high}]"

    @property
    def above(self) -> bool:
        """Whether it is significantly above 1; for a single trial, by more than 5 %."""
        return self.value > 1 + _ONCE if self.low is None else self.low > 1

    @property
    def below(self) -> bool:
        """Whether it is significantly below 1; for a single trial, by more than 5 %."""
        return self.value < 1 - _ONCE if self.high is None else self.high < 1


def multiple(pairs: Sequence[tuple[float, float]]) -> Multiple | None:
    """The multiple of pairs (ours, other) of the same trial, by Student's t on the logarithms of
    their ratios; None without pairs.
    """
    ratios = [ours / other for ours, other in pairs if other]
    if not ratios:
        return None
    low, high = _interval(list(map(math.log, ratios))) if min(ratios) > 0 else (None, None)
    return Multiple(statistics.median(ratios), low, high, len(ratios))


def _interval(logs: Sequence[float]) -> tuple[float, float] | tuple[None, None]:
    if len(logs) < 2:
        return None, None
    from scipy.stats import t

    middle, half = (
        statistics.mean(logs),
        statistics.stdev(logs) / math.sqrt(len(logs)) * t.ppf(0.975, len(logs) - 1),
    )
    return math.exp(middle - half), math.exp(middle + half)


class Growth(NamedTuple):
    """y = c · x^exponent, fitted to logarithms.

    Args:
        exponent: 1: linear; below: slower; above: faster.
        half: Half the width of its 95 % interval; None with two points.
    """

    exponent: float
    half: float | None

    def __str__(self) -> str:
        """`x^1.02 ± 0.05`."""
        return f"x^{self.exponent:.2f}" + (f" ± {self.half:.2f}" if self.half is not None else "")


def growth(points: Sequence[tuple[float, float]]) -> Growth | None:
    """The exponent over all points, one for each trial; None without two distinct x."""
    positive = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in positive}) < 2:
        return None
    from scipy.stats import linregress, t

    fit = linregress([x for x, _ in positive], [y for _, y in positive])
    free = len(positive) - 2
    return Growth(float(fit.slope), float(fit.stderr * t.ppf(0.975, free)) if free else None)


def short(number: float) -> str:
    """Three significant digits, without an exponent: 0.0123, 1.23, 12.3, 1,234."""
    if not number or not math.isfinite(number):
        return f"{number:g}"
    return f"{number:,.{max(0, 2 - math.floor(math.log10(abs(number))))}f}"
