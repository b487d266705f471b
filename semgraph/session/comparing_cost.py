"""What a way costs: at most, before it is asked; and cold and paid, when it was."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from semgraph.errors import BudgetReached, RowError
from semgraph.execution.comparison import Estimate, Spent
from semgraph.llm.base import LLM, Embedder, Embeddings, Reply, Request, Usage
from semgraph.llm.budget import Budget
from semgraph.llm.roles import Roles, bound
from semgraph.llm.tokens import prompt_tokens
from semgraph.llm.wrapper import Wrapper
from semgraph.logical.semantic import Semantic
from semgraph.meter import StepMetrics
from semgraph.physical.answers import answer_table
from semgraph.physical.context import NodeContext
from semgraph.physical.contract import Context, Cost, Implementation, Observed, Outcome, RowEstimate, Rows

_SAMPLE = 200  # items whose prompts are counted


@dataclass
class Ledger:
    """What one trial took: `cold`, whoever paid for it and when; `paid`, sent now; `replayed`, answers from the journal."""

    cold: Spent = Spent()
    paid: Spent = Spent()
    replayed: int = 0
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


class _Dry(Wrapper):
    """Counts what it is asked and answers nothing."""

    def __init__(self, inner: LLM) -> None:
        super().__init__(inner)
        self.tokens = 0

    async def complete(self, request: Request) -> Reply:
        self.tokens += prompt_tokens(self.inner, request)
        raise RowError("unasked", "only counted")


async def observed(
    node: Semantic, rows: Iterable[Rows], reference: Implementation[Any], llm: LLM, embedder: Embedder
) -> Observed | None:
    """The tokens that an item takes at most: its own prompt as the reference sends it (the mean of the first items), and the
    longest answer that the prompt allows.
    """
    model = bound(llm, node.prompt.first.role)
    dry, items = _Dry(model), 0
    for each in rows:
        part = each.only(range(min(each.items.num_rows, _SAMPLE - items)))
        if not part.items.num_rows:
            continue
        items += part.items.num_rows
        async with NodeContext(dry, embedder, node, StepMetrics()) as ctx:
            await reference.answer(node, part, ctx)
    longest = max(prompt.max_tokens for prompt in node.prompt.all)
    return Observed(dry.tokens / items, float(longest), 1.0) if items else None


def at_most(
    name: str, way: Implementation[Any], node: Semantic, rows: Sequence[Rows], seen: Observed | None, llm: LLM
) -> Estimate:
    """What one trial of a way costs at most, as its own estimate has it."""
    calls = tokens_in = tokens_out = 0.0
    known = True
    for each in rows:
        right = 0 if each.right is None else each.right.num_rows
        groups = len(each.groups()) if "group" in each.items.column_names else 0
        cost = way.estimate(node, RowEstimate(each.left.num_rows, right, each.items.num_rows, groups), seen)
        calls += cost.calls
        known = known and cost.tokens_in is not None
        tokens_in, tokens_out = tokens_in + (cost.tokens_in or 0), tokens_out + (cost.tokens_out or 0)
    if not known:
        return Estimate(name, math.ceil(calls))
    usage = Usage(math.ceil(tokens_in), 0, math.ceil(tokens_out))
    return Estimate(
        name, math.ceil(calls), usage.prompt, usage.completion, bound(llm, node.prompt.first.role).dollars(usage)
    )


def admit(estimates: Sequence[Estimate], trials: int, budget: Budget) -> None:
    """Refuse what would pass a limit.

    Raises:
        BudgetReached: What is known of the cost passes it.
    """
    spent = budget.spent
    totals = {
        "max_calls": (budget.max_calls, spent.calls, [e.calls for e in estimates]),
        "max_tokens": (
            budget.max_tokens, spent.tokens,
            [None if e.tokens_in is None else e.tokens_in + (e.tokens_out or 0) for e in estimates],
        ),
        "max_usd": (budget.max_usd, spent.usd, [e.dollars for e in estimates]),
    }  # fmt: skip
    for name, (limit, before, each) in totals.items():
        most = trials * sum(cost for cost in each if cost is not None)
        if limit is not None and before + most > limit * (1 + 1e-9):
            shown = f"${most:,.2g}" if name == "max_usd" else f"{most:,.0f}"
            said = f" (spent {before:,.2g} on the rows, which are kept)" if before else ""
            raise BudgetReached(
                f"≤ {shown} for {trials} trial{'s' * (trials > 1)} of {len(each)} way{'s' * (len(each) > 1)} passes "
                f"{name} {limit:,g}{said}: no way was asked. Raise it, or take fewer rows, ways or trials"
            )
