"""Physical plans: a tree of nodes that compute batches, the planner that makes it of a logical plan,
searches, reads of the store, and operators in memory.

`execution` runs the tree; `explain` and `compare` look at it. It imports `semantic`, `relational`,
`stores.base` and what lies below.
"""
