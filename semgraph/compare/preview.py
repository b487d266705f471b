"""The expected cost of variants, before any of them calls the model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from semgraph.compare.comparison import Estimate
from semgraph.compare.trial import Snapshot, StepInput
from semgraph.errors import BudgetReached
from semgraph.execution.observations import ObservationFile
from semgraph.explain.estimates import Amount, Estimator, total
from semgraph.formats import dollars, plural
from semgraph.llm.base import LLM, Embedder, Usage
from semgraph.llm.stack import Budget, bound
from semgraph.llm.tokens import prompt_tokens
from semgraph.logical.node import walk
from semgraph.logical.semantic import Semantic
from semgraph.meter import StepMetrics
from semgraph.physical.plan import PhysicalPlan
from semgraph.semantic.context import DryRun, DryRunEnded, PlannedRequests
from semgraph.semantic.contract import Cost, Keys, Observed, RowEstimate, Rows
from semgraph.semantic.implementation import Implementation, watched

_SAMPLE = 200  # items for which prompts are counted
Batches = Mapping[str, PlannedRequests]


@dataclass(frozen=True)
class Ahead:
    """The expected cost of the variants of a step.

    Args:
        estimates: One estimate for each variant.
        embedding: The variants that embed texts, or have requests that depend on answers. Their
            vectors are computed before the timed trials.
    """

    estimates: tuple[Estimate, ...]
    embedding: tuple[str, ...] = ()


async def ahead(
    node: Semantic,
    variants: Mapping[str, Implementation[Any]],
    reference: Implementation[Any],
    rows: Sequence[Rows],
    llm: LLM,
    embedder: Embedder,
) -> Ahead:
    """Estimate the cost of each variant over these rows. Nothing is sent or embedded.

    Requests that are independent of answers and vectors are made in a dry run and counted. For
    other requests, the variant's `estimate` is used, by partitions, prompts and groups.
    """
    seen = await _observed(node, rows, reference, llm, embedder)
    estimates: list[Estimate] = []
    later: list[str] = []
    for name, variant in variants.items():
        batches = (
            await _batches(node, variant, rows, llm, embedder)
            if _at_once(node, variant, rows, seen)
            else None
        )
        if batches is None:
            later.append(name)
        estimates.append(
            _expected(name, variant, node, rows, seen, llm)
            if batches is None
            else _planned(name, node, batches, llm)
        )
    return Ahead(tuple(estimates), tuple(later))


async def warm(
    node: Semantic,
    variants: Iterable[Implementation[Any]],
    rows: Sequence[Rows],
    llm: LLM,
    embedder: Embedder,
) -> None:
    """Compute the vectors that variants need, before the timed trials. No model is called."""
    for variant in variants:
        async with DryRun(llm, embedder, node, StepMetrics(), embeds=True) as ctx:
            for each in rows:
                await watched(variant, node, each, ctx)


async def _batches(
    node: Semantic, variant: Implementation[Any], rows: Iterable[Rows], llm: LLM, embedder: Embedder
) -> Batches | None:
    """The requests of a dry run of a variant; None if it needs vectors first."""
    async with DryRun(llm, embedder, node, StepMetrics()) as ctx:
        try:
            for each in rows:
                await watched(variant, node, each, ctx)
        except DryRunEnded:
            return None
        return ctx.batches


def _at_once(
    node: Semantic, variant: Implementation[Any], rows: Iterable[Rows], seen: Observed | None
) -> bool:
    return all(
        variant.estimate(node, unit, seen).rounds <= 1
        for each in rows
        for unit in units(node, each)
    )


def _planned(name: str, node: Semantic, batches: Batches, llm: LLM) -> Estimate:
    """An estimate from the requests of a dry run. The count is exact, unless a check may refuse
    answers; tokens are extrapolated from the first requests.
    """
    calls, sent, answered = 0, 0.0, 0
    dollars: list[float | None] = []
    for role, batch in batches.items():
        model = bound(llm, role)
        tokens = math.ceil(
            sum(prompt_tokens(model, r) for r in batch.first) / len(batch.first) * batch.calls
        )
        calls, sent, answered = calls + batch.calls, sent + tokens, answered + batch.tokens_out
        dollars.append(model.dollars(Usage(tokens, 0, batch.tokens_out)))
    return Estimate(
        name, calls, sent, answered, _sum(dollars), planned=getattr(node, "check", None) is None
    )


def _expected(
    name: str,
    variant: Implementation[Any],
    node: Semantic,
    rows: Sequence[Rows],
    seen: Observed | None,
    llm: LLM,
) -> Estimate:
    """An estimate by the variant's `estimate`."""
    costs = [variant.estimate(node, unit, seen) for each in rows for unit in units(node, each)]
    calls, least = math.ceil(sum(c.calls for c in costs)), sum(_least(c) for c in costs)
    if any(c.tokens_in is None for c in costs):
        return Estimate(name, calls, least=least if least < calls else None)
    usage = Usage(
        math.ceil(sum(c.tokens_in or 0 for c in costs)),
        0,
        math.ceil(sum(c.tokens_out or 0 for c in costs)),
    )
    dollars = bound(llm, node.prompt.first.role).dollars(usage)
    return Estimate(
        name, calls, usage.prompt, usage.completion, dollars, least if least < calls else None
    )


def _least(cost: Cost) -> float:
    return math.ceil(cost.calls if cost.least is None else min(cost.least, cost.calls))


def units(node: Semantic, rows: Rows) -> Iterator[RowEstimate]:
    """The units of estimates: rows by partition, prompt and context, and groups by size."""
    keys = Keys(node, rows)
    own = rows.items.column("group").to_pylist() if "group" in rows.items.column_names else None
    rights = rows.items.column("right").to_pylist() if "right" in rows.items.column_names else None
    parts: dict[Any, list[int]] = {}
    for item in range(rows.items.num_rows):
        parts.setdefault(keys.of(item)[:3], []).append(item)
    for items in parts.values():
        if own is None:
            left, right = ({of[i] for i in items} for of in (keys.left, rights or keys.left))
            yield RowEstimate(len(left), len(right) if rights is not None else 0, len(items), 0)
            continue
        sizes = Counter(Counter(own[i] for i in items).values())
        for size, count in sizes.items():
            yield RowEstimate(size * count, 0, size * count, count)


async def _observed(
    node: Semantic,
    rows: Iterable[Rows],
    reference: Implementation[Any],
    llm: LLM,
    embedder: Embedder,
) -> Observed | None:
    """Tokens per item, from a dry run of the reference over the first items: in total, of the
    static part of each call, of an item by itself, and of the longest answer.
    """
    items = 0
    async with DryRun(llm, embedder, node, StepMetrics()) as ctx:
        for each in rows:
            part = each.only(range(min(each.items.num_rows, _SAMPLE - items)))
            if part.items.num_rows:
                items += part.items.num_rows
                await reference.answer(node, part, ctx)
    requests = [request for batch in ctx.batches.values() for request in batch.first]
    if not requests:
        return None
    model = bound(llm, node.prompt.first.role)
    total = sum(prompt_tokens(model, request) for request in requests)
    shared = sum(_static(model, request) for request in requests)
    longest = max(prompt.max_tokens for prompt in node.prompt.all)
    return Observed(
        total / items, float(longest), 1.0, shared / len(requests), (total - shared) / items
    )


def _static(model: LLM, request: Any) -> int:
    """The tokens of a request without its last message."""
    return prompt_tokens(model, request) - model.count_tokens(request.messages[-1].content)


def _sum(dollars: Iterable[float | None]) -> float | None:
    known = list(dollars)
    return None if None in known else sum(d for d in known if d is not None)


def admit(estimates: Sequence[Estimate], trials: int, budget: Budget) -> None:
    """Refuse a comparison that would exceed a limit.

    Raises:
        BudgetReached: The known cost exceeds a limit.
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
        if limit is not None and before + most > limit * (1 + 1e-9):
            amount, allowed, paid = (
                dollars(v, exact=True) if name == "max_usd" else f"{v:,.0f}"
                for v in (most, limit, before)
            )
            spent_before = (
                f" (spent {paid} on the rows, which are in the journal)" if before else ""
            )
            raise BudgetReached(
                f"{amount}{units[name]} for {plural(trials, 'trial')} of {plural(len(each), 'variant')} "
                f"would pass {name} {allowed.removeprefix('$')}{spent_before}: no variant was run. "
                "Raise it, or take fewer rows, variants or trials"
            )


def rows_preview(
    step_input: StepInput,
    inputs: Mapping[str, pa.Table],
    source: Snapshot,
    memory: ObservationFile | None,
    budget: Budget,
) -> list[str]:
    """Lines printed before rows are computed with model calls: the steps and their known calls."""
    amounts = _calls(step_input.physical, inputs, source, memory)
    known = [
        f"{step} ({_amount(amount)})"
        for step, amount in amounts.items()
        if amount.known and amount.value
    ]
    unknown = [step for step, amount in amounts.items() if not amount.known]
    callers = [f"  steps that call the model: {', '.join(known)}"] if known else []
    later = [f"  calls not known in advance: {', '.join(unknown)}"] if unknown else []
    whole = (
        " by a run of the whole plan, because the step reads what the plan writes"
        if step_input.grown
        else ""
    )
    return [
        f"first the rows of step {step_input.node.step} are computed{whole}",
        *callers,
        *later,
        f"  answers in the journal cost nothing; {limits(budget)}",
    ]


def plans_preview(
    arms: Mapping[str, PhysicalPlan],
    inputs: Mapping[str, pa.Table],
    source: Snapshot,
    memory: ObservationFile | None,
    budget: Budget,
) -> list[str]:
    """Lines printed before whole plans run: the calls that EXPLAIN expects, by step."""
    wide = max(map(len, arms))
    each = {name: _calls(physical, inputs, source, memory) for name, physical in arms.items()}
    lines = [f"  {name:<{wide}}  {_of_plan(amounts)}" for name, amounts in each.items()]
    return [f"whole plans, one trial of each; {limits(budget)}", *lines]


def _of_plan(amounts: Mapping[str, Amount]) -> str:
    known = {step: amount for step, amount in amounts.items() if amount.known}
    later = len(amounts) - len(known)
    if not amounts:
        return "calls no model"
    if not known:
        return "the number of calls depends on the answers"
    calls = total(known.values())
    number = f"{calls.text()} call{'s' * (calls.value != 1)}"
    if not later:
        return number
    return f"{number} for {', '.join(known)}; those of {plural(later, 'more step')} depend on the answers"


def _calls(
    physical: PhysicalPlan,
    inputs: Mapping[str, pa.Table],
    source: Snapshot,
    memory: ObservationFile | None,
) -> dict[str, Amount]:
    """The estimated calls of each semantic step."""
    estimator = Estimator.over(physical, inputs, memory, source.rows)
    calls: dict[str, list[Amount]] = {}
    for node in walk(*physical.roots):
        if isinstance(node, Semantic):
            calls.setdefault(node.step, []).append(estimator.call_estimate(node).calls)
    return {step: total(each) for step, each in calls.items()}


def _amount(calls: Amount) -> str:
    sign = {"seen": "≈ ", "most": "up to ", "least": "at least "}.get(calls.kind, "")
    return f"{sign}{calls.value:,.0f} call{'s' * (calls.value != 1)}"


def limits(budget: Budget) -> str:
    """The limits of a budget."""
    values = {
        name: getattr(budget, name)
        for name in ("max_calls", "max_tokens", "max_usd", "max_seconds")
    }
    limits_set = ", ".join(
        f"{name} {_limit(value)}" for name, value in values.items() if value is not None
    )
    return f"it stops before it passes {limits_set}" if limits_set else "no limit is set"


def _limit(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"


def variants_preview(
    estimates: Sequence[Estimate], trials: int, before: int, llm: str, budget: Budget
) -> list[str]:
    """Lines printed before variants run: the cost of one trial of each, and of all trials."""
    wide = max(len(e.variant) for e in estimates)
    lines = [f"  {e.variant:<{wide}}  {expected(e)}" for e in estimates]
    rows_made = [f"  the rows took {plural(before, 'call')}"] if before else []
    return [
        f"one trial of each, {llm}",
        *rows_made,
        *lines,
        f"  {in_all(estimates, trials, budget)}",
        "  answers in the journal cost nothing; invalid answers are requested again",
    ]


def in_all(estimates: Sequence[Estimate], trials: int, budget: Budget) -> str:
    """The cost of all trials of all variants."""
    known = [e.dollars for e in estimates]
    total = None if None in known else trials * sum(d for d in known if d is not None)
    calls = (
        None
        if any(e.calls is None for e in estimates)
        else trials * sum(e.calls or 0 for e in estimates)
    )
    about = "" if all(e.planned for e in estimates) else "≈ "
    limit = f" of the {dollars(budget.max_usd)} you allow" if budget.max_usd is not None else ""
    each = f"{trials} trials of each: " if trials > 1 else "in all: "
    return f"{each}{_number(calls, about)} calls, {_dollars(total, planned=not about)}{limit}"


def expected(estimate: Estimate) -> str:
    """The cost of one variant: calls, tokens, and dollars for answers of maximum length."""
    e = estimate
    about = "" if e.planned else "≈ "
    calls = _number(e.calls, about) if e.least is None else f"{e.least:,.0f}–{_number(e.calls)}"
    most = "up to " if e.planned else "≈ "
    word = "call " if calls == "1" else "calls"
    tokens = f"{_number(e.tokens_in, '≈ ')} tokens in, {_number(e.tokens_out, most)} out"
    return f"{calls} {word}   {tokens}   {_dollars(e.dollars, planned=e.planned)}"


def _number(value: float | None, sign: str = "") -> str:
    return "?" if value is None else f"{sign}{value:,.0f}"


def _dollars(value: float | None, *, planned: bool) -> str:
    return (
        "$ ?"
        if value is None
        else "$0"
        if value == 0
        else f"{'up to' if planned else '≈'} {dollars(value, exact=True)}"
    )
