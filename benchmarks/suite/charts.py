"""Charts as SVG, for light and dark pages, in colours that the colour-blind tell apart; markers tell series apart too."""

from __future__ import annotations

import io
from collections.abc import Sequence

from benchmarks.suite.lines import Line
from benchmarks.suite.tables import Chart

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8A8A8A")  # Okabe and Ito
_MARKERS = "osD^vPX"
_INK = {"light": "#1f2328", "dark": "#e6edf3"}


def draw(chart: Chart, lines: Sequence[Line], theme: str) -> str:
    """The chart over these lines, for a `light` or a `dark` page; the same lines give the same text."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib.figure import Figure

    ink = _INK[theme]
    settings = {"svg.hashsalt": chart.name, "svg.fonttype": "none", "font.size": 10, "text.color": ink}
    settings |= dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), ink)
    with mpl.rc_context(settings):
        figure = Figure(figsize=(6.4, 3.8), layout="constrained")
        axes = figure.add_subplot()
        for i, (series, points) in enumerate(chart.points(lines).items()):
            xs, ys = zip(*points, strict=True)
            axes.plot(xs, ys, label=series, color=_COLOURS[i % 7], marker=_MARKERS[i % 7], linewidth=1.5)
        for axis in chart.log:
            getattr(axes, f"set_{axis}scale")("log")
        axes.set(xlabel=chart.labels[0], ylabel=chart.labels[1], title=chart.title)
        axes.grid(visible=True, alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        if axes.lines:
            axes.legend(frameon=False)
        text = io.StringIO()
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    return text.getvalue()
