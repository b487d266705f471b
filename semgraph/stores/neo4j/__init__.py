"""The Neo4j store: Cypher over Bolt. `store` is its public module; the session imports it. `local`
runs a server on this machine.
"""
