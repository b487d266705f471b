"""Answers that name records by their numbers: each number must be that of a record of the row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from semgraph.errors import RowError
from semgraph.expr.types import Type
from semgraph.logical.semantic import Semantic, SemMap
from semgraph.semantic.contract import Outcome
from semgraph.semantic.prompt.answers import LEFT_OUT, Note

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


def checked_outcomes(
    node: Semantic, outcomes: Sequence[Outcome], known: Sequence[Numbers], note: Note
) -> list[Outcome]:
    """The outcomes of rows without unknown numbers: implementations that write their own requests
    ask no second time.
    """
    return [_checked_outcome(node, *pair, note) for pair in zip(outcomes, known, strict=True)]


def _checked_outcome(node: Semantic, outcome: Outcome, known: Numbers, note: Note) -> Outcome:
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
