"""Semantic operators over pairs of rows: sem_join."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, NamedTuple

import pyarrow as pa

from semgraph.expr.duckdb import ORDINAL
from semgraph.expr.scalar import LEFT, RIGHT, ROWS, STEP
from semgraph.logical.node import under, walk
from semgraph.logical.semantic import SemJoin
from semgraph.relational.batch import (
    INPUT_ROW,
    PARTITION,
    conform,
    dense,
    pick,
    rows_at,
    runtime_schema,
    values,
)
from semgraph.relational.segments import execute
from semgraph.relational.sql import RIGHT_ORDINAL, join_condition, order_sql, right_side
from semgraph.semantic import ask
from semgraph.semantic.answers import answer_table
from semgraph.semantic.contract import Item


class Pair(NamedTuple):
    """A candidate pair."""

    left: int  # a row number
    right: int  # a row number
    owner: str  # the partition in which both rows are compared
    question: int = -1  # its number; pairs with equal texts share one


async def sem_join(node: SemJoin, inputs: Sequence[pa.Table], asking: ask.Asking) -> ask.Answered:
    """Join the pairs of rows whose answer is yes."""
    left, right = inputs[0], inputs[1]
    candidates = await _pairs(node, left, right, asking)
    texts, others = _texts(node, left, right)
    pairs, answers = await _answers(node, inputs, candidates, (texts, others), asking)
    errors, match = values(answers.column("error")), values(answers.column("match"))
    keeps_failed = node.on_error == "null"
    failed = () if keeps_failed else (pair for pair in pairs if errors[pair.question] is not None)
    dropped = {pair.left for pair in failed}
    chosen = [pair for pair in pairs if match[pair.question] and pair.left not in dropped]
    matched = _matched(node, inputs, chosen, answers)
    if node.keep == "one":
        matched = await _first_match(node, matched, asking.now)
    result = _assemble(node, left, matched, dropped)
    # An item of the evidence is a left row with all right rows of the same question.
    items: dict[tuple[int, int], list[Pair]] = {}
    for pair in pairs:
        items.setdefault((pair.left, pair.question), []).append(pair)
    lefts = [row for row, _ in items]
    answers = rows_at(answers, [question for _, question in items])
    rights = [others[own[0].right][0] for own in items.values()]
    return ask.Answered(
        conform(result, runtime_schema(node)),
        ask.failures(node, left, lefts, values(answers.column("error"))),
        keeps_failed,
        ask.evidence(left, lefts, [texts[row][0] for row in lefts], answers, rights),
        len(items),
        sources=_sources(result, left.num_rows),
        about=[
            (own[0].left, *(left.num_rows + pair.right for pair in own)) for own in items.values()
        ],
    )


async def _pairs(node: SemJoin, left: pa.Table, right: pa.Table, asking: ask.Asking) -> list[Pair]:
    """The candidate pairs, ordered by left row, then by right row. A row without a partition pairs
    with rows of all partitions; so do all rows in a plan that reads `partition: all`.
    """
    found = await _joined(node, left, right, asking.now) if right.num_rows else []
    own, other = ask.known_partitions(left, asking), ask.known_partitions(right, asking)
    if own is None:
        return [Pair(a, b, "" if other is None else other[b]) for a, b in found]
    pairs = [Pair(a, b, own[a]) for a, b in found]
    if other is None or all(own[a] == other[b] for a, b in found):
        return pairs
    if any(getattr(node, "partition", "") == "all" for node in walk(node.input, node.other)):
        return pairs
    return [pair for pair in pairs if pair.owner == other[pair.right]]


async def _joined(
    node: SemJoin, left: pa.Table, right: pa.Table, now: datetime | None
) -> list[tuple[int, int]]:
    """The pairs of row numbers for which the join's condition holds."""
    both = node.input.windowed and node.other.windowed
    plain = all(pa.types.is_string(pick(left, path).type) for path, _ in node.using)
    if node.using and node.where is None and plain:
        places: dict[Any, list[int]] = {}
        for row, key in enumerate(_keys(right, [path for _, path in node.using], both)):
            places.setdefault(key, []).append(row)
        lefts = enumerate(_keys(left, [path for path, _ in node.using], both))
        return [(row, b) for row, key in lefts if None not in key for b in places.get(key, ())]
    names = {node.input: ROWS, node.other: STEP}
    on = join_condition(node.input, node.other, node.alias, node.using, node.where)
    side = right_side(node.other, names.__getitem__, node.alias)
    columns = f"{LEFT}.{ORDINAL} AS l, {RIGHT}.{RIGHT_ORDINAL} AS r"
    sql = f"SELECT {columns} FROM {ROWS} AS {LEFT} JOIN {side} AS {RIGHT} ON {on} ORDER BY 1, 2"
    schema = pa.schema([("l", pa.int64()), ("r", pa.int64())])
    numbers = await execute(sql, {ROWS: left, STEP: right}, schema, now)
    return list(zip(values(numbers.column("l")), values(numbers.column("r")), strict=True))


def _keys(table: pa.Table, paths: Sequence[str], windowed: bool) -> Iterator[tuple[Any, ...]]:
    """For each row the values that both sides of a pair must share."""
    columns = [values(pick(table, path)) for path in paths]
    return zip(*columns, *([values(table.column(PARTITION))] if windowed else []), strict=True)


_Texts = list[tuple[str, str]]


def _texts(node: SemJoin, left: pa.Table, right: pa.Table) -> tuple[_Texts, _Texts]:
    """For each left and each right row the columns that the prompt and the check read, as JSON."""
    lefts = zip(
        ask.prompt_texts(left, node.prompt.fields), ask.check_texts(node, left), strict=True
    )
    others = ask.prompt_texts(right, node.prompt.other_fields)
    return list(lefts), list(zip(others, _right_check_texts(node, right), strict=True))


def _sources(result: pa.Table, first_right: int) -> list[tuple[int, ...]]:
    """For each row of the result its left row and, if any, its right row."""
    lefts = values(result.column("_l"))
    if "#right" not in result.column_names:
        return [(left,) for left in lefts]
    pairs = zip(lefts, values(result.column("#right")), strict=True)
    return [(left,) if right is None else (left, first_right + right) for left, right in pairs]


async def _answers(
    node: SemJoin,
    inputs: Sequence[pa.Table],
    pairs: Sequence[Pair],
    texts: tuple[_Texts, _Texts],
    asking: ask.Asking,
) -> tuple[list[Pair], pa.Table]:
    """The pairs with their questions, and the answer to each question. Pairs with equal texts for
    prompt and check share one. A left row without a partition counts as one row per partition with
    which it is compared.
    """
    lefts, first_left = dense([(pair.owner, *texts[0][pair.left]) for pair in pairs])
    rights, first_right = dense([texts[1][pair.right] for pair in pairs])
    sides = list(zip(lefts, rights, strict=True))
    questions = sorted(dict.fromkeys(sides), key=itemgetter(0))  # by left row
    items = [Item(*question) for question in questions]
    left = rows_at(inputs[0], [pairs[i].left for i in first_left])
    right = rows_at(inputs[1], [pairs[i].right for i in first_right])
    owners = [pairs[i].owner for i in first_left]
    check_input = _check_input(node, left, right, items)
    answers = await ask.answer_items(
        node, left, right, items, asking, owners=owners, check_input=check_input
    )
    number = {question: i for i, question in enumerate(questions)}
    asked = zip(pairs, sides, strict=True)
    pairs = [pair._replace(question=number[question]) for pair, question in asked]
    return list(pairs), answer_table(node, answers)


def _right_check_texts(node: SemJoin, right: pa.Table) -> list[str]:
    """For each right row the columns that the join's check reads, as JSON."""
    if node.check is None or node.alias not in node.check.roots:
        return [""] * right.num_rows
    paths = frozenset(path for scalar in node.check.scalars for path in scalar.fields)
    return ask.prompt_texts(right, sorted(under(paths, node.alias) or right.column_names))


def _check_input(
    node: SemJoin, left: pa.Table, right: pa.Table, items: Sequence[Item]
) -> pa.Table | None:
    """The columns that the join's check reads, one row per item; None without a check."""
    if node.check is None:
        return None
    check_input = ask.check_input_of(node, rows_at(left, [item.left for item in items]))
    if check_input is None or node.alias not in node.check.roots:
        return check_input
    columns = dict(zip(check_input.column_names, check_input.columns, strict=True))
    rights = rows_at(right, [item.right for item in items])
    return pa.table({**columns, node.alias: _right_rows(node, rights)})


def _right_rows(node: SemJoin, right: pa.Table) -> pa.StructArray:
    """Right rows as structs."""
    fields = [f for f in node.other.schema if node.fields is None or f.name in node.fields]
    arrays = [right.column(f.name).combine_chunks() for f in fields]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _matched(
    node: SemJoin, inputs: Sequence[pa.Table], pairs: Sequence[Pair], answers: pa.Table
) -> pa.Table:
    """Matching pairs as rows: left columns, the struct `alias`, the answers, and the row numbers
    `_l` and `#right`.
    """
    answers = rows_at(answers, [pair.question for pair in pairs])
    places = {"_l": [pair.left for pair in pairs], "#right": [pair.right for pair in pairs]}
    result, other = (rows_at(t, rows) for t, rows in zip(inputs, places.values(), strict=True))
    result = result.append_column(node.alias, _right_rows(node, other))
    for name in _hidden_of_right(node):
        result = result.append_column(name, other.column(name))
    for f in node.answer_fields():
        result = result.append_column(f, answers.column(f.name))
    for name, numbers in places.items():
        result = result.append_column(name, pa.array(numbers, pa.int64()))
    return result


def _hidden_of_right(node: SemJoin) -> tuple[str, ...]:
    """The hidden columns that a pair takes from its right row because left rows lack them."""
    return (PARTITION, INPUT_ROW) if node.windowed and not node.input.windowed else ()


async def _first_match(node: SemJoin, matched: pa.Table, now: datetime | None) -> pa.Table:
    keys = ["_l", *_hidden_of_right(node)[:1]]
    _, first = dense(list(zip(*(values(matched.column(name)) for name in keys), strict=True)))
    if not node.order or len(first) == matched.num_rows:
        return rows_at(matched, first)
    over = f"PARTITION BY {', '.join(keys)} ORDER BY {order_sql(node.order, node, ORDINAL)}"
    sql = f"SELECT {ORDINAL} AS o FROM {ROWS} QUALIFY row_number() OVER ({over}) = 1 ORDER BY {ORDINAL}"
    rows = await execute(sql, {ROWS: matched}, pa.schema([("o", pa.int64())]), now)
    return rows_at(matched, values(rows.column("o")))


def _assemble(node: SemJoin, left: pa.Table, joined: pa.Table, dropped: set[int]) -> pa.Table:
    """The result of the join by its `how`, from the matching pairs, with row numbers."""
    matched = set(values(joined.column("_l")))
    answered = [i for i in range(left.num_rows) if i not in dropped]
    if node.how in {"semi", "anti"}:
        return _numbered(left, [i for i in answered if (i in matched) == (node.how == "semi")])
    if node.how == "left":
        unmatched = _numbered(left, [i for i in answered if i not in matched])
        joined = pa.concat_tables([joined, unmatched], promote_options="default").sort_by("_l")
    return joined


def _numbered(left: pa.Table, places: list[int]) -> pa.Table:
    """The left rows at `places`, with their row numbers."""
    return rows_at(left, places).append_column("_l", pa.array(places, pa.int64()))
