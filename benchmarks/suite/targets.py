"""Targets: figures that a benchmark should reach, each beside the measured one."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.suite.documents import table_rows
from benchmarks.suite.lines import Line
from benchmarks.suite.tables import of_one_kind, ratio, spread, values

NOT_MEASURED = "not measured"


class Row(NamedTuple):
    """A target and the measured figure, as a table shows them.

    Args:
        what: The description.
        others: The figure of another engine, in the same run.
        must: The limit.
        aim: The stricter limit to work towards; "—" without one.
        measured: The figure, with its spread.
        quality: The F1 that accompanies it.
        verdict: Whether the target is met.
    """

    what: str
    others: str
    must: str
    aim: str
    measured: str
    quality: str
    verdict: str


@dataclass(frozen=True)
class Target:
    """A limit for one figure of one case.

    Args:
        what: The description.
        where: The case.
        figure: Its name in the lines.
        limit: The target: what must be reached.
        aim: A stricter limit to work towards.
        least: Whether the limits are minima; default: maxima.
        form: The number format of the figure.
        of: The case that the figure is a multiple of; None: the figure itself.
        others: The case of another engine, whose figure is shown beside.
        quality: The name of the F1 shown beside it: a saving means nothing without the quality.
        quality_where: The case with that F1, if it is another one: the same variant over data
            whose truth is known.
    """

    what: str
    where: Mapping[str, Any]
    figure: str
    limit: float
    aim: float | None = None
    least: bool = False
    form: str = "{:,.3g}"
    of: Mapping[str, Any] | None = None
    others: Mapping[str, Any] | None = None
    quality: str = ""
    quality_where: Mapping[str, Any] | None = None

    def measured(self, lines: Sequence[Line]) -> float | None:
        """The median over the trials; None where nothing was measured."""
        mine = of_one_kind([line for line in lines if line.is_of(self.where)])
        if self.of is not None:
            times = ratio(mine, [line for line in lines if line.is_of(self.of or {})], self.figure)
            return times.value if times else None
        found = values(mine, self.figure)
        return statistics.median(found) if found else None

    def met(self, lines: Sequence[Line]) -> bool | None:
        """Whether the target is met; None where nothing was measured."""
        found = self.measured(lines)
        return None if found is None else self._within(found, self.limit)

    def row(self, lines: Sequence[Line]) -> Row:
        """The row of the table."""
        must, aim = self._limit(self.limit), "—" if self.aim is None else self._limit(self.aim)
        found = self.measured(lines)
        others = self._figure(lines, self.others)
        if found is None:
            return Row(self.what, others, must, aim, "—", "—", NOT_MEASURED)
        known = self.quality_where or self.where
        scores = (
            values([line for line in lines if line.is_of(known)], self.quality)
            if self.quality
            else []
        )
        quality = spread(scores, "{:.3f}") if scores else "—"
        return Row(self.what, others, must, aim, self._shown(lines), quality, self._verdict(found))

    def _within(self, found: float, limit: float) -> bool:
        return found >= limit if self.least else found <= limit

    def _limit(self, limit: float) -> str:
        unit = " ×" if self.of is not None else ""
        return f"{'≥' if self.least else '≤'} {self.form.format(limit)}{unit}"

    def _verdict(self, found: float) -> str:
        if not self._within(found, self.limit):
            return "**not met**"
        return (
            "met, and the aim" if self.aim is not None and self._within(found, self.aim) else "met"
        )

    def _shown(self, lines: Sequence[Line]) -> str:
        if self.of is None:
            return self._figure(lines, self.where)
        mine = [line for line in lines if line.is_of(self.where)]
        return str(ratio(mine, [line for line in lines if line.is_of(self.of or {})], self.figure))

    def _figure(self, lines: Sequence[Line], where: Mapping[str, Any] | None) -> str:
        found = (
            values([line for line in lines if line.is_of(where)], self.figure)
            if where is not None
            else []
        )
        return spread(found, self.form) if found else "—"


def markdown(rows: Sequence[Row]) -> str:
    """One benchmark's table of targets; the columns of aims and F1 only where a row has one."""
    columns = {
        "what": [row.what for row in rows],
        "measured": [row.measured for row in rows],
        "must": [row.must for row in rows],
        "aim": [row.aim for row in rows],
        "others": [row.others for row in rows],
        "F1": [row.quality for row in rows],
        "met or not": [row.verdict for row in rows],
    }
    optional = ("aim", "others", "F1")
    shown = {
        name: cells
        for name, cells in columns.items()
        if name not in optional or set(cells) != {"—"}
    }
    ends = ["---" if name in ("what", "met or not") else "--:" for name in shown]
    body = zip(*shown.values(), strict=True)
    return table_rows([list(shown), ends, *body])
