"""The expected cost of arms, before any of them calls the model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from semgraph.compare.comparison import Estimate
from semgraph.compare.trial import Bench
from semgraph.errors import BudgetReached
from semgraph.explain.estimates import Amount, Forecast, answers, total
from semgraph.formats import dollars, plural
from semgraph.llm.base import LLM, Embedder, Usage
from semgraph.llm.stack import Budget, bound
from semgraph.llm.tokens import likely_tokens, prompt_tokens
from semgraph.logical.semantic import Semantic
from semgraph.meter import StepMetrics
from semgraph.semantic.context import DryRun, DryRunEnded, PlannedRequests
from semgraph.semantic.contract import Cost, Keys, Observed, RowEstimate, Rows, by_key
from semgraph.semantic.implementation import Implementation, watched

_SAMPLE = 200  # items for which prompts are counted
_GAP = "   "
Batches = Mapping[str, PlannedRequests]


@dataclass(frozen=True)
class StepEstimates:
    """Estimates of implementations of a step over the rows that they answer. Nothing is sent."""

    node: Semantic
    rows: Sequence[Rows]
    llm: LLM
    embedder: Embedder
    seen: Observed | None = None  # tokens of sample prompts

    async def observed(self, reference: Implementation[Any]) -> Self:
        """With the tokens per item of a dry run of the reference over the first items: in total, of
        the static part of each call, of an item by itself, and of the answers.
        """
        items, first = 0, []
        for each in self.rows:
            part = each.only(range(min(len(each.items), _SAMPLE - items)))
            if part.items:
                items += len(part.items)
                first.append(part)
        batches = await replace(self, rows=first).requests(reference) or {}
        requests = [request for batch in batches.values() for request in batch.first]
        if not requests:
            return self
        model = bound(self.llm, self.node.prompt.first.role)
        sent = sum(prompt_tokens(model, request) for request in requests)
        last = sum(model.count_tokens(request.messages[-1].content) for request in requests)
        answered = sum(map(likely_tokens, requests)) / items
        static = (sent - last) / len(requests)
        return replace(self, seen=Observed(sent / items, answered, 1.0, static, last / items))

    async def requests(
        self, implementation: Implementation[Any], *, embeds: bool = False
    ) -> Batches | None:
        """The requests of a dry run; None if it needs vectors first, unless it `embeds` texts."""
        models = self.llm, self.embedder
        async with DryRun(*models, self.node, StepMetrics(), embeds=embeds) as ctx:
            try:
                for each in self.rows:
                    await watched(implementation, self.node, each, ctx)
            except DryRunEnded:
                return None
            return ctx.batches

    async def at_once(self, implementation: Implementation[Any]) -> Batches | None:
        """The requests of an implementation, if they are independent of answers and vectors."""
        if any(cost.rounds > 1 for cost in self._costs(implementation)):
            return None
        return await self.requests(implementation)

    def of(
        self,
        name: str,
        implementation: Implementation[Any],
        batches: Batches | None,
        answered: float | None = None,
    ) -> Estimate:
        """The expected cost of an implementation: of its requests, if they are known, otherwise by
        its `estimate`, by partitions, prompts and groups. `answered` are the tokens of the answers as
        in earlier runs, if there are any.
        """
        if batches is None:
            return self._expected(name, self._costs(implementation), answered)
        return self._counted(name, batches, answered)

    def _costs(self, implementation: Implementation[Any]) -> list[Cost]:
        each = (unit for rows in self.rows for unit in _units(self.node, rows))
        return [implementation.estimate(self.node, unit, self.seen) for unit in each]

    def _counted(self, name: str, batches: Batches, answered: float | None) -> Estimate:
        """An estimate from the requests of a dry run. The count is exact, unless a check may refuse
        answers; tokens are extrapolated from the first requests.
        """
        calls = sum(batch.calls for batch in batches.values())
        each = answers(self.node, sum(len(rows.items) for rows in self.rows) / max(calls, 1))
        likely, most = [], []
        for role, batch in batches.items():
            model, share = bound(self.llm, role), batch.calls / len(batch.first)
            sent = math.ceil(share * sum(prompt_tokens(model, r) for r in batch.first))
            said = share * sum(likely_tokens(request, each) for request in batch.first)
            said = said if answered is None else answered * batch.calls / calls
            likely.append((model, Usage(sent, 0, math.ceil(said))))
            most.append((model, Usage(sent, 0, batch.tokens_out)))
        return Estimate(
            name,
            calls,
            sum(usage.prompt for _, usage in likely),
            sum(usage.completion for _, usage in likely),
            _sum(model.dollars(usage) for model, usage in likely),
            planned=getattr(self.node, "check", None) is None,
            most_out=sum(usage.completion for _, usage in most),
            most_dollars=_sum(model.dollars(usage) for model, usage in most),
        )

    def _expected(self, name: str, costs: Sequence[Cost], seen: float | None) -> Estimate:
        """An estimate from those of the implementation."""
        calls = math.ceil(sum(c.calls for c in costs))
        low = sum(math.ceil(c.calls if c.least is None else min(c.least, c.calls)) for c in costs)
        least = low if low < calls else None
        if any(c.tokens_in is None for c in costs):
            free = bound(self.llm, self.node.prompt.first.role).dollars(Usage(1, 0, 1)) == 0
            return Estimate(name, calls, dollars=0.0 if free else None, least=least)
        sent = math.ceil(sum(c.tokens_in or 0 for c in costs))
        likely = sum(c.tokens_out or 0 for c in costs)
        each = self.seen.tokens_out if self.seen is not None and self.seen.tokens_out else 1.0
        most = math.ceil(likely / each * max(p.max_tokens for p in self.node.prompt.all))
        answered, model = math.ceil(likely if seen is None else seen), self.node.prompt.first.role
        price, highest = (
            bound(self.llm, model).dollars(Usage(sent, 0, out)) for out in (answered, most)
        )
        return Estimate(
            name, calls, sent, answered, price, least, most_out=most, most_dollars=highest
        )


def _units(node: Semantic, rows: Rows) -> Iterator[RowEstimate]:
    """The units of estimates: rows by partition, prompt and context, and groups by size."""
    keys = Keys(node, rows)
    for items in by_key(range(len(rows.items)), lambda item: keys.of(item)[:3]):
        own = [rows.items[item] for item in items]
        if node.keyword not in {"sem_agg", "sem_topk"}:
            left, right = {item.left for item in own}, {item.right for item in own}
            yield RowEstimate(len(left), 0 if rows.right is None else len(right), len(items), 0)
            continue
        sizes = Counter(Counter(item.group for item in own).values())
        for size, count in sizes.items():
            yield RowEstimate(size * count, 0, size * count, count)


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; None if a value is unknown."""
    known = list(values)
    return None if None in known else sum(value for value in known if value is not None)


def admit(estimates: Sequence[Estimate], trials: int, budget: Budget) -> None:
    """Refuse a comparison that would exceed a limit.

    Raises:
        BudgetReached: The known cost exceeds a limit.
    """
    spent = budget.spent
    tokens = [e.tokens_in and e.tokens_in + (e.most_out or e.tokens_out or 0) for e in estimates]
    for name, before, costs in (
        ("max_calls", spent.calls, [e.calls for e in estimates]),
        ("max_tokens", spent.tokens, tokens),
        ("max_usd", spent.usd, [e.most_dollars or e.dollars for e in estimates]),
    ):
        limit, most = getattr(budget, name), trials * sum(cost or 0 for cost in costs)
        if limit is None or before + most <= limit * (1 + 1e-9):
            continue
        amount, allowed, paid = (
            dollars(value, exact=True) if name == "max_usd" else f"{value:,.0f}"
            for value in (most, limit, before)
        )
        unit = {"max_calls": " calls", "max_tokens": " tokens"}.get(name, "")
        of_rows = f" (spent {paid} on the rows, which are in the journal)" if before else ""
        raise BudgetReached(
            f"{amount}{unit} for {plural(trials, 'trial')} of {plural(len(costs), 'variant')} "
            f"would pass {name} {allowed.removeprefix('$')}{of_rows}: no variant was run. "
            "Raise it, or take fewer rows, variants or trials"
        )


def rows_preview(step: str, expected: Forecast, budget: Budget, *, whole: bool) -> list[str]:
    """Lines printed before the rows of a step are computed with model calls, by their plan or by the
    whole plan.
    """
    grown = " by a run of the whole plan, because the step reads what the plan writes"
    return [
        f"first the rows of step {step} are computed{grown if whole else ''}",
        f"  {_of_plan(expected.calls())}",
        f"  answers in the journal cost nothing; {limits(budget)}",
    ]


def plans_preview(expected: Mapping[str, Forecast], budget: Budget) -> list[str]:
    """Lines printed before whole plans run: the calls that EXPLAIN expects, by step."""
    wide = max(map(len, expected))
    lines = [f"  {name:<{wide}}  {_of_plan(each.calls())}" for name, each in expected.items()]
    return [f"whole plans, one trial of each; {limits(budget)}", *lines]


def of_plan(name: str, forecast: Forecast) -> Estimate:
    """What EXPLAIN expects of a whole plan, as far as all of it is known."""
    amounts = forecast.total()
    calls, sent, answered, price = (
        amounts[each].value if amounts[each].known and amounts[each].kind != "least" else None
        for each in ("calls", "tokens_in", "tokens_out", "dollars")
    )
    least = amounts["calls"].value if amounts["calls"].kind == "least" else None
    return Estimate(name, calls, sent, answered, price, least)


def tokens_seen(forecast: Forecast, step: str, items: float) -> float | None:
    """Tokens of the answers about some items, if they are as long as in earlier runs."""
    amounts = forecast.of(step)
    answered, asked = amounts["tokens_out"], amounts["items"]
    if answered.kind != "seen" or not asked.value:
        return None
    return answered.value / asked.value * items


def _of_plan(amounts: Mapping[str, Amount]) -> str:
    known = {step: amount for step, amount in amounts.items() if amount.known}
    later = len(amounts) - len(known)
    if not amounts:
        return "calls no model"
    if not known:
        return "the number of calls depends on the answers"
    calls = total(known.values())
    if not (calls.value or later):
        return "calls no model"
    number = f"{calls.text()} call{'s' * (calls.value != 1)} for {', '.join(known)}"
    more = f"; those of {plural(later, 'more step')} depend on the answers"
    return number + (more if later else "")


def limits(budget: Budget) -> str:
    """The limits of a budget."""
    names = ("max_calls", "max_tokens", "max_usd", "max_seconds")
    values = {name: value for name in names if (value := getattr(budget, name)) is not None}
    of = [f"{name} {v:{',' if isinstance(v, int) else ',g'}}" for name, v in values.items()]
    return f"it stops before it passes {', '.join(of)}" if of else "no limit is set"


def variants_preview(
    bench: Bench, what: str, estimates: Sequence[Estimate], reference: str, before: int
) -> list[str]:
    """Lines printed before implementations run: the cost of one trial of each, and of all trials.
    `before` are the calls that the rows took.
    """
    wide = max(len(e.variant) for e in estimates)
    notes = ("   reference" if e.variant == reference else "" for e in estimates)
    costs = [expected(estimate).split(_GAP) for estimate in estimates]
    wides = [max(map(len, column)) for column in zip(*costs, strict=True)]
    aligned = (_GAP.join(map(str.rjust, cost, wides)) for cost in costs)
    each = zip(estimates, aligned, notes, strict=True)
    return [
        f"{what}, one trial of each ({bench.record.model}), estimated",
        *([f"  the rows took {plural(before, 'call')}"] if before else []),
        *(f"  {e.variant:<{wide}}  {cost}{note}" for e, cost, note in each),
        f"  {in_all(estimates, bench.request.trials, bench.opened.budget)}",
        "  answers in the journal cost nothing; invalid answers are requested again",
    ]


def in_all(estimates: Sequence[Estimate], trials: int, budget: Budget) -> str:
    """The cost of all trials of all variants."""
    calls, price = _sum(e.calls for e in estimates), _sum(e.dollars for e in estimates)
    about = "" if all(e.planned for e in estimates) else "≈ "
    limit = f" of the {dollars(budget.max_usd)} you allow" if budget.max_usd is not None else ""
    each = f"{trials} trials of each: " if trials > 1 else "in all: "
    count = _number(calls and trials * calls, about)
    return f"{each}{count} calls, {_dollars(price and trials * price)}{limit}"


def expected(estimate: Estimate) -> str:
    """The cost of one variant: calls, tokens, and dollars."""
    e = estimate
    about = "" if e.planned else "≈ "
    calls = _number(e.calls, about) if e.least is None else f"{e.least:,.0f}–{_number(e.calls)}"
    word = "call " if calls == "1" else "calls"
    tokens = f"{_number(e.tokens_in, '≈ ')} tokens in, {_number(e.tokens_out, '≈ ')} out"
    return _GAP.join([f"{calls} {word}", tokens, _dollars(e.dollars)])


def _number(value: float | None, sign: str = "") -> str:
    return "?" if value is None else f"{sign}{value:,.0f}"


def _dollars(value: float | None) -> str:
    if value is None:
        return "$ ?"
    return f"≈ {dollars(value, exact=True)}" if value else "$0"
