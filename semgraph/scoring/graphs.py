"""What is scored: a graph of nodes that stand for something in the sources, and edges that hold for some time."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Node:
    """A node.

    Args:
        key: Its key in its graph; two graphs need not have keys in common.
        members: What it stands for: its occurrences in the sources, named alike in both graphs. None: its key.
        label: Members of nodes with different labels are different.
        name: Where members say only roughly what it stands for (the sources, of which each speaks of several nodes): what it
            is called. Nodes that share members and are called the same are aligned before those that share more.
    """

    key: Hashable
    members: frozenset[Hashable] | None = None
    label: str = ""
    name: Hashable = None

    @property
    def occurrences(self) -> list[tuple[str, Hashable]]:
        """Its members, each with the label."""
        own = frozenset({self.key}) if self.members is None else self.members
        return sorted(((self.label, member) for member in own), key=repr)


@dataclass(frozen=True)
class Edge:
    """An edge. It holds from `start` up to, but not at, `end`; None: since ever, for ever.

    Args:
        source: Key of a node.
        target: Key of a node.
        label: What it says.
        properties: What else must be the same in an edge that says the same.
        start: When it began to hold; a time, or a number.
        end: When it ceased to.
    """

    source: Hashable
    target: Hashable
    label: str = ""
    properties: Mapping[str, Hashable] = field(default_factory=dict)
    start: Any = None
    end: Any = None

    def holds(self, time: Any) -> bool:
        """Whether it holds at a time.

        >>> Edge("a", "b", start=1, end=3).holds(1), Edge("a", "b", start=1, end=3).holds(3)
        (True, False)
        """
        return (self.start is None or self.start <= time) and (self.end is None or time < self.end)


@dataclass(frozen=True)
class Graph:
    """Nodes with different keys, and edges between them."""

    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...] = ()
