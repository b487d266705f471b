"""Running physical plans.

`executor` runs a plan at once, or by the `windows` of its input in slices that run ahead.
`runtime` holds the resources of a run; `evaluation` computes physical nodes, `commit` writes
windows. `outcome` defines the options and the outcome of a run, `result` what it returns, `uniform`
notes on its answers, `record` the folder that records it, `observations` the statistics for later
estimates.

Imports `physical` and the layers below. It renders no output and knows no implementation by name.
`explain` and the layers above import it.
"""
