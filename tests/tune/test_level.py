"""The promise: a candidate below the floor is chosen in at most 5 % of searches, whatever the table of
answers is like. Each search sees a new table, whose candidates all are just below the floor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest

from semgraph.tune import walk as module
from semgraph.tune.walk import Counted, Counts, Entry, Measure, Walk

ERROR, FLOOR, TRIALS = 0.05, 0.9, 2_000
MOST = ERROR + 3 * math.sqrt(ERROR * (1 - ERROR) / TRIALS)
BELOW = FLOOR - 1e-4
RIGHT, MISSING, SPURIOUS, OTHER, NONE = (1, 1, 1), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 0, 0)
Table = Callable[[np.random.Generator, int], Sequence[Counts]]  # the units of a candidate


def kept_rows(rng: np.random.Generator, units: int) -> Sequence[Counts]:
    """Of a filter that rightly drops six rows of ten; of the others as many are right as make the F1."""
    right = BELOW / (2 - BELOW)
    wrong = (1 - right) / 5
    return _drawn(rng, units, {RIGHT: 0.4 * right, MISSING: wrong, SPURIOUS: wrong, NONE: 0.6})


def answers(rng: np.random.Generator, units: int) -> Sequence[Counts]:
    """Of a map: each row has one answer, which is right or another one."""
    return _drawn(rng, units, {RIGHT: BELOW, OTHER: 1 - BELOW})


def some_missing(rng: np.random.Generator, units: int) -> Sequence[Counts]:
    """Of a map that also leaves out answers: half as bad for F1."""
    right = 3 * BELOW / (4 - BELOW)
    return _drawn(rng, units, {RIGHT: right, OTHER: (1 - right) / 3, MISSING: 2 * (1 - right) / 3})


def spoilt_calls(rng: np.random.Generator, units: int) -> Sequence[Counts]:
    """Of a filter whose rows are all true: ten rows share a call, and of some calls all rows are wrong."""
    return [row for row in one_of_each_call(rng, -(-units // 10)) for _ in range(10)][:units]


def one_of_each_call(rng: np.random.Generator, units: int) -> Sequence[Counts]:
    """The same, of which one row of each call is checked."""
    right = BELOW / (2 - BELOW)
    return _drawn(rng, units, {RIGHT: right, MISSING: 1 - right})


def _drawn(rng: np.random.Generator, units: int, chances: dict[Counts, float]) -> list[Counts]:
    kinds = list(chances)
    return [kinds[i] for i in rng.choice(len(kinds), units, p=list(chances.values()))]


def chosen(table: Table, walk: Walk, rng: np.random.Generator) -> str:
    """Search through a new table."""
    tables: dict[str, Sequence[Counts]] = {}
    steps = walk.steps()
    ask = next(steps, None)
    while ask is not None:
        if ask.name not in tables:
            tables[ask.name] = table(rng, walk.units)
        try:
            ask = steps.send(Counted(tables[ask.name][: ask.units]))
        except StopIteration:
            break
    return walk.chosen


def separate(number: int, units: int) -> list[Entry]:
    """Candidates that have nothing in common."""
    return [Entry(f"c{n}", 1.0 + n, units, f"c{n}") for n in range(number)]


def in_families(number: int, units: int) -> list[Entry]:
    """Families of six, the riskier the cheaper."""
    return [Entry(f"c{n}", 100.0 - n % 6, units, f"f{n // 6}", n % 6) for n in range(number)]


def wrong_choices(table: Table, measure: Measure, entries: Sequence[Entry], units: int,
                  floor: float | None = FLOOR, trials: int = TRIALS) -> float:  # fmt: skip
    """The share of searches that choose a candidate, all of which are below the floor."""
    rng = np.random.default_rng(7)
    walks = (Walk(entries, measure, floor, ERROR, units) for _ in range(trials))
    return sum(bool(chosen(table, walk, rng)) for walk in walks) / trials


@pytest.fixture(autouse=True)
def remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute each bound once: there are few different counts."""
    for name in ("share_at_least", "f1_at_least"):
        monkeypatch.setattr(module, name, cache(getattr(module, name)))


TABLES = [(kept_rows, True), (answers, False), (some_missing, False), (one_of_each_call, True)]


@pytest.mark.parametrize(("table", "exists"), TABLES)
@pytest.mark.parametrize(
    ("entries", "number", "units"),
    [(separate, 1, 150), (separate, 5, 150), (in_families, 24, 120)],
    ids=["one", "cheapest-first", "families"],
)
def test_a_candidate_just_below_the_floor_is_rarely_chosen(table, exists, entries, number, units):
    measure = Measure(exists)
    assert wrong_choices(table, measure, entries(number, units), units) <= MOST


def test_candidates_are_tested_twice_and_in_families_by_risk():
    """Else the level of the tests above would be that of other searches."""
    asked: list[Any] = []
    for entries in (separate(5, 150), in_families(24, 120)):
        walk = Walk(entries, Measure(exists=False), FLOOR, ERROR, 150)
        steps = walk.steps()
        ask, own = next(steps), []
        while len(own) < 3:
            own.append((ask.name, ask.units))
            ask = steps.send(Counted([RIGHT] * 6 * (ask.units // 8) + [OTHER] * (ask.units // 8)))
        asked.append((walk.by_family, own))
    assert asked == [
        (False, [("c0", 50), ("c0", 150), ("c1", 50)]),
        (True, [("c0", 40), ("c0", 120), ("c6", 40)]),
    ]


@pytest.mark.parametrize("number", [1, 8])
def test_the_bound_of_the_one_chosen_below_a_price_is_rarely_above_its_quality(number):
    rng, above = np.random.default_rng(7), 0
    for _ in range(TRIALS // 2):
        walk = Walk(separate(number, 100), Measure(exists=True), None, ERROR, 100)
        name = chosen(kept_rows, walk, rng)
        above += (walk.results[name].at_least or 0.0) > BELOW
    assert above / (TRIALS // 2) <= ERROR + 3 * math.sqrt(ERROR * (1 - ERROR) / (TRIALS // 2))


def test_rows_of_spoilt_calls_break_the_promise_unless_one_of_each_call_is_checked():
    entries = separate(3, 200)
    by_row = wrong_choices(spoilt_calls, Measure(exists=True), entries, 200, trials=500)
    by_call = wrong_choices(one_of_each_call, Measure(exists=True), entries, 200)
    assert by_row > 2 * MOST
    assert by_call <= MOST


class TestIsSeenTo:
    """What a change would break that looks harmless."""

    def is_broken(self) -> bool:
        return wrong_choices(kept_rows, Measure(exists=True), separate(5, 150), 150) > MOST

    def test_be_kept(self):
        assert not self.is_broken()

    def test_break_if_each_test_has_the_whole_error(self, monkeypatch):
        monkeypatch.setattr(Walk, "alpha", property(lambda walk: walk.error))
        assert self.is_broken()

    def test_break_if_each_stage_has_the_error_of_a_candidate(self, monkeypatch):
        """Two looks at one candidate, which is the whole search."""
        monkeypatch.setattr(Walk, "alpha", property(lambda walk: walk.error / len(walk.entries)))
        one = Entry("c0", 1.0, 150, "c0")
        assert wrong_choices(one_of_each_call, Measure(exists=True), [one], 150) > ERROR

    def test_break_if_the_measured_f1_stands_for_its_bound(self, monkeypatch):
        monkeypatch.setattr(Measure, "at_least", lambda own, units, _: own.f1(units))
        assert self.is_broken()

    def test_break_if_the_bound_of_a_share_of_rows_stands_for_that_of_f1(self, monkeypatch):
        """Rows that are rightly dropped count as right."""

        def all_rows(_: Measure, units: Sequence[Counts], alpha: float) -> float:
            right = sum(hits == own == true for hits, own, true in units)
            return module.share_at_least(right, len(units), alpha)

        monkeypatch.setattr(Measure, "at_least", all_rows)
        assert self.is_broken()
