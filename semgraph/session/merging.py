"""The rows of a graph that a plan wrote: as they are stored, as the plan makes them now, and what
becomes of them.

A stored value with another fingerprint than the plan wrote was changed by another plan or by hand:
it stays, and so does a deletion.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from semgraph.expr.functions import TEXT_FUNCTIONS
from semgraph.logical.schema import Graph, Label
from semgraph.relational.batch import values
from semgraph.stores.base import Deletion, EdgeWrite, NodeWrite, Write
from semgraph.stores.writes import WrittenRow, fingerprint, row_fingerprint

Id = tuple[str, str]  # label and key
Values = dict[str, Any]
_MADE = "created_at"  # kept from the stored row


def declared(graph: Graph, label: Label) -> list[str]:
    """The properties that a refresh compares: no key, no partition, nothing derived."""
    apart = {graph.key, graph.partition, *label.derived}
    return [name for name in label.columns if name not in apart]


@dataclass
class GraphRows:
    """The nodes and edges of some partitions.

    Args:
        graph: The graph.
        tables: The rows by label, with the columns of `Store.scan`, without vectors.
    """

    graph: Graph
    tables: Mapping[str, pa.Table]

    def __post_init__(self) -> None:
        """Read the values."""
        self.partitions: dict[Id, str] = {}
        self.values: dict[Id, Values] = {}
        for name, table in self.tables.items():
            columns = declared(self.graph, self.graph.labels[name])
            keys: list[str] = values(table.column(self.graph.key))
            parts: list[str | None] = values(table.column(self.graph.partition))
            rows = table.select(columns).to_pylist()
            for key, part, row in zip(keys, parts, rows, strict=True):
                self.partitions[name, key] = part or ""
                self.values[name, key] = {n: v for n, v in row.items() if not is_nothing(n, v)}


def is_nothing(name: str, value: Any) -> bool:
    """Whether a stored value is NULL: a row without further labels or attributes has empty ones."""
    return (
        value is None or (name == "labels" and not value) or (name, value) == ("attributes", "{}")
    )


def value_fingerprint(name: str, value: Any) -> str:
    """The fingerprint of a stored value."""
    return fingerprint(json.loads(value) if name == "attributes" else value)


@dataclass(frozen=True)
class Merged:
    """What becomes of a row: its values (None: it is not in the graph), and the values that stay as
    they were edited, with those of the plan (None in place of all: a row that stays deleted).
    """

    values: Values | None
    edited: Mapping[str, Any] | None = field(default_factory=dict)


@dataclass
class GraphStates:
    """The stored rows and the rows that the plan makes now.

    Args:
        graph: The graph.
        stored: The stored rows.
        before: What the plan had written, by label and fingerprint of the key.
        discard: Whether edits are overwritten.
        made: The rows of the scratch copy.
        after: What it writes now.
        restated: The rows that windows with new or edited input rows write now.
    """

    graph: Graph
    stored: GraphRows
    before: Mapping[Id, WrittenRow]
    discard: bool = False
    made: GraphRows = field(init=False)
    after: Mapping[Id, WrittenRow] = field(default_factory=dict)
    restated: frozenset[Id] = frozenset()

    def __post_init__(self) -> None:
        """Note the fingerprints of keys."""
        self._prints: dict[Id, Id] = {}
        self._base: set[Id] = set()  # the stored rows that the scratch copy begins with
        self.moved: set[Id] = set()  # the stored rows that the plan makes in another partition now
        self.staying: set[Id] = set()  # own rows that stay for the sake of edits, made again or not

    def print_of(self, row: Id) -> Id:
        """The label of a row, and the fingerprint of its key."""
        if row not in self._prints:
            self._prints[row] = (row[0], row_fingerprint(row[1]))
        return self._prints[row]

    def is_own(self, row: Id) -> bool:
        """Whether the plan made a stored row: it wrote it, and no other program made it before."""
        written, stored = self.before.get(self.print_of(row)), self.stored.values[row]
        if written is None or not written.creates or written.deleted:
            return False
        made = {n: p for n, p in written.created.items() if n in stored}
        return not made or any(
            value_fingerprint(n, stored[n]) in prints for n, prints in made.items()
        )

    def base(self, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
        """The rows of tables that the plan did not make, and edges between them, without the values
        that the plan wrote to them. A text that is searched stays: others may have written it before.
        """
        kept: dict[str, pa.Table] = {}
        keys: dict[str, set[str]] = {}
        labels = (*self.graph.nodes, *self.graph.edges)
        for label in labels:
            table = tables[label.name]
            own: list[str] = values(table.column(self.graph.key))
            rows_of_label = [(label.name, key) for key in own]
            mask = [row in self.staying or not self.is_own(row) for row in rows_of_label]
            if label.kind == "edge":
                for end in label.ends:
                    there = keys[getattr(label, end)]
                    ends = table.column(end).to_pylist()
                    mask = [m and e in there for m, e in zip(mask, ends, strict=True)]
            rows = table.filter(pa.array(mask, pa.bool_()))
            left = [key for key, m in zip(own, mask, strict=True) if m]
            kept[label.name], keys[label.name] = self._unwritten(label, rows, left), set(left)
        return kept

    def _unwritten(self, label: Label, table: pa.Table, keys: list[str]) -> pa.Table:
        """Rows of the base without the values that the plan wrote."""
        texts = {name for index in label.fulltext.values() for name in index}
        gone: dict[str, dict[int, Any]] = defaultdict(dict)
        for i, row in enumerate((label.name, key) for key in keys):
            if row in self.staying:
                continue
            self._base.add(row)
            written = self.before.get(self.print_of(row))
            if written is None:
                continue
            stored = self.stored.values[row]
            for name in written.values.keys() & stored.keys() - texts - label.open - {*label.ends}:
                if not self._is_edited(written, name, stored[name]):
                    gone[name][i] = None
            for name in written.united.keys() & stored.keys():
                prints = written.united[name]
                gone[name][i] = [v for v in stored[name] if fingerprint(v) not in prints]
        for name, changed in gone.items():
            column = table.column(name).to_pylist()
            for i, value in changed.items():
                column[i] = value
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.array(column, table.schema.field(name).type))
        return table

    def stays_more(self, found: Mapping[Id, Merged]) -> bool:
        """Note the rows that stay though the plan does not make them now. If there are more than it
        started from, it must start from them too: its other rows may depend on them.
        """
        kept = (row for row, merged in found.items() if merged.values is not None)
        stay = {row for row in kept if row not in self.made.values}
        more = not stay <= self.staying
        self.staying |= stay
        return more

    def merged(self) -> dict[Id, Merged]:
        """What becomes of every row that the plan wrote or writes."""
        made = self.made.values
        rows = dict.fromkeys((*self.stored.values, *made))
        there, now = self.stored.partitions, self.made.partitions
        self.moved = {row for row in made if there.get(row, now[row]) != now[row]}
        found: dict[Id, Merged] = {}
        for row in rows:
            at = self.print_of(row)
            if at in self.before or at in self.after:
                stored, new = self.stored.values.get(row), made.get(row)
                found[row] = self._merge(row, stored, new)
        return self._with_ends(found)

    def _merge(self, row: Id, stored: Values | None, new: Values | None) -> Merged:
        at = self.print_of(row)
        written = self.before.get(at)
        if stored is None:
            is_deleted = written is not None and not written.deleted
            if new is None or not is_deleted or at in self.restated or self.discard:
                return Merged(new)
            return Merged(None, None)
        if new is None:
            stays = written is not None and not self.discard and self._outlives(row, written)
            return Merged(stored, {}) if stays else Merged(None)
        return self._values(row, written or WrittenRow(), stored, new)

    def _outlives(self, row: Id, written: WrittenRow) -> bool:
        """Whether a stored row stays that the plan makes no more: somebody changed it, or made it again
        after the plan had deleted it.
        """
        if not self.is_own(row):
            return row in self._base and written.deleted
        return any(
            name not in written.names or self._is_edited(written, name, value)
            for name, value in self.stored.values[row].items()
        )

    @staticmethod
    def _is_edited(written: WrittenRow, name: str, value: Any) -> bool:
        """Whether a stored value replaced one that the plan wrote."""
        if name in written.united:
            return any(fingerprint(each) not in written.united[name] for each in value)
        prints = [*filter(None, [written.values.get(name)]), *written.created.get(name, ())]
        return bool(prints) and value_fingerprint(name, value) not in prints

    def _values(self, row: Id, written: WrittenRow, stored: Values, new: Values) -> Merged:
        """The values of a row that is stored and made again. In a row of others the plan worked on the
        stored values, so those that it had not written are as it makes them.
        """
        others = row in self._base
        result, edited = dict(new), dict[str, Any]()
        for name in {**stored, **new}:
            old, made = stored.get(name), new.get(name)
            known = name in written.names and not (others and name in written.created)
            if old == made or (others and not known and name != _MADE):
                continue
            taken = {*written.values, *written.born}
            was = known and (name not in written.created or name in taken)
            if name == _MADE and old is not None:
                result[name] = old
            elif name in written.united and not self.discard:
                result[name] = _lists(written.united[name], old or [], made)
            elif self.discard and known:
                continue
            elif old is None and was:  # its value was deleted
                edited[name], result[name] = made, None
            elif old is not None and not (known and not self._is_edited(written, name, old)):
                result[name] = old
                if made is not None or known:
                    edited[name] = made
        return Merged({n: v for n, v in result.items() if v is not None}, edited)

    def _with_ends(self, found: dict[Id, Merged]) -> dict[Id, Merged]:
        """Without edges that lack an end, and with the nodes that other edges need."""

        def exists(row: Id) -> bool:
            return found[row].values is not None if row in found else row in self.stored.values

        aliases, needed = self._aliases(), set[Id]()
        for row in {**self.stored.values, **found}:
            label = self.graph.labels[row[0]]
            kept = found.get(row)
            properties = self.stored.values[row] if kept is None else kept.values
            if properties is None or label.kind != "edge":
                continue
            ends = [(getattr(label, end), str(properties[end])) for end in label.ends]
            stays = row in self.stored.values and row not in self.moved
            if all(map(exists, ends)) and not (stays and self.moved.intersection(ends)):
                continue
            if kept is not None and not self.is_stored(row, kept) and aliases:
                moved = [end if exists(end) else aliases.get(end, end) for end in ends]
                named = dict(zip(label.ends, (key for _, key in moved), strict=True))
                if all(map(exists, moved)) and len(set(moved)) == len(set(ends)):
                    found[row] = replace(kept, values=properties | named)
                    continue
            if kept is None or self.is_stored(row, kept):
                needed.update(end for end in ends if end in self.stored.values)
            else:
                found[row] = Merged(self.stored.values.get(row), None)
        for row in needed:
            found[row] = Merged(self.stored.values[row], {})
        self.moved -= needed
        return found

    @property
    def partitions(self) -> dict[Id, str]:
        """The partition of each row, after `merged`."""
        moved = {row: self.made.partitions[row] for row in self.moved}
        return {**self.made.partitions, **self.stored.partitions, **moved}

    def is_stored(self, row: Id, merged: Merged) -> bool:
        """Whether a row stays as it is stored."""
        return merged.values == self.stored.values.get(row)

    def _aliases(self) -> dict[Id, Id]:
        """Rows that were merged into stored ones, each with the row that it became."""
        found: dict[Id, Id] = {}
        labels = {name: own for name, label in self.graph.labels.items() if (own := label.aliases)}
        for row, stored in self.stored.values.items():
            if row[0] in labels:
                name, attributes = labels[row[0]], json.loads(stored.get("attributes", "{}"))
                listed = stored.get(name) or attributes.get(name) or []
                found |= {(row[0], str(key)): row for key in listed}
        return found

    def kept(self, found: Mapping[Id, Merged]) -> dict[Id, dict[str, str]]:
        """The fingerprints of times of creation that stay, by label and fingerprint of the key."""
        kept: dict[Id, dict[str, str]] = {}
        for row, merged in found.items():
            made, values = self.made.values.get(row, {}), merged.values or {}
            if _MADE in values and values[_MADE] != made.get(_MADE):
                kept[self.print_of(row)] = {_MADE: fingerprint(values[_MADE])}
        return kept


def _lists(prints: list[str], stored: list[Any], made: list[Any] | None) -> list[Any] | None:
    """A list that the plan makes now, without elements that were deleted by hand, and with those that
    were added, in the stored order if there are any.
    """
    gone = set(prints) - {fingerprint(each) for each in stored}
    kept = [each for each in made or () if fingerprint(each) not in gone]
    added = [each for each in stored if fingerprint(each) not in prints and each not in kept]
    if not added:
        return kept if kept or made is not None else None
    first = [each for each in stored if each in kept or each in added]
    return [*first, *(each for each in kept if each not in first)]


def _schema(graph: Graph, label: Label) -> pa.Schema:
    names = [graph.key, graph.partition, *declared(graph, label)]
    typed = {graph.key: pa.string(), graph.partition: pa.string()}
    return pa.schema([(name, typed.get(name) or label.columns[name].arrow) for name in names])


def state_of(
    graph: Graph, rows: Mapping[Id, Values | None], partition_of: Mapping[Id, str]
) -> dict[str, dict[str, Values]]:
    """Rows by label and key; None: a row is not in the graph."""
    found: dict[str, dict[str, Values]] = {name: {} for name in graph.labels}
    for row, own in rows.items():
        if own is not None:
            more = {graph.key: row[1], graph.partition: partition_of[row]}
            found[row[0]][row[1]] = {**own, **more}
    return found


def writes_of_changes(
    graph: Graph,
    stored: GraphRows,
    found: Mapping[Id, Merged],
    partition_of: Mapping[Id, str],
    vectors: Mapping[str, pa.Table],
    *,
    embed: bool = False,
) -> list[Write]:
    """The writes that turn the stored rows into the merged ones.

    Args:
        graph: The graph.
        stored: The stored rows.
        found: What becomes of rows.
        partition_of: The partition of each row.
        vectors: The rows of the scratch copy with their vectors, by label.
        embed: Whether rows that stay get these vectors too.
    """
    gone: dict[str, list[Id]] = defaultdict(list)
    put: dict[str, list[tuple[Id, Values]]] = defaultdict(list)
    for row, merged in found.items():
        before, after = stored.values.get(row), merged.values
        label = graph.labels[row[0]]
        moved = stored.partitions.get(row, partition_of[row]) != partition_of[row]
        if before == after and not moved and not (embed and label.vectors):
            continue
        turned = before and after and any(before[end] != after[end] for end in label.ends)
        if before is not None and (moved or after is None or turned):
            gone[row[0]].append(row)
        if after is not None:
            put[row[0]].append((row, after))
    writes: list[Write] = []
    for label in (*graph.edges, *graph.nodes):
        if rows := gone[label.name]:
            data = [{graph.key: r[1], graph.partition: stored.partitions[r]} for r in rows]
            schema = pa.schema([(graph.key, pa.string()), (graph.partition, pa.string())])
            writes.append(Deletion(label.name, pa.Table.from_pylist(data, schema), detach=True))
    for label in (*graph.nodes, *graph.edges):
        if own := put[label.name]:
            writes += _puts(graph, label, own, partition_of, vectors.get(label.name))
    return writes


def _puts(
    graph: Graph,
    label: Label,
    rows: list[tuple[Id, Values]],
    partition_of: Mapping[Id, str],
    vectors: pa.Table | None,
) -> Iterator[Write]:
    """The writes of rows of a label: those whose texts have the vectors of the scratch copy with
    them, the others without.
    """
    kind = NodeWrite if label.kind == "node" else EdgeWrite
    texts = {d.name: d for d in label.derived.values() if d.by != "embed"}
    schema = _schema(graph, label)
    for name in texts:
        schema = schema.append(pa.field(name, label.columns[name].arrow))
    there: dict[str, Values] = {}
    embedded = {t: v for t, v in label.vectors.items() if vectors and v in vectors.column_names}
    if vectors is not None and embedded:
        columns = [graph.key, *embedded]
        there = {row[graph.key]: row for row in vectors.select(columns).to_pylist()}
        places = {key: i for i, key in enumerate(vectors.column(graph.key).to_pylist())}
    groups: dict[bool, list[Values]] = {True: [], False: []}
    for row, own in rows:
        values = {**own, graph.key: row[1], graph.partition: partition_of[row]}
        values |= {
            name: TEXT_FUNCTIONS[derived.by].python(own[derived.of])
            for name, derived in texts.items()
            if derived.of in own
        }
        made = there.get(row[1])
        same = made is not None and all(made[text] == own.get(text) for text in embedded)
        groups[same].append(values)
    for with_vectors, own_rows in groups.items():
        if not own_rows:
            continue
        table = pa.Table.from_pylist(own_rows, schema)
        if with_vectors and vectors is not None:
            at = pa.array([places[row[graph.key]] for row in own_rows], pa.int64())
            for vector in embedded.values():
                table = table.append_column(vector, vectors.column(vector).take(at))
        yield kind(label.name, table, replace=True)
