"""Columns by their paths, and as Python values, where a column is known to hold no NULL or NULL is handled by its reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def pick(table: pa.Table, path: str) -> pa.ChunkedArray[Any]:
    """A column, or a field of a struct column (`cand.name`)."""
    root, *rest = path.split(".")
    column = table.column(root)
    return pc.struct_field(column, rest) if rest else column


def values(column: Any) -> list[Any]:
    """The values of an Arrow column."""
    found: list[Any] = column.to_pylist()
    return found


def dense(values: Sequence[Any]) -> tuple[list[int], list[int]]:
    """For each value its number in order of first appearance, and where each number first appears."""
    seen: dict[Any, int] = {}
    first: list[int] = []
    numbers = []
    for i, value in enumerate(values):
        if value not in seen:
            seen[value] = len(first)
            first.append(i)
        numbers.append(seen[value])
    return numbers, first
