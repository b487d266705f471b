"""The first screen of the benchmarks: a few rows of semgraph and of other engines over the same
task, and a chart of what semgraph takes of their cost.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.suite.documents import table_rows
from benchmarks.suite.lines import Line
from benchmarks.suite.statistics import short
from benchmarks.suite.tables import of_one_kind, values

TITLE = "Cost of semgraph as a share of the other engine's"
COSTS = {
    "calls": "calls",
    "tokens_in": "tokens in",
    "usd": "$",
    "seconds": "s",
    "cpu_s": "CPU s",
}
"""The figures of a row, with their titles."""


@dataclass(frozen=True)
class Entry:
    """A row of the overview.

    Args:
        task: What is done. Rows of one task stand together.
        engine: Who does it, as the row is called.
        key: The case.
        f1: The name of its F1.
        f1_key: The case with the F1, if it is another one: the same variant over data whose truth
            is known.
        baseline: Whether the others of the task are compared with it in the chart.
        charted: Whether it is a row of the chart.
    """

    task: str
    engine: str
    key: Mapping[str, Any]
    f1: str
    f1_key: Mapping[str, Any] | None = None
    baseline: bool = False
    charted: bool = False

    def costs(self, lines: Sequence[Line]) -> dict[str, float]:
        """The median of each cost over the trials; empty if nothing was measured."""
        own = of_one_kind([line for line in lines if line.key == self.key])
        found = {name: values(own, name) for name in COSTS}
        found["cpu_s"] = [ms / 1000 for ms in values(own, "cpu_ms")]
        return {name: statistics.median(trials) for name, trials in found.items() if trials}

    def versions(self, lines: Sequence[Line]) -> list[str]:
        """The versions of semgraph that its lines were measured with."""
        own = of_one_kind([line for line in lines if line.key == self.key])
        return sorted({line.made.get("versions", {}).get("semgraph", "?") for line in own})

    def row(self, lines: Sequence[Line]) -> list[str]:
        """Its cells."""
        costs = self.costs(lines)
        scores = values([x for x in lines if x.key == (self.f1_key or self.key)], self.f1)
        f1 = f"{statistics.median(scores):.3f}" if scores else "—"
        cells = [_cell(name, costs[name]) if name in costs else "—" for name in COSTS]
        return [self.task, self.engine, *cells, f1]


Measured = Sequence[tuple[Entry, Sequence[Line]]]
"""Rows, each with the lines of its benchmark."""


def markdown(measured: Measured) -> str:
    """The table."""
    if not any(entry.costs(lines) for entry, lines in measured):
        return "Not measured yet: `make bench`.\n"
    rows = [
        ["task", "", *COSTS.values(), "F1"],
        ["---", "---", *["--:"] * (len(COSTS) + 1)],
        *(entry.row(lines) for entry, lines in measured),
    ]
    return f"{table_rows(rows)}\n{_measured_with(measured)}\n"


def _measured_with(measured: Measured) -> str:
    """The version that each task was measured with, in a sentence."""
    tasks: dict[str, list[str]] = {}
    for entry, lines in measured:
        for version in entry.versions(lines):
            tasks.setdefault(version, []).append(entry.task)
    parts = [f"{v}: {', '.join(dict.fromkeys(own))}" for v, own in sorted(tasks.items())]
    return f"Measured with semgraph {'; with '.join(parts)}."


def shares(measured: Measured) -> dict[str, dict[str, float]]:
    """For each row of the chart: its costs as shares of those of the task's baseline."""
    baselines = {entry.task: entry.costs(lines) for entry, lines in measured if entry.baseline}
    charted: dict[str, dict[str, float]] = {}
    for entry, lines in measured:
        base = baselines.get(entry.task, {})
        costs = entry.costs(lines)
        if entry.charted and costs and base:
            bars = {title: costs[name] / base[name] for name, title in COSTS.items()}
            charted[f"{entry.task}\n{entry.engine}"] = bars
    return charted


def _cell(name: str, value: float) -> str:
    return short(value) if name in ("usd", "seconds", "cpu_s") else f"{value:,.0f}"
