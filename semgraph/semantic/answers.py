"""Answer tables, made from outcomes and checked when an implementation returns them; the answer
schemas that rows bring; and answers that name records of their row by numbers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from semgraph.errors import DataError, Fault, RowError
from semgraph.expr.types import Type, parse_type
from semgraph.logical.prompt import Prompt, PromptSet
from semgraph.logical.schema import NAME
from semgraph.logical.semantic import Semantic, SemMap
from semgraph.relational.batch import values as column_values
from semgraph.semantic.contract import (
    SCORE,
    Outcome,
    answer_schema,
)
from semgraph.semantic.prompt.answers import LEFT_OUT, Note

SCHEMA_HINT = 'write types by name, such as {"title": {"type": "string", "describe": "a job"}}'
_QUOTED = 120


def answer_table(node: Semantic, outcomes: Sequence[Outcome], *, scored: bool = False) -> pa.Table:
    """The table that `answer` returns, from an outcome for each item (for sem_agg: for each group),
    in order; `scored`: with the `score` of verdicts, for sem_filter and sem_join.
    """
    schema = answer_schema(node)
    columns: list[pa.Array[Any]] = [pa.array(range(len(outcomes)), pa.int64())]
    for i in range(1, len(schema) - 2):
        field = schema.field(i)
        values = [None if o.values is None else o.values.get(field.name) for o in outcomes]
        columns.append(pa.array(values, field.type))
    columns.append(pa.array([o.error for o in outcomes], pa.string()))
    columns.append(pa.array([list(o.calls) for o in outcomes], pa.list_(pa.string())))
    table = pa.Table.from_arrays(columns, schema=schema)
    if not scored:
        return table
    scores = [None if o.values is None else o.values.get(SCORE) for o in outcomes]
    return table.append_column(pa.field(SCORE, pa.float64()), pa.array(scores, pa.float64()))


def outcomes(node: Semantic, table: pa.Table) -> list[Outcome]:  # noqa: ARG001
    """The outcomes in a table of answers, by item: the reverse of `answer_table`."""
    table = table.sort_by("item")
    names = [name for name in table.column_names if name not in {"item", "error", "calls"}]
    rows = zip(*(column_values(table.column(name)) for name in names), strict=True)
    ends = zip(*(table.column(name).to_pylist() for name in ("error", "calls")), strict=True)
    return [
        Outcome(None if error else dict(zip(names, row, strict=True)), error, tuple(calls))
        for row, (error, calls) in zip(rows, ends, strict=True)
    ]


def with_row_schemas(
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
    prompts_by_schema: list[Prompt] = []
    rows = []
    for number, text in zip(prompts, forms, strict=True):
        key = (number, text or "")
        if key not in numbers:
            numbers[key] = len(prompts_by_schema)
            try:
                prompts_by_schema.append(_with_answer_schema(node.prompt.all[number], text or ""))
            except Fault as fault:
                quote = "" if text is None else f": {text[:_QUOTED]}"
                what = f"{node.form} is no schema: {fault.what}{quote}"
                raise DataError(what, hint=fault.hint or SCHEMA_HINT) from None
        rows.append(numbers[key])
    return replace(
        node, prompt=PromptSet(tuple(("", prompt) for prompt in prompts_by_schema), node.prompt.on)
    ), rows


def _with_answer_schema(prompt: Prompt, text: str) -> Prompt:
    fields, meanings = parse_answer_schema(text)
    name = next(name for name, kind in prompt.returns if kind.name == "json")
    returns = tuple(
        (n, replace(kind, fields=fields) if n == name else kind) for n, kind in prompt.returns
    )
    described = tuple((f"{name}.{path}", meaning) for path, meaning in meanings)
    return replace(prompt, returns=returns, describe=(*prompt.describe, *described))


def parse_answer_schema(
    text: str,
) -> tuple[tuple[tuple[str, Type], ...], tuple[tuple[str, str], ...]]:
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


_DROPPED = object()
Numbers = Mapping[str, frozenset[int]]
"""The numbers of a row's records, by the column that has them."""


class UnknownNumber(Exception):
    """An answer has a number that no record has, and may be asked for again."""


def numbers_of_rows(node: Semantic, left: pa.Table) -> list[Numbers]:
    """The numbers of the records of each row; none for operators without refs."""
    columns = node.numbers_of if isinstance(node, SemMap) else ()
    if not columns:
        return []
    listed = {name: left.column(name).to_pylist() for name, _ in columns}
    return [
        {
            name: frozenset(record["number"] for record in rows[i] or ())
            for name, rows in listed.items()
        }
        for i in range(left.num_rows)
    ]


def checked_numbers(
    node: Semantic, values: Mapping[str, Any], known: Numbers, note: Note, *, again: bool
) -> dict[str, Any]:
    """The answers of a row, without list entries that hold an unknown number where these are
    dropped; a number that a list repeats is in it once.

    Args:
        node: A sem_map whose answers name records.
        values: The answers by name; others pass.
        known: The numbers of the row's records.
        note: Receives the entries that are dropped.
        again: Whether numbers can be asked for again; if not, their entries are dropped, too.

    Raises:
        UnknownNumber: A number is that of no record, and is asked for again, or nothing is left.
        RowError: It is in no list, so that there is nothing to drop.
    """
    assert isinstance(node, SemMap)
    again = again or all(unknown == "drop" for _, unknown in node.numbers_of)
    dropping = {name for name, unknown in node.numbers_of if unknown == "drop" or not again}
    checked = dict(values)
    for name, kind in node.answers:
        checked[name] = _checked(kind, values[name], name, known, dropping, note)
    lists = [checked[name] for name, kind in node.answers if kind.item is not None]
    dropped = next((name for name in checked if checked[name] is _DROPPED), None)
    if not again and (dropped or not any(lists)):
        return checked_numbers(node, values, known, note, again=True)
    if dropped:
        raise RowError("unknown", f"{dropped} names a record that is not listed")
    return checked


def _checked(
    kind: Type, value: Any, path: str, known: Numbers, dropping: set[str], note: Note
) -> Any:
    if value is None or kind.name == "json":
        return value
    if kind.ref:
        if value in known[kind.ref]:
            return value
        if kind.ref in dropping:
            return _DROPPED
        raise UnknownNumber(f"{path} has {value}, which is the number of no record")
    if kind.item is not None:
        entries = [_checked(kind.item, entry, path, known, dropping, note) for entry in value]
        kept = [entry for entry in entries if entry is not _DROPPED]
        for _ in entries[len(kept) :]:
            note(LEFT_OUT, f"{path} has the number of no record")
        return list(dict.fromkeys(kept)) if kind.item.ref else kept
    if kind.name != "struct":
        return value
    fields = {
        name: _checked(part, value[name], f"{path}.{name}", known, dropping, note)
        for name, part in kind.fields
    }
    return _DROPPED if _DROPPED in fields.values() else fields


def checked_outcome(node: Semantic, outcome: Outcome, known: Numbers, note: Note) -> Outcome:
    """The outcome of a row without unknown numbers: an implementation that writes its own requests
    asks no second time.
    """
    if outcome.values is None:
        return outcome
    try:
        values = checked_numbers(node, outcome.values, known, note, again=False)
        return outcome._replace(values=values)
    except UnknownNumber as error:
        return Outcome(None, f"invalid: {error}", outcome.calls)
    except RowError as error:
        return Outcome(None, f"{error.kind}: {error}", outcome.calls)


def needed_records(node: Semantic) -> tuple[str, ...]:
    """The columns with records of which each answer must name one: a row without is not asked."""
    if not isinstance(node, SemMap):
        return ()
    return tuple(dict.fromkeys(name for _, kind in node.answers for name in _needed_in(kind)))


def _needed_in(kind: Type) -> list[str]:
    if kind.nullable or kind.item is not None or kind.name == "json":
        return []
    if kind.ref:
        return [kind.ref]
    return [name for _, part in kind.fields for name in _needed_in(part)]
