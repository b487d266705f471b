"""One text for equal values: what fingerprints are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
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
        inner = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.compare}
        return type(value).__name__ + canonical(inner, special)
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
