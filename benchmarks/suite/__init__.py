"""The framework of benchmarks: cases, trials, lines of results, tables and pages.

A benchmark is a folder with a `bench.py` that defines `BENCHMARK`, with its cases and their
functions. The suite runs the cases in turns, writes a JSON line after each trial, resumes an
interrupted run, and generates all tables and charts from these lines.
"""

from benchmarks.suite.benchmark import Benchmark, Case, Unmeasured
from benchmarks.suite.breakeven import BreakEven
from benchmarks.suite.contests import Contest
from benchmarks.suite.lines import Line, Lines
from benchmarks.suite.overview import Entry
from benchmarks.suite.tables import Chart, Column, Table
from benchmarks.suite.targets import Target

__all__ = [
    "Benchmark",
    "BreakEven",
    "Case",
    "Chart",
    "Column",
    "Contest",
    "Entry",
    "Line",
    "Lines",
    "Table",
    "Target",
    "Unmeasured",
]
