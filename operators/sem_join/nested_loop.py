"""One call for each pair, in the prompt's words."""

from __future__ import annotations

from semgraph.operator import PerItem, SemJoin, dataclass


@dataclass(frozen=True)
class NestedLoop(PerItem[SemJoin]):
    """The reference, which defines the operator's answers."""
