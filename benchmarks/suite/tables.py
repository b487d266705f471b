"""Tables of results, as Markdown: every cell is computed from lines."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.suite.documents import table_rows
from benchmarks.suite.lines import Line
from benchmarks.suite.statistics import Growth, Multiple, growth, multiple

Key = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One figure.

    Args:
        figure: Its name in the lines.
        title: The column's title, with the unit.
        form: The number format.
        ratio: Whether to show the multiple of the baseline too.
    """

    figure: str
    title: str
    form: str = "{:,.0f}"
    ratio: bool = False


@dataclass(frozen=True)
class Table:
    """A table of one kind of rows. A cell of several trials is their median, with the lowest and
    the highest.

    Args:
        question: The question that it answers; one sentence. "": the page says it.
        rows: Names of the key that identify a row.
        columns: The figures shown.
        where: The lines of the table.
        baseline: The part of a row's key to replace to find the row that ratios refer to. A ratio
            is the median of those of the trials.
        note: Text below it.

    Raises ValueError where a line is of another kind than the rest: measured, simulated and
    estimated never share a column.
    """

    question: str
    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    where: Key = field(default_factory=dict)
    baseline: Key | None = None
    note: str = ""

    def markdown(self, lines: Sequence[Line], order: Sequence[Key]) -> str:
        """The table over these lines; rows in the order of the benchmark's cases."""
        own = of_one_kind([line for line in lines if line.is_of(self.where)])
        keys = [key for key in order if any(line.key == key for line in own)]
        title = f"**{self.question}**\n\n" if self.question else ""
        if not keys:
            return f"{title}Not measured yet.\n"
        titles = [*map(heading, self.rows), *(column.title for column in self.columns), ""]
        aligned = ["---"] * len(self.rows) + ["--:"] * len(self.columns) + ["---"]
        body = [self._row(key, own) for key in keys]
        table = table_rows([titles, aligned, *body])
        return f"{title}{table}" + (f"\n{self.note}\n" if self.note else "")

    def _row(self, key: Key, lines: Sequence[Line]) -> list[str]:
        mine = [line for line in lines if line.key == key]
        base = [
            line
            for line in lines
            if self.baseline is not None and line.key == {**key, **self.baseline}
        ]
        cells = [f"{key[name]}" for name in self.rows]
        beside = base if base and base[0].key != key else []
        cells += [_cell(column, mine, beside) for column in self.columns]
        failed = [line for line in mine if line.failed]
        said = f"{len(failed)} of {len(mine)} failed: {failed[0].failed}" if failed else ""
        return [*cells, said]


_HEADINGS = {"way": "variant"}
"""Names of keys in the lines, and the titles of their columns."""


def heading(name: str) -> str:
    """The title of a column of keys."""
    return _HEADINGS.get(name, name)


def key_name(title: str) -> str:
    """The name of a key in the lines, from the title of its column."""
    return next((name for name, shown in _HEADINGS.items() if shown == title), title)


def values(lines: Iterable[Line], figure: str) -> list[Any]:
    """The figures of the trials that did not fail."""
    found = [line.figures.get(figure) for line in lines if not line.failed]
    return [value for value in found if value is not None]


def of_one_kind(lines: list[Line]) -> list[Line]:
    """The same lines. Raises ValueError where a simulated model, a real one and estimates are
    mixed.
    """
    if len(kinds := {line.kind for line in lines}) > 1:
        msg = f"{lines[0].benchmark}: {' and '.join(sorted(kinds))} figures in one table. Use a benchmark for each kind."
        raise ValueError(msg)
    return lines


def _cell(column: Column, lines: Sequence[Line], base: Sequence[Line]) -> str:
    found = values(lines, column.figure)
    if not found or isinstance(found[0], str):
        return found[0] if found else "—"
    text = spread(found, column.form)
    times = ratio(lines, base, column.figure) if column.ratio else None
    return text + (f", {times}" if times is not None else "")


def spread(found: Sequence[float], form: str) -> str:
    """The median, with the lowest and the highest where they differ as they are written."""
    text = form.format(statistics.median(found))
    lowest, highest = (form.format(end) for end in (min(found), max(found)))
    return text + (f" ({lowest}–{highest})" if lowest != highest else "")


def ratio(lines: Sequence[Line], base: Sequence[Line], figure: str) -> Multiple | None:
    """The multiple of the baseline, trial by trial."""
    return multiple(paired(lines, base, figure))


def paired(lines: Sequence[Line], base: Sequence[Line], figure: str) -> list[tuple[float, float]]:
    """A figure of both, by trial, without trials that failed."""
    theirs = {line.trial: line.figures.get(figure) for line in base if not line.failed}
    pairs = [
        (line.figures.get(figure), theirs.get(line.trial)) for line in lines if not line.failed
    ]
    return [
        (float(ours), float(other))
        for ours, other in pairs
        if ours is not None and other is not None
    ]


@dataclass(frozen=True)
class Chart:
    """Points of two figures, a series for each value of one name of the key.

    Args:
        name: The name of its file.
        title: The title.
        x: Figure or name of the key.
        y: Figure.
        series: Name of the key.
        labels: The labels of the axes.
        where: The lines of the chart.
        log: The logarithmic axes: "", "x", "y", "xy".
        joined: Whether points of a series are joined by a line.
        grows: Whether to fit and show the exponent of growth of each series.
        labelled: Whether a series is one point, the median of its trials in x too, with its name
            beside it in place of a legend.
        note: Text below it.
    """

    name: str
    title: str
    x: str
    y: str
    series: str
    labels: tuple[str, str]
    where: Key = field(default_factory=dict)
    log: str = ""
    joined: bool = True
    grows: bool = False
    labelled: bool = False
    note: str = ""

    def points(self, lines: Iterable[Line]) -> dict[str, list[tuple[float, float]]]:
        """Medians over the trials, by series."""
        found: dict[str, list[tuple[float, float]]] = {}
        for (series, x), ys in sorted(self._measured(lines).items()):
            found.setdefault(series, []).append((x, statistics.median(ys)))
        return found

    def ranges(self, lines: Iterable[Line]) -> dict[str, list[tuple[float, float]]]:
        """The lowest and the highest of the trials at each point, by series."""
        found: dict[str, list[tuple[float, float]]] = {}
        for (series, _), ys in sorted(self._measured(lines).items()):
            found.setdefault(series, []).append((min(ys), max(ys)))
        return found

    def exponents(self, lines: Iterable[Line]) -> dict[str, Growth]:
        """The growth of y with x, by series, if `grows` is set."""
        trials: dict[str, list[tuple[float, float]]] = {}
        for (series, x), ys in self._measured(lines).items():
            trials.setdefault(series, []).extend((x, y) for y in ys)
        fitted = {series: growth(points) for series, points in trials.items()} if self.grows else {}
        return {series: one for series, one in fitted.items() if one is not None}

    def _measured(self, lines: Iterable[Line]) -> dict[tuple[str, float], list[float]]:
        trials: dict[str, list[tuple[float, float]]] = {}
        for line in of_one_kind(
            [line for line in lines if line.is_of(self.where) and not line.failed]
        ):
            x, y = line.figures.get(self.x, line.key.get(self.x)), line.figures.get(self.y)
            if x is not None and y is not None and self.series in line.key:
                trials.setdefault(str(line.key[self.series]), []).append((x, y))
        cases: dict[tuple[str, float], list[float]] = {}
        for series, points in trials.items():
            middle = statistics.median(x for x, _ in points)
            for x, y in points:
                cases.setdefault((series, middle if self.labelled else x), []).append(y)
        return cases
