"""A benchmark: its question, its cases, and the tables and charts that answer it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.frame.charts import Chart
from benchmarks.frame.tables import Table, Target
from semgraph.errors import did_you_mean

FOLDER = Path(__file__).parents[1]
PRODUCT = ("semgraph", "operators", "functions", "plans", "benchmarks/world")
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
        quick: Whether `--quick` includes it.
        full: Whether only `--full` includes it.
        trials: The number of trials; counts that cannot vary are measured once.
        seconds: The time limit; a case that exceeds it is recorded as unfinished.
        about: The seconds that a trial is estimated to take, where none is recorded; 0: unknown.
    """

    key: Mapping[str, str | int | float]
    run: Callable[[int], Figures]
    settings: Mapping[str, Any] = field(default_factory=dict)
    quick: bool = False
    full: bool = False
    trials: int = 3
    seconds: float = 600
    about: float = 0


@dataclass(frozen=True)
class Benchmark:
    """A question, the cases that answer it, and the tables and charts that show the answer.

    Args:
        name: The name of its folder.
        question: One sentence, shown above its tables.
        cases: Returns all cases.
        tables: Tables over its lines.
        charts: Charts over its lines.
        parts: Tables for written pages: `NAME/PART` in `<!-- made: NAME/PART -->`.
        kind: A simulated model or a real one.
        sources: Folders and files beside its own that its figures depend on, from the root.
        targets: What its figures should reach.
        lacks: Says what is missing before it can run; "": nothing.
        options: Of its command.
    """

    name: str
    question: str
    cases: Callable[[], Sequence[Case]]
    tables: tuple[Table, ...]
    charts: tuple[Chart, ...] = ()
    parts: Mapping[str, Table] = field(default_factory=dict)
    kind: Literal["simulated", "real"] = "simulated"
    sources: tuple[str, ...] = PRODUCT
    targets: tuple[Target, ...] = ()
    lacks: Callable[[], str] = str
    options: str = ""

    @property
    def command(self) -> str:
        """The command that runs it."""
        return f"python -m benchmarks run {self.name} {self.options}".rstrip()


def rounded(share: float | None) -> float | None:
    """A share in a line."""
    return None if share is None else round(share, 4)


def names() -> list[str]:
    """The names of all benchmarks."""
    return sorted(path.parent.name for path in FOLDER.glob("*/bench.py"))


def load(name: str) -> Benchmark:
    """A benchmark by the name of its folder. Raises ValueError with the known names."""
    if name not in names():
        hint = f". {near.capitalize()}" if (near := did_you_mean(name, names())) else ""
        raise ValueError(f'no benchmark "{name}"; known: {", ".join(names())}{hint}')
    benchmark: Benchmark = importlib.import_module(f"benchmarks.{name}.bench").BENCHMARK
    return benchmark
