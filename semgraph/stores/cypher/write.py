"""A commit in Cypher: one statement whose sub-queries delete, merge nodes, merge edges and leave marks, in this order.

Where there is a mark, the head of its partition is locked by a write and only then compared: two who read before they write
would both win. If the head is another's, the statement yields no record and has written nothing but that lock.

A row whose key, or an end of which, is stored under another partition is passed over, so that fewer rows are counted than
were sent: who runs the statement looks why, and rolls back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from semgraph.logical.schema import Graph, Label
from semgraph.stores.base import Batch, Delete, EdgeWrite, Mark, NodeWrite, Write
from semgraph.stores.cypher.hits import Indexes
from semgraph.stores.cypher.terms import HEAD, MARK, SYSTEM, hidden, quoted, sent, string
from semgraph.stores.cypher.written import refuse_long, rows_of
from semgraph.stores.refusals import Refusals
from semgraph.stores.rows import check_columns, check_partitions

FRESH = f"{SYSTEM}_fresh"


@dataclass(frozen=True)
class CommitText:
    """A statement that writes a batch.

    Args:
        text: Returns one record: under `w{i}` the number of rows that write i touched. No record: the head is another's.
        parameters: Values of all rows.
    """

    text: str
    parameters: Mapping[str, Any]


def compile_commit(graph: Graph, batch: Batch, mark: Mark | None, indexes: Indexes) -> CommitText:
    """The statement for a batch. Raises EngineError for unknown columns, RowsRefused for what cannot be stored."""
    refusals = Refusals()
    parts: list[str] = []
    parameters: dict[str, Any] = {}
    if mark is not None:
        parts.append(_HEAD)
        parameters["mark"] = _mark(mark)
    for i, write in sorted(enumerate(batch.writes), key=lambda pair: ORDER[type(pair[1])]):
        parts.append(Shape.of(graph, write, indexes).text(i))
        parameters[f"w{i}"] = refusals.attempt(write, graph.key, partial(rows_of, graph))
    check_partitions(graph, batch, refusals)
    refusals.check()
    if mark is not None:
        parts.append(_MARKS)
    returned = ", ".join(f"w{i}" for i in range(len(batch.writes))) or "1 AS nothing"
    return CommitText("\n".join([*parts, f"RETURN {returned}"]), parameters)


ORDER: Mapping[type[Write], int] = {Delete: 0, NodeWrite: 1, EdgeWrite: 2}
"""In which order a statement does the writes of a batch."""
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
    """What the text of one write depends on: not its values, and few of its columns. Rows are as `rows_of` makes them."""

    graph: Graph
    label: Label
    write: Write
    indexes: Indexes

    @classmethod
    def of(cls, graph: Graph, write: Write, indexes: Indexes) -> Shape:
        """The shape of a write. Raises EngineError for columns that the graph does not know."""
        check_columns(graph, write)
        return cls(graph, graph.label(write.label), write, indexes)

    def text(self, number: int) -> str:
        """The sub-query of write `number`."""
        if isinstance(self.write, Delete):
            return self._deletion(number, self.write)
        create = self.write.create
        names = set(self.write.rows.column_names)
        flagged = bool(create & {"labels", *self.label.vectors.values()})
        steps = [f"CALL () {{\nUNWIND $w{number} AS row", self._found()]
        if not self.write.only_existing:
            part = f", n.{quoted(self.graph.partition)} = row.p" if self._confined else ""
            steps.append(f"ON CREATE SET n += row.c{part}" + (f", n.{FRESH} = true" if flagged else ""))
        fresh = f"coalesce(n.{FRESH}, false)" if flagged else "false"
        steps.append(f"WITH n, row, {fresh} AS fresh{self._within('n')}" + (f"\nREMOVE n.{FRESH}" if flagged else ""))
        steps += self._settings(names, create, self.write.unite)
        return "\n".join([*steps, f"RETURN count(*) AS w{number}\n}}"])

    @property
    def _key(self) -> str:
        return quoted(self.graph.key)

    @property
    def _confined(self) -> bool:
        return self.graph.partition in self.write.rows.column_names

    def _within(self, var: str) -> str:
        """The condition that what is bound is of the row's partition; without a partition all is."""
        same = f"coalesce({var}.{quoted(self.graph.partition)}, '') = row.p"
        return f"\nWHERE row.p IS NULL OR {same}" if self._confined else ""

    def _hint(self, var: str, label: str) -> str:
        return self.indexes.hint(var, label, self.graph.key)

    def _found(self) -> str:
        """Clauses that bind `n`, and make it where that is allowed."""
        only_existing = not isinstance(self.write, Delete) and self.write.only_existing
        verb = "MATCH" if only_existing else "MERGE"
        hint = self._hint("n", self.label.name) if only_existing else ""
        if self.label.kind == "node":
            return f"{verb} (n:{quoted(self.label.name)} {{{self._key}: row.k}}){hint}"
        edge = f"[n:{quoted(self.label.name)} {{{self._key}: row.k}}]"
        if only_existing:
            return f"MATCH ()-{edge}->(){hint}"
        ends = (("source", self.label.source), ("target", self.label.target))
        matches = (
            f"MATCH ({var}:{quoted(end)} {{{self._key}: row.{var}}}){self._hint(var, end)}{self._within(var)}"
            for var, end in ends
        )
        return "\n".join([*matches, f"MERGE (source)-{edge}->(target)"])

    def _settings(self, names: set[str], create: frozenset[str], unite: frozenset[str]) -> list[str]:
        steps = []
        if "attributes" in names - create:
            known = ", ".join(string(name) for name in hidden(self.label))
            steps.append(
                f"FOREACH (k IN CASE WHEN row.a IS NULL THEN [] ELSE [k IN keys(n) WHERE NOT k IN [{known}]] END | "
                "REMOVE n[k])\nSET n += coalesce(row.a, {})"
            )
        steps.append("SET n += row.s")
        steps += [_united(quoted(name)) for name in sorted((unite & names) - create)]
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

    def _deletion(self, number: int, write: Delete) -> str:
        node = self.label.kind == "node"
        found = f"{quoted(self.label.name)} {{{self._key}: row.k}}"
        pattern = (
            (f"(n:{found})" if node else f"()-[n:{found}]->()") + self._hint("n", self.label.name) + self._within("n")
        )
        verb = "DETACH DELETE" if node and write.detach else "DELETE"
        text = (
            f"CALL () {{\nUNWIND $w{number} AS row\nMATCH {pattern}\nWITH collect(DISTINCT n) AS found\n"
            f"FOREACH (n IN found | {verb} n)\nRETURN size(found) AS w{number}\n}}"
        )
        if not node:
            return text
        return (
            f"{text}\nCALL () {{\nUNWIND $w{number} AS row\n"
            f"MATCH (m:{MARK} {{row: row.k, witness: {string(self.label.name)}}})"
            f"{self.indexes.hint('m', MARK, 'row')} WHERE row.p IS NULL OR m.partition = row.p\nDELETE m\n}}"
        )


def _united(name: str) -> str:
    old, new = f"coalesce(n.{name}, [])", f"row.u.{name}"
    return (
        f"FOREACH (x IN CASE WHEN {new} IS NULL THEN [] ELSE [1] END | "
        f"SET n.{name} = {old} + [y IN {new} WHERE NOT y IN {old}])"
    )
