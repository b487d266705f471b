"""A search over few rows, as tuples in Python, without DuckDB.

`search_sql.statement` defines the result. It also computes every search for which this Python code
is not guaranteed to give the same result.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache
from itertools import compress
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from semgraph.expr.duckdb import ORDINAL, type_of
from semgraph.expr.functions import overlap
from semgraph.expr.row_scalars import Unsupported
from semgraph.expr.scalar import PAIRS, Scalar
from semgraph.expr.types import TIMESTAMP
from semgraph.logical.node import scalars_of
from semgraph.physical.search_spec import SearchInput, SearchSpec, joined_texts, step_texts
from semgraph.physical.vectors import of_one_size
from semgraph.relational.batch import PARTITION, Batch, Row, runtime_schema, values
from semgraph.relational.segments import column_of, execute, executors
from semgraph.stores.prepare import end_column

Pair = tuple[int, int]  # the indices of a row and of a row of the step
# The vectors of the step's rows for a method, as an Arrow column.
VectorsOf = Callable[[int], Awaitable[Any]]

_MANY_PAIRS = 4_096  # above this number a statement evaluates `where` faster
# Types that Python compares and orders as DuckDB does.
_COMPARED = frozenset({pa.string(), pa.int64(), pa.bool_(), pa.date32(), TIMESTAMP})
_COSINES = (
    f"SELECT CAST(array_cosine_similarity(a, b) AS DOUBLE) AS x FROM {PAIRS} ORDER BY {ORDINAL}"
)
_COSINE_SCHEMA = pa.schema([("x", pa.float64())])


class _Hit(NamedTuple):
    """A hit of one method for row `q`. Its `place` is among the hits of the store, then the step's
    rows.
    """

    q: int
    method: int
    score: float
    key: str
    place: int


class _Result(NamedTuple):
    """A hit of the result. `first` is the least `rank * 100 + method` of the methods that found it."""

    q: int
    rank: int
    score: float
    first: int
    place: int


@lru_cache(maxsize=256)
def _is_supported(spec: SearchSpec) -> bool:
    """Whether Python has the result of the statement, and no user function needs a thread."""
    node = spec.node
    if any(scalar.calls_own for scalar in scalars_of(node)):
        return False
    kinds = [type_of(term.by, node.schema) for term in node.order]
    return _COMPARED.issuperset([*kinds, *_equal_kinds(spec)])


def _equal_kinds(spec: SearchSpec) -> Iterator[pa.DataType]:
    """The types of the values that methods `equal` compare with rows of a step."""
    within = spec.node.within
    for by in spec.node.methods if within is not None else ():
        if by.via == "equal" and within is not None:
            yield type_of(by.to, spec.node.input.schema)
            yield within.schema.field(by.prop).type


class RowSearch:
    """One search over few rows. The hits are those of the store; None: it was not queried."""

    def __init__(self, search: SearchInput, hits: Batch | None, now: datetime | None) -> None:
        self.search, self.spec, self.node = search, search.spec, search.spec.node
        self.left, self.within, self.hits, self.now = search.left, search.within, hits, now
        self.stored = hits.num_rows if hits is not None else 0
        few = executors(*(scalar.sql for scalar in scalars_of(search.spec.node))).few
        self.supported = few >= 0 and _is_supported(search.spec)
        self.pairs: list[Pair] | None = None  # which rows may find which rows of the step, if known
        self._structs: dict[int, dict[str, Any]] = {}
        self._width = len(self.node.input.schema)

    @property
    def with_step(self) -> bool:
        """Whether rows of the step may be hits, or replace stored hits of the same key."""
        if self.within is None or self.hits is None or self.pairs != []:
            return self.within is not None
        keys = set(self.within.column(self.node.hit_key))
        return not keys.isdisjoint(self.hits.column(self.node.graph.key))

    async def result(self, vectors_of: VectorsOf) -> tuple[Batch, list[int]] | None:
        """The result, and for each result row the row to which it belongs; None if the statement
        must compute it. Vectors are asked for only if rows of the step may be hits.
        """
        pairs = self.pairs = await self._pairs()
        few = self.left.num_rows + self.stored <= executors().few
        if pairs is None or not (self.supported and few) or (pairs and self.spec.step_vectors):
            return None
        scores = {}
        for method, by in enumerate(self.node.methods) if pairs else ():
            if by.via == "nearest":
                vectors = await vectors_of(method)
                scores[method] = await _cosines(self.search.values[method], vectors, pairs)
        try:
            hits = [*await self._stored_hits(), *self._step_hits(pairs, scores)]
            if any(math.isnan(hit.score) for hit in hits):  # DuckDB treats NaN as the greatest
                return None
            return await self._best(hits)
        except Exception:  # noqa: BLE001 - the statement defines with which error
            return None

    async def _column(
        self, scalar: Scalar, hits: Sequence[tuple[int, int]], kind: pa.DataType
    ) -> list[Any]:
        """A scalar over rows with unranked hits, each by the index of the row and of the hit."""
        rows = [self._with_hit(self.left.rows[q], self._struct(n), n) for q, n in hits]
        joined = Batch.of_tuples(rows, runtime_schema(self.node))
        return (await column_of(scalar, self.node, joined, self.now, kind)).column("x")

    # -- hits

    async def _pairs(self) -> list[Pair] | None:
        """Each row with every row of the step that it may find; None: by the statement."""
        if self.within is None or not self.within.num_rows:
            return []
        step_rows: dict[Any, list[int]] = defaultdict(list)
        for n, scope in enumerate(self._scopes(self.within)):
            step_rows[scope].append(n)
        near = [step_rows.get(scope, ()) for scope in self._scopes(self.left)]
        if not self.supported or sum(map(len, near)) > _MANY_PAIRS:
            return None
        pairs = [(q, n) for q, places in enumerate(near) for n in places]
        if self.node.where is None:
            return pairs
        try:
            hits = [(q, self.stored + n) for q, n in pairs]
            passes = await self._column(self.node.where, hits, pa.bool_())
        except Exception:  # noqa: BLE001 - the statement defines with which error
            return None
        return list(compress(pairs, passes))

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
        columns = zip(*map(self.hits.column, names), range(self.stored), strict=True)
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

    def _step_hits(
        self, pairs: Sequence[Pair], cosines: Mapping[int, Sequence[float | None]]
    ) -> list[_Hit]:
        if self.within is None or not pairs:
            return []
        keys = self.within.column(self.node.hit_key)
        if None in keys:
            raise Unsupported("a row of the step without a key")
        if not self.node.methods:
            return [_Hit(q, 0, 1.0, keys[n], self.stored + n) for q, n in pairs]
        hits = []
        for method, by in enumerate(self.node.methods):
            scores, least = cosines.get(method), by.above
            if scores is None:
                scores, least = self._pair_scores(method, pairs), 0.0
            hits += [
                _Hit(q, method, score, keys[n], self.stored + n)
                for (q, n), score in zip(pairs, scores, strict=True)
                if score is not None and score > least  # a zero vector gives NaN: no hit
            ]
        return hits

    def _pair_scores(self, method: int, pairs: Sequence[Pair]) -> list[float]:
        """The score of each pair: 1.0 for equal values, or the score of their shared words."""
        assert self.within is not None
        sought = values(self.search.values[method])
        if self.node.methods[method].via == "equal":
            column = self.within.column(self.node.methods[method].prop)
            return [float(sought[q] is not None and sought[q] == column[n]) for q, n in pairs]
        columns = list(map(self.within.column, step_texts(self.spec, method)))
        texts = joined_texts(columns, self.within.num_rows)
        return [overlap(sought[q] or "", texts[n]) for q, n in pairs]

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
            return sorted(hits, key=lambda hit: (hit.q, hit.method, -hit.score, hit.key))
        hits = sorted(hits, key=itemgetter(3))
        for term in reversed(self.node.order):
            kind = type_of(term.by, self.node.schema)
            column = await self._column(term.by, [(hit.q, hit.place) for hit in hits], kind)
            pairs = list(zip(column, hits, strict=True))
            known = [pair for pair in pairs if pair[0] is not None]
            known.sort(key=itemgetter(0), reverse=term.descending)
            hits = [hit for _, hit in known] + [hit for value, hit in pairs if value is None]
        return sorted(hits, key=itemgetter(0))

    # -- as rows

    def _struct(self, place: int) -> dict[str, Any]:
        """The fields of a hit, without its rank. Fields of the other side are NULL."""
        struct = self._structs.get(place)
        if struct is None:
            stored = self.hits is not None and place < self.stored
            side = self.hits if stored else self.within
            assert side is not None
            places, row = self._places[stored], side.rows[place - (0 if stored else self.stored)]
            named = zip(self.spec.fields, places, strict=True)
            struct = {name: None if i < 0 else row[i] for name, i in named}
            self._structs[place] = struct
        return struct

    @cached_property
    def _places(self) -> list[list[int]]:
        """The positions of a hit's fields in the rows of the step, and in those of the store."""
        sides = [
            side.schema if side is not None else pa.schema([]) for side in (self.within, self.hits)
        ]
        return [[side.get_field_index(name) for name in self.spec.fields] for side in sides]

    def _row(self, row: Row, result: _Result) -> Row:
        via = self.node.methods[result.first % 100].via if self.node.methods else "order"
        ranking = {"rank": result.rank, "score": result.score, "via": via}
        hit = self._struct(result.place) | {name: ranking[name] for name in self.spec.ranking}
        return self._with_hit(row, hit, result.place)

    def _with_hit(self, row: Row, hit: dict[str, Any] | None, place: int | None) -> Row:
        width = self._width
        ends = [self._end(end, kind, place) for end, kind in self.node.ends.items()]
        return (*row[:width], hit, *ends, *row[width:])

    def _end(self, end: str, kind: pa.StructType, place: int | None) -> dict[str, Any] | None:
        if place is None or self.hits is None:
            return None
        node = self.hits.rows[place][self.hits.schema.get_field_index(end_column(end))]
        return None if node is None else {field.name: node[field.name] for field in kind}


def _once(best: Sequence[tuple[_Hit, int]], k: int, *, fused: bool) -> list[_Result]:
    """Each hit once, at most k per row, by the sum of 1 / (rank + 1), or of one method by score."""
    scores: dict[tuple[int, str], float] = defaultdict(float)
    firsts: dict[tuple[int, str], Pair] = {}
    for hit, rank in best:
        if fused:
            scores[hit.q, hit.key] += 1.0 / (rank + 1)
        else:
            scores[hit.q, hit.key] = max(scores.get((hit.q, hit.key), hit.score), hit.score)
        first = (rank * 100 + hit.method, hit.place)
        firsts[hit.q, hit.key] = min(firsts.get((hit.q, hit.key), first), first)
    if fused:  # rounded to 12 digits, half up, as DuckDB rounds
        scores |= {hit: math.floor(score * 1e12 + 0.5) / 1e12 for hit, score in scores.items()}
    ordered = sorted(
        (q, -score, firsts[q, key][0], key, firsts[q, key][1]) for (q, key), score in scores.items()
    )
    ranks: dict[int, int] = defaultdict(int)
    results = []
    for q, score, best_rank, _, place in ordered:
        if ranks[q] < k:
            results.append(_Result(q, ranks[q], -score, best_rank, place))
        ranks[q] += 1
    return results


def _unfused(best: Sequence[tuple[_Hit, int]]) -> list[_Result]:
    """Each hit of each method, the best of all methods first."""
    ordered = sorted(best, key=lambda one: (one[0].q, one[1], one[0].method, one[0].key))
    return [
        _Result(hit.q, rank, hit.score, rank * 100 + hit.method, hit.place) for hit, rank in ordered
    ]


async def _cosines(sought: Any, vectors: Any, pairs: Sequence[Pair]) -> list[float | None]:
    """The cosine of each pair, computed by DuckDB: its float32 sums define the last bits."""
    sought, vectors = of_one_size(sought, vectors)
    rows, others = (pa.array(places, pa.int64()) for places in zip(*pairs, strict=True))
    table = pa.table({"a": sought.take(rows), "b": vectors.take(others)})
    return Batch.of_table(await execute(_COSINES, {PAIRS: table}, _COSINE_SCHEMA)).column("x")
