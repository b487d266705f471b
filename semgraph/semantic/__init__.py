"""Semantic operators: the contract of implementations, their library, and evaluation; `prompt`
makes the requests.
"""

from semgraph.semantic import groups, pairs, rows

__all__ = ["groups", "pairs", "rows"]
