"""Searches in SQLite. Each method first ranks ids of rows; then the returned columns of the hits
are read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, groupby, islice
from operator import itemgetter
from sqlite3 import Connection
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from semgraph.expr import Type
from semgraph.stores.base import Method, SearchQuery
from semgraph.stores.conditions import Prop, of_hit, pinned
from semgraph.stores.conditions import read as read_condition
from semgraph.stores.cosine import Block, Candidates, Int8Block, candidates, exact, lengths
from semgraph.stores.prepare import (
    aliases,
    column,
    end_column,
    end_nodes,
    returned,
    search_schema,
    vectors_of,
    without_left_out,
)
from semgraph.stores.sqlite.fulltext import FullText
from semgraph.stores.sqlite.rows import RankedHit, RequestRows, SearchScope, StoredRows
from semgraph.stores.sqlite.schema import ID, Tables, decode_vectors, quote
from semgraph.stores.sqlite.vectors import Caches, VectorCache, read_vectors

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]
    Queries = dict[int, Floats]

_AT_ONCE = 8_192  # stored vectors that are read at a time
# Ordinal of a row, id of a hit, cosine; best first within a row, ties by key.
Ranked = list[tuple[int, int, float]]


@dataclass(frozen=True)
class Nearest:
    """Hits by the cosine of their embedding. If conditions leave few hits, only those that pass are
    compared. Otherwise the nearest come first, and more are read while fewer than k pass.
    """

    scope: SearchScope
    method: Method

    @property
    def embedding(self) -> str:
        """The vector property."""
        return self.scope.table.label.vectors[self.method.prop]

    @cached_property
    def name(self) -> str:
        """The table of the vectors."""
        return self.scope.table.vectors(self.embedding)

    @cached_property
    def queries(self) -> tuple[list[int], Floats]:
        """The numbers of the rows that have a vector with a direction, and these vectors."""
        import numpy as np

        name = self.method.column
        vectors = vectors_of(column(self.scope.request.rows, name), f'column "{name}" of the rows')
        usable = (lengths(vectors.numbers) > 0).tolist()
        rows = [n for n, ok in enumerate(vectors.spread(usable)) if ok]
        return rows, vectors.numbers[usable].astype(np.float64)

    @property
    def size(self) -> int | None:
        """Length of the rows' vectors; None if no row has one."""
        rows, numbers = self.queries
        return numbers.shape[1] if rows else None

    def hits(self, con: Connection, caches: Caches) -> Iterator[RankedHit]:
        """The hits, ties by key."""
        rows, numbers = self.queries
        queries = {self.scope.request.ordinals[row]: numbers[n] for n, row in enumerate(rows)}
        ranked = self._of_passing if self.scope.pinned else self._of_nearest
        hits_of = ranked(con, caches.vectors, queries)
        self._note_left_out(con, caches.vectors.odd.pop(self.name, set()))
        for q, hits in groupby(hits_of, itemgetter(0)):
            for rank, (_, row, score) in enumerate(islice(hits, self.method.k)):
                yield RankedHit(q, rank, score, row)

    def _note_left_out(self, con: Connection, rows: set[int]) -> None:
        table = self.scope.table
        sql = (
            f"SELECT t.{table.key}, v.vector FROM {table.name} t JOIN {quote(self.name)} v USING ({ID}) "
            f"WHERE t.{ID} IN (SELECT value FROM json_each(?)) ORDER BY 1"
        )
        for key, vector in con.execute(sql, (str(sorted(rows)),)) if rows else ():
            decoded = decode_vectors([vector], len(vector) // 4).to_pylist()[0]
            row = {table.graph.key: key}
            table.left_out.note(table.graph, table.label.name, self.embedding, decoded, row)

    def _of_nearest(self, con: Connection, cache: VectorCache, queries: Queries) -> Ranked:
        groups: dict[tuple[str, ...] | None, Queries] = {}
        for row, q in enumerate(self.scope.request.ordinals):
            if q in queries:
                groups.setdefault(self.scope.seen(row), {})[q] = queries[q]
        hits: Ranked = []
        for partitions, queries_of in groups.items():
            blocks = cache.blocks(con, self.name, partitions, self.size or 1)
            best, unsure = self._best(con, blocks, queries_of)
            hits += best
            if unsure:
                hits += self._of_passing(con, cache, unsure)
        return hits

    def _best(
        self, con: Connection, blocks: list[Block], queries: Queries
    ) -> tuple[Ranked, Queries]:
        """The best passing hits of rows with the same partitions, and the queries with too few."""
        import numpy as np

        k, total = self.method.k, sum(block.count for block in blocks)
        wanted = max(4 * k, 64) if k is not None and self.scope.where else k
        best: Ranked = []
        while queries and (wanted is None or wanted <= max(total // 8, k or 0, 64)):
            asked = np.stack([*queries.values()])
            chosen = candidates(blocks, asked, self.method.above, wanted)
            ranked: Ranked = []
            for (q, query), candidates_of in zip(queries.items(), chosen, strict=True):
                hits = self.scope.ranked(con, self._compared(con, blocks, candidates_of, query))
                ranked += ((q, row, score) for score, row in hits)
            if self.scope.where:
                ranked = self.scope.passing(con, ranked, confined=False)
            passed = {q: list(hits) for q, hits in groupby(ranked, itemgetter(0))}
            for q, candidates_of in zip([*queries], chosen, strict=True):
                sure = [hit for hit in passed.get(q, ()) if hit[2] >= candidates_of.floor]
                if k is None or len(sure) >= k or candidates_of.floor <= self.method.above:
                    best += passed.get(q, ())
                    queries = {other: query for other, query in queries.items() if other != q}
            wanted = wanted and wanted * 8
        return best, queries

    def _compared(
        self, con: Connection, blocks: Sequence[Block], chosen: Candidates, query: Floats
    ) -> list[tuple[float, int]]:
        compared: list[tuple[float, int]] = []
        for i in sorted(set(chosen.block.tolist())):
            ids = blocks[i].ids[chosen.places[chosen.block == i]]
            for some, block in self._stored(con, blocks[i], ids):
                compared += self._above(block, some, query)
        return compared

    def _above(self, block: Block, ids: Ints, query: Floats) -> Iterator[tuple[float, int]]:
        """Scores above the threshold of the rows of a block, with their ids."""
        places = block.places(ids.tolist())
        ids, scores = ids[places >= 0], exact(block, places[places >= 0], query)
        above = scores > self.method.above
        return zip(scores[above].tolist(), ids[above].tolist(), strict=True)

    def _stored(self, con: Connection, block: Block, ids: Ints) -> Iterator[tuple[Ints, Block]]:
        """Some rows of a block, in pieces, with their stored vectors."""
        if not isinstance(block, Int8Block):
            yield ids, block
            return
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            yield some, read_vectors(con, self.name, some, block.size)

    def _of_passing(self, con: Connection, cache: VectorCache, queries: Queries) -> Ranked:
        import numpy as np

        scored: list[tuple[int, float, str, int]] = []
        for partition, pairs in groupby(self.scope.all_passing(con, [*queries]), itemgetter(0)):
            of_rows: dict[int, dict[int, str]] = {}  # keys by ordinal and id
            for _, q, row, key in pairs:
                of_rows.setdefault(q, {})[row] = key
            rows = np.array(sorted(set(chain.from_iterable(of_rows.values()))), np.int64)
            [whole] = cache.blocks(con, self.name, (partition,), self.size or 1) or [Block(1)]
            for _, block in self._stored(con, whole, rows):
                for q, keys in of_rows.items():
                    above = self._above(block, np.array([*keys], np.int64), queries[q])
                    scored += ((q, -score, keys[row], row) for score, row in above)
        return [(q, row, -score) for q, score, _, row in sorted(scored)]


class Equal:
    """Hits with the row's value in a property: one statement for all rows."""

    def __init__(self, scope: SearchScope, method: Method) -> None:
        self.scope, self.method = scope, method
        self.value = scope.request.path(method.column, scope.table.type_of(method.prop))

    def hits(self, con: Connection, _: Caches) -> Iterator[RankedHit]:
        """The hits, by key."""
        scope, key, k = self.scope, self.scope.table.key, self.method.k
        own = scope.joined(f"t.{quote(self.method.prop)} = {self.value}")
        number = f"row_number() OVER (PARTITION BY r.q ORDER BY t.{key}) - 1 AS n"
        sql = f"SELECT r.q AS q, {number}, t.{ID} AS id {own}"
        most = (2**62 if k is None else k,)
        for q, n, row in con.execute(f"SELECT * FROM ({sql}) WHERE n < ? ORDER BY q, n", most):
            yield RankedHit(q, n, 1.0, row)


@dataclass(frozen=True)
class InOrder:
    """Hits in the order of the search."""

    scope: SearchScope
    method: Method
    by: Sequence[tuple[str, bool]]

    def hits(self, con: Connection, _: Caches) -> Iterator[RankedHit]:
        """The hits, NULLs last, ties by key. One statement for each row lets an index stop at k."""
        scope, table = self.scope, self.scope.table
        by = (f"t.{quote(name)} {'DESC' if down else 'ASC'} NULLS LAST" for name, down in self.by)
        order = ", ".join([*by, f"t.{table.key}"])
        rows = f"temp.{scope.request.table} r CROSS JOIN " if scope.where else ""
        for row, q in enumerate(scope.request.ordinals):
            if scope.seen(row) == ():
                continue
            confined, values = scope.confined(row)
            tests = [confined, *scope.where, *(["r.q = ?"] * bool(scope.where))]
            k = -1 if self.method.k is None else self.method.k
            bound = (*values, *([q] * bool(scope.where)), k)
            sql = f"SELECT t.{ID} FROM {rows}{table.name} t WHERE {' AND '.join(tests)} ORDER BY {order} LIMIT ?"
            for rank, (found,) in enumerate(con.execute(sql, bound)):
                yield RankedHit(q, rank, 1.0, found)


# One method of a search, prepared for its rows. Its hits are row by row, best first, at most k.
Ranker = Nearest | Equal | InOrder | FullText


class PreparedSearch:
    """One search, prepared for its rows; the request collects the columns that it needs."""

    def __init__(self, tables: Tables, query: SearchQuery, request: RequestRows) -> None:
        self.table, self.query = tables[query.label], query
        table = self.table
        self.ends = {
            end: (tables[node.name], names)
            for end, (node, names) in end_nodes(table.graph, query).items()
        }
        self.named = {name: end for end, name, _ in query.ends}
        self.names = list(returned(table.graph, table.label, query.properties))
        where = request.conjuncts(query.where, aliases(query), self._prop)
        by = query.partition
        partitions = request.partitions(by) if by is not None else None
        parts = request.parts(by) if by is not None else ""
        self.scope = SearchScope(table, request, tuple(where), partitions, parts, self._is_pinned())
        self.methods = [self._prepare(method) for method in query.methods]

    @property
    def nearest(self) -> list[Nearest]:
        """The methods that compare vectors."""
        return [method for method in self.methods if isinstance(method, Nearest)]

    @property
    def reads_rows(self) -> bool:
        """Whether it needs the rows in SQL."""
        several = any(len(seen) > 1 for seen in self.scope.partitions or ())
        equal = any(isinstance(method, Equal) for method in self.methods)
        return bool(self.scope.where) or several or equal

    def _prop(self, prop: Prop) -> tuple[str, Type]:
        if prop.var in self.named:
            end = self.named[prop.var]
            node = self.ends[end][0]
            text = f"(SELECT {node.stored(prop.name, 'n')} FROM {node.name} n WHERE n.{node.key} = t.{end})"
            return text, node.type_of(prop.name)
        return self.table.stored(prop.name), self.table.type_of(prop.name)

    def _prepare(self, method: Method) -> Ranker:
        if method.via == "equal":
            return Equal(self.scope, method)
        if method.via == "order":
            return InOrder(self.scope, method, self.query.order)
        return (FullText if method.via == "fulltext" else Nearest)(self.scope, method)

    def _is_pinned(self) -> bool:
        read_of = (read_condition(scalar, aliases(self.query)) for scalar in self.query.where)
        terms = of_hit([term for term in read_of if term is not None], self.query.alias)
        return pinned(terms, self.table.label, self.table.graph.key)

    def run(self, read: StoredRows, caches: Caches) -> pa.Table:
        """The hits of all rows and methods, after `request.load` if it reads the rows."""
        hits: list[tuple[Any, ...]] = []
        for n, method in enumerate(self.methods):
            hits += ((hit.q, n, *hit[1:]) for hit in method.hits(read.con, caches))
        hits.sort(key=itemgetter(0, 1, 2))
        schema = search_schema(self.table.graph, self.query, read.dimensions)
        q, numbers, rank, score, ids = zip(*hits, strict=True) if hits else ((), (), (), (), ())
        ranking = (q, [self.query.methods[n].via for n in numbers], numbers, rank, score)
        ranked = [pa.array(values, schema.field(n).type) for n, values in enumerate(ranking)]
        columns = read.by_id(self.table, self.names, ids)
        for end, (node, names) in self.ends.items():
            keys = columns[self.names.index(end)].to_pylist()
            columns.append(read.nodes(node, names, keys, schema.field(end_column(end)).type))
        hits_of = pa.Table.from_arrays([*ranked, *columns], schema=schema)
        return without_left_out(hits_of, [self.table.graph.key])
