"""EXPLAIN: what a plan would do, before it runs.

`estimates` (rows, calls, tokens, dollars, time), `steps` (as data), `algebra` and
`requests` (the first request of each step, and the queries of DuckDB and the store).

It builds text and data from physical plans. It imports `execution` and lower layers; `compare`,
`render` and `session` import it.
"""
