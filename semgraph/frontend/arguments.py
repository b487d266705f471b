"""Readers of arguments, one for each kind: what a plan may write, and what it becomes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

from semgraph.errors import Fault, Faults, did_you_mean
from semgraph.expr.duckdb import always, constant
from semgraph.expr.own_functions import FunctionsByName
from semgraph.expr.scalar import MOST_DEEP, NOW, Scalar, conjunction, parse_scalar, reserved
from semgraph.frontend.document import (
    kind_of,
    known_keys,
    mapping,
    rest_of,
    rests,
    unknown,
    unknown_key,
    wrong,
)
from semgraph.logical.graph import Pattern, parse_pattern
from semgraph.logical.node import Node
from semgraph.logical.plan import Choice
from semgraph.logical.prompt import PromptSet
from semgraph.logical.schema import NAME, PATH, Graph
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


Options = Mapping[str, Any]
Reader = Callable[[Any, Scope, Options], Any]


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

PARAMETER = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


def whole_parameter(value: object) -> str:
    """The name of the parameter that a text is as a whole, or ""."""
    match = PARAMETER.fullmatch(value) if isinstance(value, str) else None
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


# -- one reader for each kind

_DESC = re.compile(
    r"(?P<by>.*\S)\s+(?P<direction>desc|asc|descending|ascending)\s*\Z", re.IGNORECASE | re.DOTALL
)
_LENGTH = re.compile(rf"{PARAMETER.pattern}(\s*-\s*\d+)?")


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


def read_new_name(value: Any, scope: Scope, options: Options) -> str:
    """A name that nothing has yet."""
    name = read_name(value, scope, options)
    scope.check_free(name)
    return name


def read_body(value: Any, scope: Scope, options: Options) -> dict[str, Any]:
    """The body of a loop: a list of operators that reads the last round."""
    node, depth = scope.body(value, options["round"], options["source"])
    return {"body": node, "depth": depth}


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


def _items(value: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The items of a list with their paths, or a single value; without the pieces of an
    item that a comma cut.
    """
    if not isinstance(value, (list, tuple)):
        yield (), value
        return
    skipped = 0
    for i, item in enumerate(value):
        if skipped:
            skipped -= 1
            continue
        skipped = len(rest_of(item, [(more, None) for more in value[i + 1 :]]))
        yield (i,), item


def _each(value: Any, read: Callable[[Any], Any]) -> list[Any]:
    """Every item of a list, or a single value. Raises Faults."""
    read_items: list[Any] = []
    faults: list[Fault] = []
    for path, item in _items(value):
        try:
            read_items.append(read(item))
        except Fault as fault:
            faults.append(fault.under(*path))
    if faults:
        raise Faults(faults)
    return read_items


def read_names(value: Any, scope: Scope, options: Options) -> tuple[str, ...]:
    """A name, or a list of names."""
    names = _each(value, lambda item: read_name(item, scope, options))
    if len(set(names)) < len(names):
        raise Fault("a name is repeated")
    return tuple(names)


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


def read_algorithm(value: Any, scope: Scope, options: Options) -> str:
    """A name with parameters, as in `use`: `louvain(resolution=1.2)`, `{louvain: {resolution: 1.2}}`."""
    del scope, options
    try:
        return str(Choice.parse(value))
    except Fault as fault:
        what = fault.what.replace("implementation", "algorithm")
        raise Fault(what, *fault.path, hint="write louvain, or louvain(resolution=1.2)") from None


def read_scalar(value: Any, scope: Scope, options: Options) -> Scalar:
    """An SQL expression; of a list of conditions all must hold."""
    del options
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

    conditions = _each(values, condition)
    needed = [part for part in conditions if not always(part)]
    if len(needed) >= MOST_DEEP:
        raise Fault(
            f"at most {MOST_DEEP - 1} conditions, not {len(needed)}",
            hint="use a join, or several filters",
        )
    return conjunction(needed) if len(needed) > 1 else (needed or conditions)[0]


def read_columns(value: Any, scope: Scope, options: Options) -> Columns:
    """`{name: expression}`; without expression, the column of that name; or a list of names, or
    one.
    """
    if not isinstance(value, Mapping):
        return tuple((name, column_scalar(name)) for name in read_names(value, scope, options))
    columns: list[tuple[str, Scalar]] = []
    faults: list[Fault] = []
    pieces = rests(value)
    for name, text in value.items():
        if name in pieces:
            continue
        try:
            read_name(name, scope, options)
            scalar = column_scalar(name) if text is None else read_expression(text, scope)
            columns.append((name, scalar))
        except Fault as fault:
            faults.append(fault.under(name))
    if faults:
        raise Faults(faults)
    return tuple(columns)


def read_order(value: Any, scope: Scope, options: Options) -> tuple[Sort, ...]:
    """Terms `expression` or `expression desc`; one, or a list."""
    del options
    return tuple(_each(value, lambda item: _term(item, scope)))


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


def read_using(value: Any, scope: Scope, options: Options) -> Using:
    """Columns that must be equal: a name, a list of names, or {left: right}."""
    if not isinstance(value, Mapping):
        return tuple(_each(value, lambda path: (read_path(path, scope, options), path)))
    pairs = []
    for left, right in value.items():
        path = read_path(left, scope, options)
        pairs.append((path, path if right is None else read_path(right, scope, options)))
    return tuple(pairs)


def read_relation(value: Any, scope: Scope, options: Options) -> Node:
    """The name of a relation, or a nested step."""
    del options
    return scope.relation(value)


def read_relations(value: Any, scope: Scope, options: Options) -> tuple[Node, ...]:
    """A list of relations; those that are pruned are left out."""
    if not isinstance(value, list) or not value:
        raise wrong("a list of relations", value)
    relations: list[Node] = []
    pruned: list[tuple[str, str]] = []
    faults: list[Fault] = []
    for i, item in enumerate(value):
        try:
            relations.append(read_relation(item, scope, options))
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


def read_label(value: Any, scope: Scope, options: Options) -> str:
    """A label of the graph."""
    del options
    if not isinstance(value, str):
        raise wrong("a label", value)
    return _graph_of(scope, f'"{value}": this plan names no graph').label(value).name


def read_pattern(value: Any, scope: Scope, options: Options) -> Pattern:
    """A path in openCypher's notation; a parameter in it, or one less a number, stands for a whole
    number.
    """
    del options
    if not isinstance(value, str):
        raise wrong('a pattern such as "(a:Label {uuid: uuid})-[r:TYPE]-(b:Label)"', value)
    _graph_of(scope, "a pattern reads a graph, and this plan names none")

    def length(match: re.Match[str]) -> str:
        if match[1] not in scope.params:
            raise unknown_parameter(match[1], scope.params, value=True)
        return str(read_number(match[0] if match[2] else scope.params[match[1]], scope, {}))

    return parse_pattern(_LENGTH.sub(length, value))


def read_prompt(value: Any, scope: Scope, options: Options) -> PromptSet:
    """A prompt file, an inline question, or one of several by a column; for the model of a role, if
    one is named beside it.
    """
    role = (
        "" if options.get("role") is None else under("role", read_name, options["role"], scope, {})
    )
    prompts = scope.prompt(value, options.get("returns"))
    return prompts.of_role(role) if role else prompts


Parts = Mapping[str, tuple[Reader, Mapping[str, Any]]]


def read_parts(
    value: Any, what: str, parts: Parts, needed: Mapping[str, str], scope: Scope, options: Options
) -> tuple[dict[str, Any], list[Fault]]:
    """The parts of an argument that is a mapping, and what is wrong with them.

    Args:
        value: The mapping.
        what: The argument.
        parts: The reader of each part, with further options.
        needed: The parts that must be there, each with a hint.
        scope: What names mean.
        options: The options of the argument.
    """
    data = mapping(value, f"{what}: {{{', '.join(parts)}}}")
    faults = known_keys(data, parts, what)
    faults += [
        Fault(f'{what} needs "{key}"', hint=hint)
        for key, hint in needed.items()
        if data.get(key) is None
    ]
    values: dict[str, Any] = {}
    for key, (read, more) in parts.items():
        try:
            if data.get(key) is not None:
                values[key] = under(key, read, data[key], scope, {**options, **more})
        except Fault as fault:
            faults.append(fault)
    return values, faults


_MOST_RETRIES = 10


def read_check(value: Any, scope: Scope, options: Options) -> Check:
    """A condition of answers, and what is said about one that does not meet it."""
    values, faults = read_parts(value, "check", _CHECK, _NEEDED, scope, options)
    if values.get("retries", 0) > _MOST_RETRIES:
        faults.append(Fault(f"at most {_MOST_RETRIES} retries, not {values['retries']}", "retries"))
    if faults:
        raise Faults(faults)
    return Check(**values)


def read_message(value: Any, scope: Scope, options: Options) -> Scalar:
    """An expression that gives a text."""
    try:
        return read_scalar(value, scope, options)
    except Fault:
        if not isinstance(value, str) or "'" in value:
            raise
        hint = f"""a text has quotes of its own: "'{value}'\""""
        raise Fault(f'"{value}" is no expression', hint=hint) from None


_NEEDED = {
    "where": "the condition that answers must meet",
    "message": "what the model is told about an answer that does not meet it",
}
_CHECK: Parts = {
    "where": (read_scalar, {}),
    "message": (read_message, {}),
    "retries": (read_number, {}),
}


READERS: dict[str, Reader] = {
    "check": read_check,
    "relation": read_relation,
    "relations": read_relations,
    "scalar": read_scalar,
    "columns": read_columns,
    "names": read_names,
    "name": read_name,
    "new_name": read_new_name,
    "body": read_body,
    "path": read_path,
    "number": read_number,
    "flag": read_flag,
    "choice": read_choice,
    "algorithm": read_algorithm,
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


def read_methods(value: Any, scope: Scope, options: Options) -> tuple[SearchMethod, ...]:
    """Methods of a search: one, or a list. Methods with an `if` that does not hold are left out."""

    def method(item: Any) -> SearchMethod | None:
        if isinstance(item, Mapping) and not _wanted(item.get("if", True), scope):
            return None
        return _method(item, scope, options)

    methods = [by for by in _each(value, method) if by is not None]
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


def _method(value: Any, scope: Scope, options: Options) -> SearchMethod:
    if not isinstance(value, Mapping):
        raise wrong("a method such as {equal: name}", value)
    names = [key for key in value if key in _METHODS]
    if len(names) != 1:
        raise Fault(
            "a method is one of: " + ", ".join(_METHODS), hint="such as {fulltext: fact, to: query}"
        )
    via = names[0]
    known = (via, "to", "if", *_METHODS[via])
    for key in value:
        if key not in known:
            raise unknown_key("a method", key, known, f"{via} has no", f"keys of {via}")

    def part(key: str, reader: Reader, default: Any, **more: Any) -> Any:
        return under(key, reader, value.get(key, default), scope, {**options, **more})

    prop = part(via, read_name, None)
    to = column_scalar(prop) if value.get("to") is None else part("to", read_scalar, None)
    rank = part("rank", read_choice, "store", choices=_RANKS)
    return SearchMethod(via, prop, to, part("above", _decimal, -1.0), rank)


def under(key: str, read: Callable[..., Any], *args: Any) -> Any:
    """Read something; its faults are at `key`."""
    try:
        return read(*args)
    except Fault as fault:
        raise fault.under(key) from None


def _decimal(value: Any, scope: Scope, options: Options) -> float:
    del scope, options
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong("a number", value)
    return float(value)


def read_partition(value: Any, scope: Scope, options: Options) -> dict[str, Any]:
    """The partitions that are read: those in a column, `all`, or [column, all]: all where the
    column is NULL.
    """
    listed = value if isinstance(value, list) else [value]
    if len(listed) == 2 and listed[1] == "all" and listed[0] != "all":
        return {"partition": read_name(listed[0], scope, options), "or_all": True}
    if len(listed) != 1:
        raise wrong("a column with partitions, all, or [COLUMN, all]", value)
    return {"partition": read_name(listed[0], scope, options), "or_all": False}


SEARCHING: dict[str, Reader] = {
    "over": read_over,
    "methods": read_methods,
    "partition": read_partition,
}
