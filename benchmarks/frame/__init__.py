"""The frame of all benchmarks: a benchmark is a function that returns cases; a case is a function
that returns figures. The frame runs them in turns, writes a JSON line for each trial, and makes
tables and charts of the lines.
"""

from benchmarks.frame.cases import Benchmark, Case, Figures, Unmeasured
from benchmarks.frame.charts import Chart
from benchmarks.frame.lines import Line, Lines
from benchmarks.frame.tables import Table, Target

__all__ = [
    "Benchmark", "Case", "Chart", "Figures", "Line", "Lines", "Table", "Target", "Unmeasured"
]  # fmt: skip
