"""Kinds of arguments of operators: what a plan may write, and what it becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from semgraph.errors import Fault, Faults
from semgraph.expr.duckdb import always, constant
from semgraph.expr.own_functions import FunctionsByName
from semgraph.expr.scalar import MOST_DEEP, NOW, Scalar, conjunction, parse_scalar
from semgraph.frontend import kinds
from semgraph.frontend.document import rests, unknown, wrong
from semgraph.frontend.kinds import Key, Keys, Schema, ValueKind
from semgraph.logical.graph import Pattern, parse_pattern
from semgraph.logical.node import Node
from semgraph.logical.plan import Choice
from semgraph.logical.prompt import PromptSet
from semgraph.logical.schema import Graph
from semgraph.logical.search import SearchMethod
from semgraph.logical.semantic import Check
from semgraph.logical.typecheck import Columns, Sort, Using, column_scalar


class Scope(Protocol):
    """The meaning of names in a plan."""

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters' values."""

    @property
    def functions(self) -> FunctionsByName:
        """The functions of one's own that expressions may call."""

    @property
    def graph(self) -> Graph | None:
        """The graph that labels belong to; None if its file has problems."""

    def relation(self, value: Any) -> Node:
        """A relation by name, or a nested step. Raises Fault."""

    def is_relation(self, name: str) -> bool:
        """Whether a name is that of an input, a step or a result."""

    def check_free(self, name: str) -> None:
        """Refuse a name that means something already. Raises Fault."""

    def body(self, value: Any, name: str, source: Node) -> tuple[Node, int]:
        """The body of a loop over `source`, in which the last round has a name, and the number of
        loops around it. Raises Fault.
        """

    def prompt(self, value: Any, answers: Any) -> PromptSet:
        """The prompts that a value names; `answers` are the types of an inline prompt. Raises
        Fault, or Reported if a file of theirs is wrong.
        """


class Reported(Faults):
    """What is read has mistakes, which are reported already: what reads it is not checked."""

    def __init__(self) -> None:
        super().__init__(())


class Pruned(Exception):
    """A relation that is read was pruned by its `if`. Carries the names of the steps, each with
    the values of its parameters.
    """

    def __init__(self, *steps: tuple[str, str]) -> None:
        super().__init__(", ".join(name for name, _ in steps))
        self.steps = steps

    @property
    def fault(self) -> Fault:
        """The fault of a step that reads nothing but pruned steps."""
        names, values = (
            " and ".join(dict.fromkeys(part))
            for part in zip(*((f'"{name}"', value) for name, value in self.steps), strict=True)
        )
        owner = "its" if len(self.steps) == 1 else "their"
        hint = "set these, or give this step the same if, or use switch"
        what = f'reads {names}, which {owner} "if" has pruned'
        return Fault(what, there=f"parameters: {values}", hint=hint)


# -- parameters


def whole_parameter(value: object) -> str:
    """The name of the parameter that a text is as a whole, or ""."""
    match = kinds.PARAMETER.fullmatch(value) if isinstance(value, str) else None
    return "" if match is None or match[1] == NOW else match[1]


def unknown_parameter(
    name: str, params: Iterable[str], *path: str | int, value: bool = False
) -> Fault:
    """The fault of a parameter that the plan does not have."""
    return unknown(name, params, "no parameter", "parameters", *path, value=value)


_IF_HINT = "write if: $flag, or if: {$param: value}; a condition over rows is a when, or a filter"


def holds(condition: Any, params: Mapping[str, Any]) -> bool:
    """Whether an `if` holds: `$flag`, or `{$param: value}`, or `{$param: [values]}`. Raises Fault.

    False, null, 0 and what is empty do not hold.

    >>> holds({"$extract": "combined"}, {"extract": "combined"})
    True
    """
    if not isinstance(condition, Mapping):
        name = whole_parameter(condition)
        if name:
            return bool(_parameter(name, params))
        if isinstance(condition, bool):
            return condition
        if isinstance(condition, str):
            raise Fault("if is settled at load: say when", hint=_IF_HINT)
        raise wrong("a parameter", condition, _IF_HINT)
    if not condition:
        raise wrong("a parameter", None, _IF_HINT)
    for key, wanted in condition.items():
        name = whole_parameter(key)
        if not name:
            raise Fault(f'"{key}" is no parameter', key, hint=_IF_HINT)
        value = _parameter(name, params)
        if not (value in wanted if isinstance(wanted, list) else value == wanted):
            return False
    return True


def _parameter(name: str, params: Mapping[str, Any]) -> Any:
    if name not in params:
        raise unknown_parameter(name, params)
    return params[name]


# -- kinds of arguments

_DESC = re.compile(
    r"(?P<by>.*\S)\s+(?P<direction>desc|asc|descending|ascending)\s*\Z", re.IGNORECASE | re.DOTALL
)
_LENGTH = re.compile(rf"{kinds.PARAMETER.pattern}(\s*-\s*\d+)?")


def read_new_name(value: Any, scope: Scope) -> str:
    """A name that nothing has yet."""
    name = kinds.read_name(value)
    scope.check_free(name)
    return name


def read_number(value: Any, scope: Scope) -> int:
    """A count, or a text that makes one of parameters: `2 * $limit`."""
    if isinstance(value, str) and "$" in value:
        value = constant(read_scalar(value, scope))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong("a whole number", value)
    if value < 0:
        raise Fault(f"{value} is negative")
    return value


def read_algorithm(value: Any) -> str:
    """A name with parameters, as in `use`: `louvain(resolution=1.2)`, `{louvain: {resolution: 1.2}}`."""
    try:
        return str(Choice.parse(value))
    except Fault as fault:
        what = fault.what.replace("implementation", "algorithm")
        raise Fault(what, *fault.path, hint="write louvain, or louvain(resolution=1.2)") from None


def read_scalar(value: Any, scope: Scope) -> Scalar:
    """An SQL expression; of a list of conditions all must hold."""
    return (
        _all_of(value, scope)
        if isinstance(value, list) and value
        else read_expression(value, scope)
    )


def read_expression(value: Any, scope: Scope) -> Scalar:
    """One SQL expression; a list literal is written in SQL, as text."""
    if isinstance(value, list):
        hint = f'a list is written as text: "[{", ".join(map(str, value))}]"' if value else None
        raise wrong("an SQL expression", value, hint)
    if isinstance(value, Mapping):
        raise wrong("an SQL expression", value)
    return parse_scalar(value, scope.params, scope.functions)


def _all_of(values: list[Any], scope: Scope) -> Scalar:
    """A conjunction, without what holds whatever the rows are."""

    def condition(value: Any) -> Scalar:
        if isinstance(value, list):
            raise wrong("a condition", value)
        return read_expression(value, scope)

    conditions = kinds.each_item(values, condition)
    needed = [part for part in conditions if not always(part)]
    if len(needed) >= MOST_DEEP:
        raise Fault(
            f"at most {MOST_DEEP - 1} conditions, not {len(needed)}",
            hint="use a join, or several filters",
        )
    return conjunction(needed) if len(needed) > 1 else (needed or conditions)[0]


def read_columns(value: Any, scope: Scope) -> Columns:
    """`{name: expression}`; without expression, the column of that name; or a list of names, or
    one.
    """
    if not isinstance(value, Mapping):
        return tuple((name, column_scalar(name)) for name in kinds.read_names(value))
    columns: list[tuple[str, Scalar]] = []
    faults: list[Fault] = []
    pieces = rests(value)
    for name, text in value.items():
        if name in pieces:
            continue
        try:
            kinds.read_name(name)
            scalar = column_scalar(name) if text is None else read_expression(text, scope)
            columns.append((name, scalar))
        except Fault as fault:
            faults.append(fault.under(name))
    if faults:
        raise Faults(faults)
    return tuple(columns)


def read_order(value: Any, scope: Scope) -> tuple[Sort, ...]:
    """Terms `expression` or `expression desc`; one, or a list."""
    return tuple(kinds.each_item(value, lambda item: _term(item, scope)))


def _term(value: Any, scope: Scope) -> Sort:
    match = _DESC.match(value) if isinstance(value, str) else None
    if match is None:
        return Sort(read_expression(value, scope))
    direction = match["direction"].lower()
    if direction == "descending":
        raise Fault(f'"{value}": the word is desc', hint=f'write "{match["by"]} desc"')
    if direction != "desc":
        raise Fault(f'"{value}": ascending is the default', hint=f'write "{match["by"]}"')
    return Sort(read_expression(match["by"], scope), descending=True)


def read_using(value: Any) -> Using:
    """Columns that must be equal: a name, a list of names, or {left: right}."""
    if not isinstance(value, Mapping):
        return tuple(kinds.each_item(value, lambda path: (kinds.read_path(path), path)))
    pairs = []
    for left, right in value.items():
        path = kinds.read_path(left)
        pairs.append((path, path if right is None else kinds.read_path(right)))
    return tuple(pairs)


def read_relations(value: Any, scope: Scope) -> tuple[Node, ...]:
    """A list of relations; those that are pruned are left out."""
    if not isinstance(value, list) or not value:
        raise wrong("a list of relations", value)
    relations: list[Node] = []
    pruned: list[tuple[str, str]] = []
    faults: list[Fault] = []
    for i, item in enumerate(value):
        try:
            relations.append(scope.relation(item))
        except Fault as fault:
            faults.append(fault.under(i))
        except Pruned as error:
            pruned += error.steps
    if faults:
        raise Faults(faults)
    if pruned and not relations:
        raise Pruned(*pruned)
    return tuple(relations)


def _graph_of(scope: Scope, what: str) -> Graph:
    if scope.graph is None or not scope.graph.labels:
        raise Fault(what, hint="add graph: graph.yaml to the plan")
    return scope.graph


def read_label(value: Any, scope: Scope) -> str:
    """A label of the graph."""
    if not isinstance(value, str):
        raise wrong("a label", value)
    return _graph_of(scope, f'"{value}": this plan names no graph').label(value).name


def read_pattern(value: Any, scope: Scope) -> Pattern:
    """A path in openCypher's notation; a parameter in it, or one less a number, stands for a whole
    number.
    """
    if not isinstance(value, str):
        raise wrong('a pattern such as "(a:Label {uuid: uuid})-[r:TYPE]-(b:Label)"', value)
    _graph_of(scope, "a pattern reads a graph, and this plan names none")

    def length(match: re.Match[str]) -> str:
        if match[1] not in scope.params:
            raise unknown_parameter(match[1], scope.params, value=True)
        return str(read_number(match[0] if match[2] else scope.params[match[1]], scope))

    return parse_pattern(_LENGTH.sub(length, value))


def read_prompt(value: Any, scope: Scope, returns: Any, role: Any) -> PromptSet:
    """A prompt file, an inline question, or one of several by a column; for the model of a role, if
    one is named beside it.
    """
    name = "" if role is None else under("role", kinds.read_name, role)
    prompts = scope.prompt(value, returns)
    return prompts.of_role(name) if name else prompts


def read_check(value: Any, scope: Scope) -> Check:
    """A condition of answers, and what is said about one that does not meet it."""
    values, faults = kinds.read_keys(value, "check", CHECK, scope)
    if values.get("retries", 0) > _MOST_RETRIES:
        faults.append(Fault(f"at most {_MOST_RETRIES} retries, not {values['retries']}", "retries"))
    if faults:
        raise Faults(faults)
    return Check(**values)


_MOST_RETRIES = 10


def read_message(value: Any, scope: Scope) -> Scalar:
    """An expression that gives a text."""
    try:
        return read_scalar(value, scope)
    except Fault:
        if not isinstance(value, str) or "'" in value:
            raise
        hint = f"""a text has quotes of its own: "'{value}'\""""
        raise Fault(f'"{value}" is no expression', hint=hint) from None


def read_over(value: Any, scope: Scope) -> dict[str, Any]:
    """What is searched: a label, a step, or [label, step]."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        label = read_label(value[0], scope)
        return {"label": label, "within": under(1, scope.relation, value[1])}
    if isinstance(value, str) and not scope.is_relation(value):
        return {"label": read_label(value, scope), "within": None}
    return {"label": "", "within": scope.relation(value)}


def read_methods(value: Any, scope: Scope) -> tuple[SearchMethod, ...]:
    """Methods of a search: one, or a list. Methods with an `if` that does not hold are left out."""

    def method(item: Any) -> SearchMethod | None:
        if isinstance(item, Mapping) and not _wanted(item.get("if", True), scope):
            return None
        return _method(item, scope)

    methods = [by for by in kinds.each_item(value, method) if by is not None]
    if value != [] and not methods:
        raise Fault(
            "no method is left: the if of none holds",
            hint="give the step the same if",
        )
    return tuple(methods)


def _wanted(condition: Any, scope: Scope) -> bool:
    """Whether an `if` holds; a parameter that is it as a whole is its value by now."""
    if not isinstance(condition, Mapping):
        return bool(condition)
    return bool(under("if", holds, condition, scope.params))


def _method(value: Any, scope: Scope) -> SearchMethod:
    if not isinstance(value, Mapping):
        raise wrong("a method such as {equal: name}", value)
    names = [key for key in value if key in METHODS]
    if len(names) != 1:
        raise Fault(
            "a method is one of: " + ", ".join(METHODS), hint="such as {fulltext: fact, to: query}"
        )
    via = names[0]
    parts = kinds.all_keys(value, via, METHODS[via], scope)
    to = parts.get("to") or column_scalar(parts[via])
    return SearchMethod(via, parts[via], to, parts.get("above", -1.0), parts.get("rank", "store"))


def read_partition(value: Any) -> dict[str, Any]:
    """The partitions that are read: those in a column, `all`, or [column, all]: all where the
    column is NULL.
    """
    parts = value if isinstance(value, list) else [value]
    if len(parts) == 2 and parts[1] == "all" and parts[0] != "all":
        return {"partition": kinds.read_name(parts[0]), "or_all": True}
    if len(parts) != 1:
        raise wrong("a column with partitions, all, or [COLUMN, all]", value)
    return {"partition": kinds.read_name(parts[0]), "or_all": False}


def under(key: str | int, read: Callable[..., Any], *args: Any) -> Any:
    """Read something; its faults are at `key`."""
    try:
        return read(*args)
    except Fault as fault:
        raise fault.under(key) from None


SCALAR: Schema = {"type": ["string", "number", "boolean"]}
PIPELINE: Schema = {"$ref": "#/$defs/pipeline"}
RELATION: Schema = {"$ref": "#/$defs/relation"}
CONDITION: Schema = {
    "anyOf": [
        kinds.OF_PARAMETER,
        {"type": "boolean"},
        {"type": "object", "patternProperties": {r"^\$": {}}, "minProperties": 1},
    ]
}
CHOICE: Schema = {
    "anyOf": [kinds.TEXT_SCHEMA, {"type": "object", "minProperties": 1, "maxProperties": 1}]
}
_COMPUTED = kinds.by_name({"type": [*SCALAR["type"], "null"]}, kinds.NAMED)
_PAIRS = kinds.by_name({**kinds.OF_PATH, "type": ["string", "null"]}, kinds.OF_PATH)
_PARTS: Schema = {"type": "array", "prefixItems": [kinds.NAMED, {"const": "all"}], "minItems": 2}
_LABEL_AND_STEP: Schema = {
    "type": "array", "prefixItems": [kinds.TEXT_SCHEMA, RELATION], "minItems": 2, "maxItems": 2
}  # fmt: skip
_EXPRESSION = ValueKind(read_scalar, {"anyOf": [SCALAR, {**kinds.listed(SCALAR), "minItems": 1}]})
_NUMBER = ValueKind(
    read_number,
    kinds.either({"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"\$"}),
)
_ORDER = ValueKind(read_order, kinds.either(SCALAR, kinds.listed(SCALAR)))
_USING = kinds.plain(
    read_using, kinds.either(kinds.OF_PATH, kinds.listed(kinds.OF_PATH), _PAIRS, kinds.OF_PARAMETER)
)
_COMPUTED_COLUMNS = ValueKind(read_columns, kinds.either(_COMPUTED, kinds.COLUMNS.schema))
_RELATION = ValueKind(lambda value, scope: scope.relation(value), kinds.either(RELATION))
_PROPERTY = kinds.plain(kinds.read_name, kinds.NAMED)
_METHOD: Keys = {
    "to": Key(ValueKind(read_scalar, SCALAR), "what is looked for"),
    "if": Key(kinds.kept(CONDITION), "whether the method is used"),
}
METHODS: Mapping[str, Keys] = {
    "equal": {"equal": Key(_PROPERTY, "the property", required=True), **_METHOD},
    "fulltext": {
        "fulltext": Key(_PROPERTY, "the property", required=True),
        **_METHOD,
        "rank": Key(kinds.one_of("store", "overlap"), "how hits are ranked"),
    },
    "nearest": {
        "nearest": Key(_PROPERTY, "the property", required=True),
        **_METHOD,
        "above": Key(kinds.DECIMAL, "the lowest cosine"),
    },
}
"""The methods of a search, with the keys of each."""
CHECK: Keys = {
    "where": Key(_EXPRESSION, "the condition that an answer must meet", required=True),
    "message": Key(
        ValueKind(read_message, SCALAR),
        "what the model is told about an answer that does not meet it",
        required=True,
    ),
    "retries": Key(_NUMBER, "how often it is asked again"),
}
_EACH_METHOD = [kinds.keys_schema(keys) for keys in METHODS.values()]
KINDS: Mapping[str, ValueKind] = {
    "check": ValueKind(read_check, kinds.keys_schema(CHECK)),
    "relation": _RELATION,
    "relations": ValueKind(read_relations, {**kinds.listed(RELATION), "minItems": 1}),
    "scalar": _EXPRESSION,
    "columns": _COMPUTED_COLUMNS,
    "names": kinds.COLUMNS,
    "name": kinds.COLUMN,
    "new_name": ValueKind(read_new_name, kinds.COLUMN.schema),
    "path": kinds.plain(kinds.read_path, kinds.either(kinds.OF_PATH, kinds.OF_PARAMETER)),
    "number": _NUMBER,
    "flag": kinds.FLAG,
    "algorithm": kinds.plain(read_algorithm, CHOICE),
    "order": _ORDER,
    "using": _USING,
    "pattern": ValueKind(read_pattern, kinds.TEXT_SCHEMA),
    "label": ValueKind(read_label, kinds.TEXT_SCHEMA),
    "over": ValueKind(read_over, kinds.either(kinds.TEXT_SCHEMA, _LABEL_AND_STEP, PIPELINE)),
    "methods": ValueKind(
        read_methods,
        kinds.either(
            *_EACH_METHOD,
            kinds.listed(kinds.either(*_EACH_METHOD, kinds.OF_PARAMETER)),
            kinds.OF_PARAMETER,
        ),
    ),
    "partition": kinds.plain(read_partition, kinds.either(kinds.NAMED, _PARTS)),
}
"""The kinds of arguments that operators have, but those that need more than their value: a choice, a
prompt, a body, refs.
"""
REF: Keys = {
    "of": Key(_RELATION, "the relation whose rows are named", required=True),
    "using": Key(_USING, "columns that the row and its records share"),
    "where": Key(_EXPRESSION, "which rows are records of a row"),
    "order": Key(_ORDER, "the order of the records"),
    "limit": Key(_NUMBER, "the most records of a row"),
    "shows": Key(_COMPUTED_COLUMNS, "what the prompt shows of a row", required=True),
    "number": Key(kinds.plain(kinds.read_name, kinds.NAMED), "the column that numbers the records"),
    "unknown": Key(
        kinds.one_of("ask", "drop"),
        "what becomes of an unknown number: it is asked for again, or left out",
    ),
}
"""The keys of an entry of `refs`."""
