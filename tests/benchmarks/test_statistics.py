"""What a few trials say: multiples with intervals, exponents of growth, break-even, losses found by
rule.
"""

from __future__ import annotations

import math

import pytest

from benchmarks.suite import BreakEven, Chart, Contest, Line
from benchmarks.suite.contests import markdown
from benchmarks.suite.statistics import growth, multiple
from tests.benchmarks.made import MADE, line


def test_a_multiple_is_the_median_of_the_trials_with_students_interval_on_logarithms() -> None:
    found = multiple([(2, 1), (4, 2), (9, 3)])
    assert found is not None
    assert found.value == 2
    logs = [math.log(2), math.log(2), math.log(3)]
    middle = sum(logs) / 3
    half = 4.302653 * math.sqrt(sum((one - middle) ** 2 for one in logs) / 2 / 3)
    assert found.low == pytest.approx(math.exp(middle - half), rel=1e-5)
    assert found.high == pytest.approx(math.exp(middle + half), rel=1e-5)
    assert found.above
    assert not multiple([(2, 1), (2, 4), (9, 3)]).above  # type: ignore[union-attr]


def test_counts_that_never_vary_need_no_interval_and_one_trial_has_none() -> None:
    assert str(multiple([(8, 10)] * 3)) == "0.800×"
    assert str(multiple([(8, 10)])) == "0.800×"
    assert multiple([(8, 10)] * 3).below  # type: ignore[union-attr]
    assert multiple([]) is None
    assert multiple([(1, 0)]) is None


def test_growth_is_the_slope_of_the_logarithms() -> None:
    found = growth([(10, 30), (100, 3_000), (1_000, 300_000)])
    assert found is not None
    assert found.exponent == pytest.approx(2)
    assert found.half == pytest.approx(0, abs=1e-6)
    assert str(growth([(10, 5), (100, 5)])) == "x^0.00"
    assert growth([(10, 5), (10, 6)]) is None


def test_a_chart_tells_how_each_series_grows() -> None:
    chart = Chart("g", "G", "n", "ms", "way", ("n", "ms"), grows=True)
    lines = [
        Line("ingest", {"way": "a", "n": n}, t, {"ms": 2 * n}, {}, MADE)
        for n in (1, 10, 100)
        for t in range(3)
    ]
    assert str(chart.exponents(lines)["a"]) == "x^1.00 ± 0.00"


def _sized(size: int, trial: int, f1: float) -> Line:
    return Line(
        "ingest", {"noise": "1 %", "size": size}, trial, {"f1": f1, "calls": 100 // size}, {}, MADE
    )


def test_break_even_is_the_largest_size_up_to_which_nothing_is_lost() -> None:
    table = BreakEven("Q?", ("noise",), "size", "f1", "calls")
    worth = {1: (0.95, 0.9), 2: (0.94, 0.9), 5: (0.93, 0.89), 10: (0.8, 0.85), 20: (0.95, 0.95)}
    lines = [
        _sized(size, trial, f1) for size, both in worth.items() for trial, f1 in enumerate(both)
    ]
    text = table.markdown(lines, [one.key for one in lines])
    assert (
        "| 1 % | 0.925 (0.900–0.950) | 5 | 0.910 (0.890–0.930) | 100 → 20 | 10: 0.825 (0.800–0.850) |"
        in text
    )


CONTEST = Contest("way", ("other",), {"calls": "calls", "s": "s"}, {"f1": "F1"})


def test_losses_are_computed_for_costs_and_for_quality() -> None:
    lines = [line("other", t, calls=5, s=1 + 0.01 * t, f1=0.9) for t in range(3)]
    lines += [line("ours", t, calls=3, s=2 + 0.01 * t, f1=0.6) for t in range(3)]
    losses = CONTEST.losses(lines)
    assert [(who, other, title) for who, other, title, *_ in losses] == [
        ("ours", "other", "s"),
        ("ours", "other", "F1"),
    ]
    assert "| ours | other | F1 | 0.667× |" in markdown(losses)


def test_a_difference_within_chance_is_no_loss() -> None:
    lines = [line("other", t, s=s) for t, s in enumerate((1.0, 2.0, 3.0))]
    lines += [line("ours", t, s=s) for t, s in enumerate((3.0, 1.5, 4.0))]
    assert CONTEST.losses(lines) == []


def test_a_loss_names_the_settings_that_it_had() -> None:
    ours = Line("ingest", {"way": "ours", "stream": "x"}, 0, {"calls": 9}, {"window": 50}, MADE)
    other = Line("ingest", {"way": "other", "stream": "x"}, 0, {"calls": 5}, {}, MADE)
    ((_, _, _, times, where),) = CONTEST.losses([ours, other])
    assert times == "1.80×"
    assert where == "x (window 50)"
