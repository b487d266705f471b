"""Items asked of an implementation, its checked answers, and their evidence, for all operators.

The operators (`rows`, `pairs`, `groups`) make the items and assemble the result from the answers.
Implementations never see `how`, `keep` or `on_error`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from semgraph.expr.duckdb import ORDINAL
from semgraph.expr.functions import canonical_json
from semgraph.logical.node import Node
from semgraph.logical.prompt import PromptSet, plain
from semgraph.logical.semantic import Semantic, SemMap
from semgraph.relational.batch import (
    INPUT_ROW,
    Batch,
    dense,
    pick,
    values,
)
from semgraph.semantic.answers import answer_table, check_answer, outcomes, shaped
from semgraph.semantic.contract import (
    Context,
    Implementation,
    Outcome,
    Rows,
    answer_schema,
)
from semgraph.semantic.refs import checked_outcomes, needed_records, numbers_of_rows
from semgraph.semantic.watch import watched


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
    if numbers is not None:
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
) -> pa.Table:
    """Pass items to the implementation and check its answers: every item once, in order.

    A row without a prompt is not sent: it gets an error. `times` says how many equal rows each left
    row stands for. `owners` are the partitions of the left rows, if no column has them.
    """
    prompts = _prompts(left, node.prompt)
    refused = _refused(node, left, items, prompts)
    part, units = _without_refused(node, items, refused)
    other = None if right is None else _flat(right, node.prompt.other_fields)
    numbers = [p or 0 for p in prompts]
    if isinstance(node, SemMap) and node.form:
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
        return _with_errors(node, answer_schema(node).empty_table(), units, refused)
    table = await watched(context.implementation, node, rows, context.ctx)
    check_answer(node, rows, table, context.implementation)
    if records := numbers_of_rows(node, rows.left):
        known = [records[left] for left in values(part.column("left"))]
        answered = outcomes(node, table)
        if (valid := checked_outcomes(node, answered, known)) != answered:
            table = answer_table(node, valid)
    return _with_errors(node, table, units, refused)


def _refused(
    node: Semantic, left: pa.Table, items: pa.Table, prompts: Sequence[int | None]
) -> dict[int, str]:
    """The error for each item (for sem_agg: each group) that has a row without a prompt, or without
    the records of which it must name one.
    """
    return _without_records(node, left, items) | _without_prompt(node, left, items, prompts)


def _without_records(node: Semantic, left: pa.Table, items: pa.Table) -> dict[int, str]:
    refused: dict[int, str] = {}
    for name in needed_records(node):
        listed = values(left.column(name))
        for item, row in enumerate(values(items.column("left"))):
            if not listed[row]:
                refused[item] = f"no_records: {name} is empty: ask only when: len({name}) > 0"
    return refused


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


def _without_refused(
    node: Semantic, items: pa.Table, refused: Mapping[int, str]
) -> tuple[pa.Table, list[int]]:
    """The items without refused ones, groups renumbered, and the original number of each answer."""
    numbers = _units(node, items)
    if not refused:
        return items, list(dict.fromkeys(numbers))
    accepted = [i for i, unit in enumerate(numbers) if unit not in refused]
    part = items.take(pa.array(accepted, pa.int64()))
    if "group" in part.column_names:
        renumbered, _ = dense(values(part.column("group")))
        part = part.set_column(
            part.column_names.index("group"), "group", pa.array(renumbered, pa.int64())
        )
    return part, list(dict.fromkeys(numbers[i] for i in accepted))


def _with_errors(
    node: Semantic, table: pa.Table, units: Sequence[int], refused: Mapping[int, str]
) -> pa.Table:
    """The answers with their original numbers, and the errors of refused items, in order."""
    table = table.sort_by("item")
    if not refused:
        return table
    errors = answer_table(node, [Outcome(None, error) for error in refused.values()])
    numbered = [
        part.set_column(0, "item", pa.array(list(numbers), pa.int64()))
        for part, numbers in ((table, units), (errors, refused))
    ]
    return pa.concat_tables(numbered, promote_options="default").sort_by("item")


def prompt_texts(table: pa.Table, paths: Sequence[str]) -> list[str]:
    """The columns that a prompt reads of each row, as JSON: equal texts make equal prompts."""
    rows = _flat(table, paths).to_pylist() if paths else [{}] * table.num_rows
    return [canonical_json(plain(row)) for row in rows]


class QuestionKey(NamedTuple):
    """The key of a row: its partition, the columns that prompts read, and its answer schema.

    Rows with equal keys are one question.
    """

    partition: str
    text: str
    form: str | None


def question_keys(node: Semantic, rows: pa.Table, context: AnswerContext) -> list[QuestionKey]:
    """The key of each row."""
    form = node.form if isinstance(node, SemMap) else ""
    forms = values(pick(rows, form)) if form else [""] * rows.num_rows
    texts = prompt_texts(rows, node.prompt.fields)
    return list(map(QuestionKey, partition_names(rows, context), texts, forms))


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
            visible = plain(row.visible().to_pylist()[0])
            failed.append(Failure(node.step, error, row.input_rows()[0], visible))
    return tuple(failed)
