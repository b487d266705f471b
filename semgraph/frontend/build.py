"""Plain data to nodes: one builder for every operator, steered by what the node class declares of its arguments.

An operator is found by its keyword and its arguments by the fields of its class, so a new operator is one class and its
place in a tuple here. What a kind of argument may look like stands in `arguments`.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from semgraph.errors import Fault, Position
from semgraph.expr.names import reserved
from semgraph.frontend.arguments import READERS
from semgraph.frontend.commas import rests
from semgraph.frontend.faults import Faults, each, replaced, unknown
from semgraph.frontend.scope import Scope, kind_of
from semgraph.frontend.searching import SEARCHING
from semgraph.logical.cluster import Cluster
from semgraph.logical.embed import Embed
from semgraph.logical.graph import Match, Scan
from semgraph.logical.joins import GroupJoin, Join, Union
from semgraph.logical.node import Node
from semgraph.logical.relational import Add, Aggregate, Distinct, Filter, Limit, Ordered, Project, Unnest
from semgraph.logical.require import Require
from semgraph.logical.search import Search
from semgraph.logical.semantic import SemAgg, SemFilter, SemJoin, SemMap, SemTopk
from semgraph.logical.sinks import Delete, Merge, Sink

OPERATORS: tuple[type[Node], ...] = (
    Filter, Require, Project, Add, Join, GroupJoin, Limit, Ordered, Distinct, Aggregate, Unnest, Cluster, Search, Match,
    Embed, SemMap, SemFilter, SemJoin, SemAgg, SemTopk,
)  # fmt: skip
SOURCES: tuple[type[Node], ...] = (Union, Scan)
SINKS: tuple[type[Sink], ...] = (Merge, Delete)
_READERS = {**READERS, **SEARCHING}
_SEVERAL = {"over", "partition"}  # arguments that fill several fields
_BESIDE = {"prompt": "add"}  # a second key that belongs to an argument: the answers of an inline prompt


def by_keyword(classes: Iterable[type[Node]]) -> dict[str, type[Node]]:
    """Node classes by the word that plans use."""
    return {cls.keyword: cls for cls in classes}


def plan_keys(cls: type[Node]) -> dict[str, dataclasses.Field[Any]]:
    """The keys that a plan may write for an operator, with the field that each belongs to. The pipeline's input is none."""
    found: dict[str, dataclasses.Field[Any]] = {}
    for f in cls.arguments():
        kind = f.metadata["kind"]
        if kind in {"input", "within", "graph"}:
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
        if (key in _BESIDE.values() and f.name != key) or (key not in given and f'did you mean "{key}"?' in meant):
            continue
        try:
            found |= _argument(cls, key, f, given, scope)
        except Fault as fault:
            beside = _BESIDE.get(f.metadata["kind"], "")
            faults += [part if part.path[:1] == (beside,) else part.under(key) for part in each(fault)]
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
            raise Fault(f'the columns "{other}" and "{name}" differ in case alone', hint="rename one of them")
