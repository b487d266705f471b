"""Plans as people write them, in YAML and in Python, to logical plans.

`document` (text with positions), `kinds` (of values), `build` (operators to nodes), `head`, `load`
(the loader), `warnings`, `prompt_files`, `row_files`, `frame` (the fluent API), `dump` (back to text)
and `jsonschema`. Imported by what runs, explains, compares and prints plans; imports `optimizer`
(names of rules), `logical`, `expr`, `folders` and `errors` alone.
"""
