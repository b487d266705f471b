"""Semantic operators over pairs of rows: sem_join."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any

import pyarrow as pa

from semgraph.expr.duckdb import ORDINAL
from semgraph.expr.scalar import LEFT, RIGHT, ROWS, STEP
from semgraph.logical.node import Node, under, walk
from semgraph.logical.semantic import SemJoin
from semgraph.relational.batch import (
    INPUT_ROW,
    PARTITION,
    conform,
    dense,
    pick,
    runtime_schema,
    values,
)
from semgraph.relational.segments import execute
from semgraph.relational.sql import RIGHT_ORDINAL, join_condition, order_sql, right_side
from semgraph.semantic.ask import (
    AnswerContext,
    Answered,
    ask,
    beside_answers,
    check_texts,
    evidence,
    failures,
    known_partitions,
    prompt_texts,
)


def _matching(left: Sequence[Any], right: Sequence[Any]) -> tuple[list[int], list[int]]:
    """Pairs of row numbers with equal values, in order of left then right; NULL matches nothing."""
    places: dict[Any, list[int]] = {}
    for r, value in enumerate(right):
        places.setdefault(value, []).append(r)
    pairs = [
        (n, r) for n, value in enumerate(left) if None not in value for r in places.get(value, ())
    ]
    return [n for n, _ in pairs], [r for _, r in pairs]


def _keys(table: pa.Table, paths: Sequence[str], partitioned: bool) -> list[Any]:
    columns = [values(pick(table, path)) for path in paths]
    return list(
        zip(*columns, *([values(table.column(PARTITION))] if partitioned else []), strict=True)
    )


async def _pairs(
    node: SemJoin, left: pa.Table, right: pa.Table, now: datetime | None
) -> tuple[list[int], list[int]]:
    both = node.input.partitioned and node.other.partitioned
    plain = all(pa.types.is_string(pick(left, path).type) for path, _ in node.using)
    if node.using and node.where is None and plain:
        rows = _keys(left, [a for a, _ in node.using], both)
        return _matching(rows, _keys(right, [b for _, b in node.using], both))
    names = {node.input: ROWS, node.other: STEP}

    def source(child: Node) -> str:
        return names[child]

    on = join_condition(node.input, node.other, node.alias, node.using, node.where)
    side = right_side(node.other, source, node.alias)
    columns = f"{LEFT}.{ORDINAL} AS l, {RIGHT}.{RIGHT_ORDINAL} AS r"
    sql = f"SELECT {columns} FROM {ROWS} AS {LEFT} JOIN {side} AS {RIGHT} ON {on} ORDER BY 1, 2"
    schema = pa.schema([("l", pa.int64()), ("r", pa.int64())])
    numbers = await execute(sql, {ROWS: left, STEP: right}, schema, now)
    return values(numbers.column("l")), values(numbers.column("r"))


def _of_one_partition(
    node: SemJoin,
    left: pa.Table,
    right: pa.Table,
    pairs: tuple[list[int], list[int]],
    context: AnswerContext,
) -> tuple[list[int], list[int], list[str]]:
    """The pairs of rows of one partition, and the partition of each; a row without a partition
    pairs with rows of all partitions.

    A plan that reads `partition: all` compares rows of all partitions.
    """
    lefts, rights = pairs
    own, other = known_partitions(left, context), known_partitions(right, context)
    if own is None:
        return lefts, rights, [""] * len(lefts) if other is None else [other[b] for b in rights]
    across = any(getattr(node, "partition", "") == "all" for node in walk(node.input, node.other))
    if other is not None and not across:
        same = [(a, b) for a, b in zip(lefts, rights, strict=True) if own[a] == other[b]]
        lefts, rights = [a for a, _ in same], [b for _, b in same]
    return lefts, rights, [own[a] for a in lefts]


async def sem_join(node: SemJoin, inputs: Sequence[pa.Table], context: AnswerContext) -> Answered:
    """Join the pairs of rows whose answer is yes."""
    left, right = inputs[0], inputs[1]
    candidates = await _pairs(node, left, right, context.now) if right.num_rows else ([], [])
    lefts, rights, owners = _of_one_partition(node, left, right, candidates, context)
    left_texts = prompt_texts(left, node.prompt.fields)
    right_texts = prompt_texts(right, node.prompt.other_fields)
    checked = _right_check_texts(node, right)
    sides, sides_first = dense([(right_texts[r], checked[r]) for r in rights])
    distinct_right = right.take(pa.array([rights[i] for i in sides_first], pa.int64()))
    questions = list(zip(left_texts, check_texts(node, left), strict=True))
    keys = [(owner, *questions[row]) for owner, row in zip(owners, lefts, strict=True)]
    answers = await _answers(node, left, distinct_right, (lefts, sides), keys, context)
    errors, match = values(answers.column("error")), values(answers.column("match"))
    keeps_failed = node.on_error == "null"
    dropped = (
        set()
        if keeps_failed
        else {n for n, error in zip(lefts, errors, strict=True) if error is not None}
    )
    chosen = [i for i, matches in enumerate(match) if matches and lefts[i] not in dropped]
    matched = _matched(
        node, inputs, ([lefts[i] for i in chosen], [rights[i] for i in chosen]), answers, chosen
    )
    if node.keep == "one":
        matched = await _first_match(node, matched, context.now)
    result = _assemble(node, left, matched, dropped)
    numbers, first = dense(list(zip(lefts, sides, owners, strict=True)))
    answered = [lefts[i] for i in first]
    answers = answers.take(pa.array(first, pa.int64()))
    return Answered(
        conform(result, runtime_schema(node)),
        failures(node, left, answered, values(answers.column("error"))),
        keeps_failed,
        evidence(
            left,
            answered,
            [left_texts[row] for row in answered],
            answers,
            [right_texts[rights[i]] for i in first],
        ),
        len(first),
        sources=_sources(result, left.num_rows),
        about=_about(lefts, [left.num_rows + right for right in rights], numbers, first),
    )


def _about(
    lefts: Sequence[int], rights: Sequence[int], numbers: Sequence[int], first: Sequence[int]
) -> list[tuple[int, ...]]:
    """The left row of each item and all right rows of its question."""
    about = [[lefts[pair]] for pair in first]
    for number, right in zip(numbers, rights, strict=True):
        about[number].append(right)
    return [tuple(places) for places in about]


def _sources(result: pa.Table, first_right: int) -> list[tuple[int, ...]]:
    """The left row of each row of the result, and the right one where it has one."""
    lefts = values(result.column("_l"))
    if "#right" not in result.column_names:
        return [(left,) for left in lefts]
    pairs = zip(lefts, values(result.column("#right")), strict=True)
    return [(left,) if right is None else (left, first_right + right) for left, right in pairs]


async def _answers(
    node: SemJoin,
    left: pa.Table,
    right: pa.Table,
    pairs: tuple[Sequence[int], Sequence[int]],
    keys: Sequence[tuple[str, str, str]],
    context: AnswerContext,
) -> pa.Table:
    """The answer for each pair of a left row and a distinct right row; pairs with equal prompts are
    one question.

    Args:
        node: The join.
        left: Its left rows.
        right: The distinct right rows.
        pairs: The left and the right row of each pair.
        keys: For each pair the partition and what the prompt and the check read of the left row: a
            left row without a partition is one row for each partition that it is compared with.
        context: The context.
    """
    kinds, first = dense(keys)  # equal left rows are one
    questions = list(zip(kinds, pairs[1], strict=True))
    distinct = sorted(dict.fromkeys(questions), key=itemgetter(0))  # by left row
    items = pa.table(
        {
            "left": pa.array([kind for kind, _ in distinct], pa.int64()),
            "right": pa.array([side for _, side in distinct], pa.int64()),
        }
    )
    rows = left.take(pa.array([pairs[0][i] for i in first], pa.int64()))
    owners = [keys[i][0] for i in first]
    beside = _beside(node, rows, right, items)
    answers = await ask(node, rows, right, items, context, owners=owners, beside=beside)
    place = {question: item for item, question in enumerate(distinct)}
    return answers.take(pa.array([place[question] for question in questions], pa.int64()))


def _right_check_texts(node: SemJoin, right: pa.Table) -> list[str]:
    """The columns that the join's check reads of each right row, as JSON."""
    if node.check is None or node.alias not in node.check.roots:
        return [""] * right.num_rows
    paths = frozenset(path for scalar in node.check.scalars for path in scalar.fields)
    return prompt_texts(right, sorted(under(paths, node.alias) or right.column_names))


def _beside(node: SemJoin, left: pa.Table, right: pa.Table, items: pa.Table) -> pa.Table | None:
    """What the join's check reads of both rows of each item; None without a check."""
    lefts, rights = (
        side.take(items.column(name)) for side, name in ((left, "left"), (right, "right"))
    )
    beside = beside_answers(node, lefts)
    if beside is None or node.check is None or node.alias not in node.check.roots:
        return beside
    columns = dict(zip(beside.column_names, beside.columns, strict=True))
    return pa.table({**columns, node.alias: _right_rows(node, rights)})


def _right_rows(node: SemJoin, right: pa.Table) -> pa.StructArray:
    """Right rows as structs."""
    fields = [f for f in node.other.schema if node.fields is None or f.name in node.fields]
    arrays = [right.column(f.name).combine_chunks() for f in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _matched(
    node: SemJoin,
    inputs: Sequence[pa.Table],
    pairs: tuple[list[int], list[int]],
    answers: pa.Table,
    items: list[int],
) -> pa.Table:
    """The matching pairs as rows: left columns, the struct `alias`, the answers, and `_l` and `#right`,
    the numbers of both rows.
    """
    left, right = inputs
    result = left.take(pa.array(pairs[0], pa.int64()))
    other = right.take(pa.array(pairs[1], pa.int64())).combine_chunks()
    result = result.append_column(node.alias, _right_rows(node, other))
    for name in _hidden_of_right(node):
        result = result.append_column(name, other.column(name))
    for f in node.answer_fields():
        result = result.append_column(
            f, answers.column(f.name).combine_chunks().take(pa.array(items, pa.int64()))
        )
    for name, places in zip(("_l", "#right"), pairs, strict=True):
        result = result.append_column(name, pa.array(places, pa.int64()))
    return result


def _hidden_of_right(node: SemJoin) -> tuple[str, ...]:
    """The hidden columns that a pair takes from its right row, if left rows have none."""
    return (PARTITION, INPUT_ROW) if node.partitioned and not node.input.partitioned else ()


async def _first_match(node: SemJoin, matched: pa.Table, now: datetime | None) -> pa.Table:
    keys = ["_l", *_hidden_of_right(node)[:1]]
    if not node.order:
        _, first = dense(list(zip(*(values(matched.column(name)) for name in keys), strict=True)))
        return matched.take(pa.array(first, pa.int64()))
    over = f"PARTITION BY {', '.join(keys)} ORDER BY {order_sql(node.order, node, ORDINAL)}"
    sql = f"SELECT {ORDINAL} AS o FROM {ROWS} QUALIFY row_number() OVER ({over}) = 1 ORDER BY {ORDINAL}"
    rows = await execute(sql, {ROWS: matched}, pa.schema([("o", pa.int64())]), now)
    return matched.take(rows.column("o").combine_chunks())


def _assemble(node: SemJoin, left: pa.Table, joined: pa.Table, dropped: set[int]) -> pa.Table:
    """The result of the join by its `how`, from the matching pairs; with the numbers of its rows."""
    matched = set(values(joined.column("_l")))
    answered = [i for i in range(left.num_rows) if i not in dropped]
    if node.how in {"semi", "anti"}:
        return _numbered(left, [i for i in answered if (i in matched) == (node.how == "semi")])
    if node.how == "left":
        unmatched = _numbered(left, [i for i in answered if i not in matched])
        joined = pa.concat_tables([joined, unmatched], promote_options="default").sort_by("_l")
    return joined


def _numbered(left: pa.Table, places: list[int]) -> pa.Table:
    """Some left rows with their numbers."""
    numbers = pa.array(places, pa.int64())
    return left.take(numbers).append_column("_l", numbers)
