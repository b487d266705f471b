"""What the readers of arguments know of the plan around them, and how they say what is wrong with a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from semgraph.errors import Fault
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
        """The prompts that a value names; `answers` are the types of an inline prompt. Raises Fault."""


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
