"""A comparison in a terminal: the table with the best of each column bold, what stands below it,
the chart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from io import StringIO
from typing import TYPE_CHECKING, Any, NamedTuple

from semgraph.compare.comparison import Arm, Comparison, Quality
from semgraph.formats import dollars, duration, plain_line, plural, short
from semgraph.render.tables import GAP, Column, fit, fitting, folded

if TYPE_CHECKING:
    from rich.text import Text

_NONE = "–"
_FAILURES = 5  # kinds of failures of a variant


@dataclass(frozen=True)
class Cells:
    """One column: its title, a text for each variant, and the places of the best."""

    title: str
    texts: tuple[str, ...]
    best: frozenset[int] = frozenset()
    right: bool = True


def ranked(comparison: Comparison) -> list[Arm]:
    """The reference, then the others, the best first."""

    def place(arm: Arm) -> tuple[bool, float]:
        measure = quality_of(arm)
        return arm.name != comparison.reference, -(measure if measure is not None else -1.0)

    return sorted(comparison.arms, key=place)


def quality_of(arm: Arm) -> float | None:
    """The one number of a variant's quality: F1, or where there is no truth its agreement with the
    reference.

    Of a graph it is the F1 of edges; where neither graph has one, the B-cubed F1 of nodes.
    """
    result = arm.quality
    if result.f1 is not None:
        return result.f1
    return result.same if result.b_cubed is None else result.b_cubed


def graded(arm: Arm) -> bool:
    """Whether its quality is that of a graph."""
    return arm.quality.b_cubed is not None


def columns(comparison: Comparison) -> list[Cells]:
    """All columns, what matters most first."""
    arms = ranked(comparison)
    number = max((len(arm.seconds) for arm in arms), default=0)
    cells = [
        Cells("variant", tuple(arm.name for arm in arms), right=False),
        _column("calls", arms, lambda a: f"{a.cold.calls:,}", lambda a: -a.cold.calls),
        _column("tokens in/out", arms, _tokens, lambda a: -(a.cold.tokens_in + a.cold.tokens_out)),
        _column(
            "$ cold",
            arms,
            lambda a: dollars(a.cold.dollars, exact=True).removeprefix("$"),
            lambda a: _less(a.cold.dollars),
        ),
        _column(f"time, {number} trials" if number > 1 else "time", arms, _time, _quickest),
        *_qualities(comparison, arms),
    ]
    if any(arm.failed for arm in arms):
        cells.append(_column("failed", arms, lambda a: f"{a.failed:,}", lambda a: -a.failed))
    if comparison.missing:
        cells.append(
            Cells("trials", tuple(f"{len(arm.trials)} of {comparison.trials}" for arm in arms))
        )
    return cells


def _qualities(comparison: Comparison, arms: Sequence[Arm]) -> list[Cells]:
    """The measures that something is known of."""
    return [column for column in _measures(comparison, arms) if set(column.texts) != {_NONE}]


def _measures(comparison: Comparison, arms: Sequence[Arm]) -> list[Cells]:
    if comparison.kind == "step" and not comparison.truth:
        return [
            _column(
                "agreement [95 %]",
                arms,
                lambda a: _with(a.quality.same, a.quality.interval),
                lambda a: a.quality.same,
            ),
            *_spread(arms),
        ]
    nodes = [
        _measure("node pairs", arms, lambda q: q.pairs),
        _measure("node B³", arms, lambda q: q.b_cubed),
        _measure("edges valid", arms, lambda q: q.validity),
        _measure("edges ended", arms, lambda q: q.ended),
    ]
    of = "edge " if any(map(graded, arms)) else ""
    cells = [
        *nodes[:2],
        _measure(f"{of}P", arms, lambda q: q.precision),
        _measure(f"{of}R", arms, lambda q: q.recall),
        _column(
            f"{of}F1 [95 %]",
            arms,
            lambda a: _with(a.quality.f1, a.quality.interval),
            lambda a: a.quality.f1,
        ),
        *_spread(arms),
        *nodes[2:],
    ]
    if comparison.truth and len(arms) > 1:
        cells.append(_column("Δ F1 to reference", arms, _difference, lambda _: None))
        if any(arm.quality.same is not None for arm in arms):
            cells.append(_column("same rows", arms, _same, lambda a: a.quality.same))
    return cells


def _spread(arms: Sequence[Arm]) -> list[Cells]:
    if all(arm.quality.spread is None for arm in arms):
        return []
    return [_column("of trials", arms, lambda a: _between(a.quality.spread), lambda _: None)]


def _measure(title: str, arms: Sequence[Arm], of: Callable[[Quality], float | None]) -> Cells:
    return _column(title, arms, lambda a: share(of(a.quality)), lambda a: of(a.quality))


def _column(
    title: str,
    arms: Sequence[Arm],
    text: Callable[[Arm], str],
    worth: Callable[[Arm], float | None],
) -> Cells:
    """A column; the best are those of the greatest worth, unless all are alike."""
    known = {
        i: value for i, arm in enumerate(arms) if arm.trials and (value := worth(arm)) is not None
    }
    top = max(known.values(), default=0.0)
    best = frozenset(i for i, value in known.items() if value == top)
    texts = tuple(text(arm) if arm.trials else _NONE for arm in arms)
    return Cells(title, texts, best if len(best) < len(known) else frozenset())


def _less(value: float | None) -> float | None:
    return None if value is None else -value


def _tokens(arm: Arm) -> str:
    return f"{short(arm.cold.tokens_in)} / {short(arm.cold.tokens_out)}"


def _time(arm: Arm) -> str:
    times = arm.seconds
    if not times:
        return _NONE
    mean = duration(sum(times) / len(times))
    return f"{mean} [{duration(min(times))}–{duration(max(times))}]" if len(times) > 1 else mean


def _quickest(arm: Arm) -> float | None:
    times = arm.seconds
    return -sum(times) / len(times) if times else None


def share(value: float | None, digits: int = 2) -> str:
    """A share of 1, without the zero that says nothing.

    >>> share(0.934), share(1.0), share(None), share(0.9405, 3)
    ('.93', '1.00', '–', '.941')
    """
    return (
        _NONE
        if value is None
        else f"{value:.{digits}f}".replace("0.", ".", 1)
        if value < 1
        else f"{value:.{digits}f}"
    )


def _with(value: float | None, interval: tuple[float, float] | None) -> str:
    between = f" {_between(interval)}" if interval else ""
    return share(value, 3) + (between if value is not None else "")


def _between(interval: tuple[float, float] | None) -> str:
    return f"[{share(interval[0], 3)} {share(interval[1], 3)}]" if interval else _NONE


def _signed(value: float) -> str:
    return ("−" if value < 0 else "+" if value > 0 else "±") + f"{abs(value):.3f}".replace(
        "0.", ".", 1
    )


def _difference(arm: Arm) -> str:
    if arm.quality.difference is None:
        return _NONE
    value, low, high = arm.quality.difference
    return _signed(value) + (
        f" [{_signed(low)} {_signed(high)}]" if low is not None and high is not None else ""
    )


def _same(arm: Arm) -> str:
    return _NONE if arm.quality.same is None else f"{arm.quality.same:.1%}".replace("%", " %")


def footer(comparison: Comparison) -> list[str]:
    """The lines below the table."""
    lines_ = [_input(comparison)]
    if not comparison.truth:
        lines_.append(
            f"no truth was given: this is agreement with {comparison.reference}, the reference, not correctness"
        )
    parts = [f"{comparison.trials} independent trials of each"] if comparison.trials > 1 else []
    replayed = sum(t.cold.calls - t.paid.calls for arm in comparison for t in arm.trials)
    if replayed > 0:
        parts.append(
            f"{plural(replayed, 'answer')} of earlier comparisons replayed, without a time"
        )
    paid = comparison.paid
    money = "price unknown" if paid.dollars is None else dollars(paid.dollars, exact=True)
    parts.append(f"paid now {plural(paid.calls, 'call')}, {money}")
    parts.append(f"nothing written to {comparison.store}")
    if comparison.record is not None:
        parts.append(f"kept as comparison {comparison.id}")
    failed = (line for arm in ranked(comparison) for line in _failures(arm))
    lines_ += [" · ".join(parts), *failed, *(f"! {note}" for note in comparison.notes)]
    if comparison.stopped:
        lines_.append(f"! stopped: {comparison.stopped}")
        missing = ", ".join(f"{n} of {name}" for name, n in comparison.missing.items())
        lines_.append(
            f"! trials that are missing: {missing}. Run it again with a higher limit: it goes on from here"
        )
    return lines_


def _input(comparison: Comparison) -> str:
    rows = comparison.frozen.get("rows", {})
    if comparison.kind == "plan":  # inputs that need not be given are not
        rows = {name: number for name, number in rows.items() if number}
    counts, names = " × ".join(f"{number:,}" for number in rows.values()), " × ".join(rows)
    if comparison.kind == "step":
        sha = str(comparison.frozen.get("sha", ""))[:4]
        what = f"step {comparison.step}, the same frozen input for all ({names}: {counts} rows, sha {sha})"
    else:
        held = comparison.frozen.get("copied", 0)
        what = f"whole plan {comparison.plan}, each in a copy of its own ({names}: {counts} rows; {held:,} stored)"
    return f"{what} · {comparison.model}"


def _failures(arm: Arm) -> Iterator[str]:
    """Lines about one variant, over all its trials; none if nothing failed."""
    counts: Counter[tuple[str, str]] = Counter()
    for each in (failed for trial in arm.trials for failed in trial.failures):
        counts[each.step, plain_line(each.error)] += each.rows
    for (step, error), rows in counts.most_common(_FAILURES):
        yield f"! {arm.name} failed: {rows} × {step}: {error}"
    if len(counts) > _FAILURES:
        yield f"! {arm.name} failed: … and {len(counts) - _FAILURES} more kinds"


Point = tuple[Arm, float, float]
_HEIGHT = 8
_MARKS = "abcdefghijklmnopqrstuvwxyz"


def points(comparison: Comparison) -> tuple[str, list[Point]]:
    """The unit of the cost axis, and the variants that have a cost and a quality: dollars where they differ, else
    tokens.

    Without a truth the reference agrees with itself.
    """
    arms = [(arm, _quality(comparison, arm)) for arm in ranked(comparison) if arm.trials]
    priced = all(arm.cold.dollars is not None for arm, _ in arms) and any(
        arm.cold.dollars for arm, _ in arms
    )
    cost: Callable[[Arm], float] = lambda a: a.cold.dollars or 0.0  # noqa: E731
    tokens: Callable[[Arm], float] = lambda a: a.cold.tokens_in + a.cold.tokens_out  # noqa: E731
    across = cost if priced else tokens
    return ("$" if priced else "tokens"), [
        (arm, across(arm), q) for arm, q in arms if q is not None
    ]


def _quality(comparison: Comparison, arm: Arm) -> float | None:
    result = quality_of(arm)
    return (
        1.0
        if result is None and not comparison.truth and arm.name == comparison.reference
        else result
    )


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


def chart(comparison: Comparison) -> Any:
    """A matplotlib figure; text where that is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return text(comparison, 72)
    unit, result = points(comparison)
    figure = Figure(figsize=(5.5, 3.5), layout="constrained")
    axes = figure.subplots()
    for i, (names, arm, x, y) in enumerate(_places(result)):
        low, high = arm.quality.interval or (y, y)
        axes.errorbar(x, y, yerr=[[max(0.0, y - low)], [max(0.0, high - y)]], fmt="o", capsize=3)
        side = 4 if i % 2 == 0 else -12  # names of neighbours are not on one line
        axes.annotate(names, (x, y), xytext=(6, side), textcoords="offset points", parse_math=False)
    axes.set_xlabel("$ cold, one trial" if unit == "$" else "tokens, one trial")
    axes.set_ylabel(measure(comparison))
    return figure


def _places(found: Sequence[Point]) -> Iterator[tuple[str, Arm, float, float]]:
    """The variants by what they cost and how good they are: alike ones are one point with all their
    names.
    """
    together: dict[tuple[float, float], list[Arm]] = {}
    for arm, x, y in found:
        together.setdefault((x, y), []).append(arm)
    for (x, y), arms in together.items():
        yield ", ".join(arm.name for arm in arms), arms[0], x, y


def text(comparison: Comparison, width: int) -> str:
    """The chart in characters; "" with fewer than two points. Variants in one place have one mark, and
    equal ones one line.
    """
    unit, result = points(comparison)
    if len(result) < 2:
        return ""
    wide = max(20, min(width - 12, 64))
    xs, ys = [x for _, x, _ in result], [y for _, _, y in result]
    right, low, high = max(xs) or 1.0, min(ys), max(ys)
    tall = _HEIGHT if share(high, 3) != share(low, 3) else 1
    cells: dict[tuple[int, int], list[str]] = {}
    for arm, x, y in result:
        up = 0 if tall == 1 else round((high - y) / (high - low) * (tall - 1))
        cells.setdefault((up, min(wide - 1, round(x / right * (wide - 1)))), []).append(arm.name)
    grid = [[" "] * wide for _ in range(tall)]
    for mark, (up, along) in zip(_MARKS, cells, strict=False):
        grid[up][along] = mark
    lines = [measure(comparison)]
    for i, row in enumerate(grid):
        label = share(high, 3) if i == 0 else share(low, 3) if i == tall - 1 else ""
        lines.append(f"{label:>6} │{''.join(row)}".rstrip())
    end = dollars(right, exact=True) if unit == "$" else f"{right:,.0f} tokens"
    lines += [f"{'':>6} └{'─' * wide}", f"{'':>8}0{end:>{wide - 1}}"]
    return "\n".join([*lines, *_names(cells.values(), max(width, 20))])


def _names(together: Iterable[Sequence[str]], width: int) -> Iterator[str]:
    """The legend of the marks, as many on a line as fit."""
    line = " " * 8
    for mark, names in zip(_MARKS, together, strict=False):
        entry = f"{mark} {', '.join(names)}"
        if line.strip() and len(line) + len(entry) > width:
            yield line.rstrip()
            line = " " * 8
        line += entry + "   "
    yield line.rstrip()


class TextPart(NamedTuple):
    """A part of a line, and whether it is the best of its column."""

    text: str
    best: bool = False


def table_parts(comparison: Comparison, width: int) -> Iterator[list[TextPart]]:
    """The whole, a line at a time; columns that do not fit fall away from the right, and a line
    says which.
    """
    yield from _table(comparison, width)
    for line in footer(comparison):
        yield from ([TextPart(part)] for part in folded(line, width))
    drawn = text(comparison, width)
    if drawn:
        yield []
        yield from ([TextPart(line)] for line in drawn.splitlines())


def plain(comparison: Comparison, width: int) -> str:
    """The whole as one text."""
    return "\n".join(joined(line).rstrip() for line in table_parts(comparison, width))


def joined(parts: list[TextPart]) -> str:
    """A line as text."""
    return (" " * GAP).join(part.text for part in parts)


def _table(comparison: Comparison, width: int) -> Iterator[list[TextPart]]:
    cells = columns(comparison)
    kept, widths = fitting([Column(c.title, c.texts, c.right) for c in cells], width)
    shown = list(zip(cells, widths, strict=False))
    yield [TextPart(fit(c.title, w, right=c.right)) for c, w in shown]
    for i in range(len(comparison)):
        yield [TextPart(fit(c.texts[i], w, right=c.right), i in c.best) for c, w in shown]
    if gone := cells[len(kept) :]:
        more = f"… {plural(len(gone), 'more column')}: {', '.join(c.title for c in gone)}"
        yield from ([TextPart(part)] for part in folded(more, width))


def lines(comparison: Comparison, width: int) -> Iterator[Text]:
    """The whole, a line at a time; columns that do not fit fall away from the right, and a line
    says which.
    """
    from rich.text import Text

    for parts in table_parts(comparison, width):
        result = Text(" " * GAP).join(
            Text(part.text, "bold" if part.best else "") for part in parts
        )
        result.rstrip()
        yield result


def html(comparison: Comparison) -> str:
    """The whole as one piece of HTML."""
    cells = columns(comparison)
    head = "".join(f"<th>{escape(column.title)}</th>" for column in cells)
    rows = "".join(
        f"<tr>{''.join(_cell(column, i) for column in cells)}</tr>" for i in range(len(comparison))
    )
    below = "".join(f"<p>{escape(line)}</p>" for line in footer(comparison))
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="semgraph">{table}{below}{_chart(comparison)}</div>'


def _cell(column: Cells, i: int) -> str:
    text = escape(column.texts[i])
    side = "right" if column.right else "left"
    return f'<td style="text-align:{side}">{f"<b>{text}</b>" if i in column.best else text}</td>'


def _chart(comparison: Comparison) -> str:
    drawn_chart = chart(comparison)
    if isinstance(drawn_chart, str):
        return f"<pre>{escape(drawn_chart)}</pre>" if drawn_chart else ""
    drawn = StringIO()
    drawn_chart.savefig(drawn, format="svg")
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]
