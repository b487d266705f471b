"""Stored rows with values that are not of the types that the graph declares, as other programs may
write them: reads leave them out, and `LeftOut.notes` name them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from semgraph.errors import DataError
from semgraph.formats import plain_line, shortened
from semgraph.logical.schema import Graph
from semgraph.stores.batch_io import steps_of

UNFIT = (
    ValueError,
    TypeError,
    ArithmeticError,
    LookupError,
    RecursionError,
    AttributeError,
    pa.ArrowException,
    DataError,
)
"""What a conversion raises for a value that does not fit."""


@dataclass(frozen=True)
class LeftOut:
    """The rows that the reads of one store left out: for each label and property the first value
    that does not fit, and the rows, by the columns that were read.
    """

    rows: dict[tuple[str, str], tuple[str, dict[tuple[str, ...], set[str]]]] = field(
        default_factory=dict
    )

    def columns(
        self,
        graph: Graph,
        label: str,
        names: Sequence[str],
        rows: Sequence[Sequence[Any]],
        convert: Callable[[str, Sequence[Any]], pa.Array[Any]],
    ) -> list[pa.Array[Any]]:
        """Rows of a label as columns. A row that does not fit is noted, and NULL in every column.

        Args:
            graph: Names the key, which no row lacks. An edge has both ends.
            label: The label of the rows; "path": each is a list of edges.
            names: Of the columns.
            rows: Their values.
            convert: Makes a column; raises one of `UNFIT`.
        """
        edge = label in graph.labels and graph.labels[label].kind == "edge"
        required = (graph.key, "source", "target") if edge else (graph.key,)

        def checked(name: str, values: Sequence[Any]) -> pa.Array[Any]:
            if name in required and None in values:
                raise ValueError(name)
            return convert(name, values)

        def fitting(row: Sequence[Any]) -> Sequence[Any]:
            for name, value in zip(names, row, strict=True):
                try:
                    checked(name, [value])
                except UNFIT:
                    self.note(graph, label, name, value, dict(zip(names, row, strict=True)))
                    return [None] * len(names)
            return row

        columns = list(zip(*rows, strict=True)) or [()] * len(names)
        try:
            return [checked(*column) for column in zip(names, columns, strict=True)]
        except UNFIT:
            columns = list(zip(*map(fitting, rows), strict=True))
            return [convert(*column) for column in zip(names, columns, strict=True)]

    def paths(
        self, graph: Graph, var: str, rows: Sequence[Any], kind: pa.DataType
    ) -> list[pa.Array[Any]]:
        """Variable-length paths as a column; NULL where an edge has no key or ends."""
        of = [(row,) for row in rows]
        return self.columns(graph, "path", [var], of, lambda _, paths: steps_of(paths, kind))

    def note(self, graph: Graph, label: str, name: str, value: Any, row: dict[str, Any]) -> None:
        """Note that a row is left out, because of one of its values."""
        declared = (
            graph.labels[label].columns.get(name, "a usable vector") if label != "path" else "whole"
        )
        key, shown = row.get(graph.key), "missing" if value is None else repr(value)
        of = key if isinstance(key, str) else repr(row)
        first = f"{name} is {shortened(shown, 60)}, not {declared}. First: {shortened(of, 100)}"
        by = self.rows.setdefault((label, name), (plain_line(first), {}))[1]
        by.setdefault(tuple(row), set()).add(of)

    @property
    def notes(self) -> tuple[str, ...]:
        """One line for each label and property."""
        return tuple(
            f"left out {max(map(len, by.values())):,} {label} that another program wrote: {first}"
            for (label, _), (first, by) in self.rows.items()
        )


def struct_array(columns: Sequence[pa.Array[Any]], kind: Any) -> pa.StructArray:
    """Columns as one, the key first; NULL where there is no key."""
    return pa.StructArray.from_arrays(columns, fields=list(kind), mask=columns[0].is_null())


def without_left_out(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The rows of a result that have a value in each of some columns: keys, or variables."""
    for name in columns:
        table = table.filter(table[name].is_valid()) if table[name].null_count else table
    return table
