"""Nodes from plain data: one builder for all operators, driven by the arguments that node classes
declare.

An operator is found by its keyword, its arguments by the fields of its class. So a new operator is
one class in `logical`. `kinds` defines the kinds of arguments.

`refs` of a sem_map is lowered to existing operators when a plan is loaded: a group_join that
collects the records of each row, an add that numbers them, the sem_map that shows the numbered
records and reads numbers, and a project that replaces numbers by rows.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import starmap
from types import MappingProxyType
from typing import Any, TypeVar, cast
from weakref import WeakValueDictionary

import pyarrow as pa

from semgraph.errors import Collected, Fault, Faults, Position, did_you_mean, each, faults_at
from semgraph.expr.duckdb import UnknownFunction, expect_type
from semgraph.expr.scalar import Scalar, parse_scalar, read_from, replace_roots, reserved
from semgraph.expr.types import Type, parse_type, type_of_arrow
from semgraph.frontend import document, kinds
from semgraph.frontend.example_rows import checked_examples
from semgraph.logical import cluster, graph, iterate, relational, search, semantic
from semgraph.logical.graph import Scan
from semgraph.logical.iterate import Iterate
from semgraph.logical.node import (
    Columns,
    Node,
    Sort,
    Using,
    check_sort,
    check_using,
    column_scalar,
    free,
    fresh,
    relation_fields,
    same_columns,
    typed,
)
from semgraph.logical.prompt import Prompt, PromptSet
from semgraph.logical.relational import (
    Add,
    Except,
    GroupJoin,
    Intersect,
    Project,
    SampleRows,
    Union,
)  # fmt: skip
from semgraph.logical.schema import Graph
from semgraph.logical.semantic import Answers, Check, SemAgg, SemMap
from semgraph.logical.sinks import Delete, Merge, Sink

# The operators that read the relation above them, in declaration order.
OPERATORS: tuple[type[Node], ...] = tuple(
    cls
    for module in (relational, cluster, search, graph, semantic, iterate)
    for cls in vars(module).values()
    if isinstance(cls, type) and issubclass(cls, Node) and cls.__module__ == module.__name__
    if cls.keyword and any(f.metadata["kind"] == "input" for f in cls.arguments())
)
SOURCES: tuple[type[Node], ...] = (Union, Intersect, Except, Scan)
SINKS: tuple[type[Sink], ...] = (Merge, Delete)
_SEVERAL = {"over", "partition", "body"}  # arguments that fill several fields
# Further keys that belong to an argument: the answers of an inline prompt, the model's role, examples.
_BESIDE = {"prompt": ("returns", "role", "examples")}


def by_keyword(classes: Iterable[type[Node]]) -> dict[str, type[Node]]:
    """Node classes by the word that plans use."""
    return {cls.keyword: cls for cls in classes}


@cache
def plan_keys(cls: type[Node]) -> Mapping[str, dataclasses.Field[Any]]:
    """The keys that a plan may write for an operator, each with its field."""
    keys: dict[str, dataclasses.Field[Any]] = {}
    for f in cls.arguments():
        kind = f.metadata["kind"]
        if kind in {"input", "within", "or_all", "graph", "numbers"}:
            continue
        keys["over" if kind == "over" else f.metadata.get("key", f.name)] = f
        for beside in _BESIDE.get(kind, ()):
            of_groups = beside == "examples" and cls is SemAgg
            if not of_groups and (beside != "returns" or getattr(cls, "returns_types", True)):
                keys[beside] = f
    if cls is SemMap:
        keys["refs"] = REFS
    return MappingProxyType(keys)


@cache
def _field_names(cls: type[Node]) -> frozenset[str]:
    return frozenset(f.name for f in dataclasses.fields(cls))


def is_shorthand(cls: type[Node], value: object) -> bool:
    """Whether a value is the operator's sole argument, not a mapping of arguments."""
    keys = plan_keys(cls)
    return bool(cls.sole) and (len(keys) == 1 or not isinstance(value, Mapping))


_STEP_IF = "write the step as {if: $flag, do: [...]}"


def build(
    cls: type[Node],
    value: Any,
    scope: kinds.Scope,
    *,
    source: Node | None = None,
    step: str = "",
    origin: Position | None = None,
) -> Node:
    """A node from its arguments in a plan, over the relation above it; whole parameters are replaced
    by their values before. Raises Faults with all faults, each with its path below `value`.
    """
    bare = is_shorthand(cls, value)
    data = {cls.sole: value} if bare else value
    if not isinstance(data, Mapping):
        raise Faults([_no_mapping(cls, data)])
    if scope.graph is None and "graph" in _field_names(cls):
        raise kinds.Reported
    try:
        return _Arguments(cls, data, scope, source).node(step, origin)
    except Fault as fault:
        raise Faults(_without(part, cls.sole) if bare else part for part in each(fault)) from None


_nodes: WeakValueDictionary[Hashable, Node] = WeakValueDictionary()
_latest: WeakValueDictionary[Hashable, Node] = WeakValueDictionary()  # by values except relations
N = TypeVar("N", bound=Node)


def shared_node(cls: type[N], step: str, origin: Position | None, **values: Any) -> N:
    """A node with these values. It is reused from another load if it is still alive: a plan and its
    presets share most nodes. Over other relations with the same columns it needs no checks. Raises
    Fault.
    """
    if "prompt" in values:
        values["prompt"] = checked_examples(cls, values)
    # a graph cannot be hashed; the node keeps it, so no other has its id
    parts = [(name, id(v) if isinstance(v, Graph) else v) for name, v in values.items()]
    key = (cls, step, origin, *parts)
    node = _nodes.get(key)
    if node is None:
        relations = [name for name in relation_fields(cls) if values.get(name)]
        others = (part for part in parts if part[0] not in relations)
        place = (cls, step, origin, *relations, *others)
        node = _rebased(_latest.get(place), [values[name] for name in relations])
        if node is None:
            node = cls(step=step, origin=origin, **values)
            check_result(node)
        _nodes[key] = _latest[place] = node
    return cast("N", node)


def _rebased(node: Node | None, relations: Iterable[Any]) -> Node | None:
    """The operator over other relations with the same columns; None if its checks need more."""
    if node is None or isinstance(node, Iterate):
        return None
    inputs = [n for value in relations for n in (value if isinstance(value, tuple) else (value,))]
    if len(inputs) != len(node.inputs) or any(
        one.windowed != other.windowed or not same_columns(one, other)
        for one, other in zip(node.inputs, inputs, strict=True)
    ):
        return None
    return node.with_inputs(*inputs)


def _no_mapping(cls: type[Node], value: Any) -> Fault:
    what = f"{cls.keyword} needs a mapping of arguments, found {document.kind_of(value)}"
    keys, hint = plan_keys(cls), None
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        written = json.dumps(value, ensure_ascii=False)
        hint = f"write {cls.keyword}: {{{next(iter(keys))}: {written}}}"
    return Fault(what, there="arguments: " + ", ".join(keys), hint=hint)


def _without(fault: Fault, first: str) -> Fault:
    return fault.at(*fault.path[1:]) if fault.path[:1] == (first,) else fault


def _filled(relations: Sequence[Node], step: str, origin: Position | None) -> tuple[Node, ...]:
    """Relations with NULL for the columns that they lack and others have."""
    types = {f.name: f.type for node in reversed(relations) for f in node.schema}
    order = dict.fromkeys(name for node in relations for name in node.schema.names)
    filled = []
    for node in relations:
        columns = tuple(
            (name, parse_scalar(f"CAST(NULL AS {type_of_arrow(types[name]).sql})"))
            for name in order
            if name not in node.schema.names
        )
        add = partial(shared_node, Add, step, origin, input=node, columns=columns)
        filled.append(add() if columns else node)
    return tuple(filled)


class _Arguments:
    """The arguments of one operator during reading: values by field, and faults."""

    def __init__(
        self, cls: type[Node], data: Mapping[str, Any], scope: kinds.Scope, source: Node | None
    ) -> None:
        self.cls, self.data, self.scope, self.source = cls, data, scope, source
        self.faults = Collected()
        self.fields = {f.name: f for f in cls.arguments()}
        self.values: dict[str, Any] = {}

    def _read(self) -> None:
        keys = plan_keys(self.cls)
        pieces = document.rests(self.data)
        for name in self.data:
            if name not in keys and name not in pieces:
                word = self.cls.keyword
                what = f"{word} has no argument"
                self.faults.append(document.unknown_key(word, name, keys, what, "arguments"))
        misspelt = {fault.hint for fault in self.faults}
        for key, f in keys.items():
            if key in _BESIDE.get(f.metadata["kind"], ()):
                continue
            if key in self.data or f'did you mean "{key}"?' not in misspelt:
                self._read_argument(key, f)

    def _read_argument(self, key: str, f: dataclasses.Field[Any]) -> None:
        beside = _BESIDE.get(f.metadata["kind"], ())
        try:
            self.values |= self._argument(key, f)
        except Fault as fault:
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
        match f.metadata["kind"]:
            case "choice":
                return kinds.one_of(*f.metadata["choices"]).read(value, self.scope)
            case "prompt":
                given = {key: self.data.get(key) for key in plan_keys(self.cls)}
                return kinds.read_prompt(value, self.scope, *map(given.get, _BESIDE["prompt"]))
            case "refs":
                named = document.mapping(value, "records by name: {NAME: {of, using, shows}}")
                return kinds.each_value(named, lambda name, ref: _read_ref(name, ref, self.scope))
            case "body":
                name = self.values.get("name", "")
                node, depth = self.scope.body(value, name, cast("Node", self.source))
                return {"body": node, "depth": depth}
        return kinds.KINDS[f.metadata["kind"]].read(value, self.scope)

    def node(self, step: str, origin: Position | None) -> Node:
        """The node. Raises Faults."""
        self._read()
        self.faults.refuse()
        self._add_context()
        if self.values.pop("fill", False):
            self.values["relations"] = _filled(self.values["relations"], step, origin)
        try:
            return self._checked_node(step, origin)
        except Fault as fault:
            raise Faults(self._as_written(part) for part in each(fault)) from None

    def _checked_node(self, step: str, origin: Position | None) -> Node:
        """The node of the values, or the nodes to which it is lowered. Raises Fault."""
        values = dict(self.values)
        refs = values.pop("refs", {})
        if "prompt" in values:
            refuse_unnamed(self.cls, values["prompt"].first, refs)
        if refs:
            return with_refs(refs, values, step, origin)
        node = shared_node(self.cls, step, origin, **values)
        return node.lowered() if isinstance(node, SampleRows) else node

    def _add_context(self) -> None:
        """Add the values that plans do not write: the pipeline's relation, the graph."""
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
    """A required argument is missing. The fault is at the operator, not at the argument."""

    def under(self, *prefix: str | int) -> Fault:
        del prefix
        return Fault(self.what, there=self.there, hint=self.hint)


def check_result(node: Node) -> None:
    """Refuse columns that DuckDB would not distinguish, and names of the engine. Raises Fault."""
    seen: dict[str, str] = {}
    for name in node.schema.names:
        if reserved(name):
            raise Fault(f'"{name}" is the engine\'s own name', hint="choose another name")
        other = seen.setdefault(name.lower(), name)
        if other != name:
            what = f'the columns "{other}" and "{name}" differ in case alone'
            raise Fault(what, hint="rename one of them")


OPERATOR_WORDS = by_keyword(OPERATORS)
SOURCE_WORDS = ("from", "union", "intersect", "except", "call", "switch")


def operator_on(item: Any, *, first: bool) -> tuple[str, Any]:
    """The keyword of a line and its arguments; a source if it is the first. Raises Fault."""
    if not isinstance(item, Mapping):
        hint = f"write {{from: {item}}}" if first and isinstance(item, str) else None
        raise document.wrong("an operator such as {filter: EXPR}", item, hint)
    if len(item) != 1:
        keys = ", ".join(str(key) for key in item) or "none"
        hint = document.COMMA_HINT if document.rests(item) else "each operator has its own dash"
        raise Fault("one operator on a line", there=f"here: {keys}", hint=hint)
    ((keyword, value),) = item.items()
    if keyword not in SOURCE_WORDS and keyword not in OPERATOR_WORDS:
        there = "operators: " + ", ".join(OPERATOR_WORDS)
        hint = did_you_mean(keyword, [*OPERATOR_WORDS, *SOURCE_WORDS])
        raise document.KeyFault(f'"{keyword}" is no operator', keyword, there=there, hint=hint)
    if first and keyword in OPERATOR_WORDS:
        what = f'"{keyword}" needs a relation: a step starts with a source'
        raise document.KeyFault(what, keyword, hint="the line before it: {from: NAME}")
    if not first and keyword in SOURCE_WORDS:
        what = f'"{keyword}" starts a step, and this is not its first line'
        hint = f"put the {keyword} into a step of its own, and start this one from that: from: STEP"
        raise document.KeyFault(what, keyword, hint=hint)
    return keyword, value


NUMBER = "number"


@dataclass(frozen=True)
class Ref:
    """The records to which an answer may refer; the keys of `REF` say what each field means."""

    name: str  # in the prompt and in answer types, and of the struct that `where` reads
    of: Node
    shows: Columns
    using: Using = ()
    where: Scalar | None = None
    order: tuple[Sort, ...] = ()
    limit: int | None = None
    number: str = ""  # "" numbers them 1, 2, ...
    unknown: str = "ask"


# The argument `refs` of a sem_map. Its node lacks this field, because `refs` is lowered.
REFS: Any = field(
    default=(),
    metadata={
        "kind": "refs",
        "doc": "Relations whose rows answers of type ref<NAME> name: {NAME: {of, using, shows}}.",
    },
)
REFS.name = "refs"


Refs = Mapping[str, Ref]


def _read_ref(name: str, value: Any, scope: kinds.Scope) -> Ref:
    values, faults = kinds.read_keys(value, "refs", kinds.REF, scope)
    if NUMBER in dict(values.get("shows", ())):
        hint = "write number: COLUMN for numbers that the rows have"
        faults.append(Fault('shows has "number", which the engine adds', "shows", hint=hint))
    if not faults and "using" not in values and "where" not in values:
        hint = "which rows are records of a row"
        faults.append(Fault('refs needs "using" or "where"', hint=hint))
    faults.refuse()
    return Ref(kinds.read_name(name), **values)


def refs_of(answers: Answers) -> frozenset[str]:
    """The names that the types of answers refer to."""
    return frozenset[str]().union(*(kind.refs for _, kind in answers))


def refuse_unnamed(cls: type[Node], prompt: Prompt, refs: Refs) -> None:
    """Refuse answers that refer to records which the operator lacks. Raises Fault."""
    for name in sorted(refs_of(prompt.returns) - set(refs)):
        what = f'prompt "{prompt.name}" answers by ref<{name}>'
        if cls is not SemMap:
            raise Fault(what, "prompt", hint=f"use sem_map: {cls.keyword} has no refs")
        say = f"say refs: {{{name}: {{of: RELATION, using: KEY, shows: [COLUMN]}}}}"
        raise Fault(what, "prompt", hint=did_you_mean(name, refs) or say)


def with_refs(refs: Refs, values: Mapping[str, Any], step: str, origin: Position | None) -> Node:
    """The operators to which a sem_map with `refs` and these arguments is lowered. Raises Fault."""
    source: Node = values["input"]
    prompt: PromptSet = values["prompt"]
    answers = prompt.first.returns
    rows: Node = source
    collected: dict[str, str] = {}  # the column with the records of each ref
    for ref in refs.values():
        collected[ref.name] = free(f"_{ref.name}", (*rows.schema.names, *dict(answers)))
        with _naming_no_other(collected.values()), faults_at("refs", ref.name):
            _check_ref(ref, prompt, answers, source.schema)
            rows = _with_records(ref, rows, collected[ref.name], step, origin)
    numbers_of = tuple((name, ref.unknown) for name, ref in refs.items())
    rows_of = {name: (collected[name], ref.number) for name, ref in refs.items()}
    own = {"input": rows, "numbers_of": numbers_of}
    if values.get("check") is not None:
        own["check"] = _over_named_rows(values["check"], answers, rows_of)
    with _naming_no_other(collected.values()):
        asked = shared_node(SemMap, step, origin, **{**values, **own})
    columns = [(name, f'"{name}"') for name in source.schema.names if name not in dict(answers)]
    columns += [(name, _named_rows(f'"{name}"', kind, rows_of)) for name, kind in answers]
    project = tuple((name, parse_scalar(text)) for name, text in columns)
    return shared_node(Project, step, origin, input=asked, columns=project)


@contextmanager
def _naming_no_other(hidden: Collection[str]) -> Iterator[None]:
    """Remove hidden columns from the columns that errors list."""

    def visible(fault: Fault) -> Fault:
        head, colon, names = (fault.there or "").partition(": ")
        shown = ", ".join(name for name in names.split(", ") if name not in hidden)
        return Fault(fault.what, *fault.path, there=head + colon + shown or None, hint=fault.hint)

    try:
        yield
    except Fault as fault:
        raise Faults(map(visible, each(fault))) from None


def _check_ref(ref: Ref, prompt: PromptSet, answers: Answers, schema: pa.Schema) -> None:
    for one in prompt.all:
        if ref.name not in {path.split(".")[0] for path in one.fields}:
            where = f"prompts/{one.name}.md" if one.file else "the question"
            what = f'refs "{ref.name}": no {{{ref.name}}} in {where}, so its numbers mean nothing'
            raise Fault(what, hint=f"show the records: {{{ref.name}}}")
    if ref.name not in refs_of(answers):
        raise Fault(f'refs "{ref.name}" is named by no answer', hint="use group_join")
    fresh(schema, ref.name, "refs")


def _with_records(ref: Ref, rows: Node, column: str, step: str, origin: Position | None) -> Node:
    """The rows with their records in `column`, and the shown parts of these as `ref.name`."""
    _check_records(ref, rows.schema)
    record = f'"{ref.name}"'
    terms = ((parse_scalar(read_from(term.by, record)), term.descending) for term in ref.order)
    order = tuple(starmap(Sort, terms))
    listed = parse_scalar(f"coalesce(list({record}) FILTER ({record} IS NOT NULL), [])")
    joined = shared_node(
        GroupJoin, step, origin, input=rows, other=ref.of, alias=ref.name, using=ref.using,
        where=ref.where, order=order, limit=ref.limit, add=((column, listed),),
    )  # fmt: skip
    item = f'"{column}"[_i]'
    number = f'{item}."{ref.number}"' if ref.number else "_i"
    shown = [(NUMBER, number), *((name, read_from(scalar, item)) for name, scalar in ref.shows)]
    fields = ", ".join(f"'{name}': {text}" for name, text in shown)
    records = parse_scalar(f'[{{{fields}}} for _i in range(1, len("{column}") + 1)]')
    return shared_node(Add, step, origin, input=joined, columns=((ref.name, records),))


def _check_records(ref: Ref, left: pa.Schema) -> None:
    schema = ref.of.schema
    faults = Collected()
    with faults.at():
        check_using(ref.using, left, schema)
    with faults.at():
        check_sort(ref.order, schema)
    with faults.at():
        typed(ref.shows, schema, "shows")
    if ref.number:
        with faults.at("number"):
            expect_type(column_scalar(ref.number), schema, pa.int64())
    faults.refuse()


def _over_named_rows(
    check: Check, answers: Answers, rows_of: Mapping[str, tuple[str, str]]
) -> Check:
    """A check of rows, rewritten to the numbers that the model answers."""
    rows = {
        name: parse_scalar(_named_rows(f'"{name}"', kind, rows_of))
        for name, kind in answers
        if kind.refs
    }
    where, message = (replace_roots(scalar, rows) for scalar in check.scalars)
    return replace(check, where=where, message=message)


def _named_rows(text: str, kind: Type, rows_of: Mapping[str, tuple[str, str]]) -> str:
    """An expression for an answer, with numbers replaced by rows."""
    if not kind.refs:
        return text
    if kind.ref:
        column, number = rows_of[kind.ref]
        if not number:
            return f'"{column}"[{text}]'
        row = "_r" if '"_r"' not in text else "_row"
        return f'[{row} for {row} in "{column}" if {row}."{number}" = {text}][1]'
    if kind.item is not None:
        bound = f"_n{text.count('_n')}"
        return f"[{_named_rows(bound, kind.item, rows_of)} for {bound} in {text}]"
    fields = ", ".join(
        f"'{name}': " + _named_rows(f'{text}."{name}"', part, rows_of) for name, part in kind.fields
    )
    return f"CASE WHEN {text} IS NULL THEN NULL ELSE {{{fields}}} END"
