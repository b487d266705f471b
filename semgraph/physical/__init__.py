"""Physical plans: trees of nodes that compute batches.

`plan` has the nodes and the tree, `planner` makes it of a logical plan. What nodes run: `reads`
(scans and matches), `search` with `search_spec` (the store's part), `search_sql` and `search_rows`
(the rest, over many and few rows) and `shortlist`, `vectors` of texts, and `failed_rows` that are set
aside.

Imports `semantic`, `relational`, `stores.base` and what lies below. `execution` runs the tree;
`explain` and `compare` look at it.
"""
