"""Property-graph stores: one protocol (`base`), batches and results prepared once for all stores
(`batch_io`), conditions (`conditions`), exact cosine (`cosine`), and the stores `sqlite` and `neo4j`.

Imports `logical`, `expr` and `errors` only. `physical`, `execution` and `session` use stores through
the protocol; the session opens them.
"""
