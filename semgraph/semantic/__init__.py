"""Semantic operators: what is asked about, and what becomes of the answers.

The engine makes the items (rows, pairs, groups), hands them to an implementation, checks what it
returns, and puts the result together. An implementation never sees `how`, `keep` or `on_error`.
"""

from semgraph.semantic import groups, pairs, rows

__all__ = ["groups", "pairs", "rows"]
