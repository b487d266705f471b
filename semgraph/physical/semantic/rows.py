"""Rows that are asked about one by one: sem_map and sem_filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from semgraph.logical.semantic import SemFilter, SemMap
from semgraph.physical.columns import values
from semgraph.physical.relational import conform, runtime_schema
from semgraph.physical.semantic.asking import (
    Answered,
    Asking,
    ask,
    assemble,
    column_of,
    evidence,
    failures,
)


@assemble.register
async def _(node: SemMap, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    (table,) = inputs
    asked = np.ones(table.num_rows, bool)
    if node.when is not None:
        when = await column_of(node.when, node.input, pa.bool_(), table, asking.now)
        asked = np.asarray([bool(x) for x in values(when)])
    index = np.flatnonzero(asked)
    left = table.take(index)
    items = pa.table({"left": pa.array(np.arange(len(index)))})
    answers = await ask(node, left, None, items, asking)
    errors = values(answers.column("error"))
    place = np.full(table.num_rows, -1)
    place[index] = np.arange(len(index))
    taken = pa.array([None if p < 0 else int(p) for p in place], pa.int64())
    otherwise = dict(node.otherwise)
    columns: dict[str, Any] = {name: table.column(name) for name in table.column_names}
    for f in node.answer_fields():
        column = answers.column(f.name).combine_chunks().take(taken)
        if f.name in otherwise and len(index) < table.num_rows:
            rest = await column_of(otherwise[f.name], node.input, f.type, table, asking.now)
            column = pc.if_else(pa.array(asked), column, rest)
        columns[f.name] = column
    found = pa.table(columns)
    failed = np.zeros(table.num_rows, bool)
    failed[index[[e is not None for e in errors]]] = True
    kept = node.on_error == "null"
    result = found if kept or not failed.any() else found.filter(pa.array(~failed))
    return Answered(
        conform(result, runtime_schema(node)),
        failures(node, left, range(len(errors)), errors),
        kept,
        evidence(node, left, range(len(errors)), answers, ()),
        len(index),
    )


@assemble.register
async def _(node: SemFilter, inputs: Sequence[pa.Table], asking: Asking) -> Answered:
    (table,) = inputs
    items = pa.table({"left": pa.array(np.arange(table.num_rows))})
    answers = await ask(node, table, None, items, asking)
    errors = values(answers.column("error"))
    kept = node.on_error == "null"
    keep = [kept if answer is None else bool(answer) for answer in values(answers.column("keep"))]
    return Answered(
        conform(table.filter(pa.array(keep)), runtime_schema(node)),
        failures(node, table, range(len(errors)), errors),
        kept,
        evidence(node, table, range(len(errors)), answers, ()),
        table.num_rows,
    )
