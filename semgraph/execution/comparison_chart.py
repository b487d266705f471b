"""Cost across, quality up: by matplotlib where it is installed, else in characters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from semgraph.execution.comparison import Arm, Comparison
from semgraph.execution.comparison_cells import dollars, quality_of, share

_HEIGHT = 8
_MARKS = "abcdefghijklmnopqrstuvwxyz"


def points(comparison: Comparison) -> tuple[str, list[tuple[Arm, float, float]]]:
    """What is across, and the ways that have a cost and a quality: dollars where they differ, else tokens.

    Without a truth the reference agrees with itself.
    """
    arms = [(arm, _quality(comparison, arm)) for arm in comparison if arm.trials]
    priced = all(arm.cold.dollars is not None for arm, _ in arms) and any(arm.cold.dollars for arm, _ in arms)
    cost: Callable[[Arm], float] = lambda a: a.cold.dollars or 0.0  # noqa: E731
    tokens: Callable[[Arm], float] = lambda a: a.cold.tokens_in + a.cold.tokens_out  # noqa: E731
    across = cost if priced else tokens
    return ("$" if priced else "tokens"), [(arm, across(arm), q) for arm, q in arms if q is not None]


def _quality(comparison: Comparison, arm: Arm) -> float | None:
    found = quality_of(arm)
    return 1.0 if found is None and not comparison.truth and arm.name == comparison.reference else found


def measure(comparison: Comparison) -> str:
    """What is up."""
    if not comparison.truth:
        return f"agreement with {comparison.reference}"
    return "F1" if comparison.kind == "step" else "edge F1"


def chart(comparison: Comparison) -> Any:
    """A matplotlib figure; text where that is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return text(comparison, 72)
    unit, found = points(comparison)
    figure = Figure(figsize=(5.5, 3.5), layout="constrained")
    axes = figure.subplots()
    for arm, x, y in found:
        low, high = arm.quality.interval or (y, y)
        axes.errorbar(x, y, yerr=[[max(0.0, y - low)], [max(0.0, high - y)]], fmt="o", capsize=3)
        axes.annotate(arm.name, (x, y), xytext=(6, 4), textcoords="offset points", parse_math=False)
    axes.set_xlabel("$ cold, one trial" if unit == "$" else "tokens, one trial")
    axes.set_ylabel(measure(comparison))
    return figure


def text(comparison: Comparison, width: int) -> str:
    """The chart in characters; "" with fewer than two points."""
    unit, found = points(comparison)
    if len(found) < 2:
        return ""
    wide = max(20, min(width - 12, 64))
    xs, ys = [x for _, x, _ in found], [y for _, _, y in found]
    right, low, high = max(xs) or 1.0, min(ys), max(ys)
    grid = [[" "] * wide for _ in range(_HEIGHT)]
    for mark, (_, x, y) in zip(_MARKS, found, strict=False):
        up = 0 if high == low else round((high - y) / (high - low) * (_HEIGHT - 1))
        along = min(wide - 1, round(x / right * (wide - 1)))
        grid[up][along] = mark if grid[up][along] == " " else "*"
    lines = [measure(comparison)]
    for i, row in enumerate(grid):
        label = share(high, 3) if i == 0 else share(low, 3) if i == _HEIGHT - 1 and high > low else ""
        lines.append(f"{label:>6} │{''.join(row)}".rstrip())
    end = f"${dollars(right)}" if unit == "$" else f"{right:,.0f} tokens"
    lines += [f"{'':>6} └{'─' * wide}", f"{'':>8}0{end:>{wide - 1}}"]
    names = "   ".join(f"{mark} {arm.name}" for mark, (arm, _, _) in zip(_MARKS, found, strict=False))
    return "\n".join([*lines, f"{'':>8}{names}"])
