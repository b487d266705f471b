"""What one run uses: models, an embedder, a store, a journal, a budget and a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from semgraph.llm.base import LLM, Embedder
from semgraph.llm.journal import Journal
from semgraph.llm.stack import Budget
from semgraph.logical.node import Node, walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.sinks import Merge
from semgraph.semantic.ask import Answered
from semgraph.stores.base import Store

Clock = Callable[[str], datetime]


@dataclass(frozen=True)
class Opened:
    """What one run uses.

    Args:
        llm: The models by role, behind one `LLM`.
        embedder: The embedder.
        store: The store.
        journal: Recorded answers, where they are kept.
        budget: The limits of the run, and what it spent.
        now: The time of a slice or wave, by its name.
        scoped: The same models in another scope of the journal: no answer passes from one scope to
            another.
        scoped_embedder: The same embedder in another scope.
    """

    llm: LLM
    embedder: Embedder
    store: Store
    journal: Journal | None
    budget: Budget
    now: Clock
    scoped: Callable[[str], LLM]
    scoped_embedder: Callable[[str], Embedder]

    def answered(self, _node: Node, answers: Answered) -> None:
        """Withdraw unusable answers from the journal, so that none of them is served again."""
        if self.journal is not None:
            self.journal.withdraw(answers.unusable)

    async def vector_length(self, plan: LogicalPlan) -> int | None:
        """The length of the vectors that a plan searches or stores; None if it uses no vectors."""
        return await self.embedder.dimensions() if embeds(plan) else None


def embeds(plan: LogicalPlan) -> bool:
    """Whether a plan needs an embedder."""
    return any(node.embeds for node in walk(*plan.roots)) or any(
        d.by == "embed" and d.of in sink.schema.names
        for sink in plan.writes
        if isinstance(sink, Merge)
        for d in sink.label.derived.values()
    )
