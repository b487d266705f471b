"""Row-wise semantic operators, sem_map and sem_filter. Below a limit they answer rows in chunks
until enough rows pass.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import (
    Awaitable,
    Callable,
    Collection,
    Container,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr.functions import canonical_json
from semgraph.expr.scalar import Scalar
from semgraph.logical.node import Stop
from semgraph.logical.semantic import SemFilter, SemMap
from semgraph.relational import batch
from semgraph.relational.segments import column_of
from semgraph.semantic import ask
from semgraph.semantic.answers import answer_table
from semgraph.semantic.contract import Item, Outcome, RowEstimate
from semgraph.semantic.groups import row_groups
from semgraph.semantic.implementation import Implementation, estimated

Through = Callable[[batch.Batch], Awaitable[tuple[batch.Batch, Sequence[int]]]]


@dataclass
class _Queue:
    """The rows of one group in the limit's order, the number of processed rows, and how many of
    these stay in the result.
    """

    rows: list[int]
    next: int = 0
    stayed: int = 0

    def take(
        self, n: int, at_once: int, questions: Sequence[object], known: Collection[object]
    ) -> list[int]:
        """The rows to process next: the number that probably suffices, rounded up to full calls.

        It is at least the number of missing rows, and beyond that at most the number processed so
        far.
        """
        missing = n - self.stayed
        if missing <= 0:
            return []
        likely = math.ceil(missing * self.next / self.stayed) if self.stayed else self.next
        count = max(missing, min(likely, self.next))
        taken, new = list[int](), set[object]()
        for row in self.rows[self.next :]:
            if len(taken) >= count and not len(new) % at_once:
                break
            question = questions[row]
            if question is not None and question not in known:
                new.add(question)
            taken.append(row)
        self.next += len(taken)
        return taken


def chunks(
    groups: Iterable[list[int]],
    n: int,
    at_once: int,
    questions: Sequence[object],
    known: Collection[object] = (),
) -> Generator[list[int], Container[int], None]:
    """The rows of a relation in chunks, in the order of a limit; an empty chunk once `n` rows of
    each group stay.

    The caller sends the rows of the last chunk that stay. A chunk fills calls: its number of new
    `questions` (None: the row is not asked about) that are not `known` is a multiple of `at_once`.
    """
    queues = [_Queue(rows) for rows in groups]
    while True:
        taken = [queue.take(n, at_once, questions, known) for queue in queues]
        stay = yield [row for rows in taken for row in rows]
        for queue, rows in zip(queues, taken, strict=True):
            queue.stayed += sum(row in stay for row in rows)


async def in_chunks(
    node: SemMap | SemFilter,
    stop: Stop,
    rows: batch.Batch,
    at_once: int,
    now: datetime | None,
    through: Through,
) -> batch.Batch:
    """Pass the rows of a relation through stacked operators, in chunks, until enough rows result;
    the result is in the order of the relation.

    `node` is the lowest operator, which reads the relation. `at_once` rows fill a call. `through`
    applies the operators to a chunk; it returns the result, and the rows that are in it.
    """
    groups = await row_groups(node.input, stop.by, stop.order, rows.table, now)
    pending = chunks(groups, stop.n, at_once, range(rows.num_rows))
    pieces, places = [(await through(rows.slice(0, 0)))[0]], list[int]()
    chunk = sorted(next(pending))
    while chunk:
        piece, stays = await through(rows.take(chunk))
        pieces.append(piece)
        passed = {chunk[i] for i in stays}
        places += sorted(passed)
        chunk = sorted(pending.send(passed))
    order = np.argsort(places).tolist()
    table = batch.rows_at(pa.concat_tables([piece.table for piece in pieces]), order)
    sources = [source for piece in pieces for source in piece.sources or ()]
    own = [sources[i] for i in order] if sources else None
    return batch.Batch.of_table(table).with_sources(own)


def rows_a_call(node: SemMap | SemFilter, rows: int, implementation: Implementation[Any]) -> int:
    """The number of rows that share a call, by the implementation's estimate. Chunks of full calls
    need no additional call.
    """
    cost = estimated(implementation, node, RowEstimate(rows, 0, rows, 0))
    return max(1, math.ceil(rows / cost.calls)) if cost.calls else 1


async def sem_map(node: SemMap, inputs: Sequence[pa.Table], asking: ask.Asking) -> ask.Answered:
    """Add the answers to the rows as columns."""
    (table,) = inputs
    rows = batch.Batch.of_table(table)
    selected = np.ones(table.num_rows, bool)
    if node.when is not None:
        selected = await _holds(node.when, node, rows, asking)
    if node.answer_schema:
        schemas = batch.values(batch.pick(table, node.answer_schema))
        selected &= np.asarray([schema is not None for schema in schemas], bool)
    asked = await _ask_rows(node, table, selected, asking, ~selected)
    errors = batch.values(asked.answers.column("error"))
    otherwise = dict(node.otherwise)
    columns = ask.answer_columns(node, asked.answers, asked.rows, table.num_rows)
    for f in node.answer_fields():
        if f.name in otherwise and not selected.all():
            rest = await column_of(otherwise[f.name], node.input, rows, asking.now, f.type)
            columns[f.name] = pc.if_else(pa.array(selected), columns[f.name], rest.array("x"))
    stays = asked.reached
    if node.on_error != "null":
        lost = [row for row, error in zip(asked.rows, errors, strict=True) if error is not None]
        stays[lost] = False
    failed = ask.failures(node, table, asked.rows, errors)
    return _answered(node, table, asked, columns, stays, failed)


async def sem_filter(
    node: SemFilter, inputs: Sequence[pa.Table], asking: ask.Asking
) -> ask.Answered:
    """Keep the rows whose answer is yes, and those without `when` for which `otherwise` holds."""
    (table,) = inputs
    rows, keep = batch.Batch.of_table(table), np.zeros(table.num_rows, bool)
    selected = np.ones(table.num_rows, bool)
    if node.when is not None and node.otherwise is not None:
        selected = await _holds(node.when, node, rows, asking)
        keep = await _holds(node.otherwise, node, rows, asking) & ~selected
    asked = await _ask_rows(node, table, selected, asking, keep)
    keep &= asked.reached
    keep[asked.rows] = [
        node.on_error == "null" if answer is None else answer
        for answer in batch.values(asked.answers.column("keep"))
    ]
    failed = _failures(node, table, asked.rows, batch.values(asked.answers.column("error")))
    columns = ask.answer_columns(node, asked.answers, asked.rows, table.num_rows)
    return _answered(node, table, asked, columns, keep, failed)


def _answered(
    node: SemMap | SemFilter,
    table: pa.Table,
    asked: _RowAnswers,
    columns: dict[str, Any],
    stays: ask.Flags,
    failed: tuple[ask.Failure, ...],
) -> ask.Answered:
    """The result: the rows that stay, with their answers."""
    places = np.flatnonzero(stays).tolist()
    result = pa.table({**dict(zip(table.column_names, table.columns, strict=True)), **columns})
    if len(places) < table.num_rows:
        result = result.filter(pa.array(stays))
    return ask.Answered(
        batch.conform(result, batch.runtime_schema(node)),
        failed,
        node.on_error == "null",
        ask.evidence(table, asked.rows, asked.texts, asked.answers),
        len(asked.rows),
        sources=[(place,) for place in places],
        about=[(row,) for row in asked.rows],
    )


async def _holds(
    scalar: Scalar, node: SemMap | SemFilter, rows: batch.Batch, asking: ask.Asking
) -> ask.Flags:
    """For each row whether a condition is true."""
    column = await column_of(scalar, node.input, rows, asking.now, pa.bool_())
    return np.asarray([bool(holds) for holds in column.column("x")], bool)


def _failures(
    node: SemFilter, table: pa.Table, answered: Sequence[int], errors: Sequence[str | None]
) -> tuple[ask.Failure, ...]:
    """The rows with an error. A row that an earlier join repeated is one failure, without the
    joined columns.
    """
    if not node.original_columns:
        return ask.failures(node, table, answered, errors)
    names = (*node.original_columns, batch.INPUT_ROW, batch.PARTITION)
    own = table.select([name for name in names if name in table.column_names])
    failed = ask.failures(node, own, answered, errors)
    first = {
        (failure.input_row, canonical_json(failure.row)): failure for failure in reversed(failed)
    }
    return tuple(reversed(first.values()))


@dataclass(frozen=True)
class _RowAnswers:
    """The answers for a relation."""

    rows: Sequence[int]  # the numbers of the answered rows, ascending
    texts: Sequence[str]  # the columns that the prompt reads from these rows, as JSON
    answers: pa.Table  # of these rows
    reached: ask.Flags  # of each row, whether it was processed: a limit may end the work before


async def _ask_rows(
    node: SemMap | SemFilter,
    table: pa.Table,
    selected: ask.Flags,
    asking: ask.Asking,
    stay_unasked: ask.Flags,
) -> _RowAnswers:
    """Answer the selected rows of a relation; below a limit in its order, chunk by chunk, until
    `node.stop` has enough. `stay_unasked` are the rows that are in the result without an answer.
    """
    index = np.flatnonzero(selected).tolist()
    left = table if len(index) == table.num_rows else batch.rows_at(table, index)
    keys = dict(zip(index, ask.question_keys(node, left, asking), strict=True))
    known = {} if asking.known is None else asking.known
    pending, chunk = None, list(range(table.num_rows))
    if node.stop is not None:
        at_once = rows_a_call(node, table.num_rows, asking.implementation)
        groups = await row_groups(node.input, node.stop.by, node.stop.order, table, asking.now)
        pending = chunks(groups, node.stop.n, at_once, list(map(keys.get, chunk)), known)
        chunk = next(pending)
    reached, answers = np.zeros(table.num_rows, bool), dict[int, Outcome]()
    while chunk:
        reached[chunk] = True
        rows = sorted(row for row in chunk if row in keys)
        new = await _reusing_known(node, table, {row: keys[row] for row in rows}, asking, known)
        answers |= zip(rows, new, strict=True)
        if pending is None:
            break
        chunk = pending.send(
            {r for r in chunk if (_stays(node, answers[r]) if r in keys else stay_unasked[r])}
        )
    rows = sorted(answers)
    table = answer_table(node, [answers[row] for row in rows])
    return _RowAnswers(rows, [keys[row].text for row in rows], table, reached)


def _stays(node: SemMap | SemFilter, answer: Outcome) -> bool:
    """Whether a row with this answer is in the result."""
    if answer.error is not None:
        return node.on_error == "null"
    return isinstance(node, SemMap) or bool((answer.values or {})["keep"])


async def _reusing_known(
    node: SemMap | SemFilter,
    table: pa.Table,
    keys: Mapping[int, ask.QuestionKey],
    asking: ask.Asking,
    known: dict[object, Outcome],
) -> list[Outcome]:
    """The answers of some rows, by their keys; rows with equal keys share one, also a known one."""
    new = {key: row for row, key in reversed([*keys.items()]) if key not in known}
    if new:
        places, counts = sorted(new.values()), Counter(keys.values())
        times = [counts[keys[place]] for place in places]
        left = table if len(places) == table.num_rows else batch.rows_at(table, places)
        answers = await ask.answer_items(
            node,
            left,
            None,
            [Item(row) for row in range(len(places))],
            asking,
            times if max(times) > 1 else (),
            check_input=ask.check_input_of(node, left),
        )
        known |= {keys[place]: answer for place, answer in zip(places, answers, strict=True)}
    return [known[key] for key in keys.values()]
