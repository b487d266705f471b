"""Property-graph stores: one protocol (`base`), shared preparation of batches and results
(`prepare`), conditions (`conditions`), exact cosine (`cosine`), the stores `sqlite` and `neo4j`,
and the store addresses (`registry`).

Imports `logical`, `expr` and `errors` only. `physical`, `execution` and `session` use stores through
the protocol; the session opens them, and `llm.settings` reads their addresses.
"""
