"""The page of a comparison: the table with its intervals, cost beside quality, where the ways
differ, what was asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from semgraph.compare.comparison import Arm, Comparison, Trial
from semgraph.execution.record import Run
from semgraph.formats import count, dollars, plural
from semgraph.provenance import Lookup
from semgraph.render.comparison import columns, footer, measure, points, share
from semgraph.render.html.calls import Opened, listed, shown
from semgraph.render.html.graph import ticks
from semgraph.render.html.markup import Html, el, join, listed_facts, scrolling, table, when
from semgraph.render.html.records import Call, measured
from semgraph.render.tables import cell

_ROWS = 100
Scale = Callable[[float], float]
_WIDE, _HIGH = 640, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 32, 52
_SHAPES = ("M-6 0a6 6 0 1 0 12 0a6 6 0 1 0 -12 0z", "M-6-6H6V6H-6z", "M0-8L7 5H-7z", "M0-8L8 0L0 8L-8 0z", "M0 8L7-5H-7z",
           "M-2-7H2V-2H7V2H2V7H-2V2H-7V-2H-2z")  # fmt: skip


def title(comparison: Comparison) -> str:
    """Plan, step, and the comparison's id."""
    what = f"{comparison.plan} · {comparison.step}" if comparison.step else comparison.plan
    return f"{what} · comparison {comparison.id}"


def sections(
    comparison: Comparison, run: Run, lookup: Lookup, opened: Opened, anchor: str
) -> Iterator[tuple[str, str, Html]]:
    """The parts of a comparison's page: anchor, heading, content.

    Args:
        comparison: What was found.
        run: Its record.
        lookup: The journal: a call by its id.
        opened: Takes its calls.
        anchor: What its anchors begin with.
    """
    yield f"{anchor}-table", "The ways", join([_table(comparison), _facts(comparison, run)])
    drawn = chart(comparison, anchor)
    if drawn is not None:
        yield f"{anchor}-chart", "Cost and quality", drawn
    differences = list(_differences(comparison))
    if differences:
        yield f"{anchor}-rows", "Where they differ", join(differences)
    every = _calls(comparison)
    calls = [(opened.add(call, lookup), measured(call, lookup)) for call in shown(every)]
    if calls:
        yield f"{anchor}-calls", "Prompts and answers", listed(calls, len(every), None)


def _table(comparison: Comparison) -> Html:
    cells = columns(comparison)
    rows = [
        [
            el("b", c.texts[i], el("span", " (best)", cls="hidden")) if i in c.best else c.texts[i]
            for c in cells
        ]
        for i in range(len(comparison))
    ]
    numbers = [i for i, c in enumerate(cells) if c.right]
    caption = "What each way costs and how good it is. Bold numbers: the best of their column."
    below = el("ul", *(el("li", line) for line in footer(comparison)), cls="notes")
    return join([table(caption, [c.title for c in cells], rows, numbers), below])


def _facts(comparison: Comparison, run: Run) -> Html:
    number = f"{count(comparison.trials)} of each way, with calls of their own"
    return listed_facts(
        [
            ("plan", f"{comparison.plan} ({run.facts.get('file') or 'made in code'})"),
            ("step", comparison.step or "all: whole plans"),
            ("model", comparison.model),
            ("store", comparison.store),
            ("reference", comparison.reference),
            ("trials", number),
            ("began", when(run.started)),
            ("ended", run.facts.get("status")),
        ]
    )


def chart(comparison: Comparison, anchor: str) -> Html | None:
    """Cost across, quality up, with intervals; None with fewer than two points. Ways differ in
    shape, colour and name.
    """
    unit, found = points(comparison)
    if len(found) < 2:
        return None
    marks = ticks(max(x for _, x, _ in found) * 1.05)
    right = max(marks[-1], *(x for _, x, _ in found)) or 1.0
    spans = [(arm.quality.interval or (y, y)) for arm, _, y in found]
    low, high = min(min(s) for s in spans), max(max(s) for s in spans)
    low, high = (
        max(0.0, low - (high - low or 0.1) * 0.15),
        min(1.0, high + (high - low or 0.1) * 0.15),
    )
    across: Scale = lambda x: _LEFT + x / right * (_WIDE - _LEFT - _RIGHT)  # noqa: E731
    up: Scale = lambda y: _TOP + (high - y) / (high - low or 1) * (_HIGH - _TOP - _BOTTOM)  # noqa: E731
    parts = [*_axes(unit, measure(comparison), marks, (low, high), across, up)]
    taken: list[float] = []
    for i, ((arm, x, y), span) in enumerate(zip(found, spans, strict=True)):
        level = _free(up(y) + 4, taken)
        parts.append(_point(i, arm.name, (across(x), up(y), level), (up(span[0]), up(span[1]))))
    said = "; ".join(
        f"{arm.name}: {_money(x, unit)}, {measure(comparison)} {share(y, 3)}" for arm, x, y in found
    )
    svg = el(
        "svg", el("title", "Cost and quality", id=f"{anchor}-chart-title"),
        el("desc", said, id=f"{anchor}-chart-desc"), *parts,
        cls="chart", role="img", aria_labelledby=f"{anchor}-chart-title {anchor}-chart-desc", width=_WIDE, height=_HIGH,
        viewBox=f"0 0 {_WIDE} {_HIGH}",
    )  # fmt: skip
    bars = " Bars: 95 % intervals." if any(arm.quality.interval for arm, _, _ in found) else ""
    return el(
        "figure",
        scrolling(svg, "Chart of cost and quality"),
        el("figcaption", f"Up is better, left is cheaper; one trial, cold.{bars}"),
    )


def _free(level: float, taken: list[float]) -> float:
    """A height for a name at which no other stands."""
    while any(abs(level - other) < 15 for other in taken):
        level += 15
    taken.append(level)
    return level


def _money(value: float, unit: str) -> str:
    return dollars(value, exact=True) if unit == "$" else f"{value:,.0f} tokens"


def _axes(
    unit: str, name: str, marks: list[float], span: tuple[float, float], across: Scale, up: Scale
) -> Iterator[Html]:
    bottom, right = _HIGH - _BOTTOM, _WIDE - _RIGHT
    yield el("path", d=f"M{_LEFT} {_TOP}V{bottom}H{right}", cls="axis")
    for x in marks:
        yield el(
            "text",
            _money(x, unit) if unit == "$" else f"{x:,.0f}",
            x=f"{across(x):.1f}",
            y=bottom + 18,
            cls="tick across",
        )
    for i in range(5):
        y = span[0] + (span[1] - span[0]) * i / 4
        yield el("path", d=f"M{_LEFT} {up(y):.1f}H{right}", cls="rule")
        yield el("text", share(y, 3), x=_LEFT - 8, y=f"{up(y) + 4:.1f}", cls="tick up")
    yield el(
        "text",
        "dollars of one trial" if unit == "$" else "tokens of one trial",
        x=(_LEFT + right) / 2,
        y=_HIGH - 10,
        cls="tick across",
    )
    yield el("text", name, x=8, y=14, cls="tick")


def _point(i: int, name: str, place: tuple[float, float, float], span: tuple[float, float]) -> Html:
    x, y, level = place
    bar = el(
        "path",
        d=f"M{x:.1f} {span[0]:.1f}V{span[1]:.1f}M{x - 4:.1f} {span[0]:.1f}h8M{x - 4:.1f} {span[1]:.1f}h8",
        cls="interval",
    )
    mark = el(
        "path", d=_SHAPES[i % len(_SHAPES)], transform=f"translate({x:.1f} {y:.1f})", cls="point"
    )
    label = el(
        "text",
        name if len(name) <= 24 else name[:23] + "…",
        x=f"{x + 13:.1f}",
        y=f"{level:.1f}",
        cls="point-name",
    )
    return el(
        "g",
        el("title", name),
        bar if span[0] != span[1] else "",
        mark,
        label,
        cls=f"way way-{i % len(_SHAPES)}",
    )


def _differences(comparison: Comparison) -> Iterator[Html]:
    """For each way the rows on which it and the reference differ."""
    if comparison.kind != "step" or not comparison.reference:
        return
    reference = comparison[comparison.reference]
    for arm in comparison:
        if arm is reference or not _trial(arm) or not _trial(reference):
            continue
        found = comparison.disagreements(arm.name, reference.name)
        rows = [
            [cell(value) for value in row.values()] for row in found.slice(0, _ROWS).to_pylist()
        ]
        differ = "differs" if found.num_rows == 1 else "differ"
        said = f"{arm.name} and {reference.name}: {plural(found.num_rows, 'row')} {differ} in the first trial"
        more = f" The first {count(_ROWS)}." if found.num_rows > _ROWS else ""
        yield (
            el("details", el("summary", said), table(f"{said}.{more}", found.column_names, rows))
            if rows
            else el("p", said, ".")
        )


def _trial(arm: Arm) -> Trial | None:
    return next((t for t in arm.trials if t.number == 0 and t.rows is not None), None)


def _calls(comparison: Comparison) -> list[Call]:
    """The calls of all ways and trials, each with what was read from it."""
    found = []
    for arm in comparison:
        for trial in arm.trials:
            items: dict[str, list[Any]] = {}
            for row in trial.answers.to_pylist() if trial.answers is not None else ():
                for call in row.get("calls") or ():
                    items.setdefault(call, []).append(row)
            name = f"{arm.name}, trial {trial.number}" if comparison.trials > 1 else arm.name
            found += [Call(call, name, {}, tuple(rows)) for call, rows in items.items()]
    return found
