"""What a run works with: its plan, models, store and counters, shared by all that is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

import pyarrow as pa

from semgraph.execution.observed import Observations
from semgraph.execution.windows import Confinement
from semgraph.llm.base import LLM, Embedder, Embeddings, Vectors
from semgraph.logical.embed import Embed
from semgraph.logical.node import Node, walk
from semgraph.logical.semantic import Semantic
from semgraph.meter import Meter
from semgraph.physical.context import count_embeddings
from semgraph.physical.planner import PhysicalPlan
from semgraph.physical.search_vectors import Whom
from semgraph.physical.semantic.asking import Answered
from semgraph.stores.base import Store

Observer = Callable[[Node, pa.Table], None]


class Recorder(Protocol):
    """A run record, as far as windows need it: rows are in it before their window is committed."""

    def begin(self) -> None:
        """From now on, rows can be taken back."""
        ...

    def take_back(self) -> None:
        """Forget the rows since `begin`."""
        ...

    def keep(self) -> None:
        """Write all rows so far, so that they outlast the process."""
        ...

    def end(self) -> None:
        """Rows are not taken back any more."""
        ...


class NoRecord:
    """Keeps nothing."""

    def begin(self) -> None:
        """Do nothing."""

    take_back = keep = end = begin


@dataclass
class Runtime:
    """What a run works with, shared by all its evaluations.

    Args:
        plan: The physical plan.
        llm: The model stack; answers by role.
        embedder: The embedder stack.
        store: The store.
        meter: Counters by step.
        partitions: Partition values by `_p`, which is the number of a member.
        confinement: What `_p` stands for; None without windows.
        whole: Tables of the searched steps that derive from inputs alone, by `id`.
        observe: Told of each node's rows, for the run record.
        recorder: Keeps what is told.
        answered: Told of each semantic node's evidence, for the run record.
        asking: Told how many more rows a semantic node asks about; with a negative number when these are answered.
        note: Takes what implementations have to say to the user.
        remembers: Whether answers are kept in memory while their windows run, as nothing else keeps them.
        observations: Told rows in and out of each node and what it asked, for later estimates.
        trial: Which independent repetition this is: part of every request.
    """

    plan: PhysicalPlan
    llm: LLM
    embedder: Embedder
    store: Store
    meter: Meter
    partitions: list[str] = field(default_factory=list)
    confinement: Confinement | None = None
    whole: dict[int, pa.Table] = field(default_factory=dict)
    observe: Observer = lambda _node, _table: None
    recorder: Recorder = field(default_factory=NoRecord)
    answered: Callable[[Node, Answered], None] = lambda _node, _answered: None
    asking: Callable[[Node, int], None] = lambda _node, _rows: None
    note: Callable[[str], None] = lambda _text: None
    remembers: bool = False
    observations: Observations | None = None
    trial: int = 0

    def begins(self, node: Node) -> bool:
        """Whether the rows of a step that asks no model come in at this operator; of others, rows in are those asked about."""
        return bool(node.inputs) and node.inputs[0].step != node.step and node.step not in self._asking_steps

    def ends(self, node: Node) -> bool:
        """Whether the rows of this operator are those that its step gives."""
        return self._last.get(node.step) is node

    @cached_property
    def _last(self) -> dict[str, Node]:
        return self.plan.named()

    @cached_property
    def _asking_steps(self) -> frozenset[str]:
        return frozenset(node.step for node in walk(*self.plan.roots) if isinstance(node, (Semantic, Embed)))

    async def embed(self, texts: Sequence[str], whom: Whom, step: str) -> Vectors:
        """Embed distinct texts of a partition (its name, or its number in `_p`), metered to a step."""
        partition = self.partitions[whom] if isinstance(whom, int) else whom
        found: Embeddings = await self.embedder.embed(texts, partition)
        count_embeddings(self.meter.step(step), found)
        return found.vectors
