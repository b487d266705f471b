"""Halves of a row, for an answer of lists that is longer than the model gives at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from semgraph.expr.types import Type
from semgraph.logical.semantic import Semantic
from semgraph.semantic.contract import Outcome

_SHORTEST = (
    100  # characters of a text with halves: a long answer about a shorter one repeats itself
)


def lists_only(node: Semantic) -> bool:
    """Whether the answer has lists only, so that the answers about two halves add up to it."""
    return node.keyword in {"sem_map", "sem_agg"} and all(
        kind.item is not None for _, kind in node.answers
    )


def halved_columns(node: Semantic, values: Mapping[str, Any]) -> Iterable[str]:
    """The columns of a row to halve: the records that each element of the answer names one of; else
    the first text that has halves.
    """
    if not lists_only(node):
        return ()
    named = [_named_once(kind.item) & values.keys() for _, kind in node.answers if kind.item]
    if all(named):
        return {max(names, key=lambda name: len(values[name] or ())) for names in named}
    texts = (name for name, value in values.items() if isinstance(value, str))
    return [name for name in texts if half(values[name], [0]) != values[name]][:1]


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


def joined(first: Outcome, second: Outcome) -> Outcome:
    """The outcome of two halves: the lists of both, or the error of one. The second list lacks what
    is in the first: halves of a text overlap.
    """
    calls = (*first.calls, *second.calls)
    if first.values is None or second.values is None:
        return (first if first.values is None else second)._replace(calls=calls)
    values: dict[str, Any] = {}
    for name, more in second.values.items():
        before = first.values[name]
        new = [entry for entry in more or () if entry not in (before or ())]
        values[name] = more if before is None else [*before, *new]
    return Outcome(values, None, calls)
