"""Searches in Neo4j: one statement for all rows, and further ones only for rows that need more
entries of an index.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import EngineError
from semgraph.expr.functions import (
    HAN,
    HANGUL,
    HIRAGANA,
    KATAKANA,
    SOUTH_EAST,
    letters,
    overlap,
    runs,
)
from semgraph.logical.schema import Graph, Label
from semgraph.stores.base import Method, SearchQuery
from semgraph.stores.neo4j import cypher
from semgraph.stores.neo4j.bolt import Bolt, Records
from semgraph.stores.neo4j.schema import Indexes, MissingDerived
from semgraph.stores.neo4j.search_cypher import (
    Branch,
    SearchStatement,
    compile_search,
    has_direction,
)
from semgraph.stores.prepare import (
    Dimensions,
    LeftOut,
    all_partitions,
    check_length,
    column,
    end_column,
    end_nodes,
    partitions_of,
    search_schema,
    struct_array,
    without_left_out,
)

# The first read of an index takes 4 k + 50 entries; the next takes 16 times as many, or an estimate
# from the first. A full-text index sorts all its entries anyway, so it is read completely if that
# would be more than 5,000.
_FIRST, _FACTOR, _MORE, _MOST, _ALL = 50, 4, 16, 5000, 1 << 31


@dataclass
class Searches:
    """State shared by searches: compiled statements, the number of entries that each index needed,
    the labels and partitions that are large enough for their vector index, and the vector
    properties with values that cannot be compared.
    """

    bolt: Bolt
    left_out: LeftOut
    missing_derived: MissingDerived
    indexes: Indexes = field(default_factory=Indexes)
    dimensions: Dimensions = field(default_factory=dict)
    factors: dict[str, int] = field(default_factory=dict)
    large: set[tuple[str, tuple[str, ...] | None]] = field(default_factory=set)
    odd: set[tuple[str, str]] = field(default_factory=set)
    _texts: dict[Any, SearchStatement] = field(default_factory=dict)

    def opened(self, indexes: Indexes, dimensions: Dimensions, missing: MissingDerived) -> None:
        """Set the schema of the database; if it changed, drop the compiled statements."""
        indexes = replace(indexes, odd=frozenset(self.odd))
        if (missing.graph, indexes) != (self.missing_derived.graph, self.indexes):
            self._texts.clear()
            self.large.clear()
        self.indexes, self.dimensions, self.missing_derived = indexes, dimensions, missing

    async def run(
        self, graph: Graph, queries: Sequence[SearchQuery], rows: pa.Table
    ) -> list[pa.Table]:
        """The hits of each query. Raises EngineError, StoreUnavailable."""
        return await _Search(self, graph, tuple(queries), rows).run()

    def text(
        self, queries: tuple[SearchQuery, ...], lists: frozenset[str], only: frozenset[int] | None
    ) -> SearchStatement:
        """The statement for some queries, compiled once."""
        key = queries, lists, only
        if key not in self._texts:
            graph = self.missing_derived.graph
            self._texts[key] = compile_search(graph, queries, lists, self.indexes, only)
        return self._texts[key]


class _Search:
    """One search: its queries, its rows, and its hits so far."""

    def __init__(
        self, of: Searches, graph: Graph, queries: tuple[SearchQuery, ...], rows: pa.Table
    ) -> None:
        self.of, self.graph, self.missing_derived = of, graph, of.missing_derived
        self.queries, self.rows = queries, rows
        self.places = {q: place for place, q in enumerate(rows.column("_q").to_pylist())}
        self.limits: dict[int, int] = {}
        self.hits: dict[tuple[int, int, int], list[list[Any]]] = {}

    async def run(self) -> list[pa.Table]:
        columns = {query.partition for query in self.queries if query.partition is not None}
        lists = frozenset(n for n in columns if pa.types.is_list(column(self.rows, n).type))
        only: frozenset[int] | None = None
        rows = self.rows
        await self._read_missing_derived()
        while self.queries and rows.num_rows:
            text = self.of.text(self.queries, lists, only)
            try:
                records = await self.of.bolt.read(text.text, self._parameters(text, rows))
            except EngineError:
                if await self._leave_out_odd_vectors():
                    continue
                raise
            only, unfinished = self._take(text, records)
            rows = rows.filter(pc.is_in(rows.column("_q"), pa.array([*unfinished], pa.int64())))
        return [self._table(number) for number in range(len(self.queries))]

    async def _leave_out_odd_vectors(self) -> bool:
        """Leave out stored values that are no usable vectors; return whether there are any."""
        of, before = self.of, len(self.of.odd)
        for query in self.queries:
            label = self.graph.label(query.label)
            seen = all_partitions(self.rows, query.partition)
            own = None if seen is None else sorted(seen)
            for name in {label.vectors[m.prop] for m in query.methods if m.via == "nearest"}:
                value, key = f"h.{cypher.quoted(name)}", f"h.{cypher.quoted(self.graph.key)}"
                text = (
                    f"MATCH {cypher.pattern_of(label, 'h')} WHERE {value} IS NOT NULL AND NOT {has_direction(value)} "
                    f"AND ($own IS NULL OR h.{cypher.quoted(self.graph.partition)} IN $own) "
                    f"RETURN {key}, {value} ORDER BY toStringOrNull({key})"
                )
                for found, vector in await of.bolt.read(text, {"own": own}):
                    of.left_out.note(self.graph, label.name, name, vector, {self.graph.key: found})
                    of.odd.add((label.name, name))
        of.opened(of.indexes, of.dimensions, of.missing_derived)
        return len(of.odd) > before

    async def _read_missing_derived(self) -> None:
        for query in self.queries if self.missing_derived.counts and self.rows.num_rows else ():
            ends = (node.name for node, _ in end_nodes(self.graph, query).values())
            seen = all_partitions(self.rows, query.partition)
            await self.missing_derived.read([query.label, *ends], seen)

    def _method(self, branch: Branch) -> Method:
        return self.queries[branch.query].methods[branch.method]

    def _parameters(self, text: SearchStatement, rows: pa.Table) -> dict[str, Any]:
        columns = {name: cypher.sent_column(rows, path) for path, name in text.partitions.items()}
        vectors: dict[tuple[float, ...], int] = {}
        parameters: dict[str, Any] = {**text.bound.constants, "own": self.graph.partition}
        for branch in text.branches:
            columns |= self._columns(branch, rows, vectors)
            parameters[f"f{branch.number}"] = self._limit(branch)
        parameters |= self.missing_derived.parameters(text.text)
        groups: dict[str, dict[str, Any]] = {}
        for row in cypher.fields(rows, text.bound.values, columns):
            partition = {name: row[name] for name in text.partitions.values()}
            if repr(partition) not in groups:
                groups[repr(partition)] = {**partition, **self._large(text, row["_q"]), "rows": []}
            groups[repr(partition)]["rows"].append(row)
        lists = {"groups": list(groups.values()), "vectors": list(map(list, vectors))}
        return parameters | {cypher.LISTS: lists}

    def _columns(
        self, branch: Branch, rows: pa.Table, vectors: dict[tuple[float, ...], int]
    ) -> dict[str, list[Any]]:
        """What each row searches for in a branch; vectors, most of the sent data, are sent
        once, by their number.
        """
        method, label = self._method(branch), self.queries[branch.query].label
        if method.via == "order":
            return {}
        sought = self._sought(branch, rows)
        if method.via == "nearest":
            new = (
                None if v is None else vectors.setdefault(tuple(v), len(vectors)) for v in sought
            )
            return {f"m{branch.number}": list(new)}
        columns = {f"m{branch.number}": sought}
        if method.via == "equal" and (label, method.prop) in self.missing_derived.counts:
            holders = self.missing_derived.holders
            columns[f"u{branch.number}"] = [holders(label, method.prop, value) for value in sought]
        return columns

    def _limit(self, branch: Branch) -> Any:
        """The number of entries that a branch reads, as its index takes it."""
        method = self._method(branch)
        if branch.index and branch.number not in self.limits:
            factor = max(_FACTOR, self.of.factors.get(branch.index, 0))
            every = branch.whole or method.ranked is None
            self.limits[branch.number] = _ALL if every else factor * (method.ranked or 0) + _FIRST
        limit = self.limits.get(branch.number, _ALL)
        if method.via == "nearest":
            return limit
        return {"limit": limit} if limit <= _MOST else {}

    def _large(self, text: SearchStatement, q: int) -> dict[str, bool]:
        """Whether the partition of a row is known to be large, for each label that is read."""
        return {
            f"l{i}": (label, self._partitions(path, q)) in self.of.large
            for i, (label, path) in enumerate(text.near)
        }

    def _partitions(self, path: str | None, q: int) -> tuple[str, ...] | None:
        return None if path is None else partitions_of(self.rows.slice(self.places[q], 1), path)[0]

    def _sought(self, branch: Branch, rows: pa.Table) -> list[Any]:
        query, method = self.queries[branch.query], self._method(branch)
        label = self.graph.label(query.label)
        if method.via == "equal":
            return cypher.sent_column(rows, method.column)
        values: Any = column(rows, method.column)
        if method.via == "nearest":
            name = label.vectors[method.prop]
            stored = self.of.dimensions.get((label.name, name))
            size = getattr(values.type, "list_size", None)
            check_length(self.of.bolt.uri, label.name, name, stored, size)
            return [vector if vector and any(vector) else None for vector in values.to_pylist()]
        if not branch.index:  # a label without rows
            return [None] * rows.num_rows
        own = self.graph.partition if self.of.indexes.fulltext[branch.index][1] else ""
        by, properties = query.partition, label.fulltext[branch.index]
        confined = [None] * rows.num_rows if by is None else partitions_of(rows, by)
        pairs = zip(values.to_pylist(), confined, strict=True)
        texts = [lucene_queries(text, properties, own, parts) for text, parts in pairs]
        # The scores of parts are summed, so all entries of each are needed.
        if any(len(parts) > 1 for parts in texts):
            self.limits[branch.number] = _ALL
        return texts

    def _take(self, text: SearchStatement, records: Records) -> tuple[frozenset[int], set[int]]:
        """Keep the hits. Returns the branches that must read further, and for which rows."""
        branches = {branch.number: branch for branch in text.branches}
        fresh: dict[tuple[int, int, int], list[list[Any]]] = {}
        further: dict[int, int] = {}
        unfinished: set[int] = set()
        for q, number, hits, fetched, last in records:
            branch, limit = branches[number], self.limits.get(number, _ALL)
            method = self._method(branch)
            fresh.setdefault((branch.query, q, branch.method), []).extend(hits)
            if method.via == "nearest" and fetched is not None:
                query = self.queries[branch.query]
                self.of.large.add((query.label, self._partitions(query.partition, q)))
            if fetched is not None and not _enough(method, hits, fetched, last, limit):
                more = math.ceil(2 * (method.ranked or 1) * fetched / max(len(hits), 1))
                further[number] = max(further.get(number, 0), _MORE * limit, more)
                unfinished.add(q)
        self.hits |= fresh
        self.limits |= further
        for number, limit in further.items():
            index, k = branches[number].index, self._method(branches[number]).ranked or 1
            self.of.factors[index] = max(self.of.factors.get(index, 0), limit // k)
        return frozenset(further), unfinished

    def _table(self, number: int) -> pa.Table:
        query = self.queries[number]
        label = self.graph.label(query.label)
        schema = search_schema(self.graph, query, self.of.dimensions)
        ranked: list[tuple[Any, ...]] = []
        for of, q, number_of_method in sorted(key for key in self.hits if key[0] == number):
            method = query.methods[number_of_method]
            hits = self._ranked(method, q, self.hits[of, q, number_of_method], label, schema.names)
            numbered = enumerate(hits)
            ranked += ((q, method.via, number_of_method, rank, *hit) for rank, hit in numbered)
        columns = list(zip(*ranked, strict=True)) or [()] * len(schema)
        ends = {end_column(end): node for end, (node, _) in end_nodes(self.graph, query).items()}
        own = len(schema) - len(ends)
        arrays: list[Any] = [
            pa.array(values, kind.type)
            for values, kind in zip(columns[:5], list(schema)[:5], strict=True)
        ]
        rows, left_out = [row[5:own] for row in ranked], self.of.left_out
        arrays += cypher.columns_of(left_out, self.graph, label, list(schema)[5:own], rows)
        for values, kind in zip(columns[own:], list(schema)[own:], strict=True):
            parts = cypher.columns_of(left_out, self.graph, ends[kind.name], kind.type, values)
            arrays.append(struct_array(parts, kind.type))
        return without_left_out(pa.table(arrays, schema=schema), [self.graph.key])

    def _ranked(
        self, method: Method, q: int, hits: list[list[Any]], label: Label, names: Sequence[str]
    ) -> list[list[Any]]:
        """The hits of a row, ranked by their method; they lack the first four columns."""
        if method.rank == "store":
            return hits
        props = next(props for props in label.fulltext.values() if method.prop in props)
        texts = [names.index(name) - 4 for name in props]
        sought = column(self.rows, method.column)[self.places[q]].as_py()
        scored = [
            [overlap(sought, " ".join(hit[i] for i in texts if isinstance(hit[i], str))), *hit[1:]]
            for hit in hits
        ]
        return sorted(scored, key=lambda hit: (-hit[0], hit[1]))[: method.k]


def _enough(
    method: Method, hits: Sequence[Sequence[Any]], fetched: int, last: float | None, limit: int
) -> bool:
    """Whether no unread entry can be among the hits."""
    if fetched < limit or last is None:
        return True
    if method.via == "nearest":
        return len(hits) >= (method.ranked or 0) or last <= method.above
    return len(hits) >= (method.ranked or 0) and hits[-1][0] > last


# Full text in Lucene's syntax: everything is quoted, so that no text is read as syntax.

MOST_CLAUSES = 1000
_MOST_PARTITIONS = 20
_PLAIN = re.compile(r"[A-Za-z0-9_-]*[A-Za-z0-9][A-Za-z0-9_-]*\Z")


def lucene_queries(
    text: str | None, properties: Sequence[str], partition: str, values: Sequence[str] | None
) -> list[str]:
    """Queries with scores that sum to the score of all words, split as by Lucene's standard
    analyser. Any word in any of the properties makes a hit. `partition` is the partition property
    if it is in the index, else "". The index analyses its values as text, so confining hits to them
    only saves reading: the exact test follows.

    >>> lucene_queries('who "AND', ["name"], "group_id", ["g1"])
    ['+(group_id:"g1"^0) +(name:"who" name:"AND" name:"\uff57\uff48\uff4f" name:"\uff21\uff2e\uff24")']
    """
    words = list({w.lower() if w.isascii() else w: w for w in _words(text or "")}.values())
    at_once = max(1, MOST_CLAUSES // len(properties))
    few = partition and values and len(values) <= _MOST_PARTITIONS
    few = few and all(map(_PLAIN.match, values or ()))
    own = " ".join(f"{partition}:{_phrase(value)}^0" for value in values or ())
    prefix = f"+({own}) " if few else ""
    return [
        f"{prefix}+({' '.join(f'{name}:{word}' for word in words[i : i + at_once] for name in properties)})"
        for i in range(0, len(words), at_once)
    ]


# A sequence without blanks or other signs that always split words.
_BLANKS = re.compile(
    r"[^\s!#$%&()*+\-/<=>?@\[\\\]^`{|}~\u2010-\u2015\u3000-\u3003\u3008-\u301f\uff01-\uff06\uff08-\uff0b\uff0d\uff0f]+"
)
_ENDS = "'\".,:;\u2019\u2026\uff07\uff0c\uff0e\uff1a\uff1b"
# The analyser's tokens of scripts without blanks.
_TOKEN = re.compile(f"[{HAN}{HIRAGANA}]|[{KATAKANA}]+|[^{HAN}{HIRAGANA}{KATAKANA}]+")
# The analyser keeps these in one token, although words in it have no blanks between them.
_WHOLE = re.compile(f"[{HANGUL}{KATAKANA}{SOUTH_EAST}]")
_EAST = re.compile(f"[{SOUTH_EAST}]")
# Maximum sizes: characters of a token; letters of a word that is searched within a token, and such
# words of a text; characters of a text that is also searched in full width, and of a possible name.
_LONGEST, _INNER, _PARTS, _SHORT, _NAME = 255, 16, 3_000, 1_000, 64
_WIDTHS = {ord(unicodedata.normalize("NFKD", chr(n))[0]): chr(n) for n in range(0xFF01, 0xFFBF)}
_COMPOSED = {"\u0e4d\u0e32": "\u0e33", "\u0ecd\u0eb2": "\u0eb3", "\u0565\u0582": "\u0587"}
# Common Thai, Lao and Armenian letters that NFKC splits.
_DECOMPOSED = re.compile("|".join(_COMPOSED))


def _words(text: str) -> Iterator[str]:
    """The words of a text and of its other Unicode forms, as a query names them: the analyser
    changes neither accents nor widths. A sign within a word, as in O'Brien, may or may not split
    it, so both forms are searched.
    """
    forms = [text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD"))]
    if len(text) <= _SHORT:
        forms += [form.translate(_WIDTHS) for form in forms[-2:]]
    forms.append(_DECOMPOSED.sub(lambda match: _COMPOSED[match[0]], text))
    for form in dict.fromkeys(forms):
        for piece in _BLANKS.findall(form):
            tokens = [token for run in runs(piece) for token in _TOKEN.findall(run)]
            for token in tokens:
                yield _phrase(token)
                if _WHOLE.search(token):
                    yield from _within(token, len(text))
            if tokens and len(piece := piece.strip(_ENDS)) <= _LONGEST:
                yield _phrase(piece)


def _within(token: str, size: int) -> Iterator[str]:
    """The words that may be inside a token of a text of `size` characters, and the tokens that
    begin with it. For a short text in a South-East Asian script also the tokens that contain it,
    which reads all tokens of the index.
    """
    listed, most = letters(token), min(_INNER, _PARTS // size)
    for start in range(len(listed)):
        for end in range(start + 2, min(start + most, len(listed)) + 1):
            yield _phrase("".join(listed[start:end]))
    if 1 < len(listed) <= _INNER:
        yield f"*{token}*" if size <= _NAME and _EAST.search(token) else f"{token}*"


def _phrase(word: str) -> str:
    """A word in quotes; only the quote and the backslash are special inside."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
