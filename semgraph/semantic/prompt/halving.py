"""Halves of a row, for an answer of lists that is longer than the model gives at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from semgraph.expr.types import Type
from semgraph.logical.semantic import Semantic
from semgraph.semantic.contract import Outcome

_SHORTEST = 100  # characters of a text with halves: a long answer on a shorter one repeats itself
_MOST_COMMON = 100  # entries of an overlap, which is one sentence or line


def lists_only(node: Semantic) -> bool:
    """Whether the answer has lists only, so that the answers about two halves add up to it."""
    return node.keyword in {"sem_map", "sem_agg"} and all(
        kind.item is not None for _, kind in node.answers
    )


def halved_column(node: Semantic, values: Mapping[str, Any]) -> str | None:
    """The column of a row to halve: the most records of which each element of the answer names one;
    where no records are named so by all lists, the longest text that has halves.
    """
    if not lists_only(node):
        return None
    named = set.intersection(*(_named_once(kind.item) for _, kind in node.answers if kind.item))
    texts = [name for name, value in values.items() if isinstance(value, str)]
    wanted = [name for name in values if name in named] or texts
    by_length = sorted(wanted, key=lambda name: -len(values[name] or ()))
    return next((name for name in by_length if half(values[name], [0]) != values[name]), None)


def _named_once(kind: Type) -> set[str]:
    """The columns of records of which an element of a list names exactly one."""
    refs = [part.ref for _, part in (("", kind), *kind.fields) if part.ref and not part.nullable]
    return {ref for ref in refs if refs.count(ref) == 1}


def half(value: Any, sides: Iterable[int]) -> Any:
    """A half of a text or list, or a half of a half, ...: 0 is the first, 1 the second. The second
    half of a text begins with the last sentence or line of the first.
    """
    is_text = isinstance(value, str)
    for side in sides:
        units = _sentences(value) if is_text else value or ()
        if len(units) > 1:
            middle = (len(units) + 1) // 2
            part = units[max(middle - is_text, 1) :] if side else units[:middle]
            value = "".join(part) if is_text else part
    return value


def _sentences(text: str) -> list[str]:
    from sentencex import segment

    sentences = segment("en", text) if len(text) >= _SHORTEST else [text]
    return [line for part in sentences for line in part.splitlines(keepends=True)]


def joined(node: Semantic, first: Outcome, second: Outcome, *, overlap: bool) -> Outcome:
    """The outcome of two halves: the lists of both, or the error of one. Where the halves `overlap`,
    the shortest run of entries that ends the first list and begins the second is in the result once.
    """
    calls = (*first.calls, *second.calls)
    if first.values is None or second.values is None:
        return (first if first.values is None else second)._replace(calls=calls)
    values: dict[str, Any] = {}
    for name, kind in node.answers:
        before, more = first.values[name] or [], second.values[name] or []
        runs = range(1, _MOST_COMMON + 1) if overlap else ()
        common = next((n for n in runs if before[-n:] == more[:n]), 0)
        entries = [*before, *more[common:]]
        if kind.item is not None and kind.item.ref:  # a list has each number once
            entries = list(dict.fromkeys(entries))
        values[name] = entries or second.values[name]
    return Outcome(values, None, calls)
