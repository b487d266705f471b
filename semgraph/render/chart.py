"""The chart of a comparison: cost on the x axis, quality on the y axis; as SVG and in characters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from semgraph.compare.comparison import Arm, Comparison, graded, quality_of, ranked
from semgraph.formats import dollars, shortened

NONE = "–"
_WIDE, _HIGH = 640, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 32, 52
_SHAPES = ("M-6 0a6 6 0 1 0 12 0a6 6 0 1 0 -12 0z", "M-6-6H6V6H-6z", "M0-8L7 5H-7z", "M0-8L8 0L0 8L-8 0z", "M0 8L7-5H-7z",
           "M-2-7H2V-2H7V2H2V7H-2V2H-7V-2H-2z")  # fmt: skip
_NAME = 24
_LINES = 8
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Point(NamedTuple):
    """A variant with its cost, in dollars or tokens, and its quality."""

    arm: Arm
    cost: float
    quality: float


class Scales(NamedTuple):
    """The ranges of both axes: costs from 0 to `right`, qualities from `low` to `high`."""

    right: float
    low: float
    high: float

    def across(self, cost: float) -> float:
        """The position of a cost: 0 is left, 1 right."""
        return cost / (self.right or 1.0)

    def down(self, quality: float) -> float:
        """The position of a quality: 0 is the top, 1 the bottom."""
        return (self.high - quality) / (self.high - self.low or 1.0)


def points(comparison: Comparison) -> tuple[str, list[Point]]:
    """The unit of the cost axis (dollars if all prices are known, else tokens), and the variants with
    cost and quality; none if all are free. Without a truth the reference agrees with itself.
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
            result.append(Point(arm, (arm.cold.dollars or 0.0) if priced else tokens, quality))
    free = all(point.cost == 0 for point in result)
    return "$" if priced else "tokens", [] if free else result


def measure(comparison: Comparison) -> str:
    """The name of the quality axis: edges of graphs, nodes of graphs without edges."""
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


def ticks(most: float, number: int = 5) -> list[float]:
    """Round values from 0 to about `most`.

    >>> ticks(1.7), ticks(0)
    ([0.0, 0.5, 1.0, 1.5], [0.0])
    """
    if most <= 0:
        return [0.0]
    step = 10.0**-6
    for low, high in pairwise(10.0**e * f for e in range(-6, 9) for f in (1, 2, 5)):
        step = low
        if low * number >= most or high > most:
            break
    return [round(i * step, 9) for i in range(int(most / step) + 1)]


def _cost(value: float, unit: str) -> str:
    return dollars(value, exact=True) if unit == "$" else f"{value:,.0f} tokens"


def svg(comparison: Comparison, anchor: str) -> dict[str, Any] | None:
    """The chart for the template `parts.html.j2`, with intervals; None with fewer than two points.
    Variants differ in shape, colour and name.
    """
    unit, drawn = points(comparison)
    if len(drawn) < 2:
        return None
    costs = ticks(max(point.cost for point in drawn) * 1.05)
    spans = [point.arm.quality.interval or (point.quality, point.quality) for point in drawn]
    low, high = min(min(s) for s in spans), max(max(s) for s in spans)
    margin = (high - low or 0.1) * 0.15
    right = max(costs[-1], *(point.cost for point in drawn))
    scales = Scales(right, max(0.0, low - margin), min(1.0, high + margin))
    name = measure(comparison)
    levels: list[float] = []
    shapes = []
    for i, (point, span) in enumerate(zip(drawn, spans, strict=True)):
        levels.append(_free(_y(scales, point.quality) + 4, levels))
        shapes.append(_shape(i, point, scales, span, levels[-1]))
    bars = " Bars: 95 % intervals." if any(point.arm.quality.interval for point in drawn) else ""
    return {
        "anchor": anchor,
        "width": _WIDE,
        "height": _HIGH,
        "description": "; ".join(
            f"{point.arm.name}: {_cost(point.cost, unit)}, {name} {share(point.quality, 3)}"
            for point in drawn
        ),
        "caption": f"Up is better, left is cheaper; one trial, cold.{bars}",
        "points": shapes,
        **_axes(unit, name, costs, scales),
    }


def _x(scales: Scales, cost: float) -> float:
    return _LEFT + scales.across(cost) * (_WIDE - _LEFT - _RIGHT)


def _y(scales: Scales, quality: float) -> float:
    return _TOP + scales.down(quality) * (_HIGH - _TOP - _BOTTOM)


def _free(level: float, taken: Sequence[float]) -> float:
    """The next height for a name that does not overlap a taken one."""
    while any(abs(level - other) < 15 for other in taken):
        level += 15
    return level


def _axes(unit: str, name: str, costs: Sequence[float], scales: Scales) -> dict[str, Any]:
    bottom, right = _HIGH - _BOTTOM, _WIDE - _RIGHT
    levels = [scales.low + (scales.high - scales.low) * i / 4 for i in range(5)]
    return {
        "axis": f"M{_LEFT} {_TOP}V{bottom}H{right}",
        "costs": [
            {
                "x": f"{_x(scales, cost):.1f}",
                "y": bottom + 18,
                "text": _cost(cost, unit).removesuffix(" tokens"),
            }
            for cost in costs
        ],
        "levels": [
            {
                "d": f"M{_LEFT} {_y(scales, level):.1f}H{right}",
                "x": _LEFT - 8,
                "y": f"{_y(scales, level) + 4:.1f}",
                "text": share(level, 3),
            }
            for level in levels
        ],
        "across": {
            "x": (_LEFT + right) / 2,
            "y": _HIGH - 10,
            "text": "dollars of one trial" if unit == "$" else "tokens of one trial",
        },
        "up": name,
    }


def _shape(
    i: int, point: Point, scales: Scales, span: tuple[float, float], level: float
) -> dict[str, Any]:
    x, y = _x(scales, point.cost), _y(scales, point.quality)
    low, high = _y(scales, span[0]), _y(scales, span[1])
    bar = f"M{x:.1f} {low:.1f}V{high:.1f}M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8"
    name = point.arm.name
    return {
        "colour": i % len(_SHAPES),
        "title": name,
        "name": shortened(name, _NAME),
        "bar": bar if low != high else "",
        "shape": _SHAPES[i % len(_SHAPES)],
        "place": f"translate({x:.1f} {y:.1f})",
        "x": f"{x + 13:.1f}",
        "y": f"{level:.1f}",
    }


def text(comparison: Comparison, width: int) -> str:
    """The chart in characters; "" with fewer than two points. Variants at one position share a
    letter.
    """
    unit, drawn = points(comparison)
    if len(drawn) < 2:
        return ""
    wide = max(20, min(width - 12, 64))
    costs, qualities = [point.cost for point in drawn], [point.quality for point in drawn]
    scales = Scales(max(costs) or 1.0, min(qualities), max(qualities))
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
    lines += [f"{'':>6} └{'─' * wide}", f"{'':>8}0{_cost(scales.right, unit):>{wide - 1}}"]
    return "\n".join([*lines, *_legend(cells.values(), max(width, 20))])


def _legend(cells: Iterable[Sequence[str]], width: int) -> Iterator[str]:
    """The variants of each letter, as many on a line as fit."""
    line = " " * 8
    for letter, names in zip(_LETTERS, cells, strict=False):
        entry = f"{letter} {', '.join(names)}"
        if line.strip() and len(line) + len(entry) > width:
            yield line.rstrip()
            line = " " * 8
        line += entry + "   "
    yield line.rstrip()
