"""Asking about rows one by one: equal rows once, and, where a limit above has enough, no further than that."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semgraph.expr.binder import ORDINAL
from semgraph.expr.names import ROWS
from semgraph.logical.checks import Stop
from semgraph.logical.semantic import SemFilter, SemMap
from semgraph.physical.columns import dense, values
from semgraph.physical.contract import Implementation, RowEstimate, answer_schema
from semgraph.physical.estimating import estimated
from semgraph.physical.relational import execute
from semgraph.physical.semantic.asking import Asking, ask, told_apart
from semgraph.physical.sql import PARTITION, hidden, order_sql, quote

Flags = npt.NDArray[np.bool_]
Through = Callable[[pa.Table], Awaitable[tuple[pa.Table, Sequence[int]]]]


@dataclass(frozen=True)
class Told:
    """What was asked of a relation.

    Args:
        asked: The numbers of the rows that were asked about, ascending.
        answers: Their answers, in that order.
        reached: For each row of the relation, whether it was looked at: all, unless a limit had enough before.
    """

    asked: Sequence[int]
    answers: pa.Table
    reached: Flags


async def ask_rows(node: SemMap | SemFilter, table: pa.Table, wanted: Flags, asking: Asking) -> Told:
    """Ask about the wanted rows of a relation; of those that `node.stop` needs no more, about none."""
    if node.stop is None:
        index = [int(i) for i in np.flatnonzero(wanted)]
        if asking.known is None:
            answers_of = await _distinct(node, table, index, asking)
        else:
            answers_of = _together(node, await _unless_known(node, table, index, asking, asking.known))
        return Told(index, answers_of, np.ones(table.num_rows, bool))
    queues = await _queues(node, node.stop, table, asking.now)
    at_once = rows_a_call(node, table.num_rows, asking.way)
    keys: Sequence[object] = told_apart(node, table, asking) if at_once > 1 else range(table.num_rows)
    questions = [key if asked else None for key, asked in zip(keys, wanted, strict=True)]
    reached = np.zeros(table.num_rows, bool)
    answers: dict[int, pa.Table] = {}
    known = {} if asking.known is None else asking.known
    while chunk := [row for queue in queues for row in queue.take(at_once, node.stop.n, questions, known)]:
        reached[chunk] = True
        index = sorted(row for row in chunk if wanted[row])
        found = await _unless_known(node, table, index, asking, known)
        answers |= dict(zip(index, found, strict=True))
        stays = {row: _stays(node, answer) for row, answer in zip(index, found, strict=True)}
        for queue in queues:
            queue.settle({row: stays.get(row, True) for row in queue.taken})
    asked = sorted(answers)
    return Told(asked, _together(node, [answers[row] for row in asked]), reached)


def _together(node: SemMap | SemFilter, answers: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(answers) if answers else answer_schema(node).empty_table()


async def in_chunks(
    node: SemMap | SemFilter, stop: Stop, table: pa.Table, at_once: int, now: datetime | None, through: Through
) -> pa.Table:
    """Give the rows of a relation to stacked operators, of which `node` is the lowest, until enough come through.

    Args:
        node: Whose input they are.
        stop: When it is enough.
        table: The relation.
        at_once: How many rows fill a call.
        now: `$now`.
        through: Gives what the uppermost operator makes of some of the rows, and which of these are in it.

    Returns:
        What came through, in the order of the relation.
    """
    queues = await _queues(node, stop, table, now)
    pieces, places = [(await through(table.slice(0, 0)))[0]], list[int]()
    while chunk := sorted(row for queue in queues for row in queue.take(at_once, stop.n, range(table.num_rows), ())):
        found, stays = await through(table.take(pa.array(chunk, pa.int64())))
        kept = {chunk[i] for i in stays}
        pieces.append(found)
        places += sorted(kept)
        for queue in queues:
            queue.settle({row: row in kept for row in queue.taken})
    return pa.concat_tables(pieces).take(pa.array(np.argsort(places), pa.int64()))


def _stays(node: SemMap | SemFilter, answer: pa.Table) -> bool:
    """Whether a row with this answer is in the result."""
    if answer.column("error")[0].as_py() is not None:
        return node.on_error == "null"
    return bool(answer.column("keep")[0].as_py()) if "keep" in answer.column_names else True


async def _distinct(node: SemMap | SemFilter, table: pa.Table, index: Sequence[int], asking: Asking) -> pa.Table:
    """The answers for some rows. Rows that a model cannot tell apart are one question."""
    left = table if len(index) == table.num_rows else table.take(pa.array(index, pa.int64()))
    if len(index) < 2:
        return await _asked(node, left, asking)
    numbers, first = dense(told_apart(node, left, asking))
    if len(first) == len(index):
        return await _asked(node, left, asking)
    distinct, times = left.take(pa.array(first, pa.int64())), np.bincount(np.asarray(numbers)).tolist()
    return (await _asked(node, distinct, asking, times)).take(pa.array(numbers, pa.int64()))


async def _asked(node: SemMap | SemFilter, left: pa.Table, asking: Asking, times: Sequence[int] = ()) -> pa.Table:
    items = pa.table({"left": pa.array(range(left.num_rows), pa.int64())})
    return await ask(node, left, None, items, asking, times)


async def _unless_known(
    node: SemMap | SemFilter, table: pa.Table, index: Sequence[int], asking: Asking, known: dict[object, pa.Table]
) -> list[pa.Table]:
    """The answer for each of some rows; what an equal row was answered before is not asked again."""
    left = table.take(pa.array(index, pa.int64()))
    keys = told_apart(node, left, asking)
    new = {key: i for i, key in reversed(list(enumerate(keys))) if key not in known}
    places = sorted(new.values())
    if places:
        counts = Counter(keys)
        times = [counts[keys[place]] for place in places]
        answers = await _asked(node, left.take(pa.array(places, pa.int64())), asking, times)
        known |= {keys[place]: answers.slice(i, 1) for i, place in enumerate(places)}
    return [known[key] for key in keys]


@dataclass
class _Queue:
    """The rows of one group in the limit's order, how many were looked at, and how many of these stay."""

    rows: list[int]
    next: int = 0
    kept: int = 0
    taken: list[int] = field(default_factory=list)

    def take(self, at_once: int, n: int, questions: Sequence[object], known: Collection[object]) -> list[int]:
        """The rows to look at next: as many as are likely to be enough, at most as many again as there were, full calls.

        A call is full with `at_once` questions that differ, and are not `known`; a row that asks nothing has None.
        """
        missing = n - self.kept
        self.taken = []
        if missing > 0 and self.next < len(self.rows):
            likely = math.ceil(missing * self.next / self.kept) if self.kept else self.next
            count = max(missing, min(likely, self.next))
            new: set[object] = set()
            while self.next < len(self.rows) and (len(self.taken) < count or len(new) % at_once):
                row = self.rows[self.next]
                if questions[row] is not None and questions[row] not in known:
                    new.add(questions[row])
                self.taken.append(row)
                self.next += 1
        return self.taken

    def settle(self, stays: dict[int, bool]) -> None:
        """Take in which of the rows looked at last stay."""
        self.kept += sum(stays.values())
        self.taken = []


async def _queues(node: SemMap | SemFilter, stop: Stop, table: pa.Table, now: datetime | None) -> list[_Queue]:
    keys = [quote(name) for name in stop.per] + ([PARTITION] if PARTITION in hidden(node.input) else [])
    group = f"min({ORDINAL}) OVER ({'PARTITION BY ' + ', '.join(keys) if keys else ''})"
    sql = f'SELECT {ORDINAL} AS "#o", {group} AS "#g" FROM {ROWS} ORDER BY "#g", {order_sql(stop.order, node.input, ORDINAL)}'
    found = await execute(sql, {ROWS: table}, pa.schema([("#o", pa.int64()), ("#g", pa.int64())]), now)
    queues: dict[int, _Queue] = {}
    for row, place in zip(values(found.column("#o")), values(found.column("#g")), strict=True):
        queues.setdefault(place, _Queue([])).rows.append(row)
    return list(queues.values())


def rows_a_call(node: SemMap | SemFilter, rows: int, way: Implementation[Any]) -> int:
    """How many rows share a call, as the implementation estimates: chunks of full calls cost no call more."""
    cost = estimated(way, node, RowEstimate(rows, 0, rows, 0), None)
    return max(1, math.ceil(rows / cost.calls)) if cost.calls else 1
