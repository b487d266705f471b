"""A local Neo4j server: its folder and its jars (`server`), and its `process`.

The command `semgraph neo4j` and `neo4j.store` import it.
"""
