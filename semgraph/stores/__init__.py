"""Property-graph stores: one protocol (`base`), batches and results prepared once for all stores
(`prepare`), conditions (`conditions`), exact cosine (`cosine`), the stores `sqlite` and `neo4j`, and
what addresses name (`registry`).

Imports `logical`, `expr` and `errors` only. `physical`, `execution` and `session` use stores through
the protocol; the session opens them, and `llm.settings` reads their addresses.
"""
