"""Semantic operators over groups of rows: sem_agg and sem_topk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from semgraph.expr.duckdb import ORDINAL, type_over_groups
from semgraph.expr.scalar import ROWS, Scalar, from_ast
from semgraph.expr.types import sql_type
from semgraph.logical.node import Node
from semgraph.logical.relational import Aggregate
from semgraph.logical.semantic import SemAgg, SemTopk
from semgraph.logical.typecheck import Sort, column_scalar
from semgraph.relational.batch import (
    PARTITION,
    Batch,
    conform,
    dense,
    hidden,
    runtime_schema,
    values,
)
from semgraph.relational.segments import Segment, compile_segment, execute, run_segment
from semgraph.relational.sql import order_sql, quote
from semgraph.semantic.ask import (
    AnswerContext,
    Answered,
    QuestionKey,
    ask,
    evidence,
    failures,
    prompt_texts,
    question_keys,
)

Flags = npt.NDArray[np.bool_]


async def row_groups(
    node: Node,
    by: Sequence[str],
    order: tuple[Sort, ...],
    table: pa.Table,
    now: datetime | None,
) -> list[list[int]]:
    """The rows of each group of a node's input, in some order; groups by their first row."""
    keys = [quote(name) for name in by] + ([PARTITION] if PARTITION in hidden(node) else [])
    first = f"min({ORDINAL}) OVER ({'PARTITION BY ' + ', '.join(keys) if keys else ''})"
    sql = f'SELECT {ORDINAL} AS "#o", {first} AS "#g" FROM {ROWS} ORDER BY "#g", {order_sql(order, node, ORDINAL)}'
    ordered = await execute(
        sql, {ROWS: table}, pa.schema([("#o", pa.int64()), ("#g", pa.int64())]), now
    )
    groups: dict[int, list[int]] = {}
    for row, group in zip(values(ordered.column("#o")), values(ordered.column("#g")), strict=True):
        groups.setdefault(group, []).append(row)
    return list(groups.values())


async def _ask_groups(
    node: SemAgg | SemTopk,
    rows: pa.Table,
    groups: Sequence[Sequence[int]],
    context: AnswerContext,
    beside: pa.Table | None = None,
) -> pa.Table:
    """Answer groups of rows."""
    pairs = [(number, row) for number, group in enumerate(groups) for row in group]
    numbers, lefts = (pa.array([pair[i] for pair in pairs], pa.int64()) for i in (0, 1))
    items = pa.table({"group": numbers, "left": lefts})
    return await ask(node, rows, None, items, context, beside=beside)


@lru_cache(maxsize=256)
def _group_segment(node: SemAgg) -> Segment:
    """The segment that computes `when`, `otherwise` and `add` of each group, in this order, over the
    rows of the groups, group by group.
    """
    source, kinds = node.input, {f.name: f.type for f in node.schema}
    wanted = [(s, pa.bool_()) for s in [node.when] if s is not None]
    wanted += [(scalar, kinds[name]) for name, scalar in (*node.otherwise, *node.add)]
    by = tuple((f"#by{i}", column_scalar(name)) for i, name in enumerate(node.by))
    groups = [scalar.sql for _, scalar in by]
    columns = []
    for i, (scalar, kind) in enumerate(wanted):
        own = type_over_groups(scalar, source.schema, groups)
        columns.append((f"#{i}", scalar if own == kind else _cast(scalar, kind)))
    root = Aggregate(input=source, by=by, add=tuple(columns), step=node.step, origin=node.origin)
    return compile_segment(root, {source: ROWS})


def _cast(scalar: Scalar, kind: pa.DataType) -> Scalar:
    to = exp.DataType.build(sql_type(kind), dialect="duckdb")
    return from_ast(exp.Cast(this=scalar.ast, to=to), scalar.text)


async def _group_values(
    node: SemAgg, table: pa.Table, rows_by_group: Sequence[Sequence[int]], now: datetime | None
) -> tuple[Flags, dict[str, pa.Array[Any]], dict[str, pa.Array[Any]]]:
    """For each group whether it is asked, its `otherwise` by answer, and its `add` by column."""
    asked = np.ones(len(rows_by_group), bool)
    if node.when is None and not node.otherwise and not node.add:
        return asked, {}, {}
    rows = pa.array([row for rows in rows_by_group for row in rows], pa.int64())
    columns = runtime_schema(node.input).names
    sorted_rows = Batch.of_table(table.select(columns).take(rows))
    groups = await run_segment(_group_segment(node), [sorted_rows], now)
    computed = iter([groups.array(name) for name in groups.schema.names if name[1:].isdigit()])
    if node.when is not None:
        asked = np.asarray([bool(holds) for holds in values(next(computed))])
    otherwise = {name: next(computed) for name, _ in node.otherwise}
    return asked, otherwise, {name: next(computed) for name, _ in node.add}


async def sem_agg(node: SemAgg, inputs: Sequence[pa.Table], context: AnswerContext) -> Answered:
    """Answer a question about each group, and make a row of each."""
    (table,) = inputs
    rows_by_group = await row_groups(node.input, node.by, node.order, table, context.now)
    asked, otherwise, add = await _group_values(node, table, rows_by_group, context.now)
    groups = [rows for rows, own in zip(rows_by_group, asked, strict=True) if own]
    heads = [min(rows) for rows in rows_by_group]
    first_rows = table.take(pa.array(heads, pa.int64()))
    columns: dict[str, Any] = {
        name: first_rows.column(name) for name in (*node.by, *hidden(node)[1:])
    }
    keys = question_keys(node, table, context)
    beside = _beside(node, columns | add, asked)
    answers = await _distinct_groups(node, table, keys, groups, beside, context)
    errors = values(answers.column("error"))
    renumber = {int(g): n for n, g in enumerate(np.flatnonzero(asked))}
    place = pa.array([renumber.get(g) for g in range(len(rows_by_group))], pa.int64())
    for f in node.answer_fields():
        column = answers.column(f.name).combine_chunks().take(place)
        if f.name in otherwise and not asked.all():
            column = pc.if_else(pa.array(asked), column, otherwise[f.name])
        columns[f.name] = column
    failed = np.asarray(
        [g in renumber and errors[renumber[g]] is not None for g in range(len(rows_by_group))]
    )
    keeps_failed = node.on_error == "null"
    result = pa.table(columns | add)
    if failed.any() and not keeps_failed:
        result = result.filter(pa.array(~failed))
    answered = [heads[g] for g in renumber]
    input_rows = Batch.of_table(table).input_rows()
    return Answered(
        conform(result, runtime_schema(node)),
        failures(node, table, answered, errors),
        keeps_failed,
        evidence(table, answered, [keys[row].text for row in answered], answers),
        sum(map(len, groups)),
        input_rows=[input_rows[row] for rows in groups for row in rows],
        sources=[
            tuple(rows)
            for rows, without in zip(rows_by_group, failed, strict=True)
            if keeps_failed or not without
        ],
        about=[tuple(rows_by_group[g]) for g in renumber],
    )


def _beside(node: SemAgg, groups: Mapping[str, Any], asked: Flags) -> pa.Table | None:
    """The columns of the groups that are asked about which the check reads; None without a check."""
    if node.check is None:
        return None
    columns = {name: column for name, column in groups.items() if name in node.check.roots}
    return pa.table(columns).filter(pa.array(asked)) if columns else pa.table({})


async def _distinct_groups(
    node: SemAgg,
    table: pa.Table,
    keys: Sequence[QuestionKey],
    groups: Sequence[Sequence[int]],
    beside: pa.Table | None,
    context: AnswerContext,
) -> pa.Table:
    """The answer for each group; groups of equal rows are one question, if the check sees the same
    of them.
    """
    kinds, _ = dense(keys)
    seen = [""] * len(groups)
    if beside is not None and beside.num_columns:
        seen = prompt_texts(beside, beside.column_names)
    rows = [tuple(kinds[row] for row in own) for own in groups]
    numbers, first = dense(list(zip(rows, seen, strict=True)))
    if beside is not None:
        beside = beside.take(pa.array(first, pa.int64()))
    answers = await _ask_groups(node, table, [groups[i] for i in first], context, beside)
    return answers.take(pa.array(numbers, pa.int64()))


async def sem_topk(node: SemTopk, inputs: Sequence[pa.Table], context: AnswerContext) -> Answered:
    """Rank the rows of each group by their scores, and keep the best."""
    (table,) = inputs
    rows_by_group = await row_groups(node.input, node.by, (), table, context.now)
    lefts = [row for rows in rows_by_group for row in rows]
    groups = [group for group, rows in enumerate(rows_by_group) for _ in rows]
    keys = question_keys(node, table, context)
    answers = await _scores(node, table, keys, rows_by_group, context)
    errors, scores = values(answers.column("error")), values(answers.column("score"))
    ranked = sorted(
        (g, -s, left, s) for g, left, s in zip(groups, lefts, scores, strict=True) if s is not None
    )
    best: list[tuple[int, int, float]] = []
    ranks: dict[int, int] = {}
    for group, _, left, score in ranked:
        rank = ranks.get(group, 0)
        ranks[group] = rank + 1
        if rank < node.k:
            best.append((left, rank, score))
    result = table.take(pa.array([left for left, _, _ in best], pa.int64()))
    result = result.append_column("rank", pa.array([r for _, r, _ in best], pa.int64()))
    result = result.append_column("score", pa.array([s for _, _, s in best], pa.float64()))
    return Answered(
        conform(result, runtime_schema(node)),
        failures(node, table, lefts, errors),
        node.on_error == "null",
        evidence(table, lefts, [keys[row].text for row in lefts], answers),
        table.num_rows,
        sources=[(left,) for left, _, _ in best],
        about=[(left,) for left in lefts],
    )


async def _scores(
    node: SemTopk,
    table: pa.Table,
    keys: Sequence[QuestionKey],
    rows_by_group: Sequence[Sequence[int]],
    context: AnswerContext,
) -> pa.Table:
    """The answer for each row of each group. Equal rows of a group are one, and so are groups of
    equal rows.
    """
    kinds, first_rows = dense(keys)
    distinct = [tuple(dict.fromkeys(kinds[row] for row in rows)) for rows in rows_by_group]
    numbers, first = dense(distinct)
    groups = [distinct[i] for i in first]
    answers = await _ask_groups(node, table.take(pa.array(first_rows, pa.int64())), groups, context)
    pairs = ((number, kind) for number, group in enumerate(groups) for kind in group)
    place = {pair: item for item, pair in enumerate(pairs)}
    places = [
        place[number, kinds[row]]
        for number, rows in zip(numbers, rows_by_group, strict=True)
        for row in rows
    ]
    return answers.take(pa.array(places, pa.int64()))
