"""Answers by name, and their limits in keywords of JSON Schema: read beside a type, put into words for
the model, and checked after the answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

from semgraph.errors import Fault, faults_at
from semgraph.expr.functions import canonical_json
from semgraph.expr.types import Type
from semgraph.logical.schema import NAME

# The path of a part of an answer: fields are dotted, `[]` is a list's entry, "" the whole answer.
PART = re.compile(r"([^\W\d]\w*(\[\])*(\.[^\W\d]\w*(\[\])*)*)?\Z")


_NUMBERS, _TEXTS, _LISTS = ("int64", "double"), ("string",), ("list",)
# Each keyword: the types that it limits, its words, and its name in Pydantic, which checks it.
_KEYWORDS: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "minimum": (_NUMBERS, "at least {}", "ge"),
    "maximum": (_NUMBERS, "at most {}", "le"),
    "exclusiveMinimum": (_NUMBERS, "more than {}", "gt"),
    "exclusiveMaximum": (_NUMBERS, "less than {}", "lt"),
    "multipleOf": (_NUMBERS, "a multiple of {}", "multiple_of"),
    "minLength": (_TEXTS, "at least {} characters", "min_length"),
    "maxLength": (_TEXTS, "at most {} characters", "max_length"),
    "pattern": (_TEXTS, "of the pattern {}", "pattern"),
    "minItems": (_LISTS, "at least {} entries", "min_length"),
    "maxItems": (_LISTS, "at most {} entries", "max_length"),
}
_CORE = {"int64": "int", "double": "float", "string": "str", "list": "list"}
_PYTHON = {
    "string": str,
    "enum": str,
    "boolean": bool,
    "int64": int,
    "double": float | int,
    "list": list,
    "struct": dict,
}
LIMITS = {key: words.format("N") for key, (_, words, _) in _KEYWORDS.items()}  # and what they mean
DEFAULT = "default"  # the value in place of null
OPTIONAL = "optional"  # of a class that is called: it has a default in place of null


def limits_of(keys: Mapping[str, Any], kind: Type, *, by_class: bool = False) -> str:
    """The limits of an answer, for `Type.limits`; none that a class checks. Raises Fault."""
    if by_class:
        return canonical_json({OPTIONAL: True}) if OPTIONAL in keys else ""
    limits = {key: keys[key] for key in (*LIMITS, DEFAULT) if keys.get(key) is not None}
    if OPTIONAL in keys:
        what = "only a class that is called has optional fields"
        raise Fault(what, OPTIONAL, hint=f"{kind} null")
    if DEFAULT in limits and not kind.nullable:
        what = f"default stands for null, and {kind} is never null"
        raise Fault(what, DEFAULT, hint=f"{kind} null")
    default = limits.get(DEFAULT)
    fits = isinstance(default, _PYTHON.get(kind.name, object))
    if default is not None and (not fits or default not in (kind.values or [default])):
        raise Fault(f"{canonical_json(default)} is no {kind}", DEFAULT)
    for key in limits.keys() & _KEYWORDS.keys():
        kinds = _KEYWORDS[key][0]
        if kind.name not in kinds:
            raise Fault(f"{key} does not limit {kind}", key, hint=f"it limits {', '.join(kinds)}")
        try:
            _check(canonical_json({key: limits[key]}), kind.name)
        except ValueError as error:
            raise Fault(f"{limits[key]!r}: {error}", key) from None
    return canonical_json(limits) if limits else ""


@lru_cache(maxsize=1024)
def _check(limits: str, name: str) -> Callable[[Any], bool]:
    """Whether a value of a type meets limits. Raises ValueError."""
    from pydantic_core import SchemaError, SchemaValidator

    given = keywords(limits)
    core: Any = {_KEYWORDS[key][2]: given[key] for key in given if key in _KEYWORDS}
    try:
        return SchemaValidator({"type": _CORE[name], **core}).isinstance_python
    except SchemaError as error:
        raise ValueError(str(error).splitlines()[-1].partition(": ")[2]) from None


@lru_cache(maxsize=1024)
def keywords(limits: str) -> Mapping[str, Any]:
    """The keywords of `Type.limits`."""
    return dict(json.loads(limits)) if limits else {}


def in_words(keys: Mapping[str, Any]) -> str:
    """Limits in words: `from 0 to 150`, `at most 3 characters`; and the default."""
    words = {key: text.format(keys[key]) for key, (_, text, _) in _KEYWORDS.items() if key in keys}
    for of in ("imum", "Length", "Items"):
        if (least := f"min{of}") in words and (most := f"max{of}") in words:
            words[most] = words[most].replace("at most", f"from {keys[least]} to")
            del words[least]
    default = keys.get(DEFAULT)
    said = [] if default is None else [f"default: {canonical_json(default)}"]
    return ", ".join([*words.values(), *said])


def meets(kind: Type, value: Any) -> bool:
    """Whether a value of a type meets the type's limits."""
    limited = not keywords(kind.limits).keys().isdisjoint(_KEYWORDS)
    return not limited or _check(kind.limits, kind.name)(value)


def without_optional(kind: Type, value: Any) -> Any:
    """A JSON value without the optional fields that are null: a class has defaults for them."""
    if kind.item is not None and value is not None:
        return [without_optional(kind.item, entry) for entry in value]
    if not kind.fields or value is None:
        return value
    return {
        name: without_optional(part, value[name])
        for name, part in kind.fields
        if value[name] is not None or OPTIONAL not in keywords(part.limits)
    }


class Answers(NamedTuple):
    """Typed answers by name, their meanings and limits in words by path, and the classes that are
    called with answers, by name; "": with all.
    """

    fields: tuple[tuple[str, Type], ...]
    describe: tuple[tuple[str, str], ...]
    validators: tuple[tuple[str, Any], ...] = ()


def typed_answers(
    entries: Mapping[str, Mapping[str, Any]], describe: Mapping[str, str] | None = None
) -> Answers:
    """Answers from the keys of each, and of their parts by path: `type` (of an answer), `describe`,
    limits and `class`; and further meanings by path. Raises Fault.
    """
    rest = {re.sub(r"(\[\])+\.", ".", path): keys for path, keys in entries.items()}
    told = {path: keys["describe"] for path, keys in rest.items() if keys.get("describe")}
    told |= dict(describe or {})
    words = ((path, in_words(keys)) for path, keys in rest.items())
    told |= {
        path: f"{told[path]} ({said})" if path in told else said for path, said in words if said
    }
    validators = tuple((path, keys["class"]) for path, keys in rest.items() if "class" in keys)

    def with_limits(kind: Type, path: str, by_class: bool) -> Type:
        keys, inner = rest.pop(path, {}), path.rstrip("[]")
        by_class = by_class or "class" in keys
        with faults_at(path):
            limits = limits_of(keys, kind, by_class=by_class)
        item = kind.item and with_limits(kind.item, f"{path}[]", by_class)
        fields = [
            (n, with_limits(part, f"{inner}.{n}".lstrip("."), by_class)) for n, part in kind.fields
        ]
        return replace(kind, item=item, fields=tuple(fields), limits=limits)

    fields = tuple((name, keys["type"]) for name, keys in entries.items() if "type" in keys)
    whole = with_limits(Type("struct", fields=fields), "", by_class=False)
    for path in rest:
        raise Fault("no answer has such a part", path)
    return Answers(whole.fields, tuple(told.items()), validators)


def is_part(path: str) -> bool:
    """Whether a key among answers is the path of a part of an answer, not the name of an answer."""
    return bool(PART.match(path)) and not NAME.match(path)
