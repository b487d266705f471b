"""What a few trials say: a median, a multiple of something else with its interval, an exponent of
growth.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

_ONCE = 0.05
"""How far a single trial has to be off to count."""


class Multiple(NamedTuple):
    """How often one figure is another, measured in the same trials.

    Args:
        value: The median of the trials' own multiples.
        low: Lower end of the 95 % interval; None with a single trial.
        high: Its upper end.
        trials: How many pairs there were.
    """

    value: float
    low: float | None
    high: float | None
    trials: int

    def __str__(self) -> str:
        """`2.50× [2.10–2.90]`; counts that never vary need no interval."""
        value, low, high = (_short(one) if one is not None else None for one in self[:3])
        return f"{value}×" if low is None or low == high else f"{value}× [{low}–{high}]"

    @property
    def above(self) -> bool:
        """Whether it is more than 1 beyond what chance explains; of a single trial, by more than 5
        %.
        """
        return self.value > 1 + _ONCE if self.low is None else self.low > 1

    @property
    def below(self) -> bool:
        """Whether it is less than 1 beyond what chance explains; of a single trial, by more than 5
        %.
        """
        return self.value < 1 - _ONCE if self.high is None else self.high < 1


def multiple(pairs: Sequence[tuple[float, float]]) -> Multiple | None:
    """Of pairs (ours, other) of the same trial: Student's t on the logarithms of their ratios; None
    without any.
    """
    ratios = [ours / other for ours, other in pairs if other]
    if not ratios:
        return None
    low, high = _interval([math.log(one) for one in ratios]) if min(ratios) > 0 else (None, None)
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
        exponent: 1: as x; below: slower; above: faster.
        half: Half the width of its 95 % interval; None with two points.
    """

    exponent: float
    half: float | None

    def __str__(self) -> str:
        """`x^1.02 ± 0.05`."""
        return f"x^{self.exponent:.2f}" + (f" ± {self.half:.2f}" if self.half is not None else "")


def growth(points: Sequence[tuple[float, float]]) -> Growth | None:
    """The exponent over all points, each trial one; None without two different x."""
    positive = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in positive}) < 2:
        return None
    from scipy.stats import linregress, t

    found = linregress([x for x, _ in positive], [y for _, y in positive])
    free = len(positive) - 2
    return Growth(float(found.slope), float(found.stderr * t.ppf(0.975, free)) if free else None)


def _short(number: float) -> str:
    """Three digits that count, without an exponent: 0.0123, 1.23, 12.3, 1,234."""
    if not number or not math.isfinite(number):
        return f"{number:g}"
    return f"{number:,.{max(0, 2 - math.floor(math.log10(abs(number))))}f}"
