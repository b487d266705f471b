"""Results that are read from the run record when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semgraph.execution.record import recorded_parts
from semgraph.relational.batch import INPUT_ROW, PARTITION

RESULTS = "results"
"""The folder of a record that has the results."""
RETAINED = 64 << 20
"""Bytes of results that a run with a record keeps in memory: as much as a record buffers. Above it,
they are read from the record.
"""
_NUMBERS = [PARTITION, INPUT_ROW]


def in_order(table: pa.Table) -> pa.Table:
    """Rows of windows by the first input row of their window; within a window as they are."""
    numbered = table.append_column("_row", pa.array(range(table.num_rows)))
    return numbered.sort_by([(PARTITION, "ascending"), ("_row", "ascending")]).drop_columns("_row")


@dataclass(frozen=True)
class ResultSource:
    """A run record, and the input rows of which it has the results.

    Args:
        folder: The record.
        left_out: Input rows of windows that were recorded and not committed.
        only: The input rows; None: all but those left out.
    """

    folder: Path
    left_out: frozenset[int] = frozenset()
    only: npt.NDArray[np.int64] | None = None

    def has(self, rows: pa.ChunkedArray[Any]) -> npt.NDArray[np.bool_]:
        """Whether it has the results of some input rows."""
        numbers = rows.to_numpy()
        if self.only is not None:
            return np.isin(numbers, self.only)
        return ~np.isin(numbers, np.fromiter(self.left_out, np.int64))


@dataclass(frozen=True)
class RecordedRows:
    """One result in run records: parts, with the windows in the order of their commits.

    Args:
        name: The name of the result.
        schema: Its columns, with the hidden ones.
        sources: The record of the run, and those of the runs that it resumed.
    """

    name: str
    schema: pa.Schema
    sources: tuple[ResultSource, ...]

    def _parts(
        self, columns: list[str] | None = None
    ) -> Iterator[tuple[pa.Table, npt.NDArray[np.bool_]]]:
        """The parts, each with its rows that belong to the result."""
        kinds = pa.schema([self.schema.field(name) for name in columns or self.schema.names])
        for source in self.sources:
            for part in recorded_parts(source.folder, RESULTS, self.name, columns):
                yield part.select(kinds.names).cast(kinds), source.has(part[INPUT_ROW])

    def table(self) -> pa.Table:
        """All rows, in the order of a result."""
        parts = (part.filter(pa.array(own)) for part, own in self._parts())
        return in_order(pa.concat_tables([self.schema.empty_table(), *parts]))

    @property
    def count(self) -> int:
        """How many rows there are."""
        return sum(int(own.sum()) for _, own in self._parts([INPUT_ROW]))

    def head(self, rows: int) -> pa.Table:
        """The first rows, in the order of a result. Reads two numbers of each row, and one part at a
        time.
        """
        numbers = [(part[PARTITION].to_numpy(), own) for part, own in self._parts(_NUMBERS)]
        if not numbers:
            return self.schema.empty_table()
        places = np.flatnonzero(np.concatenate([own for _, own in numbers]))
        windows = np.concatenate([window for window, _ in numbers])[places]
        wanted = np.sort(places[np.argsort(windows, kind="stable")[:rows]])
        start, first = 0, []
        for part, _ in self._parts():
            own = wanted[(wanted >= start) & (wanted < start + part.num_rows)] - start
            first.append(part.take(own))
            start += part.num_rows
        return in_order(pa.concat_tables(first))


@dataclass(frozen=True)
class RecordedTables(Mapping[str, pa.Table]):
    """The results of a run by name, each read when it is first asked for, without hidden columns.

    Args:
        recorded: Results that derive from input rows.
        others: All other results; they are in memory.
    """

    recorded: Mapping[str, RecordedRows]
    others: Mapping[str, pa.Table]
    _read: dict[str, pa.Table] = field(default_factory=dict, compare=False, repr=False)

    def __getitem__(self, name: str) -> pa.Table:
        """A result. Raises KeyError."""
        if name in self.others:
            return self.others[name]
        if name not in self._read:
            self._read[name] = _visible(self.recorded[name].table())
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        """The names of the results."""
        yield from (*self.recorded, *self.others)

    def __len__(self) -> int:
        """How many results there are."""
        return len(self.recorded) + len(self.others)

    def count(self, name: str) -> int:
        """How many rows a result has. Raises KeyError."""
        return self.others[name].num_rows if name in self.others else self.recorded[name].count

    def head(self, name: str, rows: int) -> pa.Table:
        """The first rows of a result. Raises KeyError."""
        if name in self.others:
            return self.others[name].slice(0, rows)
        return _visible(self.recorded[name].head(rows))


def _visible(table: pa.Table) -> pa.Table:
    return table.drop_columns(_NUMBERS)
