"""A score for each row, one call a row."""

from __future__ import annotations

from semgraph.operator import PerItem, SemTopk, dataclass


@dataclass(frozen=True)
class Pointwise(PerItem[SemTopk]):
    """The reference: a row's score depends on the row alone; equal scores stay in row order."""
