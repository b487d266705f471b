"""Semantic operators: the contract of implementations, their library, and how rows are asked about.

The engine makes the items (rows, pairs, groups), hands them to an implementation, checks what it
returns, and puts the result together. An implementation never sees `how`, `keep` or `on_error`.
`physical` and what lies above import it; `prompt` makes the requests.
"""

from semgraph.semantic import groups, pairs, rows

__all__ = ["groups", "pairs", "rows"]
