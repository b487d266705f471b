"""Figures to reach, each beside what was measured."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.suite.lines import Line
from benchmarks.suite.tables import ratio, values


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
    """

    what: str
    where: Mapping[str, Any]
    figure: str
    limit: float
    least: bool = False
    form: str = "{:,.3g}"
    of: Mapping[str, Any] | None = None

    def measured(self, lines: Sequence[Line]) -> float | None:
        """The median over the trials; None where nothing was measured."""
        mine = [line for line in lines if line.is_of(self.where)]
        if self.of is not None:
            return ratio(mine, [line for line in lines if line.is_of(self.of or {})], self.figure)
        found = values(mine, self.figure)
        return statistics.median(found) if found else None

    def row(self, lines: Sequence[Line]) -> list[str]:
        """What, the limit, what was measured, and whether that is enough."""
        found = self.measured(lines)
        sign, unit = ("≥" if self.least else "≤"), " ×" if self.of is not None else ""
        wanted = f"{sign} {self.form.format(self.limit)}{unit}"
        if found is None:
            return [self.what, wanted, "—", "not measured"]
        met = found >= self.limit if self.least else found <= self.limit
        return [self.what, wanted, self.form.format(found) + unit, "met" if met else "**not met**"]


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """The page's table of targets."""
    head = [["", "to reach", "measured", ""], ["---", "--:", "--:", "---"]]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [*head, *rows]) + "\n"
