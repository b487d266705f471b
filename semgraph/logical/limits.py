"""Answers by name, and their limits in keywords of JSON Schema: read beside a type, put into words for
the model, and checked after the answer.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from semgraph.errors import Fault
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type
from semgraph.logical.schema import NAME

# The path of a part of an answer: fields are dotted, `[]` is a list's entry, "" the whole answer.
PART = re.compile(r"([^\W\d]\w*(\[\])*(\.[^\W\d]\w*(\[\])*)*)?\Z")


def _is_multiple(value: float, step: float) -> bool:
    return abs(math.remainder(value, step)) <= 1e-9 * abs(value)


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> Callable[[str], bool]:
    """Whether a text has a pattern, as Pydantic reads it: in linear time. Raises ValueError."""
    from pydantic_core import SchemaError, SchemaValidator, core_schema

    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern)).isinstance_python
    except SchemaError as error:
        raise ValueError(str(error).splitlines()[-1].strip()) from None


_NUMBERS, _TEXTS, _LISTS = ("int64", "double"), ("string",), ("list",)
# Each keyword: the types that it limits, its words, and whether a value meets it.
_KEYWORDS: Mapping[str, tuple[tuple[str, ...], str, Callable[[Any, Any], bool]]] = {
    "minimum": (_NUMBERS, "at least {}", operator.ge),
    "maximum": (_NUMBERS, "at most {}", operator.le),
    "exclusiveMinimum": (_NUMBERS, "more than {}", operator.gt),
    "exclusiveMaximum": (_NUMBERS, "less than {}", operator.lt),
    "multipleOf": (_NUMBERS, "a multiple of {}", _is_multiple),
    "minLength": (_TEXTS, "at least {} characters", lambda value, n: len(value) >= n),
    "maxLength": (_TEXTS, "at most {} characters", lambda value, n: len(value) <= n),
    "pattern": (_TEXTS, "of the pattern {}", lambda value, pattern: _compiled(pattern)(value)),
    "minItems": (_LISTS, "at least {} entries", lambda value, n: len(value) >= n),
    "maxItems": (_LISTS, "at most {} entries", lambda value, n: len(value) <= n),
}
LIMITS = {key: words.format("N") for key, (_, words, _) in _KEYWORDS.items()}  # and what they mean
DEFAULT = "default"  # the value in place of null
_STEP = re.compile(r"\[\]|[^.\[\]]+")


def limits_of(keys: Mapping[str, Any], kind: Type) -> str:
    """The limits among the keys of an answer of a type, as `Type.limits` has them. Raises Fault."""
    limits = {key: keys[key] for key in (*LIMITS, DEFAULT) if keys.get(key) is not None}
    for key, value in limits.items():
        if key == DEFAULT and not kind.nullable:
            what = f"default stands for null, and {kind} is never null"
            raise Fault(what, key, hint=f"{kind} null")
        kinds = _KEYWORDS[key][0] if key in _KEYWORDS else (kind.name,)
        if kind.name not in kinds:
            raise Fault(f"{key} does not limit {kind}", key, hint=f"it limits {', '.join(kinds)}")
        try:  # a value that it can be compared with
            _ = key == DEFAULT or _KEYWORDS[key][2](1 if kinds == _NUMBERS else "", value)
        except (TypeError, ValueError) as error:
            raise Fault(f"{value!r}: {error}", key) from None
    return canonical_json(limits) if limits else ""


@lru_cache(maxsize=1024)
def keywords(limits: str) -> Mapping[str, Any]:
    """The keywords of `Type.limits`."""
    return dict(json.loads(limits)) if limits else {}


def in_words(limits: str) -> str:
    """Limits in words: `from 0 to 150`, `at most 3 characters`."""
    given = keywords(limits)
    words = {
        key: text.format(given[key]) for key, (_, text, _) in _KEYWORDS.items() if key in given
    }
    for of in ("imum", "Length", "Items"):
        if (least := f"min{of}") in words and (most := f"max{of}") in words:
            words[most] = words[most].replace("at most", f"from {given[least]} to")
            del words[least]
    return ", ".join(words.values())


def meets(limits: str, value: Any) -> bool:
    """Whether a value of a type meets the type's limits."""
    given = keywords(limits)
    return all(_KEYWORDS[key][2](value, given[key]) for key in given if key in _KEYWORDS)


def limited(fields: tuple[tuple[str, Type], ...], prefix: str = "") -> Iterator[tuple[str, str]]:
    """The limits and defaults of answers and their parts in words, by path."""
    for name, kind in fields:
        path, part = prefix + name, kind
        while True:
            if part.limits:
                default = keywords(part.limits).get(DEFAULT)
                words = [] if default is None else [f"default: {canonical_json(default)}"]
                yield path, ", ".join(filter(None, [in_words(part.limits), *words]))
            if part.item is None:
                break
            path, part = f"{path}[]", part.item
        yield from limited(part.fields, f"{prefix}{name}.")


class Answers(NamedTuple):
    """Typed answers by name, their meanings by path, and the class that validates the whole."""

    fields: tuple[tuple[str, Type], ...]
    describe: tuple[tuple[str, str], ...]
    validator: Any = None


def typed_answers(entries: Mapping[str, Mapping[str, Any]]) -> Answers:
    """Answers from the keys of each, and of their parts by path: `type` (of an answer), `describe`,
    limits and `class`. Raises Fault.
    """
    fields = tuple((name, keys["type"]) for name, keys in entries.items() if "type" in keys)
    whole, told = Type("struct", fields=fields), list[tuple[str, str]]()
    for path in entries:
        keys = entries[path]

        def with_keys(kind: Type, keys: Mapping[str, Any] = keys) -> Type:
            return replace(kind, limits=limits_of(keys, kind), validator=keys.get("class"))

        try:
            whole = _changed(whole, _STEP.findall(path), with_keys)
        except Fault as fault:
            raise fault.under(path) from None
        told += [(path, keys["describe"])] if keys.get("describe") else []
    return Answers(whole.fields, tuple(told), whole.validator)


def _changed(kind: Type, steps: Sequence[str], change: Callable[[Type], Type]) -> Type:
    """A type with a changed part. Raises Fault if there is no such part."""
    if not steps:
        return change(kind)
    step, *rest = steps
    if kind.item is not None:
        return replace(kind, item=_changed(kind.item, rest if step == "[]" else steps, change))
    if step not in dict(kind.fields):
        raise Fault(f'{kind} has no part "{step}"')
    fields = tuple((n, _changed(k, rest, change) if n == step else k) for n, k in kind.fields)
    return replace(kind, fields=fields)


def is_part(path: str) -> bool:
    """Whether a key among answers is the path of a part of an answer, not the name of an answer."""
    return bool(PART.match(path)) and not NAME.match(path)
