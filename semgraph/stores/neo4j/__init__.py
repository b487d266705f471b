"""The Neo4j store: Cypher over Bolt.

`store` is its public module. `bolt` is the connection; `cypher` names and conditions; `match`,
`search` with `search_cypher`, and `write` the operations; `schema` and `setup` the indexes;
`values` the conversion from and to Arrow. `local` runs a server on this machine.

The session imports `store`; `cli` imports `local`.
"""
