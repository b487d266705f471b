"""Lateral search: hits of the store and of a step's rows, ranked by each method, fused, cut to k.

The store ranks and filters what it can; one DuckDB statement does the rest, so that the two kinds
of hits are ranked alike and `where` always acts before k.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr.functions import words
from semgraph.expr.scalar import LEFT, PAIRS, STEP, STORED
from semgraph.logical.search import Search
from semgraph.logical.semantic import VECTOR
from semgraph.physical.fusion import (
    RESULT_OF,
    SearchInput,
    asked_column,
    fuse,
    statement,
    step_matters,
    vector_column,
)
from semgraph.physical.reads import StoreReads
from semgraph.physical.retrieval import (
    EmbedTextsOf,
    SearchSpec,
    given_vectors,
    of_one_size,
    partitions_of,
    vectors_of,
)
from semgraph.physical.shortlist import shortlist, worth_it
from semgraph.relational.batch import runtime_schema, values
from semgraph.relational.fragments import column_of, execute
from semgraph.stores.base import SearchQuery


class StoreQueries:
    """The searches of one round trip, over the same rows and label.

    Where a search sees all partitions for some rows and those of a list for others, it is two
    queries: in each the rows of the other look for nothing.

    Args:
        searches: By number; those without a label ask nothing of the store.
        left: The rows.
    """

    def __init__(self, searches: Sequence[SearchInput], left: pa.Table) -> None:
        self.searches = {n: asked for n, asked in enumerate(searches) if asked.spec.node.label}
        rows = pa.table({"_q": pa.array(range(left.num_rows), pa.int64())})
        for name in sorted(
            frozenset().union(*(a.spec.row_columns for a in self.searches.values()))
        ):
            rows = rows.append_column(name, left.column(name))
        self.free: dict[int, Any] = {}  # for each row whether it sees all partitions
        for n, asked in self.searches.items():
            node = asked.spec.node
            if node.or_all:
                self.free[n] = pc.is_null(left.column(node.partition))
            for i, column in enumerate(asked.values):
                rows = rows.append_column(f"_x{n}_{i}", column)
                if self._mixed(n):
                    freed = pc.if_else(
                        self.free[n].combine_chunks(), column, pa.scalar(None, column.type)
                    )
                    rows = rows.append_column(f"_y{n}_{i}", freed)
        self.rows = rows

    def _mixed(self, n: int) -> bool:
        return n in self.free and len(set(self.free[n].to_pylist())) > 1

    def _queries(self, n: int, k: int) -> list[SearchQuery]:
        spec = self.searches[n].spec
        confined = spec.query(k, f"_x{n}_")
        if n not in self.free or not pc.any(self.free[n]).as_py():
            return [confined]
        everyone = replace(
            spec.query(k, f"_y{n}_" if self._mixed(n) else f"_x{n}_"), partition=None
        )
        return [confined, everyone] if self._mixed(n) else [everyone]

    async def hits(self, store: StoreReads, wanted: Mapping[int, int]) -> dict[int, pa.Table]:
        """The hits of searches by number, `wanted` says how many of each method; one round trip."""
        queries = {n: self._queries(n, k) for n, k in wanted.items()}
        flat = [query for parts in queries.values() for query in parts]
        tables = iter(await store.search(flat, self.rows) if flat else [])
        hits = {}
        for n, parts in queries.items():
            first, *rest = (next(tables) for _ in parts)
            hits[n] = self._together(n, first, rest[0]) if rest else first
        return hits

    def _together(self, n: int, confined: pa.Table, everyone: pa.Table) -> pa.Table:
        """The hits of both queries; of one that has no values to look for, those of its own rows
        alone.
        """
        free = pc.indices_nonzero(self.free[n].combine_chunks())
        own = everyone.filter(pc.is_in(everyone.column("_q"), value_set=free.cast(pa.int64())))
        both = pa.concat_tables([confined, own])
        return both.sort_by([("_q", "ascending"), ("method", "ascending"), ("rank", "ascending")])


def hidden_hits(
    asked: SearchInput,
    hits: pa.Table,
    results: pa.ChunkedArray,  # type: ignore[type-arg]
    result_of: Sequence[int],
    k: int,
) -> bool:
    """Whether stored hits beyond the k-th might belong to the best.

    Args:
        asked: The search.
        hits: What the store found: `k` for each row and method, or all.
        results: The hits of the result.
        result_of: The row that each of them is for.
        k: How many were asked for.
    """
    node, within = asked.spec.node, asked.within
    if within is None or asked.spec.unlimited or not hits.num_rows:
        return False
    taken = pc.is_in(
        hits.column(node.graph.key), value_set=within.column(node.graph.key).combine_chunks()
    )
    if not pc.any(taken).as_py():
        return False
    groups = hits.append_column("_taken", taken).group_by(["_q", "method"], use_threads=False)
    counted = groups.aggregate([("_taken", "sum"), ("rank", "count")])
    columns = (values(counted.column(name)) for name in ("_q", "rank_count", "_taken_sum"))
    cut = {q for q, count, gone in zip(*columns, strict=True) if count >= k and gone}
    return bool(cut) and (bool(node.by) or not _settled(asked, hits, (results, result_of), cut))


def _settled(
    asked: SearchInput, hits: pa.Table, results: tuple[Any, Sequence[int]], cut: set[int]
) -> bool:
    """Whether the hits by order of some rows are k each, none of which comes after what the store
    ranked last.
    """
    node = asked.spec.node
    key = node.graph.key
    names = [
        key,
        *(name for name, _ in asked.spec.terms if name in hits.column_names and name != key),
    ]
    ranked: dict[int, dict[str, dict[str, Any]]] = {q: {} for q in cut}
    for q, hit in zip(values(hits.column("_q")), hits.select(names).to_pylist(), strict=True):
        if q in cut:
            ranked[q][hit[key]] = hit
    settled = dict.fromkeys(cut, 0)
    for q, hit in zip(results[1], values(results[0]), strict=True):
        original = ranked[q].get(hit[key]) if q in cut and hit is not None else None
        if original is not None and _no_later(hit, original, asked.spec.terms):
            settled[q] += 1
    return all(count == node.k for count in settled.values())


def _no_later(
    hit: dict[str, Any], original: dict[str, Any], terms: Sequence[tuple[str, bool]]
) -> bool:
    """Whether a hit comes where the stored row of its key does, or before; NULLs come last."""
    for name, descending in terms:
        mine, stored = hit.get(name), original.get(name)
        if mine != stored:
            return mine is not None and (stored is None or (mine > stored) == descending)
    return True


async def method_values(
    node: Search, left: pa.Table, embed: EmbedTextsOf, now: datetime | None
) -> list[pa.Array]:  # type: ignore[type-arg]
    """For each method, the rows' values: plain words for full text, vectors for `nearest`, the
    value itself for `equal`.
    """
    columns = []
    for by in node.by:
        column = await column_of(by.to, node.input, left, now)
        if by.via == "fulltext":
            column = pa.array(
                [None if v is None else words(v) for v in values(column)], pa.string()
            )
        elif node.given_as_vector(by):
            column = given_vectors(column)
        elif by.via == "nearest":
            column = await vectors_of(column, embed, partitions_of(left, node.graph.partition))
        columns.append(column)
    return columns


async def run_searches(
    specs: Sequence[SearchSpec],
    left: pa.Table,
    withins: Sequence[pa.Table | None],
    store: StoreReads,
    embed: EmbedTextsOf,
    now: datetime | None,
) -> list[pa.Table]:
    """Run searches over the same rows and label in one round trip; one result for each, in the
    schema of its node.
    """
    if not left.num_rows:
        return [runtime_schema(spec.node).empty_table() for spec in specs]
    searches = [
        SearchInput(spec, left, withins[n], await method_values(spec.node, left, embed, now))
        for n, spec in enumerate(specs)
    ]
    asking = StoreQueries(searches, left)
    hits = await asking.hits(store, {n: asked.spec.node.k for n, asked in asking.searches.items()})
    results = []
    for n, asked in enumerate(searches):
        table, result_of = await _finish(asked, hits.get(n), embed, now)
        k = asked.spec.node.k
        while n in hits and hidden_hits(
            asked, hits[n], table.column(asked.spec.node.alias), result_of, k
        ):
            k *= 4
            hits |= await asking.hits(store, {n: k})
            table, result_of = await _finish(asked, hits[n], embed, now)
        results.append(table)
    return results


async def _with_vectors(spec: SearchSpec, rows: pa.Table, embed: EmbedTextsOf) -> pa.Table:
    """A step's rows with the vectors that hits bring."""
    for name, text in spec.step_vectors.items():
        texts = rows.column(text).combine_chunks()
        vectors = await vectors_of(texts, embed, partitions_of(rows, spec.node.graph.partition))
        rows = rows.append_column(name, vectors.cast(VECTOR))
    return rows


async def _finish(
    asked: SearchInput, hits: pa.Table | None, embed: EmbedTextsOf, now: datetime | None
) -> tuple[pa.Table, list[int]]:
    """The result, and for which row each of its rows is, where a step's rows may be among the
    hits.
    """
    spec = asked.spec
    with_step = asked.within is not None and step_matters(asked, hits, now)
    if (
        hits is not None
        and not with_step
        and not spec.unlimited
        and (spec.node.by or not spec.node.within)
    ):
        return fuse(asked, hits), []
    tables = {LEFT: asked.left}
    if hits is not None:
        tables[STORED] = hits
    if with_step and asked.within is not None:
        tables[STEP] = await _with_vectors(spec, asked.within, embed)
    for i, by in enumerate(spec.node.by):
        column = asked.values[i]
        if by.via == "nearest" and STEP in tables:
            texts = tables[STEP].column(by.prop).combine_chunks()
            vectors = await vectors_of(
                texts, embed, partitions_of(tables[STEP], spec.node.graph.partition)
            )
            column, vectors = of_one_size(column, vectors)
            tables[STEP] = tables[STEP].append_column(vector_column(i), vectors)
        tables[LEFT] = tables[LEFT].append_column(asked_column(i), column)
    chosen = spec if with_step or spec.node.within is None else replace(spec, with_step=False)
    if STEP in tables and worth_it(spec, tables):
        tables[PAIRS] = await shortlist(spec, tables, now)
        chosen = replace(spec, listed=True)
    schema = runtime_schema(spec.node)
    table = await execute(
        statement(chosen), tables, schema.append(pa.field(RESULT_OF, pa.int64())), now
    )
    return table.select(schema.names), values(table.column(RESULT_OF))
