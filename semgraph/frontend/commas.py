"""Texts that YAML cut at a comma: `{n: coalesce(a, b)}` is a text `coalesce(a` and a key `b)`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from semgraph.expr.brackets import depth

HINT = "a text with a comma needs quotes inside { } and [ ]"

_CALL = re.compile(r"\w\([^()]*,[^()]*\Z")


def inside_a_call(before: str) -> bool:
    """Whether a line breaks off behind a comma between the arguments of a call: `{n: coalesce(a, 'x'`."""
    return _CALL.search(before) is not None


def rest_of(value: Any, following: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Which of the keys and values that follow a text are the rest of it: what closes its brackets. None if nothing does.

    >>> rest_of("coalesce(a", [("b)", None), ("m", "c")]), rest_of("upper(a", [("m", "lower(b)")])
    (['b)'], [])
    """
    if not isinstance(value, str) or depth(value) <= 0:
        return []
    text = value
    rest: list[Any] = []
    for key, more in following:
        text, rest = f"{text}, {key}", [*rest, key]
        if depth(text) == 0:
            return rest
        if more is not None:
            break
    return []


def rests(given: Mapping[Any, Any]) -> set[Any]:
    """The keys of a mapping that are the rest of a text before them."""
    items = list(given.items())
    return {key for i, (_, value) in enumerate(items) for key in rest_of(value, items[i + 1 :])}


def cut(data: Any, path: Sequence[str | int]) -> bool:
    """Whether the text at a path of plain data was cut."""
    if not path:
        return False
    around = data
    try:
        for key in path[:-1]:
            around = around[key]
        items = list(around.items()) if isinstance(around, Mapping) else [(value, None) for value in around]
        at = list(around).index(path[-1]) if isinstance(around, Mapping) else int(path[-1])
        value = around[path[-1]]
    except (LookupError, TypeError, ValueError):  # what stands there came from a parameter
        return False
    return bool(rest_of(value, items[at + 1 :]))
