"""The schema of a database: uniqueness of keys, and range, full-text and vector indexes. It is
created for a new database, and on request for one that another program created.

Nothing created by another program is dropped or renamed. Missing parts of such a database are
reported, and computed in memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from semgraph.errors import EngineError
from semgraph.expr import Scalar
from semgraph.expr.functions import TEXT_FUNCTIONS
from semgraph.logical.graph import Element
from semgraph.logical.schema import Derived, Graph, Label
from semgraph.stores.base import MatchQuery, SearchQuery, derived_report
from semgraph.stores.neo4j.bolt import Bolt, Records
from semgraph.stores.neo4j.cypher import (
    DERIVED,
    HEAD,
    LAYOUT,
    LISTS,
    MARK,
    OF,
    SHARD,
    pattern_of,
    quoted,
    string,
)
from semgraph.stores.prepare import check_partition

if TYPE_CHECKING:
    from neo4j import AsyncManagedTransaction

SHOW = (
    "SHOW INDEXES YIELD name, type, entityType, labelsOrTypes, properties, owningConstraint, options\n"
    "RETURN name, type, entityType, labelsOrTypes, properties, owningConstraint, options"
)


@dataclass(frozen=True)
class Index:
    """An existing index of the database."""

    name: str
    type: str
    kind: str
    labels: tuple[str, ...]
    properties: tuple[str, ...]
    constraint: str | None
    options: Mapping[str, Any]

    @classmethod
    def of(cls, record: Sequence[Any]) -> Index:
        """An index from a record of `SHOW`."""
        name, type_, kind, labels, properties, constraint, options = record
        of = "node" if kind == "NODE" else "edge", tuple(labels or ()), tuple(properties or ())
        return cls(name, type_, *of, constraint, options or {})

    @property
    def dimensions(self) -> int | None:
        """Length of the vectors in a vector index."""
        length = self.options.get("indexConfig", {}).get("vector.dimensions")
        return None if length is None else int(length)

    @property
    def cosine(self) -> bool:
        """Whether a vector index compares by cosine."""
        function = self.options.get("indexConfig", {}).get("vector.similarity_function", "")
        return str(function).upper() == "COSINE"


@dataclass(frozen=True)
class Indexes:
    """The indexes of a database: for each full-text index of the graph its name there, and whether
    it includes the partition; names of vector indexes, and what has a range index, by label and
    property.

    Some rows lack derived texts that are `incomplete`; vector properties that are `odd` have values
    that cannot be compared. In a database that is only read, `empty` labels need no index.
    """

    fulltext: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    vectors: Mapping[tuple[str, str], str] = field(default_factory=dict)
    ranges: frozenset[tuple[str, str]] = frozenset()
    incomplete: frozenset[tuple[str, str]] = frozenset()
    empty: frozenset[str] = frozenset()
    odd: frozenset[tuple[str, str]] = frozenset()

    def hint(self, var: str, label: str, *properties: str | None) -> str:
        """The index to read first: of the first property that has one.

        The server caches plans. A plan that was made while a label was empty, or before its index
        was counted, may read the whole label.
        """
        indexed = (quoted(p) for p in properties if p is not None and (label, p) in self.ranges)
        return next((f" USING INDEX SEEK {var}:{quoted(label)}({prop})" for prop in indexed), "")


@dataclass(frozen=True)
class Wanted:
    """An index or constraint that a graph needs and a database lacks. `drop` is the statement to
    run first: it drops a vector index of semgraph over vectors of another length. `blocked` is the
    plain index that stands in the place of the constraint's index.
    """

    label: str
    what: str
    create: str
    drop: str = ""
    blocked: str = ""


def missing(graph: Graph, dimensions: int | None, existing: Sequence[Index]) -> list[Wanted]:
    """The missing parts of a database; vector indexes only if the length of vectors is known."""
    wanted: list[Wanted] = []
    for label in graph.labels.values():
        at, key = pattern_of(label).replace("->", "-"), (graph.key,)
        if not has_unique_keys(graph, label, existing):
            plain = (i.name for i in existing if i.type == "RANGE" and _on(i, label, key))
            create = _unique(label.name, at, key)
            wanted.append(Wanted(label.name, f"unique {key[0]}", create, blocked=next(plain, "")))
        for name in dict.fromkeys((graph.partition, *label.index)):
            if not _has(existing, label, (name,)):
                create = f"CREATE INDEX {quoted(f'{label.name}_{name}')} IF NOT EXISTS FOR {at} ON (n.{quoted(name)})"
                wanted.append(Wanted(label.name, f"index on {name}", create))
        for name, texts in label.fulltext.items():
            if text_index(label, name, existing) is None:
                listed = (f"n.{quoted(prop)}" for prop in dict.fromkeys((*texts, graph.partition)))
                create = f"CREATE FULLTEXT INDEX {quoted(name)} IF NOT EXISTS FOR {at} ON EACH [{', '.join(listed)}]"
                wanted.append(Wanted(label.name, f"full-text index {name}", create))
        for name in label.vectors.values() if dimensions is not None else ():
            index, own = _vector(label, name, existing), f"{label.name}_{name}"
            if index is None or (index.dimensions != dimensions and index.name == own):
                create = (
                    f"CREATE VECTOR INDEX {quoted(own)} IF NOT EXISTS FOR {at} ON (n.{quoted(name)}) OPTIONS "
                    f"{{indexConfig: {{`vector.dimensions`: {dimensions}, `vector.similarity_function`: 'cosine'}}}}"
                )
                drop = "" if index is None else f"DROP INDEX {quoted(own)} IF EXISTS"
                wanted.append(Wanted(label.name, f"vector index on {name}", create, drop))
    return wanted


def has_unique_keys(graph: Graph, label: Label, existing: Iterable[Index]) -> bool:
    """Whether the keys of a label are unique, as in every database set up by semgraph."""
    return _has(existing, label, (graph.key,), unique=True)


def is_external(graph: Graph, existing: Sequence[Index], counts: Mapping[str, int]) -> bool:
    """Whether another program made the database: a label in use has no unique keys."""
    labels = (e for e in graph.labels.values() if not has_unique_keys(graph, e, existing))
    return any(counts.get(e.name, 0) or _has(existing, e, (graph.key,)) for e in labels)


def indexes_named_by(graph: Graph, existing: Iterable[Index]) -> list[Index]:
    """Existing indexes and constraints with names that this graph uses."""
    names: set[str] = set()
    for label in graph.labels.values():
        properties = (graph.key, graph.partition, *label.index, *label.vectors.values())
        names.update(label.fulltext, (f"{label.name}_{prop}" for prop in properties))
    return [index for index in existing if index.name in names]


def _on(index: Index, label: Label, properties: tuple[str, ...]) -> bool:
    own = (label.kind, (label.name,), properties)
    return (index.kind, index.labels, index.properties) == own


def _has(
    existing: Iterable[Index], label: Label, properties: tuple[str, ...], *, unique: bool = False
) -> bool:
    return any(
        i.type == "RANGE" and _on(i, label, properties) and (bool(i.constraint) or not unique)
        for i in existing
    )


def _vector(label: Label, name: str, existing: Iterable[Index]) -> Index | None:
    return next((i for i in existing if i.type == "VECTOR" and _on(i, label, (name,))), None)


def _unique(name: str, pattern: str, properties: tuple[str, ...]) -> str:
    listed = ", ".join(f"n.{quoted(prop)}" for prop in properties)
    own = quoted("_".join((name, *properties)))
    return f"CREATE CONSTRAINT {own} IF NOT EXISTS FOR {pattern} REQUIRE ({listed}) IS UNIQUE"


def text_index(label: Label, name: str, existing: Iterable[Index]) -> Index | None:
    """The full-text index with this name, or another one of the label with all its properties."""
    texts = [i for i in existing if i.type == "FULLTEXT" and i.kind == label.kind]
    wanted = set(label.fulltext[name])
    return next(
        (i for i in texts if i.name == name),
        next((i for i in texts if i.labels == (label.name,) and wanted <= set(i.properties)), None),
    )


def missing_internal(existing: Sequence[Index]) -> list[str]:
    """Statements for constraints on commit markers and heads, which any database may have."""
    unique = {i.labels for i in existing if i.constraint}
    statements = [] if (HEAD,) in unique else [_unique(HEAD, f"(n:{quoted(HEAD)})", ("partition",))]
    if (MARK,) not in unique:
        statements.append(_unique(MARK, f"(n:{quoted(MARK)})", ("plan", "partition", "row")))
        statements.append(f"CREATE INDEX {MARK}_row IF NOT EXISTS FOR (n:{MARK}) ON (n.row)")
    return statements


def usable(graph: Graph, existing: Sequence[Index]) -> Indexes:
    """The indexes that searches can read."""
    fulltext, vectors = {}, {}
    for label in graph.labels.values():
        for name in label.fulltext:
            text = text_index(label, name, existing)
            if text is not None and set(label.fulltext[name]) <= set(text.properties):
                fulltext[name] = (text.name, graph.partition in text.properties)
        for name in label.vectors.values():
            vector = _vector(label, name, existing)
            if vector is not None and vector.cosine:
                vectors[label.name, name] = vector.name
    ranges = {
        (i.labels[0], i.properties[0])
        for i in existing
        if i.type == "RANGE" and len(i.labels) == len(i.properties) == 1
    }
    return Indexes(fulltext, vectors, frozenset(ranges))


Place = tuple[str, str]  # a label and a derived property


def duplicates(graph: Graph, label: Label) -> str:
    """A query for keys shared by several rows of a label: their number, and three examples."""
    pattern = pattern_of(label)
    return (
        f"MATCH {pattern} WITH n.{quoted(graph.key)} AS key, count(*) AS rows WHERE rows > 1\n"
        "RETURN count(key) AS keys, collect(key)[..3] AS some"
    )


# Numbers of rows, by a derived property `name` and its source `of`: those without it (this reads only
# indexes); those without it, but with the source; those with a key that an earlier version derived from
# a text in another Unicode form, or with \u0130 (this reads only the index of the key).
WITHOUT = (
    "CALL () {{ MATCH {pattern} RETURN count(n) AS every }}\n"
    "CALL () {{ MATCH {pattern} WHERE {name} IS NOT NULL RETURN count(n) AS have }}\n"
    "WITH every - have AS number"
)
LACKING = (
    "MATCH {pattern} WHERE {of} IS :: STRING NOT NULL AND {name} IS NULL\nWITH count(n) AS number"
)
OUTDATED = (
    "MATCH {pattern} WHERE {name} IS NOT NFKC NORMALIZED OR {name} CONTAINS 'i\\u0307'\n"
    "WITH count(n) AS number"
)


def count(what: str, graph: Graph, places: Iterable[Place]) -> str:
    """A query for one of these numbers of each label and derived property."""
    parts = []
    for label, name in places:
        pattern, derived = pattern_of(graph.label(label)), graph.label(label).derived[name]
        own = {each: f"n.{quoted(getattr(derived, each))}" for each in ("name", "of")}
        counted = what.format(pattern=pattern, **own)
        parts.append(f"{counted} RETURN {string(label)} AS label, {string(name)} AS name, number")
    return "\nUNION ALL\n".join(parts)


def rows_lacking(
    graph: Graph, label: Label, derived: Derived, *, confined: bool, limit: int | None = None
) -> str:
    """A query for the rows that lack a derived text property: key, and source text."""
    own = f" AND n.{quoted(graph.partition)} IN $partitions" if confined else ""
    return (
        f"MATCH {pattern_of(label)}\n"
        f"WHERE n.{quoted(derived.name)} IS NULL AND n.{quoted(derived.of)} IS :: STRING NOT NULL "
        f"AND n.{quoted(graph.key)} IS :: STRING NOT NULL{own}\n"
        f"RETURN n.{quoted(graph.key)}, n.{quoted(derived.of)}"
        + (f" LIMIT {limit}" if limit is not None else "")
    )


def rows_to_check(graph: Graph, label: Label, derived: Derived, limit: int) -> str:
    """A query for the keys after `$after` with texts that are not ASCII, and what derives from
    these.
    """
    key, of, value = (f"n.{quoted(name)}" for name in (graph.key, derived.of, derived.name))
    return (
        f"MATCH {pattern_of(label)}\nWHERE {key} > $after AND {key} IS :: STRING NOT NULL AND {value} IS NOT NULL\n"
        f"AND {of} IS :: STRING NOT NULL AND NOT {of} =~ '[\\\\x00-\\\\x7f]*'\n"
        f"RETURN {key}, {of}, {value} ORDER BY {key} LIMIT {limit}"
    )


def fill(graph: Graph, label: Label, derived: Derived) -> str:
    """A statement that stores a derived text property of `$rows`, each with key, text and value."""
    pattern = pattern_of(label, inner=f" {{{quoted(graph.key)}: row.key}}")
    return (
        f"UNWIND $rows AS row\nMATCH {pattern}\n"
        f"WHERE n.{quoted(derived.of)} = row.of\n"
        f"SET n.{quoted(derived.name)} = row.value\nRETURN count(n)"
    )


def statistics(graph: Graph) -> str:
    """A query for the number of rows of each label, the usual length of each vector property's
    stored vectors, and the part of a store that the database is, if an earlier version recorded
    one.
    """
    parts = [
        f"MATCH (s:{SHARD}) RETURN {string(SHARD)} AS label, toString(s.count) AS name, s.number AS number"
    ]
    for label in graph.labels.values():
        pattern = pattern_of(label)
        parts.append(
            f"MATCH {pattern} WITH count(n) AS number RETURN {string(label.name)} AS label, '' AS name, number"
        )
        parts += [
            f"MATCH {pattern} WHERE n.{quoted(name)} IS :: LIST<ANY> NOT NULL WITH n LIMIT 100\n"
            f"WITH size(n.{quoted(name)}) AS number, count(n) AS times ORDER BY times DESC LIMIT 1\n"
            f"RETURN {string(label.name)} AS label, {string(name)} AS name, number"
            for name in label.vectors.values()
        ]
    return "\nUNION ALL\n".join(parts)


LAYOUTS = f"MATCH (l:{LAYOUT}) RETURN l.label, l.partition, l.key"
RECORD = f"UNWIND $labels AS label MERGE (l:{LAYOUT} {{label: label}}) ON CREATE SET l += $of"
USUAL = "group_id"  # the default partition of rows without a recorded one, if they have it


def rows_divided_otherwise(graph: Graph, labels: Iterable[str]) -> str:
    """A query for labels without a recorded layout that have rows with `group_id`, or rows that
    also have one of the labels `$others`: one row each, with that label.
    """
    parts = []
    for name in labels:
        own = "labels(n)" if graph.labels[name].kind == "node" else "[]"
        usual = "false" if graph.partition == USUAL else f"n.{USUAL} IS NOT NULL"
        parts.append(
            f"MATCH {pattern_of(graph.labels[name])}\n"
            f"WITH n, [l IN {own} WHERE l IN $others] AS others WHERE size(others) > 0 OR {usual}\n"
            f"RETURN {string(name)} AS label, others[0] AS other LIMIT 1"
        )
    return "\nUNION ALL\n".join(parts)


def compile_states(graph: Graph, indexes: Indexes) -> str:
    """A statement for heads, and for the witnessed markers of the rows in `$lists.asked`."""
    return (
        f"UNWIND ${LISTS}.asked AS asked\n"
        f"OPTIONAL MATCH (h:{HEAD} {{partition: asked.partition}})\n"
        "WITH asked, h.head AS head\n"
        "CALL (asked) {\nUNWIND asked.rows AS row\n"
        f"MATCH (m:{MARK} {{plan: $plan, partition: asked.partition, row: row}}){_seek_marks(indexes)}\n"
        f"WHERE {_witnessed(graph)}\n"
        f"RETURN collect({_MARKED}) AS markers }}\n"
        "RETURN asked.partition, head, markers"
    )


def compile_history(graph: Graph, indexes: Indexes) -> str:
    """A statement for the head of each partition of `$lists.asked`, with a record for each of its
    windows for `$plan`. Markers of an earlier version are in a record without a window; a
    partition without markers has a record, too.
    """
    return (
        f"UNWIND ${LISTS}.asked AS asked\n"
        f"OPTIONAL MATCH (h:{HEAD} {{partition: asked}})\n"
        "WITH asked, h.head AS head\n"
        f"OPTIONAL MATCH (m:{MARK} {{plan: $plan, partition: asked}}){_seek_marks(indexes)}\n"
        f"WHERE m.row IS NOT NULL AND ({_witnessed(graph)})\n"
        f"OPTIONAL MATCH (m)-[:{OF}]->(w)\nOPTIONAL MATCH (w)-[:{OF}]->(p)\n"
        f"WITH asked, head, w, p, [m IN collect(m) | {_MARKED}] AS markers\n"
        "RETURN asked, head, w.number, w.now, w.begun, p.parts, w.writes, markers"
    )


_MARKED = "[m.place, m.row, m.fingerprint, m.now, m.run, coalesce(m.content, '')]"


def _seek_marks(indexes: Indexes) -> str:
    indexed = (MARK, "row") in indexes.ranges
    return f" USING INDEX SEEK m:{MARK}(plan, partition, row)" if indexed else ""


def _witnessed(graph: Graph) -> str:
    key = quoted(graph.key)
    witnesses = (
        f" OR (m.witness = {string(label.name)} AND EXISTS {{ (:{quoted(label.name)} {{{key}: m.row}}) }})"
        for label in graph.nodes
    )
    return "m.witness IS NULL" + "".join(witnesses)


def derive(derived: Derived, text: str) -> Any:
    """The derived text property for a text."""
    return TEXT_FUNCTIONS[derived.by].python(text)


@dataclass
class MissingDerived:
    """The rows of one database that lack derived text properties, by the properties counted so far;
    `outdated` counts, for this process, rows with a key of an earlier version.
    """

    bolt: Bolt
    graph: Graph
    outdated: dict[Place, int] = field(default_factory=dict)
    counts: dict[Place, int] = field(default_factory=dict)
    _checked: set[Place] = field(default_factory=set)
    _values: dict[Place, dict[str, Any]] = field(default_factory=dict)
    _holders: dict[Place, dict[Any, list[str]]] = field(default_factory=dict)
    _read: dict[Place, set[str] | None] = field(default_factory=dict)

    async def look(self, places: Iterable[Place]) -> bool:
        """Count rows that lack derived texts, once per property; return whether any are new."""
        new = sorted(place for place in set(places) - self._checked if self._is_text(*place))
        self._checked.update(new)
        keys = [p for p in new if p not in self.outdated and self._derived(*p).by == "key"]
        if keys:
            found = await self._counted(OUTDATED, keys)
            self.outdated |= dict.fromkeys(keys, 0) | found
        counts = await self._counted(LACKING, sorted(await self._counted(WITHOUT, new)))
        self.counts |= counts
        return bool(counts)

    async def _counted(self, what: str, places: Sequence[Place]) -> dict[Place, int]:
        records = await self.bolt.read(count(what, self.graph, places)) if places else []
        return {(label, name): number for label, name, number in records if number}

    def _is_text(self, label: str, name: str) -> bool:
        derived = self.graph.labels[label].derived.get(name) if label in self.graph.labels else None
        return derived is not None and derived.by != "embed"

    @property
    def places(self) -> frozenset[Place]:
        """The properties that some rows lack."""
        return frozenset(self.counts)

    @property
    def notes(self) -> list[str]:
        """Notes for the user."""
        return [
            f"{number:,} {label} have no {name}: it is computed from {self._derived(label, name).of} in memory, for this run"
            for (label, name), number in self.counts.items()
        ] + [
            f"{number:,} {label} have a {name} of an earlier version, by which some spellings of their "
            f"{self._derived(label, name).of} do not find them. The plan build_indices_and_constraints recomputes it"
            for (label, name), number in self.outdated.items()
            if number and label in self.graph.labels
        ]

    def _derived(self, label: str, name: str) -> Derived:
        return self.graph.label(label).derived[name]

    async def read(self, labels: Iterable[str], partitions: Iterable[str] | None) -> None:
        """Read the missing properties of rows of some partitions (None: all), unless already read."""
        wanted = None if partitions is None else set(partitions)
        of = set(labels)
        for place in self.counts:
            seen = self._read.setdefault(place, set())
            if place[0] not in of or seen is None:
                continue
            more = None if wanted is None else wanted - seen
            if more is None or more:
                await self._read_more(place, more)
                self._read[place] = None if more is None else seen | more

    async def _read_more(self, place: Place, partitions: set[str] | None) -> None:
        label, derived = self.graph.label(place[0]), self._derived(*place)
        query = rows_lacking(self.graph, label, derived, confined=partitions is not None)
        values, holders = self._values.setdefault(place, {}), self._holders.setdefault(place, {})
        for key, text in await self.bolt.read(query, {"partitions": sorted(partitions or ())}):
            if key not in values:
                values[key] = derive(derived, text)
                holders.setdefault(values[key], []).append(key)

    def holders(self, label: str, name: str, value: Any) -> list[str]:
        """Keys of the rows that would have a certain value of a property."""
        return self._holders.get((label, name), {}).get(value, [])

    def parameters(self, text: str) -> dict[str, Any]:
        """The values that a statement compares, by label and property, and by key."""
        if f"${DERIVED}" not in text:
            return {}
        return {DERIVED: {".".join(place): self._values.get(place, {}) for place in self.counts}}


def compared(query: SearchQuery) -> set[Place]:
    """The hit properties that a search compares or ranks by."""
    names = {method.prop for method in query.methods if method.via == "equal"}
    names.update(name for name, _ in query.order)
    return {(query.label, name) for name in names | _read_of(query.alias, query.where)}


def _read_of(var: str, where: Iterable[Scalar]) -> set[str]:
    paths = (path.partition(".") for scalar in where for path in scalar.columns)
    return {name for first, _, name in paths if var and first == var and name}


def compared_in_match(
    query: MatchQuery, elements: Iterable[tuple[Element, Label | None]]
) -> set[Place]:
    """The properties that a pattern names, and those of its variables that its conditions compare."""
    return {
        (label.name, name)
        for element, label in elements
        if label is not None
        for name in {prop for prop, _ in element.props} | _read_of(element.var, query.where)
    }


_INDEX_SECONDS = 3600
_BATCH = 5000


class Setup:
    """The set-up of a database for a graph."""

    def __init__(self, bolt: Bolt, graph: Graph) -> None:
        self.bolt, self.graph = bolt, graph

    async def check_layout(self) -> list[str]:
        """Refuse another partition or key. Returns labels without a record. Raises PlanError."""
        stored = {label: own for label, *own in await self.bolt.read(LAYOUTS)}
        for label in self.graph.labels.keys() & stored.keys():
            check_partition(self.bolt.uri, self.graph, label, *stored[label])
        new = [label for label in self.graph.labels if label not in stored]
        others = [n for n, own in stored.items() if own != [self.graph.partition, self.graph.key]]
        if new and (others or self.graph.partition != USUAL):
            query = rows_divided_otherwise(self.graph, new)
            for label, other in await self.bolt.read(query, {"others": others}):
                own = stored.get(other) or (USUAL, self.graph.key)
                check_partition(self.bolt.uri, self.graph, label, *own)
        return new

    async def record_layout(self, labels: Sequence[str]) -> None:
        """Record the partition and the key of some labels."""
        of = {"partition": self.graph.partition, "key": self.graph.key}
        if labels:
            parameters = {"labels": labels, "of": of}
            await self.bolt.write(lambda tx: self.bolt.run(tx, RECORD, parameters))

    async def indexes(self) -> list[Index]:
        """The existing indexes of the database."""
        return [Index.of(record) for record in await self.bolt.read(SHOW)]

    async def create_missing(
        self, dimensions: int | None, existing: Sequence[Index], counts: Mapping[str, int]
    ) -> list[str]:
        """Create what is missing, unless another program made the database. Returns notes."""
        left = self.left_out(dimensions, existing, counts)
        done = [one for one in missing(self.graph, dimensions, existing) if one not in left]
        try:
            await self._create([*missing_internal(existing), *_statements(done)])
        except EngineError as error:
            now = await self.indexes()
            if "already exists" not in str(error) or _names(now) == _names(existing):
                raise
            # Another program has created indexes in the meantime.
            return await self.create_missing(dimensions, now, counts)
        return external_note(left)

    def left_out(
        self, dimensions: int | None, existing: Sequence[Index], counts: Mapping[str, int]
    ) -> list[Wanted]:
        """The missing parts that are not created, because another program created the database."""
        wanted = missing(self.graph, dimensions, existing)
        labels = {one.label: self.graph.label(one.label) for one in wanted}
        own = {n for n, label in labels.items() if has_unique_keys(self.graph, label, existing)}
        external = is_external(self.graph, existing, counts)
        return [one for one in wanted if external and one.label not in own]

    async def migrate(self, dimensions: int | None, *, drop: bool) -> list[str]:
        """Create what can be created, with `drop` anew. Returns a report."""
        report = await self._drop_own() if drop else []
        existing = await self.indexes()
        done = []
        for one in missing(self.graph, dimensions, existing):
            if one.what == f"unique {self.graph.key}" and (why := await self._duplicates(one)):
                report.append(why)
            elif one.blocked:
                report.append(
                    f"{one.what} of {one.label}: not made, as the index {one.blocked} is on it, and a database has one of the "
                    f"two. It works without; to have it, drop that index (DROP INDEX {one.blocked}) and run this again"
                )
            else:
                done.append(one)
        await self._create([*missing_internal(existing), *_statements(done)])
        report += [f"made: {one.what} of {one.label}" for one in done]
        for label in self.graph.labels.values():
            for derived in label.derived.values():
                if derived.by == "embed":
                    query = count(LACKING, self.graph, [(label.name, derived.name)])
                    number = int((await self.bolt.read(query))[0][-1])
                else:
                    number = await self._fill(label, derived)
                report += derived_report(label, derived, number)
        return report

    async def _drop_own(self) -> list[str]:
        indexes = indexes_named_by(self.graph, await self.indexes())
        named = (
            f"CONSTRAINT {quoted(i.constraint)}" if i.constraint else f"INDEX {quoted(i.name)}"
            for i in indexes
        )
        await self._create([f"DROP {each} IF EXISTS" for each in named])
        return [f"dropped: {index.name}" for index in indexes]

    async def _duplicates(self, one: Wanted) -> str:
        """The keys shared by several rows of a label, in words; "" if none."""
        query = duplicates(self.graph, self.graph.label(one.label))
        [[number, some]] = await self.bolt.read(query)
        if not number:
            return ""
        return (
            f"{number:,} {self.graph.key} of {one.label} are duplicates (such as {', '.join(map(str, some))}), so they are "
            f"not made unique. Nothing of them was changed; this finds them all: {query.splitlines()[0]} RETURN key, rows"
        )

    async def _create(self, statements: Sequence[str]) -> None:
        async def work(tx: AsyncManagedTransaction) -> None:
            for statement in statements:
                await self.bolt.run(tx, statement)

        if statements:
            await self.bolt.write(work)
            await self.bolt.read(f"CALL db.awaitIndexes({_INDEX_SECONDS})")

    async def _fill(self, label: Label, derived: Derived) -> int:
        """Store a derived text where it is missing or outdated. Returns the number of rows."""
        total, after = 0, ""
        read = rows_lacking(self.graph, label, derived, confined=False, limit=_BATCH)
        while number := await self._store(label, derived, await self.bolt.read(read)):
            total += number
        read = rows_to_check(self.graph, label, derived, limit=_BATCH)
        while records := await self.bolt.read(read, {"after": after}):
            after = records[-1][0]
            old = [record for record in records if derive(derived, record[1]) != record[2]]
            total += await self._store(label, derived, old)
        return total

    async def _store(self, label: Label, derived: Derived, records: Records) -> int:
        """Store a derived property of some rows, which begin with key and text. Returns their number."""
        texts = dict.fromkeys((key, of) for key, of, *_ in records)
        rows = [{"key": key, "of": of, "value": derive(derived, of)} for key, of in texts]
        write = fill(self.graph, label, derived)
        if not rows:
            return 0
        [[number]] = await self.bolt.write(lambda tx: self.bolt.run(tx, write, {"rows": rows}))
        return int(number)


def _names(indexes: Iterable[Index]) -> set[str]:
    return {index.name for index in indexes}


def _statements(wanted: Sequence[Wanted]) -> list[str]:
    return [*(one.drop for one in wanted if one.drop), *(one.create for one in wanted)]


def external_note(left: Sequence[Wanted]) -> list[str]:
    """A note on missing parts that are not created."""
    by: dict[str, list[str]] = defaultdict(list)
    for one in left:
        by[one.what].append(one.label)
    listed = "; ".join(f"{what} of {', '.join(labels)}" for what, labels in by.items())
    note = (
        f"this database was created by another program and was left unchanged. Missing: {listed}. Queries work, but more "
        "slowly; a plan that writes `schema`, such as build_indices_and_constraints, creates them"
    )
    return [note] if left else []
