"""The embedded store: a graph in one SQLite file, or in memory. `store` is its public module; the
session imports it.
"""
