"""Plain data to YAML 1.2, laid out as people write plans: one operator on a line.

Own code, because the emitter of the YAML library writes texts in flow style that its own reader refuses (`{'': ?0}`).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from semgraph.errors import EngineError

_LINE = 120
_BLOCK = {
    "inputs": 1,
    "presets": 1,
    "steps": 3,
    "writes": 2,
    "example": 4,
    "nodes": 2,
    "edges": 2,
}  # levels in block style
_PLAIN = re.compile(r"[A-Za-z_$(](?:[A-Za-z0-9_$().<>=+*/|-]| (?=[^ ]))*\Z")
_WORDS = {"true", "false", "null"}
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def write_yaml(data: Mapping[str, Any]) -> str:
    """Plain data as YAML; reading it gives equal data.

    >>> print(write_yaml({"plan": "x", "steps": {"a": [{"from": "t"}, {"filter": "n > 1"}]}}), end="")
    plan: x
    steps:
      a:
        - from: t
        - filter: n > 1
    """
    return "".join(f"{line}\n" for key, value in data.items() for line in _entry(key, value, 0, _BLOCK.get(key, 0)))


def _entry(key: str, value: Any, indent: int, block: int) -> Iterator[str]:
    """The lines of `key: value`; `block` levels below it are in block style."""
    start = f"{' ' * indent}{_text(key)}:"
    if block and value and isinstance(value, (Mapping, list, tuple)):
        yield start
        yield from _block(value, indent + 2, block)
    else:
        yield from _filled(start, value, indent)


def _block(value: Any, indent: int, block: int) -> Iterator[str]:
    if isinstance(value, Mapping):
        inner = block if "do" in value else block - 1
        for key, item in value.items():
            yield from _entry(key, item, indent, inner)
        return
    for item in value:
        if isinstance(item, Mapping) and len(item) == 1 and block > 1:
            ((key, argument),) = item.items()
            yield from _filled(f"{' ' * indent}- {_text(key)}:", argument, indent + 2)
        else:
            yield from _filled(f"{' ' * indent}-", item, indent)


def _filled(start: str, value: Any, indent: int) -> Iterator[str]:
    """A value in flow style after `start`, on more lines where one would be too long."""
    line = f"{start} {_flow(value)}"
    if len(line) <= _LINE or not value or not isinstance(value, (Mapping, list, tuple)):
        yield line.rstrip() if value is None else line
        return
    first, last = "{}" if isinstance(value, Mapping) else "[]"
    line = f"{start} {first}"
    parts = list(_parts(value))
    for i, part in enumerate(parts):
        piece = part + (last if i == len(parts) - 1 else ",")
        if len(line) + len(piece) > _LINE and line.strip():
            yield line.rstrip()
            line = " " * (indent + 4)
        line += piece + " "
    yield line.rstrip()


def _parts(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield _text(key) if item is None else f"{_text(key)}: {_flow(item)}"
    else:
        for item in value:
            yield "null" if item is None else _flow(item)


def _flow(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(_parts(value)) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_parts(value)) + "]"
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    if isinstance(value, (int, float)):
        return repr(value)
    raise EngineError(f"{type(value).__name__} has no place in a plan")


def _text(text: str) -> str:
    if _PLAIN.match(text) and text.lower() not in _WORDS:
        return text
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))
