"""Running physical plans: windows and waves, evaluation, commits, what a run works with, its record
and its result.

`explain` and what lies above import it. It draws nothing, and knows no implementation by name.
"""
