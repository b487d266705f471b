"""The frontend: it turns plans in YAML and in Python into logical plans.

`document` (text with positions), `kinds` (of values), `build` (operators to nodes), `head`, `load`
(the loader), `loaded` (its cache), `warnings`, `prompt_files`, `example_rows`, `row_files`, `frame`
(the fluent API), `dump` (back to text) and `jsonschema`. The layers that run, explain, compare and
print plans import it. It imports only `optimizer` (names of rules), `logical`, `expr`, `folders` and
`errors`.
"""
