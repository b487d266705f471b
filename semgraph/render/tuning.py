"""A tuning in a terminal: what is chosen and promised, the candidates in the order of trial, the chart,
what the search cost. Notebooks and pages show the same parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import floor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semgraph.compare.comparison import Arm
from semgraph.display import command
from semgraph.errors import PlanError
from semgraph.formats import UNKNOWN, count, dollars, duration, escaped, plural, short, stopped
from semgraph.render.chart import NONE, Axis, Plot, Point, front, share, text
from semgraph.render.tables import Column, fitting, folded, result_lines, styled

if TYPE_CHECKING:
    from rich.text import Text

    from semgraph.tune.tuning import Tried, Tuning

STEPS = "what the candidates of each step lose, over the answers of the reference"
_UNITS = {"call": "rows, each in its own call", "row": "rows, several to a call", "group": "groups"}
_BOUND = "at least: the exact lower bound of F1; alpha: the greatest probability that it is wrong"
_ROWS = 10  # disagreements


def headline(tuning: Tuning) -> list[str]:
    """What is chosen, what is promised and what is not; then power and gain."""
    best, cost, why = tuning.best, partial(_cost, tuning), tuning.reason.rstrip(".")
    found = [f"Nothing is chosen for {tuning.plan}, which stays as it is: {why}."]
    if best is not None:
        bound, costs = f"{_down(best.at_least) or 0:.3f}", f"1,000 rows cost {cost(best.cost)}"
        if tuning.status == "shown":
            what = f"shown to have an F1 of at least {bound}, the most within {cost(tuning.per_1000)} for 1,000 rows"
            if tuning.floor is not None:
                what = f"the cheapest shown to have an F1 of at least {tuning.floor:g}"
            costs += f", and {cost(tuning.reference.cost)} with the reference, the plan as it is"
            found = [f"Chosen for {tuning.plan}: {best.name}, {what}. {costs}."]
        elif tuning.status == "found":
            f1 = f"a measured F1 of {best.f1:.3f}"
            if best.at_least is not None:
                f1 += f" (at least {bound}): more checked rows may show it"
            found.append(f"Found, not shown: {best.name}: {f1}. {costs}.")
    promise = f"Promised: {tuning.promise}" if tuning.promise else "Nothing is promised."
    return [*found, promise, *tuning.caveats, *tuning.before]


def columns(tuning: Tuning) -> list[Column]:
    """The reference and the tried candidates in the order of trial."""
    every = [t for t in _every(tuning) if t.verdict not in ("not tried", "refused", "failed")]
    alphas = [NONE if None in (t.alpha, t.at_least) else f"{t.alpha:.2g}" for t in every]
    units = [count(t.units) if t.units and tuning.unit != "group" else NONE for t in every]
    seldom = [Column("checked", units, True, drop=1), Column("alpha", alphas, True, drop=2)]
    return [
        Column("candidate", [t.name for t in every], drop=-1),
        _costs(tuning, every),
        Column("F1", [share(t.f1, 3) for t in every], True, drop=-1),
        Column("at least", [share(_down(t.at_least), 3) for t in every], True, drop=-1),
        *(column for column in seldom if {*column.cells} != {NONE}),
        Column("verdict", [_verdict(tuning, t) for t in every], drop=-1),
    ]


def losses(tuning: Tuning) -> list[Column]:
    """What the candidates of each step cost and lose."""
    own = tuning.losses
    return [
        Column("step", [each.step for each in own], drop=-1),
        Column("candidate", [e.name.removeprefix(f"{e.step}=") for e in own], drop=-1),
        _costs(tuning, own),
        Column("F1", [share(each.f1, 3) for each in own], True, drop=-1),
        Column("loss", [share(None if e.f1 is None else 1 - e.f1, 3) for e in own], True, drop=-1),
        Column("rows", [count(each.units) if each.units else NONE for each in own], True, drop=1),
        Column("chosen", ["yes" if each.chosen else "" for each in own], drop=-1),
    ]


def checked(tuning: Tuning) -> list[str]:
    """How candidates were checked, and in which order, if any was tried; then why others have no figures."""
    (number, every), again = tuning.sampled, tuning.agrees
    drawn = f"up to {count(number)} of {count(every)} {_UNITS[tuning.unit]}"
    itself = "" if again is None else f" · the reference agrees with itself {share(again, 3)}"
    bound = [_BOUND] * any(tried.at_least is not None for tried in tuning.tried)
    first = f"{tuning.measure} · {drawn} · sample {tuning.sample}{itself}"
    how = [first, *bound, f"order of trial: {tuning.rule}"]
    why: dict[str, list[str]] = {}
    for t in (each for each in tuning.tried if each.why):
        own, what = f"{t.verdict}: {t.name}", t.why
        if t.verdict == "not tried":
            own, what = f"not tried, {t.why}", f"{t.name} {_cost(tuning, t.cost)}"
        why.setdefault(own, []).append(what)
    below = (f"{own}: {' · '.join(each)}" for own, each in why.items())
    return [*how * any(tried.units for tried in tuning.tried), *below]


def outcome(tuning: Tuning) -> list[str]:
    """What the search cost, the written file, and the next command."""
    both = [
        f"{plural(s.calls, 'call')}, {'price unknown' if s.dollars is None else dollars(s.dollars, exact=True)}"
        for s in (tuning.spent, tuning.paid)
    ]
    cost = f"The search cost {both[0]} · paid now {both[1]} · {duration(tuning.seconds)}"
    if tuning.status == "shown" and tuning.priced:
        after = tuning.pays_back
        cost += f" · pays back after {plural(after, 'row')}" if after else " · it never pays back"
    cost += f" · recorded as tuning {tuning.id}" if tuning.record is not None else ""
    told = [cost, *([f"! {stopped(tuning.stopped)}"] if tuning.stopped else [])]
    if tuning.file is not None:
        known = tuning.file == Path("plans", f"{tuning.plan}.tuned.yaml")
        run = f"semgraph run {tuning.source or tuning.plan} --preset {'tuned' if known else tuning.file}"
        told.append(f"Written: {tuning.file} · run it: {run}")
    return told


def plot(tuning: Tuning) -> Plot | None:
    """F1 over cost, with the exact bounds as bars; None with fewer than two points. Without a truth, the
    F1 of the reference is that with itself.
    """
    itself = tuning.agrees if tuning.reference.f1 is None else tuning.reference.f1
    points = [
        Point(Arm(t.name, t.changes), t.cost, f1, f1 if t.at_least is None else t.at_least, f1)
        for t in _every(tuning)
        if (f1 := itself if t is tuning.reference else t.f1) is not None and t.cost is not None
    ]
    if len(points) < 2:
        return None
    ends = [each.low for each in points] + [each.high for each in points]
    ends += [] if tuning.floor is None else [tuning.floor]
    costs = f"{'dollars' if tuning.priced else 'tokens'} of 1,000 rows"
    x = Axis.of(costs, (each.x for each in points), lambda value: _cost(tuning, value))
    y = Axis.of(tuning.measure or "F1", ends, lambda value: share(value, 3), log=False)
    bars = "from F1 down to its exact lower bound" * any(p.low < p.high for p in points)
    told = bars, "no other is cheaper and better", list[str](), "Costs are of 1,000 rows."
    return Plot(x, y, points, front(points), *told, tuning.floor)


def lines(tuning: Tuning, width: int) -> Iterator[Text]:
    """All lines of the report."""
    from rich.text import Text

    def told(*texts: str) -> Iterator[Text]:
        yield from (Text(escaped(part)) for text in texts for part in folded(text, width))

    yield from (*told(*headline(tuning)), Text())
    table = columns(tuning)
    bold = frozenset([list(table[0].cells).index(tuning.chosen)] if tuning.choices else ())
    whole = fitting(table, width, whole=True)[0]  # without alpha, rather than with a name cut
    fitted = whole if whole[-1] is table[-1] else table
    yield from styled([replace(each, best=bold) for each in fitted], width, indent=0)
    yield from told(*checked(tuning))
    if tuning.losses:
        yield from (Text(), *told(f"steps: {STEPS}"), *styled(losses(tuning), width))
    if (drawn := plot(tuning)) is not None:
        yield from (Text(), *map(Text, escaped(text(drawn, width)).splitlines()))
    yield Text()
    with suppress(PlanError):  # whole plans have no rows in common
        differ, own = tuning.disagreements(), "chosen" if tuning.choices else "found"
        names = [own if each == tuning.chosen else each for each in differ.column_names]
        name, differ = f"{own} and reference disagree", differ.rename_columns(names)
        yield from map(Text, result_lines(name, differ, width, rows=_ROWS))
        shell = f"semgraph report {tuning.id} -o {tuning.plan}.html"
        python = f"tuning.comparison[{tuning.chosen!r}].why(COLUMN=VALUE)"
        yield from (*told(f"prompts and answers of each row: {command(shell, python)}"), Text())
    yield from told(*outcome(tuning))


def rows(tuning: Tuning) -> list[dict[str, Any]]:
    """A row for the reference and for each candidate, with what its trials cost."""
    apart = ("changes", "spent")
    own = [{n: v for n, v in vars(t).items() if n not in apart} for t in _every(tuning)]
    return [row | vars(t.spent) for row, t in zip(own, _every(tuning), strict=True)]


def _every(tuning: Tuning) -> list[Tried]:
    return [tuning.reference, *tuning.tried]


def _verdict(tuning: Tuning, tried: Tried) -> str:
    """The verdict on a candidate, in words. Without a floor each bound holds, and none is refused."""
    if tried.verdict == "hopeless":
        return f"hopeless after {count(tried.units)}"
    judged = tuning.floor is not None or tried is tuning.reference
    what = tried.verdict if judged else "measured"
    mark = {"shown": "chosen, ", "found": "found, "}.get(tuning.status, "")
    return mark * (tried is tuning.best) + what


def _costs(tuning: Tuning, own: Any) -> Column:
    cells = [_cost(tuning, each.cost).removeprefix("$").removesuffix(" tokens") for each in own]
    return Column(f"{'$' if tuning.priced else 'tokens'} / 1,000 rows", cells, True, drop=-1)


def _cost(tuning: Tuning, value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return dollars(value, exact=True) if tuning.priced else f"{short(round(value))} tokens"


def _down(value: float | None) -> float | None:
    """A bound, rounded down."""
    return None if value is None else floor(value * 1000 + 1e-9) / 1000
