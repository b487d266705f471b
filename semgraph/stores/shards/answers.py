"""The answers of shards as one: rows go to the shards of their partitions, hits are ranked
together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.logical.graph import Element
from semgraph.logical.schema import Label
from semgraph.shards import shard_of
from semgraph.stores.base import SearchQuery
from semgraph.stores.batch_io import partitions_of, path_order

Routes = Sequence[tuple[int, ...]]
"""For each row the shards that it is for."""


def routes_of(
    rows: pa.Table, partition: str | None, count: int, everywhere: Sequence[int]
) -> Routes:
    """The shards of rows.

    Args:
        rows: The rows.
        partition: The column of their partitions; None: all partitions.
        count: How many shards there are.
        everywhere: The shards that have rows of any partition.
    """
    if partition is None:
        return [tuple(everywhere)] * rows.num_rows
    return [
        tuple(sorted({shard_of(value, count) for value in values}))
        for values in partitions_of(rows, partition)
    ]


def places_by_shard(routes: Routes) -> dict[int, list[int]]:
    """The places of the rows of each shard."""
    places: dict[int, list[int]] = {}
    for place, shards in enumerate(routes):
        for shard in shards:
            places.setdefault(shard, []).append(place)
    return dict(sorted(places.items()))


def are_shared(routes: Routes) -> bool:
    """Whether a row is for several shards."""
    return any(len(shards) > 1 for shards in routes)


def concatenated(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of one kind as one. A shard without vectors does not know their length."""
    kinds = tables[0].schema
    for table in tables[1:]:
        kinds = pa.schema([f.with_type(_longer(f.type, table.field(f.name).type)) for f in kinds])
    return pa.concat_tables(
        pa.table([_in_type(table.column(f.name), f.type) for f in kinds], schema=kinds)
        for table in tables
    ).combine_chunks()


def _longer(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if isinstance(one, pa.FixedSizeListType) and isinstance(other, pa.FixedSizeListType):
        return max(one, other, key=lambda kind: kind.list_size)
    if isinstance(one, pa.StructType) and isinstance(other, pa.StructType):
        pairs = zip(one, other, strict=True)
        return pa.struct([a.with_type(_longer(a.type, b.type)) for a, b in pairs])
    return one


def _in_type(values: Any, kind: pa.DataType) -> pa.Array[Any]:
    """Values in a type that differs in the length of vectors that are all NULL."""
    array: Any = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if array.type == kind:
        return array  # type: ignore[no-any-return]
    if not isinstance(kind, pa.StructType):
        return pa.array([None] * len(array), kind)
    fields = [_in_type(array.field(n), field.type) for n, field in enumerate(kind)]
    return pa.StructArray.from_arrays(fields, fields=list(kind), mask=array.is_null())


def joined_hits(
    query: SearchQuery, key: str, tables: Sequence[pa.Table], *, shared: bool
) -> pa.Table:
    """The hits of a search: as each shard ranked them, or ranked together if rows are `shared` by
    shards.
    """
    table = concatenated(tables)
    if not shared:
        return table.sort_by([("_q", "ascending"), ("method", "ascending"), ("rank", "ascending")])
    groups: dict[tuple[int, int], list[int]] = {}
    hits = zip(_values(table, "_q"), _values(table, "method"), strict=True)
    for place, (q, method) in enumerate(hits):
        groups.setdefault((q, method), []).append(place)
    by_key = _ranking(table, [("score", True)], key)
    in_order = _ranking(table, query.order, key) if query.order else by_key
    places: list[int] = []
    ranks: list[int] = []
    for (_, number), group in sorted(groups.items()):
        method = query.methods[number]
        ranking = in_order if method.via == "order" else by_key
        best = sorted(group, key=ranking.__getitem__)[: method.k]
        places += best
        ranks += range(len(best))
    ranked = table.take(pa.array(places, pa.int64()))
    return ranked.set_column(
        ranked.schema.get_field_index("rank"), "rank", pa.array(ranks, pa.int64())
    )


def _ranking(table: pa.Table, order: Sequence[tuple[str, bool]], key: str) -> list[int]:
    """The place of each row in an order: NULLs last, ties by key."""
    places = sorted(range(table.num_rows), key=_values(table, key).__getitem__)
    for name, descending in reversed(order):
        values = _values(table, name)
        known = [place for place in places if values[place] is not None]
        known.sort(key=values.__getitem__, reverse=descending)
        places = [*known, *(place for place in places if values[place] is None)]
    ranking = [0] * len(places)
    for rank, place in enumerate(places):
        ranking[place] = rank
    return ranking


def _values(table: pa.Table, name: str) -> list[Any]:
    return table.column(name).to_pylist()


def joined_paths(
    named: Sequence[tuple[Element, Label | None]], tables: Sequence[pa.Table], *, shared: bool
) -> pa.Table:
    """The paths of a match, sorted by row and, if rows are `shared` by shards, by keys."""
    table = concatenated(tables)
    if not shared:
        return table.take(pc.array_sort_indices(table.column("_q")))
    columns = [table.column(name).to_pylist() for name in table.column_names]
    records = [
        (q, *(_record(value) for value in values)) for q, *values in zip(*columns, strict=True)
    ]
    places = sorted(range(len(records)), key=lambda place: path_order(records[place], named))
    return table.take(pa.array(places, pa.int64()))


def _record(value: Any) -> Any:
    """A node, an edge or a path as positions: the key is the first of each."""
    if isinstance(value, Mapping):
        return list(value.values())
    return [list(step.values()) for step in value]


def joined_rows(key: str, tables: Sequence[pa.Table], limit: int | None) -> pa.Table:
    """The rows of a scan, by key."""
    table = concatenated(tables)
    return table.take(pc.sort_indices(table, [(key, "ascending")])).slice(0, limit)
