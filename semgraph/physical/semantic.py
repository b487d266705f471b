"""Semantic operators: what is asked about, and what becomes of the answers.

The engine makes the items (rows, pairs, groups), hands them to an implementation, checks what it returns, and puts the result
together. An implementation never sees `how`, `keep` or `on_error`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import singledispatch
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semgraph.errors import EngineError
from semgraph.expr.binder import ORDINAL
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import sql_type
from semgraph.logical.node import Node
from semgraph.logical.prompt import PromptSet, plain
from semgraph.logical.semantic import SemAgg, Semantic, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.physical.columns import values
from semgraph.physical.contract import Context, Implementation, Rows
from semgraph.physical.relational import conform, execute, runtime_schema
from semgraph.physical.sql import MEMBER, PARTITION, hidden, join_condition, order_sql, quote, right_side, scalar_sql


@dataclass(frozen=True)
class Failure:
    """A row whose answer could not be had. `member` is its member row of the order's input, if it has one."""

    step: str
    error: str
    member: int | None
    row: dict[str, Any]


@dataclass(frozen=True)
class Answered:
    """What a semantic operator gave.

    Args:
        table: The result, with hidden columns.
        failures: Rows that were left out, or kept with NULLs if `kept`.
        kept: Whether failed rows stayed (`on_error: null`).
        evidence: What was asked and answered, an item a row: `_m`, `left` and `right` (JSON of what the prompt read), the
            answers, `error`, `calls`.
        rows_in: How many rows (for sem_join: pairs) were asked about.
    """

    table: pa.Table
    failures: tuple[Failure, ...] = ()
    kept: bool = False
    evidence: pa.Table | None = None
    rows_in: int = 0


@dataclass(frozen=True)
class Asking:
    """What an operator needs to be answered: the way, what it may touch, the partition values by `_p`, and `$now`."""

    way: Implementation[Any]
    ctx: Context
    partitions: Sequence[str]
    partition_column: str
    now: datetime | None
    check: Any = field(repr=False)  # framing.check_answer


async def answer(node: Semantic, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    """Run one semantic operator over its inputs."""
    if not inputs[0].num_rows:
        return Answered(runtime_schema(node).empty_table())
    return await _answer(node, inputs, asking)


def pick(table: pa.Table, path: str) -> pa.ChunkedArray[Any]:
    """A column, or a field of a struct column."""
    root, *rest = path.split(".")
    column = table.column(root)
    return pc.struct_field(column, rest) if rest else column


def _flat(table: pa.Table, paths: Sequence[str]) -> pa.Table:
    if not paths:
        return table.select([])
    return pa.table({path: pick(table, path) for path in paths})


def _whose(table: pa.Table, asking: Asking) -> list[str]:
    if PARTITION in table.column_names:
        return [asking.partitions[i] for i in values(table.column(PARTITION))]
    name = asking.partition_column
    if name in table.column_names and table.schema.field(name).type == pa.string():
        return [value or "" for value in values(table.column(name))]
    return [""] * table.num_rows


def _prompts(table: pa.Table, prompts: PromptSet) -> list[int | None]:
    if not prompts.by:
        return [0] * table.num_rows
    everything = prompts.all
    found: list[int | None] = []
    for value in values(pick(table, prompts.by)):
        prompt = prompts.pick(value)
        found.append(None if prompt is None else next(i for i, p in enumerate(everything) if p is prompt))
    return found


async def _ask(node: Semantic, left: pa.Table, right: pa.Table | None, items: pa.Table, asking: Asking) -> pa.Table:
    """Hand items to the implementation and check what comes back: every item once, in order."""
    prompts = _prompts(left, node.prompt)
    if None in prompts:
        row = prompts.index(None)
        value = pick(left, node.prompt.by)[row].as_py()
        there = ", ".join(v for v, _ in node.prompt.prompts)
        msg = f'step {node.step}: no prompt for {node.prompt.by} "{value}"; there are: {there}. Add otherwise: to the prompt'
        raise EngineError(msg)
    other = None if right is None else _flat(right, node.prompt.other_fields)
    numbers = [p for p in prompts if p is not None]
    rows = Rows(_flat(left, node.prompt.fields), other, items, _whose(left, asking), numbers)
    if not items.num_rows:
        from semgraph.physical.contract import answer_schema

        return answer_schema(node).empty_table()
    table = await asking.way.answer(node, rows, asking.ctx)
    asking.check(node, rows, table)
    return table.sort_by("item")


def _record(table: pa.Table, paths: Sequence[str], index: Sequence[int]) -> list[str]:
    rows = _flat(table, paths).to_pylist() if paths else [{}] * table.num_rows
    shown = [canonical_json(plain(row)) for row in rows]
    return [shown[i] for i in index]


def _evidence(
    node: Semantic, left: pa.Table, lefts: Sequence[int], answers: pa.Table, rights: Sequence[str]
) -> pa.Table:
    members: list[int | None] = values(left.column(MEMBER)) if MEMBER in left.column_names else [None] * left.num_rows
    columns: dict[str, Any] = {
        MEMBER: pa.array([members[i] for i in lefts], pa.int64()),
        "left": pa.array(_record(left, node.prompt.fields, lefts), pa.string()),
        "right": pa.array(list(rights), pa.string()) if rights else pa.nulls(len(lefts), pa.string()),
    }
    return pa.table(columns | {name: answers.column(name) for name in answers.column_names if name != "item"})


def _failures(
    node: Semantic, left: pa.Table, lefts: Sequence[int], errors: Sequence[str | None]
) -> tuple[Failure, ...]:
    found = []
    for i, error in zip(lefts, errors, strict=True):
        if error is not None:
            row = left.slice(i, 1).to_pylist()[0]
            member = row.pop(MEMBER, None)
            row.pop(PARTITION, None)
            found.append(Failure(node.step, error, member, plain(row)))
    return tuple(found)


@singledispatch
async def _answer(node: Semantic, inputs: Sequence[pa.Table], asking: Asking) -> Answered:  # noqa: ARG001
    raise EngineError(f"the engine cannot put together the answers of {node.keyword}")


async def _column(sql: str, name: str, kind: pa.DataType, table: pa.Table, now: datetime | None) -> pa.Array[Any]:
    text = f"SELECT {sql} AS {quote(name)} FROM t ORDER BY {ORDINAL}"
    schema = pa.schema([pa.field(name, kind)])
    return (await execute(text, {"t": table}, schema, now)).column(0).combine_chunks()


@_answer.register
async def _(node: SemMap, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    (table,) = inputs
    asked = np.ones(table.num_rows, bool)
    if node.when is not None:
        when = await _column(scalar_sql(node.when, node.partitioned), "asked", pa.bool_(), table, asking.now)
        asked = np.asarray([bool(x) for x in values(when)])
    index = np.flatnonzero(asked)
    left = table.take(index)
    items = pa.table({"left": pa.array(np.arange(len(index)))})
    answers = await _ask(node, left, None, items, asking)
    errors = values(answers.column("error"))
    place = np.full(table.num_rows, -1)
    place[index] = np.arange(len(index))
    taken = pa.array([None if p < 0 else int(p) for p in place], pa.int64())
    otherwise = dict(node.otherwise)
    columns: dict[str, Any] = {name: table.column(name) for name in table.column_names}
    for f in node.answer_fields():
        column = answers.column(f.name).combine_chunks().take(taken)
        if f.name in otherwise and len(index) < table.num_rows:
            sql = f"CAST({scalar_sql(otherwise[f.name], node.partitioned)} AS {sql_type(f.type)})"
            rest = await _column(sql, f.name, f.type, table, asking.now)
            column = pc.if_else(pa.array(asked), column, rest)
        columns[f.name] = column
    found = pa.table(columns)
    failed = np.zeros(table.num_rows, bool)
    failed[index[[e is not None for e in errors]]] = True
    kept = node.on_error == "null"
    result = found if kept or not failed.any() else found.filter(pa.array(~failed))
    return Answered(
        conform(result, runtime_schema(node)),
        _failures(node, left, range(len(errors)), errors),
        kept,
        _evidence(node, left, range(len(errors)), answers, ()),
        len(index),
    )


@_answer.register
async def _(node: SemFilter, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    (table,) = inputs
    items = pa.table({"left": pa.array(np.arange(table.num_rows))})
    answers = await _ask(node, table, None, items, asking)
    errors = values(answers.column("error"))
    kept = node.on_error == "null"
    keep = [kept if answer is None else bool(answer) for answer in values(answers.column("keep"))]
    return Answered(
        conform(table.filter(pa.array(keep)), runtime_schema(node)),
        _failures(node, table, range(len(errors)), errors),
        kept,
        _evidence(node, table, range(len(errors)), answers, ()),
        table.num_rows,
    )


async def _pairs(node: SemJoin, left: pa.Table, right: pa.Table, now: datetime | None) -> tuple[list[int], list[int]]:
    names = {id(node.input): "l0", id(node.other): "r0"}

    def source(child: Node) -> str:
        return names[id(child)]

    on = join_condition(node.input, node.other, node.alias, node.using, node.where)
    side = right_side(node.other, source, node.alias)
    sql = f"SELECT _l.{ORDINAL} AS l, _r._ro AS r FROM l0 AS _l JOIN {side} AS _r ON {on} ORDER BY 1, 2"
    schema = pa.schema([("l", pa.int64()), ("r", pa.int64())])
    found = await execute(sql, {"l0": left, "r0": right}, schema, now)
    return values(found.column("l")), values(found.column("r"))


def _dense(values: Sequence[Any]) -> tuple[list[int], list[int]]:
    """For each value its number in order of first appearance, and where each number first appears."""
    seen: dict[Any, int] = {}
    first: list[int] = []
    numbers = []
    for i, value in enumerate(values):
        if value not in seen:
            seen[value] = len(first)
            first.append(i)
        numbers.append(seen[value])
    return numbers, first


@_answer.register
async def _(node: SemJoin, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    left, right = inputs[0], inputs[1]
    lefts, rights = await _pairs(node, left, right, asking.now) if right.num_rows else ([], [])
    asked, asked_first = _dense(lefts)  # left rows with candidates
    shown = _record(right, node.prompt.other_fields, range(right.num_rows))
    sides, sides_first = _dense([shown[r] for r in rights])  # equal right rows are one
    items, items_first = _dense(list(zip(asked, sides, strict=True)))
    left_asked = left.take(pa.array([lefts[i] for i in asked_first], pa.int64()))
    right_asked = right.take(pa.array([rights[i] for i in sides_first], pa.int64()))
    pairs = pa.table(
        {
            "left": pa.array([asked[i] for i in items_first], pa.int64()),
            "right": pa.array([sides[i] for i in items_first], pa.int64()),
        }
    )
    answers = await _ask(node, left_asked, right_asked, pairs, asking)
    errors, match = values(answers.column("error")), values(answers.column("match"))
    failed_lefts = {lefts[i] for i, item in enumerate(items) if errors[item] is not None}
    kept = node.on_error == "null"
    dropped = set() if kept else failed_lefts
    chosen = [i for i, item in enumerate(items) if match[item] and lefts[i] not in dropped]
    found = _matched(
        node, inputs, ([lefts[i] for i in chosen], [rights[i] for i in chosen]), answers, [items[i] for i in chosen]
    )
    if node.keep == "one":
        found = await _first_match(node, found, asking.now)
    result = _assemble(node, left, found, dropped)
    evidence_left = [lefts[items_first[i]] for i in range(len(items_first))]
    return Answered(
        conform(result, runtime_schema(node)),
        _failures(node, left, evidence_left, errors),
        kept,
        _evidence(node, left, evidence_left, answers, [shown[rights[i]] for i in items_first]),
        len(items_first),
    )


def _matched(
    node: SemJoin,
    inputs: Sequence[pa.Table],
    pairs: tuple[list[int], list[int]],
    answers: pa.Table,
    items: list[int],
) -> pa.Table:
    """The matching pairs as rows: left columns, the struct `alias`, the answers, and `_l`, the left row's number."""
    left, right = inputs
    taken = left.take(pa.array(pairs[0], pa.int64()))
    other = right.take(pa.array(pairs[1], pa.int64())).combine_chunks()
    names = node.other.schema.names
    arrays = [other.column(name).combine_chunks() for name in names]
    struct = pa.StructArray.from_arrays(arrays, fields=list(node.other.schema))
    taken = taken.append_column(node.alias, struct)
    for f in node.answer_fields():
        taken = taken.append_column(f, answers.column(f.name).combine_chunks().take(pa.array(items, pa.int64())))
    return taken.append_column("_l", pa.array(pairs[0], pa.int64()))


async def _first_match(node: SemJoin, found: pa.Table, now: datetime | None) -> pa.Table:
    if not node.order:
        _, first = _dense(values(found.column("_l")))
        return found.take(pa.array(first, pa.int64()))
    over = f"PARTITION BY _l ORDER BY {order_sql(node.order, node, ORDINAL)}"
    sql = f"SELECT {ORDINAL} AS o FROM t QUALIFY row_number() OVER ({over}) = 1 ORDER BY {ORDINAL}"
    rows = await execute(sql, {"t": found}, pa.schema([("o", pa.int64())]), now)
    return found.take(rows.column("o").combine_chunks())


def _assemble(node: SemJoin, left: pa.Table, found: pa.Table, dropped: set[int]) -> pa.Table:
    """What `how` makes of the matching pairs."""
    matched = set(values(found.column("_l")))
    everyone = [i for i in range(left.num_rows) if i not in dropped]
    if node.how in {"semi", "anti"}:
        return left.take(pa.array([i for i in everyone if (i in matched) == (node.how == "semi")], pa.int64()))
    if node.how == "left":
        rest = [i for i in everyone if i not in matched]
        alone = left.take(pa.array(rest, pa.int64())).append_column("_l", pa.array(rest, pa.int64()))
        found = pa.concat_tables([found, alone], promote_options="default").sort_by("_l")
    return found.drop_columns("_l")


async def _groups(node: SemAgg | SemTopk, by: Sequence[str], table: pa.Table, now: datetime | None) -> pa.Table:
    """Row numbers `o` and group numbers `g` (in order of first appearance), rows of a group in the node's order."""
    keys = [quote(name) for name in by] + ([PARTITION] if PARTITION in hidden(node.input) else [])
    first = f"min({ORDINAL}) OVER ({'PARTITION BY ' + ', '.join(keys) if keys else ''})"
    order = order_sql(getattr(node, "order", ()), node.input, ORDINAL)
    sql = f"SELECT {ORDINAL} AS o, {first} AS g FROM t ORDER BY g, {order}"
    found = await execute(sql, {"t": table}, pa.schema([("o", pa.int64()), ("g", pa.int64())]), now)
    numbers, _ = _dense(values(found.column("g")))
    return pa.table({"group": pa.array(numbers, pa.int64()), "left": found.column("o").combine_chunks()})


@_answer.register
async def _(node: SemAgg, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    (table,) = inputs
    items = await _groups(node, node.by, table, asking.now)
    groups, lefts = values(items.column("group")), values(items.column("left"))
    _, first = _dense(groups)
    sizes = np.bincount(np.asarray(groups))
    single = sizes == 1 if node.alone else np.zeros(len(sizes), bool)
    renumber = {int(g): n for n, g in enumerate(np.flatnonzero(~single))}
    rows = [(renumber[g], left) for g, left in zip(groups, lefts, strict=True) if not single[g]]
    part = pa.table(
        {"group": pa.array([g for g, _ in rows], pa.int64()), "left": pa.array([i for _, i in rows], pa.int64())}
    )
    answers = await _ask(node, table, None, part, asking)
    errors = values(answers.column("error"))
    heads = [min(left for g2, left in zip(groups, lefts, strict=True) if g2 == g) for g in range(len(sizes))]
    taken = table.take(pa.array(heads, pa.int64()))
    columns: dict[str, Any] = {name: taken.column(name) for name in (*node.by, *hidden(node)[1:])}
    place = pa.array([renumber.get(g) for g in range(len(sizes))], pa.int64())
    for f in node.answer_fields():
        column = answers.column(f.name).combine_chunks().take(place)
        if single.any():
            sql = f"CAST({scalar_sql(dict(node.alone)[f.name], node.partitioned)} AS {sql_type(f.type)})"
            column = pc.if_else(pa.array(single), await _column(sql, f.name, f.type, taken, asking.now), column)
        columns[f.name] = column
    failed = np.asarray([g in renumber and errors[renumber[g]] is not None for g in range(len(sizes))])
    kept = node.on_error == "null"
    result = pa.table(columns)
    if failed.any() and not kept:
        result = result.filter(pa.array(~failed))
    asked = [heads[g] for g in renumber]
    _ = first
    return Answered(
        conform(result, runtime_schema(node)),
        _failures(node, table, asked, errors),
        kept,
        _evidence(node, table, asked, answers, ()),
        len(rows),
    )


@_answer.register
async def _(node: SemTopk, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    (table,) = inputs
    items = await _groups(node, node.per, table, asking.now)
    answers = await _ask(node, table, None, items, asking)
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
        _failures(node, table, lefts, errors),
        node.on_error == "null",
        _evidence(node, table, lefts, answers, ()),
        table.num_rows,
    )
