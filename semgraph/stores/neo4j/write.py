"""Commits to Neo4j: one statement in one transaction, rolled back if it merged fewer rows than
expected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from semgraph.errors import ConcurrentWrite, DataError
from semgraph.expr import Type
from semgraph.expr.functions import canonical_json
from semgraph.logical.schema import Graph, Label
from semgraph.stores import base, prepare
from semgraph.stores.neo4j import cypher
from semgraph.stores.neo4j.bolt import Bolt, ConstraintViolated, Records
from semgraph.stores.neo4j.schema import Indexes, statistics
from semgraph.stores.writes import marked_rows, pack, shared_parts

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction


LONGEST = 8000  # bytes of a text in a range index; the server's limit is slightly higher
_INT64 = 1 << 63


def rows_of(prepared: prepare.PreparedMerge) -> list[dict[str, Any]]:
    """The rows of a merge in the form that the statement reads, each a map; NULL means no write.
    Raises DataError for values that Neo4j cannot store.

    The fields of a row: `key`, `partition`, `created` (properties set only on a new node or edge),
    `properties` (always set), `lists` to unite, `vectors`, `removed` (vectors to remove), `labels`,
    `attributes`.
    """
    what = f"{prepared.graph.key} of {prepared.label.name}"
    maps = ("created", "properties", "lists", "vectors")
    rows: list[dict[str, Any]] = []
    for key, part in zip(prepared.keys, prepared.partitions, strict=True):
        refuse_long(key, what)
        row: dict[str, Any] = {"key": key, "partition": part, "attributes": None}
        row |= {"removed": [], "labels": []}
        rows.append(row | {name: {} for name in maps})
    for name, array in prepared.columns.items():
        _add_property(rows, prepared, name, array)
    create, replaces = prepared.write.create, prepared.write.replace
    for name, vectors in prepared.vectors.items():
        listed: list[list[float]] = vectors.numbers.tolist()
        for row, vector in zip(rows, vectors.spread(listed), strict=True):
            if vector is not None and any(vector):
                row["vectors"][name] = vector
            elif (vector is not None or replaces) and name not in create:
                row["removed"].append(name)
    for row, labels in zip(rows, prepared.labels, strict=False):  # no labels if none are set
        row["labels"] = labels or []
    for row, own in zip(rows, prepared.attributes, strict=False):
        attributes = own or {} if replaces else own
        if attributes is not None:
            nested = sorted(n for n, v in attributes.items() if not _storable(v))
            flat = attributes | {n: canonical_json(attributes[n]) for n in nested}
            flat |= {cypher.NESTED: nested} if nested else {}
            if "attributes" in create:
                row["created"] |= flat
            else:
                row["attributes"] = flat
    return rows


def _add_property(
    rows: Sequence[dict[str, Any]], prepared: prepare.PreparedMerge, name: str, array: pa.Array[Any]
) -> None:
    graph, label, write = prepared.graph, prepared.label, prepared.write
    kind, indexed = label.columns[name], name in {graph.key, graph.partition, *label.index}
    clears = write.replace and name not in {graph.key, graph.partition, *label.ends}
    for row, value in zip(rows, array.to_pylist(), strict=True):
        if value is None:
            row["properties"] |= {name: None} if clears else {}
            continue
        if name in label.ends:
            row[name] = value
            continue
        what = f"{name} of {label.name} {row['key']}"
        stored = _stored(value, kind, what)
        if indexed:
            refuse_long(stored, what)
        if name in write.create:
            row["created"][name] = stored
        elif name in write.unite:
            row["lists"][name] = list(dict.fromkeys(stored))
        else:
            row["properties"][name] = stored


def _stored(value: Any, kind: Type, what: str) -> Any:
    """A value as Neo4j stores it: types that it lacks as JSON. Raises DataError."""
    if kind.name == "struct" or (kind.item is not None and kind.item.name in ("struct", "list")):
        return canonical_json(value)
    if isinstance(value, list) and None in value:
        hint = "leave NULL out of it: list_filter(..., x -> x IS NOT NULL)"
        raise DataError(f"{what} is a list with NULL in it, which Neo4j cannot store", hint=hint)
    return cypher.sent(value)


def refuse_long(value: Any, what: str) -> None:
    """Refuse a text that is too long for an index of Neo4j. Raises DataError."""
    if isinstance(value, str) and len(value.encode()) > LONGEST:
        what = f"{what[:200]} has {len(value.encode()):,} bytes, and Neo4j indexes texts of {LONGEST:,} at most"
        such = "keys, groups and properties under `index` are such texts"
        raise DataError(what, hint=f"{such}: cut(...) makes them shorter")


def _storable(value: Any) -> bool:
    """Whether Neo4j has such properties: no objects, mixed lists, NULLs or larger integers."""
    if isinstance(value, list):
        plain = all(_storable(item) and not isinstance(item, list | None) for item in value)
        return plain and len({type(item) for item in value}) <= 1
    return not isinstance(value, dict) and not (isinstance(value, int) and abs(value) >= _INT64)


FRESH = f"{prepare.RESERVED}_fresh"


def compile_commit(
    graph: Graph, new: base.NewContent, indexes: Indexes, *, whole: bool = False
) -> tuple[str, dict[str, Any]]:
    """The statement for a batch and its commit markers, which replace those of the same rows, or all
    if `whole`, and its parameters. It returns one record: the rows that write i touched as `w{i}`;
    none if a head has changed. Raises EngineError, RowsRefused.
    """
    batch = new.batch
    parts = [cypher.KEEP_PLAN]
    lists: dict[str, Any] = {}
    if new.heads:
        parts.append(_HEADS)
        lists["heads"] = _heads(new)
    rows = prepare.prepare_batch(graph, batch, rows_of)
    for i, write in sorted(enumerate(batch.writes), key=lambda pair: ORDER[type(pair[1])]):
        parts.append(Shape(graph, write, indexes).text(i))
        lists[f"w{i}"] = rows[i] or []
        if isinstance(write, base.Deletion):
            keys = zip(*prepare.keys_of(graph, write), strict=True)
            lists[f"w{i}"] = [{"key": key, "partition": part} for key, part in keys]
    if whole:
        parts.append(_FORGET)
    if new.heads:
        parts.append(_MARKS)
        lists["marks"] = list(_marks(new))
    returned = ", ".join(f"w{i}" for i in range(len(batch.writes))) or "1 AS nothing"
    return "\n".join([*parts, f"RETURN {returned}"]), {cypher.LISTS: lists}


# The order of the writes of a batch in a statement.
ORDER: Mapping[type[base.Write], int] = {base.Deletion: 0, base.NodeWrite: 1, base.EdgeWrite: 2}
_HEADS = f"""\
UNWIND ${cypher.LISTS}.heads AS own
MERGE (m:{cypher.HEAD} {{partition: own.partition}})
SET m.lock = own.head
WITH m, own WHERE m.head = own.before OR (m.head IS NULL AND own.before IS NULL)
SET m.head = own.head, m.windows = coalesce(m.windows, 0) + own.windows
WITH count(*) AS heads WHERE heads = size(${cypher.LISTS}.heads)"""
# After `_HEADS` in the same transaction.
_CHANGED = f"""\
UNWIND ${cypher.LISTS}.heads AS own
MATCH (m:{cypher.HEAD} {{partition: own.partition}}) WHERE m.head IS NULL OR m.head <> own.head
RETURN own.partition"""
# Deletes those of the `windows` that have no marker, and what no window was made by.
_PRUNE = f"""\
UNWIND windows AS w
WITH w WHERE NOT EXISTS {{ (w)<-[:{cypher.OF}]-() }}
OPTIONAL MATCH (w)-[:{cypher.OF}]->(p)
DETACH DELETE w
WITH DISTINCT p WHERE p IS NOT NULL AND NOT EXISTS {{ (p)<-[:{cypher.OF}]-() }}
DETACH DELETE p"""
_FORGET = f"""\
CALL () {{
UNWIND ${cypher.LISTS}.heads AS own
MATCH (m:{cypher.MARK} {{plan: own.plan, partition: own.partition}}) WHERE m.row IS NOT NULL
OPTIONAL MATCH (m)-[:{cypher.OF}]->(of)
DETACH DELETE m
WITH collect(DISTINCT of) AS windows
{_PRUNE}
}}"""
_MARKS = f"""\
CALL () {{
UNWIND ${cypher.LISTS}.marks AS mark
MATCH (head:{cypher.HEAD} {{partition: mark.partition}})
MERGE (head)<-[:{cypher.OF}]-(p:{cypher.PARTS} {{hash: mark.hash}})
ON CREATE SET p.partition = mark.partition, p.parts = mark.parts
CREATE (p)<-[:{cypher.OF}]-(w:{cypher.WINDOW} {{plan: mark.plan, partition: mark.partition,
  number: head.windows - mark.after, now: mark.now, begun: mark.begun, writes: mark.writes}})
WITH mark, w
UNWIND mark.rows AS own
MERGE (m:{cypher.MARK} {{plan: mark.plan, partition: mark.partition, row: own.row}})
SET m.fingerprint = mark.fingerprint, m.now = mark.now, m.run = mark.run, m.witness = mark.witness,
  m.content = own.content, m.place = own.place
WITH m, w
OPTIONAL MATCH (m)-[r:{cypher.OF}]->(of)
DELETE r
CREATE (m)-[:{cypher.OF}]->(w)
WITH collect(DISTINCT of) AS windows
{_PRUNE}
}}"""


def _heads(new: base.NewContent) -> list[dict[str, Any]]:
    """The heads to compare and set, in the order in which every transaction locks them."""
    windows = Counter(marker.partition for marker in new.markers)
    return [
        {"partition": partition, "before": before, "head": head}
        | {"plan": new.plan, "windows": windows[partition]}
        for partition, (before, head) in sorted(new.heads.items())
    ]


def _marks(new: base.NewContent) -> Iterator[dict[str, Any]]:
    """The windows of a commit; `after` is the number of later ones in the same partition."""
    after = Counter(marker.partition for marker in new.markers)
    same = ("plan", "partition", "fingerprint", "now", "run", "witness", "begun")
    for marker in new.markers:
        after[marker.partition] -= 1
        for row in marker.rows:
            what = f"the commit marker of {row[:100]} in {marker.partition[:100]}"
            refuse_long(marker.plan + marker.partition + row, what)
        hashed, parts = shared_parts(marker)
        names = ("place", "row", "content")
        if rows := [dict(zip(names, row, strict=True)) for row in marked_rows(marker)]:
            yield {name: cypher.sent(getattr(marker, name)) for name in same} | {
                "hash": hashed, "parts": parts, "writes": pack(marker.writes),
                "after": after[marker.partition], "rows": rows,
            }  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """The text of one write, over rows as `rows_of` returns them; no value changes it."""

    graph: Graph
    write: base.Write
    indexes: Indexes

    @property
    def label(self) -> Label:
        """The label of the write."""
        return self.graph.label(self.write.label)

    def text(self, number: int) -> str:
        """The sub-query of write `number`."""
        if isinstance(self.write, base.Deletion):
            return self._deletion(number, self.write)
        flagged = bool(self.write.create & {"labels", *self.label.vectors.values()})
        steps = [f"CALL () {{\nUNWIND ${cypher.LISTS}.w{number} AS row", self._found(self.write)]
        if not self.write.only_existing:
            own = cypher.quoted(self.graph.partition)
            part = f", n.{own} = row.partition" if self._confined else ""
            steps.append(f"ON CREATE SET n += row.created{part}" + f", n.{FRESH} = true" * flagged)
        fresh = f"coalesce(n.{FRESH}, false)" if flagged else "false"
        steps.append(f"WITH n, row, {fresh} AS fresh{self._within('n')}")
        steps += [f"REMOVE n.{FRESH}"] * flagged + self._settings(self.write)
        return "\n".join([*steps, f"RETURN count(*) AS w{number}\n}}"])

    @property
    def _key(self) -> str:
        return cypher.quoted(self.graph.key)

    @property
    def _confined(self) -> bool:
        return self.graph.partition in self.write.rows.column_names

    def _within(self, var: str) -> str:
        """The condition that the bound row is in the row's partition, if it has one."""
        same = f"coalesce({var}.{cypher.quoted(self.graph.partition)}, '') = row.partition"
        return f"\nWHERE row.partition IS NULL OR {same}" if self._confined else ""

    def _hint(self, var: str, label: str) -> str:
        return self.indexes.hint(var, label, self.graph.key)

    def _found(self, write: prepare.Merging) -> str:
        """Clauses that bind `n`, and create it if allowed."""
        pattern = cypher.pattern_of(self.label, inner=f" {{{self._key}: row.key}}")
        if write.only_existing:
            return f"MATCH {pattern}{self._hint('n', self.label.name)}"
        if self.label.kind == "node":
            return f"MERGE {pattern}"
        ends = (("source", self.label.source), ("target", self.label.target))
        matches = (
            f"MATCH ({var}:{cypher.quoted(end)} {{{self._key}: row.{var}}}){self._hint(var, end)}{self._within(var)}"
            for var, end in ends
        )
        return "\n".join([*matches, f"MERGE (source{pattern[1:-1]}target)"])

    def _settings(self, write: prepare.Merging) -> list[str]:
        create, names, steps = write.create, set(write.rows.column_names), list[str]()
        if "attributes" in names - create:
            known = ", ".join(cypher.string(name) for name in cypher.hidden(self.label))
            steps.append(
                f"FOREACH (k IN CASE WHEN row.attributes IS NULL THEN [] ELSE [k IN keys(n) WHERE NOT k IN [{known}]] END | "
                "REMOVE n[k])\nSET n += coalesce(row.attributes, {})"
            )
        steps.append("SET n += row.properties")
        kinds = self.label.columns
        united = sorted((write.unite & names) - create)
        steps += [_united(cypher.quoted(name), kinds[name].item) for name in united]
        if "labels" in names and isinstance(write, base.NodeWrite) and write.replace:
            known = ", ".join(cypher.string(name) for name in self.graph.labels)
            own = f"l IN [{known}] OR l STARTS WITH {cypher.string(prepare.RESERVED)}"
            steps.append(f"REMOVE n:$([l IN labels(n) WHERE NOT ({own})])")
        if "labels" in names:
            only_new = "fresh" if "labels" in create else "true"
            new = f"CASE WHEN {only_new} THEN [1] ELSE [] END"
            steps.append(f"FOREACH (x IN {new} | SET n:$(row.labels))")
        kind = "Node" if self.label.kind == "node" else "Relationship"
        vectors = sorted(names & set(self.label.vectors.values()))
        if vectors:
            steps.append("FOREACH (k IN row.removed | REMOVE n[k])")
        for name in vectors:
            only_new = "fresh AND " if name in create else ""
            steps.append(
                f"WITH n, row, fresh\nCALL (n, row, fresh) {{\n"
                f"WITH n, row, fresh WHERE {only_new}row.vectors.{cypher.quoted(name)} IS NOT NULL\n"
                f"CALL db.create.set{kind}VectorProperty(n, {cypher.string(name)}, row.vectors.{cypher.quoted(name)})\n}}"
            )
        return steps

    def _deletion(self, number: int, write: base.Deletion) -> str:
        node = self.label.kind == "node"
        pattern = cypher.pattern_of(self.label, inner=f" {{{self._key}: row.key}}")
        pattern += self._hint("n", self.label.name) + self._within("n")
        verb = "DETACH DELETE" if node and write.detach else "DELETE"
        text = (
            f"CALL () {{\nUNWIND ${cypher.LISTS}.w{number} AS row\nMATCH {pattern}\nWITH collect(DISTINCT n) AS found\n"
            f"FOREACH (n IN found | {verb} n)\nRETURN size(found) AS w{number}\n}}"
        )
        if not node:
            return text
        return (
            f"{text}\nCALL () {{\nUNWIND ${cypher.LISTS}.w{number} AS row\n"
            f"MATCH (m:{cypher.MARK} {{row: row.key, witness: {cypher.string(self.label.name)}}})"
            f"{self.indexes.hint('m', cypher.MARK, 'row')} WHERE row.partition IS NULL OR m.partition = row.partition\n"
            f"OPTIONAL MATCH (m)-[:{cypher.OF}]->(of)\nDETACH DELETE m\nWITH collect(DISTINCT of) AS windows\n{_PRUNE}\n}}"
        )


# Items of lists in Cypher, by type; others are STRING.
_ITEMS = {
    "int64": "INTEGER",
    "double": "FLOAT",
    "boolean": "BOOLEAN",
    "timestamp": "ZONED DATETIME",
    "date": "DATE",
}


def _united(name: str, item: Type | None) -> str:
    """An expression that unites a list with the stored one; a stored value of another type stays."""
    old, new = f"coalesce(n.{name}, [])", f"row.lists.{name}"
    kind = _ITEMS.get(item.name if item is not None else "", "STRING")
    return (
        f"FOREACH (x IN CASE WHEN {new} IS NOT NULL AND n.{name} IS :: LIST<{kind} NOT NULL> THEN [1] ELSE [] END | "
        f"SET n.{name} = {old} + [y IN {new} WHERE NOT y IN {old}])"
    )


Ask = Callable[[str, Mapping[str, Any]], Awaitable[Records]]
# A lock until the end of the transaction, because keys of commit markers are unique. No plan has
# the name ''.
FIRST = f"MERGE (m:{cypher.MARK} {{plan: '', partition: '', row: ''}}) DELETE m"


@dataclass
class Lengths:
    """The known lengths of vectors, by label and property: configured or stored. Properties that
    are not among `stored` may get their first vector from another process, of any length.
    """

    known: dict[tuple[str, str], int] = field(default_factory=dict)
    stored: set[tuple[str, str]] = field(default_factory=set)


class _Rollback(Exception):
    """Rolls back a trial transaction."""


@dataclass(frozen=True)
class GraphCommits:
    """Commits to a database, for one graph."""

    bolt: Bolt
    graph: Graph
    indexes: Indexes
    lengths: Lengths

    async def commit(self, changes: base.NewContent, *, whole: bool = False) -> base.Written:
        """As `Store.commit`. The markers replace those of the same rows, or all if `whole`."""
        batch = changes.batch
        new = self.new_lengths(batch)
        if not changes.heads and not batch.rows:
            return base.Written()
        text, parameters = compile_commit(self.graph, changes, self.indexes, whole=whole)

        async def work(tx: AsyncManagedTransaction) -> list[int]:
            run = partial(self.bolt.run, tx)
            if new:
                await run(FIRST)
                for label, name, stored in await run(statistics(self.graph)):
                    known = stored if name else None
                    prepare.check_length(self.bolt.uri, label, name, known, new.get((label, name)))
            records = await run(text, parameters)
            if not records:
                [[partition], *_] = await run(_CHANGED, parameters)
                raise ConcurrentWrite(partition)
            counts = list(map(int, records[0][: len(batch.writes)]))
            refusals = prepare.Refusals()
            for write, count in zip(batch.writes, counts, strict=True):
                if not isinstance(write, base.Deletion) and count < write.rows.num_rows:
                    await self._refuse(run, write, refusals)
            refusals.check()
            return counts

        try:
            counts = await self.bolt.write(work)
        except ConstraintViolated as error:
            await self._refuse_violations(batch)
            broken = _violation(batch, str(error)).problem
            raise DataError(f"{broken.what}; nothing was written", hint=broken.hint) from error
        self.lengths.known.update(new)
        self.lengths.stored |= new.keys()
        written = Counter[str]()
        for write, number in zip(batch.writes, counts, strict=True):
            written[write.label] += number
        return base.Written(dict(written))

    def new_lengths(self, batch: base.WriteBatch) -> dict[tuple[str, str], int]:
        """The lengths of what may be the first vectors of a property. Raises StoreUnavailable."""
        new: dict[tuple[str, str], int] = {}
        for write in (each for each in batch.writes if each.rows.num_rows):
            vectors = set(self.graph.label(write.label).vectors.values())
            for name in vectors & set(write.rows.column_names):
                size, place = _length(write.rows.column(name)), (write.label, name)
                known = self.lengths.known.get(place) or new.get(place)
                prepare.check_length(self.bolt.uri, write.label, name, known, size or None)
                if size and place not in self.lengths.stored:
                    new[place] = size
        return new

    async def _refuse(self, ask: Ask, write: prepare.Merging, refusals: prepare.Refusals) -> None:
        """Record all skipped rows, except those of `only_existing` without a stored row."""
        await self._refuse_other_partition(ask, write, self.graph.key, refusals)
        if isinstance(write, base.EdgeWrite) and not write.only_existing:
            await self._refuse_missing_end(ask, write, refusals)
            for end in ("source", "target"):
                await self._refuse_other_partition(ask, write, end, refusals)

    async def _refuse_other_partition(
        self, ask: Ask, write: prepare.Merging, column: str, refusals: prepare.Refusals
    ) -> None:
        """Refuse rows whose key, or whose end in `column`, is stored under another partition."""
        graph, label = self.graph, self.graph.label(write.label)
        if graph.partition not in write.rows.column_names:
            return
        name = {"source": label.source, "target": label.target}.get(column, label.name)
        inner = f" {{{cypher.quoted(graph.key)}: row.key}}"
        pattern = cypher.pattern_of(graph.label(name), inner=inner)
        text = (
            f"UNWIND $rows AS row\nMATCH {pattern}{self.indexes.hint('n', name, graph.key)}\n"
            f"WHERE coalesce(n.{cypher.quoted(graph.partition)}, '') <> row.partition RETURN row.of, row.key"
        )
        columns = {"of": graph.key, "key": column, "partition": graph.partition}
        own = [write.rows.column(name) for name in columns.values()]
        rows = pa.table(own, names=list(columns)).to_pylist()
        for of, key in await ask(text, {"rows": rows}):
            what = f"{label.name} {of}"
            error = prepare.taken(what)
            if column != graph.key:
                error = prepare.no_end(what, column, key, name)
            refusals.add(write, of, error)

    async def _refuse_missing_end(
        self, ask: Ask, write: base.EdgeWrite, refusals: prepare.Refusals
    ) -> None:
        label, key = self.graph.label(write.label), cypher.quoted(self.graph.key)
        text = (
            "UNWIND $rows AS row\n"
            f"WITH row, EXISTS {{ (:{cypher.quoted(label.source)} {{{key}: row.source}}) }} AS source,\n"
            f"  EXISTS {{ (:{cypher.quoted(label.target)} {{{key}: row.target}}) }} AS target\n"
            "WHERE NOT source OR NOT target RETURN row, source"
        )
        rows = write.rows.select([self.graph.key, "source", "target"]).to_pylist()
        for row, source in await ask(text, {"rows": rows}):
            end, of = ("target", label.target) if source else ("source", label.source)
            edge = row[self.graph.key]
            refusals.add(write, edge, prepare.no_end(f"{label.name} {edge}", end, row[end], of))

    async def _refuse_violations(self, batch: base.WriteBatch) -> None:
        """Raise RowsRefused for the rows that violate a constraint of the database."""
        refusals = prepare.Refusals()
        for write in batch.writes:
            # An edge of this key may lie between ends of another partition.
            if isinstance(write, base.EdgeWrite):
                await self._refuse_other_partition(self.bolt.read, write, self.graph.key, refusals)
            elif isinstance(write, base.Deletion) and not write.detach and not self._is_edge(write):
                await self._refuse_edges_left(write, batch, refusals)
        refusals.check()
        writes = sorted(batch.writes, key=lambda write: ORDER[type(write)])
        rows = [(write, place) for write in writes for place in range(write.rows.num_rows)]
        while (broken := await self._first_violation(rows)) is not None:
            place, error = broken
            write, row = rows.pop(place)
            refusals.add(write, write.rows.column(self.graph.key)[row].as_py(), error)
        refusals.check()

    async def _refuse_edges_left(
        self, write: base.Deletion, batch: base.WriteBatch, refusals: prepare.Refusals
    ) -> None:
        key = cypher.quoted(self.graph.key)
        edges = (e for e in batch.writes if isinstance(e, base.Deletion) and self._is_edge(e))
        deleted = {each.label: each.rows.column(self.graph.key).to_pylist() for each in edges}
        text = (
            f"UNWIND $keys AS k\nMATCH (n:{cypher.quoted(write.label)} {{{key}: k}})-[r]-()\n"
            f"WHERE NOT r.{key} IN coalesce($deleted[type(r)], [])\n"
            f"RETURN k, type(r), r.{key}, startNode(r).{key}, endNode(r).{key}"
        )
        keys = write.rows.column(self.graph.key).to_pylist()
        found = await self.bolt.read(text, {"keys": keys, "deleted": deleted})
        for node, kind, edge, source, target in found:
            between = f"{kind} {edge} lies between {source} and {target}"
            refusals.add(write, node, prepare.still_has_edges(f"a {write.label}", between))

    def _is_edge(self, write: base.Write) -> bool:
        return self.graph.label(write.label).kind == "edge"

    async def _first_violation(
        self, rows: Sequence[tuple[base.Write, int]]
    ) -> tuple[int, DataError] | None:
        """The first row that violates a constraint when it is written after its predecessors."""
        if (error := await self._try(rows)) is None:
            return None
        good, bad = 0, len(rows)  # this many of the first rows can be written; this many cannot
        while bad - good > 1:
            middle = (good + bad) // 2
            failed = await self._try(rows[:middle])
            good, bad, error = (middle, bad, error) if failed is None else (good, middle, failed)
        return bad - 1, error

    async def _try(self, rows: Sequence[tuple[base.Write, int]]) -> DataError | None:
        """Write some rows and roll back; return the error if they violate a constraint."""
        places: dict[int, tuple[base.Write, list[int]]] = {}
        for write, place in rows:
            places.setdefault(id(write), (write, []))[1].append(place)
        parts = (replace(write, rows=write.rows.take(own)) for write, own in places.values())
        some = base.WriteBatch(tuple(parts))
        text, parameters = compile_commit(self.graph, base.NewContent.of(some), self.indexes)

        async def work(tx: AsyncManagedTransaction) -> None:
            await self.bolt.run(tx, text, parameters)
            raise _Rollback

        try:
            await self.bolt.write(work)
        except ConstraintViolated as error:
            return _violation(some, str(error))
        except _Rollback:
            pass
        return None


def _length(vectors: Any) -> int | None:
    if pa.types.is_fixed_size_list(vectors.type):
        size: int = vectors.type.list_size
        return size if vectors.null_count < len(vectors) else None
    return next((len(vector) for vector in vectors.drop_null()), None)


def _violation(batch: base.WriteBatch, message: str) -> DataError:
    """The error for a constraint that a batch violates, in terms of the graph."""
    if "still has relationships" in message:
        deletions = (write for write in batch.writes if isinstance(write, base.Deletion))
        labels = dict.fromkeys(write.label for write in deletions if not write.detach)
        return prepare.still_has_edges(f"a {' or '.join(labels)}", "it still has edges")
    if message.startswith("Relationship"):
        what = f"{message}, between other ends, and an edge keeps its ends"
        return DataError(what, hint=prepare.KEEPS_ENDS)
    return DataError(message)
