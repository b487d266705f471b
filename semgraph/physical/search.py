"""Lateral search: hits of the store and of a step's rows, ranked by each method, fused, cut to k.

The store ranks and filters what it can; one DuckDB statement does the rest, so that the two kinds of hits are ranked alike and
`where` always acts before k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from semgraph.expr.functions import words
from semgraph.expr.names import LEFT, PAIRS, STEP, STORED
from semgraph.logical.embed import VECTOR
from semgraph.logical.search import Search
from semgraph.physical.columns import values
from semgraph.physical.relational import column_of, execute, runtime_schema
from semgraph.physical.search_beyond import hidden_hits
from semgraph.physical.search_fuse import Asked, fuse, step_matters
from semgraph.physical.search_spec import SearchSpec
from semgraph.physical.search_sql import RESULT_OF, asked_column, statement, vector_column
from semgraph.physical.search_store import Asking, Searching
from semgraph.physical.search_vectors import Embed, given_vectors, of_one_size, vectors_of, whose
from semgraph.physical.shortlist import shortlist, worth_it


async def method_values(node: Search, left: pa.Table, embed: Embed, now: datetime | None) -> list[pa.Array]:  # type: ignore[type-arg]
    """For each method, the rows' values: plain words for full text, vectors for `nearest`, the value itself for `equal`."""
    found = []
    for by in node.by:
        column = await column_of(by.to, node.input, left, now)
        if by.via == "fulltext":
            column = pa.array([None if v is None else words(v) for v in values(column)], pa.string())
        elif node.given_as_vector(by):
            column = given_vectors(column)
        elif by.via == "nearest":
            column = await vectors_of(column, embed, whose(left, node.graph.partition))
        found.append(column)
    return found


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
    searches = [
        Asked(spec, left, withins[n], await method_values(spec.node, left, embed, now)) for n, spec in enumerate(specs)
    ]
    asking = Asking(searches, left)
    hits = await asking.hits(store, {n: asked.spec.node.k for n, asked in asking.searches.items()})
    found = []
    for n, asked in enumerate(searches):
        table, whom = await _finish(asked, hits.get(n), embed, now)
        k = asked.spec.node.k
        while n in hits and hidden_hits(asked, hits[n], table.column(asked.spec.node.alias), whom, k):
            k *= 4
            hits |= await asking.hits(store, {n: k})
            table, whom = await _finish(asked, hits[n], embed, now)
        found.append(table)
    return found


async def _with_vectors(spec: SearchSpec, rows: pa.Table, embed: Embed) -> pa.Table:
    """A step's rows with the vectors that hits bring."""
    for name, text in spec.step_vectors.items():
        texts = rows.column(text).combine_chunks()
        vectors = await vectors_of(texts, embed, whose(rows, spec.node.graph.partition))
        rows = rows.append_column(name, vectors.cast(VECTOR))
    return rows


async def _finish(
    asked: Asked, hits: pa.Table | None, embed: Embed, now: datetime | None
) -> tuple[pa.Table, list[int]]:
    """The result, and for which row each of its rows is, where a step's rows may be among the hits."""
    spec = asked.spec
    with_step = asked.within is not None and step_matters(asked, hits, now)
    if hits is not None and not with_step and not spec.unlimited and (spec.node.by or not spec.node.within):
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
            vectors = await vectors_of(texts, embed, whose(tables[STEP], spec.node.graph.partition))
            column, vectors = of_one_size(column, vectors)
            tables[STEP] = tables[STEP].append_column(vector_column(i), vectors)
        tables[LEFT] = tables[LEFT].append_column(asked_column(i), column)
    chosen = spec if with_step or spec.node.within is None else replace(spec, with_step=False)
    if STEP in tables and worth_it(spec, tables):
        tables[PAIRS] = await shortlist(spec, tables, now)
        chosen = replace(spec, listed=True)
    schema = runtime_schema(spec.node)
    table = await execute(statement(chosen), tables, schema.append(pa.field(RESULT_OF, pa.int64())), now)
    return table.select(schema.names), values(table.column(RESULT_OF))
