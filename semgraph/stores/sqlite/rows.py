"""The rows of a request in SQL, stored rows as columns, and the parts that all search methods share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from sqlite3 import Connection
from typing import Any, NamedTuple

import pyarrow as pa

from semgraph.expr import Scalar, Type
from semgraph.expr.types import type_of_arrow
from semgraph.stores.base import Alias
from semgraph.stores.conditions import Prop, Term, Test, Value, evaluate, read_all, values_of
from semgraph.stores.prepare import (
    Dimensions,
    column,
    further_labels,
    partitions_of,
    struct_array,
    typed,
)
from semgraph.stores.sqlite.schema import (
    ID,
    Table,
    decode,
    decode_vectors,
    encode,
    quote,
    temporary,
)

_CALLS = {"coalesce": "coalesce", "contains": "list_holds", "overlaps": "lists_meet"}


class RequestRows:
    """The rows of one round trip: `r` in SQL, with their ordinal `r.q`. The columns that queries
    need are collected first, then loaded once.
    """

    def __init__(self, rows: pa.Table) -> None:
        self.rows = rows
        self.ordinals: list[Any] = column(rows, "_q").to_pylist()
        self._columns: list[list[Any]] = []
        self._names: dict[object, str] = {}
        self._partitions: dict[str, list[tuple[str, ...]]] = {}

    @property
    def table(self) -> str:
        """The table with the rows. It is named by its width: statements stay prepared."""
        return quote(self._name)

    @property
    def _name(self) -> str:
        return f"#rows{len(self._columns)}"

    def column(self, name: object, array: pa.Array[Any], kind: Type | None = None) -> str:
        """A column of the rows in SQL. Calls with the same `name` share one column."""
        if name not in self._names:
            self._names[name] = f"r.c{len(self._columns)}"
            shown = name[0] if isinstance(name, tuple) else getattr(name, "sql", name)
            kind, what = kind or type_of_arrow(array.type), f'column "{shown}" of the rows'
            self._columns.append(encode(typed(array, kind, what), kind, what))
        return self._names[name]

    def path(self, path: str, kind: Type) -> str:
        """A column by its path, in the type that it is compared with."""
        return self.column((path, kind), column(self.rows, path), kind)

    def conjuncts(
        self, scalars: Sequence[Scalar], alias: Alias, term: Callable[[Prop], tuple[str, Type]]
    ) -> list[str]:
        """Conjuncts that the store takes, in SQL. `term` gives SQL and type of a property."""
        terms = read_all(scalars, alias, lambda prop: term(prop)[1])
        values = values_of(terms)
        for value, array in zip(values, evaluate(values, self.rows), strict=True):
            self.column(value, array)
        return [self._text(one, term) for one in terms]

    def _text(self, term: Term, prop: Callable[[Prop], tuple[str, Type]]) -> str:
        if isinstance(term, Prop):
            return prop(term)[0]
        if isinstance(term, Value):
            return self._names[term]
        return _test(term, [self._text(arg, prop) for arg in term.args])

    def partitions(self, path: str) -> list[tuple[str, ...]]:
        """For each row, the partitions that it may see."""
        if path not in self._partitions:
            self._partitions[path] = partitions_of(self.rows, path)
        return self._partitions[path]

    def parts(self, path: str) -> str:
        """The temporary table with rows and partitions, `(q, part)`."""
        self.partitions(path)
        return quote(f"#parts{list(self._partitions).index(path)}")

    def load(self, con: Connection) -> None:
        """Fill the temporary tables, within a transaction."""
        names = ["q INTEGER PRIMARY KEY", *(f"c{i}" for i in range(len(self._columns)))]
        temporary(con, self._name, names, zip(self.ordinals, *self._columns, strict=True))
        for i, listed in enumerate(self._partitions.values()):
            of = zip(self.ordinals, listed, strict=True)
            pairs = ((q, part) for q, parts in of for part in parts)
            temporary(con, f"#parts{i}", ["q INTEGER", "part TEXT"], pairs, unique="q, part")


def _test(test: Test, args: list[str]) -> str:
    if test.op in _CALLS:
        return f"{_CALLS[test.op]}({', '.join(args)})" if len(args) > 1 else args[0]
    if test.op == "in":
        return f"({args[0]} IN ({', '.join(args[1:])}))"
    if test.op == "pair":
        a, b, c, d = args
        return f"(({a} IS {c} AND {b} IS {d}) OR ({a} IS {d} AND {b} IS {c}))"
    if len(args) == 1:
        return f"(NOT {args[0]})" if test.op == "not" else f"({args[0]} IS NULL)"
    return f"({args[0]} {'IS' if test.op == 'same' else test.op.upper()} {args[1]})"


class RankedHit(NamedTuple):
    """A hit of one method."""

    q: int
    rank: int
    score: float
    id: int


@dataclass(frozen=True)
class SearchScope:
    """The parts that all methods of a search share. In SQL the label's table is `t`, the rows are
    `r`. `partitions` are those that each row may see (None: all), `parts` the temporary table with
    them. `pinned`: conditions name the key or the ends of a hit, and so leave few hits.
    """

    table: Table
    request: RequestRows
    where: tuple[str, ...]
    partitions: Sequence[tuple[str, ...]] | None
    parts: str
    pinned: bool

    @property
    def partition(self) -> str:
        """The partition of a hit, in SQL; not by its index if conditions leave few hits."""
        return f"{'+' if self.pinned else ''}t.{self.table.partition}"

    def seen(self, row: int) -> tuple[str, ...] | None:
        """The partitions that a row may see; None: all."""
        return None if self.partitions is None else self.partitions[row]

    def confined(self, row: int) -> tuple[str, tuple[Any, ...]]:
        """The condition that confines the hits of a row to its visible partitions, and its values."""
        seen = self.seen(row)
        if seen is None:
            return "TRUE", ()
        if len(seen) == 1:
            return f"{self.partition} = ?", seen
        of_row = f"SELECT part FROM temp.{self.parts} WHERE q = ?"
        return f"{self.partition} IN ({of_row})", (self.request.ordinals[row],)

    def joined(self, test: str) -> str:
        """The rows with all their hits that pass a test and the conditions, from `FROM` on."""
        parts = f"CROSS JOIN temp.{self.parts} s" if self.parts else ""
        seen = ["s.q = r.q", f"{self.partition} = s.part"] if self.parts else []
        tests, rows = " AND ".join((test, *seen, *self.where)), f"temp.{self.request.table} r"
        return f"FROM {rows} {parts} CROSS JOIN {self.table.name} t WHERE {tests}"

    def passing(
        self, con: Connection, near: Sequence[tuple[int, int, float]], *, confined: bool
    ) -> list[tuple[int, int, float]]:
        """The passing hits (ordinal, id, score), in order; if `confined`, those that are seen."""
        columns = ["n INTEGER PRIMARY KEY", "q INTEGER", "id INTEGER", "score REAL"]
        found = temporary(con, "#near", columns, ((n, *hit) for n, hit in enumerate(near)))
        own = f"EXISTS (SELECT 1 FROM temp.{self.parts} s WHERE s.q = r.q AND s.part = {self.partition})"
        tests = [f"t.{ID} = h.id", "r.q = h.q", *([own] if confined else ()), *self.where]
        return con.execute(
            f"SELECT h.q, h.id, h.score FROM {found} h CROSS JOIN temp.{self.request.table} r "
            f"CROSS JOIN {self.table.name} t WHERE {' AND '.join(tests)} ORDER BY h.n"
        ).fetchall()

    def all_passing(
        self, con: Connection, ordinals: Sequence[int]
    ) -> list[tuple[str, int, int, str]]:
        """Partition, ordinal, id and key of all passing rows, sorted by the first two."""
        selected = f"t.{self.table.partition}, r.q, t.{ID}, t.{self.table.key}"
        rows = self.joined("r.q IN (SELECT value FROM json_each(?))")
        sql = f"SELECT {selected} {rows} ORDER BY 1, 2"
        return con.execute(sql, (str([*ordinals]),)).fetchall()

    def ranked(self, con: Connection, hits: list[tuple[float, int]]) -> list[tuple[float, int]]:
        """Scores and ids, best first, ties by key; keys are read only for ties."""
        hits.sort(reverse=True)
        if any(one[0] == next_[0] for one, next_ in pairwise(hits)):
            table = self.table
            sql = f"SELECT {ID}, {table.key} FROM {table.name} WHERE {ID} IN (SELECT value FROM json_each(?))"
            keys: dict[int, str] = dict(con.execute(sql, (str([row for _, row in hits]),)))
            hits.sort(key=lambda hit: (-hit[0], keys[hit[1]]))
        return hits


@dataclass(frozen=True)
class StoredRows:
    """Properties of stored rows, read within a transaction. `dimensions` are lengths of vectors."""

    con: Connection
    dimensions: Dimensions

    def by_id(self, table: Table, names: Sequence[str], ids: Sequence[int]) -> list[pa.Array[Any]]:
        """Rows by id, each read once, in the order of `ids`."""
        arrays, places = self._by(table, names, ID, sorted(set(ids)))
        index = pa.array([places[row] for row in ids], pa.int64())
        return [array.take(index) for array in arrays]

    def nodes(
        self, table: Table, names: Sequence[str], keys: Sequence[str | None], kind: pa.StructType
    ) -> pa.Array[Any]:
        """Nodes by key as structs, each read once, in the order of `keys`."""
        distinct = sorted({key for key in keys if key is not None})
        arrays, places = self._by(table, names, table.key, distinct)
        nodes: pa.Array[Any] = struct_array(arrays, kind)
        return nodes.take(pa.array([places.get(key) for key in keys], pa.int64()))

    def _by(
        self, table: Table, names: Sequence[str], by: str, values: Sequence[Any]
    ) -> tuple[list[pa.Array[Any]], dict[Any, int]]:
        """The rows with some values in the column `by`, and their positions by value."""
        selected = ", ".join(table.stored(name) for name in names)
        where = f"t.{by} IN (SELECT value FROM json_each(?))"
        sql = f"SELECT {selected}, t.{by} FROM {table.name} t WHERE {where}"
        rows = self.con.execute(sql, (json.dumps(values),)).fetchall()
        arrays = self.arrays(table, names, [row[:-1] for row in rows])
        return arrays, {row[-1]: n for n, row in enumerate(rows)}

    def arrays(
        self, table: Table, names: Sequence[str], rows: Sequence[Sequence[Any]]
    ) -> list[pa.Array[Any]]:
        """Rows from SQLite as columns in their types; see `LeftOut.columns`."""
        label = table.label

        def convert(name: str, values: Sequence[Any]) -> pa.Array[Any]:
            if name not in label.columns:
                return decode_vectors(values, self.dimensions.get((label.name, name), 1))
            column = decode(values, label.columns[name])
            if name == "labels" and name in label.open:
                listed = [v and further_labels(table.graph, v) for v in column.to_pylist()]
                column = pa.array(listed, column.type)
            if name == "attributes" and name in label.open:
                for text in values:
                    dict(json.loads(text or "{}").items())
            return column

        return table.left_out.columns(table.graph, label.name, names, rows, convert)
