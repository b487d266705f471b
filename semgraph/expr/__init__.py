"""Scalars of the plan language: parsed, admitted, typed, and the functions they may call.

`scalar` parses, `types` defines the types, `duckdb` binds and runs. `row_scalars` generates Python
for scalars and types simple ones without the binder; `row_functions` are the functions that this
Python calls. `functions` are the functions that plans may call, `canonical` is the text for
fingerprints.

Imports only `errors`; every layer above imports it.
"""

from semgraph.expr.scalar import Scalar, parse_scalar
from semgraph.expr.types import Type, parse_type

__all__ = ["Scalar", "Type", "parse_scalar", "parse_type"]
