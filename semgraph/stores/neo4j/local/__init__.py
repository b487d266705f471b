"""A Neo4j server on this machine: its `jars`, its folder (`server`) and its `process`.

The command `semgraph neo4j` and `neo4j.store` import it.
"""
