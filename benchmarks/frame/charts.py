"""Charts as SVG: one file, whose colours follow the reader's light or dark scheme; colours for the
colour-blind, and a marker for each series.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from benchmarks.frame.lines import Line
from benchmarks.frame.tables import OLD, old_code
from semgraph.render.svg import Box, free

INK = ("#1f2328", "#e6edf3")
COLOURS = (
    ("#0072B2", "#56B4E9"), ("#D55E00", "#FF8C42"), ("#009E73", "#2CCB9B"), ("#AA4499", "#E59AC4"),
    ("#B8860B", "#F0C541"), ("#44AAD8", "#8FC1FF"), ("#6E6E6E", "#B5B5B5"),
)  # fmt: skip
"""After Okabe and Ito: each for light and for dark pages."""
_MARKERS = (
    "M-4,0a4,4 0 1,0 8,0a4,4 0 1,0 -8,0",
    "M-4,-4h8v8h-8z",
    "M0,-5l5,9h-10z",
    "M0,-6l5,6l-5,6l-5,-6z",
)
_DASHES = ("", "6 3", "6 2 1 2", "2 2")
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 760, 400, 70, 44, 340
_NARROW = 520  # of a chart that a phone can show
_MANY = 300  # the span from which on a logarithmic axis has labels at powers of ten only
_SPAN = 4  # up to which it has more labels than 1, 2 and 5
_LETTER = 6.4  # of a label, in pixels
_PLACES = tuple(
    (s * x, s * y) for s in (1, 2, 3, 4) for x, y in ((9, 4), (-9, 4), (0, -9), (0, 16))
)


@dataclass(frozen=True)
class Chart:
    """Points of two figures, a series for each value of one name of the key: medians of the trials,
    with their range.

    Args:
        name: The name of its file.
        title: The title.
        x: Figure or name of the key.
        y: Figure.
        series: Name of the key.
        labels: The labels of the axes.
        where: The lines of the chart.
        log: The logarithmic axes: "", "x", "y", "xy".
        labelled: Whether a series is one point with its name beside it: the medians of x and y.
        note: Text below it.
    """

    name: str
    title: str
    x: str
    y: str
    series: str
    labels: tuple[str, str]
    where: Mapping[str, Any] = field(default_factory=dict)
    log: str = ""
    labelled: bool = False
    note: str = ""

    def points(self, lines: Iterable[Line]) -> dict[str, list[tuple[float, list[float]]]]:
        """For each series its x and the y of all trials; a series that other code measured has a
        sign.
        """
        own = [o for o in lines if o.is_of(self.where) and not o.failed and self.series in o.key]
        found: dict[str, dict[float, list[float]]] = {}
        for line in own:
            x, y = line.figures.get(self.x, line.key.get(self.x)), line.figures.get(self.y)
            if x is not None and y is not None:
                points = found.setdefault(f"{line.key[self.series]}" + f" {OLD}" * line.old, {})
                points.setdefault(x, []).append(y)
        if self.labelled:
            found = {name: _one_point(points) for name, points in found.items()}
        return {name: sorted(found[name].items()) for name in sorted(found)}


def _one_point(points: Mapping[float, Sequence[float]]) -> dict[float, list[float]]:
    """The median of x, with all y."""
    every = [(x, y) for x, ys in points.items() for y in ys]
    return {statistics.median(x for x, _ in every): [y for _, y in every]}


def draw(chart: Chart, lines: Sequence[Line]) -> str:
    """The chart over these lines; the same text for the same lines."""
    series = chart.points(lines)
    names = _LETTER * max(map(len, series), default=0)
    right = _WIDTH - (150 if chart.labelled else 24 + names + 30)
    xs = [x for points in series.values() for x, _ in points]
    ys = [y for points in series.values() for _, trials in points for y in trials]
    across, x_ticks = _axis(xs, _LEFT, right, log="x" in chart.log)
    up, y_ticks = _axis(ys, _BOTTOM, _TOP, log="y" in chart.log)
    parts = [_text(_LEFT, 20, chart.title, size=15)]
    for at, label in ((across(value), label) for value, label in x_ticks):
        parts.append(f'<path class="grid" d="M{at:.1f},{_TOP}V{_BOTTOM}"/>')
        parts.append(_text(at, _BOTTOM + 18, label, anchor="middle"))
    for at, label in ((up(value), label) for value, label in y_ticks):
        parts.append(f'<path class="grid" d="M{_LEFT},{at:.1f}H{right:.1f}"/>')
        parts.append(_text(_LEFT - 8, at + 4, label, anchor="end"))
    parts.append(_text((_LEFT + right) / 2, _BOTTOM + 38, chart.labels[0], anchor="middle"))
    title = _text(16, 192, chart.labels[1], anchor="middle")
    parts.append(f'<g transform="rotate(-90 16 192)">{title}</g>')
    taken: list[Box] = []
    for number, (name, points) in enumerate(series.items()):
        marker, dash = _MARKERS[number % 4], _DASHES[number // 7 % 4]
        shown = [(across(x), up(statistics.median(trials)), trials) for x, trials in points]
        path = "".join(f"{'L' if i else 'M'}{x:.1f},{y:.1f}" for i, (x, y, _) in enumerate(shown))
        parts.append(f'<g class="c{number % 7}">')
        parts[-1] += f'<path class="line" stroke-dasharray="{dash}" d="{path}"/>'
        for x, y, trials in shown:
            ends = f"M{x:.1f},{up(min(trials)):.1f}V{up(max(trials)):.1f}"
            at_point = f'<path transform="translate({x:.1f} {y:.1f})" d="{marker}"/>'
            parts.append(f'<path class="line" d="{ends}"/>{at_point}')
        if chart.labelled:
            parts.append(_beside(name, shown[0][0], shown[0][1], taken))
        else:
            at = _TOP + 10 + 20 * number
            parts.append(f'<path transform="translate({right + 20:.1f} {at})" d="{marker}"/>')
            parts.append(_text(right + 30, at + 4, name))
        parts.append("</g>")
    note = old_code(line for line in lines if line.is_of(chart.where))
    parts.append(_text(_LEFT, _HEIGHT - 4, note, size=11))
    return _page(chart.title, parts, _HEIGHT)


def draw_ratios(title: str, axis: str, groups: Mapping[str, Mapping[str, float]], note: str) -> str:
    """A dot for each ratio, on a logarithmic axis, with a line to 1."""
    names = list(dict.fromkeys(name for ratios in groups.values() for name in ratios))
    height = 60 + sum(30 + 16 * len(ratios) for ratios in groups.values())
    left, right = 24 + _LETTER * max(map(len, names), default=0), _NARROW - 70
    values = [value for ratios in groups.values() for value in ratios.values() if value]
    across, ticks = _axis([1.0, *values], left, right, log=True)
    parts, y = [_text(10, 20, title, size=15)], 48.0
    for value, label in ticks:
        kind = "one" if value == 1 else "grid"
        parts.append(f'<path class="{kind}" d="M{across(value):.1f},56V{height - 14}"/>')
        parts.append(_text(across(value), height, label, anchor="middle"))
    for group, ratios in groups.items():
        parts.append(_text(10, y, group, size=13))
        for number, name, value in ((names.index(n), n, v) for n, v in ratios.items()):
            y, at = y + 16, across(value)
            dot = f'<path transform="translate({at:.1f} {y:.1f})" d="{_MARKERS[number % 4]}"/>'
            line = f'<path class="line" d="M{at:.1f},{y:.1f}H{across(1):.1f}"/>'
            ends = _text(left - 12, y + 4, name, anchor="end") + _text(
                right + 12, y + 4, f"{value:.2g}"
            )
            parts.append(f'<g class="c{number % 7}">{line}{dot}{ends}</g>')
        y += 30
    parts.append(_text((left + right) / 2, height + 18, axis, anchor="middle"))
    return _page(title, [*parts, _text(10, height + 38, note, size=11)], height + 44, _NARROW)


def _axis(
    values: Sequence[float], start: float, end: float, *, log: bool
) -> tuple[Callable[[float], float], Any]:
    """Where a value is on the page, and the labelled values."""
    low, high = min(values, default=1.0), max(values, default=1.0)
    if log:
        low, high = low * 0.8, high * 1.25
        few = (1, 2, 5) if high > _SPAN * low else (1, 1.5, 2, 3, 4, 5, 7)
        steps = (1,) if high > _MANY * low else few
        tens = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        ticks = [step * 10.0**ten for ten in tens for step in steps]
    else:
        room = 0.06 * (high - low) or 0.5
        low, high = (0.0 if low >= 0 and low < high / 3 else low - room), high + room
        raw = (high - low) / 5
        unit = 10.0 ** math.floor(math.log10(raw))
        step = next(unit * one for one in (1, 2, 5, 10) if unit * one >= raw)
        numbers = range(math.floor(low / step), math.ceil(high / step) + 1)
        ticks = [step * number for number in numbers]

    scale: Callable[[float], float] = math.log if log else float

    def place(value: float) -> float:
        share = (scale(value) - scale(low)) / (scale(high) - scale(low))
        return start + share * (end - start)

    return place, [(tick, f"{tick:,.6g}") for tick in ticks if low <= tick <= high]


def _beside(text: str, x: float, y: float, taken: list[Box]) -> str:
    """A label at the nearest place beside its point that no other label takes."""
    wide, places = _LETTER * len(text), []
    for right, up in _PLACES:
        left = x + right if right > 0 else x + right - wide if right else x - wide / 2
        places.append(Box(left, y + up - 6, left + wide, y + up + 6))
    place = free(places, taken) or places[-1]
    return _text(place.left, place.top + 6, text)


def _text(x: float, y: float, text: str, *, anchor: str = "start", size: int = 12) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{escape(text)}</text>'


def _page(title: str, parts: Iterable[str], height: float, width: int = _WIDTH) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:g}" width="{width}" '
        f'height="{height:g}" font-family="sans-serif" role="img">\n<title>{escape(title)}</title>\n'
        f"<style>{style()}</style>\n{body}\n</svg>\n"
    )


def style() -> str:
    """The colours of both schemes."""
    both = [
        f"text{{fill:{INK[dark]}}}.grid,.one{{stroke:{INK[dark]}}}"
        + "".join(
            f".c{i},.c{i} text{{fill:{c[dark]}}}.c{i} .line,.c{i}.line{{stroke:{c[dark]}}}"
            for i, c in enumerate(COLOURS)
        )
        for dark in (0, 1)
    ]
    shapes = ".grid{stroke-opacity:.15}.line{fill:none;stroke-width:1.5}"
    return f"{shapes}{both[0]}@media(prefers-color-scheme:dark){{{both[1]}}}"
