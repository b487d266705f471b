"""Figures to reach, each beside what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from benchmarks.suite.lines import Line
from benchmarks.suite.tables import of_one_kind, ratio, spread, values

NOT_MEASURED = "not measured"


class Row(NamedTuple):
    """A target beside what was measured, as it is shown.

    Args:
        what: In words.
        others: What another engine has, in the same run.
        wanted: The limit.
        measured: The figure, with its spread.
        worth: The quality that it comes with.
        verdict: Whether it is met.
    """

    what: str
    others: str
    wanted: str
    measured: str
    worth: str
    verdict: str


@dataclass(frozen=True)
class Target:
    """A figure that one case is to reach.

    Args:
        what: In words.
        where: The case.
        figure: Its name in the lines.
        limit: To be reached.
        least: Whether the limit is the least and not the most that is wanted.
        form: How the figure is written.
        of: The case whose multiple is meant; None: the figure itself.
        others: The case of another engine, whose figure stands beside, by its name in the key.
        worth: The figure of quality that stands beside: a saving is nothing without it.
        worth_where: The case that has it, where that is another one: the same way over data whose
            truth is known.
        headline: Whether it is one of the few that the README shows.
    """

    what: str
    where: Mapping[str, Any]
    figure: str
    limit: float
    least: bool = False
    form: str = "{:,.3g}"
    of: Mapping[str, Any] | None = None
    others: Mapping[str, Any] | None = None
    worth: str = ""
    worth_where: Mapping[str, Any] | None = None
    headline: bool = False

    def measured(self, lines: Sequence[Line]) -> float | None:
        """The median over the trials; None where nothing was measured."""
        mine = of_one_kind([line for line in lines if line.is_of(self.where)])
        if self.of is not None:
            times = ratio(mine, [line for line in lines if line.is_of(self.of or {})], self.figure)
            return times.value if times else None
        found = values(mine, self.figure)
        return statistics.median(found) if found else None

    def met(self, lines: Sequence[Line]) -> bool | None:
        """Whether it is reached; None where nothing was measured."""
        found = self.measured(lines)
        return (
            None if found is None else (found >= self.limit if self.least else found <= self.limit)
        )

    def row(self, lines: Sequence[Line]) -> Row:
        """All that is shown of it."""
        unit = " ×" if self.of is not None else ""
        wanted = f"{'≥' if self.least else '≤'} {self.form.format(self.limit)}{unit}"
        met = self.met(lines)
        others = self._figure(lines, self.others)
        if met is None:
            return Row(self.what, others, wanted, "—", "—", NOT_MEASURED)
        known = self.worth_where or self.where
        worth = (
            values([line for line in lines if line.is_of(known)], self.worth) if self.worth else []
        )
        quality = spread(worth, "{:.3f}") if worth else "—"
        return Row(
            self.what, others, wanted, self._shown(lines), quality, "met" if met else "**not met**"
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
    """One benchmark's table of targets."""
    shown = [
        (row.what, row.others, row.wanted, row.measured, row.worth, row.verdict) for row in rows
    ]
    head = [
        ("", "others", "to reach", "measured", "worth", ""),
        ("---", "--:", "--:", "--:", "--:", "---"),
    ]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [*head, *shown]) + "\n"
