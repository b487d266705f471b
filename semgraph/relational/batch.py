"""Rows with their hidden columns.

Every relation has an ordinal (`_o`), which makes row order part of its meaning. A relation that
derives from windowed rows also has `_p`, the partition, and `_m`, the number of the input row from
which each row derives. In steps `_p` is the window instead, which separates windows of one partition
that are computed together (`Confinement`); in both cases it is the number of an input row, not the
ordinal of a partition. Joins, groups, limits and window functions stay within `_p`, so that a wave
of many partitions has the result of each partition alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import chain, islice
from typing import Any
from weakref import WeakKeyDictionary
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr.duckdb import ORDINAL
from semgraph.expr.types import TIMESTAMP
from semgraph.logical.node import Node

PARTITION, INPUT_ROW = "_p", "_m"
FEW = 4_000  # the number of rows up to which generated Python is faster than a DuckDB statement
Column = Any  # pa.ChunkedArray or pa.Array
# The values of a row in the order of its schema: structs as dicts, timestamps as aware datetimes.
Row = tuple[Any, ...]
Ids = Sequence[int]
Sources = Sequence[tuple[int, ...]]


def hidden(node: Node) -> tuple[str, ...]:
    """The hidden columns of a node's rows."""
    return (ORDINAL, PARTITION, INPUT_ROW) if node.windowed else (ORDINAL,)


_SCHEMAS: WeakKeyDictionary[Node, pa.Schema] = WeakKeyDictionary()


def runtime_schema(node: Node) -> pa.Schema:
    """The schema of a node's batches; the ordinal is no column, but the order of the rows."""
    schema = _SCHEMAS.get(node)
    if schema is None:
        extra = [pa.field(name, pa.int64()) for name in hidden(node) if name != ORDINAL]
        schema = _SCHEMAS[node] = pa.schema([*node.schema, *extra])
    return schema


class Batch:
    """The rows of one relation, in order, with their hidden columns. The ordinal is no column: it
    is the index of a row. With lineage, each row has an id, unique in the run, and the ids of its
    source rows.

    Rows are immutable. They are a list of tuples, an Arrow table, or both: each is made from the
    other once, when it is needed.
    """

    __slots__ = ("_none", "_places", "_rows", "_table", "ids", "num_rows", "schema", "sources")

    def __init__(
        self,
        schema: pa.Schema,
        rows: list[Row] | None = None,
        table: pa.Table | None = None,
        ids: Ids | None = None,
        sources: Sources | None = None,
    ) -> None:
        self.schema = schema
        self.ids, self.sources = ids, sources
        self._rows, self._table = rows, table
        self._places: dict[int | None, list[int]] | None = None
        self._none: Batch | None = None
        self.num_rows: int = len(rows) if rows is not None else self.table.num_rows

    @classmethod
    def of_table(cls, table: pa.Table) -> Batch:
        """The rows of a table."""
        return cls(table.schema, table=table)

    @classmethod
    def of_tuples(cls, rows: list[Row], schema: pa.Schema) -> Batch:
        """Rows as tuples in the order of a schema. The list is not copied."""
        return cls(schema, rows)

    @classmethod
    def concatenated(cls, parts: Sequence[Batch]) -> Batch:
        """The rows of at least one batch, all with the same schema."""
        parts = [part for part in parts if part.num_rows] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        ids = None
        if all(part.ids is not None for part in parts):
            ids = [number for part in parts for number in part.ids or ()]
        if all(part.in_tuples for part in parts):
            rows = [row for part in parts for row in part.rows]
            return cls(parts[0].schema, rows, None, ids)
        return cls(parts[0].schema, None, pa.concat_tables([p.table for p in parts]), ids)

    @property
    def in_tuples(self) -> bool:
        """Whether the batch holds tuples, so that `rows` needs no conversion."""
        return self._rows is not None

    @property
    def rows(self) -> list[Row]:
        """The rows as tuples. Raises OverflowError for a time outside of the years 1 to 9999."""
        if self._rows is None:
            self._rows = tuples_of(self.table)
        return self._rows

    @property
    def table(self) -> pa.Table:
        """The rows as a table."""
        if self._table is None:
            self._table = table_of(self._rows or [], self.schema)
        return self._table

    def column(self, name: str) -> list[Any]:
        """The values of a column."""
        if self._rows is None:
            return values(self.table.column(name))
        place = self.schema.get_field_index(name)
        return [row[place] for row in self._rows]

    def array(self, name: str) -> Any:
        """A column as an Arrow array."""
        if self._table is None:
            return pa.array(self.column(name), self.schema.field(name).type)
        return self.table.column(name).combine_chunks()

    def has(self, name: str) -> bool:
        """Whether there is a column of this name."""
        return self.schema.get_field_index(name) >= 0

    @property
    def has_input_rows(self) -> bool:
        """Whether the rows derive from input rows."""
        return self.has(INPUT_ROW)

    def input_rows(self) -> list[int | None]:
        """The input row of each row; None if it derives from none."""
        return self.column(INPUT_ROW) if self.has_input_rows else [None] * self.num_rows

    def partitions(self) -> list[int] | None:
        """The partition number of each row; None if the rows have no partitions."""
        return self.column(PARTITION) if self.has(PARTITION) else None

    def owners(self, column: str) -> list[str] | None:
        """The partition of each row according to a column, "" for NULL; None without the column."""
        if self.has(column) and self.schema.field(column).type == pa.string():
            return [name or "" for name in self.column(column)]
        return None

    def of_input_rows(self, rows: Collection[int] | None, *, shared: bool = False) -> Batch:
        """The rows that derive from some input rows (None: from any), and with `shared` those that
        derive from no single one; all rows if the batch derives from none.
        """
        if rows is None or not self.has_input_rows:
            return self
        wanted = [*dict.fromkeys(rows), None] if shared else dict.fromkeys(rows)
        return self.take(self._places_of(wanted))

    def without_input_rows(self, rows: Collection[int]) -> Batch:
        """The rows that do not derive from some input rows."""
        if not self.has_input_rows:
            return self
        dropped = set(rows)
        return self.take(self._places_of(row for row in self._by_input_row() if row not in dropped))

    def _places_of(self, input_rows: Iterable[int | None]) -> list[int]:
        by_input_row = self._by_input_row()
        places = [by_input_row[row] for row in input_rows if row in by_input_row]
        return places[0] if len(places) == 1 else sorted(chain.from_iterable(places))

    def _by_input_row(self) -> dict[int | None, list[int]]:
        if self._places is None:
            self._places = {}
            for place, row in enumerate(self.input_rows()):
                self._places.setdefault(row, []).append(place)
        return self._places

    def take(self, places: Sequence[int]) -> Batch:
        """The rows at some indices, which are ascending and distinct."""
        if len(places) == self.num_rows:
            return self
        if not places:
            self._none = self._none or self.slice(0, 0)
            return self._none
        if places[-1] - places[0] == len(places) - 1:
            return self.slice(places[0], len(places))
        return self._at(places)

    def reordered(self, places: Sequence[int]) -> Batch:
        """All rows, in the order of `places`, a permutation of their indices."""
        if all(place == i for i, place in enumerate(places)):
            return self
        return self._at(places)

    def _at(self, places: Sequence[int]) -> Batch:
        ids, sources = _at(self.ids, places), _at(self.sources, places)
        if self._rows is not None:
            rows = [self._rows[place] for place in places]
            return Batch(self.schema, rows, None, ids, sources)
        table = rows_at(self.table, places)
        return Batch(self.schema, None, table, ids, sources)

    def slice(self, first: int, count: int) -> Batch:
        """`count` consecutive rows."""
        end = first + count
        ids = None if self.ids is None else self.ids[first:end]
        sources = None if self.sources is None else self.sources[first:end]
        if self._rows is not None:
            return Batch(self.schema, self._rows[first:end], None, ids, sources)
        return Batch(self.schema, None, self.table.slice(first, count), ids, sources)

    def with_sources(self, sources: Sources | None) -> Batch:
        """The rows without ids, each with the ids of its source rows. None: unknown."""
        return Batch(self.schema, self._rows, self._table, None, sources)

    def derived_from(self, others: Batch, places: Sequence[int] | None = None) -> Batch:
        """The rows, each with one row of `others` as source: at its index, or that in `places`."""
        ids = others.ids if places is None else _at(others.ids, places)
        return self.with_sources(None if ids is None else [(number,) for number in ids])

    def with_ids(self, ids: Ids) -> Batch:
        """The same rows with ids."""
        return Batch(self.schema, self._rows, self._table, ids, self.sources)

    def reading(self, names: Collection[str]) -> Batch:
        """The rows as tuples; columns that are not read may be NULL. Raises as `rows`."""
        if self._rows is not None:
            return self
        unread = [None] * self.num_rows
        columns = [
            values(self.table.column(n)) if n in names else unread for n in self.schema.names
        ]
        return Batch.of_tuples(list(zip(*columns, strict=True)), self.schema)

    def in_order(self, names: Sequence[str]) -> Batch:
        """The rows with these columns, in this order."""
        if self.schema.names == names:
            return self
        schema = pa.schema([self.schema.field(name) for name in names])
        if self._rows is None:
            return Batch(schema, None, self.table.select(names), self.ids, self.sources)
        places = [self.schema.get_field_index(name) for name in names]
        rows = [tuple(row[place] for place in places) for row in self._rows]
        return Batch(schema, rows, None, self.ids, self.sources)

    def confined(self, partition_of: Sequence[int]) -> Batch:
        """The same rows, each with the partition of its input row."""
        if not self.has_input_rows:
            return self
        place = self.schema.get_field_index(PARTITION)
        partitions = [None if row is None else partition_of[row] for row in self.input_rows()]
        if partitions == self.column(PARTITION):
            return self
        if self._rows is not None:
            changed = zip(self._rows, partitions, strict=True)
            rows = [(*row[:place], number, *row[place + 1 :]) for row, number in changed]
            return Batch(self.schema, rows, None, self.ids, self.sources)
        numbers = pa.array(partitions, pa.int64())
        table = self.table.set_column(place, self.schema.field(place), numbers)
        return Batch(table.schema, None, table, self.ids, self.sources)

    def with_ordinal(self) -> pa.Table:
        """The rows with their ordinal, as a relation of a statement."""
        return self.table.append_column(ORDINAL, pa.array(np.arange(self.num_rows)))

    def visible(self) -> pa.Table:
        """The rows without hidden columns."""
        hidden = [self.schema.get_field_index(name) for name in (PARTITION, INPUT_ROW)]
        return self.table.select([i for i in range(len(self.schema)) if i not in hidden])


def _at(items: Sequence[Any] | None, places: Sequence[int]) -> list[Any] | None:
    return None if items is None else [items[place] for place in places]


_UTC = ZoneInfo("UTC")
_EPOCH = datetime(1970, 1, 1, tzinfo=_UTC)


def tuples_of(table: pa.Table) -> list[Row]:
    """The rows of a table as tuples. Raises OverflowError for a time that Python does not have."""
    if not table.num_rows or not table.num_columns:
        return [()] * table.num_rows
    return list(zip(*map(values, table.columns), strict=True))


def table_of(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Tuples in the order of a schema as a table."""
    if not rows:
        return empty_table(schema)
    columns = zip(zip(*rows, strict=True), schema, strict=True)
    arrays = [pa.array(column, field.type) for column, field in columns]
    return pa.Table.from_arrays(arrays, schema=schema)


def values(column: Any) -> list[Any]:
    """The values of an Arrow column."""
    if not _holds_timestamps(column.type):
        return list(column.to_pylist())
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return list(chain.from_iterable(map(_values, chunks)))


@lru_cache(maxsize=4096)
def _holds_timestamps(kind: pa.DataType) -> bool:
    """Whether a type contains timestamps. Arrow converts them slowly: it looks up each time zone."""
    nested = [kind.field(i).type for i in range(kind.num_fields)]
    return kind == TIMESTAMP or any(map(_holds_timestamps, nested))


def _values(array: Any) -> list[Any]:
    kind = array.type
    if not _holds_timestamps(kind):
        return list(array.to_pylist())
    if kind == TIMESTAMP:
        counts = array.view(pa.int64()).to_pylist()
        return [None if n is None else _EPOCH + timedelta(microseconds=n) for n in counts]
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        fields = zip(*map(_values, array.flatten()), strict=True)
        rows = zip(array.is_valid().to_pylist(), fields, strict=True)
        return [dict(zip(names, row, strict=True)) if valid else None for valid, row in rows]
    items = iter(_values(array.flatten()))
    lengths = pc.list_value_length(array).to_pylist()
    return [None if n is None else list(islice(items, n)) for n in lengths]


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with exactly this schema: DuckDB renames list children and widens numbers."""
    if table.schema.equals(schema):
        return table
    return table.select(schema.names).cast(schema) if table.num_rows else empty_table(schema)


@lru_cache(maxsize=4096)
def empty_table(schema: pa.Schema) -> pa.Table:
    """A table without rows, cached, because Arrow takes ten microseconds per column."""
    return schema.empty_table()


def pick(table: pa.Table, path: str) -> pa.ChunkedArray[Any]:
    """A column, or a field of a struct column (`cand.name`)."""
    root, *rest = path.split(".")
    column = table.column(root)
    return pc.struct_field(column, rest) if rest else column


def rows_at(table: pa.Table, places: Sequence[int]) -> pa.Table:
    """The rows of a table at some indices."""
    if places and all(place == i for i, place in enumerate(places, places[0])):
        return table.slice(places[0], len(places))  # faster than take, even for few rows
    return table.take(pa.array(places, pa.int64()))


def dense(values: Sequence[Any]) -> tuple[list[int], list[int]]:
    """The number of each value, in order of first appearance, and the first index of each number."""
    seen: dict[Any, int] = {}
    first: list[int] = []
    numbers = []
    for i, value in enumerate(values):
        if value not in seen:
            seen[value] = len(first)
            first.append(i)
        numbers.append(seen[value])
    return numbers, first
