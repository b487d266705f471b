"""Execution of searches: one round trip for all searches over the same rows, then the rest of each
here.

The store ranks and filters as `search_spec` defines; `search_rows` does the rest. So hits of the
store and of a step's rows are ranked alike, and `where` is applied before k.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa

from semgraph.errors import DataError
from semgraph.expr.scalar import short
from semgraph.logical.search import Search
from semgraph.physical.search_rows import RowSearch
from semgraph.physical.search_spec import SearchInput, SearchSpec
from semgraph.physical.vectors import EmbedTextsOf, given_vectors, vectors_of
from semgraph.relational.batch import Batch, runtime_schema, values
from semgraph.relational.segments import column_of
from semgraph.stores.base import SearchQuery

Searching = Callable[[Sequence[SearchQuery], pa.Table], Awaitable[list[pa.Table]]]  # `Store.search`
# By queries, and by the values of a row: the row's hits of each query.
Remembered = dict[tuple[SearchQuery, ...], dict[Hashable, list[pa.Table]]]


def remembering(search: Searching, hits: Remembered) -> Searching:
    """The searches of a store, which is queried only for rows whose values are not in `hits`."""

    async def remembered(queries: Sequence[SearchQuery], rows: pa.Table) -> list[pa.Table]:
        known = hits.setdefault(tuple(queries), {})
        ordinals: list[Any] = rows.column("_q").to_pylist()
        columns = [values(rows.column(name)) for name in rows.column_names if name != "_q"]
        keys: list[Hashable] = [repr(row) for row in zip(*columns, strict=True)]
        new = [place for place, key in enumerate(keys) if key not in known]
        if new:
            tables = await search(queries, rows.take(pa.array(new, pa.int64())))
            found = [_by_row(table) for table in tables]
            none = [table.slice(0, 0) for table in tables]
            for place in new:
                own = zip(found, none, strict=True)
                known[keys[place]] = [of.get(ordinals[place], empty) for of, empty in own]
            if len(new) == len(keys):
                return tables
        return [
            _for_rows([known[key][number] for key in keys], ordinals)
            for number in range(len(queries))
        ]

    return remembered


def _by_row(hits: pa.Table) -> dict[int, pa.Table]:
    places: dict[int, list[int]] = {}
    for place, q in enumerate(values(hits.column("_q"))):
        places.setdefault(q, []).append(place)
    whole = Batch.of_table(hits)
    return {q: whole.take(own).table for q, own in places.items()}


def _for_rows(hits: Sequence[pa.Table], ordinals: Sequence[int]) -> pa.Table:
    whole = pa.concat_tables(hits)
    own = np.repeat(np.asarray(ordinals, np.int64), [table.num_rows for table in hits])
    return whole.set_column(whole.schema.get_field_index("_q"), "_q", pa.array(own))


_INNER = re.compile(r'column "_[xy](\d+)_(\d+)" of the rows')


class StoreQueries:
    """The searches of one round trip, over the same rows, by number; those without a label do not
    query the store.

    A search that sees all partitions for some rows and listed partitions for others becomes two
    queries. In each query the rows of the other query have no value to search for.
    """

    def __init__(self, searches: Sequence[SearchInput], left: Batch) -> None:
        self.searches = {n: search for n, search in enumerate(searches) if search.spec.node.label}
        names = frozenset[str]().union(*(a.spec.row_columns for a in self.searches.values()))
        columns: dict[str, Any] = {"_q": pa.array(range(left.num_rows), pa.int64())}
        columns |= {name: left.array(name) for name in sorted(names)}
        self._free: dict[int, list[bool]] = {}  # for each row whether it sees all partitions
        for n, search in self.searches.items():
            node = search.spec.node
            if node.or_all:
                self._free[n] = [names is None for names in left.column(node.partition)]
            for i, column in enumerate(search.values):
                columns[f"_x{n}_{i}"] = column
                if self._is_mixed(n):
                    places = [q if free else None for q, free in enumerate(self._free[n])]
                    columns[f"_y{n}_{i}"] = column.take(pa.array(places, pa.int64()))
        self.rows = pa.table(columns)

    def _is_mixed(self, n: int) -> bool:
        return len(set(self._free.get(n, ()))) > 1

    def _queries(self, n: int, k: int) -> list[SearchQuery]:
        spec = self.searches[n].spec
        confined = spec.query(k, f"_x{n}_")
        if not any(self._free.get(n, ())):
            return [confined]
        if not self._is_mixed(n):
            return [replace(confined, partition=None)]
        return [confined, replace(spec.query(k, f"_y{n}_"), partition=None)]

    async def hits(self, search: Searching, wanted: Mapping[int, int]) -> dict[int, Batch]:
        """The hits of searches by number, in one round trip; `wanted` is the limit for each method."""
        queries = {n: self._queries(n, k) for n, k in wanted.items()}
        flat = [query for parts in queries.values() for query in parts]
        try:
            tables = iter(await search(flat, self.rows) if flat else [])
        except DataError as error:
            what = _INNER.sub(self._written, error.problem.what)
            raise DataError(what, hint=error.problem.hint) from error.__cause__
        hits = {}
        for n, parts in queries.items():
            first, *rest = (next(tables) for _ in parts)
            hits[n] = Batch.of_table(self._together(n, first, rest[0]) if rest else first)
        return hits

    def _written(self, column: re.Match[str]) -> str:
        """The text in the plan for a column of the store's rows."""
        method = self.searches[int(column[1])].spec.node.methods[int(column[2])]
        return f'"{short(method.to.text)}"'

    def _together(self, n: int, confined: pa.Table, everyone: pa.Table) -> pa.Table:
        """The hits of both queries. Of `everyone` only the hits of its own rows count: a query
        without values to search for finds hits for all rows.
        """
        own = [self._free[n][q] for q in values(everyone.column("_q"))]
        both = pa.concat_tables([confined, everyone.filter(pa.array(own, pa.bool_()))])
        return both.sort_by([("_q", "ascending"), ("method", "ascending"), ("rank", "ascending")])


def hidden_hits(search: SearchInput, hits: Batch, result: Batch, of: Sequence[int], k: int) -> bool:
    """Whether stored hits beyond the k-th might belong to the best. The store was asked for `k`
    hits of each row and method; `of` has the row to which each result row belongs.
    """
    node, within = search.spec.node, search.within
    if within is None or search.spec.unlimited or not hits.num_rows:
        return False
    keys = set(within.column(node.hit_key))
    groups = zip(hits.column("_q"), hits.column("method"), strict=True)
    counts, taken = Counter[tuple[int, int]](), set[tuple[int, int]]()
    for group, key in zip(groups, hits.column(node.graph.key), strict=True):
        counts[group] += 1
        if key in keys:
            taken.add(group)
    cut = {group[0] for group in taken if counts[group] >= k}
    return bool(cut) and (bool(node.methods) or not _is_complete(search, hits, result, of, cut))


def _is_complete(
    search: SearchInput, hits: Batch, result: Batch, of: Sequence[int], cut: set[int]
) -> bool:
    """Whether the rows in `cut` have k certain hits by order: none comes after the stored row with
    its key, so that hits beyond the store's k cannot precede it.
    """
    key = search.spec.node.graph.key
    names = [key, *(name for name, _ in search.spec.terms if hits.has(name) and name != key)]
    ranked: dict[int, dict[str, dict[str, Any]]] = {q: {} for q in cut}
    for q, *row in zip(*map(hits.column, ("_q", *names)), strict=True):
        if q in cut:
            hit = dict(zip(names, row, strict=True))
            ranked[q][hit[key]] = hit
    certain = dict.fromkeys(cut, 0)
    for q, hit in zip(of, result.column(search.spec.node.alias), strict=True):
        original = ranked[q].get(hit[key]) if q in cut and hit is not None else None
        if original is not None and _no_later(hit, original, search.spec.terms):
            certain[q] += 1
    return all(count == search.spec.node.k for count in certain.values())


def _no_later(
    hit: dict[str, Any], original: dict[str, Any], terms: Sequence[tuple[str, bool]]
) -> bool:
    """Whether a hit comes at or before the position of the stored row with its key; NULLs come last."""
    for name, descending in terms:
        mine, stored = hit.get(name), original.get(name)
        if mine != stored:
            return mine is not None and (stored is None or (mine > stored) == descending)
    return True


async def method_values(
    node: Search, left: Batch, embed: EmbedTextsOf, now: datetime | None
) -> list[pa.Array]:  # type: ignore[type-arg]
    """For each method the values of the rows: vectors for `nearest`, otherwise the plain values."""
    columns: list[pa.Array[Any]] = []
    for by in node.methods:
        sought = await column_of(by.to, node.input, left, now)
        if by.via == "nearest" and not node.given_as_vector(by):
            name, texts = f"vector to compare with {by.prop}", sought.column("x")
            columns.append(await vectors_of(left, name, texts, embed, node.graph.partition))
        else:
            column = sought.array("x")
            columns.append(given_vectors(left, column) if by.via == "nearest" else column)
    return columns


async def run_searches(
    specs: Sequence[SearchSpec],
    left: Batch,
    withins: Sequence[Batch | None],
    search: Searching,
    embed: EmbedTextsOf,
    now: datetime | None,
) -> list[Batch]:
    """The results of searches over the same rows and label, in one round trip."""
    if not left.num_rows:
        return [Batch.of_tuples([], runtime_schema(spec.node)) for spec in specs]
    searches = [
        SearchInput(spec, left, withins[n], await method_values(spec.node, left, embed, now))
        for n, spec in enumerate(specs)
    ]
    queries = StoreQueries(searches, left)
    hits = await queries.hits(search, {n: own.spec.node.k for n, own in queries.searches.items()})
    results = []
    for n, own in enumerate(searches):
        over_rows = RowSearch(own, embed, now)
        result, of = await over_rows.result(hits.get(n))
        k = own.spec.node.k
        while n in hits and hidden_hits(own, hits[n], result, of, k):
            k *= 4
            hits |= await queries.hits(search, {n: k})
            result, of = await over_rows.result(hits[n])
        results.append(result.derived_from(left, of))
    return results
