"""The embedded store: a graph in one SQLite file, or in memory.

`store` is its public module. `file` is the connection, `schema` the layout; `search` with
`fulltext`, `nearest` and `vectors`, `match` with `paths`, and `write` are the operations; `rows` and
`values` convert what goes in and out.

The session imports `store`.
"""
