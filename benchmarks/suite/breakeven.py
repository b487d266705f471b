"""Break-even of shared calls: the number of items in a call before the quality falls, for each kind
of noise.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.suite.documents import table_rows
from benchmarks.suite.lines import Line
from benchmarks.suite.tables import Key, heading, of_one_kind, paired, spread, values


@dataclass(frozen=True)
class BreakEven:
    """The largest size with a quality, up to this size, within a tolerance of that of size 1.

    Args:
        question: The question that the table answers.
        rows: Names of the key that identify a row.
        size: The name of the key with the number of items in a call.
        quality: The figure of quality.
        cost: The figure of cost.
        tolerance: The largest acceptable loss, as the median over the trials.
        where: The lines of the table.
        note: Text below it.
    """

    question: str
    rows: tuple[str, ...]
    size: str
    quality: str
    cost: str
    tolerance: float = 0.02
    where: Key = field(default_factory=dict)
    note: str = ""

    def markdown(self, lines: Sequence[Line], order: Sequence[Key]) -> str:
        """The table over these lines."""
        own = of_one_kind(
            [line for line in lines if line.is_of(self.where) and self.size in line.key]
        )
        groups = list(
            dict.fromkeys(
                tuple(key[name] for name in self.rows) for key in order if self.size in key
            )
        )
        lines_by_group = {
            group: [line for line in own if tuple(line.key[name] for name in self.rows) == group]
            for group in groups
        }
        body = [self._row(group, held) for group, held in lines_by_group.items() if held]
        if not body:
            return f"**{self.question}**\n\nNot measured yet.\n"
        titles = [
            *map(heading, self.rows),
            f"{self.quality} at 1",
            "break-even",
            f"{self.quality} there",
            self.cost,
            f"next: {self.quality}",
        ]
        aligned = ["---"] * len(self.rows) + ["--:"] * 5
        table = table_rows([titles, aligned, *body])
        return f"**{self.question}**\n\n{table}" + (f"\n{self.note}\n" if self.note else "")

    def _row(self, group: tuple[Any, ...], lines: Sequence[Line]) -> list[str]:
        by_size: Mapping[int, list[Line]] = {
            size: [line for line in lines if line.key[self.size] == size]
            for size in sorted({line.key[self.size] for line in lines})
        }
        sizes, alone = list(by_size), by_size[min(by_size)]
        far = 0
        while far + 1 < len(sizes) and self._as_good(by_size[sizes[far + 1]], alone):
            far += 1
        best, after = by_size[sizes[far]], by_size[sizes[far + 1]] if far + 1 < len(sizes) else []
        shown = f"{sizes[far]}" + ("" if after else " or more")
        cost = f"{_of(alone, self.cost, '{:,.0f}')} → {_of(best, self.cost, '{:,.0f}')}"
        beyond = f"{sizes[far + 1]}: {_of(after, self.quality, '{:.3f}')}" if after else "—"
        return [
            *map(str, group),
            _of(alone, self.quality, "{:.3f}"),
            shown,
            _of(best, self.quality, "{:.3f}"),
            cost,
            beyond,
        ]

    def _as_good(self, lines: Sequence[Line], alone: Sequence[Line]) -> bool:
        pairs = paired(lines, alone, self.quality)
        return (
            bool(pairs)
            and statistics.median(ours - other for ours, other in pairs) >= -self.tolerance
        )


def _of(lines: Sequence[Line], figure: str, form: str) -> str:
    figures = values(lines, figure)
    return spread(figures, form) if figures else "—"
