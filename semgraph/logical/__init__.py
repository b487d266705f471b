"""Logical plans: immutable, typed nodes, the schema of the graph, and prompts.

`node` is the base of operators: `relational`, `semantic`, `graph`, `search`, `cluster` and `sinks`.
`plan` defines the whole plan with its order, `schema` the graph, `prompt` the prompts. `partitions`
checks from which partitions a step reads rows.

Imports only `expr` and `errors`; all code that plans, rewrites or runs imports it.
"""
