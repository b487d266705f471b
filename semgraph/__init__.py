"""semgraph: knowledge-graph pipelines as query plans."""

__version__ = "0.1.0"
