"""Semantic operators over groups of rows: sem_agg and sem_topk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import compress, groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from semgraph.expr.duckdb import ORDINAL, type_over_groups
from semgraph.expr.scalar import ROWS, from_ast
from semgraph.expr.types import sql_type
from semgraph.logical.node import Node, Sort, column_scalar
from semgraph.logical.relational import Aggregate
from semgraph.logical.semantic import SemAgg, SemTopk
from semgraph.relational.batch import (
    PARTITION,
    Batch,
    conform,
    dense,
    hidden,
    rows_at,
    runtime_schema,
    values,
)
from semgraph.relational.segments import Segment, compile_segment, execute, run_segment
from semgraph.relational.sql import order_sql, quote
from semgraph.semantic import ask
from semgraph.semantic.answers import answer_table
from semgraph.semantic.contract import Item


async def row_groups(
    node: Node, by: Sequence[str], order: tuple[Sort, ...], table: pa.Table, now: datetime | None
) -> list[list[int]]:
    """The rows of each group of a node's input, in some order; groups by their first row."""
    keys = [quote(name) for name in by] + ([PARTITION] if PARTITION in hidden(node) else [])
    first = f"min({ORDINAL}) OVER ({'PARTITION BY ' + ', '.join(keys) if keys else ''})"
    sql = f'SELECT {ORDINAL} AS "#o", {first} AS "#g" FROM {ROWS} ORDER BY "#g", {order_sql(order, node, ORDINAL)}'
    schema = pa.schema([("#o", pa.int64()), ("#g", pa.int64())])
    ordered = await execute(sql, {ROWS: table}, schema, now)
    groups: dict[int, list[int]] = {}
    for row, group in zip(values(ordered.column("#o")), values(ordered.column("#g")), strict=True):
        groups.setdefault(group, []).append(row)
    return list(groups.values())


@lru_cache(maxsize=256)
def _group_segment(node: SemAgg) -> Segment:
    """The segment that computes `when`, `otherwise` and `add` of each group, in this order. Its
    input is the rows of the groups, group by group.
    """
    source, kinds = node.input, {f.name: f.type for f in node.schema}
    wanted = [(s, pa.bool_()) for s in [node.when] if s is not None]
    wanted += [(scalar, kinds[name]) for name, scalar in (*node.otherwise, *node.add)]
    by = tuple((f"#by{i}", column_scalar(name)) for i, name in enumerate(node.by))
    groups = [scalar.sql for _, scalar in by]
    columns = []
    for i, (scalar, kind) in enumerate(wanted):
        own = type_over_groups(scalar, source.schema, groups)
        cast = exp.Cast(this=scalar.ast, to=exp.DataType.build(sql_type(kind), dialect="duckdb"))
        columns.append((f"#{i}", scalar if own == kind else from_ast(cast, scalar.text)))
    root = Aggregate(input=source, by=by, add=tuple(columns), step=node.step, origin=node.origin)
    return compile_segment(root, {source: ROWS})


class RowGroup(NamedTuple):
    """A group of rows."""

    rows: list[int]  # in the order of the question
    first: int  # of them in the input
    asked: bool  # whether the model is asked about it


_Columns = dict[str, Any]


async def _groups(
    node: SemAgg, table: pa.Table, now: datetime | None
) -> tuple[list[RowGroup], _Columns, _Columns]:
    """The groups, and for each group its `otherwise` by answer and its `add` by column."""
    rows_by_group = await row_groups(node.input, node.by, node.order, table, now)
    groups = [RowGroup(rows, min(rows), asked=True) for rows in rows_by_group]
    if node.when is None and not node.otherwise and not node.add:
        return groups, {}, {}
    rows = table.select(runtime_schema(node.input).names)
    sorted_rows = Batch.of_table(rows_at(rows, [row for group in groups for row in group.rows]))
    batch = await run_segment(_group_segment(node), [sorted_rows], now)
    computed = iter([batch.array(name) for name in batch.schema.names if name[1:].isdigit()])
    if node.when is not None:
        holds = values(next(computed))
        groups = [g._replace(asked=bool(when)) for g, when in zip(groups, holds, strict=True)]
    otherwise = {name: next(computed) for name, _ in node.otherwise}
    return groups, otherwise, {name: next(computed) for name, _ in node.add}


async def sem_agg(node: SemAgg, inputs: Sequence[pa.Table], asking: ask.Asking) -> ask.Answered:
    """Answer a question about each group, and return one row per group."""
    (table,) = inputs
    groups, otherwise, add = await _groups(node, table, asking.now)
    asked = [group for group in groups if group.asked]
    is_asked = pa.array([group.asked for group in groups])
    first_rows = rows_at(table, [group.first for group in groups])
    columns: dict[str, Any] = {
        name: first_rows.column(name) for name in (*node.by, *hidden(node)[1:])
    }
    check_input = _check_input(node, columns | add, is_asked)
    keys = ask.question_keys(node, table, asking)
    answers = await _group_answers(node, table, keys, asked, check_input, asking)
    places = [place for place, group in enumerate(groups) if group.asked]
    columns |= ask.answer_columns(node, answers, places, len(groups))
    for name in otherwise if len(asked) < len(groups) else ():
        columns[name] = pc.if_else(is_asked, columns[name], otherwise[name])
    errors, keeps_failed = values(answers.column("error")), node.on_error == "null"
    failed = {group.first for group, error in zip(asked, errors, strict=True) if error is not None}
    stays = [keeps_failed or group.first not in failed for group in groups]
    lefts, input_rows = [group.first for group in asked], Batch.of_table(table).input_rows()
    return ask.Answered(
        conform(pa.table(columns | add).filter(pa.array(stays)), runtime_schema(node)),
        ask.failures(node, table, lefts, errors),
        keeps_failed,
        ask.evidence(table, lefts, [keys[row].text for row in lefts], answers),
        sum(len(group.rows) for group in asked),
        input_rows=[input_rows[row] for group in asked for row in group.rows],
        sources=[tuple(group.rows) for group in compress(groups, stays)],
        about=[tuple(group.rows) for group in asked],
    )


def _check_input(
    node: SemAgg, groups: Mapping[str, Any], is_asked: pa.Array[Any]
) -> pa.Table | None:
    """The columns that the check reads, for the asked groups; None without a check."""
    if node.check is None:
        return None
    columns = {name: column for name, column in groups.items() if name in node.check.roots}
    return pa.table(columns).filter(is_asked) if columns else pa.table({})


async def _group_answers(
    node: SemAgg,
    table: pa.Table,
    keys: Sequence[ask.QuestionKey],
    groups: Sequence[RowGroup],
    check_input: pa.Table | None,
    asking: ask.Asking,
) -> pa.Table:
    """The answer for each group. Groups with equal rows and equal check input share one question."""
    kinds, _ = dense(keys)
    seen = [""] * len(groups)
    if check_input is not None and check_input.num_columns:
        seen = ask.prompt_texts(check_input, check_input.column_names)
    rows = [tuple(kinds[row] for row in group.rows) for group in groups]
    numbers, first = dense(list(zip(rows, seen, strict=True)))
    items = _items([groups[i].rows for i in first])
    check_input = None if check_input is None else rows_at(check_input, first)
    answers = await ask.answer_items(node, table, None, items, asking, check_input=check_input)
    return answer_table(node, [answers[number] for number in numbers])


def _items(groups: Sequence[Sequence[int]]) -> list[Item]:
    """The rows of groups as items."""
    return [Item(row, group=number) for number, rows in enumerate(groups) for row in rows]


async def sem_topk(node: SemTopk, inputs: Sequence[pa.Table], asking: ask.Asking) -> ask.Answered:
    """Rank the rows of each group by their scores, and keep the best."""
    (table,) = inputs
    groups = await row_groups(node.input, node.by, (), table, asking.now)
    items = _items(groups)
    lefts = [item.left for item in items]
    keys = ask.question_keys(node, table, asking)
    answers = await _scores(node, table, keys, groups, asking)
    scores = zip(items, values(answers.column("score")), strict=True)
    ranked = sorted((i.group, -score, i.left) for i, score in scores if score is not None)
    best: list[tuple[int, int, float]] = []
    for _, rows in groupby(ranked, key=itemgetter(0)):
        best += [(row, rank, -less) for rank, (_, less, row) in enumerate(islice(rows, node.k))]
    places = [row for row, _, _ in best]
    result = rows_at(table, places)
    result = result.append_column("rank", pa.array([rank for _, rank, _ in best], pa.int64()))
    result = result.append_column("score", pa.array([score for *_, score in best], pa.float64()))
    return ask.Answered(
        conform(result, runtime_schema(node)),
        ask.failures(node, table, lefts, values(answers.column("error"))),
        node.on_error == "null",
        ask.evidence(table, lefts, [keys[row].text for row in lefts], answers),
        table.num_rows,
        sources=[(row,) for row in places],
        about=[(row,) for row in lefts],
    )


async def _scores(
    node: SemTopk,
    table: pa.Table,
    keys: Sequence[ask.QuestionKey],
    rows_by_group: Sequence[Sequence[int]],
    asking: ask.Asking,
) -> pa.Table:
    """The answer for each row of each group. Equal rows of a group share one question, and so do
    groups with equal rows.
    """
    kinds, first_rows = dense(keys)
    distinct = [tuple(dict.fromkeys(kinds[row] for row in rows)) for rows in rows_by_group]
    items = _items([*dict.fromkeys(distinct)])
    answers = await ask.answer_items(node, rows_at(table, first_rows), None, items, asking)
    numbers, _ = dense(distinct)
    found = {(item.group, item.left): a for item, a in zip(items, answers, strict=True)}
    of_groups = zip(numbers, rows_by_group, strict=True)
    asked = [found[group, kinds[row]] for group, rows in of_groups for row in rows]
    return answer_table(node, asked)
