"""Relational runtime, with two executors: DuckDB statements, which define the results, and generated
Python over few rows.

`batch` defines rows with their hidden columns, `sql` the SQL of operators and `rows` their Python.
`segments` compiles maximal sequences of relational operators and runs them by either executor.

Imports `logical`, `expr` and `errors`; it knows no store or model. `semantic`, `physical` and the
layers above import it.
"""
