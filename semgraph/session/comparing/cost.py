"""What a way costs when it is asked: cold, and paid now. And a way that asks nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from semgraph.errors import RowError
from semgraph.execution.comparison import Spent
from semgraph.llm.base import LLM, Embedder, Embeddings, Reply, Request, Usage
from semgraph.llm.roles import Roles
from semgraph.llm.wrapper import Wrapper
from semgraph.physical.answers import answer_table
from semgraph.physical.contract import Context, Cost, Implementation, Observed, Outcome, RowEstimate, Rows


@dataclass
class Ledger:
    """What one trial took: `cold`, whoever paid for it and when; `paid`, sent now; `replayed`, answers from the journal;
    `known`, vectors from there.
    """

    cold: Spent = Spent()
    paid: Spent = Spent()
    replayed: int = 0
    known: int = 0
    _seen: set[str] = field(default_factory=set)

    def reply(self, reply: Reply) -> None:
        """Count an answer; one that is asked for again within the trial is the same call."""
        if reply.origin == "coalesced" or (reply.call_id and reply.call_id in self._seen):
            return
        self._seen.add(reply.call_id)
        spent = Spent(1, reply.usage.prompt, reply.usage.completion, reply.dollars)
        self.cold += spent
        if reply.origin == "journal":
            self.replayed += 1
        else:
            self.paid += spent

    def vectors(self, texts: Sequence[str], found: Embeddings, embedder: Embedder) -> None:
        """Count vectors: cold by the embedder's tokenizer, as those that are known already say nothing of what they took."""
        new = [text for text in texts if f"vector {text}" not in self._seen]
        self._seen.update(f"vector {text}" for text in new)
        usage = Usage(sum(map(embedder.count_tokens, new)))
        self.cold += Spent(0, usage.prompt, 0, embedder.dollars(usage))
        self.paid += Spent(0, found.usage.prompt, 0, found.dollars)
        self.known += found.journal


class _Counted(Wrapper):
    def __init__(self, inner: LLM, ledger: Ledger) -> None:
        super().__init__(inner)
        self.ledger = ledger

    async def complete(self, request: Request) -> Reply:
        try:
            reply = await self.inner.complete(request)
        except RowError as error:
            if isinstance(error.spent, Reply):
                self.ledger.reply(error.spent)
            raise
        self.ledger.reply(reply)
        return reply


def counted(llm: LLM, ledger: Ledger) -> LLM:
    """Models whose answers are entered into a ledger."""
    if isinstance(llm, Roles):
        return Roles(**{role: _Counted(model, ledger) for role, model in llm.models.items()})
    return _Counted(llm, ledger)


class CountedEmbedder:
    """An embedder whose vectors are entered into a ledger."""

    def __init__(self, inner: Embedder, ledger: Ledger) -> None:
        self.inner, self.ledger = inner, ledger
        self.count_tokens, self.dollars, self.dimensions = inner.count_tokens, inner.dollars, inner.dimensions

    @property
    def name(self) -> str:
        """The inner embedder's name."""
        return self.inner.name

    async def embed(self, texts: Sequence[str], partition: str = "") -> Embeddings:
        """Embed as the inner one does."""
        found = await self.inner.embed(texts, partition)
        self.ledger.vectors(texts, found, self.inner)
        return found

    async def aclose(self) -> None:
        """Close the inner embedder."""
        await self.inner.aclose()


@dataclass(frozen=True)
class Seeing(Implementation[Any]):
    """A way that asks nothing, and keeps what it was to answer about."""

    seen: list[Rows] = field(default_factory=list)

    def estimate(self, node: Any, rows: RowEstimate, seen: Observed | None) -> Cost:  # noqa: ARG002
        """Nothing is asked, so nothing is estimated."""
        return Cost(0)

    async def answer(self, node: Any, rows: Rows, ctx: Context) -> Any:  # noqa: ARG002
        """Keep the rows; no item has an answer."""
        self.seen.append(rows)
        count = len(rows.groups()) if node.keyword == "sem_agg" else rows.items.num_rows
        return answer_table(node, [Outcome(None, "unasked: only looked at")] * count)
