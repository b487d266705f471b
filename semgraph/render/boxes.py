"""Rectangles of a drawing, in pixels, and pushing them apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Point = tuple[float, float]
_ROUNDS = 300


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


def apart(places: Mapping[str, Point], boxes: Mapping[str, Box]) -> dict[str, Point]:
    """The places, pushed apart until no boxes around them overlap, for a limited number of rounds.

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
    """Push a box and those that overlap it apart, along the shorter way. Returns whether any did."""
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
