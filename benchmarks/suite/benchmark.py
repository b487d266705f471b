"""A benchmark: its question, its cases, and the tables that answer it."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.suite.breakeven import BreakEven
from benchmarks.suite.contests import Contest
from benchmarks.suite.tables import Chart, Table
from benchmarks.suite.targets import Target

FOLDER = Path(__file__).parents[1]
Kind = Literal["simulated", "real", "estimate"]
Figures = Mapping[str, float | int | str | None]
"""What a trial measured, by name; None: not applicable."""


class Unmeasured(Exception):
    """A case that cannot be measured here: a peer that is not installed, a file that is missing.
    Says what to do.
    """


@dataclass(frozen=True)
class Case:
    """One row to measure.

    Args:
        key: What tells it from the others, as the tables show it: {"stream": "three turns", "way":
            "as shipped"}.
        run: Measures it once; given the trial's number, from 0, which is also its seed.
        settings: What else one must know to measure it again.
        quick: Whether it belongs to the two minutes of `--quick`.
        full: Whether it is measured by `--full` only.
        trials: How often; counts that cannot vary are measured once.
        seconds: After which it is given up, and recorded as that.
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
    """A question and how it is answered.

    Args:
        name: That of its folder.
        question: One sentence; it stands above its tables.
        kind: What answers: a simulated model, a real one, or an estimate. They never share a table.
        cases: All of them.
        tables: Made of its lines.
        charts: Likewise.
        targets: Figures to reach, each a row of the page of targets.
        contests: Who is set against whom: what they lose is found by rule and told.
        loses: What stands below that: which settings cause it. No figures.
        sources: Folders and files beside its own that its figures depend on, from the project's
            root.
        lacks: What the user has to give before it can be measured; "" if nothing. A run of all
            passes it over then.
        options: With which he gives it, as the pages name them.
    """

    name: str
    question: str
    kind: Kind
    cases: Callable[[], Sequence[Case]]
    tables: tuple[Table | BreakEven, ...]
    charts: tuple[Chart, ...] = ()
    targets: tuple[Target, ...] = ()
    contests: tuple[Contest, ...] = ()
    loses: str = ""
    sources: tuple[str, ...] = ("semgraph", "operators", "plans", "benchmarks/world")
    lacks: Callable[[], str] = str
    options: str = ""

    @property
    def command(self) -> str:
        """What measures it."""
        return f"python -m benchmarks run {self.name} {self.options}".rstrip()


def names() -> list[str]:
    """The benchmarks that there are."""
    return sorted(path.parent.name for path in FOLDER.glob("*/bench.py"))


def load(name: str) -> Benchmark:
    """A benchmark by the name of its folder. Raises KeyError with those that there are."""
    if name not in names():
        msg = f'no benchmark "{name}"; there are {", ".join(names())}'
        raise KeyError(msg)
    found: Benchmark = importlib.import_module(f"benchmarks.{name}.bench").BENCHMARK
    return found
