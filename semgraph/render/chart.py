"""The chart of a comparison, as SVG and in characters: cost on the x axis, quality on the y axis.

The axes fit the data: costs start at 0 only if 0 is near, and are logarithmic if they differ much.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, floor, log10
from typing import Any, NamedTuple

from semgraph.compare.comparison import Arm, Comparison, graded, measures_of, quality_of, ranked
from semgraph.formats import dollars, shortened
from semgraph.render.svg import SHAPES, Box, free, ticks

NONE = "–"
_WIDE, _HIGH = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 30, 40, 56
_NEAR, _FAR = (
    0.3,
    20.0,
)  # shares of the largest cost: 0 is near; the factor from which a scale is logarithmic
_LETTER = 7.2  # pixels of a letter of a name
_DISTANCES = (
    12,
    24,
    40,
    60,
    84,
)  # of a name from its point, in pixels; the nearest free place is taken
_SIDES = ((1, 0), (-1, 0), (1, -1), (1, 1), (-1, -1), (-1, 1), (0, -1), (0, 1))
_NAME = 40
_LINES = 8
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class ArmPoint(NamedTuple):
    """A variant with its cost, in dollars or tokens, and its quality."""

    arm: Arm
    cost: float
    quality: float


class Scales(NamedTuple):
    """The ranges of both axes: costs from `left` to `right`, qualities from `low` to `high`. `log`:
    the cost scale is logarithmic.
    """

    left: float
    right: float
    low: float
    high: float
    log: bool = False

    def across(self, cost: float) -> float:
        """The position of a cost: 0 is left, 1 right."""
        if self.log:
            return log10(cost / self.left) / log10(self.right / self.left)
        return (cost - self.left) / (self.right - self.left or 1.0)

    def down(self, quality: float) -> float:
        """The position of a quality: 0 is the top, 1 the bottom."""
        return (self.high - quality) / (self.high - self.low or 1.0)

    def costs(self) -> list[float]:
        """Round values of the cost axis."""
        if not self.log:
            return ticks(self.right, self.left)
        tens = range(floor(log10(self.left)), ceil(log10(self.right)) + 1)
        values = [10.0**e * f for e in tens for f in (1, 2, 5)]
        values = [value for value in values if self.left <= value <= self.right]
        return values if len(values) <= _TICKS else [v for v in values if log10(v) % 1 < 1e-9]


_TICKS = 7


def _scales(costs: Sequence[float], low: float, high: float, *, margin: bool) -> Scales:
    """The scales of some costs and of qualities from `low` to `high`, with an optional margin for
    marks and names.

    >>> (
    ...     _scales([70, 100], 0.5, 1.0, margin=False).left,
    ...     _scales([10, 100], 0.5, 1.0, margin=False).left,
    ... )
    (65.5, 0.0)
    >>> _scales([1, 100], 0.5, 1.0, margin=False).log
    True
    """
    least, most = min(costs), max(costs)
    if least > 0 and most >= _FAR * least:
        wider = 1.3 if margin else 1.0
        return Scales(least / wider, most * wider, low, high, log=True)
    span = most - least
    left = 0.0 if not span or least <= _NEAR * most else least - 0.15 * span
    right = (most + 0.15 * (most - left) if span else 2 * most) if margin else most
    return Scales(left, right or 1.0, low, high)


def points(comparison: Comparison) -> tuple[str, list[ArmPoint]]:
    """The unit of the cost axis (dollars if all prices are known, else tokens), and the variants
    with cost and quality; empty if all are free. Without a truth, the reference has agreement 1
    with itself.
    """
    arms = [arm for arm in ranked(comparison) if arm.trials]
    priced = all(arm.cold.dollars is not None for arm in arms) and any(
        arm.cold.dollars for arm in arms
    )
    result = []
    for arm in arms:
        quality = quality_of(arm)
        if quality is None and not comparison.truth and arm.name == comparison.reference:
            quality = 1.0
        if quality is not None:
            tokens = arm.cold.tokens_in + arm.cold.tokens_out
            result.append(ArmPoint(arm, (arm.cold.dollars or 0.0) if priced else tokens, quality))
    free = all(point.cost == 0 for point in result)
    return "$" if priced else "tokens", [] if free else result


def front(drawn: Sequence[ArmPoint]) -> list[ArmPoint]:
    """The variants that no other one beats in both cost and quality, the cheapest first."""
    best: list[ArmPoint] = []
    for point in sorted(drawn, key=lambda p: (p.cost, -p.quality)):
        if not best or point.quality > best[-1].quality:
            best.append(point)
    return best


def measure(comparison: Comparison) -> str:
    """The name of the quality axis: edges of graphs, nodes of graphs without edges, or a measure."""
    if measures := measures_of(comparison):
        return measures[0]
    graphs = [arm for arm in comparison if arm.trials and graded(arm)]
    nodes = [arm for arm in graphs if arm.quality.f1 is None]
    if not comparison.truth:
        of = " of nodes" if graphs and nodes == graphs else ""
        return f"agreement{of} with {comparison.reference}"
    if nodes:
        return "node B³" if nodes == graphs else "edge F1, without edges node B³"
    return "edge F1" if graphs else "F1"


def share(value: float | None, digits: int = 2) -> str:
    """A share of 1, without a leading zero.

    >>> share(0.934), share(1.0), share(None), share(0.9405, 3)
    ('.93', '1.00', '–', '.941')
    """
    if value is None:
        return NONE
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if value < 1 else text


def _cost(value: float, unit: str) -> str:
    return dollars(value, exact=True) if unit == "$" else f"{value:,.0f} tokens"


def svg(comparison: Comparison, anchor: str) -> dict[str, Any] | None:
    """The chart for the template `parts.html.j2`, with intervals; None with fewer than two points.
    Variants differ in shape, colour and name.
    """
    unit, drawn = points(comparison)
    if len(drawn) < 2:
        return None
    spans = [point.arm.quality.interval or (point.quality, point.quality) for point in drawn]
    low, high = min(min(s) for s in spans), max(max(s) for s in spans)
    margin = max((high - low) * 0.15, 0.02)
    scales = _scales(
        [point.cost for point in drawn],
        max(0.0, low - margin),
        min(1.0, high + margin),
        margin=True,
    )
    name = measure(comparison)
    marks = [
        _mark(i, point, scales, span)
        for i, (point, span) in enumerate(zip(drawn, spans, strict=True))
    ]
    unnamed = _name(marks)
    return {
        "anchor": anchor,
        "width": _WIDE,
        "height": _HIGH,
        "description": "; ".join(
            f"{point.arm.name}: {_cost(point.cost, unit)}, {name} {share(point.quality, 3)}"
            for point in drawn
        ),
        "caption": _caption(drawn, scales, unnamed),
        "points": marks,
        **_axes(unit, name, scales),
    }


def _caption(drawn: Sequence[ArmPoint], scales: Scales, unnamed: Sequence[str]) -> str:
    parts = ["Up is better, left is cheaper; one trial, cold."]
    if any(point.arm.quality.interval for point in drawn):
        parts.append("Bars: 95 % intervals.")
    if scales.log:
        parts.append("The scale of costs is logarithmic.")
    elif scales.left:
        parts.append("Costs do not begin at 0.")
    if unnamed:
        parts.append(f"Without a name, for lack of space: {', '.join(unnamed)}.")
    return " ".join(parts)


def _x(scales: Scales, cost: float) -> float:
    return _LEFT + scales.across(cost) * (_WIDE - _LEFT - _RIGHT)


def _y(scales: Scales, quality: float) -> float:
    return _TOP + scales.down(quality) * (_HIGH - _TOP - _BOTTOM)


def _axes(unit: str, name: str, scales: Scales) -> dict[str, Any]:
    """The ends of the axes, the places and texts of their ticks, and their names."""
    levels = ticks(scales.high, scales.low)
    digits = 2 if all(abs(level * 100 % 1) < 1e-6 for level in levels) else 3
    sign = "$" if unit == "$" else ""
    return {
        "left": _LEFT,
        "right": _WIDE - _RIGHT,
        "top": _TOP,
        "bottom": _HIGH - _BOTTOM,
        "costs": [(_x(scales, cost), f"{sign}{cost:,.9g}") for cost in scales.costs()],
        "levels": [(_y(scales, level), share(level, digits)) for level in levels],
        "across": "dollars of one trial" if unit == "$" else "tokens of one trial",
        "up": name,
    }


@dataclass
class _Mark:
    """The mark of a variant, the ends of its interval, and its name with a line to it."""

    title: str
    colour: int
    x: float
    y: float
    low: float
    high: float
    name: str = ""
    name_x: float = 0.0
    name_y: float = 0.0
    lead: str = ""

    @property
    def shape(self) -> str:
        """The path of its shape."""
        return SHAPES[self.colour]


def _mark(i: int, point: ArmPoint, scales: Scales, span: tuple[float, float]) -> _Mark:
    x, y = _x(scales, point.cost), _y(scales, point.quality)
    low, high = (_y(scales, end) for end in span)
    return _Mark(point.arm.name, i % len(SHAPES), x, y, low, high)


def _name(marks: Sequence[_Mark]) -> list[str]:
    """Write the name of each mark at the nearest position where it covers no other name, mark or
    interval, with a line if that is far. Returns the names without a position.
    """
    taken = [Box(m.x - 7, m.y - 7, m.x + 7, m.y + 7) for m in marks]
    taken += [Box(m.x - 4, m.high - 2, m.x + 4, m.low + 2) for m in marks]
    unnamed = []
    for mark in marks:
        name = shortened(mark.title, _NAME)
        box = free(_beside(mark, len(name) * _LETTER), taken)
        if box is None:
            unnamed.append(mark.title)
            continue
        mark.name, mark.name_x, mark.name_y = name, box.left, box.top + 12
        x, y = min(max(mark.x, box.left), box.right), box.top + 8
        if max(abs(x - mark.x), abs(y - mark.y)) > _DISTANCES[0] + 0.5:
            mark.lead = f"M{mark.x:.1f} {mark.y:.1f}L{x:.1f} {y:.1f}"
    return unnamed


def _beside(at: _Mark, wide: float) -> Iterator[Box]:
    """The places for a name beside a mark and within the axes, the nearest first."""
    for distance, (side, up) in product(_DISTANCES, _SIDES):
        left, y = at.x + side * distance - wide * (0.5 - side / 2), at.y + up * distance
        box = Box(left, y - 8, left + wide, y + 8)
        if box.left > _LEFT and box.right < _WIDE and 18 < box.top < _HIGH - _BOTTOM - 14:
            yield box


def text(comparison: Comparison, width: int) -> str:
    """The chart in characters; "" with fewer than two points. Variants at the same position share a
    letter.
    """
    unit, drawn = points(comparison)
    if len(drawn) < 2:
        return ""
    wide = max(20, min(width - 12, 64))
    costs, qualities = [point.cost for point in drawn], [point.quality for point in drawn]
    scales = _scales(costs, min(qualities), max(qualities), margin=False)
    tall = _LINES if share(scales.high, 3) != share(scales.low, 3) else 1
    cells: dict[tuple[int, int], list[str]] = {}
    for point in drawn:
        place = (
            round(scales.down(point.quality) * (tall - 1)),
            min(wide - 1, round(scales.across(point.cost) * (wide - 1))),
        )
        cells.setdefault(place, []).append(point.arm.name)
    grid = [[" "] * wide for _ in range(tall)]
    for letter, (line, column) in zip(_LETTERS, cells, strict=False):
        grid[line][column] = letter
    labels = {tall - 1: share(scales.low, 3), 0: share(scales.high, 3)}
    lines = [measure(comparison)]
    lines += [f"{labels.get(i, ''):>6} │{''.join(row)}".rstrip() for i, row in enumerate(grid)]
    left = _cost(scales.left, unit).removesuffix(" tokens") if scales.left else "0"
    right = _cost(scales.right, unit) + ", logarithmic" * scales.log
    lines += [f"{'':>6} └{'─' * wide}", f"{'':>8}{left}{right:>{wide - len(left)}}"]
    return "\n".join([*lines, *_legend(cells.values(), max(width, 20))])


def _legend(cells: Iterable[Sequence[str]], width: int) -> Iterator[str]:
    """The variants of each letter, as many per line as fit."""
    line = " " * 8
    for letter, names in zip(_LETTERS, cells, strict=False):
        entry = f"{letter} {', '.join(names)}"
        if line.strip() and len(line) + len(entry) > width:
            yield line.rstrip()
            line = " " * 8
        line += entry + "   "
    yield line.rstrip()
