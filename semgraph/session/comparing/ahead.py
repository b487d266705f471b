"""What ways will cost, before any of them is asked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from semgraph.errors import BudgetReached
from semgraph.execution.comparison import Estimate
from semgraph.execution.comparison.cells import dollars
from semgraph.llm.base import LLM, Embedder, Usage
from semgraph.llm.budget import Budget
from semgraph.llm.roles import bound
from semgraph.llm.tokens import prompt_tokens
from semgraph.logical.semantic import Semantic
from semgraph.meter import StepMetrics
from semgraph.physical.blocks import Keys
from semgraph.physical.contract import Cost, Implementation, Observed, RowEstimate, Rows
from semgraph.physical.planning import Batch, NeedsVectors, Planned
from semgraph.physical.watching import watched

_SAMPLE = 200  # items whose prompts are counted
Batches = Mapping[str, Batch]


@dataclass(frozen=True)
class Ahead:
    """What ways of a step will cost.

    Args:
        estimates: One for each way.
        embedding: The ways that embed texts, or whose questions depend on answers: what they take with them is made ready
            before they are timed.
    """

    estimates: tuple[Estimate, ...]
    embedding: tuple[str, ...] = ()


async def ahead(
    node: Semantic, ways: Mapping[str, Implementation[Any]], reference: Implementation[Any], rows: Sequence[Rows], llm: LLM,
    embedder: Embedder,
) -> Ahead:  # fmt: skip
    """What each way will cost over these rows. Nothing is sent and nothing is embedded.

    Where all is asked at once, the way itself composes its requests, and they are counted. Where what is asked depends on
    answers or vectors, it is the way's own `estimate`, by partitions, prompts and groups.
    """
    seen = await _observed(node, rows, reference, llm, embedder)
    found: list[Estimate] = []
    later: list[str] = []
    for name, way in ways.items():
        batches = await _batches(node, way, rows, llm, embedder) if _at_once(node, way, rows, seen) else None
        if batches is None:
            later.append(name)
        found.append(_expected(name, way, node, rows, seen, llm) if batches is None else _planned(name, batches, llm))
    return Ahead(tuple(found), tuple(later))


async def warm(
    node: Semantic, ways: Iterable[Implementation[Any]], rows: Sequence[Rows], llm: LLM, embedder: Embedder
) -> None:
    """Make ready what ways take with them, vectors above all; nothing is asked."""
    for way in ways:
        async with Planned(llm, embedder, node, StepMetrics(), embeds=True) as ctx:
            for each in rows:
                await watched(way, node, each, ctx)


async def _batches(
    node: Semantic, way: Implementation[Any], rows: Iterable[Rows], llm: LLM, embedder: Embedder
) -> Batches | None:
    """What a way asks at once; None if it wants vectors first."""
    async with Planned(llm, embedder, node, StepMetrics()) as ctx:
        try:
            for each in rows:
                await watched(way, node, each, ctx)
        except NeedsVectors:
            return None
        return ctx.batches


def _at_once(node: Semantic, way: Implementation[Any], rows: Iterable[Rows], seen: Observed | None) -> bool:
    return all(way.estimate(node, unit, seen).rounds <= 1 for each in rows for unit in units(node, each))


def _planned(name: str, batches: Batches, llm: LLM) -> Estimate:
    """The requests that were composed: how many is exact, their tokens are the mean of the first ones."""
    calls, sent, answered = 0, 0.0, 0
    dollars: list[float | None] = []
    for role, batch in batches.items():
        model = bound(llm, role)
        tokens = math.ceil(sum(prompt_tokens(model, r) for r in batch.first) / len(batch.first) * batch.calls)
        calls, sent, answered = calls + batch.calls, sent + tokens, answered + batch.tokens_out
        dollars.append(model.dollars(Usage(tokens, 0, batch.tokens_out)))
    return Estimate(name, calls, sent, answered, _sum(dollars), planned=True)


def _expected(
    name: str, way: Implementation[Any], node: Semantic, rows: Sequence[Rows], seen: Observed | None, llm: LLM
) -> Estimate:
    """As the way's own estimate has it."""
    costs = [way.estimate(node, unit, seen) for each in rows for unit in units(node, each)]
    calls, least = math.ceil(sum(c.calls for c in costs)), sum(_least(c) for c in costs)
    if any(c.tokens_in is None for c in costs):
        return Estimate(name, calls, least=least if least < calls else None)
    usage = Usage(math.ceil(sum(c.tokens_in or 0 for c in costs)), 0, math.ceil(sum(c.tokens_out or 0 for c in costs)))
    dollars = bound(llm, node.prompt.first.role).dollars(usage)
    return Estimate(name, calls, usage.prompt, usage.completion, dollars, least if least < calls else None)


def _least(cost: Cost) -> float:
    return math.ceil(cost.calls if cost.least is None else min(cost.least, cost.calls))


def units(node: Semantic, rows: Rows) -> Iterator[RowEstimate]:
    """The rows as estimates are about them: what never shares a request is apart, and groups of one size are together."""
    keys = Keys(node, rows)
    own = rows.items.column("group").to_pylist() if "group" in rows.items.column_names else None
    rights = rows.items.column("right").to_pylist() if "right" in rows.items.column_names else None
    found: dict[Any, list[int]] = {}
    for item in range(rows.items.num_rows):
        found.setdefault(keys.of(item)[:3], []).append(item)
    for items in found.values():
        if own is None:
            left, right = ({of[i] for i in items} for of in (keys.left, rights or keys.left))
            yield RowEstimate(len(left), len(right) if rights is not None else 0, len(items), 0)
            continue
        sizes = Counter(Counter(own[i] for i in items).values())
        for size, count in sizes.items():
            yield RowEstimate(size * count, 0, size * count, count)


async def _observed(
    node: Semantic, rows: Iterable[Rows], reference: Implementation[Any], llm: LLM, embedder: Embedder
) -> Observed | None:
    """The tokens of an item, as the reference asks about the first ones: its own, those that each call has whatever it is
    about, and the longest answer that the prompt allows.
    """
    items = 0
    async with Planned(llm, embedder, node, StepMetrics()) as ctx:
        for each in rows:
            part = each.only(range(min(each.items.num_rows, _SAMPLE - items)))
            if part.items.num_rows:
                items += part.items.num_rows
                await reference.answer(node, part, ctx)
    asked = [request for batch in ctx.batches.values() for request in batch.first]
    if not asked:
        return None
    model = bound(llm, node.prompt.first.role)
    total = sum(prompt_tokens(model, request) for request in asked)
    shared = sum(_static(model, request) for request in asked)
    longest = max(prompt.max_tokens for prompt in node.prompt.all)
    return Observed(total / items, float(longest), 1.0, shared / len(asked), (total - shared) / items)


def _static(model: LLM, request: Any) -> int:
    """Tokens of a request without what its last message says."""
    return prompt_tokens(model, request) - model.count_tokens(request.messages[-1].content)


def _sum(dollars: Iterable[float | None]) -> float | None:
    known = list(dollars)
    return None if None in known else sum(d for d in known if d is not None)


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
    units = {"max_calls": " calls", "max_tokens": " tokens", "max_usd": ""}
    for name, (limit, before, each) in totals.items():
        most = trials * sum(cost for cost in each if cost is not None)
        unit = "$" if name == "max_usd" else ""
        if limit is not None and before + most > limit * (1 + 1e-9):
            shown, allowed, paid = (dollars(v) if name == "max_usd" else f"{v:,.0f}" for v in (most, limit, before))
            said = f" (spent {unit}{paid} on the rows, which are kept)" if before else ""
            raise BudgetReached(
                f"{unit}{shown}{units[name]} for {trials} trial{'s' * (trials > 1)} of {len(each)} way{'s' * (len(each) > 1)} "
                f"would pass {name} {allowed}{said}: no way was asked. Raise it, or take fewer rows, ways or trials"
            )
