"""One call for each row, in the prompt's words."""

from __future__ import annotations

from semgraph.operator import PerItem, SemMap, dataclass


@dataclass(frozen=True)
class PerRow(PerItem[SemMap]):
    """The reference, which defines the operator's answers."""
