"""What drawings share: the ticks of an axis, the shapes of marks, and labels that do not overlap.

A label takes the first of its possible places that is free (`free`).
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, floor, log10
from typing import NamedTuple

SHAPES = ("M-6 0a6 6 0 1 0 12 0a6 6 0 1 0 -12 0z", "M-6-6H6V6H-6z", "M0-8L7 5H-7z", "M0-8L8 0L0 8L-8 0z", "M0 8L7-5H-7z",
           "M-2-7H2V-2H7V2H2V7H-2V2H-7V-2H-2z")  # fmt: skip
Point = tuple[float, float]


def ticks(most: float, least: float = 0.0, number: int = 5) -> list[float]:
    """Round values from `least` to `most`, about `number` of them.

    >>> ticks(1.7), ticks(0), ticks(1410, 850)
    ([0.0, 0.5, 1.0, 1.5], [0.0], [1000.0, 1200.0, 1400.0])
    """
    if most <= least:
        return [least]
    ten = 10.0 ** floor(log10((most - least) / number))
    step = next(ten * f for f in (1, 2, 5, 10) if ten * f * number >= (most - least) * (1 - 1e-9))
    first, last = ceil(least / step - 1e-9), floor(most / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


class Box(NamedTuple):
    """A rectangle."""

    left: float
    top: float
    right: float
    bottom: float

    def overlaps(self, other: Box) -> bool:
        """Whether two rectangles have a common area.

        >>> Box(0, 0, 2, 2).overlaps(Box(1, 1, 3, 3)), Box(0, 0, 2, 2).overlaps(Box(2, 0, 4, 2))
        (True, False)
        """
        beside = self.left < other.right and other.left < self.right
        return beside and self.top < other.bottom and other.top < self.bottom


def free(places: Iterable[Box], taken: list[Box]) -> Box | None:
    """The first place that overlaps no taken one, or None. It is then added to `taken`.

    >>> taken = [Box(0, 0, 2, 2)]
    >>> free([Box(1, 1, 3, 3), Box(2, 0, 4, 2)], taken), len(taken)
    (Box(left=2, top=0, right=4, bottom=2), 2)
    """
    for place in places:
        if not any(place.overlaps(other) for other in taken):
            taken.append(place)
            return place
    return None
