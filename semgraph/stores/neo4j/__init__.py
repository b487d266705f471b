"""The Neo4j store: Cypher over Bolt."""
