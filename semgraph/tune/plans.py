"""The tuning of whole plans: presets, other called plans, rules, the order of filters, and what the tuned
steps lose and cost together. Steps are measured on one half of the rows, and the cheapest plans made of
them are tested on the other half, which no choice has seen.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from functools import partial
from typing import Any

import pyarrow as pa

from semgraph.compare.comparison import Spent
from semgraph.compare.plans import PlanArms, returned_rows
from semgraph.compare.request import ComparisonRecord
from semgraph.compare.trial import Attempt, Bench
from semgraph.compare.truth import comparable, whole_rows
from semgraph.errors import BudgetReached, SemgraphError
from semgraph.execution.runtime import Opened
from semgraph.expr.functions import canonical_json
from semgraph.formats import plural
from semgraph.llm.stack import bound
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.prompt import plain
from semgraph.logical.relational import Input
from semgraph.logical.semantic import Semantic, SemFilter
from semgraph.optimizer.order_filters import adjacent_filters
from semgraph.scores import score_graph, tally
from semgraph.tune.candidates import Candidate, of_plan
from semgraph.tune.search import ANSWERS, LEAST, Chooser, TuneRequest, percent, rounded_down
from semgraph.tune.step import StepTuning
from semgraph.tune.trials import PILOT, REFERENCE, DrawnTrial, Prices, drawn
from semgraph.tune.tuning import Loss, Tried
from semgraph.tune.walk import Ask, Counted, Counts, Entry, Measure, Shown

_SOLUTIONS = 3  # plans made of tuned steps that are tested
_FEW = 5  # rows of the pilot of a plan that writes a graph
Solution = tuple[Loss, ...]


class PlanTuning(Chooser):
    """The tuning of a whole plan."""

    def __init__(self, request: TuneRequest, record: ComparisonRecord, opened: Opened) -> None:
        super().__init__(request, record, opened)
        self.base = base = record.request.arms[REFERENCE]
        plan = base.plan
        arms = {REFERENCE: base} | self.make(of_plan(plan, request.preset))
        record.request = replace(record.request, arms=arms)
        self.input, self.units = drawn(plan, base.inputs, request.seed)
        self.all, half = len(self.units), len(self.units) // 2
        self.groups = self.all if plan.windows else 0
        apart = request.steps and not plan.writes  # a graph is one unit, so that nothing is shown
        self.first = self.units[:half] if apart else self.units
        self.tested = self.units[half:] if apart else self.units
        self.sampled = min(request.sample, len(self.tested))
        self.walk.measure = measure_of(plan)
        self.costs: dict[str, float] = {}  # of 1,000 rows, before the walk
        self.changes: dict[str, Mapping[str, str]] = {}  # of candidates of steps
        self.keeps: dict[str, float] = {}  # the share of rows that a filter keeps
        self.parts: list[StepTuning] = []
        self.losses: tuple[Loss, ...] = ()
        self.solutions: dict[str, Solution] = {}  # the plans made of steps
        self.order = ""  # the candidate that changes nothing but the order of filters
        self.bench = Bench(record, dict.fromkeys(arms, opened))
        self.plans = self.arms = PlanArms(self.bench)
        self.plans.reference, self.prices = REFERENCE, self._priced()

    def _priced(self) -> Prices:
        """The prices of all models that a candidate calls."""
        roles = {role for arm in self.record.request.arms.values() for role in arm.plan.needs.roles}
        return Prices.by({role: bound(self.opened.llm, role) for role in sorted(roles)})

    async def search(self) -> None:
        """Measure the steps, then test whole plans."""
        await self.plans.prepare()
        self.record.begin()
        if self.request.steps:
            await self._of_steps()
        await self._pilot()
        reference, most = self.costs[REFERENCE], self.costs[REFERENCE] * (1 - LEAST)
        most = self.request.per_1000 or most
        self.require_dearer()
        cheaper = [name for name in self.candidates if self.costs.get(name, most) < most]
        least = min((self.costs[name] for name in cheaper), default=reference)
        if not self.request.steps or not cheaper:
            self.gained(reference, least, "the cheapest plan", sure=False)
        tested = [name for name in cheaper if name != self.order]
        self.before += self._power(len(tested))
        self.walk.entries = [Entry(n, self.costs[n], self.sampled, n) for n in tested]
        self.walk.units, self.walk.price = self.sampled, self.request.per_1000 or math.inf
        self.admit(
            self.expected(REFERENCE, self.sampled) * (1 + least / reference), reference - least
        )
        await self.walked()
        if self.order in cheaper:
            if self.walk.chosen:
                self.refused[self.order] = "another plan is shown"
            else:
                units = (await self.counted(Ask(self.order, self.sampled))).units  # without a test
                why = "the same rows, if the model is a function of the row"
                f1 = self.walk.measure.f1(units)
                self.walk.results[self.order] = Shown("shown", why, f1, None, len(units), 0.0)
                self.walk.chosen = self.order

    def _power(self, tests: int) -> Iterator[str]:
        """What would show the floor."""
        floor, measure = self.request.floor, self.walk.measure
        if floor is None or not tests:
            return
        if measure.bernoulli:
            needed = measure.needed(floor, self.request.error / (2 * tests))
            yield f"power: {floor:g} is shown by {needed:,} returned rows without an error ({2 * tests} tests)"
            return
        what = "the rows of a graph" if self.base.plan.writes else "rows that come from one row"
        line = f"power: {what} do not fail independently, so"
        if not self.groups:
            yield f"{line} nothing is shown"
            return
        needed, groups = measure.needed(floor, self.request.error), plural(self.groups, "group")
        yield f"{line} a group counts once: {groups} cannot show {floor:g}, it takes {needed:,} without an error"

    # Trials

    async def _attempt(self, name: str, rows: Sequence[int]) -> DrawnTrial:
        """Run a plan over some rows."""
        table = self.base.inputs[self.input].take(pa.array(sorted(rows), pa.int64()))
        arm = self.bench.arms[name]
        request = replace(arm.request, inputs={**arm.request.inputs, self.input: table})
        self.bench.arms[name] = arm._replace(request=request)
        return DrawnTrial(await self.bench.pays(partial(self.plans.attempt, name, 0)), rows)

    async def _pilot(self) -> None:
        """Run each plan over a few rows, which shows what it costs; the plans made of steps are known."""
        rows, scale = self._rows(self.units)[: _FEW if self.base.plan.writes else PILOT], 1.0
        made: dict[tuple[float, ...], str] = {}
        for name in (REFERENCE, *self.candidates):
            if name in self.costs and name != REFERENCE:
                continue
            try:
                found = await self._attempt(name, rows)
            except SemgraphError as error:
                if name == REFERENCE or isinstance(error, BudgetReached):
                    raise
                self.walk.results[name] = Shown("failed", str(error))
                continue
            self.extra += found.trial.cold
            spent = astuple(found.trial.cold)[:3]
            if (same := made.setdefault(spent, name)) != name:  # another name of the same requests
                self.refused[name] = f"it sends what {same} sends"
                continue
            cost = self.prices.of_thousand(found)
            if name == REFERENCE:  # whose steps may have been measured over more rows
                scale = self.costs.get(REFERENCE, cost) / cost if cost else 1.0
            self.costs[name] = cost * scale

    @staticmethod
    def _rows(units: Sequence[Sequence[int]]) -> list[int]:
        return [number for unit in units for number in unit]

    async def counted(self, ask: Ask) -> Counted:
        """Run a plan, and compare its graph, or its rows, with the truth or those of the reference."""
        rows = self._rows(self.tested[: ask.units])
        known = self.known.get(REFERENCE)
        more = known is None or len(known.numbers) < len(rows)
        if more:
            self.afford(REFERENCE, self.expected(REFERENCE, ask.units))
        base = await self._attempt(REFERENCE, rows)  # known answers are replayed
        if more:
            self.known[REFERENCE] = base
        own = self.known[ask.name] = await self._attempt(ask.name, rows)
        return Counted(self._counts(own.attempt, base.attempt), cost=self.cost(ask.name))

    def _counts(self, own: Attempt, base: Attempt) -> list[Counts]:
        truth = self.plans.truth
        if own.graph is not None and base.graph is not None:
            graph = comparable(own.graph, truth) if truth else own.graph
            return [*score_graph(graph, truth or base.graph).tally.values()]
        found = tally(returned_rows(own), returned_rows(base)).values()
        units: list[Counts] = []
        for hits, has, true in found:  # equal rows come from different ones of the input
            units += [(1, 1, 1)] * hits + [(0, 1, 0)] * (has - hits) + [(0, 0, 1)] * (true - hits)
        return units if self.walk.measure.exists else paired(units)

    def cost(self, name: str) -> float | None:
        """The cost of 1,000 rows, as measured last."""
        found = self.known.get(name)
        return self.costs.get(name) if found is None else self.prices.of_thousand(found)

    def expected(self, name: str, units: int) -> float:
        """The expected cost of a trial."""
        return (self.cost(name) or 0.0) * len(self._rows(self.tested[:units])) / 1000

    # Steps

    async def _of_steps(self) -> None:
        """Add the cheapest plans made of candidates of steps whose losses add up to at most what the floor
        allows. Raises NothingToChoose if nothing can be gained.
        """
        pilots = [await self._measured(step, self.first[:PILOT]) for step in self.request.steps]
        ends = [(pilot.ends(), self._share(pilot, self.first[:PILOT])) for pilot in pilots]
        reference, least = (sum(own[i] * share for own, share in ends) for i in (0, 1))
        others, of = bool(self.candidates), "the cheapest of each step"
        self.gained(reference, least, of, sure=False, ends=not others)
        curves = list[list[Loss]]()
        for pilot in pilots:
            measured = await self._measured(pilot.node.step, self.first, pilot)
            share, curve = self._share(measured, self.first), await measured.losses()
            curves.append([replace(each, cost=(each.cost or 0.0) * share) for each in curve])
            self._note(measured)
        for solution in cheapest(curves, await self._allowed(), self.request.per_1000):
            self._add(solution)
        self.losses = tuple(loss for curve in curves for loss in curve)
        costs = {curve[0].step: curve[0].cost or 0.0 for curve in curves}
        self.costs[REFERENCE] = sum(costs.values())
        if order := self._order(costs):
            self.order = f"order={order}"
            self._new(Candidate(self.order, {"order": order}, self.order))

    def _share(self, step: StepTuning, units: Sequence[Sequence[int]]) -> float:
        """The rows of a step for each row of the plan's input."""
        return step.trials.arms.frozen.rows.num_rows / max(len(self._rows(units)), 1)

    async def _allowed(self) -> float:
        """The loss that leaves room for the bound over the expected number of returned rows; of a graph, what
        the floor allows.
        """
        floor, measure = self.request.floor, self.walk.measure
        if floor is None:
            return 1.0
        rows = self._rows(self.units)[:PILOT]
        tables = (await self._attempt(REFERENCE, rows)).attempt.tables.values()
        each = sum(table.num_rows for table in tables) / len(rows)
        units = round(each * len(self._rows(self.tested[: self.sampled])))
        alpha = self.request.error / (2 * (_SOLUTIONS + len(self.candidates)))
        return measure.room(floor, units, alpha) if measure.bernoulli else 1 - floor

    def _note(self, measured: StepTuning) -> None:
        """Keep what the candidates of a step change, and the share of rows that a filter keeps."""
        self.changes |= {name: each.changes for name, each in measured.candidates.items()}
        rows, found = measured.known[REFERENCE].trial.rows, measured.known[REFERENCE].numbers
        if isinstance(measured.node, SemFilter) and rows is not None:
            self.keeps[measured.node.step] = rows.num_rows / max(len(found), 1)

    def _add(self, solution: Solution) -> None:
        """Add a plan made of candidates of steps, with its filters in their cheapest order."""
        changed = [loss.name for loss in solution if loss.name != REFERENCE]
        changes = {key: value for name in changed for key, value in self.changes[name].items()}
        order = self._order({loss.step: loss.cost or 0.0 for loss in solution})
        if order:
            changed, changes = [*changed, f"order={order}"], {**changes, "order": order}
        name = ", ".join(changed)
        self.solutions[name] = solution
        self._new(Candidate(name, changes, name), sum(loss.cost or 0.0 for loss in solution))

    def _new(self, candidate: Candidate, cost: float | None = None) -> None:
        """Make the arm of a candidate, whose cost may be known."""
        arms = self.make([candidate])
        whole = self.record.request
        self.record.request = replace(whole, arms={**whole.arms, **arms})
        self.prices = self._priced()
        for name, arm in arms.items():
            self.bench.arms[name] = self.bench.arms[REFERENCE]._replace(name=name, request=arm)
            self.bench.share(REFERENCE, name)
            if cost is not None:
                self.costs[name] = cost

    def _order(self, costs: Mapping[str, float]) -> str:
        """The order of adjacent filters by cost / (1 - the share of rows that is kept); "" if they are asked
        so already.
        """
        steps: list[str] = []
        for chain in adjacent_filters(self.base.plan):
            asked, left = dict[str, float](), 1.0
            for step in chain:
                if step not in costs or step not in self.keeps:
                    break
                asked[step] = costs[step] / max(left, 1e-9) / max(1 - self.keeps[step], 1e-9)
                left *= self.keeps[step]
            else:
                best = sorted(chain, key=lambda step: asked[step])
                steps += best if best != list(chain) else ()
        return ", ".join(steps)

    async def _measured(
        self, step: str, units: Sequence[Sequence[int]], pilot: StepTuning | None = None
    ) -> StepTuning:
        """The tuning of a step over the rows of some units, after its pilot."""
        whole, rows = self.record.request, self._rows(units)
        table = self.base.inputs[self.input].take(pa.array(sorted(rows), pa.int64()))
        inputs = {**self.base.inputs, self.input: table}
        base = replace(self.base, inputs=inputs)
        self.record.request = replace(whole, arms={REFERENCE: base}, inputs=inputs, truth=None)
        try:
            request = replace(self.request, steps=(step,), unit="row")
            tuning = StepTuning(request, self.record, self.opened)
            self.parts.append(tuning)
            await tuning.prepare()
            if pilot is None:
                await tuning.pilot()
            else:
                tuning.follow(pilot)
            return tuning
        finally:
            self.record.request = whole

    # The result

    @property
    def spent(self) -> Spent:
        """What the search cost by itself, with the steps."""
        return sum((part.spent for part in self.parts), super().spent)

    def facts(self) -> dict[str, Any]:
        """What was checked."""
        windowed = self.base.plan.windows is not None
        rows = self.base.inputs[self.input].take(pa.array(self._rows(self.tested), pa.int64()))
        digest = hashlib.sha256(canonical_json(plain(rows.to_pylist())).encode()).hexdigest()
        made = self.solutions.get(self.walk.chosen or self.walk.found, ())
        losses = tuple(replace(loss, chosen=loss in made) for loss in self.losses)
        return {"unit": "group" if windowed else "row", "sample": digest[:8], "losses": losses}

    def reference(self) -> Tried:
        """The reference; against a truth also its quality."""
        tried = Tried(REFERENCE, {}, "reference", cost=self.cost(REFERENCE))
        if REFERENCE not in self.known or self.plans.truth is None:
            return tried
        attempt = self.known[REFERENCE].attempt
        f1 = self.walk.measure.f1(self._counts(attempt, attempt))
        return replace(tried, f1=f1, spent=attempt.trial.cold)

    def promised(self, best: Tried) -> tuple[str, Sequence[str]]:
        """What the test of a plan promises, and what it assumes."""
        if best.at_least is None:
            return "The rows are the same, if the model is a function of the row.", ()
        rows = len(self.known[best.name].numbers)
        promise = (
            f"With a probability of at least {percent(self.request.confidence)} over the draw of these {rows:,} rows: F1 "
            f"of the returned rows against {ANSWERS} is at least {rounded_down(best.at_least)} over rows like the input they "
            "were drawn from, with these models, prompts and implementations."
        )
        return promise, (
            "It assumes that returned rows fail independently, also those that share a call.",
        )

    def common(self, pair: Mapping[str, DrawnTrial]) -> dict[str, Attempt]:
        """The trials of the reference and a plan over the rows of its last test."""
        return {name: own.attempt for name, own in pair.items()}


def measure_of(plan: LogicalPlan) -> Measure:
    """How returned rows are counted. They fail independently if each comes from one row of the input by
    itself, and no other one does.
    """
    nodes = [node for node in walk(*plan.roots) if not isinstance(node, Input)]
    alone = all(node.row_local and node.rows in ("1:1", "subset") for node in nodes)
    asking = (node for node in nodes if isinstance(node, Semantic))
    filters = all(isinstance(n, SemFilter) and not whole_rows(n).compare for n in asking)
    return Measure(exists=filters, bernoulli=alone and len(plan.returns) == 1 and not plan.writes)


def paired(units: Sequence[Counts]) -> list[Counts]:
    """Units of which a wrong row and a missing one are one error, as they are if an answer of a row is
    wrong. The bound of the share of right units is then the lesser one of precision and recall, each of
    which is exact.
    """
    (own, true), rest = ((0, 1, 0), (0, 0, 1)), [u for u in units if u[0] or u[1] == u[2]]
    wrong, missing = units.count(own), units.count(true)
    pairs: list[Counts] = [(0, 1, 1)] * min(wrong, missing)
    return [*rest, *pairs, *[own if wrong > missing else true] * abs(wrong - missing)]


def cheapest(
    curves: Sequence[Sequence[Loss]], allowed: float, price: float | None = None
) -> list[Solution]:
    """The cheapest choices of one candidate for each step whose losses add up to at most `allowed`, each
    of which loses less than those before it; below a price those that lose least: a knapsack of several
    choices. Losses of steps add up (the median error of that sum was 0.000 over 384 runs), their agreements
    do not multiply.

    >>> one = [Loss("a", "reference", 9.0, 1.0, 50), Loss("a", "a=packed", 2.0, 0.97, 50)]
    >>> two = [Loss("b", "reference", 9.0, 1.0, 50), Loss("b", "b=packed", 1.0, 0.97, 50)]
    >>> [[loss.name for loss in each] for each in cheapest([one, two], 0.05)]
    [['reference', 'b=packed']]
    """
    front: list[tuple[float, float, Solution]] = [(0.0, 0.0, ())]
    for curve in curves:
        grown = [
            (cost + (each.cost or 0.0), loss + 1 - (each.f1 or 0.0), (*made, each))
            for cost, loss, made in front
            for each in curve
        ]
        front, least = [], allowed + 1e-9
        for cost, loss, made in sorted(grown, key=lambda own: own[:2]):
            if loss <= least and (not front or loss < front[-1][1]):
                front.append((cost, loss, made))
    changed = (own for own in front if any(each.name != REFERENCE for each in own[2]))
    found = [made for cost, _, made in changed if price is None or cost <= price]
    return found[:_SOLUTIONS] if price is None else found[-_SOLUTIONS:]
