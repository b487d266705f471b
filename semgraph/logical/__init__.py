"""What a plan computes: immutable, typed nodes, the schema of the graph, prompts.

Imports `expr` and `errors` only; everything that plans, rewrites or runs imports it.
"""
