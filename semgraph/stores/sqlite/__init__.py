"""The embedded store: a graph in one SQLite file, or in memory.

`store` is its public module, with the connection. `schema` has the layout and the encoding of
values; `search` with `fulltext` and `vectors`, `match` and `write` are the operations over `rows`.
"""
