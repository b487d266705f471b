"""Row-wise semantic operators, sem_map and sem_filter; below a limit they answer rows in chunks,
until enough of them pass.
"""

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
import pyarrow.compute as pc

from semgraph.expr.functions import canonical_json
from semgraph.expr.scalar import Scalar
from semgraph.logical.semantic import SemFilter, SemMap
from semgraph.logical.typecheck import Stop
from semgraph.relational.batch import (
    INPUT_ROW,
    PARTITION,
    Batch,
    conform,
    dense,
    pick,
    runtime_schema,
    values,
)
from semgraph.relational.segments import column_of
from semgraph.semantic.ask import (
    AnswerContext,
    Answered,
    Failure,
    QuestionKey,
    ask,
    beside_answers,
    evidence,
    failures,
    question_keys,
)
from semgraph.semantic.contract import Implementation, RowEstimate, answer_schema
from semgraph.semantic.groups import Flags, row_groups
from semgraph.semantic.library import estimated

Through = Callable[[Batch], Awaitable[tuple[Batch, Sequence[int]]]]


@dataclass
class RowQueue:
    """The rows of one group in the limit's order, how many were processed, and how many of these
    stay in the result.
    """

    rows: list[int]
    next: int = 0
    stayed: int = 0
    taken: list[int] = field(default_factory=list)

    def take(
        self, at_once: int, n: int, questions: Sequence[object], known: Collection[object]
    ) -> list[int]:
        """The rows to process next, in full calls: as many as are likely to be enough, but at most
        double the number processed so far.

        A call is full with `at_once` distinct questions that are not `known`; a row without a
        question has None.
        """
        missing = n - self.stayed
        self.taken = []
        if missing > 0 and self.next < len(self.rows):
            likely = math.ceil(missing * self.next / self.stayed) if self.stayed else self.next
            count = max(missing, min(likely, self.next))
            new: set[object] = set()
            while self.next < len(self.rows) and (len(self.taken) < count or len(new) % at_once):
                row = self.rows[self.next]
                if questions[row] is not None and questions[row] not in known:
                    new.add(questions[row])
                self.taken.append(row)
                self.next += 1
        return self.taken

    def count(self, stays: dict[int, bool]) -> None:
        """Count the rows of the last `take` that stay."""
        self.stayed += sum(stays.values())
        self.taken = []


async def row_queues(
    node: SemMap | SemFilter, stop: Stop, table: pa.Table, now: datetime | None
) -> list[RowQueue]:
    """A queue for each group of a limit."""
    groups = await row_groups(node.input, stop.by, stop.order, table, now)
    return [RowQueue(rows) for rows in groups]


async def in_chunks(
    node: SemMap | SemFilter,
    stop: Stop,
    rows: Batch,
    at_once: int,
    now: datetime | None,
    through: Through,
) -> Batch:
    """Pass the rows of a relation through stacked operators, in chunks, until enough come out.

    Args:
        node: The lowest operator, which reads the relation.
        stop: The limit.
        rows: The relation.
        at_once: How many rows fill a call.
        now: `$now`.
        through: Applies the operators to some rows: the result, and the rows that are in it.

    Returns:
        The result, in the order of the relation.
    """
    queues = await row_queues(node, stop, rows.table, now)
    pieces, places = [(await through(rows.slice(0, 0)))[0]], list[int]()
    while chunk := sorted(
        row for queue in queues for row in queue.take(at_once, stop.n, range(rows.num_rows), ())
    ):
        piece, stays = await through(rows.take(chunk))
        passed = {chunk[i] for i in stays}
        pieces.append(piece)
        places += sorted(passed)
        for queue in queues:
            queue.count({row: row in passed for row in queue.taken})
    order = np.argsort(places).tolist()
    table = pa.concat_tables([piece.table for piece in pieces]).take(pa.array(order, pa.int64()))
    sources = [source for piece in pieces for source in piece.sources or ()]
    return Batch.of_table(table).with_sources([sources[i] for i in order] if sources else None)


def rows_a_call(node: SemMap | SemFilter, rows: int, implementation: Implementation[Any]) -> int:
    """How many rows share a call, by the implementation's estimate: chunks of full calls need no
    additional call.
    """
    cost = estimated(implementation, node, RowEstimate(rows, 0, rows, 0), None)
    return max(1, math.ceil(rows / cost.calls)) if cost.calls else 1


async def sem_map(node: SemMap, inputs: Sequence[pa.Table], context: AnswerContext) -> Answered:
    """Add the answers to the rows as columns."""
    (table,) = inputs
    rows = Batch.of_table(table)
    selected = np.ones(table.num_rows, bool)
    if node.when is not None:
        selected = await _holds(node.when, node, rows, context)
    if node.form:
        selected &= np.asarray([form is not None for form in values(pick(table, node.form))], bool)
    row_answers = await _ask_rows(node, table, selected, context, ~selected)
    index, answers = np.asarray(row_answers.rows, np.int64), row_answers.answers
    errors = values(answers.column("error"))
    positions = _positions(index, table.num_rows)
    otherwise = dict(node.otherwise)
    columns: dict[str, Any] = {name: table.column(name) for name in table.column_names}
    for f in node.answer_fields():
        column = answers.column(f.name).combine_chunks().take(positions)
        if f.name in otherwise and not selected.all():
            rest = await column_of(otherwise[f.name], node.input, rows, context.now, f.type)
            column = pc.if_else(pa.array(selected), column, rest.array("x"))
        columns[f.name] = column
    result = pa.table(columns)
    keeps_failed = node.on_error == "null"
    stays = row_answers.reached
    if not keeps_failed:
        stays[index[[e is not None for e in errors]]] = False
    if not stays.all():
        result = result.filter(pa.array(stays))
    places = np.flatnonzero(stays).tolist()
    return Answered(
        conform(result, runtime_schema(node)),
        failures(node, table, row_answers.rows, errors),
        keeps_failed,
        evidence(table, row_answers.rows, row_answers.texts, answers),
        len(index),
        places,
        sources=_each(places),
        about=_each(row_answers.rows),
    )


async def sem_filter(
    node: SemFilter, inputs: Sequence[pa.Table], context: AnswerContext
) -> Answered:
    """Keep the rows whose answer is yes, and those without `when` for which `otherwise` holds."""
    (table,) = inputs
    rows, keep = Batch.of_table(table), np.zeros(table.num_rows, bool)
    selected = np.ones(table.num_rows, bool)
    if node.when is not None and node.otherwise is not None:
        selected = await _holds(node.when, node, rows, context)
        keep = await _holds(node.otherwise, node, rows, context) & ~selected
    row_answers = await _ask_rows(node, table, selected, context, keep)
    keep &= row_answers.reached
    index, answers = np.asarray(row_answers.rows, np.int64), row_answers.answers
    keeps_failed = node.on_error == "null"
    keep[index] = [
        keeps_failed if answer is None else bool(answer)
        for answer in values(answers.column("keep"))
    ]
    columns: dict[str, Any] = {name: table.column(name) for name in table.column_names}
    positions = _positions(index, table.num_rows)
    for f in node.answer_fields():
        columns[f.name] = answers.column(f.name).combine_chunks().take(positions)
    places = np.flatnonzero(keep).tolist()
    return Answered(
        conform(pa.table(columns).filter(pa.array(keep)), runtime_schema(node)),
        _failures(node, table, row_answers.rows, values(answers.column("error"))),
        keeps_failed,
        evidence(table, row_answers.rows, row_answers.texts, answers),
        len(index),
        places,
        sources=_each(places),
        about=_each(row_answers.rows),
    )


async def _holds(
    scalar: Scalar, node: SemMap | SemFilter, rows: Batch, context: AnswerContext
) -> Flags:
    """For each row whether a condition is true."""
    column = await column_of(scalar, node.input, rows, context.now, pa.bool_())
    return np.asarray([bool(holds) for holds in column.column("x")], bool)


def _positions(index: npt.NDArray[np.int64], rows: int) -> pa.Array[Any]:
    """For each row the place of its number in `index`, or NULL."""
    place = np.full(rows, -1)
    place[index] = np.arange(len(index))
    return pa.array([None if p < 0 else int(p) for p in place], pa.int64())


def _each(places: Sequence[int]) -> list[tuple[int]]:
    return [(place,) for place in places]


def _failures(
    node: SemFilter, table: pa.Table, answered: Sequence[int], errors: Sequence[str | None]
) -> tuple[Failure, ...]:
    """The rows with an error; a row that an earlier join repeated is one failure, without the
    columns of its partners.
    """
    if not node.late:
        return failures(node, table, answered, errors)
    own = table.select(
        [name for name in (*node.late, INPUT_ROW, PARTITION) if name in table.column_names]
    )
    failed = failures(node, own, answered, errors)
    first = {
        (failure.input_row, canonical_json(failure.row)): failure for failure in reversed(failed)
    }
    return tuple(reversed(first.values()))


@dataclass(frozen=True)
class _RowAnswers:
    """The answers for a relation.

    Args:
        rows: The numbers of the answered rows, ascending.
        texts: What the prompt reads of them, in that order.
        answers: Their answers, in that order.
        reached: For each row of the relation, whether it was processed: all, unless a limit stopped
            earlier.
    """

    rows: Sequence[int]
    texts: Sequence[str]
    answers: pa.Table
    reached: Flags


async def _ask_rows(
    node: SemMap | SemFilter,
    table: pa.Table,
    selected: Flags,
    context: AnswerContext,
    stay_unasked: Flags,
) -> _RowAnswers:
    """Answer the selected rows of a relation, until `node.stop` has enough; `stay_unasked` are other
    rows that are in the result.
    """
    if node.stop is not None:
        return await _ask_until_enough(node, node.stop, table, selected, context, stay_unasked)
    index = [int(i) for i in np.flatnonzero(selected)]
    left = table if len(index) == table.num_rows else table.take(pa.array(index, pa.int64()))
    keys = question_keys(node, left, context)
    if context.known is None:
        whole = await _distinct(node, left, keys, context)
    else:
        whole = _concat(node, await _reusing_known(node, left, keys, context, context.known))
    return _RowAnswers(index, [key.text for key in keys], whole, np.ones(table.num_rows, bool))


async def _ask_until_enough(
    node: SemMap | SemFilter,
    stop: Stop,
    table: pa.Table,
    selected: Flags,
    context: AnswerContext,
    stay_unasked: Flags,
) -> _RowAnswers:
    """Answer the selected rows in the limit's order, chunk by chunk."""
    queues = await row_queues(node, stop, table, context.now)
    at_once = rows_a_call(node, table.num_rows, context.implementation)
    keys: Sequence[object] = (
        question_keys(node, table, context) if at_once > 1 else range(table.num_rows)
    )
    questions = [key if chosen else None for key, chosen in zip(keys, selected, strict=True)]
    reached = np.zeros(table.num_rows, bool)
    answers: dict[int, pa.Table] = {}
    texts: dict[int, str] = {}
    known = {} if context.known is None else context.known
    while chunk := [
        row for queue in queues for row in queue.take(at_once, stop.n, questions, known)
    ]:
        reached[chunk] = True
        index = sorted(row for row in chunk if selected[row])
        left = table.take(pa.array(index, pa.int64()))
        row_keys = question_keys(node, left, context)
        texts |= {row: key.text for row, key in zip(index, row_keys, strict=True)}
        new = await _reusing_known(node, left, row_keys, context, known)
        answers |= dict(zip(index, new, strict=True))
        stays = {row: _stays(node, answer) for row, answer in zip(index, new, strict=True)}
        for queue in queues:
            queue.count({row: stays.get(row, bool(stay_unasked[row])) for row in queue.taken})
    rows = sorted(answers)
    whole = _concat(node, [answers[row] for row in rows])
    return _RowAnswers(rows, [texts[row] for row in rows], whole, reached)


def _concat(node: SemMap | SemFilter, answers: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(answers) if answers else answer_schema(node).empty_table()


def _stays(node: SemMap | SemFilter, answer: pa.Table) -> bool:
    """Whether a row with this answer is in the result."""
    if answer.column("error")[0].as_py() is not None:
        return node.on_error == "null"
    return bool(answer.column("keep")[0].as_py()) if "keep" in answer.column_names else True


async def _distinct(
    node: SemMap | SemFilter, left: pa.Table, keys: Sequence[QuestionKey], context: AnswerContext
) -> pa.Table:
    """The answers for some rows. Rows with equal keys are one question."""
    numbers, first = dense(keys)
    if len(first) == left.num_rows:
        return await _answers(node, left, context)
    distinct = left.take(pa.array(first, pa.int64()))
    times = np.bincount(np.asarray(numbers)).tolist()
    return (await _answers(node, distinct, context, times)).take(pa.array(numbers, pa.int64()))


async def _answers(
    node: SemMap | SemFilter, left: pa.Table, context: AnswerContext, times: Sequence[int] = ()
) -> pa.Table:
    items = pa.table({"left": pa.array(range(left.num_rows), pa.int64())})
    return await ask(node, left, None, items, context, times, beside=beside_answers(node, left))


async def _reusing_known(
    node: SemMap | SemFilter,
    left: pa.Table,
    keys: Sequence[QuestionKey],
    context: AnswerContext,
    known: dict[object, pa.Table],
) -> list[pa.Table]:
    """The answer for each of some rows; rows with equal keys reuse the known answer."""
    new = {key: i for i, key in reversed(list(enumerate(keys))) if key not in known}
    places = sorted(new.values())
    if places:
        counts = Counter(keys)
        times = [counts[keys[place]] for place in places]
        answers = await _answers(node, left.take(pa.array(places, pa.int64())), context, times)
        known |= {keys[place]: answers.slice(i, 1) for i, place in enumerate(places)}
    return [known[key] for key in keys]
