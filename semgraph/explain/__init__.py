"""EXPLAIN: estimates; a plan as a tree, a chart, data or algebra; rewrites; first requests; queries.

Builds text and data from physical plans; the session and `render` import it.
"""
