"""The layout of a graph in an SQLite file, and the migration of a file to `graph.yaml`.

Each label has a table of its name. All objects that belong to it have `#` in their names, which no
label or property can have:

- `Label#text#index`: FTS5 over the words of the index's properties, each as `word_N` with the
  number of its partition. The postings of a partition are separate terms; those of all partitions
  are a prefix;
- `Label#text#index#rows`: the indexed rows with their partition and the version of the file in
  which their texts last changed;
- `Label#vector#property`: vectors with their partition and the version of the file that added them;
- `Label#by#property`, `Label#ends#source`: indexes;
- `#partitions`: the numbers of partitions, which outlive their rows;
- `#meta`, `#dimensions`, `#gone`, `#heads`, `#marks`, `#windows`, `#window_parts`: semgraph's own. A row of
  `#marks` is an input row of a window, and one of `#window_parts` belongs to all windows that name it.

Triggers keep full text and vectors in step with the labels' tables. FTS5 deletes a row only if it
gets the same words again, so the result of `partition_words` belongs to the layout: if it changes,
`WORDS` must change. `#meta` has, by label, the version of its words and derived texts.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from sqlite3 import Connection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import DataError, EngineError, PlanError, Problem, StoreUnavailable
from semgraph.expr import Type
from semgraph.expr.functions import TEXT_FUNCTIONS, canonical_json, terms
from semgraph.logical.schema import Graph, Label
from semgraph.stores.base import part_of
from semgraph.stores.prepare import LeftOut, check_length, check_partition

APPLICATION = 0x53474D31
SCHEMA = 5
WORDS = 4
ID = '"#id"'
_OWN = {
    "#meta": "(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
    "#dimensions": "(name TEXT PRIMARY KEY, size INTEGER NOT NULL) WITHOUT ROWID",
    "#partitions": "(id INTEGER PRIMARY KEY, part TEXT NOT NULL UNIQUE)",
    "#gone": "(name TEXT, part TEXT, version INTEGER NOT NULL, PRIMARY KEY (name, part)) WITHOUT ROWID",
    "#heads": "(part TEXT PRIMARY KEY, head TEXT NOT NULL) WITHOUT ROWID",
    "#marks": "(plan TEXT, part TEXT, row TEXT, fingerprint TEXT NOT NULL, now INTEGER NOT NULL, run TEXT NOT NULL, "
    "witness TEXT, content TEXT NOT NULL DEFAULT '', \"window\" INTEGER, place INTEGER, "
    "PRIMARY KEY (plan, part, row)) WITHOUT ROWID",
    "#windows": "(plan TEXT, part TEXT, number INTEGER, now INTEGER NOT NULL, begun INTEGER, parts TEXT NOT NULL, "
    "writes BLOB NOT NULL, PRIMARY KEY (plan, part, number))",
    "#window_parts": "(hash TEXT PRIMARY KEY, parts TEXT NOT NULL) WITHOUT ROWID",
}
_OWN_INDEXES = {
    "#marks#window": 'CREATE INDEX "#marks#window" ON "#marks" (plan, part, "window")',
    "#windows#parts": 'CREATE INDEX "#windows#parts" ON "#windows" (parts)',
}
# The columns of tables that an earlier version made without them, by name.
_ADDED = {
    "#marks": {"content": "TEXT NOT NULL DEFAULT ''", "window": "INTEGER", "place": "INTEGER"}
}
Numbers = dict[tuple[str, str], int]  # by label and property
_VERSION = "(SELECT value FROM \"#meta\" WHERE name = 'version')"


def quote(name: str) -> str:
    """A name as an identifier."""
    return '"' + name.replace('"', '""') + '"'


def temporary(
    con: Connection,
    name: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    unique: str = "",
) -> str:
    """Rows as a temporary table, which replaces its earlier rows. Of rows with equal values in the
    `unique` columns, only the first stays. Returns the table in SQL.
    """
    table = f"temp.{quote(name)}"
    parts = [*columns, f"UNIQUE ({unique})"] if unique else columns
    con.execute(f"CREATE TEMP TABLE IF NOT EXISTS {quote(name)} ({', '.join(parts)})")
    con.execute(f"DELETE FROM {table}")
    insert, values = "INSERT OR IGNORE" if unique else "INSERT", ", ".join("?" * len(columns))
    con.executemany(f"{insert} INTO {table} VALUES ({values})", rows)
    return table


def labels_in(con: Connection) -> list[str]:
    """The labels with tables in a file, of any graph."""
    names = "SELECT name FROM sqlite_master WHERE type = 'table' AND instr(name, '#') = 0 AND name NOT LIKE 'sqlite!_%' "
    return [name for (name,) in con.execute(f"{names} ESCAPE '!' ORDER BY name")]


def text(value: str) -> str:
    """A name as a literal; only for names from the graph."""
    return "'" + value.replace("'", "''") + "'"


@dataclass(frozen=True)
class Table:
    """The table of a label, its dependent objects, and the rows that reads of the store left out."""

    graph: Graph
    label: Label
    left_out: LeftOut = field(compare=False)

    @property
    def name(self) -> str:
        """The quoted name."""
        return quote(self.label.name)

    @property
    def key(self) -> str:
        """The quoted key column."""
        return quote(self.graph.key)

    @property
    def partition(self) -> str:
        """The quoted partition column."""
        return quote(self.graph.partition)

    def stored(self, name: str, alias: str = "t") -> str:
        """A column in SQL; open columns are never NULL, vectors come from a separate table."""
        if name in self.label.vectors.values():
            return f"(SELECT vector FROM {quote(self.vectors(name))} v WHERE v.{ID} = {alias}.{ID})"
        empty = {"labels": "'[]'", "attributes": "'{}'"}.get(name)
        column = f"{alias}.{quote(name)}"
        return f"coalesce({column}, {empty})" if empty and name in self.label.open else column

    def type_of(self, name: str) -> Type:
        """The type of a stored column. Raises EngineError if there is none."""
        if name not in self.label.columns:
            known = ", ".join(self.label.columns)
            raise EngineError(f'{self.label.name} has no property "{name}"; it has {known}')
        return self.label.columns[name]

    @property
    def fulltext(self) -> list[str]:
        """The names of its full-text tables."""
        return [_words_name(self.label, index) for index in self.label.fulltext]

    def words(self, prop: str) -> tuple[str, tuple[str, ...]]:
        """The full-text table with a property, and all properties in it."""
        index, properties = next((i, p) for i, p in self.label.fulltext.items() if prop in p)
        return _words_name(self.label, index), properties

    def indexed_rows(self, prop: str) -> tuple[str, tuple[str, ...]]:
        """The table that stamps the rows of a property's index, and all properties in it."""
        full, properties = self.words(prop)
        return _rows_name(full), properties

    def vectors(self, name: str) -> str:
        """The table of a vector property."""
        return f"{self.label.name}#vector#{name}"

    def create(self) -> str:
        """The SQL that creates the table itself."""
        required = dict.fromkeys((*self.label.ends, self.graph.partition), " NOT NULL")
        required |= {self.graph.key: " NOT NULL UNIQUE"}
        kinds = ((name, column_type(kind)) for name, kind in self.label.columns.items())
        columns = (f"{quote(name)} {kind}{required.get(name, '')}" for name, kind in kinds)
        return f"CREATE TABLE {self.name} ({', '.join((f'{ID} INTEGER PRIMARY KEY', *columns))})"

    def parts(self) -> Iterator[tuple[str, str]]:
        """Name and SQL of the objects of the table: full text, vectors, indexes, triggers."""
        yield self._index(self.graph.key)
        for name in dict.fromkeys((*self.label.index, "created_at")):
            if name in self.label.columns and name != self.graph.partition:
                yield self._index(name)
        if self.label.kind == "edge":
            for name, ends in (("source", '("source", "target")'), ("target", '("target")')):
                full = f"{self.label.name}#ends#{name}"
                yield full, f"CREATE INDEX {quote(full)} ON {self.name} {ends}"
        for index, properties in self.label.fulltext.items():
            yield from self._fulltext(_words_name(self.label, index), properties)
        for vector in self.label.vectors.values():
            yield from self._vectors(self.vectors(vector))

    def _index(self, name: str) -> tuple[str, str]:
        full = f"{self.label.name}#by#{name}"
        return full, f"CREATE INDEX {quote(full)} ON {self.name} ({self.partition}, {quote(name)})"

    def words_row(self, properties: tuple[str, ...], row: str = "") -> str:
        """The indexed form of a row (`new.`, `old.`, or of the table): the words of each property."""
        number = f'(SELECT id FROM "#partitions" WHERE part = {row}{self.partition})'
        return ", ".join(f"partition_words({row}{quote(name)}, {number})" for name in properties)

    def _fulltext(self, full: str, properties: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        fts, cells = quote(full), ", ".join(f"c{i}" for i in range(len(properties)))
        kind = f"fts5({cells}, content='', tokenize=\"ascii tokenchars '_'\")"
        yield full, f"CREATE VIRTUAL TABLE {fts} USING {kind}"
        new, old = self.words_row(properties, "new."), self.words_row(properties, "old.")
        number = number_partitions(f"(SELECT new.{self.partition} AS part)") + ";"
        put = f"{number} INSERT INTO {fts} (rowid, {cells}) VALUES (new.{ID}, {new});"
        take = f"INSERT INTO {fts} ({fts}, rowid, {cells}) VALUES ('delete', old.{ID}, {old});"
        read = [self.partition, *map(quote, properties)]
        yield self._trigger(full, "INSERT", "", put)
        yield self._trigger(full, "DELETE", "", take)
        yield self._trigger(full, "UPDATE", *_changed(read, f"{take} {put}"))
        yield from self._indexed_rows(_rows_name(full), properties)

    def _indexed_rows(self, full: str, properties: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        table = quote(full)
        yield from _stamped(full)
        put = f"INSERT INTO {table} VALUES (new.{ID}, new.{self.partition}, {_VERSION});"
        take = f"DELETE FROM {table} WHERE {ID} = old.{ID};"
        stamp = f"UPDATE {table} SET changed = {_VERSION} WHERE {ID} = old.{ID};"
        yield self._trigger(full, "INSERT", "", put)
        yield self._trigger(full, "DELETE", "", take)
        yield self._trigger(full, "UPDATE", *_changed([*map(quote, properties)], stamp))
        yield self._trigger(f"{full}#moved", "UPDATE", *self._moved(table))
        yield from _gone(full)

    def _vectors(self, full: str) -> Iterator[tuple[str, str]]:
        table = quote(full)
        yield from _stamped(full, "vector BLOB NOT NULL")
        yield self._trigger(full, "DELETE", "", f"DELETE FROM {table} WHERE {ID} = old.{ID};")
        yield self._trigger(full, "UPDATE", *self._moved(table))
        yield from _gone(full)

    def _moved(self, table: str) -> tuple[str, str, str]:
        """The columns, action and condition of a trigger for updates that move a row."""
        part = self.partition
        moved = f"UPDATE {table} SET part = new.{part}, changed = {_VERSION} WHERE {ID} = old.{ID};"
        return f"OF {part}", moved, f"WHEN old.{part} IS NOT new.{part}"

    def _trigger(
        self, full: str, event: str, of: str, body: str, when: str = ""
    ) -> tuple[str, str]:
        name = f"{full}#{event.lower()}"
        trigger = f"CREATE TRIGGER {quote(name)} AFTER {event} {of} ON {self.name} {when}"
        return name, f"{trigger} BEGIN {body} END"


Tables = Mapping[str, Table]  # by label


def _changed(columns: list[str], body: str) -> tuple[str, str, str]:
    """The columns, action and condition of a trigger for updates of some columns."""
    differ = " OR ".join(f"old.{c} IS NOT new.{c}" for c in columns)
    return f"OF {', '.join(columns)}", body, f"WHEN {differ}"


def _stamped(full: str, more: str = "") -> Iterator[tuple[str, str]]:
    """A table of rows with their partition and the version of the file that added them."""
    columns = [f"{ID} INTEGER PRIMARY KEY", "part TEXT NOT NULL", "changed INTEGER NOT NULL"]
    yield full, f"CREATE TABLE {quote(full)} ({', '.join([*columns, *filter(None, [more])])})"
    name = f"{full}#changed"
    yield name, f"CREATE INDEX {quote(name)} ON {quote(full)} (part, changed)"


def _gone(full: str) -> Iterator[tuple[str, str]]:
    """The triggers that record the version at which a partition lost a row of such a table."""
    gone = (
        f'INSERT INTO "#gone" VALUES ({text(full)}, old.part, {_VERSION}) '
        "ON CONFLICT DO UPDATE SET version = excluded.version;"
    )
    for event, of in (("DELETE", ""), ("UPDATE", "OF part")):
        name = f"{full}#gone#{event.lower()}"
        trigger = f"CREATE TRIGGER {quote(name)} AFTER {event} {of} ON {quote(full)}"
        yield name, f"{trigger} BEGIN {gone} END"


def number_partitions(source: str) -> str:
    """The statement that assigns numbers to new partitions of a source, its column `part`."""
    known = 'SELECT 1 FROM "#partitions" p WHERE p.part = s.part'
    return f'INSERT INTO "#partitions" (part) SELECT DISTINCT part FROM {source} s WHERE NOT EXISTS ({known})'


def _words_name(label: Label, index: str) -> str:
    return f"{label.name}#text#{index}"


def _rows_name(full: str) -> str:
    """The table that stamps the rows of a full-text table."""
    return f"{full}#rows"


def tables_of(graph: Graph) -> dict[str, Table]:
    """The tables of a graph by label. Raises PlanError for names that SQLite cannot distinguish."""
    left_out = LeftOut()
    tables = {name: Table(graph, label, left_out) for name, label in graph.labels.items()}
    of = [(f'graph "{graph.name}"', [*graph.labels])]
    of += [(n, [*label.columns, *label.vectors.values()]) for n, label in graph.labels.items()]
    clashes = [problem for where, names in of for problem in _clashes(where, names)]
    if clashes:
        raise PlanError(*clashes)
    return tables


def _clashes(where: str, names: Iterable[str]) -> Iterator[Problem]:
    seen: dict[str, str] = {}
    for name in names:
        if (other := seen.setdefault(name.lower(), name)) != name:
            what = f'{where}: SQLite cannot tell "{other}" and "{name}" apart'
            yield Problem(what, hint="name one of them otherwise")


def _objects(tables: Tables) -> dict[str, str]:
    own = {name: f"CREATE TABLE {quote(name)} {body}" for name, body in _OWN.items()}
    own |= _OWN_INDEXES | {table.label.name: table.create() for table in tables.values()}
    for table in tables.values():
        own |= dict(table.parts())
    return own


def _existing_objects(con: Connection) -> dict[str, str]:
    return dict(con.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def _missing_columns(con: Connection, tables: Tables) -> dict[str, list[str]]:
    missing = {}
    labels = {
        name: {column: column_type(kind) for column, kind in table.label.columns.items()}
        for name, table in tables.items()
    }
    for name, columns in (_ADDED | labels).items():
        existing = {row[1] for row in con.execute(f"PRAGMA table_info({quote(name)})")}
        new = [f"{quote(own)} {kind}" for own, kind in columns.items() if own not in existing]
        if existing and new:
            missing[name] = new
    return missing


def check_file(con: Connection, store: str) -> None:
    """Refuse a file that is not of this version of semgraph. Raises StoreUnavailable."""
    # The order matters: another process may be creating the file; its tables and marker appear
    # together.
    queries = ("SELECT count(*) FROM sqlite_master", "PRAGMA application_id", "PRAGMA user_version")
    objects, application, schema = (con.execute(query).fetchone()[0] for query in queries)
    why, later = "", f"layout {schema}; this one knows {SCHEMA}"
    if application != APPLICATION:
        why = "is an SQLite file of another program. Nothing was written. Name another file."
        why *= bool(objects)
    elif schema == 1:
        why = "was written by semgraph 0.1.0. Open it once with semgraph 0.2.0, which upgrades it."
    elif schema > SCHEMA:
        why = f"was written by a later version of semgraph ({later}). Update semgraph."
    if why:
        raise StoreUnavailable(f"{store}  {why}")


def part_in(con: Connection) -> str:
    """The part of a store that the file is, in words; "": a whole store."""
    if con.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        return ""
    sql = "SELECT name, value FROM \"#meta\" WHERE name IN ('shard', 'shards')"
    recorded = dict(con.execute(sql).fetchall())
    return part_of(recorded["shard"], recorded["shards"]) if recorded else ""


def is_current(con: Connection, tables: Tables, layouts: dict[str, int]) -> bool:
    """Whether the layout of the file is that of the graph. `layouts`, which is updated, has for
    each graph the schema version of the file that was current.
    """
    graph = next((table.graph.canonical_text for table in tables.values()), "")
    version: int = con.execute("PRAGMA schema_version").fetchone()[0]
    if layouts.get(graph) == version:
        return True
    existing = _existing_objects(con)
    old = any(_is_old(name, sql, existing) for name, sql in _objects(tables).items())
    if old or _missing_columns(con, tables) or outdated(con, tables):
        return False
    layouts[graph] = version
    return True


def _is_old(name: str, sql: str, existing: Mapping[str, str]) -> bool:
    holds_data = sql.startswith("CREATE TABLE")
    return name not in existing if holds_data else existing.get(name) != sql


def outdated(con: Connection, tables: Tables) -> list[Table]:
    """The tables with words and derived texts of an earlier version."""
    current = dict(con.execute('SELECT name, value FROM "#meta"'))
    return [table for name, table in tables.items() if current.get(f"words of {name}") != WORDS]


def bring_up_to_date(con: Connection, tables: Tables) -> None:
    """Bring objects, words and derived texts to this version, within a write transaction."""
    existing = _existing_objects(con)
    old = outdated(con, tables) if "#meta" in existing else []
    for full in (_words_name(t.label, index) for t in old for index in t.label.fulltext):
        if full in existing:
            con.execute(f"DROP TABLE {quote(full)}")
            del existing[full]
    for name, columns in _missing_columns(con, tables).items():
        for column in columns:
            con.execute(f"ALTER TABLE {quote(name)} ADD COLUMN {column}")
    for name, sql in _objects(tables).items():
        if _is_old(name, sql, existing):
            if name in existing:
                kind = existing[name].split()[1]
                con.execute(f"DROP {'TABLE' if kind == 'VIRTUAL' else kind} {quote(name)}")
            con.execute(sql)
            _fill(con, name, tables)
    con.execute("INSERT OR IGNORE INTO \"#meta\" VALUES ('version', 0)")
    fill_derived(con, old, "{name} IS NOT derive({of})")
    made = [(f"words of {name}", WORDS) for name in tables]
    con.executemany('INSERT OR REPLACE INTO "#meta" VALUES (?, ?)', made)
    con.execute(f"PRAGMA application_id = {APPLICATION}")
    con.execute(f"PRAGMA user_version = {SCHEMA}")


def _fill(con: Connection, name: str, tables: Tables) -> None:
    """Fill a new full-text table, or one that stamps its rows, from existing rows."""
    for table in tables.values():
        for index, properties in table.label.fulltext.items():
            full = _words_name(table.label, index)
            if name == _rows_name(full):
                columns = f"{ID}, {table.partition}, {_VERSION}"
                con.execute(f"INSERT INTO {quote(name)} SELECT {columns} FROM {table.name}")
            if name == full:
                cells = ", ".join(f"c{i}" for i in range(len(properties)))
                parts = number_partitions(f"(SELECT {table.partition} AS part FROM {table.name})")
                con.execute(parts)
                rows = f"SELECT {ID}, {table.words_row(properties)} FROM {table.name}"
                con.execute(f"INSERT INTO {quote(name)} (rowid, {cells}) {rows}")


def read_dimensions(con: Connection) -> Numbers:
    """The lengths of the stored vectors by label and vector property; no entry without vectors."""
    rows = con.execute('SELECT name, size FROM "#dimensions"').fetchall()
    held = [row for row in rows if con.execute(f"SELECT 1 FROM {quote(row[0])} LIMIT 1").fetchone()]
    return {(name.split("#")[0], name.split("#")[2]): size for name, size in held}


def check_layout(con: Connection, tables: Tables, store: str) -> None:
    """Refuse a graph with another partition or key than the tables of the file. Raises PlanError."""
    for name, table in tables.items():
        indexes = con.execute(f"PRAGMA index_list({table.name})").fetchall()
        first = {
            origin: con.execute(f"PRAGMA index_info({quote(index)})").fetchone()[2]
            for _, index, _, origin, _ in indexes
            if origin == "u" or index.startswith(f"{name}#by#")
        }
        if len(first) == 2:  # all indexes start with the partition; the key is unique
            check_partition(store, table.graph, name, first["c"], first["u"])


def check_dimensions(con: Connection, tables: Tables, dimensions: int | None, store: str) -> None:
    """Refuse vectors of another length than the stored ones. Raises StoreUnavailable."""
    for (label, name), stored in read_dimensions(con).items():
        check_length(store, label, name, stored if label in tables else None, dimensions)


def fill_derived(
    con: Connection, tables: Iterable[Table], where: str = "{name} IS NULL"
) -> Numbers:
    """Store missing derived texts. Returns the numbers of rows by label and property."""
    counts: Numbers = {}
    for table in tables:
        for derived in table.label.derived.values():
            if derived.by == "embed":
                continue
            con.create_function("derive", 1, TEXT_FUNCTIONS[derived.by].python, deterministic=True)
            name, of = quote(derived.name), quote(derived.of)
            which = f"typeof({of}) = 'text' AND {where.format(name=name, of=of)}"
            sql = f"UPDATE {table.name} SET {name} = derive({of}) WHERE {which}"
            if number := con.execute(sql).rowcount:
                counts[table.label.name, derived.name] = number
    return counts


def count_unembedded(con: Connection, tables: Tables) -> Numbers:
    """The number of rows with a text but without its vector, by label and vector property."""
    counts: Numbers = {}
    for table in tables.values():
        for derived in table.label.derived.values():
            if derived.by == "embed":
                of = f"t.{quote(derived.of)}"
                lacks = f"{of} IS NOT NULL AND {table.stored(derived.name)} IS NULL"
                sql = f"SELECT count(*) FROM {table.name} t WHERE {lacks}"
                [counts[table.label.name, derived.name]] = con.execute(sql).fetchone()
    return counts


_WHOLE = ("int64", "boolean", "timestamp", "date")
# Types of stored values, by name of the type; all others are texts.
_STORED = {"double": float} | dict.fromkeys(_WHOLE, int)


def column_type(kind: Type) -> str:
    """The type of a column."""
    return {float: "REAL", int: "INTEGER"}.get(_STORED.get(kind.name, str), "TEXT")


def _kept(kind: Type) -> pa.DataType:
    if kind.item is not None:
        return pa.list_(_kept(kind.item))
    if kind.name == "struct":
        return pa.struct([pa.field(name, _kept(inner)) for name, inner in kind.fields])
    return {"timestamp": pa.int64(), "date": pa.int32()}.get(kind.name, kind.arrow)


def encode(array: pa.Array[Any], kind: Type, what: str) -> list[Any]:
    """A column in stored form, without the NULLs in lists. Raises DataError for NaN."""
    stored: Any = array if _kept(kind) == kind.arrow else array.cast(_kept(kind))
    values: list[Any] = stored.to_pylist()
    if kind.name == "list":
        values = [v and [item for item in v if item is not None] for v in values]
    if kind.name in ("list", "struct"):
        return [None if v is None else canonical_json(v) for v in values]
    if kind.name == "double" and any(v is not None and v != v for v in values):  # noqa: PLR0124 - NaN is not itself
        raise DataError(f"{what} is NaN, which SQLite cannot tell from NULL")
    return values


def decode(values: Sequence[Any], kind: Type) -> pa.Array[Any]:
    """The encoded values in the type's Arrow type. Raises one of `UNFIT` for other values."""
    wanted = _STORED.get(kind.name, str)
    if not all(v is None or isinstance(v, wanted) for v in values):
        raise TypeError(f"a value is not {kind}")
    if kind.name in ("list", "struct", "json"):
        parsed = [None if v is None else json.loads(v, parse_constant=int) for v in values]
        values = values if kind.name == "json" else parsed
    elif kind.name == "boolean":
        values = [None if v is None else (False, True)[v] for v in values]
    array: pa.Array[Any] = pa.array(values, _kept(kind)).cast(kind.arrow)
    if kind.name in ("timestamp", "date") and len(array):
        pc.min_max(array).as_py()  # a time beyond Python's range
    return array


def decode_vectors(values: Sequence[bytes | None], size: int) -> pa.Array[Any]:
    """Vectors of a length from bytes."""
    import numpy as np

    numbers = np.frombuffer(b"".join(v or bytes(4 * size) for v in values), "<f4")
    missing = pa.array([v is None for v in values], pa.bool_())
    flat = pa.array(numbers, pa.float32())
    vectors: pa.Array[Any] = pa.FixedSizeListArray.from_arrays(flat, size, mask=missing)
    return vectors


# Functions that statements call. NULL counts as empty.


_SHORT = 500  # characters


def word_counts(texts: tuple[str, ...]) -> tuple[Mapping[str, int], int]:
    """The count of each word of a row's texts in the full-text index, and the number of words.
    Short texts are cached: many searches score them in succession.
    """
    short = sum(map(len, texts)) <= _SHORT
    return _kept_counts(texts) if short else _counts(texts)


def _counts(texts: tuple[str, ...]) -> tuple[Mapping[str, int], int]:
    listed = [word for text in texts for word in indexed_words(text)]
    return dict(Counter(listed)), len(listed)


_kept_counts = lru_cache(maxsize=16_384)(_counts)


def indexed_words(text: str) -> list[str]:
    """The words of a text in the full-text index."""
    return terms(text) if isinstance(text, str) else []  # bytes come from another program


def partition_words(text: str | None, partition: int | None) -> str | None:
    """The indexed form of a text: each word with the number of the partition."""
    if text is None:
        return None
    return " ".join(f"{word}_{partition}" for word in indexed_words(text))


def unite(stored: str | None, new: str | None) -> str | None:
    """The first list, followed by the new values of the second."""
    if stored is None or new is None:
        return stored if new is None else new
    items = _parsed(stored)
    if items is None:
        return stored
    return canonical_json([*items, *dict.fromkeys(v for v in json.loads(new) if v not in items)])


def add_labels(stored: str | None, new: str | None) -> str | None:
    """The union of two lists of labels, sorted."""
    united = unite(stored, new)
    items = None if united is None else _parsed(united)
    return united if items is None else canonical_json(sorted(items, key=str))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[Any, ...] | None:
    """The items of a list; None if another program stored another value."""
    try:
        items = json.loads(text)
    except (TypeError, ValueError):
        return None
    return tuple(items) if isinstance(items, list) else None


def list_holds(listed: str | None, item: Any) -> bool | None:
    """Whether a list has an item. NULL if either is NULL, but false for an empty list."""
    items = None if listed is None else _parsed(listed)
    return None if items is None or (items and item is None) else item in items


def lists_meet(left: str | None, right: str | None) -> bool | None:
    """Whether two lists share an item that is not NULL. NULL if either list is NULL."""
    items = None if left is None else _parsed(left)
    others = None if right is None else _parsed(right)
    if items is None or others is None:
        return None
    return any(v is not None and v in others for v in items)
