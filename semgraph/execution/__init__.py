"""Running physical plans.

`executor` runs a plan at once, or by the `windows` of its input in slices that run ahead.
`evaluation` holds the resources of a run and computes physical nodes; `commit` writes windows.
`result` defines the options and the outcome of a run, `record` the folder that records a run,
`observations` the statistics for later estimates.

Imports `physical` and the layers below. It renders no output and knows no implementation by name.
`explain` and the layers above import it.
"""
