"""Charts as SVG, for light and dark pages, in colours for the colour-blind, with a marker for each
series.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from benchmarks.suite.lines import Line
from benchmarks.suite.tables import Chart

THEMES = ("light", "dark")
COLOURS = {
    "light": ("#0072B2", "#D55E00", "#009E73", "#AA4499", "#B8860B", "#44AAD8", "#6E6E6E"),
    "dark": ("#56B4E9", "#FF8C42", "#2CCB9B", "#E59AC4", "#F0C541", "#8FC1FF", "#B5B5B5"),
}
"""After Okabe and Ito, darker on white and lighter on black for contrast."""
_MARKERS = "osD^vPX*<>h"
_MANY = 300
"""The span from which on an axis has labels at powers of ten only."""
_STYLES = ("-", "--", "-.", ":")
INK = {"light": "#1f2328", "dark": "#e6edf3"}


def draw(chart: Chart, lines: Sequence[Line], theme: str, form: str = "svg") -> str:
    """The chart over these lines, for a `light` or a `dark` page; deterministic."""
    with _page(chart.name, theme, (7.2, 4.0)) as (figure, axes):
        _plot(axes, chart, lines, theme)
        for axis in chart.log:
            getattr(axes, f"set_{axis}scale")("log")
            low, high = getattr(axes, f"get_{axis}lim")()
            between = _round_number if high < _MANY * low else _nothing
            getattr(axes, f"{axis}axis").set(major_formatter=_round_number, minor_formatter=between)
        axes.set(xlabel=chart.labels[0], ylabel=chart.labels[1], title=chart.title)
        axes.grid(visible=True, alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if chart.labelled:
            _label(figure, axes, chart, lines, theme)
        elif axes.lines:
            figure.legend(frameon=False, loc="outside right upper", fontsize=9)
        return _saved(figure, form)


def draw_bars(title: str, groups: Mapping[str, Mapping[str, float]], theme: str) -> str:
    """A group of horizontal bars for each key, one bar for each figure, on a logarithmic axis of
    multiples with a line at 1.
    """
    with _page(title, theme, (7.2, 1.0 + 0.85 * len(groups))) as (figure, axes):
        names = list(next(iter(groups.values())))
        height = 0.8 / len(names)
        for i, name in enumerate(names):
            places = [row + (i - (len(names) - 1) / 2) * height for row in range(len(groups))]
            shares = [bars[name] for bars in groups.values()]
            bars = axes.barh(places, shares, height, label=name, color=COLOURS[theme][i % 7])
            axes.bar_label(bars, [f"{share:.2g}" for share in shares], padding=2, fontsize=8)
        axes.axvline(1, color=INK[theme], linewidth=1)
        axes.set_yticks(range(len(groups)), list(groups))
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.xaxis.set(major_formatter=_round_number, minor_formatter=_nothing)
        axes.set(xlabel="1: as much as the other engine")
        axes.margins(x=0.08)
        axes.spines[["top", "right"]].set_visible(False)
        figure.suptitle(title, fontsize=12)
        figure.legend(frameon=False, loc="outside lower center", ncols=len(names), fontsize=9)
        return _saved(figure, "svg")


@contextmanager
def _page(salt: str, theme: str, size: tuple[float, float]) -> Iterator[tuple[Any, Any]]:
    """An empty chart in the colours of a theme."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    ink = INK[theme]
    settings = {
        "svg.hashsalt": salt,
        "svg.fonttype": "none",
        "font.size": 10,
        "text.color": ink,
    }
    settings |= dict.fromkeys(
        ("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), ink
    )
    with mpl.rc_context(settings):
        figure = Figure(figsize=size, layout="constrained")
        yield figure, figure.add_subplot()


def _saved(figure: Any, form: str) -> str:
    text = io.StringIO()
    figure.savefig(text, format=form, transparent=True, metadata={"Date": None})
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def _round_number(value: float, _: int) -> str:
    """The labels of a logarithmic axis: 1, 2, 5 and their multiples of ten, written out."""
    return f"{value:,.12g}" if f"{value:e}"[:3] in {"1.0", "2.0", "5.0"} else ""


def _nothing(_value: float, _: int) -> str:
    return ""


def _plot(axes: Any, chart: Chart, lines: Sequence[Line], theme: str) -> None:
    """A line for each series, with the range of its trials, and its exponent of growth if requested."""
    ranges, exponents = chart.ranges(lines), chart.exponents(lines)
    for i, (series, points) in enumerate(chart.points(lines).items()):
        xs, ys = zip(*points, strict=True)
        down = [y - low for y, (low, _) in zip(ys, ranges[series], strict=True)]
        up = [high - y for y, (_, high) in zip(ys, ranges[series], strict=True)]
        style = _STYLES[i % 4] if chart.joined else ""
        label = f"{series}: {exponents[series]}" if series in exponents else series
        axes.errorbar(
            xs, ys, yerr=(down, up), label=label, color=COLOURS[theme][i % 7], marker=_MARKERS[i % 11],
            linestyle=style, linewidth=1.5, markersize=5, capsize=2, elinewidth=1,
        )  # fmt: skip


_STEPS = (6, 13, 20, 28, 38, 50)
"""Distances of a label from its point, in points of a page; the first one that is free is taken."""
_SIDES = ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (1, -1), (-1, 1), (-1, -1))
_ALIGNED = {
    "ha": {1: "left", 0: "center", -1: "right"},
    "va": {1: "bottom", 0: "center", -1: "top"},
}


def _label(figure: Any, axes: Any, chart: Chart, lines: Sequence[Line], theme: str) -> None:
    """The name of each series beside its points, where it covers no other name, no
    point and no range.
    """
    axes.margins(0.12)
    figure.draw_without_rendering()
    points, ranges = chart.points(lines), chart.ranges(lines)
    taken = [
        _around(axes, x, (low, high))
        for series, at in points.items()
        for (x, _), (low, high) in zip(at, ranges[series], strict=True)
    ]
    for i, (series, at) in enumerate(points.items()):
        for point in at:
            _place(figure, axes, series, point, taken, COLOURS[theme][i % 7])


def _around(axes: Any, x: float, ys: tuple[float, float]) -> Any:
    """The box of a marker and its range on the page."""
    from matplotlib.transforms import Bbox

    (left, bottom), (right, top) = axes.transData.transform([(x, y) for y in ys])
    return Bbox.from_extents(left - 5, bottom - 5, right + 5, top + 5)


def _place(
    figure: Any, axes: Any, text: str, point: tuple[float, float], taken: list[Any], colour: str
) -> None:
    """Write a label at the nearest free place; its box is taken then."""
    for step in _STEPS:
        for side, up in _SIDES:
            offset = (side * step, up * step)
            label = axes.annotate(
                text, point, offset, textcoords="offset points", color=colour, fontsize=9,
                ha=_ALIGNED["ha"][side], va=_ALIGNED["va"][up], in_layout=False,
            )  # fmt: skip
            box = label.get_window_extent()
            inside = axes.bbox.x0 <= box.x0 and box.x1 <= figure.bbox.x1 and axes.bbox.y0 <= box.y0
            if inside and not any(box.overlaps(other) for other in taken):
                taken.append(box)
                if step > _STEPS[0]:  # too far away to be read without a line
                    thin = {"arrowstyle": "-", "color": colour, "lw": 0.6, "shrinkB": 4}
                    axes.annotate("", point, offset, textcoords="offset points", arrowprops=thin)
                return
            label.remove()
    msg = f'no free place for the label "{text}": show fewer series in this chart'
    raise ValueError(msg)
