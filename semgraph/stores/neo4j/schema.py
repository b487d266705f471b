"""The schema of a database: uniqueness of keys, and range, full-text and vector indexes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from semgraph.logical.schema import Derived, Graph, Label
from semgraph.stores.neo4j.cypher import (
    HEAD,
    LAYOUT,
    LISTS,
    MARK,
    SHARD,
    pattern_of,
    quoted,
    string,
)

SHOW = (
    "SHOW INDEXES YIELD name, type, entityType, labelsOrTypes, properties, owningConstraint, options\n"
    "RETURN name, type, entityType, labelsOrTypes, properties, owningConstraint, options"
)


@dataclass(frozen=True)
class Index:
    """An index that the database has."""

    name: str
    type: str
    kind: str
    labels: tuple[str, ...]
    properties: tuple[str, ...]
    constraint: str | None
    options: Mapping[str, Any]

    @classmethod
    def of(cls, record: Sequence[Any]) -> Index:
        """From a record of `SHOW`."""
        name, type_, kind, labels, properties, constraint, options = record
        on = "node" if kind == "NODE" else "edge"
        return cls(
            name, type_, on, tuple(labels or ()), tuple(properties or ()), constraint, options or {}
        )

    @property
    def dimensions(self) -> int | None:
        """Length of the vectors in a vector index."""
        length = self.options.get("indexConfig", {}).get("vector.dimensions")
        return None if length is None else int(length)

    @property
    def cosine(self) -> bool:
        """Whether a vector index compares by cosine."""
        return (
            str(self.options.get("indexConfig", {}).get("vector.similarity_function", "")).upper()
            == "COSINE"
        )


@dataclass(frozen=True)
class Indexes:
    """The full-text and vector indexes that a database has.

    Args:
        fulltext: By the graph's name: the index's own, and whether it has the partition too.
        vectors: Names of the indexes by label and vector property.
        ranges: Labels and properties with a range index, the one of a constraint included.
        incomplete: Labels and derived text properties that some rows lack.
        empty: Labels without rows, in a database that is only read: full-text searches of them need
            no index.
        odd: Labels and vector properties where some values cannot be compared.
    """

    fulltext: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    vectors: Mapping[tuple[str, str], str] = field(default_factory=dict)
    ranges: frozenset[tuple[str, str]] = frozenset()
    incomplete: frozenset[tuple[str, str]] = frozenset()
    empty: frozenset[str] = frozenset()
    odd: frozenset[tuple[str, str]] = frozenset()

    def hint(self, var: str, label: str, *properties: str | None) -> str:
        """The index to look into first: of the first property that has one.

        The server caches plans, and one that was made while a label was empty, or before its
        index was counted, may read all of it.
        """
        indexed = next((p for p in properties if (label, p) in self.ranges), None)
        return (
            "" if indexed is None else f" USING INDEX SEEK {var}:{quoted(label)}({quoted(indexed)})"
        )


@dataclass(frozen=True)
class Wanted:
    """An index or constraint that a graph needs and a database lacks.

    Args:
        label: Its label.
        what: In words: `unique uuid`, `index on name`, `full-text index person_text`, `vector index
            on name_embedding`.
        name: Of the index or constraint.
        create: The statement that makes it.
        drop: The statement that must run first: drops a vector index of semgraph's own over
            vectors of another length.
        blocked: The plain index that takes the place of the constraint's own; "" if none
            does.
    """

    label: str
    what: str
    name: str
    create: str
    drop: str = ""
    blocked: str = ""


def missing(graph: Graph, dimensions: int | None, existing: Sequence[Index]) -> list[Wanted]:
    """What a database lacks; vector indexes only if the length of vectors is known."""
    wanted: list[Wanted] = []
    for label in graph.labels.values():
        wanted += _missing_unique(graph, label, existing)
        wanted += [
            Wanted(label.name, f"index on {name}", f"{label.name}_{name}", _range(label, name))
            for name in dict.fromkeys((graph.partition, *label.index))
            if not _has(existing, label, (name,))
        ]
        wanted += [
            Wanted(label.name, f"full-text index {name}", name, _fulltext(graph, label, name))
            for name in label.fulltext
            if text_index(label, name, existing) is None
        ]
        for name in label.vectors.values() if dimensions is not None else ():
            wanted += _missing_vectors(label, name, dimensions or 0, existing)
    return wanted


def _missing_unique(graph: Graph, label: Label, existing: Sequence[Index]) -> list[Wanted]:
    if has_unique_keys(graph, label, existing):
        return []
    name = f"{label.name}_{graph.key}"
    blocked = next(
        (i.name for i in existing if i.type == "RANGE" and _on(i, label, (graph.key,))), ""
    )
    return [
        Wanted(
            label.name,
            f"unique {graph.key}",
            name,
            _unique(label.name, _any(label), (graph.key,)),
            "",
            blocked,
        )
    ]


def _missing_vectors(
    label: Label, name: str, dimensions: int, existing: Sequence[Index]
) -> list[Wanted]:
    index = _vector(label, name, existing)
    own = f"{label.name}_{name}"
    if index is not None and (index.dimensions == dimensions or index.name != own):
        return []
    drop = "" if index is None else drop_index(own)
    return [
        Wanted(label.name, f"vector index on {name}", own, _vectors(label, name, dimensions), drop)
    ]


def has_unique_keys(graph: Graph, label: Label, existing: Iterable[Index]) -> bool:
    """Whether the keys of a label are unique, as in every database set up by semgraph."""
    return _has(existing, label, (graph.key,), unique=True)


def is_external(graph: Graph, existing: Sequence[Index], counts: Mapping[str, int]) -> bool:
    """Whether the database was created by another program: a label has rows, or an index on its
    key, and keys are not unique.
    """
    open_ = [
        label for label in graph.labels.values() if not has_unique_keys(graph, label, existing)
    ]
    return any(counts.get(label.name, 0) or _has(existing, label, (graph.key,)) for label in open_)


def indexes_named_by(graph: Graph, existing: Iterable[Index]) -> list[Index]:
    """Existing indexes and constraints with the names that this graph uses."""
    names = {
        name
        for label in graph.labels.values()
        for name in (
            *(
                f"{label.name}_{prop}"
                for prop in (graph.key, graph.partition, *label.index, *label.vectors.values())
            ),
            *label.fulltext,
        )
    }
    return [index for index in existing if index.name in names]


def drop_index(name: str) -> str:
    """The statement that drops an index."""
    return f"DROP INDEX {quoted(name)} IF EXISTS"


def drop_constraint(name: str) -> str:
    """The statement that drops a constraint and its index."""
    return f"DROP CONSTRAINT {quoted(name)} IF EXISTS"


def _on(index: Index, label: Label, properties: tuple[str, ...]) -> bool:
    return (
        index.kind == label.kind
        and index.labels == (label.name,)
        and index.properties == properties
    )


def _has(
    existing: Iterable[Index], label: Label, properties: tuple[str, ...], *, unique: bool = False
) -> bool:
    return any(
        i.type == "RANGE" and _on(i, label, properties) and (bool(i.constraint) or not unique)
        for i in existing
    )


def _vector(label: Label, name: str, existing: Iterable[Index]) -> Index | None:
    return next((i for i in existing if i.type == "VECTOR" and _on(i, label, (name,))), None)


def _any(label: Label) -> str:
    return (
        f"(n:{quoted(label.name)})" if label.kind == "node" else f"()-[n:{quoted(label.name)}]-()"
    )


def _range(label: Label, name: str) -> str:
    index = quoted(f"{label.name}_{name}")
    return f"CREATE INDEX {index} IF NOT EXISTS FOR {_any(label)} ON (n.{quoted(name)})"


def _unique(name: str, pattern: str, properties: tuple[str, ...]) -> str:
    listed = ", ".join(f"n.{quoted(prop)}" for prop in properties)
    constraint = quoted("_".join((name, *properties)))
    return (
        f"CREATE CONSTRAINT {constraint} IF NOT EXISTS FOR {pattern} REQUIRE ({listed}) IS UNIQUE"
    )


def _fulltext(graph: Graph, label: Label, name: str) -> str:
    listed = ", ".join(
        f"n.{quoted(prop)}" for prop in dict.fromkeys((*label.fulltext[name], graph.partition))
    )
    return (
        f"CREATE FULLTEXT INDEX {quoted(name)} IF NOT EXISTS FOR {_any(label)} ON EACH [{listed}]"
    )


def text_index(label: Label, name: str, existing: Iterable[Index]) -> Index | None:
    """The full-text index that has this name, or another one of the label that has all its
    properties.
    """
    texts = [i for i in existing if i.type == "FULLTEXT" and i.kind == label.kind]
    wanted = set(label.fulltext[name])
    return next(
        (i for i in texts if i.name == name),
        next((i for i in texts if i.labels == (label.name,) and wanted <= set(i.properties)), None),
    )


def _vectors(label: Label, name: str, dimensions: int) -> str:
    options = f"{{indexConfig: {{`vector.dimensions`: {dimensions}, `vector.similarity_function`: 'cosine'}}}}"
    index = quoted(f"{label.name}_{name}")
    return f"CREATE VECTOR INDEX {index} IF NOT EXISTS FOR {_any(label)} ON (n.{quoted(name)}) OPTIONS {options}"


def missing_internal(existing: Sequence[Index]) -> list[str]:
    """Statements for constraints on commit markers and heads: these labels are semgraph's own in
    every database.
    """
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


def duplicates(graph: Graph, label: Label) -> str:
    """A query for keys that several rows of a label have: how many, and three of them."""
    pattern = pattern_of(label)
    return (
        f"MATCH {pattern} WITH n.{quoted(graph.key)} AS key, count(*) AS rows WHERE rows > 1\n"
        "RETURN count(key) AS keys, collect(key)[..3] AS some"
    )


def count_without(graph: Graph, places: Iterable[tuple[str, str]]) -> str:
    """A query for how many rows are without some derived properties. Where these have an index, no
    row is read.
    """
    return _for_each(
        graph,
        places,
        lambda pattern, d: (
            f"CALL () {{ MATCH {pattern} RETURN count(n) AS every }}\n"
            f"CALL () {{ MATCH {pattern} WHERE n.{quoted(d.name)} IS NOT NULL RETURN count(n) AS have }}\n"
            "WITH every - have AS number"
        ),
    )


def count_lacking(graph: Graph, places: Iterable[tuple[str, str]]) -> str:
    """A query for how many rows are without some derived properties, and have what these derive
    from.
    """
    return _for_each(
        graph,
        places,
        lambda pattern, d: (
            f"MATCH {pattern} WHERE n.{quoted(d.of)} IS :: STRING NOT NULL AND n.{quoted(d.name)} IS NULL\n"
            "WITH count(n) AS number"
        ),
    )


def count_outdated(graph: Graph, places: Iterable[tuple[str, str]]) -> str:
    """A query for how many rows have a key that an earlier version made of a text in another form
    of Unicode, or with \u0130. It reads the index of the key alone.
    """
    return _for_each(
        graph,
        places,
        lambda pattern, d: (
            f"MATCH {pattern} WHERE n.{quoted(d.name)} IS NOT NFKC NORMALIZED"
            f" OR n.{quoted(d.name)} CONTAINS 'i\\u0307'\nWITH count(n) AS number"
        ),
    )


def _for_each(
    graph: Graph, places: Iterable[tuple[str, str]], part: Callable[[str, Derived], str]
) -> str:
    parts = []
    for label, name in places:
        pattern = pattern_of(graph.label(label))
        counted = part(pattern, graph.label(label).derived[name])
        parts.append(f"{counted} RETURN {string(label)} AS label, {string(name)} AS name, number")
    return "\nUNION ALL\n".join(parts)


def rows_lacking(
    graph: Graph, label: Label, derived: Derived, *, confined: bool, limit: int | None = None
) -> str:
    """A query for the rows that lack a derived text property: key, partition, and the text that it
    derives from.
    """
    own = f" AND n.{quoted(graph.partition)} IN $partitions" if confined else ""
    return (
        f"MATCH {pattern_of(label)}\n"
        f"WHERE n.{quoted(derived.name)} IS NULL AND n.{quoted(derived.of)} IS :: STRING NOT NULL "
        f"AND n.{quoted(graph.key)} IS :: STRING NOT NULL{own}\n"
        f"RETURN n.{quoted(graph.key)}, n.{quoted(graph.partition)}, n.{quoted(derived.of)}"
        + (f" LIMIT {limit}" if limit is not None else "")
    )


def rows_to_check(graph: Graph, label: Label, derived: Derived, limit: int) -> str:
    """A query for the rows behind the key `$after` whose text is not ASCII: key, text, and the stored
    property that derives from it.
    """
    key, of, value = (f"n.{quoted(name)}" for name in (graph.key, derived.of, derived.name))
    return (
        f"MATCH {pattern_of(label)}\nWHERE {key} > $after AND {key} IS :: STRING NOT NULL AND {value} IS NOT NULL\n"
        f"AND {of} IS :: STRING NOT NULL AND NOT {of} =~ '[\\\\x00-\\\\x7f]*'\n"
        f"RETURN {key}, {of}, {value} ORDER BY {key} LIMIT {limit}"
    )


def fill(graph: Graph, label: Label, derived: Derived) -> str:
    """A statement that stores a derived text property of `$rows`, each with key, text and value."""
    pattern = pattern_of(label, inner=f" {{{quoted(graph.key)}: row.k}}")
    return (
        f"UNWIND $rows AS row\nMATCH {pattern}\n"
        f"WHERE n.{quoted(derived.of)} = row.of\n"
        f"SET n.{quoted(derived.name)} = row.value\nRETURN count(n)"
    )


def statistics(graph: Graph) -> str:
    """A query for the number of rows of each label, the usual length of the stored vectors of each
    vector property, and which part of a store the database is, if an earlier version recorded one.
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
USUAL = "group_id"
"""The partition of rows of which none is recorded, if they have it."""


def rows_divided_otherwise(graph: Graph, labels: Iterable[str]) -> str:
    """A query for labels without a recorded layout that have rows with `group_id`, or rows that
    also bear one of the labels `$others`: a row each, with that label.
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
    """The head of each partition of `$lists.asked`, and of its rows the commit markers of `$plan`
    with an existing witness.
    """
    key = quoted(graph.key)
    witnesses = " OR ".join(
        f"(m.witness = {string(label.name)} AND EXISTS {{ (:{quoted(label.name)} {{{key}: m.row}}) }})"
        for label in graph.nodes
    )
    hint = (
        f" USING INDEX SEEK m:{MARK}(plan, partition, row)"
        if (MARK, "row") in indexes.ranges
        else ""
    )
    return (
        f"UNWIND ${LISTS}.asked AS asked\n"
        f"OPTIONAL MATCH (h:{HEAD} {{partition: asked.partition}})\n"
        "WITH asked, h.head AS head\n"
        "CALL (asked) {\nUNWIND asked.rows AS row\n"
        f"MATCH (m:{MARK} {{plan: $plan, partition: asked.partition, row: row}}){hint}\n"
        f"WHERE m.witness IS NULL OR {witnesses}\n"
        "RETURN collect([m.row, m.fingerprint, m.now, m.run]) AS markers }\n"
        "RETURN asked.partition, head, markers"
    )
