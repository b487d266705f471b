"""Tables of results, as Markdown: every cell is made of lines."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.suite.lines import Line

Key = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One figure.

    Args:
        figure: Its name in the lines.
        title: What stands above it, with its unit.
        form: How a number is written.
        ratio: Whether the multiple of the baseline's stands beside it.
    """

    figure: str
    title: str
    form: str = "{:,.0f}"
    ratio: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of one kind, and what is shown of them. A cell of several trials is their median, with the lowest and the highest.

    Args:
        question: What it answers; one sentence.
        rows: The names of the key that tell its rows apart.
        columns: What is shown.
        where: Which lines.
        baseline: What of a row's key is replaced to find the row that ratios refer to. A ratio is the median of those
            of the trials.
        note: Below it.
    """

    question: str
    rows: tuple[str, ...]
    columns: tuple[Column, ...]
    where: Key = field(default_factory=dict)
    baseline: Key | None = None
    note: str = ""

    def markdown(self, lines: Sequence[Line], order: Sequence[Key]) -> str:
        """The table over these lines; rows as the cases stand in the benchmark."""
        own = [line for line in lines if line.is_of(self.where)]
        keys = [key for key in order if any(line.key == key for line in own)]
        if not keys:
            return f"**{self.question}**\n\nNot measured yet.\n"
        titles = [*self.rows, *(column.title for column in self.columns), ""]
        aligned = ["---"] * len(self.rows) + ["--:"] * len(self.columns) + ["---"]
        body = [self._row(key, own) for key in keys]
        table = "\n".join("| " + " | ".join(cells) + " |" for cells in [titles, aligned, *body])
        return f"**{self.question}**\n\n{table}\n" + (f"\n{self.note}\n" if self.note else "")

    def _row(self, key: Key, lines: Sequence[Line]) -> list[str]:
        mine = [line for line in lines if line.key == key]
        base = [line for line in lines if self.baseline is not None and line.key == {**key, **self.baseline}]
        cells = [f"{key[name]}" for name in self.rows]
        beside = base if base and base[0].key != key else []
        cells += [_cell(column, mine, beside) for column in self.columns]
        failed = [line for line in mine if line.failed]
        said = f"{len(failed)} of {len(mine)} failed: {failed[0].failed}" if failed else ""
        return [*cells, said]


def values(lines: Iterable[Line], figure: str) -> list[Any]:
    """What the trials measured, without those that failed."""
    found = [line.figures.get(figure) for line in lines if not line.failed]
    return [value for value in found if value is not None]


def _cell(column: Column, lines: Sequence[Line], base: Sequence[Line]) -> str:
    found = values(lines, column.figure)
    if not found or isinstance(found[0], str):
        return found[0] if found else "—"
    text = column.form.format(statistics.median(found))
    lowest, highest = (column.form.format(end) for end in (min(found), max(found)))
    spread = f" ({lowest}–{highest})" if lowest != highest else ""
    times = ratio(lines, base, column.figure) if column.ratio else None
    return text + spread + (f", {times:.2f}×" if times is not None else "")


def ratio(lines: Sequence[Line], base: Sequence[Line], figure: str) -> float | None:
    """The median of the trials' own multiples of the baseline."""
    theirs = {line.trial: line.figures.get(figure) for line in base if not line.failed}
    pairs = [(line.figures.get(figure), theirs.get(line.trial)) for line in lines if not line.failed]
    found = [ours / other for ours, other in pairs if ours is not None and other]
    return statistics.median(found) if found else None


@dataclass(frozen=True)
class Chart:
    """Points of two figures, a series for each value of one name of the key.

    Args:
        name: Of its file.
        title: What it shows.
        x: Figure or name of the key.
        y: Figure.
        series: Name of the key.
        labels: What stands at the axes.
        where: Which lines.
        log: Which axes are logarithmic: "", "x", "y", "xy".
    """

    name: str
    title: str
    x: str
    y: str
    series: str
    labels: tuple[str, str]
    where: Key = field(default_factory=dict)
    log: str = ""

    def points(self, lines: Iterable[Line]) -> dict[str, list[tuple[float, float]]]:
        """Medians over the trials, by series."""
        cases: dict[tuple[str, float], list[float]] = {}
        for line in lines:
            x = line.figures.get(self.x, line.key.get(self.x))
            y = line.figures.get(self.y)
            if line.is_of(self.where) and not line.failed and x is not None and y is not None:
                cases.setdefault((str(line.key[self.series]), x), []).append(y)
        found: dict[str, list[tuple[float, float]]] = {}
        for (series, x), ys in sorted(cases.items()):
            found.setdefault(series, []).append((x, statistics.median(ys)))
        return found
