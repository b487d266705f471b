"""Charts of a comparison, as SVG and in characters: quality or time (y) over cost (x), and cost by step.

`plot` and `bars` compute what both draw. Axes begin and end at round values, begin at 0 only if 0 is
near, and are logarithmic if costs or times differ much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, pairwise, product
from math import ceil, floor, log10
from string import ascii_letters
from typing import Any, NamedTuple

from rich.cells import chop_cells

from semgraph.compare.comparison import Arm, Comparison, Spent, graded, quality_of, ranked
from semgraph.errors import PlanError
from semgraph.formats import dollars, duration, plain_line, shortened
from semgraph.render.svg import SHAPES, Box, free, ticks
from semgraph.render.tables import folded

NONE = "–"
TITLES = {"quality": "Cost and quality", "time": "Cost and time", "steps": "Cost by step"}
MISSING = {
    "quality": "no chart: fewer than two variants have a quality and a cost",
    "time": "no chart: fewer than two variants have a time and a cost",
    "steps": "no chart: no cost by step is recorded",
}
_WIDE, _HIGH = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 30, 40, 56
_BAR = 58  # pixels from one variant's bar to the next
_NEAR, _FAR = 0.3, 20.0  # 0 is near below this share of the maximum; logarithmic from this factor
_LETTER, _BOLD = 6.6, 7.2  # pixels of a letter of a name
# Pixels from a point to its name, and letters of it; the first that are free are taken.
_DISTANCES, _NAMES = (12, 24, 40, 60, 84, 110, 140, 170), (64, 40, 20)
_SIDES = ((1, 0), (-1, 0), (1, -1), (1, 1), (-1, -1), (-1, 1), (0, -1), (0, 1))
_TICKS, _LINES, _COLUMNS = 9, 12, 72  # at most


class Axis(NamedTuple):
    """An axis: the name of what it measures, its round values from where it begins to where it ends,
    and the text of any value.
    """

    name: str
    values: tuple[float, ...]
    form: Callable[[float], str]
    log: bool = False

    @classmethod
    def of(
        cls, name: str, known: Iterable[float], form: Callable[[float], str], *, log: bool = True
    ) -> Axis:
        """The axis for some values.

        >>> Axis.of("$", [0.07, 0.1], str).values, Axis.of("$", [10, 50], str).values
        ((0.07, 0.08, 0.09, 0.1), (0.0, 10.0, 20.0, 30.0, 40.0, 50.0))
        >>> Axis.of("$", [3, 90], str).values, Axis.of("$", [1, 1], str).values
        ((2.0, 5.0, 10.0, 20.0, 50.0, 100.0), (0.0, 0.2, 0.4, 0.6, 0.8, 1.0))
        """
        values = sorted(known)
        low, high = values[0], values[-1] or 1.0
        if log and low > 0 and high >= _FAR * low:
            tens = range(floor(log10(low)), ceil(log10(high)) + 1)
            rounds = [10.0**ten * factor for ten in tens for factor in (1, 2, 5)][:-2]
            first = max(i for i, value in enumerate(rounds) if value <= low)
            last = min(i for i, value in enumerate(rounds) if value >= high)
            few = last - first < _TICKS
            return cls(name, tuple(rounds[first : last + 1] if few else rounds[::3]), form, True)
        low = 0.0 if low >= high or low <= _NEAR * high else low
        one, two, *_ = ticks(high, low)
        step = round(two - one, 12)
        every = range(floor(low / step + 1e-9), ceil(high / step - 1e-9) + 1)
        return cls(name, tuple(round(i * step, 12) for i in every), form)

    def at(self, value: float) -> float:
        """The position of a value: 0 is the begin, 1 the end."""
        scale: Callable[[float], float] = log10 if self.log else float
        low, high = map(scale, self.ends)
        return (scale(value) - low) / (high - low)

    @property
    def ends(self) -> tuple[float, float]:
        """Where it begins and ends."""
        return self.values[0], self.values[-1]

    @property
    def labels(self) -> list[tuple[float, str]]:
        """The positions of its round values, and their texts."""
        step, sign = self.values[1] - self.values[0], "$" * self.name.startswith("dollars")
        grains = [value if self.log else step if value else 1.0 for value in self.values]
        digits = [max(0, -floor(log10(grain) + 1e-9)) for grain in grains]
        pairs = zip(self.values, digits, strict=True)
        return [(self.at(value), f"{sign}{value:,.{digit}f}") for value, digit in pairs]

    @property
    def title(self) -> str:
        """Its name, and where it begins unless at 0."""
        begins = f", from {self.labels[0][1]}" if self.values[0] else ""
        return self.name + begins + ", logarithmic" * self.log


class Point(NamedTuple):
    """A variant with its cost, and its quality or time with the ends of an interval."""

    arm: Arm
    x: float
    y: float
    low: float
    high: float


class Plot(NamedTuple):
    """Points, the axes that fit them, the points of the front, what intervals and the front are, the
    variants without a point, what costs are of, and a value of y that is drawn as a line.
    """

    x: Axis
    y: Axis
    points: list[Point]
    front: list[Point]
    interval: str
    best: str
    absent: list[str]
    of: str = "One trial, cold."
    floor: float | None = None


class Bars(NamedTuple):
    """The letters and names of the steps, the most expensive first, and each variant with the ends of
    their parts of the bar: 0, and the costs of one trial up to each step.
    """

    x: Axis
    steps: list[tuple[str, str]]
    rows: list[tuple[Arm, list[float]]]


def costs(comparison: Comparison) -> tuple[str, Callable[[Spent], float], Callable[[float], str]]:
    """The name, measure and text of costs: dollars if all prices are known, else tokens."""
    spent = [arm.cold for arm in comparison if arm.trials]
    if all(each.dollars is not None for each in spent) and any(each.dollars for each in spent):
        return "dollars of one trial", lambda s: s.dollars or 0.0, lambda v: dollars(v, exact=True)
    return "tokens of one trial", lambda s: s.tokens_in + s.tokens_out, lambda v: f"{v:,.0f} tokens"


def times(arms: Sequence[Arm]) -> tuple[str, list[tuple[float, ...]]]:
    """The wall times of the trials; the sums of the times of their requests if one has no wall time."""
    if all(len(arm.seconds) == len(arm.trials) for arm in arms):
        return "time", [arm.seconds for arm in arms]
    return "model time", [arm.model_seconds for arm in arms]


def points(comparison: Comparison, kind: str = "quality") -> list[Point]:
    """The variants with a cost and a quality or time; none if all are free. Without a truth, the
    reference has agreement 1 with itself.
    """
    arms = [arm for arm in ranked(comparison) if arm.trials]
    cost, result = costs(comparison)[1], []
    for arm, seconds in zip(arms, times(arms)[1], strict=True):
        ends = seconds
        y = sum(seconds) / len(seconds) if seconds else None
        if kind == "quality":
            itself = 1.0 if not comparison.truth and arm.name == comparison.reference else None
            y = itself if (known := quality_of(arm)) is None else known
            ends = arm.quality.interval or ()
        if y is not None:
            result.append(Point(arm, cost(arm.cold), y, min([y, *ends]), max([y, *ends])))
    return result if any(point.x for point in result) else []


def front(drawn: Sequence[Point], kind: str = "quality") -> list[Point]:
    """The variants that no other one beats in cost and in quality or time, the cheapest first."""
    sign = -1 if kind == "quality" else 1
    marks = [(point.x, sign * point.y) for point in drawn]
    beaten = [any(o != own and o[0] <= own[0] and o[1] <= own[1] for o in marks) for own in marks]
    best = (point for point, is_beaten in zip(drawn, beaten, strict=True) if not is_beaten)
    return sorted(best, key=lambda point: point.x)


def plot(comparison: Comparison, kind: str) -> Plot | None:
    """Quality or time over cost; None with fewer than two points."""
    drawn = points(comparison, kind)
    if len(drawn) < 2:
        return None
    name, _, form = costs(comparison)
    x = Axis.of(name, (point.x for point in drawn), form)
    ends = [end for point in drawn for end in (point.low, point.high)]
    if kind == "quality":
        y = Axis.of(measure(comparison), ends, lambda value: share(value, 3), log=False)
        interval, best = "95 % interval", "better"
    else:
        of = times([arm for arm in comparison if arm.trials])[0]
        y = Axis.of(f"{of} of one trial in seconds", ends, duration)
        interval, best = "lowest to highest of the trials", "faster"
    interval *= any(point.low < point.high for point in drawn)
    absent = {arm.name for arm in comparison} - {point.arm.name for point in drawn}
    notes = f"no other is cheaper and {best}", sorted(map(plain_line, absent))
    return Plot(x, y, drawn, front(drawn, kind), interval, *notes)


def bars(comparison: Comparison) -> Bars | None:
    """The cost of each step of each variant; None if it is unknown or 0."""
    name, cost, form = costs(comparison)
    arms = [arm for arm in ranked(comparison) if arm.trials]
    spent = [{step: cost(each) for step, each in arm.steps.items()} for arm in arms]
    total = {step: sum(each.get(step, 0) for each in spent) for each in spent for step in each}
    steps = sorted(filter(total.__getitem__, total), key=lambda step: -total[step])
    rows = [list(accumulate((each.get(s, 0.0) for s in steps), initial=0.0)) for each in spent]
    x = Axis.of(name, [0.0, *(ends[-1] for ends in rows)], form)
    named = [(_letter(n), step or "embeddings") for n, step in enumerate(steps)]
    return Bars(x, named, list(zip(arms, rows, strict=True))) if steps else None


def measure(comparison: Comparison) -> str:
    """The name of the quality axis: edges of graphs, nodes of graphs without edges, or a measure."""
    if comparison.measures:
        return comparison.measures[0]
    graphs = [arm for arm in comparison if arm.trials and graded(arm)]
    nodes = [arm for arm in graphs if arm.quality.f1 is None]
    if not comparison.truth:
        of = " of nodes" if graphs and nodes == graphs else ""
        return f"agreement{of} with {comparison.reference}"
    if nodes:
        return "node B³" if nodes == graphs else "edge F1, without edges node B³"
    return "edge F1" if graphs else "F1"


def share(value: float | None, digits: int = 2) -> str:
    """A share of 1, without a leading zero.

    >>> share(0.934), share(1.0), share(None), share(0.9405, 3)
    ('.93', '1.00', '–', '.941')
    """
    if value is None:
        return NONE
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if value < 1 else text


Drawable = Comparison | Plot | None


def drawn_as(comparison: Drawable, kind: str) -> Plot | Bars | None:
    """What a chart draws; None without points or bars. Raises PlanError for another kind."""
    if not isinstance(comparison, Comparison):
        return comparison
    if kind not in TITLES:
        raise PlanError(f'there is no chart "{kind}"', there="charts: " + ", ".join(TITLES))
    return bars(comparison) if kind == "steps" else plot(comparison, kind)


# SVG


def svg(comparison: Drawable, anchor: str, kind: str = "quality") -> dict[str, Any] | None:
    """The chart for the template `parts.html.j2`; None if there is nothing to draw. Variants differ in
    shape, colour and name, steps in colour and letter.
    """
    drawn = drawn_as(comparison, kind)
    if drawn is None:
        return None
    marks, unnamed = _marks(drawn) if isinstance(drawn, Plot) else ([], [])
    top, high = (_TOP, _HIGH) if marks else (0, _BOTTOM + _BAR * len(drawn[2]))
    return {
        "anchor": f"{anchor}-{kind}", "title": TITLES[kind], "drawn": drawn, "marks": marks, "unnamed": unnamed, "bar": _BAR,
        "width": _WIDE, "height": high, "left": _LEFT, "right": _WIDE - _RIGHT, "top": top, "bottom": high - _BOTTOM,
    }  # fmt: skip


def _marks(drawn: Plot) -> tuple[list[dict[str, Any]], list[str]]:
    """The marks and the ends of the intervals, each with its name at the nearest position where it
    covers no other name, mark or interval, with a line to it if that is far; and the names that are
    cut or have no position.
    """
    marks, taken, unnamed = list[dict[str, Any]](), list[Box](), list[str]()
    for i, p in enumerate(drawn.points):
        x = _LEFT + drawn.x.at(p.x) * (_WIDE - _LEFT - _RIGHT)
        ends = (drawn.y.at(value) for value in (p.y, p.low, p.high))
        y, low, high = (_HIGH - _BOTTOM - end * (_HIGH - _TOP - _BOTTOM) for end in ends)
        taken += [Box(x - 7, y - 7, x + 7, y + 7), Box(x - 4, high - 2, x + 4, low + 2)]
        marks.append({
            "title": plain_line(p.arm.name), "x": x, "y": y, "low": low, "high": high, "best": p in drawn.front,
            "colour": i % len(SHAPES), "shape": SHAPES[i % len(SHAPES)],
        })  # fmt: skip
    for mark in sorted(marks, key=lambda m: -abs(m["x"] - _WIDE / 2)):  # few places at the sides
        x, y, title = mark["x"], mark["y"], mark["title"]
        letter = _BOLD if mark["best"] else _LETTER
        names = dict.fromkeys(shortened(title, letters) for letters in _NAMES)
        boxes = ((name, free(_beside(x, y, len(name) * letter), taken)) for name in names)
        name, box = next(((name, box) for name, box in boxes if box), ("", Box(x, y, x, y)))
        unnamed += [title] * (name != title)
        mark |= {"name": name, "name_x": box.left, "name_y": box.top + 12}
        to_x, to_y = min(max(x, box.left), box.right), box.top + 8
        if name and max(abs(x - to_x), abs(y - to_y)) > _DISTANCES[0] + 0.5:
            mark["lead"] = f"M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}"
    return marks, unnamed


def _beside(x: float, y: float, wide: float) -> Iterator[Box]:
    """The places for a name beside a mark and within the axes, the nearest first."""
    for distance, (side, up) in product(_DISTANCES, _SIDES):
        left, at = x + side * distance - wide * (0.5 - side / 2), y + up * distance
        box = Box(left, at - 8, left + wide, at + 8)
        if box.left > _LEFT and box.right < _WIDE and 18 < box.top < _HIGH - _BOTTOM - 14:
            yield box


# Characters


def text(comparison: Drawable, width: int, kind: str = "quality") -> str:
    """The chart in characters, no line wider than `width`; or why there is none. Variants at one
    position share a letter.
    """
    drawn, width = drawn_as(comparison, kind), max(width, 24)
    if drawn is None:
        return MISSING[kind]
    lines = _of_bars(drawn, width) if isinstance(drawn, Bars) else _of_plot(drawn, width)
    return "\n".join(part for line in lines for part in chop_cells(line.rstrip(), width))


def _letter(number: int) -> str:
    """The letter of a position or step; those beyond the last letter share a sign."""
    return ascii_letters[number] if number < len(ascii_letters) else "+"


def _of_plot(drawn: Plot, width: int) -> Iterator[str]:
    x, y = drawn.x, drawn.y
    margin = max(len(label) for _, label in y.labels)
    wide = min(width - margin - 5, _COLUMNS)
    tall = (len(y.values) - 1) * max(1, _LINES // len(y.values)) + 1

    def line_of(value: float) -> int:
        return round((1 - y.at(value)) * (tall - 1))

    cells: dict[tuple[int, int], list[Point]] = {}
    for point in drawn.points:
        place = line_of(point.y), round(x.at(point.x) * (wide - 1))
        cells.setdefault(place, []).append(point)
    grid = [[" "] * (wide + 1) for _ in range(tall)]
    for (line, column), held in cells.items():
        grid[line][column + 1] = "*" if any(p in drawn.front for p in held) else " "
    for n, (line, column) in enumerate(cells):
        grid[line][column] = _letter(n)
    spans = hidden = False
    for (line, column), held in cells.items():
        top, end = line_of(max(p.high for p in held)), line_of(min(p.low for p in held))
        span = [i for i in range(top, end + 1) if i != line]
        is_free = all(grid[i][column] == " " for i in span)
        spans, hidden = spans | bool(span), hidden | (not is_free)
        for i in span if is_free else ():
            grid[i][column] = "│"
    if drawn.floor is not None:
        line = line_of(drawn.floor)
        grid[line] = ["┄" if sign == " " else sign for sign in grid[line]]
    labels = {line_of(value): text for value, (_, text) in zip(y.values, y.labels, strict=True)}
    yield y.title
    for i, row in enumerate(grid):
        yield f"{labels.get(i, ''):>{margin}} {'┤' if i in labels else '│'} {''.join(row)}"
    yield from _axis_lines(x, " " * (margin + 1) + "└─", wide, width)
    best = [["*" * (p in drawn.front) + plain_line(p.arm.name) for p in c] for c in cells.values()]
    names = (f"{_letter(n)} {', '.join(shared)}" for n, shared in enumerate(best))
    yield from folded("  " + " · ".join(names), width)
    yield f"  * on the front: {drawn.best}"
    if spans:
        yield f"  │ {drawn.interval}" + ", where there is room" * hidden
    if drawn.floor is not None:
        yield f"  ┄ floor {drawn.floor:g}"
    if drawn.absent:
        yield from folded(f"  not drawn, as nothing is known: {', '.join(drawn.absent)}", width)


def _of_bars(drawn: Bars, width: int) -> Iterator[str]:
    wide = min(width - 4, _COLUMNS)
    for arm, ends in drawn.rows:
        yield f"{plain_line(arm.name)}  {drawn.x.form(ends[-1])}"
        columns = pairwise(ceil(drawn.x.at(end) * wide - 1e-9) for end in ends)
        parts = zip(drawn.steps, columns, strict=True)
        yield "│" + "".join(name[0] + "━" * (b - a - 1) for name, (a, b) in parts if b > a)
    yield from _axis_lines(drawn.x, "└", wide, width)
    yield from folded("  " + " · ".join(map(" ".join, drawn.steps)), width)


def _axis_lines(axis: Axis, begin: str, wide: int, width: int) -> Iterator[str]:
    """The x axis, its labels as far as they do not touch, the ends first, and its title."""
    marks = [(round(at * (wide - 1)), label) for at, label in axis.labels]
    columns = {column for column, _ in marks}
    yield begin + "".join("┬" if i in columns else "─" for i in range(wide))
    line = " " * width
    for column, label in (marks[0], marks[-1], *marks[1:-1]):
        start = min(max(len(begin) + column - len(label) // 2, 0), width - len(label))
        end = start + len(label)
        if not line[max(start - 1, 0) : end + 1].strip():
            line = line[:start] + label + line[end:]
    yield line
    yield " " * len(begin) + axis.title
