"""Relational runtime: scalars and operators as DuckDB SQL, and the fragments that run without
it.
"""
