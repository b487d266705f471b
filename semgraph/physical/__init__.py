"""Physical plans: trees of nodes that compute batches.

`plan` defines the nodes and the tree, `planner` builds the tree from a logical plan. Nodes run
`reads` (scans and matches), `search` with `search_spec` (the store's part), `search_sql` and
`search_rows` (the rest, over many and few rows) and `shortlist`, `vectors` of texts, and
`failed_rows`, which sets failed rows aside.

Imports `semantic`, `relational`, `stores.base` and the layers below. `execution` runs the tree;
`explain` and `compare` read it.
"""
