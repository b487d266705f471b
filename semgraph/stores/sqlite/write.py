"""Writes in SQLite: one transaction for a batch, with its commit marker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from sqlite3 import Connection
from typing import Any

from semgraph.errors import ConcurrentWrite
from semgraph.expr.functions import canonical_json
from semgraph.stores import base
from semgraph.stores.prepare import (
    PreparedMerge,
    Refusals,
    check_length,
    keys_of,
    no_end,
    other_end,
    still_has_edges,
    taken,
)
from semgraph.stores.sqlite import schema
from semgraph.stores.writes import (
    history_of,
    marked_rows,
    pack,
    shared_parts,
    window_of,
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def _head(con: Connection, partition: str) -> str | None:
    row = con.execute('SELECT head FROM "#heads" WHERE part = ?', (partition,)).fetchone()
    return row[0] if row else None


def _time(micros: int) -> datetime:
    return _EPOCH + micros * _MICROSECOND


def _micros(time: datetime) -> int:
    return ((time.replace(tzinfo=UTC) if time.tzinfo is None else time) - _EPOCH) // _MICROSECOND


def write_markers(con: Connection, marker: base.CommitMarker) -> None:
    """Write a commit marker for each input row, and the window with what it wrote."""
    if not marker.rows:
        return
    of = (marker.plan, marker.partition)
    last = 'SELECT coalesce(max(number), 0) FROM "#windows" WHERE plan = ? AND part = ?'
    number = con.execute(last, of).fetchone()[0] + 1
    asked = _keys(con, marker.rows)
    moved = 'SELECT DISTINCT plan, part, "window" FROM "#marks" WHERE plan = ? AND part = ?'
    earlier = con.execute(f"{moved} AND row IN (SELECT key FROM {asked})", of).fetchall()
    rest = (marker.fingerprint, _micros(marker.now), marker.run, marker.witness)
    con.executemany(
        f'INSERT OR REPLACE INTO "#marks" VALUES ({", ".join("?" * 10)})',
        ((*of, row, *rest, content, number, place) for place, row, content in marked_rows(marker)),
    )
    hashed, parts = shared_parts(marker)
    begun = None if marker.begun is None else _micros(marker.begun)
    con.execute('INSERT OR IGNORE INTO "#window_parts" VALUES (?, ?)', (hashed, parts))
    con.execute(
        'INSERT INTO "#windows" VALUES (?, ?, ?, ?, ?, ?, ?)',
        (*of, number, _micros(marker.now), begun, hashed, pack(marker.writes)),
    )
    _delete_empty_windows(con, earlier)


def _delete_empty_windows(con: Connection, windows: Iterable[tuple[str, str, int | None]]) -> None:
    """Delete those of some windows without a marker, and the parts that no window names."""
    marked = 'SELECT 1 FROM "#marks" m WHERE m.plan = w.plan AND m.part = w.part AND m."window" = w.number'
    deleted = con.executemany(
        'DELETE FROM "#windows" AS w WHERE plan = ? AND part = ? AND number = ? '
        f"AND NOT EXISTS ({marked})",
        windows,
    )
    if deleted.rowcount > 0:
        _delete_unnamed_parts(con)


def _delete_unnamed_parts(con: Connection) -> None:
    named = 'SELECT 1 FROM "#windows" w WHERE w.parts = p.hash'
    con.execute(f'DELETE FROM "#window_parts" AS p WHERE NOT EXISTS ({named})')


class ReadMarkers:
    """Reads heads, and the commit markers of a plan with an existing witness."""

    def __init__(self, con: Connection, tables: schema.Tables, plan: str) -> None:
        self.con, self.plan = con, plan
        witnessed = "".join(
            f" OR (witness = {schema.text(name)} AND EXISTS (SELECT 1 FROM {table.name} WHERE {table.key} = m.row))"
            for name, table in tables.items()
        )
        self._sql = (
            'SELECT "window", place, m.row, fingerprint, now, run, content FROM "#marks" m '
            f"WHERE plan = ? AND part = ? AND (witness IS NULL{witnessed})"
        )

    def markers(
        self, partition: str, more: str = "", *values: str
    ) -> Iterator[tuple[int | None, int | None, base.CommittedRow]]:
        """The window, the place there, and the row of each marker of a partition."""
        found = self.con.execute(self._sql + more, (self.plan, partition, *values))
        for window, place, row, fingerprint, now, run, content in found:
            yield window, place, base.CommittedRow(row, fingerprint, _time(now), run, content)

    def windows(self, partition: str) -> dict[int, base.CommittedWindow]:
        """The windows of a partition by number, without their rows."""
        sql = (
            'SELECT w.number, w.now, w.begun, p.parts, w.writes FROM "#windows" w '
            'LEFT JOIN "#window_parts" p ON p.hash = w.parts WHERE w.plan = ? AND w.part = ?'
        )
        return {
            number: window_of(_time(now), None if begun is None else _time(begun), parts, writes)
            for number, now, begun, parts, writes in self.con.execute(sql, (self.plan, partition))
        }

    def states(self, rows: Mapping[str, Sequence[str]]) -> dict[str, base.PartitionState]:
        """As `Store.states`."""
        states = {}
        for name, own in rows.items():
            found = (self.markers(name, " AND m.row = ?", row) for row in dict.fromkeys(own))
            committed = {marker.row: marker for _, _, marker in chain.from_iterable(found)}
            states[name] = base.PartitionState(_head(self.con, name), committed)
        return states

    def history(self, partitions: Iterable[str]) -> dict[str, base.History]:
        """As `Store.history`."""
        return {
            name: history_of(_head(self.con, name), self.markers(name), self.windows(name))
            for name in partitions
        }


class EncodedMerge:
    """A merge with values in stored form, prepared before any lock is taken."""

    def __init__(self, table: schema.Table, prepared: PreparedMerge, store: str) -> None:
        self.table, self.write, self.store = table, prepared.write, store
        self.keys, self.parts = prepared.keys, prepared.partitions
        self.columns: dict[str, list[Any]] = {
            name: schema.encode(array, table.label.columns[name], f"{name} of {table.label.name}")
            for name, array in prepared.columns.items()
        }
        for name, values in (("labels", prepared.labels), ("attributes", prepared.attributes)):
            if values:
                self.columns[name] = [None if v is None else canonical_json(v) for v in values]
        self.vectors = {
            name: v.spread(line.tobytes() for line in v.numbers.astype("<f4", copy=False))
            for name, v in prepared.vectors.items()
        }
        self.sizes = {name: v.size for name, v in prepared.vectors.items() if v.size is not None}

    def run(self, con: Connection, version: int, refusals: Refusals) -> int:
        """Merge the rows, and return their number; record refusals. Raises StoreUnavailable."""
        stored = self._stored(con, refusals)
        new: list[int] = []
        old: list[int] = []
        for n, key in enumerate(self.keys):
            if key in stored:
                old.append(n)
            elif not self.write.only_existing:
                new.append(n)
                stored[key] = -1
        if isinstance(self.write, base.EdgeWrite):
            self._check_ends(con, new, old, refusals)
            new = [n for n in new if not refusals.holds(self.write, self.keys[n])]
        self._insert(con, new)
        ids = self._stored(con, refusals) if new else stored
        self._update(con, old, ids)
        for name in self.vectors:
            rows = new if name in self.write.create else [*new, *old]
            self._write_vectors(con, name, rows, ids, version)
        return len(new) + len(old)

    def _stored(self, con: Connection, refusals: Refusals) -> dict[str, int]:
        """Ids by key of the stored rows; rows of a different partition are refused."""
        t, columns = self.table, f"k.key, t.{schema.ID}, t.{self.table.partition}"
        sql = f"SELECT {columns} FROM {_keys(con, self.keys)} k CROSS JOIN {t.name} t WHERE t.{t.key} = k.key"
        stored = {key: (row, part) for key, row, part in con.execute(sql)}
        for key, part in zip(self.keys, self.parts, strict=True):
            if part is not None and key in stored and stored[key][1] != part:
                refusals.add(self.write, key, taken(f"{self.table.label.name} {key}"))
        return {key: row for key, (row, _) in stored.items()}

    def _check_ends(
        self, con: Connection, new: Sequence[int], old: Sequence[int], refusals: Refusals
    ) -> None:
        """Refuse edges without their ends, with new ends, or with ends in another partition."""
        label, keys = self.table.label, self.keys
        ends = {name: self.columns.get(name, [None] * len(keys)) for name in ("source", "target")}
        rows = [
            (keys[n], self.parts[n], ends["source"][n], ends["target"][n], is_new)
            for is_new in (True, False)
            for n in (new if is_new else old)
        ]
        columns = ["key TEXT", "part TEXT", "source TEXT", "target TEXT", "new INTEGER"]
        written = schema.temporary(con, "#ends", columns, rows)
        key, own = self.table.key, self.table.partition
        for end, node in (("source", label.source), ("target", label.target)):
            exists = f"EXISTS (SELECT 1 FROM {schema.quote(node)} t WHERE t.{key} = e.{end})"
            found = f"SELECT e.key, e.{end} FROM {written} e"
            own_end = f"JOIN {schema.quote(node)} t ON t.{key} = e.{end}"
            apart = f"{found} {own_end} WHERE t.{own} <> e.part"
            all_ends = (f"{found} WHERE e.new AND NOT {exists}", apart)
            for sql in all_ends[: 2 - self.write.only_existing]:
                for edge, at in con.execute(sql):
                    refusals.add(self.write, edge, no_end(f"{label.name} {edge}", end, at, node))
            sql = (
                f"SELECT e.key, t.{end}, e.{end} FROM {written} e JOIN {self.table.name} t ON t.{key} = e.key "
                f"WHERE t.{end} <> e.{end}"
            )
            for edge, *ends_of in con.execute(sql):
                refusals.add(self.write, edge, other_end(f"{label.name} {edge}", end, *ends_of))

    def _insert(self, con: Connection, new: Sequence[int]) -> None:
        if not new:
            return
        partition = self.table.graph.partition
        columns = {name: [values[n] for n in new] for name, values in self.columns.items()}
        columns[partition] = [value or "" for value in columns.get(partition, [None] * len(new))]
        for name in self.write.unite & set(columns):
            columns[name] = [value and schema.unite("[]", value) for value in columns[name]]
        names, holders = ", ".join(map(schema.quote, columns)), ", ".join("?" * len(columns))
        con.executemany(
            f"INSERT INTO {self.table.name} ({names}) VALUES ({holders})",
            zip(*columns.values(), strict=True),
        )

    def _update(self, con: Connection, old: Sequence[int], ids: Mapping[str, int]) -> None:
        table = self.table
        fixed = {table.graph.key, table.graph.partition, *table.label.ends, *self.write.create}
        own = {n: [v[i] for i in old] for n, v in self.columns.items() if n not in fixed}
        nulls = [None] * len(old)
        columns = {n: v for n, v in own.items() if v != nulls or (self.write.replace and v)}
        if not columns:
            return
        rows = zip(*columns.values(), (ids[self.keys[n]] for n in old), strict=True)
        settings = ", ".join(f"{schema.quote(name)} = {self._merged(name)}" for name in columns)
        con.executemany(f"UPDATE {self.table.name} SET {settings} WHERE {schema.ID} = ?", rows)

    def _merged(self, name: str) -> str:
        if self.write.replace:
            return "?"
        if name in self.write.unite:
            return f"unite({schema.quote(name)}, ?)"
        if name in self.table.label.open & {"labels"}:
            return f"add_labels({schema.quote(name)}, ?)"
        return f"coalesce(?, {schema.quote(name)})"

    def _write_vectors(
        self, con: Connection, name: str, rows: Sequence[int], ids: Mapping[str, int], version: int
    ) -> None:
        values, vectors = self.vectors[name], schema.quote(self.table.vectors(name))
        given = (n for n in rows if values[n] is not None or self.write.replace)
        pairs = [(ids[self.keys[n]], values[n] or b"") for n in given]
        # A zero vector has no direction and counts as none.
        zeros = ((row,) for row, vector in pairs if not any(vector))
        con.executemany(f"DELETE FROM {vectors} WHERE {schema.ID} = ?", zeros)
        if not pairs or name not in self.sizes:
            return
        self._check_size(con, name)
        con.executemany(
            f"INSERT INTO {vectors} ({schema.ID}, part, changed, vector) "
            f"SELECT t.{schema.ID}, t.{self.table.partition}, {version}, ? FROM {self.table.name} t WHERE t.{schema.ID} = ? "
            f"ON CONFLICT ({schema.ID}) DO UPDATE SET changed = excluded.changed, vector = excluded.vector "
            "WHERE vector IS NOT excluded.vector",
            ((vector, row) for row, vector in pairs if any(vector)),
        )

    def _check_size(self, con: Connection, name: str) -> None:
        """The first vector fixes the length. Raises StoreUnavailable for another one."""
        label, size = self.table.label.name, self.sizes[name]
        stored = schema.read_dimensions(con).get((label, name), size)
        check_length(self.store, label, name, stored, size)
        row = self.table.vectors(name), size
        con.execute('INSERT OR REPLACE INTO "#dimensions" VALUES (?, ?)', row)


def _keys(con: Connection, keys: Iterable[str | None]) -> str:
    return schema.temporary(con, "#keys", ["key TEXT"], ((key,) for key in keys), unique="key")


def delete(con: Connection, tables: schema.Tables, write: base.Deletion, refusals: Refusals) -> int:
    """Delete nodes or edges by key and partition, and the commit markers that they witness; return
    their number. Nodes that still have edges are refused, unless the write detaches them.
    """
    table = tables[write.label]
    rows = zip(*keys_of(table.graph, write), strict=True)
    deleted = schema.temporary(con, "#deleted", ["key TEXT", "part TEXT"], rows, unique="key, part")
    same = f"g.part IS NULL OR g.part = t.{table.partition}"
    gone = f"SELECT g.key FROM {deleted} g CROSS JOIN {table.name} t WHERE t.{table.key} = g.key AND ({same})"
    for edges in tables.values() if table.label.kind == "node" else ():
        ends = [end for end in ("source", "target") if getattr(edges.label, end) == write.label]
        touching = " OR ".join(f"{end} IN ({gone})" for end in ends)
        if not ends or edges.label.kind == "node":
            continue
        if write.detach:
            con.execute(f"DELETE FROM {edges.name} WHERE {touching}")
            continue
        sql = " UNION ALL ".join(
            f"SELECT {end}, {edges.key}, source, target FROM {edges.name} WHERE {end} IN ({gone})"
            for end in ends
        )
        for key, edge, source, target in con.execute(sql):
            between = f"{edges.label.name} {edge} lies between {source} and {target}"
            refusals.add(write, key, still_has_edges(f"a {write.label}", between))
    count = con.execute(f"DELETE FROM {table.name} WHERE {table.key} IN ({gone})").rowcount
    own = "g.key = m.row AND (g.part IS NULL OR g.part = m.part)"
    marked = f"SELECT 1 FROM {deleted} g WHERE {own}"
    sql = f'DELETE FROM "#marks" AS m WHERE m.witness = ? AND EXISTS ({marked}) RETURNING plan, part, "window"'
    _delete_empty_windows(con, set(con.execute(sql, (write.label,)).fetchall()))
    return count


def next_version(con: Connection) -> int:
    """Increment the version of the file: the writes of this transaction are newer than all before."""
    sql = "UPDATE \"#meta\" SET value = value + 1 WHERE name = 'version' RETURNING value"
    version: int = con.execute(sql).fetchall()[0][0]
    return version


def commit(
    con: Connection,
    tables: schema.Tables,
    new: base.NewContent,
    merges: Sequence[EncodedMerge],
    *,
    whole: bool = False,
    forgets: bool = False,
) -> dict[str, int]:
    """Write a batch and its commit markers within a transaction that holds the lock; return the
    rows by label. The markers replace those of the same rows, or all if `whole`. `forgets`: no
    words of deleted rows stay. Raises ConcurrentWrite, RowsRefused; both must be rolled back.
    """
    for partition, (before, head) in new.heads.items():
        if before != _head(con, partition):
            raise ConcurrentWrite(partition)
        con.execute('INSERT OR REPLACE INTO "#heads" VALUES (?, ?)', (partition, head))
    counts = _write(con, tables, new.batch, merges)
    if forgets and new.batch.rows:
        forget_words(con, tables)
    for own in ('"#marks"', '"#windows"') if whole else ():
        sql = f"DELETE FROM {own} WHERE plan = ? AND part = ?"
        con.executemany(sql, ((new.plan, partition) for partition in new.heads))
    for marker in new.markers:
        write_markers(con, marker)
    if whole:
        _delete_unnamed_parts(con)
    return counts


def forget_words(con: Connection, tables: schema.Tables) -> None:
    """Remove the words of deleted rows from the full-text tables, which keep them until they merge."""
    for name in (full for table in tables.values() for full in table.fulltext):
        con.execute(f"INSERT INTO {schema.quote(name)} ({schema.quote(name)}) VALUES ('optimize')")


def _write(
    con: Connection, tables: schema.Tables, batch: base.WriteBatch, merges: Sequence[EncodedMerge]
) -> dict[str, int]:
    refusals = Refusals()
    version = next_version(con)
    counts: Counter[str] = Counter()
    deletes = (w for w in batch.writes if isinstance(w, base.Deletion) and w.rows.num_rows)
    for write in sorted(deletes, key=lambda w: tables[w.label].label.kind == "node"):
        counts[write.label] += delete(con, tables, write, refusals)
    for merge in sorted(merges, key=lambda m: isinstance(m.write, base.EdgeWrite)):
        counts[merge.write.label] += merge.run(con, version, refusals)
    refusals.check()
    return dict(counts)


def clear(con: Connection, tables: schema.Tables, partitions: Sequence[str] | None) -> None:
    """Delete what is in some partitions (None: all), and the edges that touch it."""
    next_version(con)
    parts = _keys(con, partitions or ())
    inner = f"SELECT key FROM {parts}"
    for table in tables.values():
        if partitions is None or table.label.kind == "node":
            continue
        touching = [f"{table.partition} IN ({inner})"]
        for end in ("source", "target"):
            node = tables[getattr(table.label, end)]
            touching.append(
                f"{end} IN (SELECT {node.key} FROM {node.name} WHERE {node.partition} IN ({inner}))"
            )
        con.execute(f"DELETE FROM {table.name} WHERE {' OR '.join(touching)}")
    for table in tables.values():
        where = "" if partitions is None else f"WHERE {table.partition} IN ({inner})"
        con.execute(f"DELETE FROM {table.name} {where}")
    for own in ('"#heads"', '"#marks"', '"#windows"'):
        where = "" if partitions is None else f"WHERE part IN ({inner})"
        con.execute(f"DELETE FROM {own} {where}")
    forget_words(con, tables)
    _delete_unnamed_parts(con)
