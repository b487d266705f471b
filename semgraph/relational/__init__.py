"""Relational runtime, with two executors: DuckDB statements, which define the results, and generated
Python over few rows.

`batch` has rows with their hidden columns, `sql` the SQL of operators and `rows` their Python.
`segments` compiles and runs maximal relational runs by either.

Imports `logical`, `expr` and `errors`: it knows no store or model. `semantic`, `physical` and what
lies above import it.
"""
