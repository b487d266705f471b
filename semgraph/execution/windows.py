"""Input rows: their keys and partitions, and their windows and waves."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import InputError, Problem
from semgraph.expr.duckdb import ORDINAL
from semgraph.frontend.rows import set_aside
from semgraph.logical.plan import POSITION, TURN, Windowing
from semgraph.relational.batch import INPUT_ROW, PARTITION, Batch, values
from semgraph.relational.segments import execute
from semgraph.relational.sql import quote
from semgraph.semantic.ask import Failure
from semgraph.stores.writes import fingerprint

_NAME = "_k"  # the key of a row, if `windows` names no key


@dataclass(frozen=True)
class InputRows:
    """The rows of the windowed input, ready to be cut into windows. The table has the input's
    columns (key and partition filled), `position`, `turn`, `_p` (the first row of its partition)
    and `_m`, its index. `of` has the rows of each partition, in order; `bare` are rows with only a
    key, which name stored rows to reprocess; `valued` are the columns but key and partition.
    """

    table: pa.Table
    partitions: list[str]
    partition_of_row: list[str]
    keys: list[str]
    of: tuple[tuple[int, ...], ...]
    bare: frozenset[int] = frozenset()
    valued: tuple[str, ...] = ()

    @cached_property
    def contents(self) -> list[str]:
        """The fingerprint of the values of each row; "": a row with only a key."""
        rows = enumerate(self.table.select(list(self.valued)).to_pylist())
        return ["" if m in self.bare else content_of(row) for m, row in rows]

    @cached_property
    def rows(self) -> pa.Table:
        """The rows as steps read them: partition by partition, each in its order."""
        return self.table.sort_by([(PARTITION, "ascending"), (TURN, "ascending")])


def content_of(row: Mapping[str, Any]) -> str:
    """The fingerprint of the values of an input row without its key; a NULL is as no value."""
    return fingerprint({name: value for name, value in row.items() if value is not None}, 12)


@dataclass(frozen=True)
class Window:
    """Input rows of a partition that commit together; `recorded`: they are computed again."""

    partition: int
    rows: tuple[int, ...]
    recorded: RecordedWindow | None = field(default=None, compare=False)


@dataclass(frozen=True)
class RecordedWindow:
    """A window of a partition to compute again: the ids of its input rows, its `$now`, and that of
    the steps that run ahead of it. `fresh`: the model is asked anew, in place of the journal.
    """

    partition: str
    rows: tuple[str, ...]
    now: datetime
    begun: datetime
    fresh: bool = False


# Windows of different partitions that run together: the next window of each.
Wave = tuple[Window, ...]


@dataclass(frozen=True)
class Confinement:
    """The two meanings of `_p`. Rows with different values of `_p` never meet.

    In steps it is the window, which separates windows that are computed together: the number of its
    first row, even if that row failed. In searches, which match rows of earlier windows, it is the
    partition.
    """

    partition_of: list[int]
    window_of: list[int]

    @classmethod
    def of(cls, rows: InputRows, waves: Sequence[Wave]) -> Confinement:
        """The confinement of input rows that were cut into waves."""
        confinement = cls(values(rows.table.column(PARTITION)), list(range(len(rows.keys))))
        confinement.unite(waves)
        return confinement

    def unite(self, waves: Iterable[Wave]) -> None:
        """Treat each window of some waves as one, independent of the earlier windows of its rows."""
        for window in chain.from_iterable(waves):
            first = min(window.rows)
            for row in window.rows:
                self.window_of[row] = first

    def number(self, window: Window) -> int:
        """The number of a window, even if it has lost rows."""
        return self.window_of[window.rows[0]]

    def by_window(self, batch: Batch) -> Batch:
        """Rows confined by window, for steps."""
        return batch.confined(self.window_of)

    def by_partition(self, batch: Batch) -> Batch:
        """Rows confined by partition, for searches."""
        return batch.confined(self.partition_of)


async def prepare(
    windowing: Windowing, table: pa.Table, places: Sequence[int] | None = None
) -> InputRows:
    """Fill keys and partitions, and number the rows; `places` are their positions if they are a
    part of an input, ascending. Raises InputError if two rows have the same key.
    """
    names = [n for n in table.column_names if n not in {POSITION, TURN}]
    partition, key = quote(windowing.partition), quote(windowing.key or _NAME)
    equal = ", ".join(quote(n) for n in windowing.key_of)
    ordinal = (
        f"row_number() OVER (PARTITION BY {equal} ORDER BY {ORDINAL}) - 1" if equal else ORDINAL
    )
    made = f"uuid5(CAST(json_array({', '.join([*(quote(n) for n in windowing.key_of), ordinal])}) AS VARCHAR))"
    order = ", ".join([*(f"{quote(n)} NULLS LAST" for n in windowing.order), ORDINAL])
    base = f"SELECT * REPLACE (coalesce({partition}, '') AS {partition}) FROM t"
    columns = [
        *(quote(n) if n != windowing.key else f"coalesce({key}, {made}) AS {key}" for n in names),
        f"{ORDINAL} AS {POSITION}",
        f"row_number() OVER (PARTITION BY {partition} ORDER BY {order}) - 1 AS {TURN}",
        f"min({ORDINAL}) OVER (PARTITION BY {partition}) AS {PARTITION}",
        f"{ORDINAL} AS {INPUT_ROW}",
        *([] if windowing.key else [f"{made} AS {_NAME}"]),
    ]
    sql = f"SELECT {', '.join(columns)} FROM ({base}) AS _base ORDER BY {ORDINAL}"
    fields = [table.schema.field(n) for n in names]
    fields += [pa.field(n, pa.int64()) for n in (POSITION, TURN, PARTITION, INPUT_ROW)]
    fields += [] if windowing.key else [pa.field(_NAME, pa.string())]
    numbered = await execute(sql, {"t": table.select(names)}, pa.schema(fields))
    if places is not None:
        at = numbered.column_names.index(POSITION)
        numbered = numbered.set_column(at, POSITION, pa.array(places, pa.int64()))
    valued = tuple(n for n in names if n not in {windowing.key, windowing.partition})
    return replace(_numbered(windowing, numbered), bare=_bare(windowing, table), valued=valued)


def _bare(windowing: Windowing, table: pa.Table) -> frozenset[int]:
    """Rows with a key, and with NULL in all columns of `key_of` except key and partition."""
    others = [name for name in windowing.key_of if name not in {windowing.partition, windowing.key}]
    if not others or not windowing.key:
        return frozenset()
    bare: Any = pc.is_valid(table.column(windowing.key))
    for name in others:
        bare = pc.and_(bare, pc.is_null(table.column(name)))
    return frozenset(values(pc.indices_nonzero(bare.combine_chunks())))


def _numbered(windowing: Windowing, table: pa.Table) -> InputRows:
    firsts = values(table.column(PARTITION))
    numbers = {first: i for i, first in enumerate(dict.fromkeys(sorted(set(firsts))))}
    groups = values(table.column(windowing.partition))
    keys = values(table.column(windowing.key or _NAME))
    table = table if windowing.key else table.drop_columns(_NAME)
    if len(set(keys)) < len(keys):
        seen: dict[str, int] = {}
        for i, key in enumerate(keys):
            if key in seen:
                msg = f'input {windowing.input}: rows {seen[key] + 1} and {i + 1} have the same {windowing.key} "{key}"'
                raise InputError(msg, hint="give each row its own, or none")
            seen[key] = i
    turns = values(table.column(TURN))
    of: list[list[int]] = [[] for _ in numbers]
    for row in sorted(range(len(keys)), key=lambda i: turns[i]):
        of[numbers[firsts[row]]].append(row)
    return InputRows(
        table, [groups[first] for first in numbers], groups, keys, tuple(map(tuple, of))
    )


def cut(windowing: Windowing, pending: Mapping[int, Sequence[int]]) -> list[Wave]:
    """Waves of windows: the next one of every partition, at most `ahead` in a wave."""
    queues: dict[int, Iterator[Window]] = {
        p: _windows(windowing, p, rest) for p, rest in pending.items() if rest
    }
    waves: list[Wave] = []
    while queues:
        ready: list[Window] = []
        for partition in list(queues):
            window = next(queues[partition], None)
            if window is None:
                del queues[partition]
            else:
                ready.append(window)
        waves += [
            tuple(ready[i : i + windowing.ahead])
            for i in range(0, len(ready), max(windowing.ahead, 1))
        ]
    return waves


def recut(rows: InputRows, recorded: Sequence[RecordedWindow]) -> list[Wave]:
    """Recorded windows in waves, in order; those of a wave have the same times."""
    places, partitions = (
        {key: i for i, key in enumerate(own)} for own in (rows.keys, rows.partitions)
    )
    queues: dict[str, deque[RecordedWindow]] = {}
    for window in recorded:
        queues.setdefault(window.partition, deque()).append(window)
    waiting: dict[RecordedWindow, list[deque[RecordedWindow]]] = {}  # by the next window's times

    def wait(queues: Iterable[deque[RecordedWindow]]) -> None:
        for queue in filter(None, queues):
            waiting.setdefault(replace(queue[0], partition="", rows=()), []).append(queue)

    wait(queues.values())
    waves: list[Wave] = []
    while waiting:
        due = waiting.pop(next(iter(waiting)))
        wave: list[Window] = []
        for window in (queue.popleft() for queue in due):
            rows_of_window = tuple(places[key] for key in window.rows)
            wave.append(Window(partitions[window.partition], rows_of_window, window))
        waves.append(tuple(wave))
        wait(due)
    return waves


def _windows(windowing: Windowing, partition: int, rows: Sequence[int]) -> Iterator[Window]:
    size = windowing.window_size(len(rows))
    for i in range(0, len(rows), size):
        yield Window(partition, tuple(rows[i : i + size]))


def joined(windowing: Windowing, waves: Iterable[Wave]) -> tuple[Wave, ...]:
    """The rows of some waves, in the fewest windows that `ahead` allows."""
    rows: dict[int, list[int]] = {}
    for window in chain.from_iterable(waves):
        rows.setdefault(window.partition, []).extend(window.rows)
    return tuple(cut(replace(windowing, size=windowing.ahead), rows))


def without_nul(
    name: str, table: pa.Table, *, windowed: bool = False
) -> tuple[pa.Table, list[Failure], Sequence[int]]:
    """The rows without a NUL, a failure for each other row, and the indices of the former."""
    columns: dict[int, str] = {}
    for column in table.column_names:
        for place in _places(table.column(column)):
            columns.setdefault(place, column)
    if not columns:
        return table, [], range(table.num_rows)
    failures: list[Failure] = []
    for place, column in sorted(columns.items()):
        what = f"column {column}: the text holds a NUL character. Remove it"
        row = table.slice(place, 1).to_pylist()[0]
        failures.append(Failure(name, what, place if windowed else None, row))
    places = [place for place in range(table.num_rows) if place not in columns]
    return table.take(pa.array(places, pa.int64())), failures, places


def _places(column: Any) -> list[int]:
    """The indices of the values with a NUL, including NULs inside lists and structs."""
    if pa.types.is_string(column.type):
        # An empty chunk crashes pyarrow 25.
        found = pc.match_substring(column, "\0").combine_chunks()
        places: list[int] = pc.indices_nonzero(found).to_pylist()
        return places
    if not pa.types.is_nested(column.type):
        return []
    return [place for place, value in enumerate(column.to_pylist()) if _holds(value)]


def _holds(value: object) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, Mapping):
        return any(map(_holds, value.values()))
    return isinstance(value, list) and any(map(_holds, value))


def unreadable(inputs: Mapping[str, pa.Table]) -> list[Failure]:
    """The rows of the inputs that could not be read."""
    return [
        Failure(name, error, None, row)
        for name, table in inputs.items()
        for error, row in set_aside(table)
    ]


def refuse_nul(inputs: Mapping[str, pa.Table], windowing: Windowing) -> None:
    """Refuse rows that cannot fail alone: those with a NUL, or unreadable, in inputs that are not
    cut into windows; all unreadable ones if a failed row stops its partition. Raises InputError.
    """
    stops = windowing.on_error == "stop"
    problems = [
        Problem(f"input {name}, {failure.error}")
        for name, table in inputs.items()
        if name != windowing.input
        for failure in without_nul(name, table)[1]
    ] + [
        Problem(failure.error)
        for failure in unreadable(inputs)
        if stops or failure.step != windowing.input
    ]
    if problems:
        raise InputError(*problems[:3])
