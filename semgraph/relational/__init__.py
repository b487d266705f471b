"""Relational runtime: batches of rows with their hidden columns, scalars and relational operators as
DuckDB statements, and the fragments that run in Arrow alone.

`semantic`, `physical` and what lies above import it. It knows logical nodes, and no store or model.
"""
