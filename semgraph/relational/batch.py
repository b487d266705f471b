"""Rows with their hidden columns.

Every relation has an ordinal (`_o`), which makes row order part of its meaning. A relation that
derives from the rows that a plan's order cuts into windows also has `_p`, its partition, and `_m`,
the input row that each row derives from. Joins, groups, limits and windows are confined by `_p`, so
a wave of many partitions computes what each would alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr.duckdb import ORDINAL
from semgraph.logical.node import Node

PARTITION, INPUT_ROW = "_p", "_m"
Column = Any  # pa.ChunkedArray or pa.Array


def hidden(node: Node) -> tuple[str, ...]:
    """The hidden columns of a node's rows."""
    return (ORDINAL, PARTITION, INPUT_ROW) if node.partitioned else (ORDINAL,)


def runtime_schema(node: Node) -> pa.Schema:
    """The schema of a node's batches: its columns and the hidden ones, without the ordinal, which
    is the order of the rows.
    """
    extra = [pa.field(name, pa.int64()) for name in hidden(node) if name != ORDINAL]
    return pa.schema([*node.schema, *extra])


@dataclass(frozen=True)
class Batch:
    """The rows of one relation, in order, with their hidden columns.

    Args:
        table: The rows. The ordinal is their position; `with_ordinal` writes it out.
    """

    table: pa.Table

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return self.table.num_rows

    @property
    def has_input_rows(self) -> bool:
        """Whether the rows derive from input rows."""
        return INPUT_ROW in self.table.column_names

    def input_rows(self) -> list[int | None]:
        """The input row of each row; None where it derives from none."""
        if not self.has_input_rows:
            return [None] * self.num_rows
        return values(self.table.column(INPUT_ROW))

    def partitions(self) -> list[int] | None:
        """The partition of each row, by number; None if the rows belong to none."""
        if PARTITION not in self.table.column_names:
            return None
        return values(self.table.column(PARTITION))

    def owners(self, column: str) -> list[str] | None:
        """The partition that each row names in a column, "" for NULL; None without such a
        column.
        """
        if (
            column in self.table.column_names
            and self.table.schema.field(column).type == pa.string()
        ):
            return [name or "" for name in values(self.table.column(column))]
        return None

    def of_rows(self, rows: Collection[int] | None, *, shared: bool = False) -> Batch:
        """The rows that derive from some input rows; all of them, if they derive from none.

        Args:
            rows: Numbers of input rows; None: all.
            shared: Also keep rows that derive from no single input row.
        """
        if rows is None or not self.has_input_rows:
            return self
        kept = self._derives_from(rows)
        if shared:
            loose: Column = pc.is_null(self.table.column(INPUT_ROW))
            kept = pc.or_(kept, loose)
        return Batch(self.table.filter(kept))

    def without_rows(self, rows: Collection[int]) -> Batch:
        """The rows that do not derive from some input rows."""
        if not self.has_input_rows:
            return self
        return Batch(self.table.filter(pc.invert(self._derives_from(rows))))

    def _derives_from(self, rows: Collection[int]) -> Any:
        column = self.table.column(INPUT_ROW)
        return pc.is_in(
            column, value_set=pa.array(list(rows), pa.int64())
        )  # False for NULL, not NULL

    def confined(self, partition_of: pa.Array[Any]) -> Batch:
        """The same rows with the partition of their input row.

        Args:
            partition_of: The partition of each input row, by its number.
        """
        if not self.has_input_rows:
            return self
        place = self.table.schema.get_field_index(PARTITION)
        numbers = partition_of.take(self.table.column(INPUT_ROW).combine_chunks())
        return Batch(self.table.set_column(place, self.table.schema.field(place), numbers))

    def with_ordinal(self) -> pa.Table:
        """The rows with their ordinal, ready to be a relation of a statement."""
        return self.table.append_column(ORDINAL, pa.array(np.arange(self.num_rows)))

    def visible(self) -> pa.Table:
        """The rows without hidden columns."""
        hidden = [name for name in (PARTITION, INPUT_ROW) if name in self.table.column_names]
        return self.table.drop_columns(hidden)


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with exactly this schema: DuckDB renames list children and widens numbers."""
    if table.schema.equals(schema):
        return table
    return table.select(schema.names).cast(schema) if table.num_rows else schema.empty_table()


def pick(table: pa.Table, path: str) -> pa.ChunkedArray[Any]:
    """A column, or a field of a struct column (`cand.name`)."""
    root, *rest = path.split(".")
    column = table.column(root)
    return pc.struct_field(column, rest) if rest else column


def values(column: Any) -> list[Any]:
    """The values of an Arrow column."""
    values: list[Any] = column.to_pylist()
    return values


def dense(values: Sequence[Any]) -> tuple[list[int], list[int]]:
    """The number of each value in order of first appearance, and where each number first
    appears.
    """
    seen: dict[Any, int] = {}
    first: list[int] = []
    numbers = []
    for i, value in enumerate(values):
        if value not in seen:
            seen[value] = len(first)
            first.append(i)
        numbers.append(seen[value])
    return numbers, first
