"""Kinds of values in files: their notation, their conversion, and their JSON Schema. Kinds of
operator arguments are read in a scope.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from semgraph.errors import Collected, Fault, Faults, did_you_mean, faults_at
from semgraph.expr.duckdb import always, constant
from semgraph.expr.own_functions import FunctionsByName
from semgraph.expr.scalar import MOST_DEEP, NOW, Scalar, conjunction, parse_scalar, reserved
from semgraph.frontend import document
from semgraph.logical.graph import Pattern, parse_pattern
from semgraph.logical.node import Columns, Node, Sort, Using, column_scalar
from semgraph.logical.plan import Choice
from semgraph.logical.prompt import PromptSet
from semgraph.logical.schema import NAME, PATH, Graph
from semgraph.logical.search import SearchMethod
from semgraph.logical.semantic import Check

Schema = dict[str, Any]
PARAMETER = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")


@dataclass(frozen=True)
class ValueKind:
    """A kind of values: how plain data is read, and its JSON Schema."""

    read: Callable[[Any, Any], Any]  # from the data and the scope of its names; raises Fault
    schema: Schema


@dataclass(frozen=True)
class Key:
    """A key of a mapping."""

    kind: ValueKind
    doc: str = ""
    required: bool = False


Keys = Mapping[str, Key]


def read_keys(
    value: Any, what: str, keys: Keys, scope: Any = None
) -> tuple[dict[str, Any], Collected]:
    """The values of a mapping by key, without omitted and null values, and all faults. `what` is its
    name in messages. Raises Fault if the value is no mapping.
    """
    data = document.mapping(value, f"{what}: {{{', '.join(keys)}}}")
    faults = Collected(document.known_keys(data, keys, what))
    values: dict[str, Any] = {}
    for name, key in keys.items():
        if data.get(name) is not None:
            with faults.at(name):
                values[name] = key.kind.read(data[name], scope)
        elif key.required:
            faults.append(Fault(f"{what} needs {name}: {key.doc}"))
    return values, faults


def all_keys(value: Any, what: str, keys: Keys, scope: Any = None) -> dict[str, Any]:
    """The values of `read_keys`. Raises Faults with all faults."""
    values, faults = read_keys(value, what, keys, scope)
    faults.refuse()
    return values


def each_item(value: Any, read: Callable[[Any], Any]) -> list[Any]:
    """The converted items of a list, or of a single value. Raises Faults."""
    if not isinstance(value, (list, tuple)):
        return [read(value)]
    items, faults, skipped = [], Collected(), 0
    for i, item in enumerate(value):
        if skipped:  # a piece of the previous item, which a comma cut
            skipped -= 1
            continue
        skipped = len(document.rest_of(item, [(more, None) for more in value[i + 1 :]]))
        with faults.at(i):
            items.append(read(item))
    faults.refuse()
    return items


def each_value(values: Mapping[str, Any], read: Callable[[str, Any], Any]) -> dict[str, Any]:
    """The converted values of a mapping, by name. Raises Faults."""
    found: dict[str, Any] = {}
    faults = Collected()
    for name, value in values.items():
        with faults.at(name):
            found[name] = read(name, value)
    faults.refuse()
    return found


# -- JSON Schema


def keys_schema(keys: Keys) -> Schema:
    """The schema of a mapping with these keys and no others; null equals an omitted key."""
    properties: dict[str, Schema] = {}
    for name, key in keys.items():
        schema = key.kind.schema if key.required else either(key.kind.schema, {"type": "null"})
        properties[name] = {"description": key.doc, **schema} if key.doc else schema
    return closed(properties, [name for name, key in keys.items() if key.required])


def closed(properties: Mapping[str, Schema], required: Iterable[str] = ()) -> Schema:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def either(*schemas: Schema) -> Schema:
    """Any of these schemas."""
    flat: list[Schema] = []
    for schema in schemas:
        flat += schema["anyOf"] if set(schema) == {"anyOf"} else [schema]
    return {"anyOf": flat}


def by_name(values: Schema, names: Schema | None = None) -> Schema:
    """A mapping of such values, by names of a schema."""
    schema: Schema = {"type": "object", "additionalProperties": values}
    return schema if names is None else {**schema, "propertyNames": names}


def listed(items: Schema) -> Schema:
    """A list of such items."""
    return {"type": "array", "items": items}


def whole(pattern: re.Pattern[str]) -> Schema:
    """A text that matches a pattern as a whole."""
    return {"type": "string", "pattern": f"^{of_schemas(pattern)}$"}


def of_schemas(pattern: re.Pattern[str]) -> str:
    """A pattern for JSON Schema, where character classes are ASCII. It treats every character as a
    letter that is neither white space nor an ASCII sign.
    """
    text = pattern.pattern.removesuffix(r"\Z")
    return text.replace(r"[^\W\d]", rf"[^\d{_SIGNS}]").replace(r"\w", f"[^{_SIGNS}]")


_SIGNS = r"\s!-/:-@\[-^`{-~"
NAMED, OF_PATH, OF_PARAMETER = whole(NAME), whole(PATH), whole(PARAMETER)
TEXT_SCHEMA: Schema = {"type": "string"}


# -- kinds of values that do not depend on a scope


def plain(read: Callable[[Any], Any], schema: Schema) -> ValueKind:
    """A kind of values in which no names are looked up."""
    return ValueKind(lambda value, _: read(value), schema)


def kept(schema: Schema) -> ValueKind:
    """A kind of values that are read elsewhere."""
    return plain(lambda value: value, schema)


def _of_type(types: type | tuple[type, ...], what: str) -> Callable[[Any], Any]:
    """The reader of a value of some types; true and false are no numbers. It raises Fault."""

    def read(value: Any) -> Any:
        if not isinstance(value, types) or (isinstance(value, bool) and types is not bool):
            raise document.wrong(what, value)
        return value

    return read


read_text, read_flag = _of_type(str, "a text"), _of_type(bool, "true or false")


def read_name(value: Any) -> str:
    """A column's name. Raises Fault."""
    if not isinstance(value, str):
        raise document.wrong("a name", value)
    if not NAME.match(value):
        hint = "a name, not an expression" if "(" in value else document.NAME_HINT
        raise Fault(f'"{value}" is no name', hint=hint)
    if reserved(value):
        raise Fault(f'"{value}" is the engine\'s own name', hint="choose another name")
    return value


def read_names(value: Any) -> tuple[str, ...]:
    """A name, or a list of names. Raises Fault."""
    names = each_item(value, read_name)
    if len(set(names)) < len(names):
        raise Fault("a name is repeated")
    return tuple(names)


def read_path(value: Any) -> str:
    """A column, or a field of a struct column. Raises Fault."""
    if not isinstance(value, str):
        raise document.wrong("a column", value)
    if not PATH.match(value):
        hint = "a column or a struct's field, such as c.uuid; add computes others"
        raise Fault(f'"{value}" is no column', hint=hint)
    return value


def read_positive(value: Any) -> int:
    """An integer from 1. Raises Fault."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise document.wrong("a number from 1", value)
    return value


def one_of(*words: str) -> ValueKind:
    """One of a few words; `null` may be written without quotes."""

    def read(value: Any) -> str:
        word = "null" if value is None else value
        if word not in words:
            hint = did_you_mean(word, words) if isinstance(word, str) else None
            raise Fault(f"{document.kind_of(value)} is none of: {', '.join(words)}", hint=hint)
        return str(word)

    schema: Schema = {"enum": [*words, *([None] if "null" in words else [])]}
    return plain(read, either(schema, OF_PARAMETER))


def mapped(what: str, schema: Schema) -> ValueKind:
    """A mapping with the name `what` in messages."""
    return plain(lambda value: document.mapping(value, what), schema)


def read_texts(value: Any) -> dict[str, str]:
    """Texts by name. Raises Faults."""
    return each_value(document.mapping(value, "texts by name"), lambda _, text: read_text(text))


TEXT = plain(read_text, TEXT_SCHEMA)
TEXTS = plain(read_texts, by_name(TEXT_SCHEMA))
NAME_OF = plain(read_name, NAMED)
COLUMN = plain(read_name, either(NAMED, OF_PARAMETER))
COLUMNS = plain(read_names, either(NAMED, {**listed(NAMED), "uniqueItems": True}, OF_PARAMETER))
FLAG = plain(read_flag, either({"type": "boolean"}, OF_PARAMETER))
_number = _of_type((int, float), "a number")
DECIMAL = plain(lambda value: float(_number(value)), either({"type": "number"}, OF_PARAMETER))
POSITIVE = plain(read_positive, either({"type": "integer", "minimum": 1}, OF_PARAMETER))


class Scope(Protocol):
    """The meaning of names in a plan."""

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters' values."""

    @property
    def functions(self) -> FunctionsByName:
        """The user functions that expressions may call."""

    @property
    def graph(self) -> Graph | None:
        """The graph that labels belong to; None if its file has problems."""

    def relation(self, value: Any) -> Node:
        """A relation by name, or a nested step. Raises Fault."""

    def is_relation(self, name: str) -> bool:
        """Whether a name denotes an input, a step or a result."""

    def check_free(self, name: str) -> None:
        """Refuse a name that is already used. Raises Fault."""

    def body(self, value: Any, name: str, source: Node) -> tuple[Node, int]:
        """The body of a loop over `source`, and the number of loops around it. Raises Fault."""

    def prompt(self, value: Any, answers: Any, examples: Any) -> PromptSet:
        """The prompts that a value names; `answers` are the types of an inline prompt, `examples`
        rows that all show. Raises Fault, or Reported if one of their files has faults.
        """


class Reported(Faults):
    """A relation or file has faults that are already reported. Its readers are not checked."""

    def __init__(self) -> None:
        super().__init__(())


class Pruned(Exception):
    """A relation was pruned by its `if`, but is read: the steps with their parameters' values."""

    def __init__(self, *steps: tuple[str, str]) -> None:
        super().__init__(", ".join(name for name, _ in steps))
        self.steps = steps

    @property
    def fault(self) -> Fault:
        """The fault of a step that reads only pruned steps."""
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
    """The name of the parameter if the whole text is one, or ""."""
    match = PARAMETER.fullmatch(value) if isinstance(value, str) else None
    return "" if match is None or match[1] == NOW else match[1]


def unknown_parameter(
    name: str, params: Iterable[str], *path: str | int, value: bool = False
) -> Fault:
    """The fault of an unknown parameter."""
    return document.unknown(name, params, "no parameter", "parameters", *path, value=value)


_IF_HINT = "write if: $flag, or if: {$param: value}; a condition over rows is a when, or a filter"


def holds(condition: Any, params: Mapping[str, Any]) -> bool:
    """Whether an `if` holds: `$flag`, or `{$param: value}`, or `{$param: [values]}`. Raises Fault.

    False, null, 0 and empty values do not hold.

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
        raise document.wrong("a parameter", condition, _IF_HINT)
    if not condition:
        raise document.wrong("a parameter", None, _IF_HINT)
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
_LENGTH = re.compile(rf"{PARAMETER.pattern}(\s*-\s*\d+)?")


def read_new_name(value: Any, scope: Scope) -> str:
    """A new name."""
    name = read_name(value)
    scope.check_free(name)
    return name


def read_number(value: Any, scope: Scope) -> int:
    """A count, or a text that computes one from parameters: `2 * $limit`."""
    if isinstance(value, str) and "$" in value:
        value = constant(read_scalar(value, scope))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise document.wrong("a whole number", value)
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
    """An SQL expression, or a list of conditions that must all hold."""
    if isinstance(value, list) and value:
        return _all_of(value, scope)
    return read_expression(value, scope)


def read_expression(value: Any, scope: Scope) -> Scalar:
    """One SQL expression; a list literal must be SQL text."""
    if isinstance(value, list):
        hint = f'a list is written as text: "[{", ".join(map(str, value))}]"' if value else None
        raise document.wrong("an SQL expression", value, hint)
    if isinstance(value, Mapping):
        raise document.wrong("an SQL expression", value)
    return parse_scalar(value, scope.params, scope.functions)


def _all_of(values: list[Any], scope: Scope) -> Scalar:
    """A conjunction, without the parts that hold for all rows."""

    def condition(value: Any) -> Scalar:
        if isinstance(value, list):
            raise document.wrong("a condition", value)
        return read_expression(value, scope)

    conditions = each_item(values, condition)
    needed = [part for part in conditions if not always(part)]
    if len(needed) >= MOST_DEEP:
        what = f"at most {MOST_DEEP - 1} conditions, not {len(needed)}"
        raise Fault(what, hint="use a join, or several filters")
    return conjunction(needed) if len(needed) > 1 else (needed or conditions)[0]


def read_columns(value: Any, scope: Scope) -> Columns:
    """`{name: expression}`, a list of names, or one name, which is the column of that name."""
    if not isinstance(value, Mapping):
        return tuple((name, column_scalar(name)) for name in read_names(value))

    def column(name: str, text: Any) -> Scalar:
        read_name(name)
        return column_scalar(name) if text is None else read_expression(text, scope)

    pieces = document.rests(value)
    named = {name: text for name, text in value.items() if name not in pieces}
    return tuple(each_value(named, column).items())


def read_order(value: Any, scope: Scope) -> tuple[Sort, ...]:
    """Terms `expression` or `expression desc`; one, or a list."""
    return tuple(each_item(value, lambda item: _term(item, scope)))


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
        return tuple(each_item(value, lambda path: (read_path(path), path)))
    pairs = []
    for left, right in value.items():
        path = read_path(left)
        pairs.append((path, path if right is None else read_path(right)))
    return tuple(pairs)


def read_relations(value: Any, scope: Scope, *, all_of: bool = False) -> tuple[Node, ...]:
    """A list of relations, without pruned ones; with `all_of`, none may be pruned."""
    if not isinstance(value, list) or not value:
        raise document.wrong("a list of relations", value)
    relations: list[Node] = []
    pruned: list[tuple[str, str]] = []
    faults = Collected()
    for i, item in enumerate(value):
        try:
            with faults.at(i):
                relations.append(scope.relation(item))
        except Pruned as error:
            pruned += error.steps
    faults.refuse()
    if pruned and (all_of or not relations):
        raise Pruned(*pruned)
    return tuple(relations)


def _graph_of(scope: Scope, what: str) -> Graph:
    if scope.graph is None or not scope.graph.labels:
        raise Fault(what, hint="add graph: graph.yaml to the plan")
    return scope.graph


def read_label(value: Any, scope: Scope) -> str:
    """A label of the graph."""
    if not isinstance(value, str):
        raise document.wrong("a label", value)
    return _graph_of(scope, f'"{value}": this plan names no graph').label(value).name


def read_pattern(value: Any, scope: Scope) -> Pattern:
    """A path in openCypher's notation. A parameter, or one minus a number, is an integer."""
    if not isinstance(value, str):
        raise document.wrong('a pattern such as "(a:Label {uuid: uuid})-[r:TYPE]-(b:Label)"', value)
    _graph_of(scope, "a pattern reads a graph, and this plan names none")

    def length(match: re.Match[str]) -> str:
        if match[1] not in scope.params:
            raise unknown_parameter(match[1], scope.params, value=True)
        return str(read_number(match[0] if match[2] else scope.params[match[1]], scope))

    return parse_pattern(_LENGTH.sub(length, value))


def read_prompt(value: Any, scope: Scope, returns: Any, role: Any, examples: Any) -> PromptSet:
    """A prompt file, an inline question, or one of several by a column."""
    name = "" if role is None else at_key("role", read_name, role)
    prompts = scope.prompt(value, returns, examples)
    return prompts.of_role(name) if name else prompts


def read_check(value: Any, scope: Scope) -> Check:
    """A condition on answers, and the message about an answer that fails it."""
    values, faults = read_keys(value, "check", CHECK, scope)
    if values.get("retries", 0) > _MOST_RETRIES:
        faults.append(Fault(f"at most {_MOST_RETRIES} retries, not {values['retries']}", "retries"))
    faults.refuse()
    return Check(**values)


_MOST_RETRIES = 10


def read_message(value: Any, scope: Scope) -> Scalar:
    """An expression with a text as value."""
    try:
        return read_scalar(value, scope)
    except Fault:
        if not isinstance(value, str) or "'" in value:
            raise
        hint = f"""a text has quotes of its own: "'{value}'\""""
        raise Fault(f'"{value}" is no expression', hint=hint) from None


def read_over(value: Any, scope: Scope) -> dict[str, Any]:
    """The target of a search: a label, a step, or [label, step]."""
    if isinstance(value, list) and len(value) == 2 and isinstance(value[0], str):
        label = read_label(value[0], scope)
        return {"label": label, "within": at_key(1, scope.relation, value[1])}
    if isinstance(value, str) and not scope.is_relation(value):
        return {"label": read_label(value, scope), "within": None}
    return {"label": "", "within": scope.relation(value)}


def read_methods(value: Any, scope: Scope) -> tuple[SearchMethod, ...]:
    """The methods of a search: one, or a list. Methods whose `if` does not hold are left out."""

    def method(item: Any) -> SearchMethod | None:
        if isinstance(item, Mapping) and not _wanted(item.get("if", True), scope):
            return None
        return _method(item, scope)

    methods = [by for by in each_item(value, method) if by is not None]
    if value != [] and not methods:
        raise Fault("no method is left: the if of none holds", hint="give the step the same if")
    return tuple(methods)


def _wanted(condition: Any, scope: Scope) -> bool:
    """Whether an `if` holds. A whole parameter has already been replaced by its value."""
    if not isinstance(condition, Mapping):
        return bool(condition)
    return bool(at_key("if", holds, condition, scope.params))


def _method(value: Any, scope: Scope) -> SearchMethod:
    if not isinstance(value, Mapping):
        raise document.wrong("a method such as {equal: name}", value)
    names = [key for key in value if key in METHODS]
    if len(names) != 1:
        raise Fault(
            "a method is one of: " + ", ".join(METHODS), hint="such as {fulltext: fact, to: query}"
        )
    via = names[0]
    parts = all_keys(value, via, METHODS[via], scope)
    to = parts.get("to") or column_scalar(parts[via])
    return SearchMethod(via, parts[via], to, parts.get("above", -1.0), parts.get("rank", "store"))


def read_partition(value: Any) -> dict[str, Any]:
    """The partitions to read: those in a column, `all`, or [column, all]: all where it is NULL."""
    parts = value if isinstance(value, list) else [value]
    if len(parts) == 2 and parts[1] == "all" and parts[0] != "all":
        return {"partition": read_name(parts[0]), "or_all": True}
    if len(parts) != 1:
        raise document.wrong("a column with partitions, all, or [COLUMN, all]", value)
    return {"partition": read_name(parts[0]), "or_all": False}


def at_key(key: str | int, read: Callable[..., Any], *args: Any) -> Any:
    """Call `read`; its faults get the path `key`."""
    with faults_at(key):
        return read(*args)


SCALAR: Schema = {"type": ["string", "number", "boolean"]}
PIPELINE: Schema = {"$ref": "#/$defs/pipeline"}
RELATION: Schema = {"$ref": "#/$defs/relation"}
CONDITION: Schema = {
    "anyOf": [
        OF_PARAMETER,
        {"type": "boolean"},
        {"type": "object", "patternProperties": {r"^\$": {}}, "minProperties": 1},
    ]
}
CHOICE: Schema = {
    "anyOf": [TEXT_SCHEMA, {"type": "object", "minProperties": 1, "maxProperties": 1}]
}
_COMPUTED = by_name({"type": [*SCALAR["type"], "null"]}, NAMED)
_PAIRS = by_name({**OF_PATH, "type": ["string", "null"]}, OF_PATH)
_PARTS: Schema = {"type": "array", "prefixItems": [NAMED, {"const": "all"}], "minItems": 2}
_RELATIONS: Schema = {**listed(RELATION), "minItems": 1}
_LABEL_AND_STEP: Schema = {
    "type": "array", "prefixItems": [TEXT_SCHEMA, RELATION], "minItems": 2, "maxItems": 2
}  # fmt: skip
_EXPRESSION = ValueKind(read_scalar, {"anyOf": [SCALAR, {**listed(SCALAR), "minItems": 1}]})
_NUMBER = ValueKind(
    read_number, either({"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"\$"})
)
_ORDER = ValueKind(read_order, either(SCALAR, listed(SCALAR)))
_USING = plain(read_using, either(OF_PATH, listed(OF_PATH), _PAIRS, OF_PARAMETER))
_COMPUTED_COLUMNS = ValueKind(read_columns, either(_COMPUTED, COLUMNS.schema))
_RELATION = ValueKind(lambda value, scope: scope.relation(value), either(RELATION))
_PROPERTY = plain(read_name, NAMED)
_METHOD: Keys = {
    "to": Key(ValueKind(read_scalar, SCALAR), "what is looked for"),
    "if": Key(kept(CONDITION), "whether the method is used"),
}
# The methods of a search, with the keys of each.
METHODS: Mapping[str, Keys] = {
    "equal": {"equal": Key(_PROPERTY, "the property", required=True), **_METHOD},
    "fulltext": {
        "fulltext": Key(_PROPERTY, "the property", required=True),
        **_METHOD,
        "rank": Key(one_of("store", "overlap"), "how hits are ranked"),
    },
    "nearest": {
        "nearest": Key(_PROPERTY, "the property", required=True),
        **_METHOD,
        "above": Key(DECIMAL, "hits have a greater cosine"),
    },
}
CHECK: Keys = {
    "where": Key(_EXPRESSION, "the condition that an answer must meet", required=True),
    "message": Key(
        ValueKind(read_message, SCALAR),
        "what the model is told about an answer that does not meet it",
        required=True,
    ),
    "retries": Key(_NUMBER, "how often it is asked again"),
}
_EACH_METHOD = [keys_schema(keys) for keys in METHODS.values()]
# The kinds of operator arguments, except kinds that need more than the value: a choice, a prompt, a
# body, refs.
KINDS: Mapping[str, ValueKind] = {
    "check": ValueKind(read_check, keys_schema(CHECK)),
    "relation": _RELATION,
    "relations": ValueKind(read_relations, _RELATIONS),
    "all_relations": ValueKind(partial(read_relations, all_of=True), _RELATIONS),
    "scalar": _EXPRESSION,
    "columns": _COMPUTED_COLUMNS,
    "names": COLUMNS,
    "name": COLUMN,
    "new_name": ValueKind(read_new_name, COLUMN.schema),
    "path": plain(read_path, either(OF_PATH, OF_PARAMETER)),
    "number": _NUMBER,
    "flag": FLAG,
    "algorithm": plain(read_algorithm, CHOICE),
    "order": _ORDER,
    "using": _USING,
    "pattern": ValueKind(read_pattern, TEXT_SCHEMA),
    "label": ValueKind(read_label, TEXT_SCHEMA),
    "over": ValueKind(read_over, either(TEXT_SCHEMA, _LABEL_AND_STEP, PIPELINE)),
    "methods": ValueKind(
        read_methods,
        either(*_EACH_METHOD, listed(either(*_EACH_METHOD, OF_PARAMETER)), OF_PARAMETER),
    ),
    "partition": plain(read_partition, either(NAMED, _PARTS)),
}
# The keys of an entry of `refs`.
REF: Keys = {
    "of": Key(_RELATION, "the relation whose rows are named", required=True),
    "using": Key(_USING, "columns that the row and its records share"),
    "where": Key(_EXPRESSION, "which rows are records of a row"),
    "order": Key(_ORDER, "the order of the records"),
    "limit": Key(_NUMBER, "the most records of a row"),
    "shows": Key(_COMPUTED_COLUMNS, "what the prompt shows of a row", required=True),
    "number": Key(plain(read_name, NAMED), "the column that numbers the records"),
    "unknown": Key(
        one_of("ask", "drop"),
        "what becomes of an unknown number: it is asked for again, or left out",
    ),
}
