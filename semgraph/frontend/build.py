"""Nodes of plain data: one builder for every operator, steered by what the node class declares of
its arguments.

An operator is found by its keyword and its arguments by the fields of its class, so a new operator
is one class and its place in a tuple here. The readers of arguments stand in `arguments`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar, cast
from weakref import WeakValueDictionary

import pyarrow as pa

from semgraph.errors import Fault, Faults, Position, did_you_mean, each
from semgraph.expr.duckdb import UnknownFunction
from semgraph.expr.scalar import Scalar, parse_scalar, reserved
from semgraph.expr.types import ANY_COLUMN, UNKNOWN, holds_unknown, parse_type, type_of_arrow
from semgraph.frontend.arguments import (
    READERS,
    SEARCHING,
    UNKNOWN_SCALAR,
    PartlyWrong,
    Scope,
)
from semgraph.frontend.document import (
    COMMA_HINT,
    KeyFault,
    in_new_words,
    kind_of,
    rests,
    unknown_key,
)
from semgraph.frontend.refs import REFS, read_refs, refuse_unnamed, with_refs
from semgraph.logical.cluster import Cluster
from semgraph.logical.graph import Match, Scan
from semgraph.logical.iterate import Iterate
from semgraph.logical.node import Node, argument, relation_fields, same_columns, walk
from semgraph.logical.prompt import Prompt, PromptSet, Template
from semgraph.logical.relational import (
    Add,
    Aggregate,
    Distinct,
    Filter,
    GroupJoin,
    Join,
    Limit,
    Ordered,
    Project,
    Require,
    Union,
    Unnest,
)
from semgraph.logical.schema import Graph
from semgraph.logical.search import Search, SearchMethod
from semgraph.logical.semantic import Check, Embed, SemAgg, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.logical.sinks import Delete, Merge, Sink
from semgraph.logical.typecheck import Sort

OPERATORS: tuple[type[Node], ...] = (
    Filter, Require, Project, Add, Join, GroupJoin, Limit, Ordered, Distinct, Aggregate, Unnest, Cluster, Search, Match,
    Embed, SemMap, SemFilter, SemJoin, SemAgg, SemTopk, Iterate,
)  # fmt: skip
SOURCES: tuple[type[Node], ...] = (Union, Scan)
SINKS: tuple[type[Sink], ...] = (Merge, Delete)
_READERS = {**READERS, **SEARCHING, "refs": read_refs}
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
_ANY_COLUMN = pa.field(ANY_COLUMN, UNKNOWN)
_SAME_COLUMNS = (Filter, Require, Limit, Ordered, Distinct, SemFilter)


@dataclass(frozen=True, eq=False, kw_only=True)
class Unknown(Node):
    """A relation with a wrong definition, in a plan that is refused. It has at least these
    columns; every check of what reads it passes, so that a mistake is reported once, where it is.
    """

    keyword: ClassVar[str] = "unknown"
    columns: pa.Schema = argument("schema", default=pa.schema([_ANY_COLUMN]))

    def infer(self) -> pa.Schema:
        """The columns that are known."""
        return self.columns

    @classmethod
    def beside(cls, schema: pa.Schema) -> Unknown:
        """With these columns and any others."""
        known = ANY_COLUMN in schema.names
        return cls(columns=schema if known else schema.append(_ANY_COLUMN))


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
    node, faults = build_or_unknown(cls, value, scope, source=source, step=step, origin=origin)
    if faults:
        raise Faults(faults)
    return node


def build_or_unknown(
    cls: type[Node],
    value: Any,
    scope: Scope,
    *,
    source: Node | None,
    step: str,
    origin: Position | None,
) -> tuple[Node, list[Fault]]:
    """As `build`, with the faults beside the node: what is wrong is unknown in it, or all of it
    is. Follow-up errors of an unknown relation or column are not among the faults.
    """
    bare = stands_bare(cls, value)
    data = {cls.sole: value} if bare else value
    if not isinstance(data, Mapping):
        return _unknown(cls, source), [_no_mapping(cls, data)]
    if scope.graph is None and "graph" in _field_names(cls):
        return _unknown(cls, source), []
    arguments = _Arguments(cls, data, scope, source)
    arguments.read()
    node = arguments.node(step, origin)
    if bare:
        return node, [_without(fault, cls.sole) for fault in arguments.faults]
    return node, arguments.faults


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


def _unknown(cls: type[Node], source: Node | None) -> Node:
    """The relation of an operator that could not be built."""
    if source is not None and issubclass(cls, _SAME_COLUMNS):
        return Unknown(columns=source.schema)
    if source is not None and (cls.carries or issubclass(cls, (Join, SemJoin, SemMap, Iterate))):
        return Unknown.beside(source.schema)
    return Unknown()


def _filled(relations: Sequence[Node], step: str, origin: Position | None) -> tuple[Node, ...]:
    """Relations, each with NULL for the columns that it lacks and another has."""
    kinds = {f.name: f.type for node in reversed(relations) for f in node.schema}
    order = dict.fromkeys(name for node in relations for name in node.schema.names)
    filled = []
    for node in relations:
        own = {ANY_COLUMN, *node.schema.names}
        columns = tuple(
            (name, parse_scalar(f"CAST(NULL AS {type_of_arrow(kinds[name]).sql})"))
            for name in order
            if name not in own and not holds_unknown(kinds[name])
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
        self.places: dict[str, list[int]] = {}
        self.lacks_argument = False
        self.may_lack_columns = False

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

    def read(self) -> None:
        """Read every argument; faults are collected."""
        keys = plan_keys(self.cls)
        pieces = rests(self.data)
        for name in self.data:
            if name not in keys and name not in pieces:
                word = self.cls.keyword
                what = f"{word} has no argument"
                self.faults.append(unknown_key(word, name, keys, what, "arguments"))
                self.may_lack_columns = True
        misspelt = {fault.hint for fault in self.faults}
        for key, f in keys.items():
            if key in _BESIDE.get(f.metadata["kind"], ()):
                continue
            if key not in self.data and f'did you mean "{key}"?' in misspelt:
                self.lacks_argument |= f.default is dataclasses.MISSING
            else:
                self._read_argument(key, f)

    def _read_argument(self, key: str, f: dataclasses.Field[Any]) -> None:
        kind = f.metadata["kind"]
        try:
            self.values |= self._argument(key, f)
        except PartlyWrong as faults:
            self._fail(faults, key, kind)
            self.values[f.name], self.places[f.name] = faults.rest, faults.places
            self.lacks_argument |= not faults.rest and f.default is dataclasses.MISSING
        except Fault as fault:
            self._fail(fault, key, kind)
            if kind == "scalar":
                self.values[f.name] = UNKNOWN_SCALAR
            else:
                self.lacks_argument |= f.default is dataclasses.MISSING or kind == "refs"
                self.may_lack_columns |= kind in ("columns", "names")

    def _fail(self, fault: Fault, key: str, kind: str) -> None:
        beside = _BESIDE.get(kind, ())
        self.faults += [
            part if part.path and part.path[0] in beside else part.under(key)
            for part in each(fault)
        ]

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
        beside = plan_keys(self.cls).keys() & _BESIDE.get(kind, ())
        options = {**f.metadata, **{key: self.data.get(key) for key in beside}}
        if kind == "body":
            options |= {"round": self.values.get("name", ANY_COLUMN), "source": self.source}
        argument_value = _READERS[kind](value, self.scope, options)
        if f.default is dataclasses.MISSING and argument_value == ():
            what = "one expression" if kind == "order" else "one column"
            raise Fault(f"{self.cls.keyword} needs at least {what}")
        if kind == "prompt" and argument_value is None:
            self.lacks_argument = True
        if kind == "body" and any(isinstance(n, Unknown) for n in walk(argument_value["body"])):
            self.lacks_argument = True
        return dict(argument_value) if kind in _SEVERAL else {f.name: argument_value}

    def node(self, step: str, origin: Position | None) -> Node:
        """The node, with unknown parts in place of those that it refuses, or an unknown one."""
        self._add_context()
        if self.values.pop("fill", False) and "relations" in self.values:
            self.values["relations"] = _filled(self.values["relations"], step, origin)
        while not self.lacks_argument:
            try:
                node = self._checked_node(step, origin)
            except Fault as fault:
                first = not self.faults
                forgotten = [self._refused(part, first=first) for part in each(fault)]
                if not all(forgotten):
                    break
                continue
            if self.may_lack_columns and not isinstance(node, (*_SAME_COLUMNS, Sink)):
                return Unknown.beside(node.schema)
            return node
        return _unknown(self.cls, self.source)

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

    def _refused(self, fault: Fault, *, first: bool) -> bool:
        """Report a fault of the node, unless it follows from another; forget the part that is
        wrong. False if the operator is nothing without it.
        """
        written = self._as_written(fault)
        if isinstance(written, UnknownFunction):
            written = written.nearest_of(self.scope.functions)
        repeated = any(fault.what == written.what for fault in self.faults)
        follows = not first and not fault.path
        if not repeated and not follows and not self._reads_unknown(fault.path):
            self.faults.append(written)
        return self._forget(fault.path)

    def _as_written(self, fault: Fault) -> Fault:
        """A fault at the key that plans write (`over` for `label`), and at the item that they
        wrote there.
        """
        if not fault.path:
            return fault
        key, *rest = fault.path
        places = self.places.get(str(key), ())
        if rest and isinstance(rest[0], int) and rest[0] < len(places):
            rest[0] = places[rest[0]]
        if key == "label" and "over" in plan_keys(self.cls):
            key = "over"
        elif key in self.fields:
            key = self.fields[str(key)].metadata.get("key", key)
        return fault.at(key, *rest)

    def _part(self, path: tuple[str | int, ...]) -> Any:
        """The part of an argument that a path names."""
        value = self.values.get(str(path[0])) if path else None
        match path[1:], value:
            case (int(i), *_), tuple() if i < len(value):
                return value[i]
            case (str(name), *_), tuple():
                return dict(value).get(name)
        return value

    def _reads_unknown(self, path: tuple[str | int, ...]) -> bool:
        """Whether a part of the arguments reads a column that is unknown, or, where it is no such
        part, the operator does.
        """
        part = self._part(path)
        if part == UNKNOWN_SCALAR:
            return True
        schemas = [node.schema for node in _relations(self.values.values())]
        unknown_columns = {
            field.name for schema in schemas for field in schema if holds_unknown(field.type)
        }
        names = _columns_of(part)
        if not unknown_columns or names is None:
            return bool(unknown_columns)
        open_schemas = [set(schema.names) for schema in schemas if ANY_COLUMN in schema.names]
        return any(
            name in unknown_columns
            or name == self.values.get("alias")
            or any(name not in columns for columns in open_schemas)
            for name in names
        )

    def _forget(self, path: tuple[str | int, ...]) -> bool:
        """Put the unknown in place of a part of the arguments, or leave an item of a list out."""
        name, part = str(path[0]) if path else "", self._part(path)
        value = self.values.get(name)
        if isinstance(part, Scalar) and isinstance(value, tuple):
            self._forget_column(name, str(path[1]))
            return bool(self.values[name]) or self.fields[name].default is not dataclasses.MISSING
        if isinstance(part, Scalar):
            self.values[name] = UNKNOWN_SCALAR
            return part != UNKNOWN_SCALAR
        if isinstance(value, Check):
            del self.values[name]
            return True
        if isinstance(part, PromptSet):
            any_prompt = _any_prompt(part, pairs=issubclass(self.cls, SemJoin))
            self.values[name] = any_prompt
            return any_prompt != part
        if isinstance(value, tuple) and len(path) > 1 and isinstance(path[1], int):
            return self._forget_item(name, value, path[1])
        return False

    def _forget_item(self, name: str, value: tuple[Any, ...], i: int) -> bool:
        if i >= len(value) or isinstance(value[i], Node):
            return False
        places = self.places.setdefault(name, list(range(len(value))))
        self.values[name] = value[:i] + value[i + 1 :]
        del places[i : i + 1]
        return bool(self.values[name]) or self.fields[name].default is not dataclasses.MISSING

    def _forget_column(self, argument_name: str, column: str) -> None:
        """Make a column unknown, or leave it out, if that was of no use."""
        columns: list[tuple[str, Scalar]] = []
        for name, scalar in self.values[argument_name]:
            if name != column:
                columns.append((name, scalar))
            elif scalar != UNKNOWN_SCALAR:
                columns.append((name, UNKNOWN_SCALAR))
            else:
                self.may_lack_columns = True
        self.values[argument_name] = tuple(columns)


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


def _relations(values: Iterable[Any]) -> list[Node]:
    listed = [
        part for value in values for part in (value if isinstance(value, tuple) else (value,))
    ]
    return [part for part in listed if isinstance(part, Node)]


def _columns_of(part: Any) -> frozenset[str] | None:
    """The columns that a part of arguments reads; None for what is no such part."""
    match part:
        case (Scalar() as scalar) | Sort(by=scalar) | SearchMethod(to=scalar):
            return scalar.roots
        case (str(), str()):
            return frozenset(path.split(".")[0] for path in part)
        case str():
            return frozenset({part.split(".")[0]})
        case PromptSet():  # placeholders of unknown columns are not refused
            return frozenset()
    return None


def _any_prompt(prompts: PromptSet, *, pairs: bool) -> PromptSet:
    """A prompt with the same answers over any columns."""
    any_text = Template((("", ANY_COLUMN),))
    other = any_text if pairs else Template()
    first = prompts.first
    prompt = Prompt(first.name, first.returns, item=any_text, other=other)
    return PromptSet((("", prompt),))


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
