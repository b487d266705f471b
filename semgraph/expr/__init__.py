"""Scalars of the plan language: parse, admit, type, and the functions they may call.

Imported by every layer above; imports `errors` alone.
"""

from semgraph.expr.scalar import Scalar, parse_scalar
from semgraph.expr.types import Type, parse_type

__all__ = ["Scalar", "Type", "parse_scalar", "parse_type"]
