"""Nodes of plain data: one builder for every operator, steered by what the node class declares of
its arguments.

An operator is found by its keyword and its arguments by the fields of its class, so a new operator
is one class in `logical`. The kinds of arguments stand in `arguments`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

from semgraph.errors import Fault, Faults, Position, did_you_mean, each
from semgraph.expr.duckdb import UnknownFunction
from semgraph.expr.scalar import parse_scalar, reserved
from semgraph.expr.types import parse_type, type_of_arrow
from semgraph.frontend.arguments import KINDS, Reported, Scope, read_prompt
from semgraph.frontend.document import (
    COMMA_HINT,
    KeyFault,
    in_new_words,
    kind_of,
    rests,
    unknown_key,
)
from semgraph.frontend.kinds import one_of
from semgraph.frontend.refs import REFS, read_refs, refuse_unnamed, with_refs
from semgraph.logical import cluster, graph, iterate, relational, search, semantic
from semgraph.logical.graph import Scan
from semgraph.logical.iterate import Iterate
from semgraph.logical.node import Node, relation_fields, same_columns
from semgraph.logical.relational import Add, Union
from semgraph.logical.schema import Graph
from semgraph.logical.semantic import SemMap
from semgraph.logical.sinks import Delete, Merge, Sink

OPERATORS: tuple[type[Node], ...] = tuple(
    cls
    for module in (relational, cluster, search, graph, semantic, iterate)
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, Node) and cls.__module__ == module.__name__
    if cls.keyword and any(f.metadata["kind"] == "input" for f in cls.arguments())
)
"""What works on the relation above it, as declared."""
SOURCES: tuple[type[Node], ...] = (Union, Scan)
SINKS: tuple[type[Sink], ...] = (Merge, Delete)
_SEVERAL = {"over", "partition", "body"}  # arguments that fill several fields
_BESIDE = {"prompt": ("returns", "role")}
"""Further keys that belong to an argument: the answers of an inline prompt, and the model's role."""


def by_keyword(classes: Iterable[type[Node]]) -> dict[str, type[Node]]:
    """Node classes by the word that plans use."""
    return {cls.keyword: cls for cls in classes}


@cache
def plan_keys(cls: type[Node]) -> Mapping[str, dataclasses.Field[Any]]:
    """The keys that a plan may write for an operator, with the field that each belongs to. The
    pipeline's input is none.
    """
    keys: dict[str, dataclasses.Field[Any]] = {}
    for f in cls.arguments():
        kind = f.metadata["kind"]
        if kind in {"input", "within", "or_all", "graph", "numbers"}:
            continue
        keys["over" if kind == "over" else f.metadata.get("key", f.name)] = f
        for beside in _BESIDE.get(kind, ()):
            if beside != "returns" or getattr(cls, "returns_types", True):
                keys[beside] = f
    if cls is SemMap:
        keys["refs"] = REFS
    return MappingProxyType(keys)


@cache
def _field_names(cls: type[Node]) -> frozenset[str]:
    return frozenset(f.name for f in dataclasses.fields(cls))


def stands_bare(cls: type[Node], value: object) -> bool:
    """Whether a value is the operator's sole argument, not a mapping of arguments."""
    keys = plan_keys(cls)
    return bool(cls.sole) and (len(keys) == 1 or not isinstance(value, Mapping))


_STEP_IF = "write the step as {if: $flag, do: [...]}"


def build(
    cls: type[Node],
    value: Any,
    scope: Scope,
    *,
    source: Node | None = None,
    step: str = "",
    origin: Position | None = None,
) -> Node:
    """A node from its arguments in a plan.

    Args:
        cls: The operator.
        value: Its arguments as plain data, parameters substituted where they are whole values.
        scope: What names mean: relations, prompts, parameters, the graph.
        source: The relation above it in the pipeline.
        step: Name of the step.
        origin: Where it stands.

    Raises:
        Faults: Everything that is wrong with the arguments, each with its path below `value`.
    """
    bare = stands_bare(cls, value)
    data = {cls.sole: value} if bare else value
    if not isinstance(data, Mapping):
        raise Faults([_no_mapping(cls, data)])
    if scope.graph is None and "graph" in _field_names(cls):
        raise Reported
    try:
        return _Arguments(cls, data, scope, source).node(step, origin)
    except Fault as fault:
        raise Faults(_without(part, cls.sole) if bare else part for part in each(fault)) from None


_nodes: WeakValueDictionary[Hashable, Node] = WeakValueDictionary()
_latest: WeakValueDictionary[Hashable, Node] = WeakValueDictionary()  # by all but the relations
N = TypeVar("N", bound=Node)


def shared_node(cls: type[N], step: str, origin: Position | None, **values: Any) -> N:
    """A node with these values: that of another load, if it is still in use. A plan and its presets
    share most of theirs. Over other relations with the same columns, it needs no checks. Raises
    Fault.
    """
    # a graph cannot be hashed; the node keeps it, so no other has its id
    parts = [(name, id(v) if isinstance(v, Graph) else v) for name, v in values.items()]
    key = (cls, step, origin, *parts)
    node = _nodes.get(key)
    if node is None:
        relations = [name for name in relation_fields(cls) if values.get(name)]
        others = (part for part in parts if part[0] not in relations)
        place = (cls, step, origin, *relations, *others)
        node = _over(_latest.get(place), [values[name] for name in relations])
        if node is None:
            node = cls(step=step, origin=origin, **values)
            check_result(node)
        _nodes[key] = _latest[place] = node
    return cast("N", node)


def _over(node: Node | None, relations: Iterable[Any]) -> Node | None:
    """The operator over other relations with the same columns; None if there are other columns, or
    if its checks look at more than columns.
    """
    if node is None or isinstance(node, Iterate):
        return None
    inputs = [n for value in relations for n in (value if isinstance(value, tuple) else (value,))]
    if len(inputs) != len(node.inputs) or any(
        one.partitioned != other.partitioned or not same_columns(one, other)
        for one, other in zip(node.inputs, inputs, strict=True)
    ):
        return None
    return node.with_inputs(*inputs)


def _no_mapping(cls: type[Node], value: Any) -> Fault:
    what = f"{cls.keyword} needs a mapping of arguments, found {kind_of(value)}"
    keys, hint = plan_keys(cls), None
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        written = json.dumps(value, ensure_ascii=False)
        hint = f"write {cls.keyword}: {{{next(iter(keys))}: {written}}}"
    return Fault(what, there="arguments: " + ", ".join(keys), hint=hint)


def _without(fault: Fault, first: str) -> Fault:
    return fault.at(*fault.path[1:]) if fault.path[:1] == (first,) else fault


def _filled(relations: Sequence[Node], step: str, origin: Position | None) -> tuple[Node, ...]:
    """Relations, each with NULL for the columns that it lacks and another has."""
    kinds = {f.name: f.type for node in reversed(relations) for f in node.schema}
    order = dict.fromkeys(name for node in relations for name in node.schema.names)
    filled = []
    for node in relations:
        columns = tuple(
            (name, parse_scalar(f"CAST(NULL AS {type_of_arrow(kinds[name]).sql})"))
            for name in order
            if name not in node.schema.names
        )
        add = partial(shared_node, Add, step, origin, input=node, columns=columns)
        filled.append(add() if columns else node)
    return tuple(filled)


class _Arguments:
    """The arguments of one operator while they are read: values by field, and what is wrong."""

    def __init__(
        self, cls: type[Node], data: Mapping[str, Any], scope: Scope, source: Node | None
    ) -> None:
        self.cls, self.scope, self.source = cls, scope, source
        self.data, self.faults = in_new_words(cls.keyword, data)
        if {"add", "returns"} <= plan_keys(cls).keys():
            self._read_types_of_add()
        self.fields = {f.name: f for f in cls.arguments()}
        self.values: dict[str, Any] = {}

    def _read_types_of_add(self) -> None:
        """Refuse types in `add`, and read them as the answers that they were."""
        add, columns = self.data.get("add"), self.source.schema.names if self.source else ()
        types = {
            name: value
            for name, value in (add.items() if isinstance(add, Mapping) else ())
            if value not in columns and is_type(value)
        }
        for name, value in types.items():
            hint = f"write returns: {{{name}: {value}}}"
            fault = Fault("types stand in returns, aggregates in add", "add", name, hint=hint)
            self.faults.append(fault)
        if types and isinstance(add, Mapping):
            self.data["add"] = {name: add[name] for name in add if name not in types}
            self.data.setdefault("returns", types)

    def _read(self) -> None:
        """Read every argument; faults are collected."""
        keys = plan_keys(self.cls)
        pieces = rests(self.data)
        for name in self.data:
            if name not in keys and name not in pieces:
                word = self.cls.keyword
                what = f"{word} has no argument"
                self.faults.append(unknown_key(word, name, keys, what, "arguments"))
        misspelt = {fault.hint for fault in self.faults}
        for key, f in keys.items():
            if key in _BESIDE.get(f.metadata["kind"], ()):
                continue
            if key in self.data or f'did you mean "{key}"?' not in misspelt:
                self._read_argument(key, f)

    def _read_argument(self, key: str, f: dataclasses.Field[Any]) -> None:
        kind = f.metadata["kind"]
        try:
            self.values |= self._argument(key, f)
        except Fault as fault:
            self._fail(fault, key, kind)

    def _fail(self, fault: Fault, key: str, kind: str) -> None:
        beside = _BESIDE.get(kind, ())
        parts = (
            part if part.path and part.path[0] in beside else part.under(key)
            for part in each(fault)
        )
        self.faults.append(Faults(parts))

    def _argument(self, key: str, f: dataclasses.Field[Any]) -> dict[str, Any]:
        kind = f.metadata["kind"]
        value = self.data.get(key)
        absent = value is None and "null" not in f.metadata.get("choices", ())
        if key not in self.data or absent:
            if f.default is dataclasses.MISSING:
                doc = f.metadata.get("doc")
                needed = f"{key}: {doc}" if doc else f'"{key}"'
                raise _Missing(f"{self.cls.keyword} needs {needed}")
            return {}
        if key == "when" and isinstance(value, bool):
            what = "when is asked of rows, and this is settled at load: say if"
            raise Fault(what, hint=_STEP_IF)
        argument_value = self._value(f, value)
        if f.default is dataclasses.MISSING and argument_value == ():
            what = "one expression" if kind == "order" else "one column"
            raise Fault(f"{self.cls.keyword} needs at least {what}")
        return dict(argument_value) if kind in _SEVERAL else {f.name: argument_value}

    def _value(self, f: dataclasses.Field[Any], value: Any) -> Any:
        """What becomes of the value of an argument. Raises Fault."""
        match f.metadata["kind"]:
            case "choice":
                return one_of(*f.metadata["choices"]).read(value, self.scope)
            case "prompt":
                given = {key: self.data.get(key) for key in plan_keys(self.cls)}
                return read_prompt(value, self.scope, given.get("returns"), given.get("role"))
            case "refs":
                return read_refs(value, self.scope)
            case "body":
                name = self.values.get("name", "")
                node, depth = self.scope.body(value, name, cast("Node", self.source))
                return {"body": node, "depth": depth}
        return KINDS[f.metadata["kind"]].read(value, self.scope)

    def node(self, step: str, origin: Position | None) -> Node:
        """The node. Raises Faults."""
        self._read()
        if self.faults:
            raise Faults(self.faults)
        self._add_context()
        if self.values.pop("fill", False):
            self.values["relations"] = _filled(self.values["relations"], step, origin)
        try:
            return self._checked_node(step, origin)
        except Fault as fault:
            raise Faults(self._as_written(part) for part in each(fault)) from None

    def _checked_node(self, step: str, origin: Position | None) -> Node:
        """The node of the values, or those that it is lowered to. Raises Fault."""
        values = dict(self.values)
        refs = values.pop("refs", {})
        if "prompt" in values:
            refuse_unnamed(self.cls, values["prompt"].first, refs)
        if refs:
            return with_refs(shared_node, refs, values, step, origin)
        return shared_node(self.cls, step, origin, **values)

    def _add_context(self) -> None:
        """The values that no plan writes: the pipeline's relation, the graph."""
        names, graph = _field_names(self.cls), self.scope.graph
        if self.source is not None and "input" in names:
            self.values["input"] = self.source
        if graph is not None and "graph" in names:
            self.values["graph"] = graph
        if "owner" in names:
            self.values["owner"] = graph.partition if graph is not None else ""

    def _as_written(self, fault: Fault) -> Fault:
        """A fault at the key that plans write (`over` for `label`)."""
        if isinstance(fault, UnknownFunction):
            fault = fault.nearest_of(self.scope.functions)
        if not fault.path:
            return fault
        key, *rest = fault.path
        if key == "label" and "over" in plan_keys(self.cls):
            key = "over"
        elif key in self.fields:
            key = self.fields[str(key)].metadata.get("key", key)
        return fault.at(key, *rest)


def is_type(value: Any) -> bool:
    """Whether a value is a type of an answer, such as `string`."""
    try:
        return isinstance(value, str) and bool(parse_type(value))
    except Fault:
        return False


class _Missing(Fault):
    """A required argument is missing: the fault is the operator's, not the argument's."""

    def under(self, *prefix: str | int) -> Fault:
        del prefix
        return Fault(self.what, there=self.there, hint=self.hint)


def check_result(node: Node) -> None:
    """Refuse columns that DuckDB would take for one, or for the engine's own. Raises Fault."""
    seen: dict[str, str] = {}
    for name in node.schema.names:
        if reserved(name):
            raise Fault(f'"{name}" is the engine\'s own name', hint="choose another name")
        other = seen.setdefault(name.lower(), name)
        if other != name:
            raise Fault(
                f'the columns "{other}" and "{name}" differ in case alone',
                hint="rename one of them",
            )


OPERATOR_WORDS = by_keyword(OPERATORS)
SOURCE_WORDS = ("from", "union", "call", "switch")


def operator_on(item: Any, *, first: bool) -> tuple[str, Any]:
    """The keyword of a line and its arguments; `first`: of a step, where a source belongs.
    Raises Fault.
    """
    if not isinstance(item, Mapping):
        hint = f"write {{from: {item}}}" if first and isinstance(item, str) else None
        raise Fault(
            f"expected an operator such as {{filter: EXPR}}, found {kind_of(item)}", hint=hint
        )
    if len(item) != 1:
        keys = ", ".join(str(key) for key in item) or "none"
        hint = COMMA_HINT if rests(item) else "each operator has its own dash"
        raise Fault("one operator on a line", there=f"here: {keys}", hint=hint)
    ((keyword, value),) = item.items()
    if keyword in SOURCE_WORDS:
        if not first:
            raise KeyFault(
                f'"{keyword}" starts a step, and this is not its first line',
                keyword,
                hint=f"put the {keyword} into a step of its own, and start this one from that: from: STEP",
            )
    elif keyword not in OPERATOR_WORDS:
        hint = did_you_mean(keyword, [*OPERATOR_WORDS, *SOURCE_WORDS])
        raise KeyFault(
            f'"{keyword}" is no operator',
            keyword,
            there="operators: " + ", ".join(OPERATOR_WORDS),
            hint=hint,
        )
    elif first:
        hint = "the line before it: {from: NAME}"
        raise KeyFault(
            f'"{keyword}" needs a relation: a step starts with a source', keyword, hint=hint
        )
    return keyword, value
