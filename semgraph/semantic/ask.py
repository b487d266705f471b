"""Items asked of an implementation, its checked answers, and their evidence, for all operators.

The operators (`rows`, `pairs`, `groups`) make the items and assemble the result from the answers.
Implementations never see `how`, `keep` or `on_error`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from semgraph.expr.duckdb import ORDINAL
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import python_rows
from semgraph.logical.node import Node
from semgraph.logical.prompt import PromptSet, plain
from semgraph.logical.relational import Input
from semgraph.logical.semantic import Answering, Check, Semantic, SemMap
from semgraph.relational.batch import (
    INPUT_ROW,
    Batch,
    dense,
    pick,
    values,
)
from semgraph.relational.segments import column_of
from semgraph.semantic.answers import (
    answer_table,
    check_answer,
    checked_outcomes,
    needed_records,
    numbers_of_rows,
    outcomes,
    shaped,
)
from semgraph.semantic.context import Context
from semgraph.semantic.contract import (
    SCORE,
    Implementation,
    Outcome,
    Rows,
    answer_schema,
)
from semgraph.semantic.watch import watched

_NO_MESSAGE = "it does not meet the check"


async def refused(
    node: Answering, check: Check, answers: pa.Table, beside: pa.Table, now: datetime | None
) -> dict[int, str]:
    """The answers that do not meet a check, by their places, each with its message.

    Errors are not judged, nor are pairs that do not match: they have no answers.

    Args:
        node: The operator.
        check: Its check.
        answers: The answers of an implementation.
        beside: What the check sees beside each of them.
        now: The value of `$now`.
    """
    places = _judged(node, answers)
    if not places:
        return {}
    source = _seen_by(node, check)
    columns = {
        name: (beside if name in beside.column_names else answers).column(name)
        for name in source.schema.names
    }
    rows = Batch.of_table(pa.table(columns).take(pa.array(places, pa.int64())))
    holds = (await column_of(check.where, source, rows, now, pa.bool_())).column("x")
    wrong = [i for i, value in enumerate(holds) if not value]
    if not wrong:
        return {}
    texts = (await column_of(check.message, source, rows.take(wrong), now, pa.string())).column("x")
    messages = [(text or "").strip().rstrip(".") or _NO_MESSAGE for text in texts]
    return {places[i]: message for i, message in zip(wrong, messages, strict=True)}


def _judged(node: Answering, answers: pa.Table) -> list[int]:
    """The places of the answers that a check judges."""
    errors = values(answers.column("error"))
    match = values(answers.column("match")) if node.keyword == "sem_join" else [True] * len(errors)
    return [i for i, error in enumerate(errors) if error is None and match[i]]


@lru_cache(maxsize=256)
def _seen_by(node: Answering, check: Check) -> Input:
    """The columns that a check reads, as a relation."""
    fields = [f for f in node.seen_by_check if f.name in check.roots]
    return Input(name="answers", columns=pa.schema(fields), step=node.step, origin=node.origin)


def with_refusals(answers: pa.Table, messages: dict[int, str]) -> pa.Table:
    """The answers, those at some places as errors."""
    refusals = pa.array([i in messages for i in range(answers.num_rows)])
    columns = {}
    for field in answers.schema:
        column = answers.column(field.name)
        if field.name == "error":
            texts = [
                f"check: {text}" if (text := messages.get(i)) else None for i in range(len(column))
            ]
            column = pc.coalesce(pa.chunked_array([texts], pa.string()), column)
        elif field.name not in {"item", "calls"}:
            column = pc.if_else(refusals, pa.scalar(None, field.type), column)
        columns[field.name] = column
    return pa.table(columns, schema=answers.schema)


@dataclass(frozen=True)
class Failure:
    """A row without an answer, or with an error in an expression.

    `input_row` is the row of the ordered input that it derives from, if any.
    """

    step: str
    error: str
    input_row: int | None
    row: dict[str, Any]


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
    """The result of a semantic operator.

    Args:
        table: The result, with hidden columns.
        failures: Failed rows; they are in the result, with NULLs, if `kept`.
        kept: Whether failed rows stay in the result (`on_error: null`).
        evidence: One row per item: `_m`, `left` and `right` (the columns that the prompt reads, as
            JSON), the answers, `error`, `calls`.
        rows_in: How many rows (for sem_join: pairs) were answered.
        stays: The input rows that are in the result, for operators that keep each row at most once.
        input_rows: The input row of each answered row, if `evidence` does not have a row for each.
        sources: For each row of the result the rows of the inputs that it is made of, by their places
            in all inputs, one after the other.
        about: For each item of `evidence` the rows of the inputs that its question shows, as in
            `sources`.
    """

    table: pa.Table
    failures: tuple[Failure, ...] = ()
    kept: bool = False
    evidence: pa.Table | None = None
    rows_in: int = 0
    stays: Sequence[int] = ()
    input_rows: Sequence[int | None] | None = None
    sources: Sequence[tuple[int, ...]] = ()
    about: Sequence[tuple[int, ...]] = ()

    def of(self, inputs: Sequence[Batch]) -> Batch:
        """The result with the sources of its rows."""
        ids = _ids_of(inputs)
        rows = Batch.of_table(self.table)
        if ids is None:
            return rows
        return rows.with_sources([tuple(ids[place] for place in own) for own in self.sources])

    def evidence_of(self, inputs: Sequence[Batch]) -> pa.Table | None:
        """The evidence with the ids of the rows of each question, as `_o`: a list of those of the
        left input, and one of those of the right.
        """
        ids = _ids_of(inputs)
        if ids is None or self.evidence is None:
            return self.evidence
        first = inputs[0].num_rows
        sides = [
            [[ids[i] for i in own if i < first], [ids[i] for i in own if i >= first]]
            for own in self.about
        ]
        return self.evidence.append_column(ORDINAL, pa.array(sides, _SIDES))

    def asked_of(self, rows: Collection[int] | None) -> int:
        """How many answered rows derive from these input rows (None: from any), or from no input row."""
        if rows is None or self.evidence is None:
            return self.rows_in
        selected = set(rows)
        input_rows = self.input_rows
        if input_rows is None:
            input_rows = values(self.evidence.column(INPUT_ROW))
        return sum(row is None or row in selected for row in input_rows)

    @property
    def unusable(self) -> list[str]:
        """The ids of the calls with an answer that failed, each once."""
        if self.evidence is None:
            return []
        errors, calls = values(self.evidence.column("error")), values(self.evidence.column("calls"))
        return list(
            dict.fromkeys(
                call
                for error, own in zip(errors, calls, strict=True)
                if error
                for call in own or ()
            )
        )


@dataclass(frozen=True)
class AnswerContext:
    """The environment of an operator: implementation, context, partition names by number, and
    `$now`.

    `known` has the answers to earlier chunks of the relation, by question; those to this chunk are
    added. None: the relation is asked about as a whole.
    """

    implementation: Implementation[Any]
    ctx: Context
    partitions: Sequence[str]
    partition_column: str
    now: datetime | None
    known: dict[object, pa.Table] | None = None


def _flat(table: pa.Table, paths: Sequence[str]) -> pa.Table:
    if not paths:
        return table.select([])
    return pa.table({path: pick(table, path) for path in paths})


def partition_names(table: pa.Table, context: AnswerContext) -> list[str]:
    """The partition of each row; "" for a row without one."""
    return known_partitions(table, context) or [""] * table.num_rows


def known_partitions(table: pa.Table, context: AnswerContext) -> list[str] | None:
    """The partition of each row, which may be ""; None if the relation has none."""
    batch = Batch.of_table(table)
    numbers = batch.partitions()
    if numbers is not None and context.partitions:  # there are none without windows
        return [context.partitions[number] for number in numbers]
    return batch.owners(context.partition_column)


def _prompts(table: pa.Table, prompts: PromptSet) -> list[int | None]:
    if not prompts.on:
        return [0] * table.num_rows
    everything = prompts.all
    chosen: list[int | None] = []
    for value in values(pick(table, prompts.on)):
        prompt = prompts.pick(value)
        chosen.append(
            None if prompt is None else next(i for i, p in enumerate(everything) if p is prompt)
        )
    return chosen


async def ask(
    node: Semantic,
    left: pa.Table,
    right: pa.Table | None,
    items: pa.Table,
    context: AnswerContext,
    times: Sequence[int] = (),
    owners: Sequence[str] | None = None,
    beside: pa.Table | None = None,
) -> pa.Table:
    """Pass items to the implementation and check its answers: every item once, in order.

    A row without a prompt is not sent: it gets an error. `times` says how many equal rows each left
    row stands for. `owners` are the partitions of the left rows, if no column has them. `beside` is
    what the node's check sees beside the answer of each item (for sem_agg: of each group).
    """
    prompts = _prompts(left, node.prompt)
    unasked = _unasked(node, left, items, prompts)
    part, units = _without_unasked(node, items, unasked)
    other = None if right is None else _flat(right, node.prompt.other_fields)
    numbers = [p or 0 for p in prompts]
    plain = node
    if isinstance(node, SemMap) and node.form and numbers:
        node, numbers = shaped(node, values(pick(left, node.form)), numbers)
    rows = Rows(
        _flat(left, node.prompt.fields),
        other,
        part,
        owners or partition_names(left, context),
        numbers,
        times,
    )
    if not part.num_rows:
        return _with_errors(node, answer_schema(node).empty_table(), units, unasked)
    if isinstance(plain, Answering) and plain.check is not None and beside is not None:
        seen = beside.take(pa.array(units, pa.int64()))
        table = await _checked(plain, plain.check, node, rows, seen, context)
    else:
        table = await _answers(node, rows, context)
    return _with_errors(node, table, units, unasked)


async def _answers(node: Semantic, rows: Rows, context: AnswerContext) -> pa.Table:
    """The answers of the implementation, in the order of the items."""
    table = await watched(context.implementation, node, rows, context.ctx)
    check_answer(node, rows, table, context.implementation)
    if records := numbers_of_rows(node, rows.left):
        known = [records[left] for left in values(rows.items.column("left"))]
        answered = outcomes(node, table)
        valid = checked_outcomes(node, answered, known, context.ctx.note)
        if valid != answered:
            table = answer_table(node, valid)
    return table.sort_by("item")


async def _checked(
    node: Answering,
    check: Check,
    asked: Semantic,
    rows: Rows,
    beside: pa.Table,
    context: AnswerContext,
) -> pa.Table:
    """The answers; those that do not meet the check are requested again, then they are errors.

    Args:
        node: The operator of the plan.
        check: Its check, with the retries that are left.
        asked: The operator that the implementation answers.
        rows: The items.
        beside: What the check sees beside the answer of each.
        context: The implementation and its environment.
    """
    table = await _answers(asked, rows, context)
    messages = await refused(node, check, table, beside, context.now)
    if not messages or not check.retries:
        return with_refusals(table, messages) if messages else table
    context.ctx.refused(len(messages))
    again = await _checked(
        node,
        replace(check, retries=check.retries - 1),
        asked,
        rows.again(messages),
        beside.take(pa.array(list(messages), pa.int64())),
        context,
    )
    return _replaced(table, list(messages), again)


def _replaced(table: pa.Table, places: Sequence[int], again: pa.Table) -> pa.Table:
    """Answers with those to a repeated request in the place of refused ones. An error also names
    the calls of the refused answer.
    """
    calls = values(table.column("calls"))
    own = [
        [*dict.fromkeys((*calls[place], *late))] if error else late
        for place, late, error in zip(
            places, values(again.column("calls")), values(again.column("error")), strict=True
        )
    ]
    names = again.column_names
    again = again.set_column(names.index("item"), "item", pa.array(places, pa.int64()))
    if SCORE in names:  # of the verdict, which may not be asked for again
        scores = table.column(SCORE).take(pa.array(places, pa.int64()))
        scores = pc.coalesce(again.column(SCORE), scores)
        again = again.set_column(names.index(SCORE), again.schema.field(SCORE), scores)
    again = again.set_column(
        names.index("calls"),
        again.schema.field("calls"),
        pa.array(own, again.schema.field("calls").type),
    )
    rest = sorted(set(range(table.num_rows)) - set(places))
    return pa.concat_tables([table.take(pa.array(rest, pa.int64())), again]).sort_by("item")


def _unasked(
    node: Semantic, left: pa.Table, items: pa.Table, prompts: Sequence[int | None]
) -> dict[int, str]:
    """The error for each item (for sem_agg: each group) that has a row without a prompt, or without
    the records of which it must name one.
    """
    return _without_records(node, left, items) | _without_prompt(node, left, items, prompts)


def _without_records(node: Semantic, left: pa.Table, items: pa.Table) -> dict[int, str]:
    unasked: dict[int, str] = {}
    for name in needed_records(node):
        listed = values(left.column(name))
        for item, row in enumerate(values(items.column("left"))):
            if not listed[row]:
                unasked[item] = f"no_records: {name} is empty: ask only when: len({name}) > 0"
    return unasked


def _without_prompt(
    node: Semantic, left: pa.Table, items: pa.Table, prompts: Sequence[int | None]
) -> dict[int, str]:
    if None not in prompts:
        return {}
    known = ", ".join(value for value, _ in node.prompt.prompts)
    picked = [
        "NULL" if value is None else f'"{value}"' for value in values(pick(left, node.prompt.on))
    ]
    lefts, numbers = values(items.column("left")), _units(node, items)
    return {
        unit: f"no_prompt: there is none for {node.prompt.on} {picked[row]}, only for {known}: add otherwise to the prompt"
        for unit, row in zip(numbers, lefts, strict=True)
        if prompts[row] is None
    }


def _units(node: Semantic, items: pa.Table) -> list[int]:
    """The number of each item's answer: its group for sem_agg, else its own."""
    return (
        values(items.column("group")) if node.keyword == "sem_agg" else list(range(items.num_rows))
    )


def _without_unasked(
    node: Semantic, items: pa.Table, unasked: Mapping[int, str]
) -> tuple[pa.Table, list[int]]:
    """The items that are asked about, groups renumbered, and the original number of each answer."""
    numbers = _units(node, items)
    if not unasked:
        return items, list(dict.fromkeys(numbers))
    accepted = [i for i, unit in enumerate(numbers) if unit not in unasked]
    part = items.take(pa.array(accepted, pa.int64()))
    if "group" in part.column_names:
        renumbered, _ = dense(values(part.column("group")))
        part = part.set_column(
            part.column_names.index("group"), "group", pa.array(renumbered, pa.int64())
        )
    return part, list(dict.fromkeys(numbers[i] for i in accepted))


def _with_errors(
    node: Semantic, table: pa.Table, units: Sequence[int], unasked: Mapping[int, str]
) -> pa.Table:
    """The answers with their original numbers, and the errors of items that were not asked about,
    in order.
    """
    if not unasked:
        return table
    errors = answer_table(node, [Outcome(None, error) for error in unasked.values()])
    numbered = [
        part.set_column(0, "item", pa.array(list(numbers), pa.int64()))
        for part, numbers in ((table, units), (errors, unasked))
    ]
    return pa.concat_tables(numbered, promote_options="default").sort_by("item")


def prompt_texts(table: pa.Table, paths: Sequence[str]) -> list[str]:
    """The columns that a prompt reads of each row, as JSON: equal texts make equal prompts."""
    rows = python_rows(_flat(table, paths)) if paths else [{}] * table.num_rows
    return [canonical_json(plain(row)) for row in rows]


class QuestionKey(NamedTuple):
    """The key of a row: its partition, the columns that prompts read, its answer schema, and the
    columns that its check reads.

    Rows with equal keys are one question.
    """

    partition: str
    text: str
    form: str | None
    checked: str = ""


def question_keys(node: Semantic, rows: pa.Table, context: AnswerContext) -> list[QuestionKey]:
    """The key of each row."""
    form = node.form if isinstance(node, SemMap) else ""
    forms = values(pick(rows, form)) if form else [""] * rows.num_rows
    texts = prompt_texts(rows, node.prompt.fields)
    checked = check_texts(node, rows)
    return list(map(QuestionKey, partition_names(rows, context), texts, forms, checked))


def beside_answers(node: Semantic, rows: pa.Table) -> pa.Table | None:
    """The columns of rows that the check of their operator reads; None if it has none."""
    check = node.check if isinstance(node, Answering) else None
    if check is None:
        return None
    return rows.select([name for name in node.input.schema.names if name in check.roots])


def check_texts(node: Semantic, rows: pa.Table) -> list[str]:
    """The columns that the check of an operator reads of each row, as JSON."""
    beside = beside_answers(node, rows)
    return [""] * rows.num_rows if beside is None else prompt_texts(beside, beside.column_names)


def evidence(
    left: pa.Table,
    lefts: Sequence[int],
    texts: Sequence[str],
    answers: pa.Table,
    rights: Sequence[str] = (),
) -> pa.Table:
    """The evidence of an operator: the texts and the answer of each item.

    Args:
        left: The left input.
        lefts: The left row of each item.
        texts: What the prompt reads of it.
        answers: The answer of each item.
        rights: What the prompt reads of its right row; () without a right input.
    """
    input_rows = Batch.of_table(left).input_rows()
    columns: dict[str, Any] = {
        INPUT_ROW: pa.array([input_rows[i] for i in lefts], pa.int64()),
        "left": pa.array(texts, pa.string()),
        "right": pa.array(rights, pa.string()) if rights else pa.nulls(len(lefts), pa.string()),
    }
    return pa.table(
        columns | {name: answers.column(name) for name in answers.column_names if name != "item"}
    )


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
