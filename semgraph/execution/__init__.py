"""Running physical plans.

`executor` runs a plan at once, or by the `windows` of its input, of which slices run ahead;
`evaluation` has what a run uses, and computes physical nodes; `commit` writes windows. `result` is
the options and the outcome of a run, `record` the folder that says what it did, `observations` what
later estimates learn from it.

Imports `physical` and what lies below; it draws nothing, and knows no implementation by name.
`explain` and what lies above import it.
"""
