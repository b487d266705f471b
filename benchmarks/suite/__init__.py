"""What all benchmarks have in common: cases, trials, lines of results, tables and the page made of
them.

A benchmark is a folder with a `bench.py` that has a `BENCHMARK`. It says which cases there are and
how one is run; the suite runs them in turns, writes a JSON line for each trial as it ends, goes on
where it was interrupted, and makes every table and chart from those lines alone.
"""

from benchmarks.suite.benchmark import Benchmark, Case, Unmeasured
from benchmarks.suite.breakeven import BreakEven
from benchmarks.suite.contests import Contest
from benchmarks.suite.lines import Line, Lines
from benchmarks.suite.tables import Chart, Column, Table
from benchmarks.suite.targets import Target

__all__ = [
    "Benchmark",
    "BreakEven",
    "Case",
    "Chart",
    "Column",
    "Contest",
    "Line",
    "Lines",
    "Table",
    "Target",
    "Unmeasured",
]
