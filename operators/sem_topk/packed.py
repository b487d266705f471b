"""A score for each row, several rows per call, as numbered records."""

from __future__ import annotations

from semgraph.operator import Packed, SemTopk, dataclass


@dataclass(frozen=True)
class PackedTopk(Packed[SemTopk]):
    """At most `rows` rows share a call."""
