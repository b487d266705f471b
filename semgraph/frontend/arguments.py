"""What each kind of argument may look like in a plan, and what it becomes: one reader for each kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from semgraph.errors import Fault, did_you_mean
from semgraph.expr.constants import always, constant
from semgraph.expr.names import reserved
from semgraph.expr.scalar import Scalar, conjunction, parse_scalar
from semgraph.expr.sizes import MOST_DEEP
from semgraph.frontend.found import Pruned
from semgraph.frontend.scope import Options, Reader, Scope, kind_of, wrong
from semgraph.frontend.settings import unknown_parameter
from semgraph.logical.checks import Columns, Sort, Using, column_scalar
from semgraph.logical.node import Node
from semgraph.logical.pattern import Pattern, parse_pattern
from semgraph.logical.prompt import PromptSet
from semgraph.logical.schema import NAME

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
        raise Fault(f'"{value}" is no name', hint="a name, not an expression" if "(" in value else hint)
    if reserved(value):
        raise Fault(f'"{value}" is the engine\'s own name', hint="choose another name")
    return value


def read_path(value: Any, scope: Scope, options: Options) -> str:
    """A column, or a field of a struct column."""
    del scope, options
    if not isinstance(value, str):
        raise wrong("a column", value)
    if not PATH.match(value):
        raise Fault(f'"{value}" is no column', hint="a column or a struct's field, such as c.uuid; add computes others")
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
            f"at most {MOST_DEEP - 1} conditions, {len(kept)} stand here", hint="use a join, or several filters"
        )
    return conjunction(kept) if len(kept) > 1 else (kept or found)[0]


def read_columns(value: Any, scope: Scope, options: Options) -> Columns:
    """`{name: expression}`; without expression, the column of that name; or a list of names, or one."""
    if not isinstance(value, Mapping):
        return tuple((name, column_scalar(name)) for name in read_names(value, scope, options))
    found = []
    for name, text in value.items():
        try:
            read_name(name, scope, options)
            found.append((name, column_scalar(name) if text is None else read_expression(text, scope)))
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
            (read_path(left, scope, options), left if right is None else read_path(right, scope, options))
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
        raise Fault(f'"{value}": this plan names no graph', hint="add graph: graph.yaml to the plan")
    return scope.graph.label(value).name


def read_pattern(value: Any, scope: Scope, options: Options) -> Pattern:
    """A path in openCypher's notation; a parameter in it, or one less a number, stands for a whole number."""
    del options
    if not isinstance(value, str):
        raise wrong('a pattern such as "(a:Label {uuid: uuid})-[r:TYPE]-(b:Label)"', value)
    if not scope.graph.labels:
        raise Fault("a pattern reads a graph, and this plan names none", hint="add graph: graph.yaml to the plan")

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
