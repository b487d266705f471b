"""A comparison in the forms that papers and other programs take: rows, CSV, LaTeX, Markdown, sentences,
a figure of matplotlib.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from typing import Any

from semgraph.compare.comparison import Arm, Comparison, Quality, Trial, quality_of, ranked
from semgraph.errors import PlanError, Problem
from semgraph.render.chart import MISSING, Bars, drawn_as, measure
from semgraph.render.comparison import columns, shown_changes
from semgraph.render.tables import Column

_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
    "−": "$-$", "±": r"$\pm$", "Δ": r"$\Delta$", "³": "$^3$", "·": r"$\cdot$", "≈": r"$\approx$", "–": "--",
}  # fmt: skip


def export(comparison: Comparison, form: str, **options: Any) -> Any:
    """The comparison as `rows` or `trials` (mappings), `csv`, `latex`, `markdown`, `sentence`, or
    `figure`.
    """
    forms: Mapping[str, Callable[..., Any]] = {
        "rows": rows,
        "trials": trials,
        "csv": as_csv,
        "latex": as_latex,
        "markdown": as_markdown,
        "sentence": sentence,
        "figure": figure,
    }
    return forms[form](comparison, **options)


def rows(comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each variant: what it changes, the cost of a trial by itself, and its quality."""
    return [
        {
            "variant": arm.name,
            **{key: arm.changes.get(key) for key in shown_changes(comparison)},
            **_quality(comparison, arm.quality),
            "trials": len(arm.trials),
            **_cost(arm.cold),
            "seconds": _mean(arm.seconds),
            "model_seconds": _mean([trial.model_seconds for trial in arm.trials]),
            "failed": arm.failed,
        }
        for arm in ranked(comparison)
    ]


def trials(comparison: Comparison) -> list[dict[str, Any]]:
    """A row for each trial of each variant, with its cost."""
    return [
        {
            "variant": arm.name,
            **{key: arm.changes.get(key) for key in shown_changes(comparison)},
            "trial": trial.number,
            **_cost(trial.cold),
            "paid_calls": trial.paid.calls,
            "seconds": trial.seconds,
            "model_seconds": trial.model_seconds,
            "failed": trial.failed,
        }
        for arm, trial in _all_trials(comparison)
    ]


def _all_trials(comparison: Comparison) -> Iterator[tuple[Arm, Trial]]:
    return ((arm, trial) for arm in ranked(comparison) for trial in arm.trials)


def _cost(spent: Any) -> dict[str, Any]:
    names = ("calls", "tokens_in", "tokens_out", "dollars")
    return {name: getattr(spent, name) for name in names}


def _mean(values: Any) -> float | None:
    return sum(values) / len(values) if values else None


def _quality(comparison: Comparison, quality: Quality) -> dict[str, Any]:
    """The values of a variant by what is known of any."""
    every, own = [_values(arm.quality) for arm in comparison], _values(quality)
    names = dict.fromkeys(name for each in every for name in each)
    return {n: own.get(n) for n in names if any(each.get(n) is not None for each in every)}


def _values(quality: Quality) -> dict[str, Any]:
    values: dict[str, Any] = {
        "f1": quality.f1, "precision": quality.precision, "recall": quality.recall, "agreement": quality.same,
        "node_pairs": quality.pairs, "node_b_cubed": quality.b_cubed, "edges_valid": quality.validity,
        "edges_ended": quality.ended,
    }  # fmt: skip
    whole = {"": (None, quality.interval, quality.difference)}
    for name, (value, ends, less) in (quality.measures or whole).items():
        each = (value, *(ends or (None,) * 2), *(less or (None,) * 3))
        values |= {f"{name}_{end}".strip("_"): v for end, v in zip(_ENDS, each, strict=True)}
    return values


_ENDS = ("", "low", "high", "difference", "difference_low", "difference_high")


def as_csv(comparison: Comparison) -> str:
    """The rows as CSV."""
    found, out = rows(comparison), io.StringIO()
    writer = csv.DictWriter(out, list(found[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(found)
    return out.getvalue()


def _table(comparison: Comparison) -> list[Column]:
    """The columns of a paper: without times, and without what repeats others."""
    left_out = ("time", "model time", "over trials", "same rows")
    return [c for c in columns(comparison) if c.title.partition(",")[0] not in left_out]


def as_latex(comparison: Comparison) -> str:
    """The table with the rules of booktabs, the best of each column in bold."""
    table = _table(comparison)
    lines = [
        rf"\begin{{tabular}}{{{''.join('r' if column.right else 'l' for column in table)}}}",
        r"\toprule",
        " & ".join(_latex(column.title) for column in table) + r" \\",
        r"\midrule",
        *(" & ".join(row) + r" \\" for row in _cells(table, _latex, r"\textbf{{{}}}".format)),
        r"\bottomrule",
        r"\end{tabular}",
    ]
    return "\n".join(lines) + "\n"


def _latex(text: str) -> str:
    return re.sub(r".", lambda letter: _LATEX.get(letter[0], letter[0]), text)


def as_markdown(comparison: Comparison) -> str:
    """The table in Markdown, the best of each column in bold."""
    table = _table(comparison)
    lines = [
        "| " + " | ".join(_markdown(column.title) for column in table) + " |",
        "|" + "|".join("--:" if column.right else "---" for column in table) + "|",
        *("| " + " | ".join(row) + " |" for row in _cells(table, _markdown, "**{}**".format)),
    ]
    return "\n".join(lines) + "\n"


def _markdown(text: str) -> str:
    return re.sub(r"([\\|*_`<\[])", r"\\\1", text)


def _cells(
    table: list[Column], text: Callable[[str], str], best: Callable[[str], str]
) -> Iterator[list[str]]:
    for i in range(len(table[0].cells)):
        cells = [text(column.cells[i]) for column in table]
        yield [best(c) if i in column.best else c for c, column in zip(cells, table, strict=True)]


def sentence(comparison: Comparison) -> str:
    """What is shown of each variant beside the reference.

    As `packed(rows=10) loses 1.7 points of F1 against per_row (95 % 0.3 to 3.3, n = 300, 3 trials) for
    0.65 of the tokens.`
    """
    reference = comparison[comparison.reference]
    others = [arm for arm in ranked(comparison) if arm.name != reference.name and arm.trials]
    return " ".join(_sentence(comparison, arm, reference) for arm in others)


def _sentence(comparison: Comparison, arm: Arm, reference: Arm) -> str:
    rows = comparison.frozen.get("rows", {})
    number = comparison.frozen.get("labelled") or next(iter(rows.values()), 0)
    tried = f", {comparison.trials} trials" if comparison.trials > 1 else ""
    size = f"n = {number:,}{tried}"
    own, base = (each.cold.tokens_in + each.cold.tokens_out for each in (arm, reference))
    cost = f" for {own / base:.2f} of the tokens" if base else ""
    quality, of = arm.quality, measure(comparison)
    if quality.difference is None:
        value, (low, high) = quality_of(arm), quality.interval or (None, None)
        if value is None:
            return f"{arm.name} has no known quality{cost}."
        between = f"95 % {low:.3f} to {high:.3f}, " if low is not None and high is not None else ""
        return f"{arm.name} has {of} {value:.3f} ({between}{size}){cost}."
    less, low, high = quality.difference
    if low is None or high is None or low <= 0 <= high:
        between = (
            ""
            if low is None or high is None
            else f"95 % {low * 100:+.1f} to {high * 100:+.1f} points, "
        )
        return f"No difference of {of} is shown between {arm.name} and {reference.name} ({between}{size}){cost}."
    verb, near, far = ("gains", low, high) if less > 0 else ("loses", -high, -low)
    return (
        f"{arm.name} {verb} {abs(less) * 100:.1f} points of {of} against {reference.name} "
        f"(95 % {near * 100:.1f} to {far * 100:.1f}, {size}){cost}."
    )


def figure(comparison: Comparison, kind: str = "quality") -> Any:
    """The chart of a kind, by matplotlib. Raises PlanError if there is nothing to draw."""
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        what = "figure needs matplotlib: pip install matplotlib"
        raise ModuleNotFoundError(what, name="matplotlib") from error
    drawn, scales = drawn_as(comparison, kind), ("linear", "log")
    if drawn is None:
        raise PlanError(Problem(MISSING[kind]))
    names = drawn.steps if isinstance(drawn, Bars) else drawn.points
    made = Figure(figsize=(6, 3.5 + 0.2 * len(names)), layout="constrained")
    axes = made.subplots()
    if isinstance(drawn, Bars):
        arms = [arm.name for arm, _ in drawn.rows]
        for i, (_, step) in enumerate(drawn.steps):
            left, right = ([ends[end] for _, ends in drawn.rows] for end in (i, i + 1))
            wide = [to - begin for begin, to in zip(left, right, strict=True)]
            axes.barh(arms, wide, left=left, label=step)
        axes.invert_yaxis()
    else:
        for p, mark in zip(drawn.points, cycle("osv^DP"), strict=False):
            span = [[p.y - p.low], [p.high - p.y]]
            axes.errorbar([p.x], [p.y], span, fmt=mark, capsize=3, clip_on=False, label=p.arm.name)
        best = [p.x for p in drawn.front], [p.y for p in drawn.front]
        axes.plot(*best, "--", color="0.6", zorder=0, drawstyle="steps-post", label="front")
        axes.set(ylabel=drawn.y.title, ylim=drawn.y.ends, yscale=scales[drawn.y.log])
    axes.set(xlabel=drawn.x.title, xlim=drawn.x.ends, xscale=scales[drawn.x.log])
    made.legend(loc="outside lower center", fontsize="small")
    return made
