"""What the readers of arguments know of the plan around them, and how they say what is wrong with a
value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from semgraph.errors import Fault, Faults, did_you_mean, each
from semgraph.expr.scalar import depth
from semgraph.logical.node import Node
from semgraph.logical.prompt import PromptSet
from semgraph.logical.schema import Graph


class Scope(Protocol):
    """What the names in a plan mean."""

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters' values."""

    @property
    def graph(self) -> Graph:
        """The graph that labels belong to."""

    def relation(self, value: Any) -> Node:
        """A relation by name, or a nested step. Raises Fault."""

    def is_relation(self, name: str) -> bool:
        """Whether a name is that of an input, a step or a result."""

    def prompt(self, value: Any, answers: Any) -> PromptSet:
        """The prompts that a value names; `answers` are the types of an inline prompt. Raises
        Fault.
        """


Options = Mapping[str, Any]
Reader = Callable[[Any, Scope, Options], Any]


def kind_of(value: object) -> str:
    """What a plain value is, in the words of messages.

    >>> kind_of({"a": 1})
    'a mapping'
    """
    if isinstance(value, str):
        return f'"{value if len(value) <= 60 else value[:57] + "..."}"'
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "nothing"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def wrong(expected: str, value: object, hint: str | None = None) -> Fault:
    """The fault of a value of another kind."""
    return Fault(f"expected {expected}, found {kind_of(value)}", hint=hint)


__all__ = ["Faults", "KeyFault", "each", "replaced", "unknown"]


class KeyFault(Fault):
    """A key that does not belong where it stands: the key is pointed at, not what it says."""

    def under(self, *prefix: str | int) -> KeyFault:
        """The same fault, seen from further out."""
        return KeyFault(self.what, *prefix, *self.path, there=self.there, hint=self.hint)


def replaced(fault: Fault, *path: str | int) -> Fault:
    """A single fault at another path."""
    kind = KeyFault if isinstance(fault, KeyFault) else Fault
    return kind(fault.what, *path, there=fault.there, hint=fault.hint)


def unknown(
    name: str, known: Iterable[str], what: str, kind: str, *path: str | int, value: bool = False
) -> Fault:
    """The fault of a name that is not among the known ones: of a key, or of a `value`.

    >>> fault = unknown("setps", ["steps", "writes"], "a plan has no", "keys")
    >>> fault.what, fault.there, fault.hint
    ('a plan has no "setps"', 'keys: steps, writes', 'did you mean "steps"?')
    """
    listed = list(dict.fromkeys(known))
    there = f"{kind}: " + (", ".join(listed) or "none")
    return (Fault if value else KeyFault)(
        f'{what} "{name}"', *path, there=there, hint=did_you_mean(name, listed)
    )


class Poisoned(Exception):
    """What is read has errors of its own; they are reported, this is not."""


class Pruned(Exception):
    """What is read was pruned by its `when`: steps, each with what its parameters were."""

    def __init__(self, *steps: tuple[str, str]) -> None:
        super().__init__(", ".join(name for name, _ in steps))
        self.steps = steps

    @property
    def fault(self) -> Fault:
        """What to say of a step that reads them, and nothing else."""
        names, whys = (
            " and ".join(dict.fromkeys(part))
            for part in zip(*((f'"{n}"', w) for n, w in self.steps), strict=True)
        )
        what = (
            f'reads {names}, which {"its" if len(self.steps) == 1 else "their"} "when" has pruned'
        )
        return Fault(
            what,
            there=f"parameters: {whys}",
            hint="set these, or give this step the same when, or use switch",
        )


@dataclass(frozen=True)
class Results:
    """What a called plan returns."""

    name: str
    tables: Mapping[str, Node]

    def table(self, name: str) -> Node:
        """A result by name. Raises Fault."""
        if name in self.tables:
            return self.tables[name]
        raise unknown(
            name, self.tables, f"{self.name} returns no", f"results of {self.name}", value=True
        )


HINT = "a text with a comma needs quotes inside { } and [ ]"

_CALL = re.compile(r"\w\([^()]*,[^()]*\Z")


def inside_a_call(before: str) -> bool:
    """Whether a line breaks off behind a comma between the arguments of a call: `{n: coalesce(a,
    'x'`.
    """
    return _CALL.search(before) is not None


def rest_of(value: Any, following: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Which of the keys and values that follow a text are the rest of it: what closes its brackets.
    None if nothing does.

    >>> rest_of("coalesce(a", [("b)", None), ("m", "c")]), rest_of("upper(a", [("m", "lower(b)")])
    (['b)'], [])
    """
    if not isinstance(value, str) or depth(value) <= 0:
        return []
    text = value
    rest: list[Any] = []
    for key, more in following:
        text, rest = f"{text}, {key}", [*rest, key]
        if depth(text) == 0:
            return rest
        if more is not None:
            break
    return []


def rests(given: Mapping[Any, Any]) -> set[Any]:
    """The keys of a mapping that are the rest of a text before them."""
    items = list(given.items())
    return {key for i, (_, value) in enumerate(items) for key in rest_of(value, items[i + 1 :])}


def cut(data: Any, path: Sequence[str | int]) -> bool:
    """Whether the text at a path of plain data was cut."""
    if not path:
        return False
    around = data
    try:
        for key in path[:-1]:
            around = around[key]
        items = (
            list(around.items())
            if isinstance(around, Mapping)
            else [(value, None) for value in around]
        )
        at = list(around).index(path[-1]) if isinstance(around, Mapping) else int(path[-1])
        value = around[path[-1]]
    except (LookupError, TypeError, ValueError):  # what stands there came from a parameter
        return False
    return bool(rest_of(value, items[at + 1 :]))
