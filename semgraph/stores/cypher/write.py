"""A commit in Cypher: one statement whose sub-queries delete, merge nodes, merge edges and leave marks, in this order.

Where there is a mark, the head of its partition is locked by a write and only then compared: two who read before they write
would both win. If the head is another's, the statement yields no record and has written nothing but that lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semgraph.errors import EngineError
from semgraph.expr.functions import canonical_json
from semgraph.logical.schema import Graph, Label
from semgraph.stores.base import Batch, Delete, EdgeWrite, Mark, NodeWrite, Write
from semgraph.stores.cypher.terms import HEAD, MARK, SYSTEM, hidden, quoted, sent, string
from semgraph.stores.rows import attributes_form, check_columns, json_form, labels_form

FRESH = f"{SYSTEM}_fresh"
LONGEST = 8000
"""Bytes of a text in a range index; the server's own limit is a little more."""


@dataclass(frozen=True)
class CommitText:
    """A statement that writes a batch.

    Args:
        text: Returns one record: under `w{i}` the number of rows that write i touched. No record: the head is another's.
        parameters: Values of all rows.
    """

    text: str
    parameters: Mapping[str, Any]


def compile_commit(graph: Graph, batch: Batch, mark: Mark | None) -> CommitText:
    """The statement for a batch. Raises EngineError for columns, labels or attributes that cannot be written."""
    parts: list[str] = []
    parameters: dict[str, Any] = {}
    if mark is not None:
        parts.append(_HEAD)
        parameters["mark"] = _mark(mark)
    for i, write in sorted(enumerate(batch.writes), key=lambda pair: _ORDER[type(pair[1])]):
        shape = Shape.of(graph, write)
        parts.append(shape.text(i))
        parameters[f"w{i}"] = shape.rows(write.rows)
    if mark is not None:
        parts.append(_MARKS)
    returned = ", ".join(f"w{i}" for i in range(len(batch.writes))) or "1 AS nothing"
    return CommitText("\n".join([*parts, f"RETURN {returned}"]), parameters)


_ORDER: Mapping[type[Write], int] = {Delete: 0, NodeWrite: 1, EdgeWrite: 2}
_HEAD = f"""\
MERGE (m:{HEAD} {{partition: $mark.partition}})
SET m.lock = $mark.head
WITH m WHERE m.head = $mark.before OR (m.head IS NULL AND $mark.before IS NULL)
SET m.head = $mark.head
WITH 1 AS one"""
_MARKS = f"""\
CALL () {{
UNWIND $mark.rows AS row
MERGE (m:{MARK} {{plan: $mark.plan, partition: $mark.partition, row: row}})
SET m += $mark.of, m.witness = $mark.witness
RETURN count(*) AS marked
}}"""


def _mark(mark: Mark) -> dict[str, Any]:
    for row in mark.rows:
        refuse_long(mark.plan + mark.partition + row, f"the mark of {row[:100]} in {mark.partition[:100]}")
    return {
        "plan": mark.plan,
        "partition": mark.partition,
        "rows": list(mark.rows),
        "before": mark.before,
        "head": mark.head,
        "witness": mark.witness,
        "of": {"fingerprint": mark.fingerprint, "now": sent(mark.now), "run": mark.run},
    }


@dataclass(frozen=True)
class Shape:
    """What the text of one write depends on: not its values, and few of its columns.

    Each row becomes a map: `k` its key, `c` properties for creation, `s` properties to set, `u` lists to unite, `l` labels,
    `a` attributes, `v` vectors, `z` the vectors of zeros, which have no direction and are not kept; `source` and `target`.
    """

    graph: Graph
    label: Label
    write: Write

    @classmethod
    def of(cls, graph: Graph, write: Write) -> Shape:
        """The shape of a write. Raises EngineError for columns that the graph does not know."""
        check_columns(graph, write)
        return cls(graph, graph.label(write.label), write)

    def text(self, number: int) -> str:
        """The sub-query of write `number`."""
        if isinstance(self.write, Delete):
            return self._deletion(number, self.write)
        create = self.write.create
        names = set(self.write.rows.column_names)
        flagged = bool(create & {"labels", *self.label.vectors.values()})
        steps = [f"CALL () {{\nUNWIND $w{number} AS row", self._found()]
        if not self.write.only_existing:
            steps.append("ON CREATE SET n += row.c" + (f", n.{FRESH} = true" if flagged else ""))
        fresh = f"coalesce(n.{FRESH}, false)" if flagged else "false"
        steps.append(f"WITH n, row, {fresh} AS fresh" + (f"\nREMOVE n.{FRESH}" if flagged else ""))
        steps += self._settings(names, create)
        return "\n".join([*steps, f"RETURN count(*) AS w{number}\n}}"])

    @property
    def _key(self) -> str:
        return quoted(self.graph.key)

    def _found(self) -> str:
        """Clauses that bind `n`, and make it where that is allowed."""
        only_existing = not isinstance(self.write, Delete) and self.write.only_existing
        verb = "MATCH" if only_existing else "MERGE"
        if self.label.kind == "node":
            return f"{verb} (n:{quoted(self.label.name)} {{{self._key}: row.k}})"
        edge = f"[n:{quoted(self.label.name)} {{{self._key}: row.k}}]"
        if only_existing:
            return f"MATCH ()-{edge}->()"
        ends = (("source", self.label.source), ("target", self.label.target))
        matches = (f"MATCH ({var}:{quoted(end)} {{{self._key}: row.{var}}})" for var, end in ends)
        return "\n".join([*matches, f"MERGE (source)-{edge}->(target)"])

    def _settings(self, names: set[str], create: frozenset[str]) -> list[str]:
        steps = []
        if "attributes" in names - create:
            known = ", ".join(string(name) for name in hidden(self.label))
            steps.append(
                f"FOREACH (k IN CASE WHEN row.a IS NULL THEN [] ELSE [k IN keys(n) WHERE NOT k IN [{known}]] END | "
                "REMOVE n[k])\nSET n += coalesce(row.a, {})"
            )
        steps.append("SET n += row.s")
        steps += [_united(quoted(name)) for name in sorted((self.write_unite & names) - create)]
        if "labels" in names:
            asked = "fresh" if "labels" in create else "true"
            steps.append(f"FOREACH (x IN CASE WHEN {asked} THEN [1] ELSE [] END | SET n:$(row.l))")
        kind = "Node" if self.label.kind == "node" else "Relationship"
        vectors = sorted(names & set(self.label.vectors.values()))
        if vectors:
            steps.append("FOREACH (k IN row.z | REMOVE n[k])")
        for name in vectors:
            asked = "fresh AND " if name in create else ""
            steps.append(
                f"WITH n, row, fresh\nCALL (n, row, fresh) {{\n"
                f"WITH n, row, fresh WHERE {asked}row.v.{quoted(name)} IS NOT NULL\n"
                f"CALL db.create.set{kind}VectorProperty(n, {string(name)}, row.v.{quoted(name)})\n}}"
            )
        return steps

    @property
    def write_unite(self) -> frozenset[str]:
        """The lists to unite."""
        return frozenset() if isinstance(self.write, Delete) else self.write.unite

    def _deletion(self, number: int, write: Delete) -> str:
        node = self.label.kind == "node"
        found = f"{quoted(self.label.name)} {{{self._key}: row.k}}"
        pattern = f"(n:{found})" if node else f"()-[n:{found}]->()"
        verb = "DETACH DELETE" if node and write.detach else "DELETE"
        text = (
            f"CALL () {{\nUNWIND $w{number} AS row\nMATCH {pattern}\nWITH collect(DISTINCT n) AS found\n"
            f"FOREACH (n IN found | {verb} n)\nRETURN size(found) AS w{number}\n}}"
        )
        if not node:
            return text
        return (
            f"{text}\nCALL () {{\nUNWIND $w{number} AS row\n"
            f"MATCH (m:{MARK} {{row: row.k, witness: {string(self.label.name)}}})\nDELETE m\n}}"
        )

    def _stored(self, name: str, value: Any, key: str) -> Any:
        """A property as Neo4j keeps it: JSON in canonical form, what it has no form for as JSON. Raises EngineError."""
        kind, what = self.label.columns[name], f"{name} of {self.label.name} {key}"
        if kind.name == "json":
            value = json_form(value, what)
        elif kind.name == "struct" or (kind.item is not None and kind.item.name in ("struct", "list")):
            value = canonical_json(value)
        elif isinstance(value, list) and None in value:
            raise EngineError(f"{what} is a list with NULL in it, which Neo4j cannot store")
        if name in (self.graph.key, self.graph.partition, *self.label.index):
            refuse_long(value, what)
        return sent(value)

    def _labels(self, names: Sequence[str], key: str) -> list[str]:
        found = labels_form(names, self.label, key)
        for name in found:
            if name in self.graph.labels or name.startswith(SYSTEM):
                raise EngineError(
                    f'"{name}" cannot be a further label of {self.label.name} {key}: it has a meaning of its own'
                )
        return found

    def rows(self, rows: pa.Table) -> list[dict[str, Any]]:
        """The rows as the text reads them. Raises EngineError for labels and attributes that cannot be written."""
        columns = {name: _values(rows.column(name)) for name in rows.column_names}
        return [self._row(dict(zip(columns, row, strict=True))) for row in zip(*columns.values(), strict=True)]

    def _row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = {"k": row[self.graph.key]}
        if isinstance(self.write, Delete):
            return found
        found |= {"c": {}, "s": {}, "u": {}, "v": {}, "z": [], "l": [], "a": None}
        for name, value in row.items():
            if value is None:
                continue
            self._place(found, name, value, "c" if name in self.write.create else "s")
        return found

    def _place(self, found: dict[str, Any], name: str, value: Any, where: str) -> None:
        if name in ("source", "target") and self.label.kind == "edge":
            found[name] = value
        elif name in self.label.vectors.values():
            if any(value):
                found["v"][name] = value
            elif where == "s":
                found["z"].append(name)
        elif name == "labels" and "labels" in self.label.open:
            found["l"] = self._labels(value, found["k"])
        elif name == "attributes" and "attributes" in self.label.open:
            given = attributes_form(value, self.label, found["k"])
            flat = {attribute: held if _storable(held) else canonical_json(held) for attribute, held in given.items()}
            found |= {"a": flat} if where == "s" else {"c": {**flat, **found["c"]}}
        elif name in self.write_unite and where == "s":
            found["u"][name] = list(dict.fromkeys(value))
        else:
            found[where][name] = self._stored(name, value, found["k"])


def refuse_long(value: Any, what: str) -> None:
    """Refuse a text that Neo4j cannot index. Raises EngineError."""
    if isinstance(value, str) and len(value.encode()) > LONGEST:
        raise EngineError(f"{what} has {len(value.encode()):,} bytes, and Neo4j indexes texts of {LONGEST:,} at most")


def _storable(value: Any) -> bool:
    """Whether Neo4j has properties of this kind: no objects, no lists of several kinds."""
    if isinstance(value, list):
        return len({type(item) for item in value}) <= 1 and all(
            isinstance(item, str | int | float | bool) for item in value
        )
    return not isinstance(value, dict)


def _united(name: str) -> str:
    old, new = f"coalesce(n.{name}, [])", f"row.u.{name}"
    return (
        f"FOREACH (x IN CASE WHEN {new} IS NULL THEN [] ELSE [1] END | "
        f"SET n.{name} = {old} + [y IN {new} WHERE NOT y IN {old}])"
    )


def _values(column: pa.ChunkedArray[Any]) -> list[Any]:
    """Python values; vectors by numpy, which is many times faster."""
    array: Any = column.combine_chunks()
    if pa.types.is_fixed_size_list(array.type) and not array.null_count:
        found: list[Any] = array.flatten().to_numpy().reshape(len(array), array.type.list_size).tolist()
        return found
    listed: list[Any] = array.to_pylist()
    return listed
