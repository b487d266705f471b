"""What the tunings of a step and of whole plans share: the request, the candidates, the limits, the walk,
and the result.
"""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from semgraph.compare.comparison import Comparison, Spent
from semgraph.compare.loop import compared
from semgraph.compare.plans import PlanArms
from semgraph.compare.preview import limits
from semgraph.compare.request import ArmRequest, ComparisonRecord, ComparisonRequest
from semgraph.compare.step import StepArms
from semgraph.compare.trial import KEPT, Attempt
from semgraph.display import option
from semgraph.errors import BudgetReached, ModelLacks, PlanError, SemgraphError, UnavailableError
from semgraph.execution.record import timestamp
from semgraph.execution.runtime import Opened, require_prices
from semgraph.folders import plans_folder
from semgraph.formats import dollars
from semgraph.frontend.document import shown as shown_path
from semgraph.optimizer import rewritten
from semgraph.tune.candidates import Candidate
from semgraph.tune.trials import REFERENCE, DrawnTrial, Prices
from semgraph.tune.tuned import choice_of
from semgraph.tune.tuning import Status, Tried, Tuning, Unit, save_tuning
from semgraph.tune.walk import Ask, Counted, Measure, Shown, Walk

LEAST = 0.1  # a smaller saving is not worth a choice
ANSWERS = "the reference's answers"
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
    preset: str | None = None
    rows: int | None = None
    ask: Callable[[Sequence[str]], bool] | None = None

    def __post_init__(self) -> None:
        """Refuse numbers out of range. Raises PlanError."""
        floor, price, rows, rest = self.floor, self.per_1000, self.rows, self.confidence
        one = f"give {option('floor', '0.95')} or {option('per-1000', 'USD')}"
        for name, value, fits, form in (
            ("floor", floor, floor is None or 0 < floor < 1, "a number between 0 and 1: 0.95"),
            ("confidence", rest, 0.5 <= rest < 1, "a number from 0.5 to below 1: 0.95"),
            ("sample", self.sample, self.sample >= 1, "a number of rows: 400"),
            ("per_1000", price, price is None or price > 0, "dollars"),
            ("rows", rows, rows is None or rows >= 1, "a number of rows"),
            ("floor", floor, (floor is None) != (price is None), one),
        ):
            if not fits:
                raise PlanError(f"{name.replace('_', '-')} is {value}", hint=form)

    @property
    def error(self) -> float:
        """The greatest probability of a choice below the floor."""
        return 1 - self.confidence


class NothingToChoose(Exception):
    """The end of a tuning without a choice: the reference stays, and why."""


def made(request: TuneRequest, name: str, changes: Mapping[str, str]) -> dict[str, ArmRequest]:
    """The arm of a candidate, by its name. Raises PlanError."""
    kept = {key: value for key, value in changes.items() if key != "order"}
    own = {k if k == "preset" or k.startswith("rules.") else f"use.{k}": v for k, v in kept.items()}
    order = [step.strip() for step in changes.get("order", "").split(",") if step.strip()]
    arms = request.make({name: own})
    return {n: replace(arm, plan=rewritten(arm.plan, (), order)) for n, arm in arms.items()}


class Chooser(ABC):
    """A tuning in work."""

    def __init__(self, request: TuneRequest, record: ComparisonRecord, opened: Opened) -> None:
        self.request, self.record, self.opened = request, record, opened
        self.began, self.extra, self.before = time.perf_counter(), Spent(), list[str]()
        self.agrees: float | None = None
        self.below = False  # whether the reference itself is below the floor, by the truth
        self.sampled = self.all = 0  # units that are checked, and all
        self.candidates: dict[str, Candidate] = {}
        self.refused: dict[str, str] = {}
        self.known: dict[str, DrawnTrial] = {}  # the last trial of each candidate
        self.walk = Walk((), Measure(exists=True), request.floor, request.error, request.sample)

    def make(self, candidates: Iterable[Candidate]) -> dict[str, ArmRequest]:
        """The arms of candidates; those that cannot be made are refused. Raises PlanError for a limit in
        dollars that a model without a price defies.
        """
        arms: dict[str, ArmRequest] = {}
        for each in candidates:
            try:
                arms |= made(self.request, each.name, each.changes)
                self.candidates[each.name] = each
            except PlanError as error:
                self.refused[each.name] = str(error)
        opened = self.opened
        for arm in arms.values():
            require_prices(arm.plan, opened.budget, opened.llm, opened.embedder)
        return arms

    async def result(self) -> Tuning:
        """Search, and say what is shown. Raises PlanError, or BudgetReached if nothing was tried."""
        stopped, kept = None, ""
        try:
            await self.search()
        except NothingToChoose as end:
            kept = str(end)
        except BudgetReached as error:
            if not self.record.id:
                raise
            kept_answers = KEPT.replace("comparison", "search")
            stopped = f"{str(error).removeprefix('stopped ')}. {kept_answers}"
        return self._tuning(kept, stopped)

    @property
    def spent(self) -> Spent:
        """What the search cost by itself: the last trial of each candidate, which has the answers of those
        before, and `extra`.
        """
        own = (each for name, each in self.known.items() if name in {REFERENCE, *self.candidates})
        return sum((each.trial.cold for each in own), self.extra)

    # What differs

    arms: StepArms | PlanArms
    prices: Prices  # of the models

    @abstractmethod
    async def search(self) -> None:
        """Make the walk, and walk."""

    @abstractmethod
    def cost(self, name: str) -> float | None:
        """The cost of 1,000 rows, as far as it is known."""

    @abstractmethod
    async def counted(self, ask: Ask) -> Counted:
        """Try a candidate."""

    @abstractmethod
    def expected(self, name: str, units: int) -> float:
        """The expected cost of a trial."""

    @abstractmethod
    def reference(self) -> Tried:
        """The reference as it was measured."""

    @abstractmethod
    def promised(self, best: Tried) -> tuple[str, Sequence[str]]:
        """What is promised of a candidate, and what is assumed."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Further fields of the result."""

    @abstractmethod
    def common(self, pair: Mapping[str, DrawnTrial]) -> dict[str, Attempt]:
        """The trials of the reference and a candidate over the rows that both have answered."""

    # Limits

    def gained(
        self, reference: float, least: float, by: str, *, sure: bool, ends: bool = True
    ) -> None:
        """Note what can be gained on 1,000 rows; if it is little and it `ends` so, raise NothingToChoose. It
        is not `sure` if costs were seen on a few rows only.
        """
        gain, text = max(1 - least / reference, 0.0) if reference else 0.0, self.prices.text
        most = f"{'at most' if sure else 'about'} {percent(gain)}"
        costs = f"1,000 rows cost {text(reference)} by the reference, {text(least)} by {by}"
        self.before.append(f"gain: {most}; {costs}")
        if gain < LEAST and ends:
            raise NothingToChoose(f"{most} to gain")

    def require_dearer(self) -> None:
        """Keep a reference that costs less than the price, if its answers stand for the truth. Raises
        NothingToChoose.
        """
        price, cost = self.request.per_1000, self.cost(REFERENCE)
        if price is not None and cost is not None and cost <= price and self.against == ANSWERS:
            why = "the reference costs less than the price, and nothing agrees more"
            raise NothingToChoose(why)

    @property
    def against(self) -> str:
        """What answers are compared with."""
        return ANSWERS if self.request.compared.truth is None else "the truth"

    def admit(self, cost: float, gain: float) -> None:
        """Refuse a search that would pass a limit, or cost more than it can save.

        Args:
            cost: Its expected cost, at least.
            gain: The most that it can save on 1,000 rows.

        Raises:
            BudgetReached: It would pass the limit in dollars.
            NothingToChoose: It would not pay.
        """
        self.afford("the search", cost)
        price, rows = self.prices.text, self.request.rows
        lines = [*self.before, f"search: at least {price(cost)}; {limits(self.opened.budget)}"]
        if (say := self.record.request.say) is not None:
            for line in lines:
                say(line)
        if rows is not None and gain * rows / 1000 < cost:
            saves = price(max(gain, 0.0) * rows / 1000)
            what = f"the search would cost {price(cost)} and save at most {saves} on {rows:,} rows"
            raise NothingToChoose(what)
        if self.request.ask is not None and not self.request.ask(lines):
            raise NothingToChoose("the search was not begun")

    def afford(self, what: str, cost: float) -> None:
        """Refuse what would pass the limit in dollars. Raises BudgetReached."""
        budget = self.opened.budget
        if budget.max_usd is None or not self.prices.known:
            return
        if budget.spent.usd + cost > budget.max_usd * (1 + 1e-9):
            about = f"{what}, about {dollars(cost, exact=True)}"
            raise BudgetReached(f"stopped before {about}, would pass max_usd {budget.max_usd:g}")

    # The walk

    async def walked(self) -> None:
        """Try what the walk asks for, and say what is found."""
        steps, say = self.walk.steps(), self.record.request.say
        ask = next(steps, None)
        while ask is not None:
            name, found = ask.name, await self._attempted(ask)
            try:
                ask = steps.send(found)
            except StopIteration:
                ask = None
            if say is not None:
                say(said(name, self.walk.results[name], floor=self.request.floor is not None))

    async def _attempted(self, ask: Ask) -> Counted:
        """The counts of a candidate. One that fails ends its trial, not the search."""
        self.afford(ask.name, self.expected(ask.name, ask.units))
        try:
            return await self.counted(ask)
        except SemgraphError as error:
            if ends(error):
                raise
            return Counted(failed=str(error))

    # The result

    def _tuning(self, kept: str, stopped: str | None) -> Tuning:
        """The result, in the record."""
        tried = {each.name: each for each in self._tried()}
        reference, chosen = self.reference(), self.walk.chosen or self.walk.found
        if chosen == REFERENCE:
            kept = kept or "nothing below the price is better"
        elif chosen and not kept and self.request.floor is not None and not self.below:
            saved = _saving(tried[chosen], reference)
            few = saved is not None and saved < LEAST
            kept = f"{chosen} saves only {percent(max(saved or 0.0, 0))}" if few else ""
        found: Status = "shown" if self.walk.chosen else "found"
        status = found if chosen and not kept else "kept"
        best = tried[chosen] if chosen and status != "kept" else None
        shown, facts = best if status == "shown" else None, self._facts()
        result = Tuning(
            id=self.record.id, plan=self.record.request.plan.name, source=self._source(), steps=self.request.steps,
            status=status, reason=kept or self._reason(shown, best, reference, stopped), reference=reference,
            tried=tuple(tried.values()), chosen=best.name if best else "", **facts, stopped=stopped,
            **(self._of_choice(shown, reference, facts) if shown else {}),
            comparison=self._compared(best.name) if best else None, paid=self.record.paid,
            record=self.record.record.folder if self.record.record else None,
        )  # fmt: skip
        if self.record.record is not None:
            save_tuning(result, self.record.record)
        return result

    def _compared(self, name: str) -> Comparison | None:
        """The reference and a candidate over the rows that both have answered."""
        pair = {n: self.known[n] for n in (REFERENCE, name) if n in self.known}
        if not {REFERENCE, name} <= pair.keys():
            return None
        attempts = {n: [own] for n, own in self.common(pair).items()}
        return compared(self.arms, self.record, attempts, reference=REFERENCE)

    def _source(self) -> str:
        """The plan as it is typed in a command."""
        plan, file = self.record.request.plan, Path(self.record.request.plan.file or "")
        named = file.stem == plan.name and file.parent in (Path(), Path.cwd(), Path.cwd() / "plans")
        shipped = file.resolve().is_relative_to(plans_folder().resolve())
        return plan.name if named or shipped or not plan.file else shown_path(file)

    def _tried(self) -> Iterator[Tried]:
        """The candidates in the order of trial, then those that were not tried, and why."""
        results, of = self.walk.results, self.candidates
        for name, shown in results.items():
            if name == REFERENCE:
                continue
            tried = name in self.known and shown.units
            spent = self.known[name].trial.cold if tried else Spent()
            yield Tried(name, of[name].changes, cost=self.cost(name), spent=spent, **asdict(shown))
        for name in of:
            if name not in results:
                why = self.refused.get(name) or self._left_out(name)
                yield Tried(name, of[name].changes, "not tried", why, self.cost(name))
        for name, why in self.refused.items():
            if name not in of:
                yield Tried(name, {}, "refused", why)

    def _left_out(self, name: str) -> str:
        """Why a candidate was not tried."""
        cost, reference, price = self.cost(name), self.cost(REFERENCE), self.request.per_1000
        most = price if price is not None else (reference or 0.0) * (1 - LEAST)
        if cost is None or reference is None or cost < most:
            return "the search did not come to it"
        return "it saves less than a tenth" if price is None else "it is not below the price"

    def _facts(self) -> dict[str, Any]:
        """What is known of the draw and the search."""
        request = self.request
        return {
            "floor": request.floor, "per_1000": request.per_1000, "confidence": request.confidence,
            "measure": f"F1 against {self.against}", "sampled": (self.sampled, self.all), "rule": self.walk.rule,
            "before": tuple(self.before), "agrees": self.agrees, "priced": self.prices.known,
            "prices": self.prices.of, "spent": self.spent, "seconds": time.perf_counter() - self.began,
            **self.facts(),
        }  # fmt: skip

    def _reason(
        self, shown: Tried | None, best: Tried | None, reference: Tried, stopped: str | None
    ) -> str:
        if shown is not None and self.request.floor is None:
            return f"{shown.name} has the greatest lower bound of those below the price"
        if shown is not None:
            saved = max(_saving(shown, reference) or 0.0, 0.0)
            less = f" costs {percent(saved)} less than the reference and" if saved else ""
            return f"{shown.name}{less} is shown to have at least F1 {self.request.floor:g}"
        if best is not None:
            good = "good enough" if self.request.floor else "best below the price"
            return f"{best.name} looks {good} (F1 {best.f1:.3f}), which is not shown: the reference stays"
        return "the search was stopped" if stopped else "no candidate is shown to be good enough"

    def _of_choice(self, best: Tried, reference: Tried, facts: Mapping[str, Any]) -> dict[str, Any]:
        """The promise, the file of the choice, and when the search has paid for itself."""
        promise, assumed = self.promised(best)
        not_promised = ["other data", "a changed model behind the same name"]
        if self.request.compared.truth is None:
            not_promised.append("correctness where the reference is wrong")
        itself = f" (it agrees with itself {self.agrees:.2f})" if self.agrees is not None else ""
        not_promised.append(f"other trials of a model that answers differently each time{itself}")
        saved = (reference.cost or 0.0) - (best.cost or 0.0)
        back = math.ceil(1000 * self.prices.cost(self.spent) / saved) if saved > 0 else None
        return {
            "promise": promise, "caveats": (f"Not promised: {', '.join(not_promised)}.", *assumed),
            "pays_back": back, "choice": self._choice(best, reference, facts),
        }  # fmt: skip

    def _choice(self, best: Tried, reference: Tried, facts: Mapping[str, Any]) -> Mapping[str, Any]:
        """The content of the file of the choice."""
        runner = self.record.runner
        shown = {
            "measure": facts["measure"], "floor": self.request.floor,
            "at_least": None if best.at_least is None else float(rounded_down(best.at_least)),
            "confidence": self.request.confidence,
            "units": f"{best.units} rows{' in as many calls' * (facts['unit'] == 'call')}",
            "sample": facts.get("sample"),
        }  # fmt: skip
        costs = {
            "reference": float(f"{reference.cost:.4g}"), "tuned": float(f"{best.cost:.4g}"),
            "per": "1000 rows", "measured": str(timestamp())[:10],
            **({"prices": {k: [*v] for k, v in self.prices.of.items()}} if self.prices.known else {"in": "tokens"}),
        }  # fmt: skip
        own = {name: value for name, value in shown.items() if value is not None}
        plan, folders = self.record.request.arms[best.name].plan, runner.settings.operators
        more = {"shown": own, "costs": costs, "record": self.record.id}
        return choice_of(plan, best.changes, runner.name_of, folders, **more)


def ends(error: SemgraphError) -> bool:
    """Whether an error ends the search: a limit, or a service that does not answer; not what one
    candidate lacks.
    """
    ended = isinstance(error, (BudgetReached, UnavailableError))
    return ended and not isinstance(error, ModelLacks)


def _saving(best: Tried, reference: Tried) -> float | None:
    """The share of the cost that a candidate saves, as measured."""
    return None if best.cost is None or not reference.cost else 1 - best.cost / reference.cost


def percent(share: float) -> str:
    """A share in percent; one that is almost all with a decimal.

    >>> percent(0.031), percent(0.9994)
    ('3 %', '99.9 %')
    """
    return f"{100 * share:.{int(0.99 < share < 1)}f} %"


def rounded_down(bound: float | None) -> str:
    """A lower bound, which no rounding raises.

    >>> rounded_down(0.96765)
    '0.967'
    """
    return f"{math.floor(1000 * (bound or 0.0)) / 1000:.3f}"


def said(name: str, shown: Shown, *, floor: bool = True) -> str:
    """The line printed after a trial; without a floor nothing is judged yet."""
    least = f", at least {rounded_down(shown.at_least)} ({shown.units:,} checked)"
    f1 = "" if shown.f1 is None else f" F1 {shown.f1:.3f}{least * (shown.at_least is not None)}"
    verdict = shown.verdict if floor or shown.f1 is None else "measured"
    return f"{'✓' if shown.verdict == 'shown' else '·'} {name}:{f1} {verdict}"
