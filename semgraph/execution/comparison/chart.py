"""Cost across, quality up: by matplotlib where it is installed, else in characters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from semgraph.execution.comparison import Arm, Comparison
from semgraph.execution.comparison.cells import dollars, graded, quality_of, ranked, share

Point = tuple[Arm, float, float]
_HEIGHT = 8
_MARKS = "abcdefghijklmnopqrstuvwxyz"


def points(comparison: Comparison) -> tuple[str, list[Point]]:
    """What is across, and the ways that have a cost and a quality: dollars where they differ, else tokens.

    Without a truth the reference agrees with itself.
    """
    arms = [(arm, _quality(comparison, arm)) for arm in ranked(comparison) if arm.trials]
    priced = all(arm.cold.dollars is not None for arm, _ in arms) and any(arm.cold.dollars for arm, _ in arms)
    cost: Callable[[Arm], float] = lambda a: a.cold.dollars or 0.0  # noqa: E731
    tokens: Callable[[Arm], float] = lambda a: a.cold.tokens_in + a.cold.tokens_out  # noqa: E731
    across = cost if priced else tokens
    return ("$" if priced else "tokens"), [(arm, across(arm), q) for arm, q in arms if q is not None]


def _quality(comparison: Comparison, arm: Arm) -> float | None:
    found = quality_of(arm)
    return 1.0 if found is None and not comparison.truth and arm.name == comparison.reference else found


def measure(comparison: Comparison) -> str:
    """What is up: of graphs the edges, of those without edges the nodes."""
    graphs = [arm for arm in comparison if arm.trials and graded(arm)]
    nodes = [arm for arm in graphs if arm.quality.f1 is None]
    if not comparison.truth:
        of = " of nodes" if graphs and nodes == graphs else ""
        return f"agreement{of} with {comparison.reference}"
    if nodes:
        return "node B³" if nodes == graphs else "edge F1, without edges node B³"
    return "edge F1" if graphs else "F1"


def chart(comparison: Comparison) -> Any:
    """A matplotlib figure; text where that is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return text(comparison, 72)
    unit, found = points(comparison)
    figure = Figure(figsize=(5.5, 3.5), layout="constrained")
    axes = figure.subplots()
    for i, (names, arm, x, y) in enumerate(_places(found)):
        low, high = arm.quality.interval or (y, y)
        axes.errorbar(x, y, yerr=[[max(0.0, y - low)], [max(0.0, high - y)]], fmt="o", capsize=3)
        side = 4 if i % 2 == 0 else -12  # names of neighbours are not on one line
        axes.annotate(names, (x, y), xytext=(6, side), textcoords="offset points", parse_math=False)
    axes.set_xlabel("$ cold, one trial" if unit == "$" else "tokens, one trial")
    axes.set_ylabel(measure(comparison))
    return figure


def _places(found: Sequence[Point]) -> Iterator[tuple[str, Arm, float, float]]:
    """The ways by what they cost and how good they are: alike ones are one point with all their names."""
    together: dict[tuple[float, float], list[Arm]] = {}
    for arm, x, y in found:
        together.setdefault((x, y), []).append(arm)
    for (x, y), arms in together.items():
        yield ", ".join(arm.name for arm in arms), arms[0], x, y


def text(comparison: Comparison, width: int) -> str:
    """The chart in characters; "" with fewer than two points. Ways in one place have one mark, and equal ones one line."""
    unit, found = points(comparison)
    if len(found) < 2:
        return ""
    wide = max(20, min(width - 12, 64))
    xs, ys = [x for _, x, _ in found], [y for _, _, y in found]
    right, low, high = max(xs) or 1.0, min(ys), max(ys)
    tall = _HEIGHT if share(high, 3) != share(low, 3) else 1
    cells: dict[tuple[int, int], list[str]] = {}
    for arm, x, y in found:
        up = 0 if tall == 1 else round((high - y) / (high - low) * (tall - 1))
        cells.setdefault((up, min(wide - 1, round(x / right * (wide - 1)))), []).append(arm.name)
    grid = [[" "] * wide for _ in range(tall)]
    for mark, (up, along) in zip(_MARKS, cells, strict=False):
        grid[up][along] = mark
    lines = [measure(comparison)]
    for i, row in enumerate(grid):
        label = share(high, 3) if i == 0 else share(low, 3) if i == tall - 1 else ""
        lines.append(f"{label:>6} │{''.join(row)}".rstrip())
    end = f"${dollars(right)}" if unit == "$" else f"{right:,.0f} tokens"
    lines += [f"{'':>6} └{'─' * wide}", f"{'':>8}0{end:>{wide - 1}}"]
    return "\n".join([*lines, *_names(cells.values(), max(width, 20))])


def _names(together: Iterable[Sequence[str]], width: int) -> Iterator[str]:
    """What the marks mean, as many on a line as fit."""
    line = " " * 8
    for mark, names in zip(_MARKS, together, strict=False):
        said = f"{mark} {', '.join(names)}"
        if line.strip() and len(line) + len(said) > width:
            yield line.rstrip()
            line = " " * 8
        line += said + "   "
    yield line.rstrip()
