"""The canonical text of values, equal for equal values. Fingerprints are made from it.

Stores keep fingerprints, so the text must not change when Python code is renamed. A class has a
frozen `tag`; a field has its name or, if it was renamed, the `tag` in its metadata. A field with
`added` in its metadata counts only if it is set, so that values from before the field keep their
text.
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
    if value is None or isinstance(value, (str, int, float)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return "[" + ",".join([canonical(v, special) for v in value]) + "]"
    if isinstance(value, Mapping):
        pairs = sorted((repr(k), canonical(v, special)) for k, v in value.items())
        return "{" + ",".join(f"{k}:{v}" for k, v in pairs) + "}"
    if isinstance(value, (frozenset, set)):
        return "{" + ",".join(sorted(canonical(v, special) for v in value)) + "}"
    return special(value) or _text_of_object(value, special)


def _text_of_object(value: Any, special: Callable[[Any], str | None]) -> str:
    own = getattr(value, "canonical_text", None)  # large values cache it
    if own is not None:
        return str(own)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return text_of_fields(value, special)
    return str(value) if hasattr(value, "to_string") else repr(value)


def text_of_fields(value: Any, special: Callable[[Any], str | None] = lambda _: None) -> str:
    """The canonical text of a dataclass: its tag and its fields."""
    cls = value.__class__
    inner = {
        tag: getattr(value, name)
        for name, tag in tagged_fields(cls)
        if not is_unset(cls, name, getattr(value, name))
    }
    return str(value.tag) + canonical(inner, special)


@cache
def tagged_fields(cls: type[Any]) -> tuple[tuple[str, str], ...]:
    """The fields of a dataclass that count in comparisons, each with its frozen name."""
    return tuple(
        (f.name, f.metadata.get("tag", f.name)) for f in dataclasses.fields(cls) if f.compare
    )


def is_unset(cls: Any, name: str, value: Any) -> bool:
    """Whether a field was added to its class later (`added` in its metadata) and has its default.
    The text then omits it.
    """
    later = _added_later(cls)
    return name in later and bool(value == later[name])


@cache
def _added_later(cls: type[Any]) -> Mapping[str, Any]:
    return {f.name: f.default for f in dataclasses.fields(cls) if f.metadata.get("added")}
