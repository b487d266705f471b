"""Several rows in a call, as numbered records."""

from __future__ import annotations

from semgraph.operator import Packed, SemMap, dataclass


@dataclass(frozen=True)
class PackedMap(Packed[SemMap]):
    """At most `rows` rows share a call."""
