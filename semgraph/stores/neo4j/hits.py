"""The branch of one search method: which hits, in which order, how many, and what of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from semgraph.errors import EngineError, StoreUnavailable
from semgraph.logical.schema import Label
from semgraph.stores.base import Method, SearchQuery
from semgraph.stores.batch_io import aliases, end_nodes, returned
from semgraph.stores.conditions import of_hit
from semgraph.stores.neo4j import cypher as pins
from semgraph.stores.neo4j.cypher import (
    ROW,
    Conditions,
    held,
    instant,
    quoted,
    returned_as,
    string,
    type_of,
)

EXACT_BELOW = 5000
"""A partition with fewer rows of a label is read whole by `nearest`."""
VECTORS = "vectors"
"""The parameter with the different vectors that rows look for; a row has the place of its own."""


@dataclass(frozen=True)
class Indexes:
    """The full-text and vector indexes that a database has.

    Args:
        fulltext: By the graph's name: the index's own, and whether it has the partition too.
        vectors: Names of the indexes by label and vector property.
        ranges: Labels and properties with a range index, the one of a constraint included.
        underived: Labels and derived text properties that some rows lack.
    """

    fulltext: Mapping[str, tuple[str, bool]] = field(default_factory=dict)
    vectors: Mapping[tuple[str, str], str] = field(default_factory=dict)
    ranges: frozenset[tuple[str, str]] = frozenset()
    underived: frozenset[tuple[str, str]] = frozenset()

    def hint(self, var: str, label: str, *properties: str | None) -> str:
        """The index to look into first: of the first property that has one.

        Plans are kept for a while, and one that was made while a label was empty, or before its
        index was counted, may read all of it.
        """
        found = next((p for p in properties if (label, p) in self.ranges), None)
        return "" if found is None else f" USING INDEX SEEK {var}:{quoted(label)}({quoted(found)})"


def _cosine(vector: str, sought: str) -> str:
    """The raw cosine; the server's function gives (1 + cosine) / 2."""
    return f"2 * vector.similarity.cosine({vector}, {sought}) - 1"


def _end(end: str) -> str:
    """The node at an end of a hit."""
    return "startNode(h)" if end == "source" else "endNode(h)"


Known = Callable[[SearchQuery, str, str, str], tuple[str, str]]


class Hits:
    """The hits `h` of one query."""

    def __init__(
        self,
        query: SearchQuery,
        label: Label,
        conditions: Conditions,
        indexes: Indexes,
        confined: Callable[[SearchQuery, str, str], str],
    ) -> None:
        self.query, self.label, self.indexes = query, label, indexes
        self.conditions = conditions
        self.confined = confined
        self.terms = conditions.read(query.where, aliases(query))
        self.own = of_hit(self.terms, query.alias)
        self.graph = conditions.graph
        name = quoted(label.name)
        self.pattern = f"(h:{name})" if label.kind == "node" else f"()-[h:{name}]->()"

    def parts(self, method: Method, number: int, known: Known) -> tuple[list[str], str]:
        """The branch as parts of a union, and the index that it reads as far as needed.

        Args:
            method: How to find hits.
            number: Of the branch; `m{number}` is the field of the row with what to look for.
            known: Names what is read of a partition before all its rows.
        """
        sought = f"{ROW}.m{number}"
        if method.via == "fulltext":
            index = self._fulltext_index(method.prop)
            read = self._fulltext(self.indexes.fulltext[index][0], number)
            if self.pinned:
                return [self._among_known(read, number, method)], index
            found = f"{read}\nWITH h, sum(s) AS s ORDER BY s DESC WHERE s > 0\nWITH collect([h, s]) AS found"
            return [self._read_on(number, found, "s", method)], index
        if method.via == "nearest":
            return self._nearest(method, number, f"${VECTORS}[{sought}]", known)
        test = f"{self._value(method.prop)} = {sought}" if method.via == "equal" else ""
        first = method.prop if test.startswith("h.") else None
        if method.via == "equal" and (self.label.name, method.prop) in self.indexes.underived:
            key, prop = f"h.{quoted(self.graph.key)}", f"h.{quoted(method.prop)}"
            test = f"({prop} = {sought} OR ({prop} IS NULL AND {key} IN {ROW}.u{number}))"
        found = f"{self._match(test, first)}\n{self._ranked('1.0', method)}"
        return [
            f"{found}\nRETURN {number} AS b, {self._collected()}, null AS fetched, null AS last"
        ], ""

    def _nearest(
        self, method: Method, number: int, sought: str, known: Known
    ) -> tuple[list[str], str]:
        if method.prop not in self.label.vectors:
            raise EngineError(f'label "{self.label.name}" has no embedding of "{method.prop}"')
        name = self.label.vectors[method.prop]
        vector = f"h.{quoted(name)}"
        ranked = self._ranked(_cosine("v", sought), method)
        end = f"{ranked}\nRETURN {number} AS b, {self._collected()}, null AS fetched, null AS last"
        alike = f"size(v) = size({sought})"
        index = self.indexes.vectors.get((self.label.name, name), "")
        if not index or self.pinned or method.k is None:
            return [f"{self._match('')}\nWITH h, {vector} AS v WHERE {alike}\n{end}"], ""
        own = self.confined(self.query, f"h.{quoted(self.graph.partition)}", "g")
        n, near = known(self.query, self.pattern, own, vector)
        kind = "node" if self.label.kind == "node" else "relationship"
        read = (
            f"WITH {ROW}, {n} WHERE {n} >= {EXACT_BELOW} AND {sought} IS NOT NULL\n"
            f"CALL db.index.vector.query{kind.title()}s({string(index)}, $f{number}, {sought}) YIELD {kind}, score\n"
            f"WITH collect([{kind}, 2 * score - 1]) AS found"
        )
        passing = " AND ".join(filter(None, (alike, self._where)))
        exact = f"UNWIND {near} AS x WITH x[0] AS h, x[1] AS v WHERE {passing}\n{end}"
        return [exact, self._read_on(number, read, _cosine(vector, sought), method)], index

    def _fulltext_index(self, prop: str) -> str:
        for name, properties in self.label.fulltext.items():
            if prop in properties:
                if name not in self.indexes.fulltext:
                    raise StoreUnavailable(
                        f'the database has no full-text index "{name}" of {self.label.name} over {", ".join(properties)}: '
                        "drop another of that name, and run a plan that writes `schema`, such as build_indices_and_constraints"
                    )
                return name
        raise EngineError(f'label "{self.label.name}" has no full-text index of "{prop}"')

    @property
    def pinned(self) -> bool:
        """Whether `where` says which hits there can be, by key or by ends."""
        by_ends = self.label.kind == "edge" and bool(pins.ends(self.own))
        return by_ends or pins.by_key(self.own, self.graph.key)

    def _fulltext(self, index: str, number: int) -> str:
        kind = "node" if self.label.kind == "node" else "relationship"
        return (
            f"UNWIND {ROW}.m{number} AS text\n"
            f"CALL db.index.fulltext.query{kind.title()}s({string(index)}, text, $f{number}) "
            f"YIELD {kind} AS h, score AS s"
        )

    def _among_known(self, read: str, number: int, method: Method) -> str:
        """Which of the few hits that there can be an index gives, and their scores; not read where
        there are none.
        """
        return (
            f"CALL ({ROW}) {{ {self._match('')} RETURN collect(h) AS known }}\n"
            f"WITH known WHERE size(known) > 0\n{read} WHERE h IN known\n"
            f"WITH h, sum(s) AS s WHERE s > 0\n{self._ranked('s', method)}\n"
            f"RETURN {number} AS b, {self._collected()}, null AS fetched, null AS last"
        )

    def _read_on(self, number: int, read: str, score: str, method: Method) -> str:
        """What an index gives, filtered; it says how much it read, so that it can be asked for
        more.
        """
        return (
            f"{read}\nCALL ({ROW}, found) {{\n"
            f"UNWIND found AS f WITH f[0] AS h, f[1] AS s WHERE {self._filter()}\n"
            f"{self._ranked(score, method)}\nRETURN {self._collected()}\n}}\n"
            f"RETURN {number} AS b, hits, size(found) AS fetched, found[-1][1] AS last"
        )

    def _match(self, test: str, prop: str | None = None) -> str:
        """Bind `h` to what passes; `prop`: of an equality in `test`."""
        pairs = pins.ends(self.own) if self.label.kind == "edge" else ()
        if not pairs:
            partition = None if self.query.partition is None else self.graph.partition
            hint = (
                ""
                if pins.by_key(self.own, self.graph.key)
                else self.indexes.hint("h", self.label.name, prop, partition)
            )
            return f"MATCH {self.pattern}{hint} WHERE {self._filter(test)}"
        # The partition by a parameter: given by name, its index may tempt the planner to read all
        # of it for every row.
        found = pins.match(
            self.graph,
            self.label,
            pairs,
            self.conditions.value,
            lambda v, end: self.indexes.hint(v, end, self.graph.key),
        )
        return f"{found} WHERE {self._filter(test, own='h[$own]')}"

    def _filter(self, test: str = "", own: str = "") -> str:
        own = own or f"h.{quoted(self.graph.partition)}"
        return (
            " AND ".join(filter(None, (test, self.confined(self.query, own, ROW), self._where)))
            or "true"
        )

    @property
    def _where(self) -> str:
        ends = {name: _end(end) for end, name, _ in self.query.ends}
        return self.conditions.text(self.terms, {self.query.alias: "h", **ends})

    def _ranked(self, score: str, method: Method) -> str:
        order = [] if method.via == "order" else ["score DESC"]
        for name, descending in self.query.order if method.via == "order" else ():
            value = self._value(name)
            order += [f"{value} IS NULL", f"{value} DESC" if descending else value]
        above = f" WHERE score > {float(method.above)!r}" if method.via == "nearest" else ""
        limit = "" if method.k is None else f" LIMIT {method.k}"
        key = f"h.{quoted(self.graph.key)}"
        return f"WITH h, {score} AS score{above}\nWITH h, score ORDER BY {', '.join([*order, key])}{limit}"

    def _value(self, name: str) -> str:
        kind = type_of(self.label, name)
        found = held(self.graph, self.label, "h", name, self.indexes.underived)
        return instant(found) if kind is not None and kind.name == "timestamp" else found

    def _collected(self) -> str:
        names = returned(self.graph, self.label, self.query.properties)
        found = (returned_as(self.graph, self.label, "h", name) for name in names)
        ends = (
            f"[{', '.join(returned_as(self.graph, node, _end(end), name) for name in listed)}]"
            for end, (node, listed) in end_nodes(self.graph, self.query).items()
        )
        return f"collect([score, {', '.join((*found, *ends))}]) AS hits"
