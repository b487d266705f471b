"""Searches in Cypher: for each row one sub-query with a branch per method, all in one statement.

A branch returns its number, a list of hits (score, key, ends, properties) that are ranked and cut already, and, where it read
an index that cannot filter, how many entries it read and the score of the last one: what is needed to know whether to read on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from semgraph.logical.schema import Graph
from semgraph.stores.base import SearchQuery
from semgraph.stores.conjunct import Value
from semgraph.stores.cypher.hits import EXACT_BELOW, Hits, Indexes
from semgraph.stores.cypher.terms import ROW, Bound, Conditions


@dataclass(frozen=True)
class Branch:
    """One method of one query.

    Args:
        query: Number of the query.
        method: Number of its method.
        number: Under which its hits come back; its row field is `m{number}`, its limit the parameter `f{number}`.
        index: The index that it reads as far as needed; "" if it finds all at once.
        whole: Whether it always reads all of it.
    """

    query: int
    method: int
    number: int
    index: str = ""
    whole: bool = False


@dataclass(frozen=True)
class SearchText:
    """A statement for some queries, whatever the rows.

    Args:
        text: Reads `$groups`: rows in lists, each of one partition.
        bound: Values of its conjuncts.
        branches: What its records belong to.
        partitions: Row fields by the column with the partition value.
        near: For each `l{number}` of a group, the label and the column of the partition (None: all) that it is about: whether
            these are known to have `EXACT_BELOW` rows, so that they need not be counted.
    """

    text: str
    bound: Bound
    branches: tuple[Branch, ...]
    partitions: Mapping[str, str]
    near: tuple[tuple[str, str | None], ...] = ()


def compile_search(
    graph: Graph,
    queries: Sequence[SearchQuery],
    lists: frozenset[str],
    indexes: Indexes,
    only: frozenset[int] | None = None,
) -> SearchText:
    """The statement for queries over the same rows.

    Args:
        graph: Says what labels and properties are.
        queries: What to find.
        lists: The partition columns of the rows that hold lists.
        indexes: What the database has.
        only: Numbers of the branches to ask; None: all.

    Raises:
        EngineError: A query names what the graph does not have.
        StoreUnavailable: It needs an index that the database does not have.
    """
    writer = _Writer(graph, lists, indexes)
    number = 0
    for i, query in enumerate(queries):
        for j in range(len(query.methods)):
            if only is None or number in only:
                writer.add(query, Branch(i, j, number))
            number += 1
    return writer.done()


@dataclass
class _Writer:
    """The statement while it grows."""

    graph: Graph
    lists: frozenset[str]
    indexes: Indexes
    names: dict[Value, str] = field(default_factory=dict)
    partitions: dict[str, str] = field(default_factory=dict)
    near: dict[tuple[str, str, str], tuple[str, str | None]] = field(default_factory=dict)
    branches: list[Branch] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    def add(self, query: SearchQuery, branch: Branch) -> None:
        """Add a method."""
        label = self.graph.label(query.label)
        labels = {name: self.graph.label(getattr(label, end)) for end, name, _ in query.ends}
        conditions = Conditions(self.graph, {query.alias: label, **labels}, self.names, self.indexes.underived)
        hits = Hits(query, label, conditions, self.indexes, self.confined)
        parts, index = hits.parts(query.methods[branch.method], branch.number, self.known)
        self.parts += parts
        self.branches.append(replace(branch, index=index, whole=hits.pinned))

    def confined(self, query: SearchQuery, own: str, row: str) -> str:
        """The condition that keeps hits, whose partition is `own`, in the row's."""
        if query.partition is None:
            return ""
        name = self.partitions.setdefault(query.partition, f"p{len(self.partitions)}")
        operator = "IN" if query.partition in self.lists else "="
        return f"{own} {operator} {row}.{name}"

    def known(self, query: SearchQuery, pattern: str, confined: str, vector: str) -> tuple[str, str]:
        """Two variables: how many rows of a label a partition has, as far as it matters, and, if few, what they are with
        their vectors. They are the same for all rows of a group, so vectors are read once for all of them.
        """
        self.near.setdefault((pattern, confined, vector), (query.label, query.partition))
        return _names(list(self.near).index((pattern, confined, vector)))

    def done(self) -> SearchText:
        """All of it, joined."""
        prelude, imported = ["UNWIND $groups AS g"], [ROW]
        for i, (pattern, confined, vector) in enumerate(self.near):
            n, known = _names(i)
            imported += n, known
            where = f" WHERE {confined}" if confined else ""
            prelude.append(
                f"CALL () {{ MATCH {pattern} RETURN count(h) AS t{i} }}\n"
                f"CALL (g, t{i}) {{ WITH g, t{i} WHERE t{i} >= {EXACT_BELOW} AND NOT g.l{i}\n"
                f"  MATCH {pattern}{where} WITH h LIMIT {EXACT_BELOW} WITH count(h) AS counted\n"
                f"  RETURN CASE WHEN g.l{i} THEN {EXACT_BELOW} ELSE counted END AS {n} }}\n"
                f"CALL (g, {n}) {{ WITH g, {n} WHERE {n} < {EXACT_BELOW}\n"
                f"  MATCH {pattern}{where} WITH h, {vector} AS v WHERE v IS NOT NULL RETURN collect([h, v]) AS {known} }}"
            )
        prelude.append(f"UNWIND g.rows AS {ROW}")
        text = (
            "\n".join((*prelude, f"CALL ({', '.join(imported)}) {{", "\nUNION ALL\n".join(self.parts), "}"))
            + f"\nRETURN {ROW}._q AS q, b, hits, fetched, last"
        )
        bound = Conditions(self.graph, {}, self.names).bound
        return SearchText(text, bound, tuple(self.branches), dict(self.partitions), tuple(self.near.values()))


def _names(number: int) -> tuple[str, str]:
    """Variables: how many rows a partition has of a label, and what they are, where they are few."""
    return f"n{number}", f"c{number}"
