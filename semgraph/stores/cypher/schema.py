"""What a database has to have: uniqueness of keys, and range, full-text and vector indexes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semgraph.logical.schema import Graph, Label
from semgraph.stores.cypher.hits import Indexes
from semgraph.stores.cypher.terms import HEAD, MARK, quoted, string

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
        return cls(name, type_, on, tuple(labels or ()), tuple(properties or ()), constraint, options or {})

    @property
    def dimensions(self) -> int | None:
        """Length of the vectors in a vector index."""
        found = self.options.get("indexConfig", {}).get("vector.dimensions")
        return None if found is None else int(found)

    @property
    def cosine(self) -> bool:
        """Whether a vector index compares by cosine."""
        return str(self.options.get("indexConfig", {}).get("vector.similarity_function", "")).upper() == "COSINE"


@dataclass(frozen=True)
class Change:
    """What to run so that a database has what a graph needs.

    Args:
        keys: Labels whose keys are not unique yet: to be looked through for duplicates first.
        drop: Statements that make room: a plain index where a constraint brings its own, a vector index of another length.
        create: Statements that create what is missing.
    """

    keys: tuple[Label, ...]
    drop: tuple[str, ...]
    create: tuple[str, ...]


def changes(graph: Graph, dimensions: int | None, there: Sequence[Index]) -> Change:
    """What is missing."""
    keys, drop, create = [], [], []
    for label in graph.labels.values():
        if not _has(there, label, (graph.key,), unique=True):
            keys.append(label)
            drop += [i.name for i in there if i.type == "RANGE" and _on(i, label, (graph.key,))]
            create.append(_unique(label.name, label.kind, (graph.key,)))
        ranges = [n for n in dict.fromkeys((graph.partition, *label.index)) if not _has(there, label, (n,))]
        create += [_range(label, name) for name in ranges]
        create += _fulltext(graph, label, there)
        for name in label.vectors.values() if dimensions is not None else ():
            found = _vector(label, name, there)
            if found is not None and found.dimensions != dimensions:
                drop.append(found.name)
            if found is None or found.dimensions != dimensions:
                create.append(_vectors(label, name, dimensions or 0))
    create += _own(there)
    return Change(tuple(keys), tuple(f"DROP INDEX {quoted(name)} IF EXISTS" for name in drop), tuple(create))


def _on(index: Index, label: Label, properties: tuple[str, ...]) -> bool:
    return index.kind == label.kind and index.labels == (label.name,) and index.properties == properties


def _has(there: Iterable[Index], label: Label, properties: tuple[str, ...], *, unique: bool = False) -> bool:
    return any(i.type == "RANGE" and _on(i, label, properties) and (bool(i.constraint) or not unique) for i in there)


def _vector(label: Label, name: str, there: Iterable[Index]) -> Index | None:
    return next((i for i in there if i.type == "VECTOR" and _on(i, label, (name,))), None)


def _any(label: Label) -> str:
    return f"(n:{quoted(label.name)})" if label.kind == "node" else f"()-[n:{quoted(label.name)}]-()"


def _range(label: Label, name: str) -> str:
    index = quoted(f"{label.name}_{name}")
    return f"CREATE INDEX {index} IF NOT EXISTS FOR {_any(label)} ON (n.{quoted(name)})"


def _unique(name: str, kind: str, properties: tuple[str, ...]) -> str:
    pattern = f"(n:{quoted(name)})" if kind == "node" else f"()-[n:{quoted(name)}]-()"
    listed = ", ".join(f"n.{quoted(prop)}" for prop in properties)
    constraint = quoted("_".join((name, *properties)))
    return f"CREATE CONSTRAINT {constraint} IF NOT EXISTS FOR {pattern} REQUIRE ({listed}) IS UNIQUE"


def _fulltext(graph: Graph, label: Label, there: Sequence[Index]) -> list[str]:
    found = []
    for name, properties in label.fulltext.items():
        if text_index(label, name, there) is None:
            listed = ", ".join(f"n.{quoted(prop)}" for prop in dict.fromkeys((*properties, graph.partition)))
            found.append(f"CREATE FULLTEXT INDEX {quoted(name)} IF NOT EXISTS FOR {_any(label)} ON EACH [{listed}]")
    return found


def text_index(label: Label, name: str, there: Iterable[Index]) -> Index | None:
    """The full-text index that has this name, or another one of the label that has all its properties."""
    texts = [i for i in there if i.type == "FULLTEXT" and i.kind == label.kind]
    wanted = set(label.fulltext[name])
    return next(
        (i for i in texts if i.name == name),
        next((i for i in texts if i.labels == (label.name,) and wanted <= set(i.properties)), None),
    )


def _vectors(label: Label, name: str, dimensions: int) -> str:
    options = f"{{indexConfig: {{`vector.dimensions`: {dimensions}, `vector.similarity_function`: 'cosine'}}}}"
    index = quoted(f"{label.name}_{name}")
    return f"CREATE VECTOR INDEX {index} IF NOT EXISTS FOR {_any(label)} ON (n.{quoted(name)}) OPTIONS {options}"


def _own(there: Sequence[Index]) -> list[str]:
    """For marks and heads."""
    unique = {i.labels for i in there if i.constraint}
    found = [] if (HEAD,) in unique else [_unique(HEAD, "node", ("partition",))]
    if (MARK,) not in unique:
        found.append(_unique(MARK, "node", ("plan", "partition", "row")))
        found.append(f"CREATE INDEX {MARK}_row IF NOT EXISTS FOR (n:{MARK}) ON (n.row)")
    return found


def usable(graph: Graph, there: Sequence[Index]) -> Indexes:
    """The indexes that searches can read."""
    fulltext, vectors = {}, {}
    for label in graph.labels.values():
        for name in label.fulltext:
            text = text_index(label, name, there)
            if text is not None and set(label.fulltext[name]) <= set(text.properties):
                fulltext[name] = (text.name, graph.partition in text.properties)
        for name in label.vectors.values():
            vector = _vector(label, name, there)
            if vector is not None and vector.cosine:
                vectors[label.name, name] = vector.name
    ranges = {
        (i.labels[0], i.properties[0]) for i in there if i.type == "RANGE" and len(i.labels) == len(i.properties) == 1
    }
    return Indexes(fulltext, vectors, frozenset(ranges))


def duplicates(graph: Graph, label: Label) -> str:
    """A query for keys that several rows of a label have: how many, and three of them."""
    pattern = _any(label).replace("]-()", "]->()")
    return (
        f"MATCH {pattern} WITH n.{quoted(graph.key)} AS key, count(*) AS rows WHERE rows > 1\n"
        "RETURN count(key) AS keys, collect(key)[..3] AS some"
    )


def statistics(graph: Graph) -> str:
    """A query for the number of rows of each label, and the length of one stored vector of each vector property."""
    parts = []
    for label in graph.labels.values():
        pattern = _any(label).replace("]-()", "]->()")
        parts.append(
            f"MATCH {pattern} WITH count(n) AS number RETURN {string(label.name)} AS label, '' AS name, number"
        )
        parts += [
            f"MATCH {pattern} WHERE n.{quoted(name)} IS NOT NULL\n"
            f"RETURN {string(label.name)} AS label, {string(name)} AS name, size(n.{quoted(name)}) AS number LIMIT 1"
            for name in label.vectors.values()
        ]
    return "\nUNION ALL\n".join(parts)
