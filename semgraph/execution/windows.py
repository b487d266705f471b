"""Cutting an input into windows: whose a row is, what it is called, and when its turn comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import InputError, Problem
from semgraph.expr.duckdb import ORDINAL
from semgraph.logical.plan import POSITION, TURN, Order
from semgraph.relational.fragments import execute
from semgraph.relational.sql import MEMBER, PARTITION, quote, values
from semgraph.semantic.ask import Failure

_NAME = "_k"  # what names a row, where the order names no key


@dataclass(frozen=True)
class Members:
    """The rows of the order's input, ready to be cut.

    Args:
        table: The input's columns (key and partition filled), `position`, `turn`, `_p` (the first
            member of its partition), `_m`; row i has `_m` = i.
        partitions: Partition values, by number.
        names: Partition values, by `_m`.
        keys: Row ids, by `_m`.
        of: For each partition, its members in their order.
        bare: Those of which nothing but the key was given: they name what is stored already, to be
            run anew.
    """

    table: pa.Table
    partitions: list[str]
    names: list[str]
    keys: list[str]
    of: tuple[tuple[int, ...], ...]
    bare: frozenset[int] = frozenset()

    @cached_property
    def rows(self) -> pa.Table:
        """The rows as steps read them: partition after partition, each in its own order."""
        return self.table.sort_by([(PARTITION, "ascending"), (TURN, "ascending")])


@dataclass(frozen=True)
class Window:
    """Some members of one partition that are run and committed together."""

    partition: int
    members: tuple[int, ...]


Wave = tuple[Window, ...]


@dataclass(frozen=True)
class Confinement:
    """What `_p` stands for: rows of two values of it never meet. Both are told by a member's
    number.

    In steps it is the window, so that windows which are computed together keep apart. In searches,
    which find rows of earlier windows, it is the partition.
    """

    _partition: pa.Array  # type: ignore[type-arg]
    _window: pa.Array  # type: ignore[type-arg]

    @classmethod
    def of(cls, members: Members, waves: Sequence[Wave]) -> Confinement:
        """That of members as they are cut."""
        window = np.arange(len(members.keys))
        for wave in waves:
            for part in wave:
                window[list(part.members)] = min(part.members)
        return cls(members.table.column(PARTITION).combine_chunks(), pa.array(window, pa.int64()))

    def window_of(self, member: int) -> int:
        """The number of the window that a member was cut into: its first member in the input, also
        if that one failed.
        """
        number: int = self._window[member].as_py()
        return number

    def by_window(self, table: pa.Table) -> pa.Table:
        """A relation as steps see it; one that derives from no member stays as it is."""
        return self._set(table, self._window)

    def by_partition(self, table: pa.Table) -> pa.Table:
        """A relation as searches see it."""
        return self._set(table, self._partition)

    def _set(self, table: pa.Table, of: pa.Array) -> pa.Table:  # type: ignore[type-arg]
        if MEMBER not in table.column_names:
            return table
        place = table.schema.get_field_index(PARTITION)
        return table.set_column(
            place, table.schema.field(place), of.take(table.column(MEMBER).combine_chunks())
        )


async def prepare(order: Order, table: pa.Table) -> Members:
    """Fill keys and partitions, and number the rows. Raises InputError where two rows have one
    key.
    """
    names = [n for n in table.column_names if n not in {POSITION, TURN}]
    partition, key = quote(order.partition), quote(order.key or _NAME)
    equal = ", ".join(quote(n) for n in order.key_of)
    ordinal = (
        f"row_number() OVER (PARTITION BY {equal} ORDER BY {ORDINAL}) - 1" if equal else ORDINAL
    )
    made = f"uuid5(CAST(json_array({', '.join([*(quote(n) for n in order.key_of), ordinal])}) AS VARCHAR))"
    by = ", ".join([*(f"{quote(n)} NULLS LAST" for n in order.by), ORDINAL])
    base = f"SELECT * REPLACE (coalesce({partition}, '') AS {partition}) FROM t"
    columns = [
        *(quote(n) if n != order.key else f"coalesce({key}, {made}) AS {key}" for n in names),
        f"{ORDINAL} AS {POSITION}",
        f"row_number() OVER (PARTITION BY {partition} ORDER BY {by}) - 1 AS {TURN}",
        f"min({ORDINAL}) OVER (PARTITION BY {partition}) AS {PARTITION}",
        f"{ORDINAL} AS {MEMBER}",
        *([] if order.key else [f"{made} AS {_NAME}"]),
    ]
    sql = f"SELECT {', '.join(columns)} FROM ({base}) AS _base ORDER BY {ORDINAL}"
    kinds = [(n, pa.int64()) for n in (POSITION, TURN, PARTITION, MEMBER)]
    named = [] if order.key else [pa.field(_NAME, pa.string())]
    fields = [
        *(table.schema.field(n) for n in names),
        *(pa.field(n, kind) for n, kind in kinds),
        *named,
    ]
    found = await execute(sql, {"t": table.select(names)}, pa.schema(fields))
    return replace(_numbered(order, found), bare=_bare(order, table))


def _bare(order: Order, table: pa.Table) -> frozenset[int]:
    """Rows with a key, and with nothing of what a key would be made of but the partition."""
    others = [name for name in order.key_of if name not in {order.partition, order.key}]
    if not others or not order.key:
        return frozenset()
    found = pc.is_valid(table.column(order.key))
    for name in others:
        found = pc.and_(found, pc.is_null(table.column(name)))
    return frozenset(values(pc.indices_nonzero(found)))


def _numbered(order: Order, table: pa.Table) -> Members:
    firsts = values(table.column(PARTITION))
    numbers = {first: i for i, first in enumerate(dict.fromkeys(sorted(set(firsts))))}
    groups = values(table.column(order.partition))
    keys = values(table.column(order.key or _NAME))
    table = table if order.key else table.drop_columns(_NAME)
    if len(set(keys)) < len(keys):
        seen: dict[str, int] = {}
        for i, key in enumerate(keys):
            if key in seen:
                msg = f'input {order.input}: rows {seen[key] + 1} and {i + 1} have the same {order.key} "{key}"'
                raise InputError(Problem(msg, hint="give each row its own, or none"))
            seen[key] = i
    turns = values(table.column(TURN))
    of: list[list[int]] = [[] for _ in numbers]
    for member in sorted(range(len(keys)), key=lambda m: turns[m]):
        of[numbers[firsts[member]]].append(member)
    return Members(table, [groups[first] for first in numbers], groups, keys, tuple(map(tuple, of)))


def rows_of(table: pa.Table, members: Sequence[int]) -> pa.Table:
    """The rows of a relation that derive from some members."""
    if MEMBER not in table.column_names:
        return table
    return table.filter(pc.is_in(table.column(MEMBER), value_set=pa.array(members, pa.int64())))


def cut(order: Order, pending: Mapping[int, Sequence[int]]) -> list[Wave]:
    """Waves of windows: the next window of every partition that has one, at most `ahead` of them at
    a time.
    """
    queues: dict[int, Iterator[Window]] = {
        p: _windows(order, p, rest) for p, rest in pending.items() if rest
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
            tuple(ready[i : i + order.ahead]) for i in range(0, len(ready), max(order.ahead, 1))
        ]
    return waves


def _windows(order: Order, partition: int, members: Sequence[int]) -> Iterator[Window]:
    size = order.window or len(members)
    for i in range(0, len(members), size):
        yield Window(partition, tuple(members[i : i + size]))


def slices(waves: Sequence[Wave], ahead: int) -> Iterator[tuple[Wave, ...]]:
    """Waves that run ahead together: one first, so that something is committed soon, then twice as
    many windows each time, up to half of `ahead`, so that one slice can be computed while another
    is committed.
    """
    size, current = 1, list[Wave]()
    count = 0
    for wave in waves:
        current.append(wave)
        count += len(wave)
        if count >= size:
            yield tuple(current)
            current, count = [], 0
            size = min(size * 2, max(ahead // 2, 1))
    if current:
        yield tuple(current)


def without_nul(
    name: str, table: pa.Table, *, members: bool = False
) -> tuple[pa.Table, list[Failure]]:
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
    return table.filter(
        pa.array([place not in columns for place in range(table.num_rows)])
    ), failures


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
