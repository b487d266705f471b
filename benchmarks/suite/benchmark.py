"""A benchmark: its question, its cases, and the tables that answer it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.suite.breakeven import BreakEven
from benchmarks.suite.contests import Contest
from benchmarks.suite.overview import Entry
from benchmarks.suite.tables import Chart, Table
from benchmarks.suite.targets import Target

FOLDER = Path(__file__).parents[1]
Kind = Literal["simulated", "real", "estimate"]
Figures = Mapping[str, float | int | str | None]
"""The figures of a trial, by name; None: not applicable."""


class Unmeasured(Exception):
    """A case that cannot be measured here: a peer is not installed, a file is missing. The message
    has the remedy.
    """


@dataclass(frozen=True)
class Case:
    """One row to measure.

    Args:
        key: Its identity, as the tables show it: {"stream": "three turns", "way": "as shipped"}.
        run: Measures it once; takes the trial's number, from 0, which is also its seed.
        settings: Further settings needed to reproduce it.
        quick: Whether `--quick` (two minutes) includes it.
        full: Whether only `--full` includes it.
        trials: The number of trials; counts that cannot vary are measured once.
        seconds: The time limit; a case that exceeds it is recorded as unfinished.
    """

    key: Mapping[str, str | int | float]
    run: Callable[[int], Figures]
    settings: Mapping[str, Any] = field(default_factory=dict)
    quick: bool = False
    full: bool = False
    trials: int = 3
    seconds: float = 600


@dataclass(frozen=True)
class Benchmark:
    """A question, the cases that answer it, and the tables that show the answer.

    Args:
        name: The name of its folder.
        question: One sentence, shown above its tables.
        kind: A simulated model, a real one, or an estimate. They never share a table.
        cases: All cases.
        tables: Tables over its lines.
        charts: Charts over its lines.
        targets: Targets of its figures, each a row of the table of targets.
        targets_note: Text below the targets.
        overview: Its rows of the first screen of docs/benchmarks.md.
        contests: Comparisons whose losses are listed.
        loses: Text below the losses: the settings that cause them. No figures.
        parts: Tables for written pages, by the name of their part: `NAME/PART` in
            `<!-- made: NAME/PART -->`.
        sources: Folders and files beside its own that its figures depend on, from the project's
            root.
        lacks: Missing inputs of the user, or "". A run of all benchmarks skips a benchmark with
            missing inputs.
        options: The options for these inputs, for the pages.
    """

    name: str
    question: str
    kind: Kind
    cases: Callable[[], Sequence[Case]]
    tables: tuple[Table | BreakEven, ...]
    charts: tuple[Chart, ...] = ()
    targets: tuple[Target, ...] = ()
    targets_note: str = ""
    overview: tuple[Entry, ...] = ()
    contests: tuple[Contest, ...] = ()
    loses: str = ""
    parts: Mapping[str, Table] = field(default_factory=dict)
    sources: tuple[str, ...] = ("semgraph", "operators", "plans", "benchmarks/world")
    lacks: Callable[[], str] = str
    options: str = ""

    @property
    def command(self) -> str:
        """The command that runs it."""
        return f"python -m benchmarks run {self.name} {self.options}".rstrip()


def names() -> list[str]:
    """The names of all benchmarks."""
    return sorted(path.parent.name for path in FOLDER.glob("*/bench.py"))


def load(name: str) -> Benchmark:
    """A benchmark by the name of its folder. Raises KeyError with the known names."""
    if name not in names():
        msg = f'no benchmark "{name}"; known: {", ".join(names())}'
        raise KeyError(msg)
    benchmark: Benchmark = importlib.import_module(f"benchmarks.{name}.bench").BENCHMARK
    return benchmark
