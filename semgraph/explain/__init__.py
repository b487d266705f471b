"""EXPLAIN: what a plan would do, before it runs.

`estimates` (rows, calls, tokens, dollars, time), `tree` (steps, a chart or data), `algebra` and
`requests` (the first request of each step, and the queries of DuckDB and the store).

Builds text and data from physical plans and imports `execution` and what lies below; `compare`,
`render` and `session` import it.
"""
