"""Heads and marks in SQLite: which rows of a partition are committed already, and who wrote it last."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from semgraph.errors import ConcurrentWrite
from semgraph.stores.base import Mark, Marked, PartitionState
from semgraph.stores.sqlite_schema import Table

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def take_head(con: sqlite3.Connection, mark: Mark) -> None:
    """Compare the head of a mark's partition and set it, in a transaction that holds the lock. Raises ConcurrentWrite."""
    found = con.execute('SELECT head FROM "#heads" WHERE part = ?', (mark.partition,)).fetchone()
    if mark.before != (found[0] if found else None):
        raise ConcurrentWrite(mark.partition)
    con.execute('INSERT OR REPLACE INTO "#heads" VALUES (?, ?)', (mark.partition, mark.head))


def leave(con: sqlite3.Connection, mark: Mark) -> None:
    """Leave a mark for each member row."""
    now = mark.now.replace(tzinfo=UTC) if mark.now.tzinfo is None else mark.now
    rest = (mark.fingerprint, (now - _EPOCH) // _MICROSECOND, mark.run, mark.witness)
    rows = ((mark.plan, mark.partition, row, *rest) for row in mark.rows)
    con.executemany('INSERT OR REPLACE INTO "#marks" VALUES (?, ?, ?, ?, ?, ?, ?)', rows)


def states(
    con: sqlite3.Connection, tables: Mapping[str, Table], plan: str, partitions: Sequence[str]
) -> dict[str, PartitionState]:
    """Heads of partitions, and the marks of a plan whose witness is still there."""
    heads: dict[str, str | None] = {}
    marked: dict[str, dict[str, Marked]] = {}
    witnesses = [row[0] for row in con.execute('SELECT DISTINCT witness FROM "#marks" WHERE plan = ?', (plan,))]
    for partition in dict.fromkeys(partitions):
        found = con.execute('SELECT head FROM "#heads" WHERE part = ?', (partition,)).fetchone()
        heads[partition] = found[0] if found else None
        marked[partition] = {}
        for witness in witnesses:
            if witness is not None and witness not in tables:
                continue
            there = "TRUE"
            if witness is not None:
                table = tables[witness]
                there = f"EXISTS (SELECT 1 FROM {table.name} t WHERE t.{table.key} = m.row)"
            rows = con.execute(
                'SELECT m.row, m.fingerprint, m.now, m.run FROM "#marks" m '
                f"WHERE m.plan = ? AND m.part = ? AND m.witness IS ? AND {there}",
                (plan, partition, witness),
            )
            for row, fingerprint, now, run in rows:
                marked[partition][row] = Marked(row, fingerprint, _EPOCH + now * _MICROSECOND, run)
    return {partition: PartitionState(heads[partition], marked[partition]) for partition in heads}
