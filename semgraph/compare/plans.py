"""Whole plans with other implementations of their steps, or other called plans, each run in a
separate copy of the store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import Any

from semgraph.compare.comparison import Estimate, Quality, Trial, by_reason
from semgraph.compare.preview import plans_preview
from semgraph.compare.trial import (
    Arms,
    Attempt,
    Attempts,
    Bench,
    Ledger,
    checked,
    known_rows,
    listed_steps,
)
from semgraph.compare.truth import RowAnswers, comparable, graph_of, read_graph_truth
from semgraph.display import option
from semgraph.errors import BudgetReached, PlanError, Problem, did_you_mean
from semgraph.execution.outcome import ExecutorOptions
from semgraph.execution.result import result_table
from semgraph.expr.functions import canonical_json
from semgraph.logical.node import walk
from semgraph.logical.plan import Choice, LogicalPlan, match_steps
from semgraph.logical.prompt import plain
from semgraph.scores import GraphScore, Score, ScoredGraph, score_graph, tally

PRESET = "preset"  # in a variant: a preset of the plan, in place of an implementation of a step


def with_choices(plan: LogicalPlan, use: Mapping[str, str]) -> LogicalPlan:
    """The plan with the choices of a variant, and with its preset. Raises PlanError."""
    steps = {step: choice for step, choice in use.items() if step != PRESET}
    if len(steps) == len(use):
        return plan.using(steps)
    assert plan.load is not None  # a plan is loaded from a document
    return plan.load(steps, preset=use[PRESET])


def uses(
    plan: LogicalPlan, variants: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, Choice]]:
    """The parsed choices of each variant: implementations of steps, or plans that replace called
    ones. Raises PlanError for a step that supports neither.
    """
    nodes = [node for node in walk(*plan.roots) if node.swappable]
    names = [*dict.fromkeys(node.step for node in nodes), *plan.called]
    known = {*names, *(name.rsplit("/", 1)[-1] for name in names)}
    swapping = {  # their steps belong to other plans
        arm
        for arm, use in variants.items()
        if PRESET in use or any(match_steps(step, plan.called) for step in use)
    }

    def read(arm: str, step: str, text: str) -> Choice:
        if step not in known and arm not in swapping:
            what = (
                f'arm {arm}: plan {plan.name} has no step "{step}" that calls the model or a plan'
            )
            hint = did_you_mean(step, known)
            raise PlanError(Problem(what, there=listed_steps(names), hint=hint))
        return Choice.parse(text)

    choices = checked(
        {
            (arm, step): partial(read, arm, step, text)
            for arm, use in variants.items()
            for step, text in use.items()
        }
    )
    return {arm: {step: choices[arm, step] for step in use} for arm, use in variants.items()}


class PlanArms(Arms):
    """Variants of a whole plan over the same inputs.

    Args:
        bench: The inputs and the models.

    Raises:
        PlanError: A variant or the truth is wrong.
    """

    def __init__(self, bench: Bench) -> None:
        self.bench, plan, request = bench, bench.request.plan, bench.request
        self.uses = {
            name: {step: str(choice) for step, choice in use.items()}
            for name, use in uses(plan, request.variants).items()
        }
        self.reference = next(iter(self.uses))
        self.estimates = tuple(Estimate(name) for name in self.uses)
        if request.truth is not None and not plan.writes:
            what = f"plan {plan.name} writes no graph to compare with a true one"
            hint = f"compare a step with a truth: {option('step', '...')}"
            raise PlanError(Problem(what, hint=hint))
        self.truth = None if request.truth is None else read_graph_truth(request.truth)
        self.plans = {name: with_choices(plan, use) for name, use in request.variants.items()}
        bench.record.roles = [role for each in self.plans.values() for role in each.needs.roles]

    async def prepare(self) -> list[str]:
        """Check all plans, and return the lines to print before the trials."""
        bench = self.bench
        await bench.read()
        async with bench.copy() as scratch:
            physical = checked(
                {name: partial(bench.compiled, each, scratch) for name, each in self.plans.items()}
            )
        return plans_preview(bench, physical)

    async def ready(self, _ledger: Ledger) -> None:
        """Do nothing: each trial computes its vectors."""

    async def attempt(self, name: str, number: int, ledger: Ledger) -> Attempt:
        """Run one trial of a plan in a copy of the store."""
        bench, plan = self.bench, self.plans[name]
        choices = ", ".join(f"{step}={choice}" for step, choice in self.uses[name].items())
        options = ExecutorOptions("comparison", bench.opened.now, again=True)
        async with bench.copy() as store:
            physical, scope = bench.compiled(plan, store), f"compare plan {name}: {choices}"
            outcome, _, seconds = await bench.run(
                physical, store, ledger, options, scope=scope, trial=number
            )
            if outcome.stopped:
                raise BudgetReached(outcome.stopped)
            trial = Trial(
                number + 1,
                ledger.cold,
                ledger.paid,
                None if ledger.replayed or ledger.known else seconds,
                len(outcome.failed_rows) if plan.windows else len(outcome.failures),
                failures=by_reason(outcome.failures),
            )
            tables = {
                returned: result_table(node, outcome.tables.get(returned, []))
                for returned, node in plan.returns.items()
            }
            return Attempt(trial, await graph_of(store, plan) if plan.writes else None, tables)

    def scored(self, attempts: Attempts) -> dict[str, Quality]:
        """The quality of each plan."""
        return of_plans(attempts, self.reference, self.truth)

    def facts(self) -> dict[str, Any]:
        """The further fields of the result."""
        rows = {name: table.num_rows for name, table in self.bench.request.inputs.items()}
        copied = self.bench.source.count
        return {"frozen": {"rows": rows, "copied": copied}, "notes": tuple(known_rows(self.bench))}


def of_plans(attempts: Attempts, reference: str, truth: ScoredGraph | None) -> dict[str, Quality]:
    """The quality of each variant of a whole plan: of the graph that it wrote, or of the rows that
    it returned. Without a truth it is agreement with the reference, trial by trial.
    """
    base = attempts[reference]
    if truth is None:
        return {
            name: Quality() if name == reference else _alike(own, base)
            for name, own in attempts.items()
        }
    scores = {
        name: [score_graph(comparable(each.graph, truth), truth) for each in own if each.graph]
        for name, own in attempts.items()
    }
    return {
        name: _graded(own, () if name == reference else scores[reference])
        for name, own in scores.items()
    }


def _alike(attempts: Sequence[Attempt], reference: Sequence[Attempt]) -> Quality:
    """The agreement of the graphs with those of the reference; without graphs, of the rows."""
    pairs = list(zip(attempts, reference, strict=False))
    graphs = [(a.graph, b.graph) for a, b in pairs if a.graph and b.graph]
    if graphs:
        return _graded([score_graph(*pair) for pair in graphs])
    return Quality.of([tally(_returned(a), _returned(b)) for a, b in pairs])


def _graded(scores: Sequence[GraphScore], reference: Sequence[GraphScore] = ()) -> Quality:
    """The quality with the measures of nodes and times, averaged over the trials."""

    def mean(parts: Iterable[Score | None]) -> float | None:
        known = [part.f1 for part in parts if part is not None and part.f1 is not None]
        return fmean(known) if known else None

    return replace(
        Quality.of([s.tally for s in scores], [s.tally for s in reference]),
        pairs=mean(s.pairs for s in scores),
        b_cubed=mean(s.b_cubed for s in scores),
        validity=mean(s.validity for s in scores),
        ended=mean(s.ended for s in scores),
    )


def _returned(attempt: Attempt) -> RowAnswers:
    """Returned rows, each as the answer of a separate unit: the table and all values."""
    result: dict[Hashable, Counter[Hashable]] = {}
    for name, table in attempt.tables.items():
        for row in table.to_pylist():
            result.setdefault((name, canonical_json(plain(row))), Counter())[()] += 1
    return result
