"""The tuning of one step: of its implementations, their parameters and models, over one draw of its rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from semgraph.compare.request import ComparisonRecord
from semgraph.compare.step import semantic_node
from semgraph.compare.trial import Attempt, Bench
from semgraph.display import option
from semgraph.errors import BudgetReached, PlanError, SemgraphError
from semgraph.execution.runtime import Opened
from semgraph.formats import dollars, plural
from semgraph.llm.stack import bound
from semgraph.logical.node import walk
from semgraph.logical.plan import LogicalPlan
from semgraph.logical.semantic import SemJoin
from semgraph.semantic.library import Library
from semgraph.tune.candidates import Candidate, of_step
from semgraph.tune.search import (
    LEAST,
    Chooser,
    NothingToChoose,
    TuneRequest,
    ends,
    percent,
    rounded_down,
)
from semgraph.tune.trials import PILOT, REFERENCE, DrawnTrial, StepTrials, drawn
from semgraph.tune.tuning import Loss, Tried
from semgraph.tune.walk import Ask, Counted, Entry, Shown

_TWICE = 60  # rows that the reference answers twice
_TIMES = 10  # rows of the input for a checked row of a step, if other steps are answered before
_DEARER = 0.1  # part of the error that is kept for candidates that cost more than the reference
_PAIRS = "the pairs of a row do not fail independently, so nothing is shown"


class StepTuning(Chooser):
    """The tuning of one step."""

    def __init__(self, request: TuneRequest, record: ComparisonRecord, opened: Opened) -> None:
        super().__init__(request, record, opened)
        base, (step,) = record.request.arms[REFERENCE], request.steps
        library = Library(record.runner.settings.operators)
        self.node = node = semantic_node(base.plan, step)
        self.request = replace(request, steps=(node.step,))
        default = library.reference(node.keyword)
        self.choice = (base.plan.choice(node.step) or default).over(default)
        models = request.models or (self.choice.model or "default",)
        self._require_distinct(models)
        limits = lambda role: bound(opened.llm, role).limits  # noqa: E731
        listed, refused = of_step(node, self.choice, library, models, limits)
        arms = {REFERENCE: base} | self.make(listed)
        self.refused |= refused
        inputs = self._some(base.plan, base.inputs)
        record.request = replace(record.request, arms=arms, step=node.step, inputs=inputs)
        bench = Bench(record, dict.fromkeys(arms, opened))
        self.trials = StepTrials(bench, request.unit, request.sample, request.seed)
        self.walk.measure = self.trials.measure
        self.arms, self.prices = self.trials.arms, self.trials.prices

    def _some(self, plan: LogicalPlan, inputs: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
        """The rows of the plan's inputs; if steps before this one call a model, as many drawn ones as the
        sample may need.
        """
        before = [n for source in self.node.inputs for n in walk(source) if n.calls_model]
        most = self.request.sample * _TIMES
        if not before or max(table.num_rows for table in inputs.values()) <= most:
            return inputs
        (name, units), numbers = drawn(plan, inputs, self.request.seed), list[int]()
        for unit in units:
            if len(numbers) < most:
                numbers += unit
        self.before.append(f"rows: of {len(numbers):,} drawn rows of {name}, by the steps before")
        return {**inputs, name: inputs[name].take(pa.array(sorted(numbers), pa.int64()))}

    def _require_distinct(self, models: Sequence[str]) -> None:
        """Refuse a role that has the model of another one. Raises PlanError."""
        roles = {each: self.node.of_model("" if each == "default" else each) for each in models}
        llm = self.opened.llm
        names = {each: bound(llm, of.prompt.first.role).name for each, of in roles.items()}
        for each in models[1:]:
            if names[each] == names[models[0]]:
                what = f"{each} is the same model as {models[0]}, {names[each]}"
                hint = f"bind it to another one: {option('model', f'{each}=MODEL')}"
                raise PlanError(what, hint=hint)

    async def search(self) -> None:
        """Look at the gain and the power, then walk."""
        await self.prepare()
        if self.trials.truth is not None:
            self.walk.error = self.request.error * (1 - _DEARER)
            cheaper = self.cheaper(list(self.candidates))
            self._able(cheaper, self.walk.error)  # before anything is spent
        self.record.begin()
        await self.pilot()
        await self._against_truth()
        self.walk.entries, self.walk.units = self._entries(), self.sampled
        if self.walk.entries:
            ask, least = next(self.walk.steps()), min(entry.cost for entry in self.walk.entries)
            asked = () if self.trials.truth is not None else (ask.units, _TWICE)
            cost = sum(self.expected(REFERENCE, units) for units in asked)
            cost += self.expected(ask.name, ask.units)  # the first trial
            self.admit(cost, (self.cost(REFERENCE) or 0.0) - least)
        await self._reference_twice()
        await self.walked()
        if self.below and not self.walk.chosen:
            await self._dearer()

    async def _dearer(self) -> None:
        """Try the other candidates, with the part of the error that is kept for them: whether they are
        tried depends on the same rows.
        """
        names = [n for n in self.candidates if n not in self.walk.results and n not in self.refused]
        before, error = self.walk, self.request.error * _DEARER
        try:
            names = self._able(names, error)
        except PlanError as few:
            self.refused |= dict.fromkeys(names, str(few))
        else:
            entries = self._as_entries(names)
            self.walk = replace(before, entries=entries, error=error, results=dict(before.results))
            await self.walked()

    async def prepare(self) -> None:
        """Compute and draw the rows."""
        await self.trials.prepare()
        for name, error in self.trials.lost.items():
            self._lose(name, error)
        self.extra += self.trials.arms.frozen.before
        self.all = len(self.trials.units)
        self.sampled = min(self.request.sample, self.all)

    # Before the search

    def cost(self, name: str) -> float | None:
        """The cost of 1,000 rows: as measured, else as far as it is known; before the pilot that of the
        prompts.
        """
        found = self.known.get(name)
        if found is not None and (name == REFERENCE or name in self.walk.results):
            return self.prices.of_thousand(found)
        family = self.candidates[name].family if name in self.candidates else REFERENCE
        return self.trials.expected(name, family)

    def cheaper(self, names: Sequence[str]) -> list[str]:
        """The candidates that cost clearly less than the reference, or than the price, or an unknown
        amount.
        """
        reference, costs = self.cost(REFERENCE), {name: self.cost(name) for name in names}
        if reference is None:
            return list(names)
        most = self.request.per_1000 or reference * (1 - LEAST)
        costs = {name: cost for name, cost in costs.items() if name not in self.refused}
        return [name for name, cost in costs.items() if cost is None or cost < most]

    def _true_answers(self) -> float:
        """The units that can show a floor in the checked rows: by the truth, else as in the pilot."""
        trials, truth = self.trials, self.trials.truth
        if truth is not None:
            numbers = [unit[0] for unit in trials.units[: self.sampled]]
            wanted = truth.wanted(trials.arms.frozen.rows.take(pa.array(numbers, pa.int64())))
            return float(sum(own.total() for own in wanted.values()))
        return trials.true_answers(self.known[REFERENCE]) * self.sampled

    def _able(self, names: Sequence[str], error: float) -> list[str]:
        """The candidates that the checked rows can show to have the floor, if their tests share an error.

        Raises:
            PlanError: None of them; the message says how many rows would do.
        """
        trials, floor = self.trials, self.request.floor
        if floor is None or not names or not trials.measure.bernoulli:
            if isinstance(self.node, SemJoin) and floor is not None:
                apart = f"{option('units', 'row')} takes them for independent"
                self.before = [f"power: {_PAIRS}; {apart}"]
            return list(names)
        alpha = replace(self.walk, entries=self._as_entries(names), error=error).alpha
        tests, true = round(error / alpha), self._true_answers()
        needed, rate = trials.measure.needed(floor, alpha), true / self.sampled
        what = "true answers" if trials.measure.exists or true < self.sampled else "rows"
        line = (
            f"power: {floor:g} is shown by {needed:,} {what} without an error ({tests} tests); "
            f"{plural(self.sampled, 'checked row')} have {'about ' * (trials.truth is None)}{true:,.0f}"
        )
        units = math.ceil(needed / rate) if rate else 0
        rows = {name: units * trials.rows_of_unit(name) for name in names if rate}
        able = [name for name in rows if trials.most(name) * rate >= needed]
        if able:
            first = error == self.walk.error  # also before the pilot
            self.before = [b for b in self.before if not (first and b.startswith("power"))] + [line]
            few = f" (or {option('units', 'row')})"
            self.refused |= {
                name: f"it takes about {rows[name]:,} rows, as one of each call is checked{few}"
                for name in names
                if name not in able
            }
            return able if len(able) == len(names) else self._able(able, error)  # of other tests
        least = min(rows.values(), default=0)
        if not least:
            seen = self.sampled if trials.truth else len(self.known[REFERENCE].numbers)
            hint = f"give rows of which more have an answer: of {plural(seen, 'row')} none has one"
        elif least > len(trials.units):
            apart = f", or {option('units', 'row')}" * (min(map(trials.rows_of_unit, names)) > 1)
            hint = f"about {least:,} rows would do, and the input has {len(trials.units):,}{apart}"
        else:
            hint = f"check more rows: {option('sample', math.ceil(needed / rate))}"
        raise PlanError(f"these rows cannot show an F1 of {floor:g}", there=line, hint=hint)

    async def pilot(self) -> None:
        """Observe the length of the answers of each family that might be cheaper, on a few rows; and what
        candidates cost whose requests depend on answers.
        """
        await self._observe(REFERENCE, REFERENCE)
        trials = self.trials
        if trials.truth is None and trials.measure.bernoulli and not self._true_answers():
            await self._reference(min(max(_TWICE, self.sampled // 10), trials.most(REFERENCE)))
        families: dict[str, list[str]] = {}
        for name in self.cheaper(list(self.candidates)):
            families.setdefault(self.candidates[name].family, []).append(name)
        for family, names in families.items():
            costs = {name: self.cost(name) for name in names}
            known = {name: cost for name, cost in costs.items() if cost is not None}
            for name in [min(known, key=lambda n: known[n])] if known else names:
                await self._observe(name, family)

    async def _observe(self, name: str, family: str) -> None:
        trials = self.trials
        wide = min(trials.rows_of_call(name), PILOT)
        try:
            found = await self._answers(name, max(min(PILOT, len(trials.units)) // wide, 1))
            await trials.observed(name, family, found)
        except SemgraphError as error:
            if name == REFERENCE or isinstance(error, BudgetReached):
                raise
            self._lose(name, str(error))
            self.known.pop(name, None)  # its cost is not known

    def _lose(self, name: str, error: str) -> None:
        self.refused[name] = error
        self.walk.results[name] = Shown("failed", error)

    def _entries(self) -> list[Entry]:
        """The candidates to try. Raises PlanError, or NothingToChoose with the reason."""
        limit, reference = self.request.per_1000, self.cost(REFERENCE)
        names = [name for name in self.candidates if name not in self.refused]
        costs = {name: self.cost(name) or 0.0 for name in names}
        if limit is not None:
            self.require_dearer()
            names, costs[REFERENCE] = [REFERENCE, *names], reference or 0.0
            names, self.walk.price = [name for name in names if costs[name] <= limit], limit
            if not names:
                raise NothingToChoose(f"no candidate costs at most {dollars(limit)} for 1,000 rows")
        else:
            names = self._able(self.cheaper(names), self.walk.error)
            least = min(costs.values(), default=reference or 0.0)
            sure, ends = not self.trials.measured, not self.below
            self.gained(reference or 0.0, least, "the cheapest candidate", sure=sure, ends=ends)
        return self._as_entries(names)

    def _as_entries(self, names: Sequence[str]) -> list[Entry]:
        same = Candidate(REFERENCE, family=REFERENCE)
        each = ((name, self.candidates.get(name, same)) for name in names)
        return [
            Entry(name, self.cost(name) or 0.0, self.trials.most(name), of.family, of.risk)
            for name, of in each
        ]

    def expected(self, name: str, units: int) -> float:
        """The expected cost of a trial."""
        rows = min(units, self.trials.most(name)) * self.trials.rows_of_call(name)
        return (self.cost(name) or 0.0) * rows / 1000

    # The search

    async def _answers(self, name: str, units: int, number: int = 0) -> DrawnTrial:
        found = await self.trials.answers(name, units, number)
        if number:
            self.extra += found.trial.cold
        else:
            self.known[name] = found
        return found

    async def _against_truth(self) -> None:
        """Whether the reference itself is below the floor; then dearer candidates are tried as well."""
        trials, floor = self.trials, self.request.floor
        if trials.truth is None or floor is None:
            return
        few = max(PILOT, self.sampled // 4)  # a small sample shall not be paid for twice
        found = await self._reference(min(_TWICE, few, trials.most(REFERENCE)))
        units = trials.counted(REFERENCE, found, None)
        most = trials.measure.at_most(units, self.request.error)
        if most < floor:
            self.below = True
            f1 = trials.measure.f1(units) or 0.0
            where = f"F1 {f1:.3f} on {len(units)} rows, at most {most:.3f}"
            self.before.append(f"the reference is itself below the floor: {where}")

    async def _reference_twice(self) -> None:
        """Compare the reference with itself. Raises PlanError if it agrees less than the floor."""
        trials, units = self.trials, min(_TWICE, self.trials.most(REFERENCE))
        if trials.truth is not None:
            return
        first = await self._answers(REFERENCE, units)
        again = await self._answers(REFERENCE, units, 1)
        self.agrees = trials.measure.f1(trials.counted(REFERENCE, again, first))
        if self.agrees is not None and self.agrees < (self.request.floor or 0.0):
            what = f"the reference agrees with itself only {self.agrees:.2f}"
            raise PlanError(what, hint=f"a floor below it: {option('floor', f'{self.agrees:.2f}')}")

    async def _reference(self, units: int) -> DrawnTrial:
        """The reference's answers to at least so many units."""
        known = self.known.get(REFERENCE)
        if known is None or len(known.checked) < units:
            self.afford(REFERENCE, self.expected(REFERENCE, units))
            known = await self._answers(REFERENCE, units)
        return known

    async def counted(self, ask: Ask) -> Counted:
        """Try a candidate over some rows, and count its answers."""
        reference = None if self.trials.truth is not None else await self._reference(ask.units)
        found = await self._answers(ask.name, ask.units)
        units = self.trials.counted(ask.name, found, reference)
        return Counted(units, cost=self.prices.of_thousand(found))

    def follow(self, pilot: StepTuning) -> None:
        """Take what a pilot over other rows has observed."""
        self.trials.seen, self.trials.measured = pilot.trials.seen, pilot.trials.measured
        self.refused |= pilot.refused

    def ends(self) -> tuple[float, float]:
        """The cost of 1,000 rows by the reference, and by the cheapest candidate."""
        reference = self.cost(REFERENCE) or 0.0
        able = (name for name in self.candidates if name not in self.refused)
        return reference, min((self.cost(name) or 0.0 for name in able), default=reference)

    async def losses(self) -> list[Loss]:
        """What the cheaper candidates lose over the drawn rows, from cheap to dear, and what they cost:
        after the pilot, without those that cost more than one without a loss.
        """
        name, reference = self.node.step, await self._reference(self.sampled)
        found = [Loss(name, REFERENCE, self.cost(REFERENCE), 1.0, len(reference.checked))]
        least = math.inf
        for each in sorted(self.cheaper(list(self.candidates)), key=lambda n: self.cost(n) or 0.0):
            if (self.cost(each) or 0.0) >= least:
                break
            try:
                own = await self._answers(each, self.sampled)
            except SemgraphError as error:
                if ends(error):
                    raise
                self._lose(each, str(error))
                continue
            units = self.trials.counted(each, own, reference)
            cost, f1 = self.prices.of_thousand(own), self.walk.measure.f1(units)
            found.append(loss := Loss(name, each, cost, f1, len(units)))
            if loss.f1 == 1.0:
                least = min(least, loss.cost or 0.0)
        return found

    # The result

    def facts(self) -> dict[str, Any]:
        """What was checked."""
        return {"unit": self.trials.unit, "sample": self.trials.digest(self.sampled)}

    def reference(self) -> Tried:
        """The reference, measured against the truth if there is one."""
        trials, found = self.trials, self.known.get(REFERENCE)
        cost, changes = self.cost(REFERENCE), {self.node.step: str(self.choice)}
        tried = Tried(REFERENCE, changes, "reference", cost=cost)
        if found is None:
            return tried
        units = () if trials.truth is None else trials.counted(REFERENCE, found, None)
        least = trials.measure.at_least(units, self.request.error) if units else None
        f1 = trials.measure.f1(units)
        return replace(tried, f1=f1, at_least=least, units=len(units), spent=found.trial.cold)

    def promised(self, best: Tried) -> tuple[str, Sequence[str]]:
        """What the test of a candidate promises, and what it assumes."""
        trials = self.trials
        rows, asked, over, assumed = trials.all, self.all, "rows like the input", list[str]()
        if rows > asked:
            over = "different questions like those of the rows"
            assumed = [f"Rows that ask the same count once: {rows:,} rows ask {asked:,} questions."]
        each = ", one of each call" if trials.unit == "call" else ""
        promise = (
            f"With a probability of at least {percent(self.request.confidence)} over the draw of these "
            f"{best.units:,} rows{each}: F1 of {self.node.step} against {self.against} is at least "
            f"{rounded_down(best.at_least)} over {over} they were drawn from, with this model, these prompts and this "
            "implementation."
        )
        if trials.unit == "call":
            return promise, assumed
        seen = trials.clusters(best.name, self.known[best.name], self.known.get(REFERENCE))
        observed = f"; observed: {seen}" if seen else ""
        what = "pairs of one row or call" if isinstance(self.node, SemJoin) else "rows of one call"
        return promise, (*assumed, f"It assumes that {what} fail independently{observed}.")

    def common(self, pair: Mapping[str, DrawnTrial]) -> dict[str, Attempt]:
        """The trials of the reference and a candidate over the rows that both have answered."""
        return self.trials.common(pair)
