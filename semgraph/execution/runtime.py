"""What a run works with: its plan, models, store and counters, shared by all that is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

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
from semgraph.physical.semantic import Answered
from semgraph.stores.base import Store

Observer = Callable[[Node, pa.Table], None]


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
        answered: Told of each semantic node's evidence, for the run record.
        asking: Told how many more rows a semantic node asks about; with a negative number when these are answered.
        note: Takes what implementations have to say to the user.
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
    answered: Callable[[Node, Answered], None] = lambda _node, _answered: None
    asking: Callable[[Node, int], None] = lambda _node, _rows: None
    note: Callable[[str], None] = lambda _text: None
    observations: Observations | None = None
    trial: int = 0

    def begins(self, node: Node) -> bool:
        """Whether the rows of a step that asks no model come in at this operator; of others, rows in are those asked about."""
        segment = self.plan.segments.get(id(node))
        first = next((source for _, source in segment.inputs), None) if segment else next(iter(node.inputs), None)
        return first is not None and first.step != node.step and node.step not in self._asking_steps

    @cached_property
    def _asking_steps(self) -> frozenset[str]:
        return frozenset(node.step for node in walk(*self.plan.roots) if isinstance(node, (Semantic, Embed)))

    async def embed(self, texts: Sequence[str], whom: Whom, step: str) -> Vectors:
        """Embed distinct texts of a partition (its name, or its number in `_p`), metered to a step."""
        partition = self.partitions[whom] if isinstance(whom, int) else whom
        found: Embeddings = await self.embedder.embed(texts, partition)
        count_embeddings(self.meter.step(step), found)
        return found.vectors
