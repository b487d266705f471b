"""A comparison in the forms that papers and other programs take: rows, CSV, LaTeX, Markdown, sentences,
a figure of matplotlib.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import cycle, zip_longest
from statistics import fmean
from typing import Any

from semgraph.compare.comparison import Arm, Comparison, Measured, Quality, quality_of, ranked
from semgraph.errors import PlanError
from semgraph.render.chart import MISSING, Bars, drawn_as, measure
from semgraph.render.comparison import columns, shown_changes

_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}",
    "<": "$<$", ">": "$>$", "|": "$|$",
    "−": "$-$", "±": r"$\pm$", "Δ": r"$\Delta$", "³": "$^3$", "·": r"$\cdot$", "≈": r"$\approx$", "–": "--",
}  # fmt: skip


def export(comparison: Comparison, form: str, **options: Any) -> Any:
    """The comparison as `rows` (mappings), `csv`, `latex`, `markdown`, `sentence`, or `figure`."""
    forms: Mapping[str, Callable[..., Any]] = {
        "rows": rows, "csv": as_csv, "latex": as_latex, "markdown": as_markdown, "sentence": sentence, "figure": figure
    }  # fmt: skip
    return forms[form](comparison, **options)


def rows(comparison: Comparison, *, trials: bool = False) -> list[dict[str, Any]]:
    """A row for each variant, or for each of its trials: what it changes, its quality, the cost of a
    trial by itself. What is known of no row is left out.
    """
    keys, found = shown_changes(comparison), list[dict[str, Any]]()
    for arm in ranked(comparison):
        changes = {"variant": arm.name, **{key: arm.changes.get(key) for key in keys}}
        whole = _quality(arm.quality) | {"trials": len(arm.trials)}
        of = next(iter(arm.quality.measures), "f1")
        each = zip_longest(arm.trials, arm.quality.by_trial)  # nothing where nothing is scored
        parts = [({"trial": t.number, of: v}, t) for t, v in each] if trials else [(whole, arm)]
        found += [changes | own | _cost(part) for own, part in parts]
    names = dict.fromkeys(name for row in found for name in row)
    known = [name for name in names if any(row.get(name) is not None for row in found)]
    return [{name: row.get(name) for name in known} for row in found]


def _cost(part: Any) -> dict[str, Any]:
    """The cost of a trial, or the means over those of a variant."""
    own = part.trials if isinstance(part, Arm) else [part]
    times = {n: [v for t in own if (v := getattr(t, n))] for n in ("seconds", "model_seconds")}
    means = {name: fmean(values) if values else None for name, values in times.items()}
    return asdict(part.cold) | means | {"failed": part.failed}


def _quality(quality: Quality) -> dict[str, Any]:
    """The values by name, with the ends of intervals."""
    left_out = ("interval", "spread", "by_trial", "difference", "measures")
    values: dict[str, Any] = {"f1": quality.f1}
    values |= {name: value for name, value in asdict(quality).items() if name not in left_out}
    whole = {"": Measured(None, quality.interval, quality.difference)}
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


def _table(
    comparison: Comparison, text: Callable[[str], str], best: str
) -> tuple[list[bool], list[list[str]]]:
    """The table of a paper, without times and what repeats others: whether each column is aligned to
    the right, and the lines of cells, with the best of each column as `best` has it.
    """
    left_out = ("time", "model time", "over trials", "same rows")
    table = [c for c in columns(comparison) if c.title.partition(",")[0] not in left_out]
    cells = [
        [text(c.title), *(best.format(text(cell)) if i in c.best else text(cell) for i, cell in enumerate(c.cells))]
        for c in table
    ]  # fmt: skip
    return [c.right for c in table], [list(line) for line in zip(*cells, strict=True)]


def as_latex(comparison: Comparison) -> str:
    """The table with the rules of booktabs, the best of each column in bold."""
    right, (head, *lines) = _table(comparison, _latex, r"\textbf{{{}}}")
    aligned = "".join("r" if each else "l" for each in right)
    # {}: a "[" that begins a line would be an argument of the rule or of the line before
    body = ["{}" * line[0].startswith("[") + " & ".join(line) + r" \\" for line in lines]
    return "\n".join([
        rf"\begin{{tabular}}{{{aligned}}}", r"\toprule", " & ".join(head) + r" \\", r"\midrule", *body,
        r"\bottomrule", r"\end{tabular}", "",
    ])  # fmt: skip


def _latex(text: str) -> str:
    return re.sub(r".", lambda letter: _LATEX.get(letter[0], letter[0]), text)


def as_markdown(comparison: Comparison) -> str:
    """The table in Markdown, the best of each column in bold."""
    right, (head, *lines) = _table(comparison, _markdown, "**{}**")
    rule = "|".join("--:" if each else "---" for each in right)
    first, *body = (f"| {' | '.join(line)} |" for line in (head, *lines))
    return "\n".join([first, f"|{rule}|", *body, ""])


def _markdown(text: str) -> str:
    return re.sub(r"([\\|*_`<\[])", r"\\\1", text)


def sentence(comparison: Comparison) -> str:
    """What is shown of each variant beside the reference.

    As `packed(rows=10) loses 1.7 points of F1 against per_row (95 % 0.3 to 3.3, n = 300, 3 trials) for
    0.65 of the tokens.`
    """
    reference = comparison[comparison.reference]
    others = [arm for arm in ranked(comparison) if arm.name != reference.name and arm.trials]
    return " ".join(_sentence(comparison, arm, reference) for arm in others)


def _sentence(comparison: Comparison, arm: Arm, reference: Arm) -> str:
    frozen, quality, of = comparison.frozen, arm.quality, measure(comparison)
    number = frozen.get("labelled") or next(filter(None, frozen.get("rows", {}).values()), 0)
    size = f"n = {number:,}" + f", {comparison.trials} trials" * (comparison.trials > 1)
    own, base = (each.cold.tokens_in + each.cold.tokens_out for each in (arm, reference))
    form = ".2f" if own * 100 >= base else ".1g"
    cost = f" for {own / base:{form}} of the tokens" if base else ""
    value, (low, high) = quality_of(arm), quality.interval or (None, None)
    if value is None:
        return f"{arm.name} has no known quality{cost}."
    if quality.difference is None:
        between = f"95 % {low:.3f} to {high:.3f}, " if quality.interval else ""
        return f"{arm.name} has {of} {value:.3f} ({between}{size}){cost}."
    less, low, high = quality.difference
    if low is None or high is None or low <= 0 <= high:
        both = f"{arm.name} and {reference.name}"
        ends = "" if low is None or high is None else f"{low * 100:+.1f} to {high * 100:+.1f}"
        between = f"95 % {ends} points, " if ends else ""
        return f"No difference of {of} is shown between {both} ({between}{size}){cost}."
    verb, near, far = ("gains", low, high) if low > 0 else ("loses", -high, -low)
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
        raise PlanError(MISSING[kind])
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
