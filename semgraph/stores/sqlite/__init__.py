"""The embedded store: a graph in one SQLite file, or in memory.

`store` is its public module, with the connection. `schema` is the layout, and how values are kept;
`search` with `fulltext` and `vectors`, `match` and `write` are the operations over `rows`.
"""
