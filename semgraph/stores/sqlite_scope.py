"""What a search may find: the rows that ask, the conditions on a hit, the partitions that each row may see."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from semgraph.stores.sqlite_schema import ID, Table
from semgraph.stores.sqlite_terms import Asking
from semgraph.stores.sqlite_vectors import VectorCache

_LARGE = 4
"""A partition is large if it has more than one in so many of a table's rows."""


class Found(NamedTuple):
    """A hit of one method."""

    q: int
    rank: int
    score: float
    id: int


class Sizes:
    """How many rows partitions have, about: chooses how full text is confined to them, never what it finds."""

    def __init__(self) -> None:
        self._counted: dict[tuple[str, str], tuple[int, int]] = {}

    def is_large(self, con: sqlite3.Connection, table: Table, partitions: Sequence[str]) -> bool:
        """Whether some partitions hold a good part of a table. Counted anew when the table has grown by half."""
        total: int = con.execute(f"SELECT coalesce(max({ID}), 0) FROM {table.name}").fetchone()[0]
        held = 0
        for partition in partitions:
            name = (table.label.name, partition)
            count, then = self._counted.get(name, (0, 0))
            if total > 1.5 * then:
                sql = f"SELECT count(*) FROM {table.name} WHERE {table.partition} = ?"
                count = con.execute(sql, (partition,)).fetchone()[0]
                self._counted[name] = (count, total)
            held += count
        return held * _LARGE > total


class Memory:
    """What a store keeps between searches."""

    def __init__(self) -> None:
        self.vectors = VectorCache()
        self.sizes = Sizes()


class Ranking(Protocol):
    """One method of a search, prepared for its rows."""

    def found(self, con: sqlite3.Connection, memory: Memory) -> Iterator[Found]:
        """The hits, row by row, best first, at most k each; within a transaction, after the rows are loaded."""
        ...


@dataclass(frozen=True)
class Scope:
    """What all methods of a search share.

    Args:
        table: Of the label; `t` in SQL.
        asking: The rows; `r` in SQL.
        where: Conditions in SQL, over `t` and `r`.
        partitions: For each row what it may see; None: all.
        parts: The temporary table that says the same; "" for all.
        pinned: Whether the conditions name the key or the ends of a hit, and so leave few.
    """

    table: Table
    asking: Asking
    where: tuple[str, ...]
    partitions: Sequence[tuple[str, ...]] | None
    parts: str
    pinned: bool

    @property
    def partition(self) -> str:
        """The partition of a hit, in SQL; where conditions leave few hits, not to be looked up by the index on it."""
        return f"{'+' if self.pinned else ''}t.{self.table.partition}"

    def seen(self, row: int) -> tuple[str, ...] | None:
        """The partitions that a row may see; None: all."""
        return None if self.partitions is None else self.partitions[row]

    def confined(self, row: int) -> tuple[str, tuple[Any, ...]]:
        """The condition that confines the hits of a row to what it may see, and its values."""
        seen = self.seen(row)
        if seen is None:
            return "TRUE", ()
        if len(seen) == 1:
            return f"{self.partition} = ?", seen
        return f"{self.partition} IN (SELECT part FROM temp.{self.parts} WHERE q = ?)", (self.asking.ordinals[row],)

    def holds_all(self, con: sqlite3.Connection, partitions: Sequence[str]) -> bool:
        """Whether a table has no rows but of some one partition."""
        ends = ", ".join(f"(SELECT {end}({self.table.partition}) FROM {self.table.name})" for end in ("min", "max"))
        return len(partitions) == 1 and con.execute(f"SELECT {ends}").fetchone() == (*partitions, *partitions)

    def ranked(self, con: sqlite3.Connection, hits: list[tuple[float, int]]) -> list[tuple[float, int]]:
        """Scores and ids, best first, ties by key; keys are read only where there are ties."""
        hits.sort(reverse=True)
        if any(one[0] == next_[0] for one, next_ in pairwise(hits)):
            table = self.table
            sql = f"SELECT {ID}, {table.key} FROM {table.name} WHERE {ID} IN (SELECT value FROM json_each(?))"
            keys: dict[int, str] = dict(con.execute(sql, (str([row for _, row in hits]),)))
            hits.sort(key=lambda hit: (-hit[0], keys[hit[1]]))
        return hits

    def one_row(
        self,
        con: sqlite3.Connection,
        row: int,
        select: str,
        conditions: Sequence[str],
        values: Sequence[Any],
        order: str,
        k: int | None,
    ) -> Iterator[Found]:
        """The hits of one row, each a score and an id. With a statement of its own, an index can stop at k.

        Args:
            con: The connection.
            row: Number of the row.
            select: Columns and sources, with `{rows}` before the first source.
            conditions: Besides `where`.
            values: Of the conditions.
            order: Before the key.
            k: How many; None: all.
        """
        q = self.asking.ordinals[row]
        rows = f"temp.{self.asking.table} r CROSS JOIN" if self.where else ""
        own, bound = (("r.q = ?",), (q,)) if self.where else ((), ())
        where = " AND ".join([*own, *conditions, *self.where])
        sql = f"SELECT {select.format(rows=rows)} WHERE {where} ORDER BY {order}, t.{self.table.key} LIMIT ?"
        for rank, (score, found) in enumerate(con.execute(sql, (*bound, *values, -1 if k is None else k))):
            yield Found(q, rank, score, found)
