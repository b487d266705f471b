"""The steps that all operators share: pass items to an implementation, check its answers, and
record the evidence.

The operators (`rows`, `pairs`, `groups`) make the items and assemble the result from the answers.
Implementations never see a sem_join's `how` and `keep`, nor `on_error`.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semgraph.errors import Fault, PlanError, Problem
from semgraph.expr.duckdb import ORDINAL
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import python_rows
from semgraph.logical.node import Node
from semgraph.logical.prompt import plain
from semgraph.logical.relational import Input
from semgraph.logical.semantic import Answering, Check, Semantic, SemMap
from semgraph.relational.batch import INPUT_ROW, Batch, pick, rows_at, values
from semgraph.relational.segments import column_of
from semgraph.semantic.answers import (
    Invalid,
    answer_table,
    checked_outcome,
    needed_records,
    numbers_of_rows,
    validated,
    with_row_schemas,
)
from semgraph.semantic.context import Context
from semgraph.semantic.contract import SCORE, Item, Outcome, Rows, prompt_numbers
from semgraph.semantic.implementation import Implementation, watched

_NO_MESSAGE = "it does not meet the check"


async def refused(
    node: Answering,
    check: Check,
    answers: Sequence[Outcome],
    check_input: pa.Table,
    now: datetime | None,
) -> dict[int, str]:
    """The answers that fail a check: the check's message by the index of the answer.

    Errors and pairs that do not match have no answers, so they are not checked. `check_input` are
    the other columns that the check reads, one row per answer.
    """
    places = _judged(node, answers)
    if not places:
        return {}
    source, check_input = _seen_by(node, check), rows_at(check_input, places)
    table = answer_table(node, [answers[place] for place in places])
    columns = {
        name: (check_input if name in check_input.column_names else table).column(name)
        for name in source.schema.names
    }
    rows = Batch.of_table(pa.table(columns))
    holds = (await column_of(check.where, source, rows, now, pa.bool_())).column("x")
    wrong = [i for i, value in enumerate(holds) if not value]
    if not wrong:
        return {}
    texts = (await column_of(check.message, source, rows.take(wrong), now, pa.string())).column("x")
    messages = [(text or "").strip().rstrip(".") or _NO_MESSAGE for text in texts]
    return {places[i]: message for i, message in zip(wrong, messages, strict=True)}


def _judged(node: Answering, answers: Sequence[Outcome]) -> list[int]:
    """The indices of the answers to check."""
    joins = node.keyword == "sem_join"
    return [
        i
        for i, o in enumerate(answers)
        if o.error is None and (not joins or (o.values or {})["match"])
    ]


@lru_cache(maxsize=256)
def _seen_by(node: Answering, check: Check) -> Input:
    """The columns that a check reads, as a relation."""
    fields = [f for f in node.seen_by_check if f.name in check.roots]
    return Input(name="answers", columns=pa.schema(fields), step=node.step, origin=node.origin)


@dataclass(frozen=True)
class Failure:
    """A row without an answer, or with an error in an expression.

    `input_row` is the row of the windowed input from which the row derives, if any.
    """

    step: str
    error: str
    input_row: int | None
    row: dict[str, Any]


Flags = npt.NDArray[np.bool_]
_SIDES = pa.list_(pa.list_(pa.int64()))


def _ids_of(inputs: Sequence[Batch]) -> list[int] | None:
    """The ids of the rows of all inputs, one input after the other; None without lineage."""
    ids: list[int] = []
    for batch in inputs:
        if batch.ids is None:
            return None
        ids += batch.ids
    return ids


@dataclass(frozen=True)
class Answered:
    """The result of a semantic operator."""

    table: pa.Table  # with hidden columns
    failures: tuple[Failure, ...] = ()  # in the result, with NULLs, if `kept`
    kept: bool = False  # `on_error: null`
    # a row per item: `_m`, `left` and `right` (what the prompt reads, as JSON), the answers,
    # `error`, `calls`
    evidence: pa.Table | None = None
    rows_in: int = 0  # answered rows (for sem_join: pairs)
    # of each answered row, if `evidence` lacks a row for some of them
    input_rows: Sequence[int | None] | None = None
    # of each row of the result: indices into the concatenated inputs
    sources: Sequence[tuple[int, ...]] = ()
    # for each item of `evidence` the rows in its question: indices as in `sources`
    about: Sequence[tuple[int, ...]] = ()

    def of(self, inputs: Sequence[Batch]) -> Batch:
        """The result with the sources of its rows."""
        ids = _ids_of(inputs)
        rows = Batch.of_table(self.table)
        if ids is None:
            return rows
        return rows.with_sources([tuple(ids[place] for place in own) for own in self.sources])

    def evidence_of(self, inputs: Sequence[Batch]) -> pa.Table | None:
        """The evidence with a column `_o`, the ids of the rows of each question: a list for the
        left input and a list for the right input.
        """
        ids = _ids_of(inputs)
        if ids is None or self.evidence is None:
            return self.evidence
        first = inputs[0].num_rows
        sides = [
            [[ids[i] for i in own if (i < first) == left] for left in (True, False)]
            for own in self.about
        ]
        return self.evidence.append_column(ORDINAL, pa.array(sides, _SIDES))

    def asked_of(self, rows: Collection[int] | None) -> int:
        """The number of answered rows that derive from these input rows (None: from any) or from
        none.
        """
        if rows is None or self.evidence is None:
            return self.rows_in
        selected = set(rows)
        input_rows = self.input_rows
        if input_rows is None:
            input_rows = values(self.evidence.column(INPUT_ROW))
        return sum(row is None or row in selected for row in input_rows)

    @property
    def unusable(self) -> list[str]:
        """The distinct ids of the calls behind failed answers."""
        if self.evidence is None:
            return []
        errors, calls = values(self.evidence.column("error")), values(self.evidence.column("calls"))
        failed = (own or () for error, own in zip(errors, calls, strict=True) if error)
        return list(dict.fromkeys(chain.from_iterable(failed)))


@dataclass(frozen=True)
class Asking:
    """The environment of an operator: implementation, `Context` of its calls, partition of each
    input row, and `$now`.

    `known` holds the answers to earlier chunks of the relation, by question; the answers to this
    chunk are added. None: the relation is not cut into chunks.
    """

    implementation: Implementation[Any]
    calls: Context
    partition_of_row: Sequence[str]
    partition_column: str
    now: datetime | None
    known: dict[object, Outcome] | None = None


def _flat(table: pa.Table, paths: Sequence[str]) -> pa.Table:
    if not paths:
        return table.select([])
    return pa.table({path: pick(table, path) for path in paths})


def partition_names(table: pa.Table, asking: Asking) -> list[str]:
    """The partition of each row; "" for a row without one."""
    return known_partitions(table, asking) or [""] * table.num_rows


def known_partitions(table: pa.Table, asking: Asking) -> list[str] | None:
    """The partition of each row, possibly ""; None if the relation has no partitions."""
    batch = Batch.of_table(table)
    numbers = batch.partitions()
    if numbers is not None and asking.partition_of_row:  # only windowed plans have partitions
        return [asking.partition_of_row[number] for number in numbers]
    return batch.owners(asking.partition_column)


async def answer_items(
    node: Semantic,
    left: pa.Table,
    right: pa.Table | None,
    items: Sequence[Item],
    asking: Asking,
    times: Sequence[int] = (),
    owners: Sequence[str] | None = None,
    check_input: pa.Table | None = None,
) -> list[Outcome]:
    """Pass items to the implementation and check its answers: an outcome for each item, in order
    (for sem_agg: for each group).

    A row without a prompt is not sent: it gets an error. `times` is the number of equal rows that
    each left row represents. `owners` are the partitions of the left rows, if no column has them.
    `check_input` holds the other columns that the node's check reads, one row per answer.
    """
    prompts: list[int | None] = [0] * left.num_rows
    if on := node.prompt.on:
        prompts = prompt_numbers(node.prompt, values(pick(left, on)))
    asked, numbers = node, [prompt or 0 for prompt in prompts]
    if isinstance(node, SemMap) and node.answer_schema and numbers:
        asked, numbers = with_row_schemas(node, values(pick(left, node.answer_schema)), numbers)
    own_right = None if right is None else _flat(right, node.prompt.other_fields)
    owners = owners or partition_names(left, asking)
    rows = Rows(_flat(left, node.prompt.fields), own_right, items, owners, numbers, times)
    units = rows.units(node)
    unasked = _unasked(
        node, left, [(u, items[i].left) for u, own in enumerate(units) for i in own], prompts
    )
    places = [unit for unit in range(len(units)) if unit not in unasked]
    if unasked:
        rows = rows.only([item for unit in places for item in units[unit]])
        check_input = None if check_input is None else rows_at(check_input, places)
    if isinstance(node, Answering):
        retries = (node.check or Check).retries
        answers = await _checked(node, asked, rows, check_input, asking, retries)
    else:
        answers = await _by_implementation(asked, rows, asking)
    answered = dict(zip(places, answers, strict=True))
    return [answered.get(u) or Outcome(None, unasked[u]) for u in range(len(units))]


def answer_columns(
    node: Semantic, answers: pa.Table, places: Sequence[int], rows: int
) -> dict[str, Any]:
    """The answers as columns of `rows` rows: each at the index in `places`, NULL elsewhere."""
    number = {place: i for i, place in enumerate(places)}
    positions = pa.array(map(number.get, range(rows)), pa.int64())
    names = [f.name for f in node.answer_fields()]
    return {name: answers.column(name).combine_chunks().take(positions) for name in names}


async def _by_implementation(node: Semantic, rows: Rows, asking: Asking) -> list[Outcome]:
    """The answers of the implementation, in the order of the items."""
    if not rows.items:
        return []
    answers = await watched(asking.implementation, node, rows, asking.calls)
    if records := numbers_of_rows(node, rows.left):
        return [
            checked_outcome(node, outcome, records[left], asking.calls.note)
            for outcome, left in zip(answers, rows.lefts, strict=True)
        ]
    return answers


async def _checked(
    node: Answering,
    asked: Semantic,
    rows: Rows,
    check_input: pa.Table | None,
    asking: Asking,
    retries: int,
) -> list[Outcome]:
    """The answers of `asked`, the operator that the implementation answers. Those that fail the
    check of `node`, or that a class refuses, are requested again; after `retries` further requests
    they are errors. `check_input` are the other columns that the check reads, one row per item.
    """
    answers = await _by_implementation(asked, rows, asking)
    messages = _by_classes(node, asked, rows, answers)
    if node.check is not None and check_input is not None:
        unmet = await refused(node, node.check, answers, check_input, asking.now)
        messages = dict(sorted({**unmet, **messages}.items()))
    if not messages:
        return answers
    if not retries:
        for place, message in messages.items():
            answers[place] = Outcome(None, f"check: {message}", answers[place].calls)
        return answers
    asking.calls.refused(len(messages))
    rows = rows.again(node, messages)
    check_input = None if check_input is None else rows_at(check_input, [*messages])
    again = await _checked(node, asked, rows, check_input, asking, retries - 1)
    for place, later in zip(messages, again, strict=True):
        answers[place] = _replaced(answers[place], later)
    return answers


def _by_classes(
    node: Answering, asked: Semantic, rows: Rows, answers: list[Outcome]
) -> dict[int, str]:
    """Replace answers by what the classes of their prompts return. By index, what a class says of
    those that it refuses. Raises PlanError if a validator raises an error that is no refusal.
    """
    prompts, messages = asked.prompt.all, dict[int, str]()
    if not any(prompt.validators for prompt in prompts):
        return messages
    lefts = [rows.items[items[0]].left for items in rows.units(node)]
    for place in _judged(node, answers):
        prompt, values = prompts[rows.prompt[lefts[place]]], answers[place].values or {}
        try:
            answers[place] = answers[place]._replace(values=validated(prompt, values))
        except Invalid as refusal:
            messages[place] = str(refusal).strip().rstrip(".") or _NO_MESSAGE
        except Fault as fault:
            row = prompt_texts(rows.left.slice(lefts[place], 1), rows.left.column_names)[0]
            there = f"row: {row:.500}"
            problem = Problem(fault.what, node.step or None, node.origin, there, fault.hint)
            raise PlanError(problem) from fault.__cause__
    return messages


def _replaced(refused: Outcome, later: Outcome) -> Outcome:
    """The answer to a repeated request, combined with the refused one.

    If it has no score it takes that of the refused answer, because a repeated request may leave out
    the verdict. It also names the calls of the refused answer.
    """
    score = (refused.values or {}).get(SCORE)
    values = dict(later.values or {})
    if score is not None and values.get(SCORE) is None:
        values[SCORE] = score
    calls = dict.fromkeys((*refused.calls, *later.calls))
    return Outcome(values, later.error, tuple(calls))


def _unasked(
    node: Semantic, left: pa.Table, items: Sequence[tuple[int, int]], prompts: Sequence[int | None]
) -> dict[int, str]:
    """The error of each item (for sem_agg: each group) that cannot be asked.

    It has a row without a prompt, or without the records to which an answer must refer. `items` are
    pairs of item and left row.
    """
    unasked: dict[int, str] = {}
    for name in needed_records(node):
        listed = values(left.column(name))
        error = f"no_records: {name} is empty: ask only when: len({name}) > 0"
        unasked |= {item: error for item, row in items if not listed[row]}
    if None in prompts:
        on, known = node.prompt.on, ", ".join(value for value, _ in node.prompt.prompts)
        picked = values(pick(left, on))
        for item, row in items:
            if prompts[row] is None:
                value = "NULL" if picked[row] is None else f'"{picked[row]}"'
                what = f"there is none for {on} {value}, only for {known}"
                unasked[item] = f"no_prompt: {what}: add otherwise to the prompt"
    return unasked


def prompt_texts(table: pa.Table, paths: Sequence[str]) -> list[str]:
    """For each row the columns that a prompt reads, as JSON: equal texts give equal prompts."""
    rows = python_rows(_flat(table, paths)) if paths else [{}] * table.num_rows
    return [canonical_json(plain(row)) for row in rows]


class QuestionKey(NamedTuple):
    """The key of a row: its partition, the columns that prompts read, its answer schema, and the
    columns that its check reads.

    Rows with equal keys share one question.
    """

    partition: str
    text: str
    schema: str | None
    checked: str = ""


def question_keys(node: Semantic, rows: pa.Table, asking: Asking) -> list[QuestionKey]:
    """The key of each row."""
    column = node.answer_schema if isinstance(node, SemMap) else ""
    schemas = values(pick(rows, column)) if column else [""] * rows.num_rows
    texts = prompt_texts(rows, node.prompt.fields)
    checked = check_texts(node, rows)
    return list(map(QuestionKey, partition_names(rows, asking), texts, schemas, checked))


def check_input_of(node: Semantic, rows: pa.Table) -> pa.Table | None:
    """The columns that the operator's check reads from the rows; None if it reads none."""
    check = node.check if isinstance(node, Answering) else None
    if check is None:
        return None
    return rows.select([name for name in node.input.schema.names if name in check.roots])


def check_texts(node: Semantic, rows: pa.Table) -> list[str]:
    """For each row the columns that the operator's check reads, as JSON."""
    check_input = check_input_of(node, rows)
    if check_input is None:
        return [""] * rows.num_rows
    return prompt_texts(check_input, check_input.column_names)


def evidence(
    left: pa.Table,
    lefts: Sequence[int],
    texts: Sequence[str],
    answers: pa.Table,
    rights: Sequence[str] = (),
) -> pa.Table:
    """The evidence of an operator: the answer of each item, with the columns that the prompt reads
    from its left row (`texts`) and its right row (`rights`; () without a right input), as JSON.
    """
    input_rows = Batch.of_table(left).input_rows()
    columns: dict[str, Any] = {
        INPUT_ROW: pa.array([input_rows[i] for i in lefts], pa.int64()),
        "left": pa.array(texts, pa.string()),
        "right": pa.array(rights, pa.string()) if rights else pa.nulls(len(lefts), pa.string()),
    }
    return pa.table(columns | dict(zip(answers.column_names, answers.columns, strict=True)))


def failures(
    node: Node, left: pa.Table, lefts: Sequence[int], errors: Sequence[str | None]
) -> tuple[Failure, ...]:
    """The items with an error, each with its row."""
    failed = []
    for i, error in zip(lefts, errors, strict=True):
        if error is not None:
            row = Batch.of_table(left.slice(i, 1))
            visible = plain(python_rows(row.visible())[0])
            failed.append(Failure(node.step, error, row.input_rows()[0], visible))
    return tuple(failed)
