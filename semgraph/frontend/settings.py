"""What is settled when a plan is loaded: parameters, presets, choices, and conditions on
parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from semgraph.errors import Fault
from semgraph.expr.functions import canonical_json
from semgraph.expr.scalar import NOW
from semgraph.frontend.scope import KeyFault, kind_of, unknown, wrong
from semgraph.logical.schema import NAME

_WHOLE = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)\Z")


def mapping(value: Any, what: str) -> dict[str, Any]:
    """A mapping; nothing is an empty one. Raises Fault."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong(what, value)
    return dict(value)


def known_keys(value: Mapping[str, Any], known: Iterable[str], what: str) -> list[Fault]:
    """A fault for each key that does not belong there."""
    listed = list(known)
    return [
        unknown(str(key), listed, f"{what} has no", "keys", key)
        for key in value
        if key not in listed
    ]


def unknown_parameter(
    name: str, params: Iterable[str], *path: str | int, value: bool = False
) -> Fault:
    """The fault of a parameter that the plan does not have."""
    return unknown(name, params, "no parameter", "parameters", *path, value=value)


def defaults(declared: Mapping[str, Any]) -> list[Fault]:
    """What is wrong with the names of declared parameters."""
    return [
        KeyFault(
            f'"{name}" cannot name a parameter',
            name,
            hint="letters, digits and _; $now is the window's time",
        )
        for name in declared
        if not NAME.match(name) or name == NOW
    ]


def settle(declared: Mapping[str, Any], *given: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters' values: defaults, then each of the given in turn. Raises Fault for one that
    is not declared.
    """
    found = dict(declared)
    for values in given:
        for name, value in values.items():
            if name not in declared:
                raise unknown_parameter(name, declared, name)
            found[name] = value
    return found


def whole_parameter(value: object) -> str:
    """The name of the parameter that a text is as a whole, or ""."""
    found = _WHOLE.match(value) if isinstance(value, str) else None
    return "" if found is None or found[1] == NOW else found[1]


def told(condition: Any, params: Mapping[str, Any]) -> str:
    """What the parameters of a `when` are: `way is short and flag is false`."""
    names = [
        whole_parameter(key)
        for key in (condition if isinstance(condition, Mapping) else [condition])
    ]
    return (
        " and ".join(f"{name} is {canonical_json(params[name])}" for name in names if name)
        or "none"
    )


def holds(condition: Any, params: Mapping[str, Any]) -> bool:
    """Whether a `when` holds: `$flag`, or `{$param: value}`, or `{$param: [values]}`. Raises Fault.

    False, null, 0 and what is empty do not hold.

    >>> holds({"$extract": "combined"}, {"extract": "combined"})
    True
    """
    if not isinstance(condition, Mapping):
        name = whole_parameter(condition)
        if name:
            return bool(_value(name, params))
        if isinstance(condition, bool):
            return condition
        raise Fault(
            f"expected a parameter, found {kind_of(condition)}",
            hint="write when: $flag, or when: {$param: value}",
        )
    if not condition:
        raise Fault("expected a parameter, found nothing", hint="write when: {$param: value}")
    for key, wanted in condition.items():
        name = whole_parameter(key)
        if not name:
            raise Fault(f'"{key}" is no parameter', key, hint="write when: {$param: value}")
        value = _value(name, params)
        if not (value in wanted if isinstance(wanted, list) else value == wanted):
            return False
    return True


def _value(name: str, params: Mapping[str, Any]) -> Any:
    if name not in params:
        raise unknown_parameter(name, params)
    return params[name]


def plain_value(text: str) -> Any:
    """A value as it is written on a command line: a number, true, false, null, else text; quotes
    make text.

    >>> [plain_value(t) for t in ("10", "0.6", "true", "small", "'10'")]
    [10, 0.6, True, 'small', '10']
    """
    words = {"true": True, "false": False, "null": None}
    if text in words:
        return words[text]
    if text[:1] in {"'", '"'} and text[-1:] == text[:1] and len(text) > 1:
        return text[1:-1]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def match_steps(pattern: str, steps: Iterable[str]) -> list[str]:
    """The steps that a name in `use` means: the step itself, else every step of that name inside
    calls.

    >>> match_steps("told", ["told_first", "named/told", "strays/told"])
    ['named/told', 'strays/told']
    """
    listed = list(steps)
    if pattern in listed:
        return [pattern]
    return [step for step in listed if step.endswith(f"/{pattern}")]
