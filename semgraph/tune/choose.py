"""The entry of a tuning: of one step, or of whole plans."""

from __future__ import annotations

from dataclasses import replace

from semgraph.compare.loop import opened_arms, recorded_errors
from semgraph.compare.request import ComparisonRecord, Runner
from semgraph.display import option
from semgraph.errors import PlanError
from semgraph.tune.plans import PlanTuning
from semgraph.tune.search import Chooser, TuneRequest
from semgraph.tune.step import StepTuning
from semgraph.tune.trials import REFERENCE
from semgraph.tune.tuning import Tuning


async def tune(request: TuneRequest, runner: Runner) -> Tuning:
    """Tune, and record the result or the error.

    Raises:
        PlanError: The request is wrong, or the rows cannot show the floor.
        BudgetReached: The search would exceed a limit; nothing was tried.
    """
    plan = request.compared.plan
    if runner.replays:
        what = "a recording has one answer to each question, so nothing else can be tried"
        raise PlanError(what, hint=f"name a model: {option('llm', 'MODEL')}")
    if not plan.asking:
        raise PlanError(f"plan {plan.name} calls no model: there is nothing to tune")
    steps = request.steps or (() if plan.writes else tuple(plan.asking))
    if request.compared.truth is not None and len(steps) > 1 and not plan.writes:
        what = f"a truth is of one step, or of a graph; plan {plan.name} has the steps {', '.join(steps)}"
        raise PlanError(what, hint=f"tune them one after the other: {option('step', steps[0])}")
    request = replace(request, steps=steps)
    first = next(iter(request.models), "default")
    strongest = {} if first == "default" else dict.fromkeys(plan.asking, f"@ {first}")
    compared = replace(request.compared, arms=request.make({REFERENCE: strongest}))
    async with opened_arms(compared, runner) as (opened, models):
        record = ComparisonRecord(compared, runner, opened, kind="tuning")
        with recorded_errors(record):
            one = len(steps) == 1
            kind: type[Chooser] = StepTuning if one else PlanTuning
            result = await kind(request, record, models[REFERENCE]).result()
        record.end("budget" if result.stopped else "tuned", result.stopped)
        return result
