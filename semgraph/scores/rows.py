"""Rows against true rows: precision, recall and F1, with intervals; agreement without a truth.

A *unit* is a row, a pair or a group, identified by its key. Each unit has zero or more answers. Hits
are answers that the truth has too; a failed unit has no answers, which lowers recall.
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
"""For each unit: hits, answers, true answers."""


@dataclass(frozen=True)
class Score:
    """Precision, recall and F1.

    Args:
        precision: The share of answers that are correct; None without answers.
        recall: The share of true answers that were returned; None without true answers.
        f1: Their harmonic mean; None without answers and true answers.
        interval: The 95 % interval of F1, if there are units.
        counts: Hits, answers, true answers.
    """

    precision: float | None
    recall: float | None
    f1: float | None
    interval: Interval | None = None
    counts: tuple[float, float, float] = (0, 0, 0)

    @classmethod
    def of(
        cls, hits: float, answers: float, true: float, interval: Interval | None = None
    ) -> Score:
        """The score of counts.

        >>> Score.of(1, 2, 1).f1
        0.6666666666666666
        >>> Score.of(0, 0, 0).f1 is None
        True
        """
        f1 = 2 * hits / (answers + true) if answers + true else None
        precision, recall = hits / answers if answers else None, hits / true if true else None
        return cls(precision, recall, f1, interval, (hits, answers, true))


def answers(
    rows: Iterable[Mapping[str, Any]],
    key: Sequence[str],
    compare: Sequence[str] = (),
    units: Iterable[Any] = (),
) -> dict[Hashable, Counter[Hashable]]:
    """The answers of each unit.

    Args:
        rows: Result rows or true rows.
        key: The columns that identify the unit.
        compare: The columns of the answer. None: the existence of a row is the answer. A row whose
            compared columns are all NULL is a unit without an answer.
        units: All units, as tuples of their key's values, with or without rows.

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
    """A hashable value: lists and structs as JSON, NaN as NULL."""
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return None
    if isinstance(value, (list, dict)):
        return canonical_json(value)
    hashable: Hashable = value
    return hashable


def tally(ours: Answers, truth: Answers) -> dict[Hashable, tuple[int, int, int]]:
    """Hits, answers and true answers of each unit."""
    none: Counter[Hashable] = Counter()
    return {
        unit: (
            (ours.get(unit, none) & truth.get(unit, none)).total(),
            ours.get(unit, none).total(),
            truth.get(unit, none).total(),
        )
        for unit in dict.fromkeys([*ours, *truth])
    }


def pooled(tallies: Iterable[Tally]) -> dict[Hashable, tuple[int, int, int]]:
    """Several trials as one tally: a unit is resampled with all its trials."""
    result: dict[Hashable, tuple[int, int, int]] = {}
    for each in tallies:
        for unit, counts in each.items():
            hits, own, true = result.get(unit, (0, 0, 0))
            result[unit] = (hits + counts[0], own + counts[1], true + counts[2])
    return result


def score(units: Tally) -> Score:
    """Precision, recall and F1 over all units (micro-averaged), with the interval of F1.

    If no unit has or should have an answer, F1 is 1; without units it is None.
    """
    hits, own, true = (sum(counts[i] for counts in units.values()) for i in range(3))
    result = Score.of(hits, own, true, estimate(list(units.values()), _f1).interval)
    return replace(result, f1=1.0) if units and result.f1 is None else result


def difference(ours: Tally, theirs: Tally) -> IntervalEstimate:
    """The difference of two F1 scores, paired: each sample draws the same units of both."""
    none = (0, 0, 0)
    both = [
        (*ours.get(unit, none), *theirs.get(unit, none)) for unit in dict.fromkeys([*ours, *theirs])
    ]
    return estimate(both, lambda sums: _f1(sums) - _f1(sums[:, 3:]))


def agreement(*trials: tuple[Answers, Answers]) -> IntervalEstimate:
    """The share of units with the same answers in two sets, over all trials; 1 without units.

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
