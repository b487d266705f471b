"""The arguments of a search: what is searched, by which methods, in which partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from semgraph.errors import Fault
from semgraph.frontend.arguments import read_choice, read_label, read_name, read_scalar
from semgraph.frontend.faults import unknown
from semgraph.frontend.scope import Options, Reader, Scope, wrong
from semgraph.frontend.settings import holds
from semgraph.logical.checks import column_scalar
from semgraph.logical.search import By

_METHODS = {"equal": (), "fulltext": ("rank",), "nearest": ("above",)}  # method of a search -> its own options
_RANKS = ("store", "overlap")


def read_over(value: Any, scope: Scope, options: Options) -> dict[str, Any]:
    """What is searched: a label, a step, or [label, step]."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        label = read_label(value[0], scope, options)
        try:
            return {"label": label, "within": scope.relation(value[1])}
        except Fault as fault:
            raise fault.under(1) from None
    if isinstance(value, str) and not scope.is_relation(value):
        return {"label": read_label(value, scope, options), "within": None}
    return {"label": "", "within": scope.relation(value)}


def read_by(value: Any, scope: Scope, options: Options) -> tuple[By, ...]:
    """Methods of a search: one, or a list. Those whose `when` does not hold are left out."""
    listed = value if isinstance(value, list) else [value]
    found = []
    for i, item in enumerate(listed):
        try:
            if not isinstance(item, Mapping) or _wanted(item.get("when", True), scope):
                found.append(_method(item, scope, options))
        except Fault as fault:
            raise fault.under(i) if listed is value else fault from None
    if listed and not found:
        raise Fault("no method is left: the when of none holds", hint="give the step a when that says the same")
    return tuple(found)


def _wanted(condition: Any, scope: Scope) -> bool:
    """Whether a `when` holds; a parameter that is it as a whole is its value by now."""
    if not isinstance(condition, Mapping):
        return bool(condition)
    try:
        return holds(condition, scope.params)
    except Fault as fault:
        raise fault.under("when") from None


def _method(value: Any, scope: Scope, options: Options) -> By:
    if not isinstance(value, Mapping):
        raise wrong("a method such as {equal: name}", value)
    named = [key for key in value if key in _METHODS]
    if len(named) != 1:
        raise Fault("a method is one of: " + ", ".join(_METHODS), hint="such as {fulltext: fact, to: query}")
    via = named[0]
    known = (via, "to", "when", *_METHODS[via])
    for key in value:
        if key not in known:
            raise unknown(key, known, f"{via} has no", f"keys of {via}", key)
    prop = _under(via, read_name, value[via], scope, options)
    to = column_scalar(prop) if value.get("to") is None else _under("to", read_scalar, value["to"], scope, options)
    rank = _under("rank", read_choice, value.get("rank", "store"), scope, {"choices": _RANKS})
    return By(via, prop, to, _under("above", _decimal, value.get("above", -1.0), scope, options), rank)


def _under(key: str, reader: Reader, value: Any, scope: Scope, options: Options) -> Any:
    try:
        return reader(value, scope, options)
    except Fault as fault:
        raise fault.under(key) from None


def _decimal(value: Any, scope: Scope, options: Options) -> float:
    del scope, options
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong("a number", value)
    return float(value)


def read_partition(value: Any, scope: Scope, options: Options) -> dict[str, Any]:
    """Whose rows are seen: those of the partitions in a column, `all`, or [column, all]: all where the column is NULL."""
    listed = value if isinstance(value, list) else [value]
    if len(listed) == 2 and listed[1] == "all" and listed[0] != "all":
        return {"partition": read_name(listed[0], scope, options), "or_all": True}
    if len(listed) != 1:
        raise wrong("a column with partitions, all, or [COLUMN, all]", value)
    return {"partition": read_name(listed[0], scope, options), "or_all": False}


SEARCHING: dict[str, Reader] = {"over": read_over, "by": read_by, "partition": read_partition}
