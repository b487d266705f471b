"""Evaluation of semantic operators: from input rows to items, and from answers to result rows.

The engine makes the items (rows, pairs, groups), passes them to an implementation, checks its
answers, and assembles the result. Implementations never see `how`, `keep` or `on_error`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import singledispatch
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from semgraph.errors import DataError, EngineError, Fault
from semgraph.expr.duckdb import ORDINAL
from semgraph.expr.functions import canonical_json
from semgraph.expr.scalar import ROWS
from semgraph.expr.types import Type, parse_type
from semgraph.logical.node import Node
from semgraph.logical.prompt import Prompt, PromptSet, plain
from semgraph.logical.schema import NAME
from semgraph.logical.semantic import Semantic, SemFilter, SemMap
from semgraph.logical.typecheck import Stop
from semgraph.relational.batch import (
    INPUT_ROW,
    PARTITION,
    Batch,
    dense,
    hidden,
    pick,
    runtime_schema,
    values,
)
from semgraph.relational.fragments import execute
from semgraph.relational.sql import order_sql, quote
from semgraph.semantic.answers import answer_table, check_answer, watched
from semgraph.semantic.contract import (
    Context,
    Implementation,
    Outcome,
    RowEstimate,
    Rows,
    answer_schema,
)
from semgraph.semantic.library import estimated

_HINT = 'write types by name, such as {"title": {"type": "string", "describe": "a job"}}'
_QUOTED = 120


def shaped(
    node: SemMap, forms: Sequence[str | None], prompts: Sequence[int]
) -> tuple[SemMap, list[int]]:
    """The node with a prompt for each answer schema of its rows, and the number of each row's prompt
    in it.

    Args:
        node: A node with `schema`.
        forms: The answer schema of each row, as JSON.
        prompts: The number of each row's prompt in the node.

    Raises:
        DataError: A row has no valid schema.
    """
    numbers: dict[tuple[int, str], int] = {}
    shaped_prompts: list[Prompt] = []
    rows = []
    for number, text in zip(prompts, forms, strict=True):
        key = (number, text or "")
        if key not in numbers:
            numbers[key] = len(shaped_prompts)
            try:
                shaped_prompts.append(_with_answer_schema(node.prompt.all[number], text or ""))
            except Fault as fault:
                quote = "" if text is None else f": {text[:_QUOTED]}"
                what = f"{node.form} is no schema: {fault.what}{quote}"
                raise DataError(what, hint=fault.hint or _HINT) from None
        rows.append(numbers[key])
    return replace(
        node, prompt=PromptSet(tuple(("", prompt) for prompt in shaped_prompts), node.prompt.by)
    ), rows


def _with_answer_schema(prompt: Prompt, text: str) -> Prompt:
    fields, meanings = form_of(text)
    name = next(name for name, kind in prompt.returns if kind.name == "json")
    returns = tuple(
        (n, replace(kind, fields=fields) if n == name else kind) for n, kind in prompt.returns
    )
    described = tuple((f"{name}.{path}", meaning) for path, meaning in meanings)
    return replace(prompt, returns=returns, describe=(*prompt.describe, *described))


def form_of(text: str) -> tuple[tuple[tuple[str, Type], ...], tuple[tuple[str, str], ...]]:
    """The fields of an answer schema in JSON: types by name, and their meanings. Raises Fault."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise Fault("invalid JSON") from None
    if not isinstance(data, dict) or not data:
        raise Fault("it names no fields")
    fields, meanings = [], []
    for name, value in data.items():
        kind, meaning = _field(name, value)
        fields.append((name, kind))
        meanings += [(name, meaning)] if meaning else []
    return tuple(fields), tuple(meanings)


def _field(name: str, value: Any) -> tuple[Type, str]:
    if not NAME.match(name):
        raise Fault(f'"{name}" is no name', hint="letters, digits and _, not starting with a digit")
    spec = value if isinstance(value, Mapping) else {"type": value}
    kind, meaning = spec.get("type"), spec.get("describe", "")
    if (
        not isinstance(kind, str)
        or not isinstance(meaning, str)
        or not set(spec) <= {"type", "describe"}
    ):
        raise Fault(f'"{name}" has no type')
    return parse_type(kind), meaning


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
        return rows.made_of([tuple(ids[place] for place in own) for own in self.sources])

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
        """How many answered rows derive from these input rows (None: all), or from none."""
        if rows is None or self.evidence is None:
            return self.rows_in
        selected = set(rows)
        input_rows = self.input_rows
        if input_rows is None:
            input_rows = values(self.evidence.column(INPUT_ROW))
        return sum(row is None or row in selected for row in input_rows)

    @property
    def unusable(self) -> list[str]:
        """The calls with an answer that failed, each once."""
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


async def answer(node: Semantic, inputs: Sequence[pa.Table], context: AnswerContext) -> Answered:
    """Run one semantic operator over its inputs."""
    if not inputs[0].num_rows:
        return Answered(runtime_schema(node).empty_table())
    return await assemble(node, inputs, context)


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
    if not prompts.by:
        return [0] * table.num_rows
    everything = prompts.all
    chosen: list[int | None] = []
    for value in values(pick(table, prompts.by)):
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
    return _with_errors(node, table, units, refused)


def _refused(
    node: Semantic, left: pa.Table, items: pa.Table, prompts: Sequence[int | None]
) -> dict[int, str]:
    """The errors of items (for sem_agg: of groups) with a row without a prompt."""
    if None not in prompts:
        return {}
    known = ", ".join(value for value, _ in node.prompt.prompts)
    picked = [
        "NULL" if value is None else f'"{value}"' for value in values(pick(left, node.prompt.by))
    ]
    lefts, numbers = values(items.column("left")), _units(node, items)
    return {
        unit: f"no_prompt: there is none for {node.prompt.by} {picked[row]}, only for {known}: add otherwise to the prompt"
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


def prompt_texts(table: pa.Table, paths: Sequence[str], index: Sequence[int]) -> list[str]:
    """The columns that a prompt reads of some rows, as JSON: equal texts make equal prompts."""
    rows = _flat(table, paths).to_pylist() if paths else [{}] * table.num_rows
    texts = [canonical_json(plain(row)) for row in rows]
    return [texts[i] for i in index]


def question_keys(
    node: Semantic, rows: pa.Table, context: AnswerContext, owners: Sequence[str] | None = None
) -> list[object]:
    """The question of each row: its partition, the columns that prompts read, its answer schema.

    Rows with equal keys are one question.
    """
    form = node.form if isinstance(node, SemMap) else ""
    forms = values(pick(rows, form)) if form else [""] * rows.num_rows
    texts = prompt_texts(rows, node.prompt.fields, range(rows.num_rows))
    return list(zip(owners or partition_names(rows, context), texts, forms, strict=True))


def evidence(
    node: Semantic, left: pa.Table, lefts: Sequence[int], answers: pa.Table, rights: Sequence[str]
) -> pa.Table:
    """The evidence of an operator: the texts and the answer of each item."""
    input_rows = Batch.of_table(left).input_rows()
    columns: dict[str, Any] = {
        INPUT_ROW: pa.array([input_rows[i] for i in lefts], pa.int64()),
        "left": pa.array(prompt_texts(left, node.prompt.fields, lefts), pa.string()),
        "right": pa.array(list(rights), pa.string())
        if rights
        else pa.nulls(len(lefts), pa.string()),
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


@singledispatch
async def assemble(node: Semantic, inputs: Sequence[pa.Table], context: AnswerContext) -> Answered:  # noqa: ARG001
    """Answer the items, and assemble the result."""
    raise EngineError(f"the engine cannot assemble the answers of {node.keyword}")


Flags = npt.NDArray[np.bool_]
Through = Callable[[Batch], Awaitable[tuple[Batch, Sequence[int]]]]


@dataclass(frozen=True)
class RowAnswers:
    """The answers for a relation.

    Args:
        rows: The numbers of the answered rows, ascending.
        answers: Their answers, in that order.
        reached: For each row of the relation, whether it was processed: all, unless a limit stopped
            earlier.
    """

    rows: Sequence[int]
    answers: pa.Table
    reached: Flags


async def ask_rows(
    node: SemMap | SemFilter, table: pa.Table, selected: Flags, context: AnswerContext
) -> RowAnswers:
    """Answer the selected rows of a relation, until `node.stop` has enough."""
    if node.stop is None:
        index = [int(i) for i in np.flatnonzero(selected)]
        if context.known is None:
            whole = await _distinct(node, table, index, context)
        else:
            whole = _concat(node, await _reusing_known(node, table, index, context, context.known))
        return RowAnswers(index, whole, np.ones(table.num_rows, bool))
    queues = await _queues(node, node.stop, table, context.now)
    at_once = rows_a_call(node, table.num_rows, context.implementation)
    keys: Sequence[object] = (
        question_keys(node, table, context) if at_once > 1 else range(table.num_rows)
    )
    questions = [key if chosen else None for key, chosen in zip(keys, selected, strict=True)]
    reached = np.zeros(table.num_rows, bool)
    answers: dict[int, pa.Table] = {}
    known = {} if context.known is None else context.known
    while chunk := [
        row for queue in queues for row in queue.take(at_once, node.stop.n, questions, known)
    ]:
        reached[chunk] = True
        index = sorted(row for row in chunk if selected[row])
        new = await _reusing_known(node, table, index, context, known)
        answers |= dict(zip(index, new, strict=True))
        stays = {row: _stays(node, answer) for row, answer in zip(index, new, strict=True)}
        for queue in queues:
            queue.count({row: stays.get(row, True) for row in queue.taken})
    rows = sorted(answers)
    return RowAnswers(rows, _concat(node, [answers[row] for row in rows]), reached)


def _concat(node: SemMap | SemFilter, answers: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(answers) if answers else answer_schema(node).empty_table()


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
    queues = await _queues(node, stop, rows.table, now)
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
    return Batch.of_table(table).made_of([sources[i] for i in order] if sources else None)


def _stays(node: SemMap | SemFilter, answer: pa.Table) -> bool:
    """Whether a row with this answer is in the result."""
    if answer.column("error")[0].as_py() is not None:
        return node.on_error == "null"
    return bool(answer.column("keep")[0].as_py()) if "keep" in answer.column_names else True


async def _distinct(
    node: SemMap | SemFilter, table: pa.Table, index: Sequence[int], context: AnswerContext
) -> pa.Table:
    """The answers for some rows. Rows with equal prompts are one question."""
    left = table if len(index) == table.num_rows else table.take(pa.array(index, pa.int64()))
    if len(index) < 2:
        return await _answers(node, left, context)
    numbers, first = dense(question_keys(node, left, context))
    if len(first) == len(index):
        return await _answers(node, left, context)
    distinct = left.take(pa.array(first, pa.int64()))
    times = np.bincount(np.asarray(numbers)).tolist()
    return (await _answers(node, distinct, context, times)).take(pa.array(numbers, pa.int64()))


async def _answers(
    node: SemMap | SemFilter, left: pa.Table, context: AnswerContext, times: Sequence[int] = ()
) -> pa.Table:
    items = pa.table({"left": pa.array(range(left.num_rows), pa.int64())})
    return await ask(node, left, None, items, context, times)


async def _reusing_known(
    node: SemMap | SemFilter,
    table: pa.Table,
    index: Sequence[int],
    context: AnswerContext,
    known: dict[object, pa.Table],
) -> list[pa.Table]:
    """The answer for each of some rows; equal rows reuse the known answer."""
    left = table.take(pa.array(index, pa.int64()))
    keys = question_keys(node, left, context)
    new = {key: i for i, key in reversed(list(enumerate(keys))) if key not in known}
    places = sorted(new.values())
    if places:
        counts = Counter(keys)
        times = [counts[keys[place]] for place in places]
        answers = await _answers(node, left.take(pa.array(places, pa.int64())), context, times)
        known |= {keys[place]: answers.slice(i, 1) for i, place in enumerate(places)}
    return [known[key] for key in keys]


@dataclass
class _Queue:
    """The rows of one group in the limit's order, how many were processed, and how many of these
    stay in the result.
    """

    rows: list[int]
    next: int = 0
    kept: int = 0
    taken: list[int] = field(default_factory=list)

    def take(
        self, at_once: int, n: int, questions: Sequence[object], known: Collection[object]
    ) -> list[int]:
        """The rows to process next, in full calls: as many as are likely to be enough, but at most
        double the number processed so far.

        A call is full with `at_once` distinct questions that are not `known`; a row without a
        question has None.
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

    def count(self, stays: dict[int, bool]) -> None:
        """Count the rows of the last `take` that stay."""
        self.kept += sum(stays.values())
        self.taken = []


async def _queues(
    node: SemMap | SemFilter, stop: Stop, table: pa.Table, now: datetime | None
) -> list[_Queue]:
    keys = [quote(name) for name in stop.per] + (
        [PARTITION] if PARTITION in hidden(node.input) else []
    )
    group = f"min({ORDINAL}) OVER ({'PARTITION BY ' + ', '.join(keys) if keys else ''})"
    sql = f'SELECT {ORDINAL} AS "#o", {group} AS "#g" FROM {ROWS} ORDER BY "#g", {order_sql(stop.order, node.input, ORDINAL)}'
    places = await execute(
        sql, {ROWS: table}, pa.schema([("#o", pa.int64()), ("#g", pa.int64())]), now
    )
    queues: dict[int, _Queue] = {}
    for row, place in zip(values(places.column("#o")), values(places.column("#g")), strict=True):
        queues.setdefault(place, _Queue([])).rows.append(row)
    return list(queues.values())


def rows_a_call(node: SemMap | SemFilter, rows: int, implementation: Implementation[Any]) -> int:
    """How many rows share a call, by the implementation's estimate: chunks of full calls need no
    additional call.
    """
    cost = estimated(implementation, node, RowEstimate(rows, 0, rows, 0), None)
    return max(1, math.ceil(rows / cost.calls)) if cost.calls else 1
