"""Pattern matches: what the store finds for each row, as struct columns."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr.binder import ORDINAL
from semgraph.expr.names import ROWS
from semgraph.expr.scalar import Scalar
from semgraph.logical.graph import Match
from semgraph.physical.pushing import Taking, is_pushed
from semgraph.physical.relational import conform, execute, runtime_schema
from semgraph.physical.sql import hidden, quote, scalar_sql
from semgraph.stores.base import MatchQuery


class Matching(Taking, Protocol):
    """The part of a store that matches."""

    async def match(self, query: MatchQuery, rows: pa.Table) -> pa.Table:
        """As `Store.match`."""
        ...


def match_query(node: Match, store: Matching) -> tuple[MatchQuery, tuple[Scalar, ...]]:
    """The store's part of a match, and the conjuncts of `where` that it does not take."""
    parts = node.where.conjuncts() if node.where is not None else ()
    whole = {element.var for element in node.pattern.variables}  # a store reads fields of a variable, not the variable
    labels = dict(node.labelled)
    taken = tuple(p for p in parts if _of_fields(p, whole) and is_pushed(store, p, None, labels, node.input.schema))
    skip = {node.graph.key, "source", "target"}
    properties = {var: tuple(n for n in node.brought(var, label) if n not in skip) for var, label in node.labelled}
    partition = None if node.partition == "all" else node.partition or node.graph.partition
    rest = tuple(p for p in parts if p not in taken)
    return MatchQuery(node.pattern, properties, taken, partition), rest


def _of_fields(part: Scalar, variables: set[str]) -> bool:
    """Whether a conjunct reads fields of the pattern's variables and plain columns of the row alone."""
    roots = {path.split(".")[0] for path in part.columns if "." in path}
    return variables.isdisjoint(part.columns) and roots <= variables


async def run_match(node: Match, left: pa.Table, store: Matching, now: datetime | None) -> pa.Table:
    """Match a pattern for all rows in one round trip; the result in the schema of its node."""
    schema = runtime_schema(node)
    if not left.num_rows:
        return schema.empty_table()
    query, rest = match_query(node, store)
    rows = pa.table({"_q": pa.array(range(left.num_rows), pa.int64())})
    for name in sorted(_row_columns(node, query)):
        rows = rows.append_column(name, left.column(name))
    found = await store.match(query, rows)
    table = left.take(found.column("_q").combine_chunks())
    columns: Mapping[str, pa.ChunkedArray] = {name: table.column(name) for name in left.column_names}  # type: ignore[type-arg]
    table = pa.table({**columns, **{e.var: found.column(e.var) for e in node.pattern.variables}})
    table = table.append_column("_q", found.column("_q"))
    if rest:
        where = " AND ".join(f"({scalar_sql(p, node.partitioned)})" for p in rest)
        own = [quote(n) for n in node.schema.names] + [h for h in hidden(node) if h != ORDINAL] + ["_q"]
        sql = f"SELECT {', '.join(own)} FROM {ROWS} WHERE {where} ORDER BY {ORDINAL}"
        table = await execute(sql, {ROWS: table}, pa.schema([*schema, pa.field("_q", pa.int64())]), now)
    if node.how == "left":
        missing = pc.invert(pc.is_in(rows.column("_q"), value_set=table.column("_q").combine_chunks()))
        alone = left.append_column("_q", rows.column("_q")).filter(missing)
        table = pa.concat_tables([table, alone], promote_options="default").sort_by("_q")
    return conform(table.drop_columns("_q"), schema)


def _row_columns(node: Match, query: MatchQuery) -> set[str]:
    variables = {element.var for element in node.pattern.variables}
    own = {path.split(".")[0] for path in node.pattern.columns}
    own |= {path.split(".")[0] for s in query.where for path in s.columns} - variables
    return own | ({query.partition} if query.partition else set())
