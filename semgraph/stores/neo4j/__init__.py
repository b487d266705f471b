"""The Neo4j store: Cypher over Bolt.

`store` is its public module. `bolt` is the connection; `cypher` has names, conditions and values;
`match`, `search` with `search_cypher`, and `write` are the operations; `schema` creates the
indexes.
`local` runs a server on this machine.
"""
