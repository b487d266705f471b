"""What a name in a plan leads to, besides a node: results of a called plan, errors, nothing any more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from semgraph.errors import Fault
from semgraph.frontend.faults import unknown
from semgraph.logical.node import Node


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
            " and ".join(dict.fromkeys(part)) for part in zip(*((f'"{n}"', w) for n, w in self.steps), strict=True)
        )
        what = f'reads {names}, which {"its" if len(self.steps) == 1 else "their"} "when" has pruned'
        return Fault(
            what, there=f"parameters: {whys}", hint="set these, or give this step the same when, or use switch"
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
        raise unknown(name, self.tables, f"{self.name} returns no", f"results of {self.name}", value=True)
