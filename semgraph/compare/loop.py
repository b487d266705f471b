"""The loop of a comparison: prepare, try each arm as often as requested, score, record. Steps and
whole plans share it; they differ in what an arm is.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import Any

from semgraph.compare.comparison import Arm, Comparison, Estimate, Trial
from semgraph.compare.plans import PlanArms
from semgraph.compare.preview import admit
from semgraph.compare.request import ComparisonRecord, ComparisonRequest, Runner
from semgraph.compare.step import StepArms
from semgraph.compare.trial import KEPT, Attempt, Attempts, Bench
from semgraph.errors import BudgetReached, Fault, PlanError
from semgraph.execution.runtime import Opened, require_prices
from semgraph.logical.plan import LogicalPlan


async def compare(request: ComparisonRequest, runner: Runner) -> Comparison:
    """Compare, and record the result or the error.

    Raises:
        PlanError: The request is wrong; nothing was spent.
        BudgetReached: A limit would be exceeded before anything was compared.
    """
    async with opened_arms(request, runner) as (opened, models):
        record = ComparisonRecord(request, runner, opened)
        with recorded_errors(record):
            bench = Bench(record, models)
            arms = StepArms(bench) if request.step else PlanArms(bench)
            result = await _compared(arms, bench)
        record.end("budget" if result.stopped else "compared", result.stopped)
        return result


@contextmanager
def recorded_errors(record: ComparisonRecord) -> Iterator[None]:
    """Record an error that ends a comparison. Raises it, a Fault as PlanError."""
    try:
        yield
    except BaseException as error:
        interrupted = isinstance(error, (asyncio.CancelledError, KeyboardInterrupt))
        stopped = "budget" if isinstance(error, BudgetReached) else "failed"
        record.end("interrupted" if interrupted else stopped, str(error))
        if isinstance(error, Fault):
            raise PlanError(error.what, there=error.there, hint=error.hint) from None
        raise


@asynccontextmanager
async def opened_arms(
    request: ComparisonRequest, runner: Runner
) -> AsyncIterator[tuple[Opened, Mapping[str, Opened]]]:
    """The models of the request, and those of each arm; the same models are opened once."""
    async with AsyncExitStack() as stack:
        opened: dict[int, Opened] = {}

        async def open_(of: Runner, plan: LogicalPlan) -> Opened:
            if id(of) not in opened:
                to = request.record_to if of is runner else None
                models = of.open(plan, fresh=request.fresh, record_to=to)
                opened[id(of)] = await stack.enter_async_context(models)
            return opened[id(of)]

        first = await open_(runner, request.plan)
        yield first, {name: await open_(arm.runner, arm.plan) for name, arm in request.arms.items()}


async def _compared(arms: StepArms | PlanArms, bench: Bench) -> Comparison:
    request, record = bench.request, bench.record
    for arm in bench.arms.values():
        require_prices(arm.plan, arm.opened.budget, arm.opened.llm, arm.opened.embedder)
    warned = dict.fromkeys(w for arm in request.arms.values() for w in arm.plan.warnings)
    bench.say([*(f"! {warning}" for warning in warned), *await arms.prepare()])
    if request.step:  # most costs of whole plans depend on answers
        admit(arms.estimates, request.trials, bench.opened.budget)
    record.begin()
    attempts: dict[str, list[Attempt]] = {name: [] for name in bench.arms}
    stopped = await _try(arms, bench, attempts)
    more = {"reference": arms.reference, "estimates": tuple(arms.estimates)}
    return compared(arms, record, attempts, stopped=stopped, **more)


def compared(
    arms: StepArms | PlanArms, record: ComparisonRecord, attempts: Attempts, **more: Any
) -> Comparison:
    """Score the attempts of some arms, and record the result."""
    quality, of = arms.scored(attempts), record.request.arms
    graphs = arms.graphs(attempts) if isinstance(arms, PlanArms) else {}
    trials = {name: tuple(each.trial for each in own) for name, own in attempts.items()}
    result = [Arm(n, of[n].changes, own, quality[n], graphs.get(n)) for n, own in trials.items()]
    return record.comparison(result, **more, **arms.facts())


async def _try(
    arms: StepArms | PlanArms, bench: Bench, attempts: Mapping[str, list[Attempt]]
) -> str | None:
    """Run all first trials, then all second ones, and so on, so that all arms have about equally
    many trials when a limit is reached. Returns the reason for an early end.

    Each round starts with the next arm, to spread the extra cost of the first one (opening
    connections).
    """
    names, trials = list(attempts), bench.request.trials
    what = "the embedding of texts"
    try:
        await bench.pays(arms.ready)
        for number in range(trials):
            first = number % len(names)
            for name in (*names[first:], *names[:first]):
                what = f"{name}, trial {number + 1} of {trials}," if trials > 1 else name
                attempt = await bench.pays(partial(arms.attempt, name, number))
                attempts[name].append(attempt)
                bench.say([_done(name, attempt.trial, trials)])
    except BudgetReached as error:
        return f"{str(error).removeprefix('stopped ')}; {what} is not complete. {KEPT}"
    return None


def _done(name: str, trial: Trial, trials: int) -> str:
    """The line printed after a trial."""
    number = f", trial {trial.number} of {trials}" if trials > 1 else ""
    replayed = trial.cold.calls - trial.paid.calls
    replays = f" and {replayed:,} shared or replayed" if replayed > 0 else ""
    return f"✓ {name}{number}: {trial.paid.calls:,} call{'s' * (trial.paid.calls != 1)}{replays}"


async def foreseen(
    request: ComparisonRequest, runner: Runner
) -> tuple[Sequence[Estimate], Sequence[str]]:
    """The expected cost of one trial of each arm, and the same as lines of text. No model is called;
    texts that a search needs are embedded. There are no estimates if a model has to be called first
    for the rows of the step.

    Raises:
        PlanError: The request is wrong, or there are no rows.
    """
    async with opened_arms(request, runner) as (opened, models):
        bench = Bench(ComparisonRecord(request, runner, opened), models)
        arms = StepArms(bench) if request.step else PlanArms(bench)
        lines = await arms.prepare(pays=False)
        return arms.estimates, lines
