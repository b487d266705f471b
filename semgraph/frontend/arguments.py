"""What each kind of argument may look like in a plan, and what it becomes: one reader for each
kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from semgraph.errors import Fault, did_you_mean
from semgraph.expr.duckdb import always, constant
from semgraph.expr.scalar import MOST_DEEP, Scalar, conjunction, parse_scalar, reserved
from semgraph.frontend.scope import Options, Pruned, Reader, Scope, kind_of, unknown, wrong
from semgraph.frontend.settings import holds, unknown_parameter
from semgraph.logical.graph import Pattern, parse_pattern
from semgraph.logical.node import Node
from semgraph.logical.prompt import PromptSet
from semgraph.logical.schema import NAME
from semgraph.logical.search import By
from semgraph.logical.typecheck import Columns, Sort, Using, column_scalar

PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*\Z")
_DESC = re.compile(r"(?P<by>.*\S)\s+(?P<way>desc|asc)\s*\Z", re.IGNORECASE | re.DOTALL)
_PARAMETER = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
_LENGTH = re.compile(rf"{_PARAMETER.pattern}(\s*-\s*\d+)?")


def read_name(value: Any, scope: Scope, options: Options) -> str:
    """A column's name."""
    del scope, options
    if not isinstance(value, str):
        raise wrong("a name", value)
    if not NAME.match(value):
        hint = "letters, digits and _, not starting with a digit"
        raise Fault(
            f'"{value}" is no name', hint="a name, not an expression" if "(" in value else hint
        )
    if reserved(value):
        raise Fault(f'"{value}" is the engine\'s own name', hint="choose another name")
    return value


def read_path(value: Any, scope: Scope, options: Options) -> str:
    """A column, or a field of a struct column."""
    del scope, options
    if not isinstance(value, str):
        raise wrong("a column", value)
    if not PATH.match(value):
        raise Fault(
            f'"{value}" is no column',
            hint="a column or a struct's field, such as c.uuid; add computes others",
        )
    return value


def read_names(value: Any, scope: Scope, options: Options) -> tuple[str, ...]:
    """A name, or a list of names."""
    listed = value if isinstance(value, (list, tuple)) else [value]
    found: list[str] = []
    for i, item in enumerate(listed):
        try:
            found.append(read_name(item, scope, options))
        except Fault as fault:
            raise fault.under(i) if listed is value else fault from None
    if len(set(found)) < len(found):
        raise Fault("a name stands here twice")
    return tuple(found)


def read_number(value: Any, scope: Scope, options: Options) -> int:
    """A count, or a text that makes one of parameters: `2 * $limit`."""
    del options
    if isinstance(value, str) and "$" in value:
        value = constant(read_scalar(value, scope, {}))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong("a whole number", value)
    if value < 0:
        raise Fault(f"{value} is negative")
    return value


def read_flag(value: Any, scope: Scope, options: Options) -> bool:
    """True or false."""
    del scope, options
    if not isinstance(value, bool):
        raise wrong("true or false", value)
    return value


def read_choice(value: Any, scope: Scope, options: Options) -> str:
    """One of a few words."""
    del scope
    word = "null" if value is None else value
    choices = options["choices"]
    if word not in choices:
        hint = did_you_mean(word, choices) if isinstance(word, str) else None
        raise Fault(f"{kind_of(value)} is none of: {', '.join(choices)}", hint=hint)
    return str(word)


def read_scalar(value: Any, scope: Scope, options: Options) -> Scalar:
    """An SQL expression; of a list of conditions all must hold."""
    if isinstance(value, list) and value:
        return _all_of(value, scope, options)
    return read_expression(value, scope)


def read_expression(value: Any, scope: Scope) -> Scalar:
    """One SQL expression; a list literal is written in SQL, as text."""
    if isinstance(value, list):
        hint = f'a list is written as text: "[{", ".join(map(str, value))}]"' if value else None
        raise wrong("an SQL expression", value, hint)
    if isinstance(value, Mapping):
        raise wrong("an SQL expression", value)
    return parse_scalar(value, scope.params)


def _all_of(values: list[Any], scope: Scope, options: Options) -> Scalar:
    """A conjunction, without what holds whatever the rows are."""
    found = []
    for i, value in enumerate(values):
        if isinstance(value, list):
            raise wrong("a condition", value).under(i)
        try:
            found.append(read_scalar(value, scope, options))
        except Fault as fault:
            raise fault.under(i) from None
    kept = [part for part in found if not always(part)]
    if len(kept) >= MOST_DEEP:
        raise Fault(
            f"at most {MOST_DEEP - 1} conditions, {len(kept)} stand here",
            hint="use a join, or several filters",
        )
    return conjunction(kept) if len(kept) > 1 else (kept or found)[0]


def read_columns(value: Any, scope: Scope, options: Options) -> Columns:
    """`{name: expression}`; without expression, the column of that name; or a list of names, or
    one.
    """
    if not isinstance(value, Mapping):
        return tuple((name, column_scalar(name)) for name in read_names(value, scope, options))
    found = []
    for name, text in value.items():
        try:
            read_name(name, scope, options)
            found.append(
                (name, column_scalar(name) if text is None else read_expression(text, scope))
            )
        except Fault as fault:
            raise fault.under(name) from None
    return tuple(found)


def read_order(value: Any, scope: Scope, options: Options) -> tuple[Sort, ...]:
    """Terms `expression` or `expression desc`; one, or a list."""
    del options
    listed = value if isinstance(value, list) else [value]
    found = []
    for i, item in enumerate(listed):
        try:
            found.append(_term(item, scope))
        except Fault as fault:
            raise fault.under(i) if listed is value else fault from None
    return tuple(found)


def _term(value: Any, scope: Scope) -> Sort:
    turned = _DESC.match(value) if isinstance(value, str) else None
    if turned is None:
        return Sort(read_expression(value, scope))
    if turned["way"].lower() == "asc":
        raise Fault(f'"{value}": ascending goes without saying', hint=f'write "{turned["by"]}"')
    return Sort(read_expression(turned["by"], scope), descending=True)


def read_using(value: Any, scope: Scope, options: Options) -> Using:
    """Columns that must be equal: a name, a list of names, or {left: right}."""
    if isinstance(value, Mapping):
        return tuple(
            (
                read_path(left, scope, options),
                left if right is None else read_path(right, scope, options),
            )
            for left, right in value.items()
        )
    listed = value if isinstance(value, list) else [value]
    return tuple((path, path) for path in (read_path(item, scope, options) for item in listed))


def read_relation(value: Any, scope: Scope, options: Options) -> Node:
    """The name of a relation, or a nested step."""
    del options
    return scope.relation(value)


def read_relations(value: Any, scope: Scope, options: Options) -> tuple[Node, ...]:
    """A list of relations; those that are pruned are left out."""
    if not isinstance(value, list) or not value:
        raise wrong("a list of relations", value)
    found: list[Node] = []
    pruned: list[tuple[str, str]] = []
    for i, item in enumerate(value):
        try:
            found.append(read_relation(item, scope, options))
        except Fault as fault:
            raise fault.under(i) from None
        except Pruned as error:
            pruned += error.steps
    if pruned and not found:
        raise Pruned(*pruned)
    return tuple(found)


def read_label(value: Any, scope: Scope, options: Options) -> str:
    """A label of the graph."""
    del options
    if not isinstance(value, str):
        raise wrong("a label", value)
    if not scope.graph.labels:
        raise Fault(
            f'"{value}": this plan names no graph', hint="add graph: graph.yaml to the plan"
        )
    return scope.graph.label(value).name


def read_pattern(value: Any, scope: Scope, options: Options) -> Pattern:
    """A path in openCypher's notation; a parameter in it, or one less a number, stands for a whole
    number.
    """
    del options
    if not isinstance(value, str):
        raise wrong('a pattern such as "(a:Label {uuid: uuid})-[r:TYPE]-(b:Label)"', value)
    if not scope.graph.labels:
        raise Fault(
            "a pattern reads a graph, and this plan names none",
            hint="add graph: graph.yaml to the plan",
        )

    def length(found: re.Match[str]) -> str:
        if found[1] not in scope.params:
            raise unknown_parameter(found[1], scope.params, value=True)
        return str(read_number(found[0] if found[2] else scope.params[found[1]], scope, {}))

    return parse_pattern(_LENGTH.sub(length, value))


def read_prompt(value: Any, scope: Scope, options: Options) -> PromptSet:
    """A prompt file, an inline question, or one of several by a column."""
    return scope.prompt(value, options.get("beside"))


READERS: dict[str, Reader] = {
    "relation": read_relation,
    "relations": read_relations,
    "scalar": read_scalar,
    "columns": read_columns,
    "names": read_names,
    "name": read_name,
    "path": read_path,
    "number": read_number,
    "flag": read_flag,
    "choice": read_choice,
    "order": read_order,
    "using": read_using,
    "prompt": read_prompt,
    "pattern": read_pattern,
    "label": read_label,
}


_METHODS = {
    "equal": (),
    "fulltext": ("rank",),
    "nearest": ("above",),
}  # method of a search -> its own options
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
        raise Fault(
            "no method is left: the when of none holds",
            hint="give the step a when that says the same",
        )
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
        raise Fault(
            "a method is one of: " + ", ".join(_METHODS), hint="such as {fulltext: fact, to: query}"
        )
    via = named[0]
    known = (via, "to", "when", *_METHODS[via])
    for key in value:
        if key not in known:
            raise unknown(key, known, f"{via} has no", f"keys of {via}", key)
    prop = _under(via, read_name, value[via], scope, options)
    to = (
        column_scalar(prop)
        if value.get("to") is None
        else _under("to", read_scalar, value["to"], scope, options)
    )
    rank = _under("rank", read_choice, value.get("rank", "store"), scope, {"choices": _RANKS})
    return By(
        via, prop, to, _under("above", _decimal, value.get("above", -1.0), scope, options), rank
    )


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
    """Whose rows are seen: those of the partitions in a column, `all`, or [column, all]: all where
    the column is NULL.
    """
    listed = value if isinstance(value, list) else [value]
    if len(listed) == 2 and listed[1] == "all" and listed[0] != "all":
        return {"partition": read_name(listed[0], scope, options), "or_all": True}
    if len(listed) != 1:
        raise wrong("a column with partitions, all, or [COLUMN, all]", value)
    return {"partition": read_name(listed[0], scope, options), "or_all": False}


SEARCHING: dict[str, Reader] = {"over": read_over, "by": read_by, "partition": read_partition}
