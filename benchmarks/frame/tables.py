"""Tables of results, as Markdown: every cell is computed from lines."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from benchmarks.frame.lines import Line, matches

Key = Mapping[str, Any]
OLD = "†"
_HEADINGS = {"way": "variant"}
_FEW = 6  # rows that were not measured, of a table without others


class Column(NamedTuple):
    """One figure: the column's title, the figure's name in the lines, its format, and whether to
    show the multiple of the baseline too.
    """

    title: str
    figure: str
    form: str
    ratio: bool

    @classmethod
    def parse(cls, text: str) -> Column:
        """A column from `title=figure:format ×`; only the figure is required.

        >>> Column.parse("CPU ms=cpu_ms:,.1f ×")
        Column(title='CPU ms', figure='cpu_ms', form='{:,.1f}', ratio=True)
        """
        ratio = text.endswith("×")
        title, _, of = text.removesuffix("×").strip().rpartition("=")
        figure, _, form = of.partition(":")
        return cls(title or figure, figure, f"{{:{form or ',.0f'}}}", ratio)


@dataclass(frozen=True)
class Target:
    """A figure that a case should reach.

    Args:
        what: The figure, in words.
        where: The case.
        figure: Its name.
        most: The highest that is good enough; or
        least: the lowest.
    """

    what: str
    where: Key
    figure: str
    most: float | None = None
    least: float | None = None

    def row(self, benchmark: str, lines: Sequence[Line]) -> list[str]:
        """A row of the file of targets: with the median of the trials, and whether it is reached."""
        own = [line for line in lines if line.is_of(self.where)]
        limit = f">= {self.least:g}" if self.most is None else f"<= {self.most:g}"
        if not (found := values(own, self.figure)):
            return [benchmark, self.what, limit, "", "not measured", ""]
        value = statistics.median(found)
        met = value >= (self.least or 0) and (self.most is None or value <= self.most)
        other = "other code" if any(line.old for line in own) else "this commit's"
        return [benchmark, self.what, limit, f"{value:.4g}", "yes" if met else "no", other]


@dataclass(frozen=True)
class Table:
    """A table of one kind of rows. A cell is the median of the trials, with the lowest and the
    highest in brackets.

    Args:
        question: The question that it answers; one sentence. "": the page says it.
        rows: Names of the key that identify a row, with commas between them.
        columns: The figures: columns as `Column.parse` reads them, with semicolons between them.
        where: The lines of the table.
        baseline: The part of a row's key to replace to find the row that multiples refer to. A
            multiple is the median of those of the trials, bold if it is above 1 in each of them.
        note: Text below it.
        spread: Whether to show the lowest and the highest.
    """

    question: str
    rows: str
    columns: str
    where: Key = field(default_factory=dict)
    baseline: Key | None = None
    note: str = ""
    spread: bool = True

    @property
    def names(self) -> list[str]:
        """The names of the key."""
        return self.rows.split(", ")

    def markdown(self, lines: Sequence[Line], order: Sequence[Key]) -> str:
        """The table over these lines; rows in the order of these keys, and what of them was not
        measured.
        """
        own = [line for line in lines if line.is_of(self.where)]
        keys = [key for key in order if any(line.key == key for line in own)]
        title = f"**{self.question}**\n\n" if self.question else ""
        lacking = self._lacking(keys, order)
        if not keys and not lacking:
            return f"{title}Not measured yet.\n"
        columns = [Column.parse(" ".join(text.split())) for text in self.columns.split(";")]
        body = [self._row(key, columns, own) for key in keys]
        cells = [""] * (len(self.names) - 1) + ["—"] * len(columns)
        body += [[name, *cells, "not measured"] for name in lacking]
        failures = any(row[-1] for row in body)
        titles = [_HEADINGS.get(name, name) for name in self.names]
        head = [*titles, *(column.title for column in columns), *[""] * failures]
        dashes = ["---"] * len(titles) + ["--:"] * len(columns) + ["---"] * failures
        rows = [head, dashes, *(row if failures else row[:-1] for row in body)]
        notes = [self.note, old_code([line for line in own if line.key in keys])]
        return "\n".join([title + table_rows(rows), *(f"{note}\n" for note in notes if note)])

    def _lacking(self, keys: Sequence[Key], order: Sequence[Key]) -> list[str]:
        """What has no row at all, by the first name of the key; of many ways without any: "all"."""
        first = self.names[0]
        held = {key[first] for key in keys}
        due = [key[first] for key in order if matches(key, self.where) and first in key]
        lacking = list(dict.fromkeys(f"{name}" for name in due if name not in held))
        return lacking if keys or len(lacking) <= _FEW else ["all"]

    def _row(self, key: Key, columns: Sequence[Column], lines: Sequence[Line]) -> list[str]:
        mine = [line for line in lines if line.key == key]
        base = {**key, **self.baseline} if self.baseline is not None else key
        beside = [line for line in lines if line.key == base and base != key]
        names = [f"{key[name]}" for name in self.names]
        names[-1] += f" {OLD}" * any(line.old for line in mine)
        failed = [line for line in mine if line.failed]
        said = f"{len(failed)} of {len(mine)} failed: {failed[0].failed}" if failed else ""
        return [*names, *(self._cell(column, mine, beside) for column in columns), said]

    def _cell(self, column: Column, lines: Sequence[Line], base: Sequence[Line]) -> str:
        found = values(lines, column.figure)
        if not found or isinstance(found[0], str):
            return found[0] if found else "—"
        text = _spread(found, column.form, ends=self.spread)
        times = ratios(lines, base, column.figure) if column.ratio else []
        if not times:
            return text
        shown = _spread(times, "{:.3g}", unit="×")
        return f"{text}, **{shown}**" if min(times) > 1 else f"{text}, {shown}"


def table_rows(rows: Iterable[Sequence[str]]) -> str:
    """Rows of cells, the head and its line of dashes among them, as lines of a Markdown table."""
    return "".join("| " + " | ".join(cells) + " |\n" for cells in rows)


def old_code(lines: Iterable[Line]) -> str:
    """The sentence about lines that other code measured; "" without such lines."""
    versions = sorted({line.version for line in lines if line.old})
    if not versions:
        return ""
    return f"{OLD} Measured with semgraph {', '.join(versions)}, by other code than this commit's."


def values(lines: Iterable[Line], figure: str) -> list[Any]:
    """A figure of the trials that did not fail."""
    return [value for line in lines if (value := line.figure(figure)) is not None]


def ratios(lines: Sequence[Line], base: Sequence[Line], figure: str) -> list[float]:
    """The multiple of the baseline, trial by trial."""
    theirs = {line.trial: line.figure(figure) for line in base}
    pairs = [(line.figure(figure), theirs.get(line.trial)) for line in lines]
    return [ours / other for ours, other in pairs if ours is not None and other]


def _spread(found: Sequence[float], form: str, unit: str = "", *, ends: bool = True) -> str:
    """The median, with the lowest and the highest where they differ as they are written."""
    text = form.format(statistics.median(found)) + unit
    lowest, highest = (form.format(end) for end in (min(found), max(found)))
    return text + (f" ({lowest}–{highest})" if ends and lowest != highest else "")
