"""semgraph: knowledge-graph pipelines as query plans."""
