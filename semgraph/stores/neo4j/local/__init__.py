"""A Neo4j server on this machine: its jars, its folder and its process. Imported by the command
`semgraph neo4j` and by `neo4j.store`.
"""
