"""What two recorded rows have in common, and what a row holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

Row = Mapping[str, Any]
MEMBER = "_m"
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z")
_BEGINNING = re.compile(r"[0-9a-f][0-9a-f-]{3,}\Z")


def same_member(row: Row, other: Row) -> bool:
    """Whether two rows may derive from the same member row; one that derives from none may belong to any."""
    mine, theirs = row.get(MEMBER), other.get(MEMBER)
    return mine is None or theirs is None or mine == theirs


def holds(value: Any, what: str) -> bool:
    """Whether a value, or one inside it, is it, or a key that begins with it."""
    folded = what.casefold()
    prefix = bool(_BEGINNING.match(folded))
    return any(
        text.casefold() == folded or (prefix and UUID.match(text) is not None and text.startswith(folded))
        for text in texts(value)
    )


def texts(value: Any) -> Iterator[str]:
    """Every text inside a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from texts(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from texts(inner)


def at(row: Row, path: str) -> Any:
    """The value of a column, or of a field inside it (`pair.a`)."""
    value: Any = row
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def as_text(value: Any) -> str:
    """A value as it is written after `column=`."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)


def parsed(text: Any) -> Any:
    """What a text holds as JSON; the text itself if it is none."""
    try:
        return json.loads(text) if isinstance(text, str) else text
    except json.JSONDecodeError:
        return text
