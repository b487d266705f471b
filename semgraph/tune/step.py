"""A tuning from its request to its result: the gain and the power before anything is spent, the search,
and what it shows.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from semgraph.compare.comparison import Arm, Comparison, Spent
from semgraph.compare.loop import opened_arms, recorded_errors
from semgraph.compare.preview import limits
from semgraph.compare.request import ArmRequest, ComparisonRecord, ComparisonRequest, Runner
from semgraph.compare.step import semantic_node
from semgraph.compare.trial import KEPT, Attempt, Bench
from semgraph.display import option
from semgraph.errors import BudgetReached, PlanError, SemgraphError, UnavailableError
from semgraph.execution.record import timestamp
from semgraph.execution.runtime import Opened, require_prices
from semgraph.formats import dollars, plural
from semgraph.llm.base import Limits
from semgraph.llm.stack import bound
from semgraph.logical.plan import LogicalPlan
from semgraph.semantic.library import Library
from semgraph.tune.candidates import Candidate, of_step
from semgraph.tune.step import PILOT, REFERENCE, Answers, StepTrials
from semgraph.tune.tuned import choice_of
from semgraph.tune.tuning import Status, Tried, Tuning, Unit, save_tuning
from semgraph.tune.walk import Ask, Counted, Entry, Shown, Walk

LEAST = 0.1  # a smaller saving is not worth a choice
ANSWERS = "the reference's answers"
_TWICE = 60  # rows that the reference answers twice
Make = Callable[[Mapping[str, Mapping[str, str]]], Mapping[str, ArmRequest]]


@dataclass(frozen=True)
class TuneRequest:
    """The arguments of a tuning; see `Session.atune`.

    Args:
        compared: The plan, its rows, the truth; without arms.
        make: Makes arms of changes by name. Raises PlanError.
    """

    compared: ComparisonRequest
    make: Make
    steps: tuple[str, ...]
    floor: float | None
    per_1000: float | None
    confidence: float
    sample: int
    seed: int
    unit: Unit
    models: tuple[str, ...]
    rows: int | None = None
    ask: Callable[[Sequence[str]], bool] | None = None

    def __post_init__(self) -> None:
        """Refuse numbers out of range. Raises PlanError."""
        one = (self.floor is None) == (self.per_1000 is None)
        for name, value, fits, form in (
            (
                "floor",
                self.floor,
                self.floor is None or 0 < self.floor < 1,
                "a number between 0 and 1: 0.95",
            ),
            (
                "confidence",
                self.confidence,
                0.5 <= self.confidence < 1,
                "a number from 0.5 to below 1: 0.95",
            ),
            ("sample", self.sample, self.sample >= 1, "a number of rows: 400"),
            ("per_1000", self.per_1000, self.per_1000 is None or self.per_1000 > 0, "dollars"),
            ("rows", self.rows, self.rows is None or self.rows >= 1, "a number of rows"),
            (
                "floor",
                self.floor,
                not one,
                f"give {option('floor', '0.95')} or {option('per-1000', 'USD')}",
            ),
        ):
            if not fits:
                raise PlanError(f"{name.replace('_', '-')} is {value}", hint=form)

    @property
    def error(self) -> float:
        """The greatest probability of a choice below the floor."""
        return 1 - self.confidence


class NothingToChoose(Exception):
    """The end of a tuning without a choice: the reference stays, and why."""


async def tune(request: TuneRequest, runner: Runner) -> Tuning:
    """Tune, and record the result or the error.

    Raises:
        PlanError: The request is wrong, or the rows cannot show the floor.
        BudgetReached: The search would exceed a limit; nothing was tried.
    """
    if runner.replays:
        what = "a recording has one answer to each question, so nothing else can be tried"
        raise PlanError(what, hint=f"name a model: {option('llm', 'MODEL')}")
    plan = request.compared.plan
    steps = request.steps or tuple(plan.asking)
    first = next(iter(request.models), "default")
    strongest = {} if first == "default" else dict.fromkeys(steps, f"@ {first}")
    compared = replace(request.compared, arms=request.make({REFERENCE: strongest}))
    async with opened_arms(compared, runner) as (opened, models):
        record = ComparisonRecord(compared, runner, opened, kind="tuning")
        with recorded_errors(record):
            result = await StepTuning(
                replace(request, steps=steps), record, models[REFERENCE]
            ).result()
        record.end("budget" if result.stopped else "tuned", result.stopped)
        return result


class StepTuning:
    """The tuning of one step."""

    def __init__(self, request: TuneRequest, record: ComparisonRecord, opened: Opened) -> None:
        self.request, self.record, self.opened = request, record, opened
        plan, (self.step,) = record.request.arms[REFERENCE].plan, request.steps
        self.began, self.spent, self.before = time.perf_counter(), Spent(), list[str]()
        self.agrees: float | None = None
        self.below = False  # whether the reference itself is below the floor, by the truth
        self.known: dict[str, Answers] = {}  # the last answers of each candidate
        self.candidates, self.refused = self._candidates(plan)
        self.bench = Bench(record, dict.fromkeys(record.request.arms, opened))
        for arm in self.bench.arms.values():
            require_prices(arm.plan, opened.budget, opened.llm, opened.embedder)
        self.trials = StepTrials(self.bench, request.unit, request.sample, request.seed)
        self.walk = Walk((), self.trials.measure, request.floor, request.error, request.sample)

    def _candidates(self, plan: LogicalPlan) -> tuple[dict[str, Candidate], dict[str, str]]:
        """The candidates whose arms can be made, which the record gets, and why others cannot."""
        request, record, library = self.request, self.record, self.library
        self.node = node = semantic_node(plan, self.step)
        default = library.reference(node.keyword)
        self.choice = (plan.choice(node.step) or default).over(default)
        models = request.models or (self.choice.model or "default",)
        listed, refused = of_step(node, self.choice, library, models, self._limits)
        arms, candidates = dict(record.request.arms), dict[str, Candidate]()
        for each in listed:
            try:
                arms |= request.make({each.name: each.changes})
                candidates[each.name] = each
            except PlanError as error:
                refused[each.name] = str(error)
        record.request = replace(record.request, arms=arms, step=node.step)
        return candidates, refused

    @property
    def library(self) -> Library:
        """The implementations."""
        return Library(self.record.runner.settings.operators)

    def _limits(self, role: str) -> Limits:
        return bound(self.opened.llm, role).limits

    async def result(self) -> Tuning:
        """Prepare, search, and say what is shown. Raises PlanError."""
        stopped, kept, trials = None, "", self.trials
        try:
            await trials.prepare()
            self.sampled = min(self.request.sample, len(trials.units))
            if trials.truth is not None:
                self._able(self._cheaper(list(self.candidates)))  # before anything is spent
            self.record.begin()
            await self._pilot()
            await self._against_truth()
            self.walk = replace(self.walk, entries=self._entries(), units=self.sampled)
            self._admit()
            await self._reference_twice()
            await self._walk()
        except NothingToChoose as end:
            kept = str(end)
        except BudgetReached as error:
            if not self.record.id:
                raise
            stopped = f"{str(error).removeprefix('stopped ')}. {KEPT}"
        return await self._tuning(kept, stopped)

    # Before the search

    def _cost(self, name: str) -> float | None:
        """The cost of 1,000 rows, as far as it is known; before the pilot that of the prompts."""
        family = self.candidates[name].family if name in self.candidates else REFERENCE
        return self.trials.expected(name, family)

    def _cheaper(self, names: Sequence[str]) -> list[str]:
        """The candidates that cost clearly less than the reference, or an unknown amount."""
        reference, costs = self._cost(REFERENCE), {name: self._cost(name) for name in names}
        if reference is None:
            return list(names)
        most = reference * (1 - LEAST)
        return [name for name, cost in costs.items() if cost is None or cost < most]

    def _true_answers(self) -> float:
        """The units that can show a floor in the checked rows: by the truth, else as in the pilot."""
        trials, truth = self.trials, self.trials.truth
        if not trials.measure.exists:
            return float(self.sampled)
        if truth is not None:
            numbers = [unit[0] for unit in trials.units[: self.sampled]]
            wanted = truth.wanted(trials.arms.frozen.rows.take(pa.array(numbers, pa.int64())))
            return float(sum(own.total() for own in wanted.values()))
        pilot = self.known[REFERENCE]
        counts = trials.counted(REFERENCE, pilot, pilot).units
        return sum(true for _, _, true in counts) / len(pilot.checked) * self.sampled

    def _able(self, names: Sequence[str]) -> list[str]:
        """The candidates that the checked rows can show to have the floor.

        Raises:
            PlanError: None of them; the message says how many rows would do.
        """
        trials, floor = self.trials, self.request.floor
        if floor is None or not names or not trials.measure.bernoulli:
            return list(names)
        tests, true = 2 * len(names), self._true_answers()
        needed, rate = trials.measure.needed(floor, self.request.error / tests), true / self.sampled
        what = "true answers" if trials.measure.exists else "rows"
        line = (
            f"power: {floor:g} is shown by {needed:,} {what} without an error ({tests} tests); "
            f"{plural(self.sampled, 'checked row')} have {'about ' * (trials.truth is None)}{true:,.0f}"
        )
        rows = {
            name: math.ceil(needed / rate) * trials.rows_of_call(name) for name in names if rate
        }
        able = [name for name in rows if trials.most(name) * rate >= needed]
        if able:
            self.before = [line]
            few = f"; the input has {len(trials.units):,}"
            self.refused |= {
                name: f"it takes about {rows[name]:,} rows, as one of each call is checked{few}"
                for name in names
                if name not in able
            }
            return able
        least = min(rows.values(), default=0)
        if not least:
            hint = "give rows of which some have an answer"
        elif least > len(trials.units):
            apart = f", or {option('units', 'row')}" * (min(map(trials.rows_of_call, names)) > 1)
            hint = f"about {least:,} rows would do, and the input has {len(trials.units):,}{apart}"
        else:
            hint = f"check more rows: {option('sample', math.ceil(needed / rate))}"
        raise PlanError(f"these rows cannot show an F1 of {floor:g}", there=line, hint=hint)

    async def _pilot(self) -> None:
        """Observe the length of the answers of each family that might be cheaper, on a few rows; and what
        candidates cost whose requests depend on answers.
        """
        await self._observe(REFERENCE, REFERENCE)
        families: dict[str, list[str]] = {}
        for name in self._cheaper(list(self.candidates)):
            families.setdefault(self.candidates[name].family, []).append(name)
        for family, names in families.items():
            costs = {name: self._cost(name) for name in names}
            known = {name: cost for name, cost in costs.items() if cost is not None}
            for name in [min(known, key=lambda n: known[n])] if known else names:
                await self._observe(name, family)

    async def _observe(self, name: str, family: str) -> None:
        trials = self.trials
        wide = min(trials.rows_of_call(name), PILOT)
        found = await self._answers(name, max(min(PILOT, len(trials.units)) // wide, 1))
        await trials.observed(name, family, found)

    def _entries(self) -> list[Entry]:
        """The candidates to try. Raises PlanError, or NothingToChoose with the reason."""
        names, limit, reference = (
            list(self.candidates),
            self.request.per_1000,
            self._cost(REFERENCE),
        )
        costs = {name: self._cost(name) or 0.0 for name in names}
        if limit is not None:
            names = [name for name in names if costs[name] <= limit]
            if not names:
                raise NothingToChoose(f"no candidate costs at most {dollars(limit)} for 1,000 rows")
        elif not self.below:
            names = self._able(self._cheaper(names))
            least = min((costs[name] for name in names), default=reference or 0.0)
            gain = 1 - least / reference if reference else 0.0
            self.before.append(self._gain(least, gain))
            if gain < LEAST:
                raise NothingToChoose(f"at most {max(gain, 0):.0%} to gain")
        of = self.candidates
        return [
            Entry(name, costs[name], self.trials.most(name), of[name].family, of[name].risk)
            for name in names
        ]

    def _gain(self, least: float, gain: float) -> str:
        reference = self._cost(REFERENCE) or 0.0
        return (
            f"gain: at most {max(gain, 0):.0%}; 1,000 rows cost {self._money(reference)} by the reference, "
            f"{self._money(least)} by the cheapest candidate"
        )

    def _money(self, amount: float) -> str:
        return dollars(amount, exact=True) if self.trials.priced else f"{amount:,.0f} tokens"

    def _of_rows(self, name: str, units: int) -> float:
        """The expected cost of a trial."""
        return (self._cost(name) or 0.0) * units * self.trials.rows_of_call(name) / 1000

    def _admit(self) -> None:
        """Refuse a search that would pass a limit, or cost more than it can save. Raises BudgetReached or
        NothingToChoose.
        """
        rows, cheapest = self.request.rows, min(self.walk.entries, key=lambda entry: entry.cost)
        reference = 0.0 if self.trials.truth is not None else self._of_rows(REFERENCE, self.sampled)
        cost = reference + self._of_rows(cheapest.name, min(self.sampled, cheapest.units))
        self._afford("the search", cost)
        lines = [
            *self.before,
            f"search: at least {self._money(cost)}; {limits(self.opened.budget)}",
        ]
        self.bench.say(lines)
        if rows is not None:
            saves = ((self._cost(REFERENCE) or 0.0) - cheapest.cost) * rows / 1000
            if saves < cost:
                what = f"the search would cost {self._money(cost)} and save at most {self._money(saves)}"
                raise NothingToChoose(f"{what} on {rows:,} rows")
        if self.request.ask is not None and not self.request.ask(lines):
            raise NothingToChoose("the search was not begun")

    def _afford(self, what: str, cost: float) -> None:
        """Refuse what would pass the limit in dollars. Raises BudgetReached."""
        budget = self.opened.budget
        if budget.max_usd is None or not self.trials.priced:
            return
        if budget.spent.usd + cost > budget.max_usd * (1 + 1e-9):
            would = (
                f"{what}, about {dollars(cost, exact=True)}, would pass max_usd {budget.max_usd:g}"
            )
            raise BudgetReached(f"stopped before {would}")

    # The search

    async def _answers(self, name: str, units: int, number: int = 0) -> Answers:
        found = await self.trials.answers(name, units, number)
        self.spent += found.cold
        if not number:
            self.known[name] = found
        return found

    async def _against_truth(self) -> None:
        """Whether the reference itself is below the floor; then dearer candidates are tried as well."""
        trials, floor = self.trials, self.request.floor
        if trials.truth is None or floor is None:
            return
        found = await self._reference(min(_TWICE, self.sampled))
        units = trials.counted(REFERENCE, found, None).units
        most = trials.measure.at_most(units, self.request.error)
        if most < floor:
            self.below = True
            f1 = trials.measure.f1(units) or 0.0
            where = f"F1 {f1:.3f} on {len(units)} rows, at most {most:.3f}"
            self.before.append(f"the reference is itself below the floor: {where}")

    async def _reference_twice(self) -> None:
        """Compare the reference with itself. Raises PlanError if it agrees less than the floor."""
        trials, units = self.trials, min(_TWICE, self.sampled)
        if trials.truth is not None:
            return
        first = await self._answers(REFERENCE, units)
        again = await self._answers(REFERENCE, units, 1)
        self.agrees = trials.measure.f1(trials.counted(REFERENCE, again, first).units)
        if self.agrees is not None and self.agrees < (self.request.floor or 0.0):
            what = f"the reference agrees with itself only {self.agrees:.2f}"
            raise PlanError(what, hint=f"a floor below it: {option('floor', f'{self.agrees:.2f}')}")

    async def _reference(self, units: int) -> Answers:
        """The reference's answers to at least so many units."""
        known = self.known.get(REFERENCE)
        if known is None or len(known.checked) < units:
            self._afford(REFERENCE, self._of_rows(REFERENCE, units))
            known = await self._answers(REFERENCE, units)
        return known

    async def _walk(self) -> None:
        """Try what the walk asks for, and say what is found."""
        steps = self.walk.steps()
        ask = next(steps, None)
        while ask is not None:
            name, found = ask.name, await self._counted(ask)
            try:
                ask = steps.send(found)
            except StopIteration:
                ask = None
            self.bench.say([said(name, self.walk.results[name])])

    async def _counted(self, ask: Ask) -> Counted:
        """The counts of a candidate. One that fails ends the trial, not the search."""
        reference = None if self.trials.truth is not None else await self._reference(ask.units)
        self._afford(ask.name, self._of_rows(ask.name, ask.units))
        try:
            found = await self._answers(ask.name, ask.units)
        except (BudgetReached, UnavailableError):
            raise
        except SemgraphError as error:
            return Counted(failed=str(error))
        return self.trials.counted(ask.name, found, reference)

    # The result

    async def _tuning(self, kept: str, stopped: str | None) -> Tuning:
        """The result, in the record."""
        tried = {each.name: each for each in self._tried()}
        reference, chosen = self._of_reference(), self.walk.chosen
        if chosen and not kept and self.request.floor is not None and not self.below:
            kept = self._no_saving(tried[chosen], reference)
        status: Status = "shown" if chosen and not kept else "kept"
        if status == "kept" and not kept and (chosen := self.walk.found):
            status = "found"
        best = tried[chosen] if chosen and status != "kept" else None
        result = Tuning(
            id=self.record.id, plan=self.record.request.plan.name, steps=(self.node.step,), status=status,
            reason=kept or self._reason(status, best, reference, stopped), reference=reference,
            tried=tuple(tried.values()), chosen=best.name if best else "", **self._facts(), stopped=stopped,
            **(self._promise(best) if best and status == "shown" else {}),
            pays_back=self._pays_back(best, reference) if best and status == "shown" else None,
            choice=self._choice(best, reference) if best and status == "shown" else {},
            comparison=await self._compared(best.name) if best else None, paid=self.record.paid,
            record=self.record.record.folder if self.record.record else None,
        )  # fmt: skip
        if self.record.record is not None:
            save_tuning(result, self.record.record)
        return result

    def _facts(self) -> dict[str, Any]:
        """What is known of the draw and the search."""
        request, trials = self.request, self.trials
        return {
            "floor": request.floor, "per_1000": request.per_1000, "confidence": request.confidence,
            "measure": f"F1 against {'the truth' if trials.truth else ANSWERS}", "unit": trials.unit,
            "sampled": (self.sampled, len(trials.units)), "sample": trials.digest(self.sampled),
            "rule": self.walk.rule, "before": tuple(self.before), "agrees": self.agrees,
            "priced": trials.priced, "prices": trials.prices, "spent": self.spent,
            "seconds": time.perf_counter() - self.began,
        }  # fmt: skip

    def _tried(self) -> Iterator[Tried]:
        """The candidates in the order of trial, then those that were not tried, and why."""
        results, of = self.walk.results, self.candidates
        for name, shown in results.items():
            found = self.known.get(name) if shown.units else None
            cost = self.trials.of_thousand(found) if found else self._cost(name)
            spent = found.cold if found else Spent()
            yield Tried(name, of[name].changes, cost=cost, spent=spent, **asdict(shown))
        for name in of:
            if name not in results:
                why = self.refused.get(name) or "it is not clearly cheaper"
                yield Tried(name, of[name].changes, "not tried", why, self._cost(name))
        for name, why in self.refused.items():
            if name not in of:
                yield Tried(name, {}, "refused", why)

    def _of_reference(self) -> Tried:
        """The reference, measured against the truth if there is one."""
        trials, found = self.trials, self.known.get(REFERENCE)
        changes = {self.node.step: str(self.choice)}
        if found is None:
            return Tried(REFERENCE, changes, "reference", cost=self._cost(REFERENCE))
        units = () if trials.truth is None else trials.counted(REFERENCE, found, None).units
        bound_ = trials.measure.at_least(units, self.request.error) if units else None
        return Tried(
            REFERENCE, changes, "reference", "", trials.of_thousand(found), trials.measure.f1(units),
            bound_, len(units), spent=found.cold,
        )  # fmt: skip

    def _no_saving(self, best: Tried, reference: Tried) -> str:
        """The reason to keep the reference although a candidate is shown, or ""."""
        if best.cost is None or not reference.cost:
            return ""
        saved = 1 - best.cost / reference.cost
        return "" if saved >= LEAST else f"{best.name} is shown, and saves only {max(saved, 0):.0%}"

    def _reason(
        self, status: Status, best: Tried | None, reference: Tried, stopped: str | None
    ) -> str:
        if status == "shown" and best is not None:
            if self.request.floor is None:
                return f"{best.name} has the greatest lower bound of those below the price"
            saved = 1 - (best.cost or 0.0) / reference.cost if reference.cost else 0.0
            less = f" costs {saved:.0%} less than the reference and" if saved > 0 else ""
            return f"{best.name}{less} is shown to have at least F1 {self.request.floor:g}"
        if best is not None and best.f1 is not None:
            return f"{best.name} looks good enough (F1 {best.f1:.3f}), which is not shown: the reference stays"
        return "the search was stopped" if stopped else "no candidate is shown to be good enough"

    def _promise(self, best: Tried) -> dict[str, Any]:
        trials, against = self.trials, "the truth" if self.trials.truth else ANSWERS
        each = " of separate calls" if trials.unit == "call" else ""
        promise = (
            f"With a probability of at least {self.request.confidence:.0%} over the draw of these "
            f"{best.units:,} rows{each}: F1 of {self.node.step} against {against} is at least {best.at_least:.3f} "
            "over rows like the input they were drawn from, with this model, these prompts and this implementation."
        )
        not_promised = ["other data", "a changed model behind the same name"]
        if trials.truth is None:
            not_promised.append("correctness where the reference is wrong")
        itself = f" (it agrees with itself {self.agrees:.2f})" if self.agrees is not None else ""
        not_promised.append(f"other trials of a model that answers differently each time{itself}")
        caveats = [f"Not promised: {', '.join(not_promised)}."]
        if trials.unit == "row":
            seen = trials.clusters(best.name, self.known[best.name], self.known.get(REFERENCE))
            observed = f"; observed: {seen}" if seen else ""
            caveats.append(f"It assumes that rows of one call fail independently{observed}.")
        return {"promise": promise, "caveats": tuple(caveats)}

    def _pays_back(self, best: Tried, reference: Tried) -> int | None:
        saved = (reference.cost or 0.0) - (best.cost or 0.0)
        return math.ceil(1000 * self.trials.money(self.spent) / saved) if saved > 0 else None

    def _choice(self, best: Tried, reference: Tried) -> Mapping[str, Any]:
        """The content of the file of the choice."""
        shown = {
            "measure": f"F1 against {'the truth' if self.trials.truth else ANSWERS}", "floor": self.request.floor,
            "at_least": best.at_least, "confidence": self.request.confidence,
            "units": f"{best.units} rows{' in as many calls' * (self.trials.unit == 'call')}",
            "sample": self.trials.digest(self.sampled),
        }  # fmt: skip
        prices = {role: [*of] for role, of in self.trials.prices.items()}
        costs = {
            "reference": reference.cost, "tuned": best.cost, "per": "1000 rows", "measured": str(timestamp())[:10],
            **({"prices": prices} if self.trials.priced else {"in": "tokens"}),
        }  # fmt: skip
        runner, arm = self.record.runner, self.record.request.arms[best.name]
        folders = runner.settings.operators
        return choice_of(
            arm.plan,
            best.changes,
            runner.name_of,
            folders,
            shown=shown,
            costs=costs,
            record=self.record.id,
        )

    async def _compared(self, name: str) -> Comparison | None:
        """The reference and a candidate over the rows that both have answered."""
        pair = {each: self.known.get(each) for each in (REFERENCE, name)}
        if None in pair.values():
            return None
        trials = self.trials.common({n: own for n, own in pair.items() if own is not None})
        quality = self.trials.arms.scored({n: [Attempt(trial)] for n, trial in trials.items()})
        arms = [
            Arm(n, self.record.request.arms[n].changes, (trial,), quality[n])
            for n, trial in trials.items()
        ]
        return self.record.comparison(arms, reference=REFERENCE, **self.trials.arms.facts())


def said(name: str, shown: Shown) -> str:
    """The line printed after a trial."""
    least = "" if shown.at_least is None else f", at least {shown.at_least:.3f}"
    f1 = "" if shown.f1 is None else f" F1 {shown.f1:.3f}{least} ({shown.units:,} checked)"
    return f"{'✓' if shown.verdict == 'shown' else '·'} {name}:{f1} {shown.verdict}"
