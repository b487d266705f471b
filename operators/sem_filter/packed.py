"""Several rows in a call, as numbered records."""

from __future__ import annotations

from semgraph.operator import Packed, SemFilter, dataclass


@dataclass(frozen=True)
class PackedFilter(Packed[SemFilter]):
    """At most `rows` rows share a call."""
