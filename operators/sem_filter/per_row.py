"""One call for each row, in the prompt's words."""

from __future__ import annotations

from semgraph.operator import PerItem, SemFilter, dataclass


@dataclass(frozen=True)
class PerRow(PerItem[SemFilter]):
    """The reference, which defines the operator's answers."""
