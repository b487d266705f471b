"""What a name in a plan leads to, besides a node: results of a called plan, errors, nothing any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from semgraph.frontend.faults import unknown
from semgraph.logical.node import Node


class Poisoned(Exception):
    """What is read has errors of its own; they are reported, this is not."""


class Pruned(Exception):
    """What is read was pruned by its `when`."""


@dataclass(frozen=True)
class Results:
    """What a called plan returns."""

    name: str
    tables: Mapping[str, Node]

    def table(self, name: str) -> Node:
        """A result by name. Raises Fault."""
        if name in self.tables:
            return self.tables[name]
        raise unknown(name, self.tables, f"{self.name} returns no", f"results of {self.name}", value=True)
