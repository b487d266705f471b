"""One text for equal values: what fingerprints are made of.

Stores keep fingerprints, so the text holds no name of Python code: a class gives its frozen `tag`,
a field its name, or the `tag` in its metadata once it was renamed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any


def canonical(value: Any, special: Callable[[Any], str | None] = lambda _: None) -> str:
    """Text that is equal for equal values. `special` gives the text of foreign objects.

    >>> canonical({"b": (1, None), "a": "x"})
    "{'a':'x','b':[1,None]}"
    """
    own = special(value) or getattr(
        value, "canonical_text", None
    )  # the latter is large, and keeps its text
    if own is not None:
        return str(own)
    if hasattr(value, "sql") and hasattr(value, "columns"):  # a scalar, however it was written
        return f"sql:{value.sql}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = {tag: getattr(value, name) for name, tag in tagged_fields(type(value))}
        return str(value.tag) + canonical(inner, special)  # type: ignore[attr-defined]
    if isinstance(value, Mapping):
        pairs = sorted((repr(k), canonical(v, special)) for k, v in value.items())
        return "{" + ",".join(f"{k}:{v}" for k, v in pairs) + "}"
    if isinstance(value, (frozenset, set, tuple, list)):
        parts = [canonical(v, special) for v in value]
        return (
            "[" + ",".join(parts) + "]"
            if isinstance(value, (tuple, list))
            else "{" + ",".join(sorted(parts)) + "}"
        )
    return str(value) if hasattr(value, "to_string") else repr(value)


@cache
def tagged_fields(cls: type[Any]) -> tuple[tuple[str, str], ...]:
    """The fields of a dataclass that count in comparisons, each with its frozen name."""
    return tuple(
        (f.name, f.metadata.get("tag", f.name)) for f in dataclasses.fields(cls) if f.compare
    )
