"""Rows of inputs with the character NUL in a text: databases and endpoints cut texts there or refuse them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import InputError, Problem
from semgraph.logical.plan import Order
from semgraph.physical.semantic.asking import Failure


def without_nul(name: str, table: pa.Table, *, members: bool = False) -> tuple[pa.Table, list[Failure]]:
    """The rows without a NUL, and a failure for each of the others.

    Args:
        name: Of the input.
        table: Its rows.
        members: Whether the rows are those that an order cuts into windows.
    """
    columns: dict[int, str] = {}
    for column in table.column_names:
        for place in _places(table.column(column)):
            columns.setdefault(place, column)
    if not columns:
        return table, []
    failures = [
        Failure(
            name,
            f"column {column}: the text holds a NUL character. Remove it",
            place if members else None,
            table.slice(place, 1).to_pylist()[0],
        )
        for place, column in sorted(columns.items())
    ]
    return table.filter(pa.array([place not in columns for place in range(table.num_rows)])), failures


def _places(column: Any) -> list[int]:
    """The places of the values with a NUL, also inside lists and structs."""
    if pa.types.is_string(column.type):
        found: list[int] = pc.indices_nonzero(pc.match_substring(column, "\0")).to_pylist()
        return found
    if not pa.types.is_nested(column.type):
        return []
    return [place for place, value in enumerate(column.to_pylist()) if _holds(value)]


def _holds(value: object) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(map(_holds, value.values()))
    return isinstance(value, list) and any(map(_holds, value))


def refuse_nul(inputs: Mapping[str, pa.Table], order: Order) -> None:
    """Refuse rows with a NUL that no window can do without. Raises InputError."""
    problems = [
        Problem(f"input {name}, {failure.error}")
        for name, table in inputs.items()
        if name != order.input
        for failure in without_nul(name, table)[1]
    ]
    if problems:
        raise InputError(*problems[:3])
