"""A Neo4j server on this machine: its files and its process."""
