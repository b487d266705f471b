"""Scalars of the plan language: parsed, admitted, typed, and the functions they may call.

`scalar` parses, `types` has the types, `duckdb` binds and runs. `row_scalars` has the Python of
scalars, which also types plain ones without a binder, and `row_functions` what it calls. `functions`
are those that plans may call, and `canonical` is the text of which fingerprints are made.

Imports `errors` alone; every layer above imports it.
"""

from semgraph.expr.scalar import Scalar, parse_scalar
from semgraph.expr.types import Type, parse_type

__all__ = ["Scalar", "Type", "parse_scalar", "parse_type"]
