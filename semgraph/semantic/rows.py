"""Row-wise semantic operators: sem_map and sem_filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr.functions import canonical_json
from semgraph.logical.semantic import SemFilter, SemMap
from semgraph.relational.batch import (
    INPUT_ROW,
    PARTITION,
    Batch,
    conform,
    pick,
    runtime_schema,
    values,
)
from semgraph.relational.fragments import column_of
from semgraph.semantic.ask import (
    AnswerContext,
    Answered,
    Failure,
    ask_rows,
    assemble,
    evidence,
    failures,
)


@assemble.register
async def _(node: SemMap, inputs: Sequence[pa.Table], context: AnswerContext) -> Answered:
    (table,) = inputs
    rows = Batch.of_table(table)
    selected = np.ones(table.num_rows, bool)
    if node.when is not None:
        when = await column_of(node.when, node.input, rows, context.now, pa.bool_())
        selected = np.asarray([bool(x) for x in when.column("x")])
    if node.form:
        selected &= np.asarray([form is not None for form in values(pick(table, node.form))], bool)
    row_answers = await ask_rows(node, table, selected, context)
    index, answers = np.asarray(row_answers.rows, np.int64), row_answers.answers
    errors = values(answers.column("error"))
    place = np.full(table.num_rows, -1)
    place[index] = np.arange(len(index))
    positions = pa.array([None if p < 0 else int(p) for p in place], pa.int64())
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
        evidence(node, table, row_answers.rows, answers, ()),
        len(index),
        places,
        sources=_each(places),
        about=_each(row_answers.rows),
    )


@assemble.register
async def _(node: SemFilter, inputs: Sequence[pa.Table], context: AnswerContext) -> Answered:
    (table,) = inputs
    row_answers = await ask_rows(node, table, np.ones(table.num_rows, bool), context)
    errors = values(row_answers.answers.column("error"))
    keeps_failed = node.on_error == "null"
    keep = np.zeros(table.num_rows, bool)
    verdicts = values(row_answers.answers.column("keep"))
    keep[np.asarray(row_answers.rows, np.int64)] = [
        keeps_failed if answer is None else bool(answer) for answer in verdicts
    ]
    places = np.flatnonzero(keep).tolist()
    return Answered(
        conform(table.filter(pa.array(keep)), runtime_schema(node)),
        _failures(node, table, row_answers.rows, errors),
        keeps_failed,
        evidence(node, table, row_answers.rows, row_answers.answers, ()),
        len(row_answers.rows),
        places,
        sources=_each(places),
        about=_each(row_answers.rows),
    )


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
