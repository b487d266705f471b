"""The search: which candidate is tried next and over how many units, and what its counts show.

Costs are known before anything is tried, quality is not. So a search is a walk from cheap to dear over
tests of quality, whose order and levels are fixed before any quality is seen. Each test is exact, and
their levels add up to the error of the promise (Bonferroni): a candidate below the floor is chosen with
at most that probability. Nothing here calls a model.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import NamedTuple

from semgraph.scores import Score, f1_at_least, share_at_least
from semgraph.tune.tuning import Verdict

Counts = tuple[float, int, int]  # of a unit: hits, answers, true answers
MANY = 20  # candidates, above which families share a level
_HOPELESS = 0.1
_FIRST = 3  # the first test has a third of the units


class Entry(NamedTuple):
    """A candidate of a search.

    Args:
        name: Its name.
        cost: Its cost.
        units: The most units that can be checked of it.
        family: Candidates that differ in one parameter, in whose order quality falls.
        risk: Its place in the family, the safest first.
    """

    name: str
    cost: float
    units: int
    family: str = ""
    risk: float = 0.0


class Counted(NamedTuple):
    """The counts of the checked units of a candidate, or the error that ended it; and its cost as measured,
    if it differs from the known one.
    """

    units: Sequence[Counts] = ()
    failed: str = ""
    cost: float | None = None


class Ask(NamedTuple):
    """A candidate to try over so many units."""

    name: str
    units: int


@dataclass(frozen=True)
class Shown:
    """What the tests of a candidate show."""

    verdict: Verdict
    why: str = ""
    f1: float | None = None
    at_least: float | None = None
    units: int = 0
    alpha: float | None = None


@dataclass(frozen=True)
class Measure:
    """How counts of units are measured.

    Args:
        exists: Whether a unit has an answer or none, as rows that are kept or dropped; else each unit
            has one answer, which is right or wrong.
        bernoulli: Whether units are right or wrong by themselves; not if they are groups, or lists.
    """

    exists: bool
    bernoulli: bool = True

    def share(self, f1: float) -> float:
        """The share of right units at an F1."""
        return f1 / (2 - f1) if self.exists else f1

    def needed(self, floor: float, alpha: float) -> int:
        """The units without an error that show a floor; for units that exist, of true answers.

        >>> Measure(exists=True).needed(0.95, 0.05 / 8), Measure(exists=False).needed(0.95, 0.05)
        (51, 59)
        """
        return math.ceil(math.log(alpha) / math.log(self.share(floor))) if 0 < floor < 1 else 1

    def room(self, floor: float, units: int, alpha: float) -> float:
        """The loss that so many units may have, as measured, and still show a floor; at least 0.

        >>> round(Measure(exists=True).room(0.9, 200, 0.01), 3)
        0.061
        """
        right: Counts = (1, 1, 1)
        wrong: Counts = (0, 1, 0) if self.exists else (0, 1, 1)
        lost = 0.0
        for errors in range(units):
            counts = [right] * (units - errors) + [wrong] * errors
            if (self.at_least(counts, alpha) or 0.0) < floor:
                break
            lost = 1 - (self.f1(counts) or 0.0)
        return lost

    def f1(self, units: Sequence[Counts]) -> float | None:
        """The measured F1; None without answers and true answers."""
        hits, own, true = (sum(each[i] for each in units) for i in range(3))
        return Score.of(hits, own, true).f1

    def at_least(self, units: Sequence[Counts], alpha: float) -> float | None:
        """The exact lower bound of F1; None if units are no independent rights and wrongs.

        Where each unit has one answer, an error may be one wrong answer, or a wrong one and a missing
        one. All are counted as two: the bound of the share of right units is at most that of F1.
        """
        if not self.bernoulli or any(max(own, true) > 1 for _, own, true in units):
            return None
        right, wrong = self._sides(units)
        if self.exists:
            return f1_at_least(right, wrong, alpha)
        return share_at_least(right, right + wrong, alpha)

    def at_most(self, units: Sequence[Counts], alpha: float) -> float:
        """The exact upper bound of F1, likewise: counts as bad as these have the probability `alpha`."""
        right, wrong = self._sides(units)
        most = 1 - share_at_least(wrong, right + wrong, alpha)
        other = all(own and true for _, own, true in units if own or true)  # no answer is missing
        return most if other and not self.exists else 2 * most / (1 + most)

    @staticmethod
    def _sides(units: Sequence[Counts]) -> tuple[int, int]:
        counted = [each for each in units if each[1] or each[2]]
        right = sum(hits == own == true for hits, own, true in counted)
        return right, len(counted) - right


@dataclass
class Walk:
    """A search of the cheapest candidate that is shown to have a floor; without a floor, of the one with
    the greatest lower bound.

    Args:
        entries: The candidates.
        measure: How units are counted.
        floor: The least F1.
        error: The greatest probability of a choice below the floor.
        units: The units of a whole test.
        price: The highest cost, where there is no floor.
        results: What is known of each candidate so far, in the order of trial.
        chosen: The name of the chosen candidate; "": none.
    """

    entries: Sequence[Entry]
    measure: Measure
    floor: float | None
    error: float
    units: int
    price: float = math.inf
    results: dict[str, Shown] = field(default_factory=dict)
    chosen: str = ""
    _costs: dict[str, float] = field(default_factory=dict)  # as known

    @property
    def found(self) -> str:
        """The name of the cheapest candidate whose measured F1 is at least the floor, or without a floor of
        the one with the greatest; "": none.
        """
        cost = {entry.name: entry.cost for entry in self.entries} | self._costs
        f1 = {n: r.f1 for n, r in self.results.items() if r.f1 and r.f1 >= (self.floor or 0.0)}
        if self.floor is None:
            good = (name for name in f1 if cost[name] <= self.price)
            return max(good, key=lambda name: (f1[name], -cost[name]), default="")
        return min(f1, key=lambda name: cost[name], default="")

    @property
    def by_family(self) -> bool:
        """Whether levels are shared by families, because there are many candidates."""
        return self.floor is not None and len(self.entries) > MANY

    @property
    def alpha(self) -> float:
        """The level of one test."""
        if self.floor is None:
            return self.error / max(len(self.entries), 1)
        number = len({e.family for e in self.entries}) if self.by_family else len(self.entries)
        return self.error / (2 * max(number, 1))

    @property
    def rule(self) -> str:
        """The rule of the search, in words."""
        if self.floor is None:
            return "all candidates below the price; the greatest lower bound is chosen"
        if self.by_family:
            return "families by their cheapest member, the safest member first; the cheapest shown is chosen"
        return "the cheapest first; it ends when no candidate is left that could be cheaper than what is shown"

    def steps(self) -> Generator[Ask, Counted, None]:
        """The trials to make, one after the other; each is sent its counts."""
        if self.floor is None:
            yield from self._all()
        elif self.by_family:
            yield from self._families()
        else:
            yield from self._cheapest_first()
        for entry in self.entries:
            what = "shown" if self.chosen else "found"
            self.results.setdefault(entry.name, Shown("not tried", f"a cheaper one is {what}"))

    def _cheapest_first(self) -> Generator[Ask, Counted, None]:
        """From cheap to dear, until what is left cannot be cheaper than what is shown; of units that show
        nothing, than what is found.
        """
        least = math.inf
        for entry in sorted(self.entries, key=lambda e: e.cost):
            if entry.cost >= least:
                break
            shown = yield from self._tested(entry)
            cost = self._costs[entry.name]
            if shown and cost < least:
                self.chosen, least = entry.name, cost
            elif not self.measure.bernoulli and entry.name == self.found:
                least = min(least, cost)

    def _all(self) -> Generator[Ask, Counted, None]:
        """Each candidate over all units; the greatest bound is chosen."""
        best = 0.0
        for entry in sorted(self.entries, key=lambda e: e.cost):
            found = yield Ask(entry.name, min(self.units, entry.units))
            self._costs[entry.name] = entry.cost if found.cost is None else found.cost
            shown = self._shown(entry.name, found)
            if self._costs[entry.name] > self.price:
                self.results[entry.name] = replace(shown, why="it costs more, as measured")
            elif shown.at_least is not None and shown.at_least > best:
                self.chosen, best = entry.name, shown.at_least
        if self.chosen:
            self.results[self.chosen] = replace(self.results[self.chosen], verdict="shown")

    def _families(self) -> Generator[Ask, Counted, None]:
        """The safest member of a family first. A member that is not shown ends its family, so that each
        family has one level for all its members (a fixed sequence).
        """
        cheapest = math.inf
        named = sorted(self.entries, key=lambda e: e.family)
        families = [[*own] for _, own in groupby(named, key=lambda e: e.family)]
        for family in sorted(families, key=lambda own: min(e.cost for e in own)):
            members = sorted(family, key=lambda e: e.risk)
            for place, entry in enumerate(members):
                if min(e.cost for e in members[place:]) >= cheapest:
                    self._skip(members[place:], "it cannot be cheaper than what is shown")
                    break
                if not (yield from self._tested(entry)):
                    self._skip(members[place + 1 :], f"{entry.name}, which is safer, is not shown")
                    break
                if self._costs[entry.name] < cheapest:
                    self.chosen, cheapest = entry.name, self._costs[entry.name]

    def _skip(self, entries: Sequence[Entry], why: str) -> None:
        for entry in entries:
            self.results[entry.name] = Shown("not tried", why)

    def _tested(self, entry: Entry) -> Generator[Ask, Counted, bool]:
        """Test a candidate over a third of the units, then over all, and return whether it is shown."""
        floor, most = self.floor or 0.0, min(self.units, entry.units)
        first = math.ceil(most / _FIRST) if self.measure.bernoulli else most
        for number in dict.fromkeys((first, most)):
            found = yield Ask(entry.name, number)
            self._costs[entry.name] = entry.cost if found.cost is None else found.cost
            shown = self._shown(entry.name, found)
            if found.failed or shown.verdict == "shown":
                break
            if number < most and self.measure.at_most(found.units, _HOPELESS) < floor:
                self.results[entry.name] = replace(shown, verdict="hopeless")
                break
        return self.results[entry.name].verdict == "shown"

    def _shown(self, name: str, found: Counted) -> Shown:
        alpha = self.alpha
        if found.failed:
            shown = Shown("failed", found.failed, alpha=alpha)
        else:
            bound = self.measure.at_least(found.units, alpha)
            passes = bound is not None and self.floor is not None and bound >= self.floor
            verdict: Verdict = "shown" if passes else "not shown"
            shown = Shown(verdict, "", self.measure.f1(found.units), bound, len(found.units), alpha)
        self.results.pop(name, None)
        self.results[name] = shown
        return shown
