"""A score for each row, one row per call."""

from __future__ import annotations

from semgraph.operator import PerItem, SemTopk, dataclass


@dataclass(frozen=True)
class Pointwise(PerItem[SemTopk]):
    """The reference: a row's score depends on the row alone; ties are in row order."""
