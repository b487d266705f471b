"""The rest of a search, over hits of the store and rows of a step: both are ranked by each method,
fused and cut to k, as tuples in Python. DuckDB evaluates conditions and orders, and cosines.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from semgraph.expr.duckdb import ORDINAL, type_of
from semgraph.expr.functions import overlap
from semgraph.expr.row_functions import ordered
from semgraph.expr.scalar import PAIRS, Scalar
from semgraph.logical.semantic import VECTOR
from semgraph.physical.search_spec import SearchInput, joined_texts, step_texts
from semgraph.physical.shortlist import Pair, equal_values, shortlist
from semgraph.physical.vectors import EmbedTextsOf, of_one_size, vectors_of
from semgraph.relational.batch import PARTITION, Batch, Row, runtime_schema, values
from semgraph.relational.segments import column_of, execute
from semgraph.stores.prepare import end_column

MANY = 4_096  # above this number of pairs of row and step row, a shortlist spares most of them
_COSINES = (
    f"SELECT CAST(array_cosine_similarity(a, b) AS DOUBLE) AS x FROM {PAIRS} ORDER BY {ORDINAL}"
)
_COSINE_SCHEMA = pa.schema([("x", pa.float64())])


class _Hit(NamedTuple):
    """A hit of one method for row `q`. Its `place` is among the hits of the store, or -1 - n for row
    n of the step.
    """

    q: int
    method: int
    score: float
    key: Any
    place: int


class _Result(NamedTuple):
    """A hit of the result. `first` is the least `rank * 100 + method` of the methods that found it."""

    q: int
    rank: int
    score: float
    first: int
    place: int


class RowSearch:
    """One search. The hits are those of the store; None: it was not queried."""

    def __init__(self, search: SearchInput, embed: EmbedTextsOf, now: datetime | None) -> None:
        self.search, self.spec, self.node = search, search.spec, search.spec.node
        self.left, self.within, self.embed, self.now = search.left, search.within, embed, now
        self.hits: Batch | None = None
        self._step_hits: list[_Hit] | None = None
        self._vectors_of: dict[int, Any] = {}
        self._structs: dict[int, dict[str, Any]] = {}
        self._indices: dict[bool, list[int]] = {}  # of a hit's fields, by whether it is stored
        self._width, self._ends = len(self.node.input.schema), self.node.ends

    async def result(self, hits: Batch | None) -> tuple[Batch, list[int]]:
        """The result over hits of the store, and for each result row the row to which it belongs."""
        self.hits, self._structs, self._indices = hits, {}, {}
        if self._step_hits is None:
            self._step_hits = await self._found_in_step()
        return await self._best([*await self._stored_hits(), *self._step_hits])

    async def _column(
        self, scalar: Scalar, hits: Sequence[tuple[int, int]], kind: pa.DataType
    ) -> list[Any]:
        """A scalar over rows with unranked hits, each by the index of the row and the hit's place."""
        rows = [self._with_hit(self.left.rows[q], self._struct(n), n) for q, n in hits]
        joined = Batch.of_tuples(rows, runtime_schema(self.node))
        return (await column_of(scalar, self.node, joined, self.now, kind)).column("x")

    # -- hits

    def _scopes(self, batch: Batch) -> Sequence[Any]:
        """A value for each row: a row may find the rows of the step with an equal value."""
        if self.node.by_window:
            return batch.column(PARTITION)
        if self.node.by_owner:
            return [name or "" for name in batch.column(self.node.graph.partition)]
        return [None] * batch.num_rows

    async def _stored_hits(self) -> list[_Hit]:
        if self.hits is None:
            return []
        names = ("_q", "method", "score", self.node.graph.key)
        columns = zip(*map(self.hits.column, names), range(self.hits.num_rows), strict=True)
        hits = self._without_step([_Hit(*hit) for hit in columns])
        if any(by.rank == "overlap" for by in self.node.methods):
            hits = [hit for hit in hits if hit.score > 0]
        for test in self.spec.residual if hits else ():
            passes = await self._column(test, [(hit.q, hit.place) for hit in hits], pa.bool_())
            hits = list(compress(hits, passes))
        return hits

    def _without_step(self, hits: list[_Hit]) -> list[_Hit]:
        """The stored hits without hits that a row of the step with the same key replaces."""
        if self.within is None or not self.within.num_rows:
            return hits
        keys: dict[Any, set[str]] = defaultdict(set)
        step_keys = self.within.column(self.node.hit_key)
        for scope, key in zip(self._scopes(self.within), step_keys, strict=True):
            keys[scope].add(key)
        own = [keys.get(scope, ()) for scope in self._scopes(self.left)]
        return [hit for hit in hits if hit.key not in own[hit.q]]

    async def _found_in_step(self) -> list[_Hit]:
        """The hits among the rows of the step."""
        if self.within is None or not self.within.num_rows:
            return []
        step_rows: dict[Any, list[int]] = defaultdict(list)
        for n, scope in enumerate(self._scopes(self.within)):
            step_rows[scope].append(n)
        near = [step_rows.get(scope, ()) for scope in self._scopes(self.left)]
        if sum(map(len, near)) > MANY:
            pairs = await self._shortlist()
        else:
            all_pairs = [(q, n) for q, places in enumerate(near) for n in places]
            if self.node.where is not None and all_pairs:
                places = [(q, -1 - n) for q, n in all_pairs]
                passes = await self._column(self.node.where, places, pa.bool_())
                all_pairs = list(compress(all_pairs, passes))
            pairs = [all_pairs] * max(1, len(self.node.methods))
        for name, text in self.spec.step_vectors.items() if any(pairs) else ():
            vectors = (await self._embedded(name, text)).cast(VECTOR)
            self.within = Batch.of_table(self.within.table.append_column(name, vectors))
            self._structs, self._indices = {}, {}
        keys = self.within.column(self.node.hit_key)
        hits = []
        for method, own in enumerate(pairs):
            scores, least = await self._scores(method, own) if own else ([], 0.0)
            hits += [
                _Hit(q, method, score, keys[n], -1 - n)
                for (q, n), score in zip(own, scores, strict=True)
                if score is not None and score > least  # a zero vector gives NaN: no hit
            ]
        return hits

    async def _shortlist(self) -> list[list[Pair]]:
        """For each method pairs of row and step row that include its best."""
        nearest = (n for n, by in enumerate(self.node.methods) if by.via == "nearest")
        vectors = {method: await self._vectors(method) for method in nearest}
        return await shortlist(self.search, vectors, self.now)

    async def _vectors(self, method: int) -> Any:
        """The vectors of the step's rows for a method; they are fetched once."""
        if method not in self._vectors_of:
            prop = self.node.methods[method].prop
            self._vectors_of[method] = await self._embedded(f"vector of {prop}", prop)
        return self._vectors_of[method]

    async def _embedded(self, name: str, column: str) -> Any:
        """The vectors of the texts in a column of the step's rows."""
        rows, owner = self.within, self.node.graph.partition
        assert rows is not None
        return await vectors_of(rows, name, rows.column(column), self.embed, owner)

    async def _scores(
        self, method: int, pairs: Sequence[Pair]
    ) -> tuple[Sequence[float | None], float]:
        """The score of each pair, and the greatest that is no hit."""
        if not self.node.methods:
            return [1.0] * len(pairs), 0.0
        by, wanted = self.node.methods[method], self.search.values[method]
        assert self.within is not None
        if by.via == "nearest":
            return await _cosines(wanted, await self._vectors(method), pairs), by.above
        if by.via == "equal":
            mine, others = equal_values(self.search, method)
            return [float(mine[q] is not None and mine[q] == others[n]) for q, n in pairs], 0.0
        sought = values(wanted)
        columns = list(map(self.within.column, step_texts(self.spec, method)))
        texts = joined_texts(columns, self.within.num_rows)
        return [overlap(sought[q] or "", texts[n]) for q, n in pairs], 0.0

    # -- the best of them

    async def _best(self, hits: list[_Hit]) -> tuple[Batch, list[int]]:
        """The k best hits of each row, and for each result row the row to which it belongs."""
        counts: dict[Pair, int] = defaultdict(int)
        best = []
        for hit in await self._in_order(hits):
            rank = counts[hit.q, hit.method]
            counts[hit.q, hit.method] += 1
            if rank < self.node.k:
                best.append((hit, rank))
        once = self.node.methods and self.node.fuse == "rrf"
        of_row: dict[int, list[_Result]] = defaultdict(list)
        for result in _once(best, self.node.k, fused=self.node.fused) if once else _unfused(best):
            of_row[result.q].append(result)
        rows, result_of = list[Row](), list[int]()
        for q, row in enumerate(self.left.rows):
            own = [self._row(row, result) for result in of_row[q]]
            if not own and self.node.how == "left":
                own = [self._with_hit(row, None, None)]
            rows += own
            result_of += [q] * len(own)
        return Batch.of_tuples(rows, runtime_schema(self.node)), result_of

    async def _in_order(self, hits: list[_Hit]) -> list[_Hit]:
        """Hits in the order of each method; ties by key."""
        if self.node.methods:
            return sorted(hits, key=lambda h: (h.q, h.method, _falling(h.score), *_rising(h.key)))
        hits = sorted(hits, key=lambda hit: _rising(hit.key))
        for term in reversed(self.node.order):
            kind = type_of(term.by, self.node.schema)
            column = await self._column(term.by, [(hit.q, hit.place) for hit in hits], kind)
            pairs = list(zip(column, hits, strict=True))
            known = [(_sortable(value), hit) for value, hit in pairs if value is not None]
            known.sort(key=itemgetter(0), reverse=term.descending)
            hits = [hit for _, hit in known] + [hit for value, hit in pairs if value is None]
        return sorted(hits, key=itemgetter(0))

    # -- as rows

    def _struct(self, place: int) -> dict[str, Any]:
        """The fields of a hit, without its rank. Fields of the other side are NULL."""
        struct = self._structs.get(place)
        if struct is None:
            side, n = (self.hits, place) if place >= 0 else (self.within, -1 - place)
            assert side is not None
            row, fields, indices = side.rows[n], self.spec.fields, self._indices
            if (place >= 0) not in indices:
                indices[place >= 0] = [side.schema.get_field_index(name) for name in fields]
            named = zip(fields, indices[place >= 0], strict=True)
            struct = {name: None if i < 0 else row[i] for name, i in named}
            self._structs[place] = struct
        return struct

    def _row(self, row: Row, result: _Result) -> Row:
        via = self.node.methods[result.first % 100].via if self.node.methods else "order"
        ranking = {"rank": result.rank, "score": result.score, "via": via}
        hit = self._struct(result.place) | {name: ranking[name] for name in self.spec.ranking}
        return self._with_hit(row, hit, result.place)

    def _with_hit(self, row: Row, hit: dict[str, Any] | None, place: int | None) -> Row:
        ends = [self._end(end, kind, place) for end, kind in self._ends.items()]
        return (*row[: self._width], hit, *ends, *row[self._width :])

    def _end(self, end: str, kind: pa.StructType, place: int | None) -> dict[str, Any] | None:
        if place is None or self.hits is None:
            return None
        node = self.hits.rows[place][self.hits.schema.get_field_index(end_column(end))]
        return None if node is None else {field.name: node[field.name] for field in kind}


def _rising(key: Any) -> tuple[bool, Any]:
    return (True, "") if key is None else (False, key)


def _falling(score: float) -> float:
    """A score for sorting, the greatest first; NaN is the greatest."""
    return -math.inf if math.isnan(score) else -score


def _sortable(value: Any) -> Any:
    """A value for sorting as DuckDB sorts: NULL in a list or struct is above all values."""
    parts = list(value.values()) if isinstance(value, Mapping) else value
    if isinstance(parts, list):
        return [(part is None, part if part is None else _sortable(part)) for part in parts]
    return ordered(value)


def _once(best: Sequence[tuple[_Hit, int]], k: int, *, fused: bool) -> list[_Result]:
    """Each hit once, at most k per row, by the sum of 1 / (rank + 1), or of one method by score."""
    scores: dict[tuple[int, Any], float] = defaultdict(float)
    firsts: dict[tuple[int, Any], Pair] = {}
    for hit, rank in best:
        at, first = (hit.q, hit.key), (rank * 100 + hit.method, hit.place)
        if fused:
            scores[at] += 1.0 / (rank + 1)
        else:
            scores[at] = max(scores.get(at, hit.score), hit.score, key=ordered)
        firsts[at] = min(firsts.get(at, first), first)
    if fused:  # rounded to 12 digits, half up, as DuckDB rounds
        scores |= {hit: math.floor(score * 1e12 + 0.5) / 1e12 for hit, score in scores.items()}
    found = sorted((own[0], _falling(score), *firsts[own], score) for own, score in scores.items())
    ranks: dict[int, int] = defaultdict(int)
    results = []
    for q, _, first_rank, place, score in found:
        if ranks[q] < k:
            results.append(_Result(q, ranks[q], score, first_rank, place))
        ranks[q] += 1
    return results


def _unfused(best: Sequence[tuple[_Hit, int]]) -> list[_Result]:
    """Each hit of each method, the best of all methods first."""
    found = sorted(best, key=lambda one: (one[0].q, one[1], one[0].method))
    return [
        _Result(hit.q, rank, hit.score, rank * 100 + hit.method, hit.place) for hit, rank in found
    ]


async def _cosines(sought: Any, vectors: Any, pairs: Sequence[Pair]) -> list[float | None]:
    """The cosine of each pair, computed by DuckDB: its float32 sums define the last bits."""
    sought, vectors = of_one_size(sought, vectors)
    rows, others = (pa.array(places, pa.int64()) for places in zip(*pairs, strict=True))
    table = pa.table({"a": sought.take(rows), "b": vectors.take(others)})
    return Batch.of_table(await execute(_COSINES, {PAIRS: table}, _COSINE_SCHEMA)).column("x")
