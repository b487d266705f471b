"""What a plan computes: immutable, typed nodes, the schema of the graph, and prompts.

`node` is the base of operators: `relational`, `semantic`, `graph`, `search`, `cluster` and `sinks`.
`plan` is the whole with its order, `schema` the graph, `prompt` the prompts. `partitions` checks
whose rows a step reads.

Imports `expr` and `errors` only; everything that plans, rewrites or runs imports it.
"""
