"""A search that only the store's hits decide: fused in memory, without a statement.

In a window of one row the rows of the step that is searched are mostly the row itself, which it may not see.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr.functions import overlap
from semgraph.logical.search import RANKING
from semgraph.physical.columns import values
from semgraph.physical.relational import conform, runtime_schema
from semgraph.physical.search_spec import SearchSpec
from semgraph.physical.sql import PARTITION
from semgraph.stores.rows import end_column

_PAIRS = 4_096  # of row and step row that are looked at before a statement is run for them


@dataclass(frozen=True)
class Asked:
    """A search and the rows that it is run for, with each method's values."""

    spec: SearchSpec
    left: pa.Table
    within: pa.Table | None
    values: Sequence[pa.Array[Any]]


def step_matters(asked: Asked, hits: pa.Table | None, now: datetime | None) -> bool:
    """Whether rows of the step may be hits, or stand for stored ones; True where that is not plain to see."""
    spec, left, within = asked.spec, asked.left, asked.within
    if within is None or not within.num_rows:
        return hits is None
    key = spec.node.graph.key
    if hits is None or pc.any(pc.is_in(hits.column(key), value_set=within.column(key).combine_chunks())).as_py():
        return True
    if left.num_rows * within.num_rows > _PAIRS:
        return True
    rows, others = (index.reshape(-1) for index in np.indices((left.num_rows, within.num_rows)))
    seen = np.ones(len(rows), bool)
    if PARTITION in left.column_names and PARTITION in within.column_names:
        seen &= _numbers(left, PARTITION)[rows] == _numbers(within, PARTITION)[others]
    elif spec.node.by_owner:
        own, theirs = (_owners(table, spec.node.graph.partition) for table in (left, within))
        seen &= own[rows] == theirs[others]
    pairs = left.take(rows).append_column(spec.node.alias, _struct(spec, within.take(others)))
    for test in spec.direct_tests:
        seen &= np.asarray([bool(kept) for kept in values(test(pairs, now))])
    return bool(seen.any())


def _owners(table: pa.Table, partition: str) -> Any:
    """The partition that each row names, NULL as ""."""
    return np.asarray([name or "" for name in values(table.column(partition))], object)


def _numbers(table: pa.Table, name: str) -> Any:
    return table.column(name).to_numpy()


def _struct(spec: SearchSpec, rows: pa.Table, **ranking: Any) -> pa.StructArray:
    """Hits as structs; a field that the rows do not have is NULL."""
    arrays = []
    for field in spec.node.hit_type:
        column = ranking.get(field.name)
        if column is None and field.name in rows.column_names and field.name not in dict(RANKING):
            column = rows.column(field.name).combine_chunks()
        arrays.append(pa.nulls(rows.num_rows, field.type) if column is None else column.cast(field.type))
    return pa.StructArray.from_arrays(arrays, fields=list(spec.node.hit_type))


def _part_of(structs: Any, kind: pa.StructType) -> pa.StructArray:
    """The same structs with the fields of a type alone."""
    fields = list(kind)
    arrays = [structs.field(field.name).cast(field.type) for field in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=structs.is_null())


def fuse(asked: Asked, hits: pa.Table) -> pa.Table:
    """The result of a search from the store's hits alone: as the statement of `search_sql` has it."""
    spec, node = asked.spec, asked.spec.node
    ranked = _ranked(asked, hits)
    key = node.graph.key
    if node.fuse == "rrf" and node.by:
        ranked = ranked.append_column("_s", pc.divide(1.0, pc.add(ranked.column("_r"), 1).cast(pa.float64())))
        groups = ranked.group_by(["_q", key], use_threads=False).aggregate(
            [("_s", "sum"), ("_first", "min"), ("_row", "min")]
        )
        scores = pa.array(np.round(_numbers(groups, "_s_sum"), 12))
        table = pa.table(
            {"_q": groups.column("_q"), "_k": groups.column(key), "_first": groups.column("_first_min")}
            | {"_row": groups.column("_row_min"), "_score": scores}
        )
    else:
        names = {"_q": "_q", "_k": key, "_first": "_first", "_row": "_row", "_score": "_score"}
        table = pa.table({name: ranked.column(column) for name, column in names.items()})
    if node.fuse == "rrf" and node.by:
        table = table.sort_by(
            [("_q", "ascending"), ("_score", "descending"), ("_first", "ascending"), ("_k", "ascending")]
        )
        ranks = _within(_numbers(table, "_q"))
        table = table.append_column("_rank", pa.array(ranks)).filter(pa.array(ranks < node.k))
    else:
        table = table.sort_by([("_q", "ascending"), ("_first", "ascending"), ("_k", "ascending")])
        table = table.append_column("_rank", pa.array(_numbers(table, "_first") // 100))
    return _assembled(asked, spec, hits, table)


def _assembled(asked: Asked, spec: SearchSpec, hits: pa.Table, table: pa.Table) -> pa.Table:
    node = spec.node
    vias: list[str] = [by.via for by in node.by] or ["order"]
    ranking = {
        "rank": table.column("_rank").combine_chunks(),
        "score": table.column("_score").combine_chunks(),
        "via": pa.array([vias[first % 100] for first in values(table.column("_first"))], pa.string()),
    }
    rows = hits.take(table.column("_row").combine_chunks())
    q = table.column("_q").combine_chunks()
    found = asked.left.take(q).append_column(node.alias, _struct(spec, rows, **ranking))
    for end, kind in node.ends.items():
        found = found.append_column(getattr(node, end), _part_of(rows.column(end_column(end)).combine_chunks(), kind))
    if node.how == "left":
        numbers = pa.array(range(asked.left.num_rows), pa.int64())
        alone = pc.invert(pc.is_in(numbers, value_set=q))
        rest = asked.left.filter(alone)
        for name in (node.alias, *(getattr(node, end) for end in node.ends)):
            rest = rest.append_column(name, pa.nulls(rest.num_rows, found.schema.field(name).type))
        both = pa.concat_tables([found, rest])
        order = pa.concat_arrays([q, numbers.filter(alone)])
        found = both.take(pc.sort_indices(pa.table({"q": order}), sort_keys=[("q", "ascending")]))
    return conform(found, runtime_schema(node))


def _ranked(asked: Asked, hits: pa.Table) -> pa.Table:
    """Hits with `_r`, the rank within row and method; by overlap anew where the plan says so; the k best of each."""
    node = asked.spec.node
    key = node.graph.key
    scores = values(hits.column("score"))
    for i, by in enumerate(node.by):
        if by.rank == "overlap":
            _overlaps(asked, hits, i, scores)
    table = pa.table(
        {
            "_q": hits.column("_q"),
            key: hits.column(key),
            "_method": hits.column("method").cast(pa.int64()),
            "_score": pa.array(scores, pa.float64()),
            "_row": pa.array(range(hits.num_rows), pa.int64()),
        }
    )
    if any(by.rank == "overlap" for by in node.by):
        table = table.filter(pa.array(_numbers(table, "_score") > 0))
    if node.by:
        table = table.sort_by(
            [("_q", "ascending"), ("_method", "ascending"), ("_score", "descending"), (key, "ascending")]
        )
    groups = _numbers(table, "_q") * 100 + _numbers(table, "_method")
    ranks = _within(groups)
    first = pa.array(ranks * 100 + _numbers(table, "_method"))
    return table.append_column("_r", pa.array(ranks)).append_column("_first", first).filter(pa.array(ranks < node.k))


def _overlaps(asked: Asked, hits: pa.Table, method: int, scores: list[float]) -> None:
    """Shared words of row and hit, in place of the store's score."""
    asked_for = values(asked.values[method])
    texts = [values(hits.column(name)) for name in asked.spec.node.texts[method]]
    methods, rows = values(hits.column("method")), values(hits.column("_q"))
    for n, own in enumerate(methods):
        if own == method:
            text = " ".join(column[n] for column in texts if column[n] is not None)
            scores[n] = overlap(asked_for[rows[n]] or "", text)


def _within(groups: Any) -> Any:
    """The place of each row in its group, from 0; groups are contiguous."""
    if not len(groups):
        return np.zeros(0, np.int64)
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]])
    return np.arange(len(groups)) - np.repeat(starts, np.diff(np.r_[starts, len(groups)]))
