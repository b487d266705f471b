"""Halves of a row, for an answer of lists that is longer than the model gives at once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from semgraph.expr.types import Type
from semgraph.logical.semantic import Semantic
from semgraph.semantic.contract import Outcome

T = TypeVar("T")
_CLAUSE = re.compile(r"[^,;、，；]+[,;、，；]*\s*|[,;、，；]+\s*")
_SHORTEST = 100
"""Characters of a text that is split: of a shorter one a long answer repeats itself."""


def lists_only(node: Semantic) -> bool:
    """Whether the answer has lists only, so that the answers about two halves add up to it."""
    lists = node.keyword in {"sem_map", "sem_agg"} and bool(node.answers)
    return lists and all(kind.item is not None for _, kind in node.answers)


def halved_columns(node: Semantic, values: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of a row to halve: the records that each element of the answer names one of; else
    the first text, else the longest list that no answer names.
    """
    if not lists_only(node):
        return ()
    named = [_named_once(kind.item) for _, kind in node.answers if kind.item is not None]
    records = [
        max((n for n in values if n in own), key=lambda n: len(values[n] or ()), default="")
        for own in named
    ]
    if all(records):
        return tuple(dict.fromkeys(records))
    for name, value in values.items():
        if isinstance(value, str) and len(value) >= _SHORTEST:
            return (name,)
    refs = {name for name, _ in getattr(node, "numbers_of", ())}
    lists = [name for name, value in values.items() if isinstance(value, list) and name not in refs]
    return (max(lists, key=lambda name: len(values[name])),) if lists else ()


def _named_once(kind: Type) -> set[str]:
    """The columns of records of which an element of a list names exactly one."""
    refs = [part.ref for _, part in (("", kind), *kind.fields) if part.ref and not part.nullable]
    return {ref for ref in refs if refs.count(ref) == 1}


def divisible(value: Any) -> bool:
    """Whether a text or list has two halves."""
    if isinstance(value, str):
        return len(value) >= _SHORTEST and len(_units(value)) > 1
    return len(value or ()) > 1


def half(value: Any, side: int) -> Any:
    """A half of a text or list: 0 for the first, 1 for the second. The second half of a text begins
    with the last sentence of the first.
    """
    if not isinstance(value, str):
        first, second = halves(tuple(value or ()))
        return second if side else first
    units = _units(value)
    size, middle = 0, 0
    while middle < len(units) - 1 and (not middle or size + len(units[middle]) <= len(value) // 2):
        size += len(units[middle])
        middle += 1
    return "".join(units[max(middle - 1, 1) :] if side else units[:middle])


def _units(text: str) -> list[str]:
    """The sentences and lines of a text; of a single one its clauses."""
    from sentencex import segment

    units: list[str] = []
    for line in (line for part in segment("en", text) for line in part.splitlines(keepends=True)):
        if units and not line.strip():
            units[-1] += line
        else:
            units.append(line)
    return units if len(units) > 1 else _CLAUSE.findall(text)


def halves(items: tuple[T, ...]) -> tuple[tuple[T, ...], tuple[T, ...]]:
    """Items in two halves; the first may have one more."""
    middle = (len(items) + 1) // 2
    return items[:middle], items[middle:]


Halves = dict[tuple[int, ...], "Outcome | bool"]
"""The outcomes of the halves of a row, by path; of one that was split, whether its halves overlap."""


def whole(parts: Halves, half: tuple[int, ...] = ()) -> Outcome | None:
    """The outcome of a row, from those of its halves; None while one is missing."""
    outcome = parts.get(half)
    if outcome is None or isinstance(outcome, Outcome):
        return outcome
    first, second = (whole(parts, (*half, side)) for side in (0, 1))
    return joined(first, second, overlap=outcome) if first and second else None


def joined(first: Outcome, second: Outcome, *, overlap: bool) -> Outcome:
    """The outcome of two halves: the lists of both, or the error of one. With `overlap` the second
    list lacks what is in the first.
    """
    if first.values is None or second.values is None:
        return first if first.values is None else second
    values: dict[str, Any] = {}
    for name, more in second.values.items():
        before = first.values[name]
        new = [entry for entry in more or () if not overlap or entry not in (before or ())]
        values[name] = more if before is None else [*before, *new]
    return Outcome(values, None, (*first.calls, *second.calls))
