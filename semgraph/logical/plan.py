"""A logical plan: named relations over typed inputs, the sinks that write, and how inputs are cut into windows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from semgraph.expr.canonical import canonical
from semgraph.expr.types import Type
from semgraph.logical.node import Node
from semgraph.logical.schema import Graph
from semgraph.logical.sinks import Sink

POSITION = "position"
TURN = "turn"


@dataclass(frozen=True)
class InputSpec:
    """A declared input: typed columns. A nullable one may be missing; the key of the order may be NULL and is then made."""

    name: str
    columns: tuple[tuple[str, Type], ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns as Arrow."""
        return pa.schema([pa.field(name, kind.arrow) for name, kind in self.columns])


@dataclass(frozen=True)
class Order:
    """How the rows of one input are cut into windows, which are run one after another within a partition.

    Args:
        input: The input that is cut.
        partition: Its column with the partition value; NULL becomes "".
        by: Its columns that order the rows of a partition; `position` (the row's place in the input) breaks ties.
        key: Its column that names a row; where NULL, it is made from the columns `key_of` and the ordinal among equal rows.
        window: Rows in a window; None: all.
        ahead: Windows that may be computed ahead of the last commit.
        on_error: `set_aside` keeps a failed row out and goes on; `stop` ends its partition.

    The engine adds two columns to the input: `position`, and `turn`, the row's ordinal in its partition.
    """

    input: str
    partition: str
    by: tuple[str, ...]
    key: str
    key_of: tuple[str, ...]
    window: int | None = 1
    ahead: int = 64
    on_error: Literal["set_aside", "stop"] = "set_aside"


@dataclass(frozen=True)
class Choice:
    """A way of doing a step: an implementation's name and its parameters. `block(left=10)`."""

    name: str
    params: tuple[tuple[str, Any], ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{k}={v}' for k, v in self.params)})" if self.params else self.name


@dataclass(frozen=True)
class LogicalPlan:
    """A checked plan. `document` is the plan as plain data, which `to_yaml` writes; everything else is built from it."""

    name: str
    graph: Graph
    inputs: Mapping[str, InputSpec]
    steps: Mapping[str, Node]
    writes: tuple[Sink, ...] = ()
    returns: Mapping[str, Node] = field(default_factory=dict)
    order: Order | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    use: Mapping[str, Choice] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    doc: str = ""
    document: Mapping[str, Any] = field(default_factory=dict, compare=False)
    file: str = field(default="", compare=False)

    @property
    def roots(self) -> tuple[Node, ...]:
        """What must be computed: the sinks, then the results."""
        return (*self.writes, *self.returns.values())

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over all that decides what the plan writes and returns, its choices included."""
        parts = [
            self.name,
            *(node.fingerprint for node in self.roots),
            *self.returns,
            canonical(self.order),
            canonical(dict(self.use)),
            canonical(self.allow),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()
