"""Going on behind a mistake: what a relation is without what is wrong in an operator, so that what reads it can be checked.

A plan with a mistake is never run; this only finds the other mistakes in it. What follows from the first is not told: columns
that could not be made are `lost`, and who asks for them is not at fault.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from semgraph.errors import Fault, PlanError, Position
from semgraph.frontend import commas
from semgraph.frontend.build import build, plan_keys, stands_bare
from semgraph.frontend.document import walk_paths
from semgraph.frontend.faults import Faults, KeyFault, replaced
from semgraph.frontend.found import Poisoned, Pruned
from semgraph.frontend.scope import Scope
from semgraph.logical.embed import Embed
from semgraph.logical.node import Node
from semgraph.logical.relational import Add, Distinct, Filter, Limit, Ordered
from semgraph.logical.require import Require
from semgraph.logical.semantic import SemFilter, SemJoin, SemTopk

_KEEPS_COLUMNS = (Add, Embed, Filter, Require, Limit, Ordered, Distinct, SemFilter)
_ANSWERS_ITSELF = (SemFilter, SemJoin, SemTopk)
_TRIES = 30
_NAMED = re.compile(r'"[^"]*"|\bno column .*')  # parts of a message in which columns are named
_WORD = re.compile(r"\w+")
_MAKES = ("add", "by", "columns")  # arguments whose entries are columns of the result
_PARTS = {"columns", "names", "order", "scalar", "using", "by"}  # kinds of which a part may be left out
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
        self._of: dict[int, tuple[Node, frozenset[str]]] = {}  # with the node: so that no two ever have one id

    def of(self, nodes: Iterable[Node]) -> frozenset[str]:
        """Those of any of these relations."""
        return frozenset().union(*(self._of[id(node)][1] for node in nodes if id(node) in self._of))

    def note(self, node: Node, names: frozenset[str]) -> None:
        """Say what a relation lacks."""
        if names:
            self._of[id(node)] = (node, names)


def build_despite(
    cls: type[Node], value: Any, scope: Scope, lost: Lost, *, source: Node | None, step: str, origin: Position | None
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
            told += [rest.as_given(f) for f in faults.faults if not follows(f, lacking) and _is_new(f, told)]
            left = [rest.leave(fault) for fault in faults.faults]
            if all(left):
                continue
            if source is None or not issubclass(cls, _KEEPS_COLUMNS):
                break
            node, lacking = copy(source), rest.lost | lost.of([source])  # one of its own: others read the source too
        lost.note(node, frozenset(lacking))
        if rest.whole:
            return node
        raise Despite(told, node)
    if told:
        raise Faults(told)
    raise Poisoned


def follows(fault: Fault, lost: AbstractSet[str]) -> bool:
    """Whether a fault may come of a lost column: it names one. A value of the wrong kind is wrong whatever it names."""
    if fault.what.startswith("expected "):
        return False
    named = (word for part in _NAMED.findall(fault.what) for word in _WORD.findall(part))
    return not lost.isdisjoint(named)


def _is_new(fault: Fault, told: Iterable[Fault]) -> bool:
    """Whether a fault is not that of what was left out: of a key's lack, or of the rest of a text that a comma cut."""
    first = next(iter(told), None)
    return first is None or (
        bool(fault.path) and not isinstance(fault, KeyFault) and not first.what.startswith("cannot read")
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
            if bare or (key in keys and (keys[key].metadata["kind"] not in _PARTS or self._needed(key))):
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
