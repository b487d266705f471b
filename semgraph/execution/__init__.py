"""Running physical plans.

`executor` runs a plan at once, or by the `windows` of its input, of which `slices` run ahead;
`evaluation` computes physical nodes; `commit` writes windows. `runtime` is what a run uses, `result` its options and outcome,
`record` the folder that says what it did, `observations` what later estimates learn from it, and
`uniform` notes operators that got one answer for all rows.

Imports `physical` and what lies below; it draws nothing, and knows no implementation by name.
`explain` and what lies above import it.
"""
