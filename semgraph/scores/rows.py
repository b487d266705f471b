"""Rows against true rows: precision, recall and F1, with intervals; agreement where nobody knows
the truth.

A *unit* is what is asked about, named by its key: a row, a pair, a group. Each unit has some
    answers, none where nothing was
found. Hits are answers that the truth has too; a unit that failed has no answers, so a failure
costs recall.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from semgraph.expr.functions import canonical_json
from semgraph.scores.bootstrap import Interval, IntervalEstimate, Sums, estimate

Answers = Mapping[Hashable, Counter[Hashable]]
Tally = Mapping[Hashable, tuple[int, int, int]]
"""For each unit: hits, answers given, answers wanted."""


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1.

    Args:
        precision: Share of the answers given that are right; None if none were given.
        recall: Share of the answers wanted that were given; None if none were wanted.
        f1: Their harmonic mean; None if there was nothing to judge: none were given and none
            wanted.
        interval: 95 % interval of F1, where there are units to draw from.
        counts: Hits, answers given, answers wanted.
    """

    precision: float | None
    recall: float | None
    f1: float | None
    interval: Interval | None = None
    counts: tuple[float, float, float] = (0, 0, 0)

    @classmethod
    def of(
        cls, hits: float, given: float, wanted: float, interval: Interval | None = None
    ) -> Score:
        """The score of some counts.

        >>> Score.of(1, 2, 1).f1
        0.6666666666666666
        >>> Score.of(0, 0, 0).f1 is None
        True
        """
        f1 = 2 * hits / (given + wanted) if given + wanted else None
        precision, recall = hits / given if given else None, hits / wanted if wanted else None
        return cls(precision, recall, f1, interval, (hits, given, wanted))


def answers(
    rows: Iterable[Mapping[str, Any]],
    key: Sequence[str],
    compare: Sequence[str] = (),
    units: Iterable[Any] = (),
) -> dict[Hashable, Counter[Hashable]]:
    """The answers of each unit.

    Args:
        rows: Rows of a by_unit or of the truth.
        key: The columns that name the unit.
        compare: The columns that are the answer. None: that there is a row is the answer. A row
            whose compared columns are all NULL names its unit and answers nothing.
        units: Units that were asked about, as tuples of their key's values, whether or not they
            have rows.

    >>> answers([{"id": 1, "of": "a"}, {"id": 2, "of": None}], ["id"], ["of"])
    {(1,): Counter({('a',): 1}), (2,): Counter()}
    """
    by_unit: dict[Hashable, Counter[Hashable]] = {
        tuple(map(lookup, unit)): Counter() for unit in units
    }
    for row in rows:
        own = by_unit.setdefault(tuple(lookup(row[name]) for name in key), Counter())
        values = tuple(lookup(row[name]) for name in compare)
        if not compare or any(value is not None for value in values):
            own[values] += 1
    return by_unit


def lookup(value: Any) -> Hashable:
    """A value that can be looked up: lists and structs as JSON, NaN as NULL."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return None
    if isinstance(value, (list, dict)):
        return canonical_json(value)
    hashable: Hashable = value
    return hashable


def tally(given: Answers, truth: Answers) -> dict[Hashable, tuple[int, int, int]]:
    """Hits, answers given and answers wanted of each unit that either has."""
    none: Counter[Hashable] = Counter()
    return {
        unit: (
            (given.get(unit, none) & truth.get(unit, none)).total(),
            given.get(unit, none).total(),
            truth.get(unit, none).total(),
        )
        for unit in dict.fromkeys([*given, *truth])
    }


def pooled(tallies: Iterable[Tally]) -> dict[Hashable, tuple[int, int, int]]:
    """Several trials as one tally: a unit is drawn with all its trials."""
    result: dict[Hashable, tuple[int, int, int]] = {}
    for each in tallies:
        for unit, (hits, given, wanted) in each.items():
            before = result.get(unit, (0, 0, 0))
            result[unit] = (before[0] + hits, before[1] + given, before[2] + wanted)
    return result


def score(units: Tally) -> Score:
    """Precision, recall and F1 over all units (micro-averaged), with the interval of F1.

    Units that rightly have no answer at all make an F1 of 1; without units there is none.
    """
    hits, given, wanted = (sum(counts[i] for counts in units.values()) for i in range(3))
    result = Score.of(hits, given, wanted, estimate(list(units.values()), _f1).interval)
    return replace(result, f1=1.0) if units and result.f1 is None else result


def difference(ours: Tally, theirs: Tally) -> IntervalEstimate:
    """F1 of one tally less F1 of another, paired: each sample draws the same units of both."""
    none = (0, 0, 0)
    both = [
        (*ours.get(unit, none), *theirs.get(unit, none)) for unit in dict.fromkeys([*ours, *theirs])
    ]
    return estimate(both, lambda sums: _f1(sums) - _f1(sums[:, 3:]))


def agreement(*trials: tuple[Answers, Answers]) -> IntervalEstimate:
    """The share of units with the same answers in two sets, over all trials; 1 where there are no
    units.

    >>> agreement((answers([{"id": 1}], ["id"]), answers([{"id": 1}, {"id": 2}], ["id"]))).value
    0.5
    """
    none: Counter[Hashable] = Counter()
    result: dict[Hashable, tuple[float, float]] = {}
    for ours, theirs in trials:
        for unit in dict.fromkeys([*ours, *theirs]):
            same, number = result.get(unit, (0.0, 0.0))
            result[unit] = (same + (ours.get(unit, none) == theirs.get(unit, none)), number + 1)
    return estimate(list(result.values()), lambda sums: _share(sums[:, 0], sums[:, 1]))


def _f1(sums: Sums) -> Sums:
    return _share(2 * sums[:, 0], sums[:, 1] + sums[:, 2])


def _share(part: Sums, whole: Sums) -> Sums:
    """Part of whole; 1 of nothing."""
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1), 1.0)
