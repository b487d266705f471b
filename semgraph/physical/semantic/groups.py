"""Groups of rows: sem_agg and sem_topk."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr.binder import ORDINAL
from semgraph.expr.names import ROWS
from semgraph.logical.semantic import SemAgg, SemTopk
from semgraph.physical.columns import dense, values
from semgraph.physical.relational import column_of, conform, execute, runtime_schema
from semgraph.physical.semantic.asking import (
    Answered,
    Asking,
    ask,
    assemble,
    evidence,
    failures,
)
from semgraph.physical.sql import PARTITION, hidden, order_sql, quote


async def _groups(node: SemAgg | SemTopk, by: Sequence[str], table: pa.Table, now: datetime | None) -> pa.Table:
    """Row numbers `o` and group numbers `g` (in order of first appearance), rows of a group in the node's order."""
    keys = [quote(name) for name in by] + ([PARTITION] if PARTITION in hidden(node.input) else [])
    first = f"min({ORDINAL}) OVER ({'PARTITION BY ' + ', '.join(keys) if keys else ''})"
    order = order_sql(getattr(node, "order", ()), node.input, ORDINAL)
    sql = f"SELECT {ORDINAL} AS o, {first} AS g FROM {ROWS} ORDER BY g, {order}"
    found = await execute(sql, {ROWS: table}, pa.schema([("o", pa.int64()), ("g", pa.int64())]), now)
    numbers, _ = dense(values(found.column("g")))
    return pa.table({"group": pa.array(numbers, pa.int64()), "left": found.column("o").combine_chunks()})


@assemble.register
async def _(node: SemAgg, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    (table,) = inputs
    items = await _groups(node, node.by, table, asking.now)
    groups, lefts = values(items.column("group")), values(items.column("left"))
    sizes = np.bincount(np.asarray(groups))
    single = sizes == 1 if node.alone else np.zeros(len(sizes), bool)
    renumber = {int(g): n for n, g in enumerate(np.flatnonzero(~single))}
    rows = [(renumber[g], left) for g, left in zip(groups, lefts, strict=True) if not single[g]]
    part = pa.table(
        {"group": pa.array([g for g, _ in rows], pa.int64()), "left": pa.array([i for _, i in rows], pa.int64())}
    )
    answers = await ask(node, table, None, part, asking)
    errors = values(answers.column("error"))
    heads = [len(lefts)] * len(sizes)
    for group, left in zip(groups, lefts, strict=True):
        heads[group] = min(heads[group], left) if heads[group] < len(lefts) else left
    taken = table.take(pa.array(heads, pa.int64()))
    columns: dict[str, Any] = {name: taken.column(name) for name in (*node.by, *hidden(node)[1:])}
    place = pa.array([renumber.get(g) for g in range(len(sizes))], pa.int64())
    for f in node.answer_fields():
        column = answers.column(f.name).combine_chunks().take(place)
        if single.any():
            own = await column_of(dict(node.alone)[f.name], node.input, taken, asking.now, f.type)
            column = pc.if_else(pa.array(single), own, column)
        columns[f.name] = column
    failed = np.asarray([g in renumber and errors[renumber[g]] is not None for g in range(len(sizes))])
    kept = node.on_error == "null"
    result = pa.table(columns)
    if failed.any() and not kept:
        result = result.filter(pa.array(~failed))
    asked = [heads[g] for g in renumber]
    return Answered(
        conform(result, runtime_schema(node)),
        failures(node, table, asked, errors),
        kept,
        evidence(node, table, asked, answers, ()),
        len(rows),
    )


@assemble.register
async def _(node: SemTopk, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    (table,) = inputs
    items = await _groups(node, node.per, table, asking.now)
    answers = await ask(node, table, None, items, asking)
    errors, scores = values(answers.column("error")), values(answers.column("score"))
    groups, lefts = values(items.column("group")), values(items.column("left"))
    ranked = sorted((g, -s, left, s) for g, left, s in zip(groups, lefts, scores, strict=True) if s is not None)
    best: list[tuple[int, int, float]] = []
    ranks: dict[int, int] = {}
    for group, _, left, score in ranked:
        rank = ranks.get(group, 0)
        ranks[group] = rank + 1
        if rank < node.k:
            best.append((left, rank, score))
    found = table.take(pa.array([left for left, _, _ in best], pa.int64()))
    found = found.append_column("rank", pa.array([r for _, r, _ in best], pa.int64()))
    found = found.append_column("score", pa.array([s for _, _, s in best], pa.float64()))
    return Answered(
        conform(found, runtime_schema(node)),
        failures(node, table, lefts, errors),
        node.on_error == "null",
        evidence(node, table, lefts, answers, ()),
        table.num_rows,
    )
