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
from semgraph.expr.types import sql_type
from semgraph.llm.base import Vectors
from semgraph.logical.graph import By, Search
from semgraph.logical.node import Node
from semgraph.physical.columns import values
from semgraph.physical.relational import execute, runtime_schema
from semgraph.physical.sql import PARTITION, hidden, quote, scalar_sql
from semgraph.stores.base import Method, SearchQuery, Store


class Searching(Protocol):
    """The part of a store that searches."""

    async def search(self, queries: Sequence[SearchQuery], rows: pa.Table) -> list[pa.Table]:
        """As `Store.search`."""
        ...


Embed = Callable[[Sequence[str], str], Awaitable[Vectors]]
_OVERFETCH = 4  # overlap ranks the best 4k full-text hits of the store anew
_RANKING = ("rank", "score", "via")


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
        return tuple(f.name for f in self.node.hit_type if f.name not in _RANKING)

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
    def sql(self) -> str:
        """The statement over `l` (rows, with the methods' values `_x0` …), `s` (store hits) and `w` (a step's rows)."""
        return _statement(self)


def _stored_term(scalar: Scalar, node: Search) -> bool:
    path = scalar.columns[0] if len(scalar.columns) == 1 else ""
    plain = path.startswith(f"{node.alias}.") and scalar.sql == ".".join(quote(p) for p in path.split("."))
    return plain and path.split(".")[1] in node.graph.label(node.label).columns


def _statement(spec: SearchSpec) -> str:
    node = spec.node
    alias = quote(node.alias)
    branches = []
    if node.label:
        branches.append(_stored_hits(spec))
    if node.within is not None and spec.with_step:
        branches += _step_hits(spec, node.within)
    order = "score DESC"
    if not node.by:
        terms = [
            f"{scalar_sql(t.by, partitioned=False)} {'DESC' if t.descending else 'ASC'} NULLS LAST" for t in node.order
        ]
        order = ", ".join(terms)
    own = f"_q, method, score, {alias}, _key"
    ranked = (
        f"SELECT {own}, row_number() OVER (PARTITION BY _q, method ORDER BY {order}, _key) - 1 AS _r "
        f"FROM ({' UNION ALL '.join(branches)}) AS _h QUALIFY _r < {node.k}"
    )
    via = "CASE method " + " ".join(f"WHEN {i} THEN '{by.via}'" for i, by in enumerate(node.by)) + " END"
    via = via if node.by else "'order'"
    if node.fuse == "rrf" and node.by:
        fused = (
            f"SELECT _q, _key, sum(1.0 / (_r + 1)) AS score, min(_r * 100 + method) AS _first, "
            f"any_value({alias}) AS {alias}, arg_min({via}, _r * 100 + method) AS via FROM ranked GROUP BY _q, _key"
        )
        last = (
            "SELECT *, row_number() OVER (PARTITION BY _q ORDER BY score DESC, _first, _key) - 1 AS rank "
            f"FROM fused QUALIFY rank < {node.k}"
        )
    else:
        fused = f"SELECT _q, _key, score, method AS _first, {alias}, {via} AS via, _r AS rank FROM ranked"
        last = "SELECT * FROM fused"
    packed = ", ".join(f"{quote(f.name)} := CAST({_field(f.name, alias)} AS {sql_type(f.type)})" for f in node.hit_type)
    rest = [name for name in hidden(node) if name != ORDINAL]
    columns = [f"l.{quote(n)}" for n in node.input.schema.names]
    columns += [
        f"CASE WHEN _f._q IS NULL THEN NULL ELSE struct_pack({packed}) END AS {alias}",
        *(f"l.{n}" for n in rest),
    ]
    join = "LEFT JOIN" if node.how == "left" else "JOIN"
    return (
        f"WITH ranked AS ({ranked}), fused AS ({fused}), final AS ({last}) "
        f"SELECT {', '.join(columns)} FROM l {join} final AS _f ON l.{ORDINAL} = _f._q "
        f"ORDER BY l.{ORDINAL}, _f.rank, _f._first, _f._key"
    )


def _field(name: str, alias: str) -> str:
    return f"_f.{name}" if name in _RANKING else f"{alias}.{quote(name)}"


def _base_struct(spec: SearchSpec, present: set[str]) -> str:
    """A hit with every field that ranking, filters and the plan read; what this side lacks is NULL."""
    kinds = {f.name: f.type for f in spec.node.hit_type}
    if spec.node.label:
        columns = spec.node.graph.label(spec.node.label).columns
        kinds |= {name: columns[name].arrow for name in spec.properties}
    if spec.node.within is not None:
        kinds |= {f.name: f.type for f in spec.node.within.schema}
    fields = [
        f"{quote(n)} := {quote(n) if n in present else f'CAST(NULL AS {sql_type(t)})'}"
        for n, t in kinds.items()
        if n not in _RANKING
    ]
    return f"struct_pack({', '.join(fields)})"


def _text(names: Sequence[str], alias: str) -> str:
    return "concat_ws(' ', " + ", ".join(f"{alias}.{quote(n)}" for n in names) + ")"


def _stored_hits(spec: SearchSpec) -> str:
    node = spec.node
    alias, key = quote(node.alias), quote(node.graph.key)
    present = {node.graph.key, *spec.properties}
    present |= {"source", "target"} if node.graph.label(node.label).kind == "edge" else set()
    inner = f"SELECT _q, method, score AS _s, {key} AS _key, {_base_struct(spec, present)} AS {alias} FROM s"
    cases = [
        f"WHEN method = {i} THEN overlap(l._x{i}, {_text(spec.texts[i], alias)})"
        for i, by in enumerate(node.by)
        if by.rank == "overlap"
    ]
    score = f"CASE {' '.join(cases)} ELSE _s END" if cases else "_s"
    terms = [f"({scalar_sql(c, partitioned=False)})" for c in spec.residual]
    if cases:
        terms.append("score > 0")
    if node.within is not None and spec.with_step:
        same = f" AND w.{PARTITION} = l.{PARTITION}" if node.within.partitioned and node.input.partitioned else ""
        terms.append(f"NOT EXISTS (SELECT 1 FROM w WHERE w.{key} = _key{same})")
    where = f"WHERE {' AND '.join(terms)}" if terms else ""
    own = f"_i._q, _i.method, {score} AS score, _i._key, _i.{alias}"
    hits = f"SELECT l.*, {own} FROM ({inner}) AS _i JOIN l ON l.{ORDINAL} = _i._q"
    return f"SELECT _q, method, score, {alias}, _key FROM ({hits}) AS l {where}"


def _step_hits(spec: SearchSpec, within: Node) -> list[str]:
    node = spec.node
    alias, key = quote(node.alias), quote(node.graph.key)
    vectors = "".join(f", _v{i}" for i, by in enumerate(node.by) if by.via == "nearest")
    partition = f", {PARTITION} AS _wp" if within.partitioned else ""
    inner = f"SELECT {_base_struct(spec, set(within.schema.names))} AS {alias}{vectors}{partition} FROM w"
    terms = [f"({scalar_sql(node.where, partitioned=False)})"] if node.where is not None else []
    if within.partitioned and node.input.partitioned:
        terms.append(f"l.{PARTITION} = _w._wp")
    pairs = f"FROM l JOIN ({inner}) AS _w ON {' AND '.join(terms) or 'TRUE'}"
    own = f"l.{ORDINAL} AS _q, {{method}} AS method, {{score}} AS score, {alias}, {alias}.{key} AS _key"
    if not node.by:
        return ["SELECT " + own.format(method=0, score="1.0") + " " + pairs]
    found = []
    for i, by in enumerate(node.by):
        score, test = _step_score(spec, by, i, alias)
        found.append(f"SELECT {own.format(method=i, score=score)} {pairs} WHERE {test}")
    return found


def _step_score(spec: SearchSpec, by: By, i: int, alias: str) -> tuple[str, str]:
    if by.via == "equal":
        return "1.0", f"l._x{i} = {alias}.{quote(by.prop)}"
    if by.via == "fulltext":
        score = f"overlap(l._x{i}, {_text([t for t in spec.texts[i] if _has(spec, t)], alias)})"
        return score, f"{score} > 0"
    score = f"array_cosine_similarity(l._x{i}, _v{i})"
    return f"CAST({score} AS DOUBLE)", f"{score} > {by.above}"


def _has(spec: SearchSpec, name: str) -> bool:
    return spec.node.within is not None and name in spec.node.within.schema.names


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
    values = []
    for n, spec in enumerate(specs):
        values.append(await method_values(spec.node, left, embed, now))
        for i, column in enumerate(values[-1]):
            rows = rows.append_column(f"_x{n}_{i}", column)
    asked = [(n, spec.query(spec.node.k, f"_x{n}_")) for n, spec in enumerate(specs) if spec.node.label]
    hits = (
        dict(zip((n for n, _ in asked), await store.search([q for _, q in asked], rows), strict=True)) if asked else {}
    )
    found = []
    for n, spec in enumerate(specs):
        table = await _finish(spec, left, withins[n], hits.get(n), values[n], embed, now)
        found.append(table)
        k = spec.node.k
        while withins[n] is not None and n in hits and _hidden_hits(spec, hits[n], withins[n], k):  # type: ignore[arg-type]
            k *= 4
            hits[n] = (await store.search([spec.query(k, f"_x{n}_")], rows))[0]
            found[n] = await _finish(spec, left, withins[n], hits[n], values[n], embed, now)
    return found


def _hidden_hits(spec: SearchSpec, hits: pa.Table, within: pa.Table, k: int) -> bool:
    """Whether rows of the step took the place of stored ones, so that stored hits beyond the k-th might belong to the best.

    Not so where the search is by order over the step's own stored copies: the copies sort where their originals do.
    """
    if spec.residual or not hits.num_rows or not spec.node.by:
        return False
    key = spec.node.graph.key
    taken = pc.is_in(hits.column(key), value_set=within.column(key).combine_chunks())
    if not pc.any(taken).as_py():
        return False
    groups = hits.append_column("_taken", taken).group_by(["_q", "method"])
    counted = groups.aggregate([("_taken", "sum"), ("rank", "count")])
    pairs = zip(values(counted.column("rank_count")), values(counted.column("_taken_sum")), strict=True)
    return any(count >= k and gone for count, gone in pairs)


async def _finish(
    spec: SearchSpec,
    left: pa.Table,
    within: pa.Table | None,
    hits: pa.Table | None,
    values: list[pa.Array],  # type: ignore[type-arg]
    embed: Embed,
    now: datetime | None,
) -> pa.Table:
    tables = {"l": left}
    for i, column in enumerate(values):
        tables["l"] = tables["l"].append_column(f"_x{i}", column)
    chosen = spec
    if spec.node.label and hits is not None:
        tables["s"] = hits
    if spec.node.within is not None:
        if within is None or (not within.num_rows and spec.node.label):
            chosen = replace(spec, with_step=False)
        else:
            tables["w"] = within
            for i, by in enumerate(spec.node.by):
                if by.via == "nearest":
                    column = await vectors_of(within.column(by.prop).combine_chunks(), embed)
                    tables["w"] = tables["w"].append_column(f"_v{i}", column)
    return await execute(chosen.sql, tables, runtime_schema(spec.node), now)
