"""A search as one Cypher statement: a branch for each method, joined over all rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from semgraph.errors import EngineError, StoreUnavailable
from semgraph.logical.schema import Graph, Label
from semgraph.stores.base import Method, SearchQuery
from semgraph.stores.conditions import Ends, Value, by_key, ends, of_hit, pinned
from semgraph.stores.neo4j import cypher
from semgraph.stores.neo4j.schema import Indexes
from semgraph.stores.prepare import aliases, end_nodes, returned

EXACT_BELOW = 5000  # `nearest` reads the whole partition if it has fewer rows of a label


@dataclass(frozen=True)
class Branch:
    """One method of one query, by their numbers. The row field of its values is `m{number}`, its
    limit the parameter `f{number}`. `index` is read as far as needed, always as a `whole` if so
    marked; "": all hits are found at once.
    """

    query: int
    method: int
    number: int
    index: str = ""
    whole: bool = False


@dataclass(frozen=True)
class SearchStatement:
    """A statement for some queries, independent of the rows. It reads `$lists.groups`: lists of
    rows, each of one partition.

    For each `l{number}` of a group, `near` has a label and partition column (None: all). It tells
    whether these are known to have `EXACT_BELOW` rows, so that they need not be counted.
    """

    text: str
    bound: cypher.Bound
    branches: tuple[Branch, ...]
    partitions: Mapping[str, str]
    near: tuple[tuple[str, str | None], ...] = ()


def compile_search(
    graph: Graph,
    queries: Sequence[SearchQuery],
    lists: frozenset[str],
    indexes: Indexes,
    only: frozenset[int] | None = None,
) -> SearchStatement:
    """The statement for queries over the same rows. `lists` are the partition columns that hold
    lists; `only` has the numbers of the branches to include (None: all). Raises EngineError for a
    name that the graph lacks, StoreUnavailable for an index that the database lacks.
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
    """A builder of the statement."""

    graph: Graph
    lists: frozenset[str]
    indexes: Indexes
    names: dict[Value, str] = field(default_factory=dict)
    partitions: dict[str, str] = field(default_factory=dict)
    near: dict[tuple[str, ...], tuple[str, str | None]] = field(default_factory=dict)
    branches: list[Branch] = field(default_factory=list)
    parts: list[str] = field(default_factory=list)

    def add(self, query: SearchQuery, branch: Branch) -> None:
        """Add a branch for a method."""
        label = self.graph.label(query.label)
        labels = {name: self.graph.label(getattr(label, end)) for end, name, _ in query.ends}
        conditions = cypher.Conditions(
            self.graph, {query.alias: label, **labels}, self.names, self.indexes.incomplete
        )
        hits = Hits(query, label, conditions, self)
        parts, index = hits.parts(query.methods[branch.method], branch.number)
        self.parts += parts
        self.branches.append(replace(branch, index=index, whole=hits.pinned))

    def confined(self, query: SearchQuery, own: str, row: str) -> str:
        """The condition that confines hits with the partition `own` to that of the row."""
        if query.partition is None:
            return ""
        name = self.partitions.setdefault(query.partition, f"p{len(self.partitions)}")
        operator = "IN" if query.partition in self.lists else "="
        return f"{own} {operator} {row}.{name}"

    def known(self, query: SearchQuery, *of: str) -> tuple[str, str]:
        """Two variables: the number of rows of a label in a partition, as far as it matters, and,
        if it is small, these rows with their vectors. They are equal for all rows of a group, so
        vectors are read once per group. `of` are the pattern, the condition on the partition and
        the vector.
        """
        self.near.setdefault(of, (query.label, query.partition))
        return _names(list(self.near).index(of))

    def done(self) -> SearchStatement:
        """The complete statement, joined."""
        prelude, imported = [cypher.KEEP_PLAN, f"UNWIND ${cypher.LISTS}.groups AS g"], [cypher.ROW]
        for i, ((pattern, confined, vector), (label, _)) in enumerate(self.near.items()):
            n, known = _names(i)
            imported += n, known
            hint = self.indexes.hint("h", label, self.graph.partition) if confined else ""
            match = f"MATCH {pattern}{hint}" + (f" WHERE {confined}" if confined else "")
            count, read = _if(f"t{i} >= {EXACT_BELOW} AND NOT g.l{i}"), _if(f"{n} < {EXACT_BELOW}")
            prelude.append(
                f"CALL () {{ MATCH {pattern} RETURN count(h) AS t{i} }}\n"
                f"CALL (g, t{i}) {{ {count}\n"
                f"  {match} WITH h LIMIT {EXACT_BELOW} WITH count(h) AS counted\n"
                f"  RETURN CASE WHEN g.l{i} THEN {EXACT_BELOW} ELSE counted END AS {n} }}\n"
                f"CALL (g, {n}) {{ {read}\n"
                f"  {match} WITH h, {vector} AS v WHERE v IS NOT NULL RETURN collect([h, v]) AS {known} }}"
            )
        prelude.append(f"UNWIND g.rows AS {cypher.ROW}")
        union = "\nUNION ALL\n".join(self.parts)
        call = (f"CALL ({', '.join(imported)}) {{", union, "}")
        text = "\n".join((*prelude, *call, f"RETURN {cypher.ROW}._q AS q, b, hits, fetched, last"))
        bound = cypher.Conditions(self.graph, {}, self.names).bound
        return SearchStatement(
            text, bound, tuple(self.branches), dict(self.partitions), tuple(self.near.values())
        )


def _if(condition: str) -> str:
    """A clause after which the rest runs only under a condition. After `WITH ... WHERE` the rest
    would run first: the server tests the condition for each row that it reads.
    """
    return f"UNWIND CASE WHEN {condition} THEN [1] ELSE [] END AS once"


def _names(number: int) -> tuple[str, str]:
    """Variables: the number of rows of a label in a partition, and these rows if they are few."""
    return f"n{number}", f"c{number}"


# The branch of one method: the hits, their order, their number, and their columns.


def _cosine(vector: str, sought: str) -> str:
    """The raw cosine; the server's function gives (1 + cosine) / 2."""
    return f"2 * vector.similarity.cosine({vector}, {sought}) - 1"


def has_direction(vector: str) -> str:
    """The condition that a stored value is a vector with a direction."""
    listed = f"({vector} IS :: LIST<FLOAT NOT NULL> OR {vector} IS :: LIST<INTEGER NOT NULL>)"
    return (
        f"CASE WHEN {listed} THEN all(x IN {vector} WHERE abs(x) < 1e38) "
        f"AND any(x IN {vector} WHERE x <> 0) ELSE false END"
    )


def _end(end: str) -> str:
    return "startNode(h)" if end == "source" else "endNode(h)"


class Hits:
    """The hits `h` of one query."""

    def __init__(
        self, query: SearchQuery, label: Label, conditions: cypher.Conditions, of: _Writer
    ) -> None:
        self.query, self.label, self.of, self.indexes = query, label, of, of.indexes
        self.conditions = conditions
        self.terms = conditions.read(query.where, aliases(query))
        self.own = of_hit(self.terms, query.alias)
        self.graph = conditions.graph
        self.pattern = cypher.pattern_of(label, "h")

    def parts(self, method: Method, number: int) -> tuple[list[str], str]:
        """The branch as parts of a union, and the index that it reads as far as needed. `m{number}`
        is the row field with the searched value.
        """
        sought = f"{cypher.ROW}.m{number}"
        if method.via == "fulltext" and (index := self._fulltext_index(method.prop)):
            read = self._fulltext(self.indexes.fulltext[index][0], number)
            if self.pinned:
                return [self._among_known(read, number, method)], index
            entries = f"{read}\nWITH h, sum(s) AS s ORDER BY s DESC WHERE s > 0\nWITH collect([h, s]) AS found"
            return [self._read_on(number, entries, "s", method)], index
        if method.via == "nearest":
            return self._nearest(method, number, f"${cypher.LISTS}.vectors[{sought}]")
        test = "false" if method.via == "fulltext" else ""
        if method.via == "equal":
            test = f"{self._value(method.prop)} = {sought}"
        first = method.prop if test.startswith("h.") else None
        if method.via == "equal" and (self.label.name, method.prop) in self.indexes.incomplete:
            key, prop = f"h.{cypher.quoted(self.graph.key)}", f"h.{cypher.quoted(method.prop)}"
            test = f"({prop} = {sought} OR ({prop} IS NULL AND {key} IN {cypher.ROW}.u{number}))"
        return [f"{self._match(test, first)}\n{self._all(number, '1.0', method)}"], ""

    def _all(self, number: int, score: str, method: Method) -> str:
        """All hits of a branch, ranked and returned at once."""
        found = f"RETURN {number} AS b, {self._collected()}, null AS fetched, null AS last"
        return f"{self._ranked(score, method)}\n{found}"

    def _nearest(self, method: Method, number: int, sought: str) -> tuple[list[str], str]:
        if method.prop not in self.label.vectors:
            raise EngineError(f'label "{self.label.name}" has no embedding of "{method.prop}"')
        name = self.label.vectors[method.prop]
        vector = f"h.{cypher.quoted(name)}"
        end = self._all(number, _cosine("v", sought), method)
        same_size = f"size(v) = size({sought})"
        if (self.label.name, name) in self.indexes.odd:
            same_size = f"CASE WHEN {has_direction('v')} THEN {same_size} ELSE false END"
        index = self.indexes.vectors.get((self.label.name, name), "")
        if not index or self.pinned or method.ranked is None:
            return [f"{self._match('')}\nWITH h, {vector} AS v WHERE {same_size}\n{end}"], ""
        own = self.of.confined(self.query, f"h.{cypher.quoted(self.graph.partition)}", "g")
        n, near = self.of.known(self.query, self.pattern, own, vector)
        kind = "node" if self.label.kind == "node" else "relationship"
        read = (
            f"WITH {cypher.ROW}, {n} WHERE {n} >= {EXACT_BELOW} AND {sought} IS NOT NULL\n"
            f"CALL db.index.vector.query{kind.title()}s({cypher.string(index)}, $f{number}, {sought}) YIELD {kind}, score\n"
            f"WITH collect([{kind}, 2 * score - 1]) AS found"
        )
        passing = " AND ".join(filter(None, (same_size, self._where)))
        exact = f"UNWIND {near} AS x WITH x[0] AS h, x[1] AS v WHERE {passing}\n{end}"
        return [exact, self._read_on(number, read, _cosine(vector, sought), method)], index

    def _fulltext_index(self, prop: str) -> str:
        """The index with a property; "" if the database lacks it and there is nothing to find."""
        names = [name for name, properties in self.label.fulltext.items() if prop in properties]
        if not names:
            raise EngineError(f'label "{self.label.name}" has no full-text index of "{prop}"')
        if names[0] in self.indexes.fulltext:
            return names[0]
        if self.label.name in self.indexes.empty:
            return ""
        over = ", ".join(self.label.fulltext[names[0]])
        raise StoreUnavailable(
            f'the database has no full-text index "{names[0]}" of {self.label.name} over {over}: '
            "drop another of that name, and run a plan that writes `schema`, such as build_indices_and_constraints"
        )

    @property
    def pinned(self) -> bool:
        """Whether `where` restricts the hits to certain keys or ends."""
        return pinned(self.own, self.label, self.graph.key)

    def _fulltext(self, index: str, number: int) -> str:
        kind = "node" if self.label.kind == "node" else "relationship"
        return (
            f"UNWIND {cypher.ROW}.m{number} AS text\n"
            f"CALL db.index.fulltext.query{kind.title()}s({cypher.string(index)}, text, $f{number}) "
            f"YIELD {kind} AS h, score AS s"
        )

    def _among_known(self, read: str, number: int, method: Method) -> str:
        """The possible hits that an index returns. It is not read if none are possible."""
        return (
            f"CALL ({cypher.ROW}) {{ {self._match('')} RETURN collect(h) AS known }}\n"
            f"WITH known WHERE size(known) > 0\n{read} WHERE h IN known\n"
            f"WITH h, sum(s) AS s WHERE s > 0\n{self._all(number, 's', method)}"
        )

    def _read_on(self, number: int, read: str, score: str, method: Method) -> str:
        """The filtered entries of an index, and their number, so that more can be read."""
        return (
            f"{read}\nCALL ({cypher.ROW}, found) {{\n"
            f"UNWIND found AS f WITH f[0] AS h, f[1] AS s WHERE {self._filter()}\n"
            f"{self._ranked(score, method)}\nRETURN {self._collected()}\n}}\n"
            f"RETURN {number} AS b, hits, size(found) AS fetched, found[-1][1] AS last"
        )

    def _match(self, test: str, prop: str | None = None) -> str:
        """Bind `h` to the rows that pass; `prop`: the property of an equality in `test`."""
        pairs = ends(self.own) if self.label.kind == "edge" else ()
        if not pairs:
            partition = None if self.query.partition is None else self.graph.partition
            hint = self.indexes.hint("h", self.label.name, prop, partition)
            if by_key(self.own, self.graph.key):
                hint = ""
            return f"MATCH {self.pattern}{hint} WHERE {self._filter(test)}"

        # A parameter names the partition: with its property, an index may tempt the planner to read
        # all of it for every row.
        value = self.conditions.value
        clauses = match_edges(self.graph, self.label, pairs, value, self.indexes)
        return f"{clauses} WHERE {self._filter(test, own='h[$own]')}"

    def _filter(self, test: str = "", own: str = "") -> str:
        own = own or f"h.{cypher.quoted(self.graph.partition)}"
        tests = (test, self.of.confined(self.query, own, cypher.ROW), self._where)
        return " AND ".join(filter(None, tests)) or "true"

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
        limit = "" if method.ranked is None else f" LIMIT {method.ranked}"
        key = f"h.{cypher.quoted(self.graph.key)}"
        return f"WITH h, {score} AS score{above}\nWITH h, score ORDER BY {', '.join([*order, key])}{limit}"

    def _value(self, name: str) -> str:
        value = cypher.held(self.graph, self.label, "h", name, self.indexes.incomplete)
        return cypher.comparable(value, cypher.type_of(self.label, name))

    def _collected(self) -> str:
        names = returned(self.graph, self.label, self.query.properties)
        values = (cypher.returned_as(self.graph, self.label, "h", name) for name in names)
        ends = (
            f"[{', '.join(cypher.returned_as(self.graph, node, _end(end), name) for name in listed)}]"
            for end, (node, listed) in end_nodes(self.graph, self.query).items()
        )
        return f"collect([score, {', '.join((*values, *ends))}]) AS hits"


def match_edges(
    graph: Graph,
    label: Label,
    pairs: Sequence[Ends],
    value: Callable[[Value], str],
    indexes: Indexes,
) -> str:
    """The clauses that bind `h` once to each edge between the pairs of known ends, or to more
    edges; a `WHERE` may follow. `value` returns the parameter or field with a value.
    """
    edge, key = f"[h:{cypher.quoted(label.name)}]", cypher.quoted(graph.key)
    hints = []

    def node(var: str, end: str, pinned: Value | None) -> str:
        if pinned is None:
            return "()"
        hints.append(indexes.hint(var, end, graph.key))
        return f"({var}:{cypher.quoted(end)} {{{key}: {value(pinned)}}})"

    both = len(pairs) == 2 and pairs[0] == pairs[1][::-1] and None not in pairs[0]
    either_way = both and label.source == label.target
    if len(pairs) == 1 or either_way:
        arrow = "-" if either_way else "->"
        path = f"{node('a', label.source, pairs[0][0])}-{edge}{arrow}{node('b', label.target, pairs[0][1])}"
        return f"MATCH {path}{''.join(hints)}"
    sources, targets = ([pair[i] for pair in pairs if pair[i] is not None] for i in (0, 1))
    path, pinned = f"({{}})-{edge}-()", [*sources, *targets]
    ends = tuple(dict.fromkeys((label.source, label.target)))
    if len(sources) == len(pairs):
        path, ends, pinned = f"({{}})-{edge}->()", (label.source,), sources
    elif len(targets) == len(pairs):
        path, ends, pinned = f"()-{edge}->({{}})", (label.target,), targets
    known = ", ".join(value(v) for v in dict.fromkeys(pinned) if v is not None)
    begun = path.format("a:" + "|".join(cypher.quoted(end) for end in ends))
    hint = indexes.hint("a", ends[0], graph.key) if len(ends) == 1 else ""
    return f"MATCH {begun}{hint} WHERE a.{key} IN [{known}] WITH DISTINCT h"
