"""Lateral search: hits of the store and of a step's rows, ranked by each method, fused, cut to k.

The store ranks and filters what it can; one DuckDB statement does the rest, so that the two kinds of hits are ranked alike and
`where` always acts before k.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from semgraph.expr.binder import ORDINAL
from semgraph.expr.functions import words
from semgraph.expr.scalar import NOW, Scalar, from_ast
from semgraph.llm.base import Vectors
from semgraph.logical.graph import RANKING, Search
from semgraph.logical.node import Node
from semgraph.physical.columns import values
from semgraph.physical.direct import Value, value_of
from semgraph.physical.relational import execute, runtime_schema
from semgraph.physical.search_fuse import Asked, fuse, step_matters
from semgraph.physical.search_sql import statement
from semgraph.physical.sql import quote, scalar_sql
from semgraph.stores.base import Method, SearchQuery, Store


class Searching(Protocol):
    """The part of a store that searches."""

    async def search(self, queries: Sequence[SearchQuery], rows: pa.Table) -> list[pa.Table]:
        """As `Store.search`."""
        ...


Embed = Callable[[Sequence[str], str], Awaitable[Vectors]]
_NAMES = tuple(name for name, _ in RANKING)
_OVERFETCH = 4  # overlap ranks the best 4k full-text hits of the store anew


def conjuncts_for_store(node: Search, store: Store) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
    """The conjuncts of `where` that the store takes, as it sees them, and those left for DuckDB, as the plan says them."""
    taken: list[tuple[Scalar, Scalar]] = []
    rest: list[tuple[Scalar, Scalar]] = []
    stored = set(node.graph.label(node.label).columns) if node.label else set()
    for part in node.where.conjuncts() if node.where is not None else ():
        seen = _without_step_columns(part, node.alias, stored)
        (taken if store.takes(seen, node.alias) and f"${NOW}" not in seen.sql else rest).append((part, seen))
    return tuple(seen for _, seen in taken), tuple(part for part, _ in rest)


def _without_step_columns(scalar: Scalar, alias: str, stored: set[str]) -> Scalar:
    """Columns that only a step's rows have are NULL in a stored one."""

    def change(tree: exp.Expr) -> exp.Expr:
        if isinstance(tree, exp.Column) and tree.table == alias and tree.name not in stored:
            return exp.Null()
        return tree

    return from_ast(scalar.ast.transform(change), scalar.text)


@dataclass(frozen=True)
class SearchSpec:
    """A search, compiled for a store.

    Args:
        node: The operator.
        taken: Conjuncts that the store evaluates.
        residual: Conjuncts that DuckDB evaluates on the store's hits, which are then fetched without a limit.
        with_step: Whether there are rows of the step to search.
    """

    node: Search
    taken: tuple[Scalar, ...]
    residual: tuple[Scalar, ...]
    with_step: bool = True

    @classmethod
    def compile(cls, node: Search, store: Store) -> SearchSpec:
        """Split `where` between store and engine."""
        taken, residual = conjuncts_for_store(node, store)
        return cls(node, taken, residual)

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """Fields of a hit, without those of its ranking."""
        return tuple(f.name for f in self.node.hit_type if f.name not in _NAMES)

    @cached_property
    def texts(self) -> dict[int, tuple[str, ...]]:
        """For each full-text method, the properties of its index."""
        found = {}
        for i, by in enumerate(self.node.by):
            if by.via == "fulltext":
                indexes = self.node.graph.label(self.node.label).fulltext.values() if self.node.label else ()
                found[i] = next((props for props in indexes if by.prop in props), (by.prop,))
        return found

    @cached_property
    def properties(self) -> tuple[str, ...]:
        """What the store must return: what is read of a hit, and what ranking and residual filters need."""
        label = self.node.graph.label(self.node.label)
        extra = {p for props in self.texts.values() for p in props} | {b.prop for b in self.node.by}
        scalars = [*self.residual, *(t.by for t in self.node.order)]
        extra |= {path.split(".")[1] for s in scalars for path in s.columns if path.startswith(f"{self.node.alias}.")}
        wanted = [*self.fields, *sorted(extra - set(self.fields))]
        skip = {self.node.graph.key, "source", "target"}
        return tuple(name for name in wanted if name in label.columns and name not in skip)

    def query(self, k: int, prefix: str) -> SearchQuery:
        """The store's part, for the `k` best of each method; row values are in columns that start with `prefix`."""
        node = self.node
        limit = None if self.residual else k
        methods = tuple(
            Method(
                by.via, by.prop, f"{prefix}{i}", by.above, limit and limit * (_OVERFETCH if by.rank == "overlap" else 1)
            )
            for i, by in enumerate(node.by)
        )
        order = tuple((t.by.columns[0].split(".")[1], t.descending) for t in node.order if _stored_term(t.by, node))
        partition = None if node.partition == "all" else node.partition or node.graph.partition
        return SearchQuery(
            node.label,
            methods or (Method("order", k=limit),),
            self.properties,
            node.alias,
            self.taken,
            partition,
            order,
        )

    @property
    def row_columns(self) -> frozenset[str]:
        """Columns of the rows that the store's part reads, besides the methods' values."""
        own = {path.split(".")[0] for s in self.taken for path in s.columns} - {self.node.alias}
        partition = {self.node.partition or self.node.graph.partition} if self.node.partition != "all" else set[str]()
        return frozenset(own | partition)

    @cached_property
    def direct_tests(self) -> tuple[Value, ...]:
        """The conjuncts of `where` that can be looked at without a statement."""
        parts = self.node.where.conjuncts() if self.node.where is not None else ()
        tests = (value_of(part, self.node.schema) for part in parts)
        return tuple(test for test in tests if test is not None)

    @cached_property
    def sql(self) -> str:
        """The statement over `l` (rows, with the methods' values `_x0` …), `s` (store hits) and `w` (a step's rows)."""
        return statement(self)


def _stored_term(scalar: Scalar, node: Search) -> bool:
    path = scalar.columns[0] if len(scalar.columns) == 1 else ""
    plain = path.startswith(f"{node.alias}.") and scalar.sql == ".".join(quote(p) for p in path.split("."))
    return plain and path.split(".")[1] in node.graph.label(node.label).columns


async def method_values(node: Search, left: pa.Table, embed: Embed, now: datetime | None) -> list[pa.Array]:  # type: ignore[type-arg]
    """For each method, the rows' values: plain words for full text, vectors for `nearest`, the value itself for `equal`."""
    found = []
    for by in node.by:
        column = await _evaluate(by.to, node.input, left, now)
        if by.via == "fulltext":
            column = pa.array([None if v is None else words(v) for v in values(column)], pa.string())
        elif by.via == "nearest":
            column = await vectors_of(column, embed)
        found.append(column)
    return found


async def _evaluate(scalar: Scalar, node: Node, table: pa.Table, now: datetime | None) -> pa.Array:  # type: ignore[type-arg]
    if scalar.sql == quote(scalar.text) and scalar.text in table.column_names:
        return table.column(scalar.text).combine_chunks()
    from semgraph.expr.binder import type_of

    sql = f"SELECT {scalar_sql(scalar, node.partitioned)} AS x FROM t ORDER BY {ORDINAL}"
    schema = pa.schema([pa.field("x", type_of(scalar, node.schema))])
    return (await execute(sql, {"t": table}, schema, now)).column("x").combine_chunks()


async def vectors_of(texts: pa.Array, embed: Embed) -> pa.Array:  # type: ignore[type-arg]
    """Vectors of a column of texts, each distinct text embedded once; NULL stays NULL."""
    distinct = [t for t in pc.unique(texts).to_pylist() if t is not None]
    if not distinct:
        return pa.nulls(len(texts), pa.list_(pa.float32(), 1))
    vectors = await embed(distinct, "")
    place = {text: i for i, text in enumerate(distinct)}
    index = pa.array([None if t is None else place[t] for t in values(texts)], pa.int64())
    flat = pa.array(vectors.reshape(-1), pa.float32())
    return pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]).take(index)


async def run_searches(
    specs: Sequence[SearchSpec],
    left: pa.Table,
    withins: Sequence[pa.Table | None],
    store: Searching,
    embed: Embed,
    now: datetime | None,
) -> list[pa.Table]:
    """Run searches over the same rows and label in one round trip; one result for each, in the schema of its node."""
    if not left.num_rows:
        return [runtime_schema(spec.node).empty_table() for spec in specs]
    rows = pa.table({"_q": pa.array(range(left.num_rows), pa.int64())})
    for name in sorted(frozenset().union(*(spec.row_columns for spec in specs if spec.node.label))):
        rows = rows.append_column(name, left.column(name))
    asking = [
        Asked(spec, left, withins[n], await method_values(spec.node, left, embed, now)) for n, spec in enumerate(specs)
    ]
    for n, asked in enumerate(asking):
        for i, column in enumerate(asked.values):
            rows = rows.append_column(f"_x{n}_{i}", column)
    stored = [n for n, spec in enumerate(specs) if spec.node.label]
    queries = [specs[n].query(specs[n].node.k, f"_x{n}_") for n in stored]
    hits = dict(zip(stored, await store.search(queries, rows), strict=True)) if stored else {}
    found = []
    for n, asked in enumerate(asking):
        table = await _finish(asked, hits.get(n), embed, now)
        k = asked.spec.node.k
        while n in hits and _hidden_hits(asked, hits[n], k):
            k *= 4
            hits[n] = (await store.search([asked.spec.query(k, f"_x{n}_")], rows))[0]
            table = await _finish(asked, hits[n], embed, now)
        found.append(table)
    return found


def _hidden_hits(asked: Asked, hits: pa.Table, k: int) -> bool:
    """Whether rows of the step took the place of stored ones, so that stored hits beyond the k-th might belong to the best.

    Not so where the search is by order over the step's own stored copies: the copies sort where their originals do.
    """
    within = asked.within
    if within is None or asked.spec.residual or not hits.num_rows or not asked.spec.node.by:
        return False
    key = asked.spec.node.graph.key
    taken = pc.is_in(hits.column(key), value_set=within.column(key).combine_chunks())
    if not pc.any(taken).as_py():
        return False
    groups = hits.append_column("_taken", taken).group_by(["_q", "method"])
    counted = groups.aggregate([("_taken", "sum"), ("rank", "count")])
    pairs = zip(values(counted.column("rank_count")), values(counted.column("_taken_sum")), strict=True)
    return any(count >= k and gone for count, gone in pairs)


async def _finish(asked: Asked, hits: pa.Table | None, embed: Embed, now: datetime | None) -> pa.Table:
    spec = asked.spec
    with_step = asked.within is not None and step_matters(asked, hits, now)
    if hits is not None and not with_step and not spec.residual and (spec.node.by or not spec.node.within):
        return fuse(asked, hits)
    tables = {"l": asked.left}
    for i, column in enumerate(asked.values):
        tables["l"] = tables["l"].append_column(f"_x{i}", column)
    if hits is not None:
        tables["s"] = hits
    if with_step and asked.within is not None:
        tables["w"] = asked.within
        for i, by in enumerate(spec.node.by):
            if by.via == "nearest":
                column = await vectors_of(asked.within.column(by.prop).combine_chunks(), embed)
                tables["w"] = tables["w"].append_column(f"_v{i}", column)
    chosen = spec if with_step or spec.node.within is None else replace(spec, with_step=False)
    return await execute(chosen.sql, tables, runtime_schema(spec.node), now)
