"""Plain data to nodes: one builder for every operator, steered by what the node class declares of
its arguments.

An operator is found by its keyword and its arguments by the fields of its class, so a new operator
is one class and its place in a tuple here. What a kind of argument may look like stands in
`arguments`.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from semgraph.errors import Fault, PlanError, Position, did_you_mean
from semgraph.expr.scalar import reserved
from semgraph.frontend import scope as commas
from semgraph.frontend.arguments import READERS, SEARCHING
from semgraph.frontend.document import walk_paths
from semgraph.frontend.scope import (
    Faults,
    KeyFault,
    Poisoned,
    Pruned,
    Scope,
    each,
    kind_of,
    replaced,
    rests,
    unknown,
)
from semgraph.logical.cluster import Cluster
from semgraph.logical.graph import Match, Scan
from semgraph.logical.node import Node
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
from semgraph.logical.search import Search
from semgraph.logical.semantic import Embed, SemAgg, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.logical.sinks import Delete, Merge, Sink

OPERATORS: tuple[type[Node], ...] = (
    Filter, Require, Project, Add, Join, GroupJoin, Limit, Ordered, Distinct, Aggregate, Unnest, Cluster, Search, Match,
    Embed, SemMap, SemFilter, SemJoin, SemAgg, SemTopk,
)  # fmt: skip
SOURCES: tuple[type[Node], ...] = (Union, Scan)
SINKS: tuple[type[Sink], ...] = (Merge, Delete)
_READERS = {**READERS, **SEARCHING}
_SEVERAL = {"over", "partition"}  # arguments that fill several fields
_BESIDE = {
    "prompt": "add"
}  # a second key that belongs to an argument: the answers of an inline prompt


def by_keyword(classes: Iterable[type[Node]]) -> dict[str, type[Node]]:
    """Node classes by the word that plans use."""
    return {cls.keyword: cls for cls in classes}


def plan_keys(cls: type[Node]) -> dict[str, dataclasses.Field[Any]]:
    """The keys that a plan may write for an operator, with the field that each belongs to. The
    pipeline's input is none.
    """
    found: dict[str, dataclasses.Field[Any]] = {}
    for f in cls.arguments():
        kind = f.metadata["kind"]
        if kind in {"input", "within", "or_all", "graph"}:
            continue
        found["over" if kind == "over" else f.metadata.get("key", f.name)] = f
        if kind in _BESIDE and getattr(cls, "returns_types", True):
            found[_BESIDE[kind]] = f
    return found


def stands_bare(cls: type[Node], value: object) -> bool:
    """Whether a value is the operator's sole argument, not a mapping of arguments."""
    keys = plan_keys(cls)
    return bool(cls.sole) and (len(keys) == 1 or not isinstance(value, Mapping))


def build(
    cls: type[Node],
    value: Any,
    scope: Scope,
    *,
    source: Node | None = None,
    step: str = "",
    origin: Position | None = None,
) -> Node:
    """A node from what a plan says of it.

    Args:
        cls: The operator.
        value: Its arguments as plain data, parameters substituted where they are whole values.
        scope: What names mean: relations, prompts, parameters, the graph.
        source: The relation that the pipeline brings.
        step: Name of the step.
        origin: Where it stands.

    Raises:
        Faults: Everything that is wrong with the arguments, each with its path below `value`.
    """
    bare = stands_bare(cls, value)
    given = {cls.sole: value} if bare else value
    if not isinstance(given, Mapping):
        what = f"{cls.keyword} needs a mapping of arguments, found {kind_of(given)}"
        hint = None
        if isinstance(given, str | int | float) and not isinstance(given, bool):
            hint = f"write {cls.keyword}: {{{next(iter(plan_keys(cls)))}: {json.dumps(given, ensure_ascii=False)}}}"
        raise Faults([Fault(what, there="arguments: " + ", ".join(plan_keys(cls)), hint=hint)])
    try:
        arguments = _arguments(cls, given, scope)
        if source is not None:
            arguments |= {f.name: source for f in cls.arguments() if f.metadata["kind"] == "input"}
        try:
            node = cls(step=step, origin=origin, **arguments)
            check_result(node)
        except Fault as fault:
            raise Faults(_as_written(cls, part) for part in each(fault)) from None
    except Faults as faults:
        raise Faults(_without(part, cls.sole) if bare else part for part in faults.faults) from None
    return node


def _without(fault: Fault, first: str) -> Fault:
    return replaced(fault, *fault.path[1:]) if fault.path[:1] == (first,) else fault


def _as_written(cls: type[Node], fault: Fault) -> Fault:
    """A fault that names a field by a key that plans do not write (`label` for `over`)."""
    written = {f.name: f.metadata["key"] for f in cls.arguments() if "key" in f.metadata}
    if "over" in plan_keys(cls):
        written["label"] = "over"
    if fault.path and fault.path[0] in written:
        return replaced(fault, written[fault.path[0]], *fault.path[1:])
    return fault


def _arguments(cls: type[Node], given: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    keys = plan_keys(cls)
    told = {*keys, *rests(given)}
    faults: list[Fault] = [
        unknown(str(name), keys, f"{cls.keyword} has no argument", "arguments", name)
        for name in given
        if name not in told
    ]
    found: dict[str, Any] = {}
    meant = {fault.hint for fault in faults}
    for key, f in keys.items():
        if (key in _BESIDE.values() and f.name != key) or (
            key not in given and f'did you mean "{key}"?' in meant
        ):
            continue
        try:
            found |= _argument(cls, key, f, given, scope)
        except Fault as fault:
            beside = _BESIDE.get(f.metadata["kind"], "")
            faults += [
                part if part.path[:1] == (beside,) else part.under(key) for part in each(fault)
            ]
    if faults:
        raise Faults(faults)
    if any(f.name == "graph" for f in dataclasses.fields(cls)):
        found["graph"] = scope.graph
    if any(f.name == "owner" for f in dataclasses.fields(cls)):
        found["owner"] = scope.graph.partition
    return found


def _argument(
    cls: type[Node], key: str, f: dataclasses.Field[Any], given: Mapping[str, Any], scope: Scope
) -> dict[str, Any]:
    kind = f.metadata["kind"]
    value = given.get(key)
    absent = key not in given or (value is None and "null" not in f.metadata.get("choices", ()))
    if absent:
        if f.default is dataclasses.MISSING:
            raise _Missing(f'{cls.keyword} needs "{key}"', hint=f.metadata.get("doc"))
        return {}
    found = _READERS[kind](value, scope, {**f.metadata, "beside": given.get(_BESIDE.get(kind, ""))})
    return dict(found) if kind in _SEVERAL else {f.name: found}


class _Missing(Fault):
    """A required argument is not there: the fault is the operator's, not the argument's."""

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


_KEEPS_COLUMNS = (Add, Embed, Filter, Require, Limit, Ordered, Distinct, SemFilter)
_ANSWERS_ITSELF = (SemFilter, SemJoin, SemTopk)
_TRIES = 30
_NAMED = re.compile(r'"[^"]*"|\bno column .*')  # parts of a message in which columns are named
_WORD = re.compile(r"\w+")
_MAKES = ("add", "by", "columns")  # arguments whose entries are columns of the result
_PARTS = {
    "columns",
    "names",
    "order",
    "scalar",
    "using",
    "by",
}  # kinds of which a part may be left out
_ANY_PROMPT = "Which one?"


class Despite(Faults):
    """What is wrong with an operator, and the relation that it is without that."""

    def __init__(self, faults: Iterable[Fault], node: Node) -> None:
        super().__init__(faults)
        self.node = node

    def mapped(self, change: Callable[[Fault], Fault]) -> Despite:
        """Each of them changed."""
        return Despite(map(change, self.faults), self.node)


class Lost:
    """The columns that relations lack because what makes them is wrong."""

    def __init__(self) -> None:
        self._of: dict[
            int, tuple[Node, frozenset[str]]
        ] = {}  # with the node: so that no two ever have one id

    def of(self, nodes: Iterable[Node]) -> frozenset[str]:
        """Those of any of these relations."""
        return frozenset().union(*(self._of[id(node)][1] for node in nodes if id(node) in self._of))

    def note(self, node: Node, names: frozenset[str]) -> None:
        """Say what a relation lacks."""
        if names:
            self._of[id(node)] = (node, names)


def build_despite(
    cls: type[Node],
    value: Any,
    scope: Scope,
    lost: Lost,
    *,
    source: Node | None,
    step: str,
    origin: Position | None,
) -> Node:
    """As `build`, but all that is wrong is found, each part that is wrong left out in turn.

    Args:
        cls: The operator.
        value: Its arguments.
        scope: What names mean.
        lost: What relations lack; noted of what is built too.
        source: The relation that the pipeline brings.
        step: Name of the step.
        origin: Where it stands.

    Raises:
        Despite: With the relation that is left.
        Faults: No relation is left.
        Poisoned: No relation is left, and all that is wrong follows from what is told already.
    """
    rest = _Rest(cls, value, scope)
    told: list[Fault] = []
    for _ in range(_TRIES):
        try:
            node = build(cls, rest.value, scope, source=source, step=step, origin=origin)
            lacking = rest.lost | lost.of(node.inputs)
        except Faults as faults:
            lacking = rest.lost | lost.of(_read(value, scope, source))
            told += [
                rest.as_given(f)
                for f in faults.faults
                if not follows(f, lacking) and _is_new(f, told)
            ]
            left = [rest.leave(fault) for fault in faults.faults]
            if all(left):
                continue
            if source is None or not issubclass(cls, _KEEPS_COLUMNS):
                break
            node, lacking = (
                copy(source),
                rest.lost | lost.of([source]),
            )  # one of its own: others read the source too
        lost.note(node, frozenset(lacking))
        if rest.whole:
            return node
        raise Despite(told, node)
    if told:
        raise Faults(told)
    raise Poisoned


def follows(fault: Fault, lost: AbstractSet[str]) -> bool:
    """Whether a fault may come of a lost column: it names one. A value of the wrong kind is wrong
    whatever it names.
    """
    if fault.what.startswith("expected "):
        return False
    named = (word for part in _NAMED.findall(fault.what) for word in _WORD.findall(part))
    return not lost.isdisjoint(named)


def _is_new(fault: Fault, told: Iterable[Fault]) -> bool:
    """Whether a fault is not that of what was left out: of a key's lack, or of the rest of a text
    that a comma cut.
    """
    first = next(iter(told), None)
    return first is None or (
        bool(fault.path)
        and not isinstance(fault, KeyFault)
        and not first.what.startswith("cannot read")
    )


def _read(value: Any, scope: Scope, source: Node | None) -> Iterator[Node]:
    """The relations that an operator reads, as far as they can be had."""
    if source is not None:
        yield source
    for _, text in walk_paths(value):
        if isinstance(text, str) and scope.is_relation(text):
            with suppress(Fault, Poisoned, Pruned):
                yield scope.relation(text)


@dataclass
class _Rest:
    """What is left of an operator's arguments."""

    cls: type[Node]
    value: Any
    scope: Scope
    lost: set[str] = field(default_factory=set)
    whole: bool = True
    _gone: dict[str, list[int]] = field(default_factory=dict)

    def leave(self, fault: Fault) -> bool:
        """Leave out the part that is wrong. False: what is left would be no such operator."""
        self.whole = False
        bare = stands_bare(self.cls, self.value)
        given = {self.cls.sole: self.value} if bare else self.value
        path = (self.cls.sole, *fault.path) if bare else fault.path
        if not isinstance(given, Mapping) or not path or path[0] not in given:
            return False
        key, part = str(path[0]), dict(given)
        kept = self._without(key, given[key], path[1:])
        if kept is _NOTHING:
            keys = plan_keys(self.cls)
            if bare or (
                key in keys and (keys[key].metadata["kind"] not in _PARTS or self._needed(key))
            ):
                return key in ("prompt", "add") and self._any_prompt(part)
            del part[key]
        else:
            part[key] = kept
        self.value = part[self.cls.sole] if bare else part
        return True

    def _without(self, key: str, value: Any, path: tuple[str | int, ...]) -> Any:
        """The value without the entry that a path names; `_NOTHING` if that is all of it."""
        kept: Any = _NOTHING
        gone: list[Any] = []
        if isinstance(value, Mapping) and key != "prompt":
            gone = [path[0], *commas.rests(value)] if path and path[0] in value else list(value)
            kept = {name: part for name, part in value.items() if name not in gone} or _NOTHING
        elif isinstance(value, list) and path:
            place = value.index(path[0]) if path[0] in value else path[0]
            gone = [value[place]] if isinstance(place, int) and place < len(value) else value
            kept = [part for part in value if part not in gone] or _NOTHING
            self._gone.setdefault(key, []).append(place if isinstance(place, int) else 0)
        if key in _MAKES:
            self.lost.update(map(str, gone))
        return kept

    def _needed(self, key: str) -> bool:
        return plan_keys(self.cls)[key].default is dataclasses.MISSING

    def _any_prompt(self, given: dict[str, Any]) -> bool:
        """Put a prompt without placeholders in place of the one that is wrong, with its answers."""
        if given.get("prompt") == _ANY_PROMPT:
            return False
        try:
            returns = self.scope.prompt(given.get("prompt"), given.get("add")).first.returns
        except (Fault, PlanError):
            return False
        given["prompt"] = _ANY_PROMPT
        given.pop("add", None)
        if returns and getattr(self.cls, "returns_types", True):
            given["add"] = {name: str(kind) for name, kind in returns}
        elif not issubclass(self.cls, _ANSWERS_ITSELF):
            return False
        self.value = given
        return True

    def as_given(self, fault: Fault) -> Fault:
        """A fault in what is left, with its place in what was given."""
        match fault.path:
            case (str(key), int(place), *rest):
                for gone in sorted(self._gone.get(key, ())):
                    place += gone <= place
                return replaced(fault, key, place, *rest)
        return fault


_NOTHING = object()


OPERATOR_WORDS = by_keyword(OPERATORS)
SOURCE_WORDS = ("from", "union", "call", "switch")


def operator_on(item: Any, *, first: bool) -> tuple[str, Any]:
    """The keyword of a line and its arguments; `first`: of a step, where a source stands. Raises
    Fault.
    """
    if not isinstance(item, Mapping):
        hint = f"write {{from: {item}}}" if first and isinstance(item, str) else None
        raise Fault(
            f"expected an operator such as {{filter: EXPR}}, found {kind_of(item)}", hint=hint
        )
    if len(item) != 1:
        keys = ", ".join(str(key) for key in item) or "none"
        hint = commas.HINT if commas.rests(item) else "each operator has its own dash"
        raise Fault("one operator on a line", there=f"here: {keys}", hint=hint)
    ((keyword, value),) = item.items()
    if keyword in SOURCE_WORDS:
        if not first:
            raise KeyFault(
                f'"{keyword}" is a source and starts a step',
                keyword,
                hint="begin another step with it",
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
