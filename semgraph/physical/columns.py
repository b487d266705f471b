"""Columns as Python values, where a column is known to hold no NULL or NULL is handled by its reader."""

from __future__ import annotations

from typing import Any


def values(column: Any) -> list[Any]:
    """The values of an Arrow column."""
    found: list[Any] = column.to_pylist()
    return found
