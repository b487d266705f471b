"""Reads of the store that need no ranking: scans of a label, and matches of a pattern."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr import Type
from semgraph.expr.scalar import Scalar, conjunction
from semgraph.logical.graph import Match, Scan
from semgraph.logical.node import Node
from semgraph.logical.schema import Label
from semgraph.relational.batch import (
    INPUT_ROW,
    PARTITION,
    Batch,
    conform,
    rows_at,
    runtime_schema,
    values,
)
from semgraph.relational.segments import column_of
from semgraph.stores.base import Alias, MatchQuery, ScanQuery, StoreReads
from semgraph.stores.conditions import Prop, compares_alike


def is_pushed(
    store: StoreReads,
    part: Scalar,
    alias: Alias,
    labels: Mapping[str, Label],
    rows: pa.Schema | None = None,
) -> bool:
    """Whether a store decides a conjunct. `labels` define the properties, by the names in the
    conjunct; `rows` is the schema of the rows that ask.
    """

    def type_of(prop: Prop) -> Type | None:
        label = labels[prop.var]
        return None if prop.name in label.vectors.values() else label.columns[prop.name]

    if part.asks_now or part.calls_own or not store.takes(part, alias):
        return False
    return compares_alike(
        part, alias, type_of, {} if rows is None else {f.name: f.type for f in rows}
    )


def scanned_where(node: Scan, store: StoreReads) -> tuple[Scalar, ...]:
    """The conjuncts of a scan that the store decides."""
    labels = {"": node.graph.label(node.label)}
    return tuple(part for part in node.where if is_pushed(store, part, "", labels))


async def run_scan(
    node: Scan,
    windows: Mapping[str, Sequence[tuple[int, int]]] | None,
    store: StoreReads,
    now: datetime | None,
) -> pa.Table:
    """The rows of a label in the schema of the node; one round trip. `windows` are the partitions
    to read, each with the windows that see its rows (`_p` and `_m`); None: all rows, once.
    Conjuncts that the store does not take are evaluated here.
    """
    taken = scanned_where(node, store)
    # The store applies the limit if it evaluates all conjuncts, but not over several partitions.
    whole = len(taken) == len(node.where) and (windows is None or len(windows) < 2)
    first = node.limit if whole else None
    of, names = None if windows is None else list(windows), node.schema.names
    stored = await store.scan(ScanQuery(node.label, names, of, taken, first))
    table = stored.select(node.schema.names).cast(node.schema)
    if windows is not None:
        table = _seen_by(table, stored.column(node.graph.partition), windows)
    rest = [part for part in node.where if part not in taken]
    return rows_at(table, await _passing(node, table, rest, now)) if rest else table


async def _passing(
    node: Node, rows: pa.Table, parts: Sequence[Scalar], now: datetime | None
) -> list[int]:
    """The indices of the rows of a node for which all of some conjuncts hold."""
    batch = Batch.of_table(rows)
    holds = (await column_of(conjunction(parts), node, batch, now, pa.bool_())).column("x")
    return [place for place, value in enumerate(holds) if value]


def _seen_by(
    table: pa.Table,
    partition: pa.ChunkedArray,  # type: ignore[type-arg]
    windows_of: Mapping[str, Sequence[tuple[int, int]]],
) -> pa.Table:
    """The rows, repeated for each window that sees them, with their hidden columns."""
    parts = []
    for name, windows in windows_of.items():
        own = table.filter(pc.equal(partition, pa.scalar(name)))
        for numbers in windows:
            seen = own
            for column, number in zip((PARTITION, INPUT_ROW), numbers, strict=True):
                seen = seen.append_column(
                    column, pa.repeat(pa.scalar(number, pa.int64()), own.num_rows)
                )
            parts.append(seen)
    schema = pa.schema(
        [*table.schema, pa.field(PARTITION, pa.int64()), pa.field(INPUT_ROW, pa.int64())]
    )
    return pa.concat_tables(parts).cast(schema) if parts else schema.empty_table()


def match_query(node: Match, store: StoreReads) -> tuple[MatchQuery, tuple[Scalar, ...]]:
    """The store's part of a match, and the conjuncts of `where` that it does not take."""
    parts = node.where.conjuncts() if node.where is not None else ()
    # a store reads fields of a variable, not the variable
    whole = {element.var for element in node.pattern.variables}
    labels = dict(node.labelled)
    taken = tuple(
        p
        for p in parts
        if _of_fields(p, whole) and is_pushed(store, p, None, labels, node.input.schema)
    )
    properties = {
        var: tuple(n for n in node.fields_of(var, label) if n not in {node.graph.key, *label.ends})
        for var, label in node.labelled
    }
    partition = None if node.partition == "all" else node.partition or node.graph.partition
    rest = tuple(p for p in parts if p not in taken)
    return MatchQuery(node.pattern, properties, taken, partition), rest


def _of_fields(part: Scalar, variables: set[str]) -> bool:
    """Whether a conjunct reads only fields of the pattern's variables and plain columns of the row."""
    roots = {path.split(".")[0] for path in part.columns if "." in path}
    return variables.isdisjoint(part.columns) and roots <= variables


async def run_match(node: Match, rows: Batch, store: StoreReads, now: datetime | None) -> Batch:
    """Match a pattern for all rows in one round trip. The result has the schema of the node."""
    schema, left = runtime_schema(node), rows.table
    if not rows.num_rows:
        return Batch.of_tuples([], schema)
    query, rest = match_query(node, store)
    sought = {name: left.column(name) for name in sorted(_row_columns(node, query))}
    matches = await store.match(query, pa.table({"_q": pa.array(range(rows.num_rows)), **sought}))
    of = values(matches.column("_q"))  # the row to which each result row belongs
    found = {element.var: matches.column(element.var) for element in node.pattern.variables}
    table = rows_at(left, of)
    table = pa.table({**dict(zip(table.column_names, table.columns, strict=True)), **found})
    if rest:
        places = await _passing(node, conform(table, schema), rest, now)
        table, of = rows_at(table, places), [of[place] for place in places]
    if node.how == "left":
        alone = sorted(set(range(rows.num_rows)) - set(of))
        table = pa.concat_tables([table, rows_at(left, alone)], promote_options="default")
        of = [*of, *alone]
        order = sorted(range(len(of)), key=of.__getitem__)
        table, of = rows_at(table, order), [of[place] for place in order]
    return Batch.of_table(conform(table, schema)).derived_from(rows, of)


def _row_columns(node: Match, query: MatchQuery) -> set[str]:
    variables = {element.var for element in node.pattern.variables}
    own = {path.split(".")[0] for path in node.pattern.columns}
    own |= {path.split(".")[0] for s in query.where for path in s.columns} - variables
    return own | ({query.partition} if query.partition else set())
