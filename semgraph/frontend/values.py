"""One value of an input to one value of its declared type. Nothing is guessed: what is not plainly of the type is refused."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import Any

from semgraph.errors import Fault
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type
from semgraph.logical.prompt import plain

_SLASHED = re.compile(r"\s*\d{1,4}[/.]\d{1,2}[/.]\d{1,4}")
_LEAST, _MOST = -(2**63), 2**63 - 1


def convert(value: Any, kind: Type) -> Any:
    """A value as its type's Python value, None for NULL. Raises Fault.

    >>> convert("2025-01-15T10:00:00+02:00", Type("timestamp")).isoformat()
    '2025-01-15T08:00:00+00:00'
    """
    if value is None or (value == "" and kind.name != "string") or _is_null(value):
        return None
    if kind.item is not None:
        return _items(_list(value, kind), kind.item)
    if kind.name == "struct":
        return _struct(value, kind)
    if kind.name == "vector":
        return _vector(value, kind)
    return _ATOMS[kind.name](value)


def _items(values: list[Any], kind: Type) -> list[Any]:
    found = [convert(v, kind) for v in values]
    if not kind.nullable and any(v is None for v in found):
        raise Fault(f"{shown(values)} holds a NULL", hint=f"declare it list<{kind} null> if it may")
    return found


def _is_null(value: object) -> bool:
    """Whether it is what data frames put for nothing (NaT, NA)."""
    return type(value).__name__ in {"NaTType", "NAType"}


def shown(value: object) -> str:
    """A value in a message: short, text in quotes."""
    text = f'"{value}"' if isinstance(value, str) else repr(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def check_text(text: str) -> str:
    """The text, unless it is none. Raises Fault. A run sets rows with a NUL aside."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            what = f"the text holds half a character (U+{ord(text[error.start]):04X}), at {error.start}"
            raise Fault(what, hint="it was cut or decoded wrongly before: read it as UTF-8") from None
    return text


def _text(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise Fault(f"{shown(value)} is not text")
    return check_text(str(value))


def _whole(value: Any) -> int:
    found: Any = value
    if isinstance(value, str):
        found = int(value) if re.fullmatch(r"\s*[+-]?\d+\s*", value) else None
    elif isinstance(value, float) and value.is_integer():
        found = int(value)
    if isinstance(found, bool) or not isinstance(found, int):
        raise Fault(f"{shown(value)} is not a whole number")
    if not _LEAST <= found <= _MOST:
        raise Fault(f"{shown(value)} has no place in 64 bits", hint="declare it as string")
    return found


def _number(value: Any) -> float:
    try:
        found = None if isinstance(value, (bool, list, Mapping)) else float(value)
    except (TypeError, ValueError, OverflowError):
        found = None
    if found is None or not math.isfinite(found):
        raise Fault(f"{shown(value)} is not a number")
    return found


def _truth(value: Any) -> bool:
    found = {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else value
    if not isinstance(found, bool):
        raise Fault(f"{shown(value)} is not true or false")
    return found


def _time(value: Any) -> datetime:
    found = value
    if isinstance(value, str):
        found = _iso(value, datetime.fromisoformat)
    elif isinstance(value, date) and not isinstance(value, datetime):
        found = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(found, datetime):
        raise Fault(f"{shown(value)} is not a time", hint='write it in ISO 8601, such as "2025-01-15T10:30:00Z"')
    try:
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except OverflowError:
        raise Fault(f"{shown(value)} is out of range") from None


def _date(value: Any) -> date:
    found = _iso(value, date.fromisoformat) if isinstance(value, str) else value
    if not isinstance(found, date) or isinstance(found, datetime):
        raise Fault(f"{shown(value)} is not a date", hint='write it in ISO 8601, such as "2025-01-15"')
    return found


def _iso(text: str, read: Callable[[str], Any]) -> Any:
    try:
        return read(text.strip())
    except ValueError:
        if _SLASHED.match(text):
            raise Fault(f"{shown(text)} is not ISO 8601: day or month first?") from None
        raise Fault(f"{shown(text)} is not ISO 8601", hint="such as 2025-01-15T10:30:00Z") from None


def _json(value: Any) -> str:
    if not isinstance(value, str):
        try:
            return check_text(canonical_json(plain(value)))
        except (TypeError, ValueError, RecursionError):
            raise Fault(f"{shown(value)} has no form in JSON") from None
    _parsed(value, "JSON")
    return check_text(value)


def _parsed(text: str, what: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise Fault(f"{shown(text)} is not {what}") from None


def _list(value: Any, kind: Type) -> list[Any]:
    found = _parsed(value, f"{kind} (a list in JSON)") if isinstance(value, str) else value
    if hasattr(found, "tolist"):
        found = found.tolist()
    if not isinstance(found, (list, tuple)):
        raise Fault(f"{shown(value)} is not a list")
    return list(found)


def _struct(value: Any, kind: Type) -> dict[str, Any]:
    found = _parsed(value, f"{kind} (an object in JSON)") if isinstance(value, str) else value
    if not isinstance(found, Mapping):
        raise Fault(f"{shown(value)} is not {kind}")
    known = dict(kind.fields)
    for name in found:
        if name not in known:
            raise Fault(f'{shown(value)} has a field "{name}"', there="fields: " + ", ".join(known))
    result = {}
    for name, inner in kind.fields:
        result[name] = convert(found.get(name), inner)
        if result[name] is None and not inner.nullable:
            raise Fault(f'{shown(value)} has no "{name}"', hint=f"declare it {inner} null if it may be missing")
    return result


def _vector(value: Any, kind: Type) -> list[float]:
    found = [_number(v) for v in _list(value, kind)]
    if kind.size and len(found) != kind.size:
        raise Fault(f"{len(found)} numbers, expected {kind.size}")
    return found


_ATOMS: dict[str, Callable[[Any], Any]] = {
    "string": _text,
    "int64": _whole,
    "double": _number,
    "boolean": _truth,
    "timestamp": _time,
    "date": _date,
    "json": _json,
}
