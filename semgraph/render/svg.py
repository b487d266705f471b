"""What drawings share: the ticks of an axis, the shapes of marks, and labels that do not overlap.

A label takes the first of its possible places that is free (`free`); boxes that have no order of
places are pushed apart (`apart`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil, floor, log10
from typing import NamedTuple

SHAPES = ("M-6 0a6 6 0 1 0 12 0a6 6 0 1 0 -12 0z", "M-6-6H6V6H-6z", "M0-8L7 5H-7z", "M0-8L8 0L0 8L-8 0z", "M0 8L7-5H-7z",
           "M-2-7H2V-2H7V2H2V7H-2V2H-7V-2H-2z")  # fmt: skip
Point = tuple[float, float]
_ROUNDS = 300


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

    @property
    def area(self) -> float:
        """Its area."""
        return (self.right - self.left) * (self.bottom - self.top)

    def at(self, point: Point) -> Box:
        """The rectangle, moved."""
        x, y = point
        return Box(self.left + x, self.top + y, self.right + x, self.bottom + y)

    def overlaps(self, other: Box) -> bool:
        """Whether two rectangles have a common area.

        >>> Box(0, 0, 2, 2).overlaps(Box(1, 1, 3, 3)), Box(0, 0, 2, 2).overlaps(Box(2, 0, 4, 2))
        (True, False)
        """
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


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


def apart(places: Mapping[str, Point], boxes: Mapping[str, Box]) -> dict[str, Point]:
    """The positions, pushed apart until their boxes do not overlap, for a limited number of rounds.

    >>> box = Box(-5, -5, 5, 5)
    >>> apart({"a": (0, 0), "b": (4, 0), "c": (90, 0)}, {"a": box, "b": box, "c": box})
    {'a': (-3.5, 0.0), 'b': (7.5, 0.0), 'c': (90, 0)}
    """
    result = dict(places)
    for _ in range(_ROUNDS):
        order = sorted(result, key=lambda key: boxes[key].top + result[key][1])
        if not sum(_push(result, boxes, order, i) for i in range(len(order))):
            break
    return result


def _push(places: dict[str, Point], boxes: Mapping[str, Box], order: list[str], i: int) -> bool:
    """Push a box and its overlapping boxes apart, in the direction of the smaller overlap. Returns
    whether any box moved.
    """
    moved = False
    for other in order[i + 1 :]:
        one = order[i]
        a, b = boxes[one].at(places[one]), boxes[other].at(places[other])
        if b.top >= a.bottom:
            break
        if not a.overlaps(b):
            continue
        moved = True
        right, left = a.right - b.left + 1, b.right - a.left + 1
        below, above = a.bottom - b.top + 1, b.bottom - a.top + 1
        x = right if right <= left else -left
        y = below if below <= above else -above
        dx, dy = (x / 2, 0.0) if abs(x) <= abs(y) else (0.0, y / 2)
        (x1, y1), (x2, y2) = places[one], places[other]
        places[one], places[other] = (x1 - dx, y1 - dy), (x2 + dx, y2 + dy)
    return moved
