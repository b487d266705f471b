"""The loop of a comparison: prepare, try each arm as often as requested, score, record. Steps and
whole plans share it; they differ in what an arm is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from semgraph.compare.comparison import Arm, Comparison, Trial
from semgraph.compare.plans import PlanArms, with_choices
from semgraph.compare.preview import admit
from semgraph.compare.request import ComparisonRecord, ComparisonRequest, Runner
from semgraph.compare.step import StepArms
from semgraph.compare.trial import KEPT, Arms, Attempt, Bench
from semgraph.errors import BudgetReached, Fault, PlanError, Problem
from semgraph.execution.runtime import require_prices


async def compare(request: ComparisonRequest, runner: Runner) -> Comparison:
    """Compare, and record the result or the error.

    Raises:
        PlanError: The request is wrong; nothing was spent.
        BudgetReached: A limit would be exceeded before anything was compared.
    """
    async with runner.open(request.plan, fresh=request.fresh) as opened:
        record = ComparisonRecord(request, runner, opened)
        try:
            bench = Bench(record)
            arms: Arms = StepArms(bench) if request.step else PlanArms(bench)
            result = await _compared(arms, bench)
        except BaseException as error:
            interrupted = isinstance(error, (asyncio.CancelledError, KeyboardInterrupt))
            stopped = "budget" if isinstance(error, BudgetReached) else "failed"
            record.end("interrupted" if interrupted else stopped, str(error))
            if isinstance(error, Fault):
                raise PlanError(Problem(error.what, there=error.there, hint=error.hint)) from None
            raise
        record.end("budget" if result.stopped else "compared", result.stopped)
        return result


async def _compared(arms: Arms, bench: Bench) -> Comparison:
    request, record, opened = bench.request, bench.record, bench.opened
    for use in arms.uses.values():
        require_prices(with_choices(request.plan, use), opened.budget, opened.llm, opened.embedder)
    bench.say(await arms.prepare())
    admit(arms.estimates, request.trials, opened.budget)
    record.begin()
    attempts: dict[str, list[Attempt]] = {name: [] for name in arms.uses}
    stopped = await _try(arms, bench, attempts)
    quality = arms.scored(attempts)
    result = [
        Arm(name, use, tuple(each.trial for each in attempts[name]), quality[name])
        for name, use in arms.uses.items()
    ]
    facts = {"reference": arms.reference, "estimates": tuple(arms.estimates), **arms.facts()}
    return record.comparison(result, stopped=stopped, **facts)


async def _try(arms: Arms, bench: Bench, attempts: Mapping[str, list[Attempt]]) -> str | None:
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
    replays = f" and {replayed:,} from the journal" if replayed > 0 else ""
    return f"✓ {name}{number}: {trial.paid.calls:,} call{'s' * (trial.paid.calls != 1)}{replays}"


async def foreseen(request: ComparisonRequest, runner: Runner) -> list[str]:
    """The expected cost of each implementation of a step over its rows, one line each. No model is
    called; texts that a search needs are embedded.

    Raises:
        PlanError: The request is wrong, or there are no rows.
    """
    async with runner.open(request.plan, fresh=False) as opened:
        return await StepArms(Bench(ComparisonRecord(request, runner, opened))).foreseen()
