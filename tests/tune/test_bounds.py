"""The exact bounds: their coverage by brute force, at each number of units and each share."""

from __future__ import annotations

import math

import numpy as np
import pytest

from semgraph.scores import f1_at_least, share_at_least
from semgraph.tune.walk import Measure

SHARES = np.linspace(0.01, 0.99, 99)
UNITS = (1, 2, 3, 5, 8, 13, 21, 34, 60)
RIGHT, MISSING, SPURIOUS, OTHER, NONE = (1, 1, 1), (0, 0, 1), (0, 1, 0), (0, 1, 1), (0, 0, 0)


def chances(units: int, share: float) -> np.ndarray:
    """The probability of each number of hits, by the definition."""
    return np.array(
        [math.comb(units, k) * share**k * (1 - share) ** (units - k) for k in range(units + 1)]
    )


@pytest.mark.parametrize("error", [0.05, 0.05 / 8, 0.001])
@pytest.mark.parametrize("units", UNITS)
def test_the_bound_of_a_share_is_above_it_with_at_most_the_error(units, error):
    bounds = np.array([share_at_least(hits, units, error) for hits in range(units + 1)])
    for share in SHARES:
        assert chances(units, share)[bounds > share].sum() <= error + 1e-9


@pytest.mark.parametrize("units", UNITS)
def test_the_bound_of_a_share_is_exact(units):
    """At the bound of some hits, so many or more have just the error: no greater bound is one."""
    for hits in range(1, units + 1):
        bound = share_at_least(hits, units, 0.05)
        assert chances(units, bound)[hits:].sum() == pytest.approx(0.05, abs=1e-9)


@pytest.mark.parametrize("units", UNITS)
def test_the_bound_of_f1_is_above_it_with_at_most_the_error(units):
    """Of units that are hits, false answers or missing ones: F1 = 2 hits / (2 hits + wrong)."""
    bounds = np.array([f1_at_least(hits, units - hits, 0.05) for hits in range(units + 1)])
    for share in SHARES:
        f1 = 2 * share / (2 * share + 1 - share)
        assert chances(units, share)[bounds > f1].sum() <= 0.05 + 1e-9


@pytest.mark.parametrize("units", [1, 3, 8, 12])
def test_the_bound_of_answers_is_above_f1_with_at_most_the_error_however_they_are_wrong(units):
    """A wrong answer of a row that has one is another answer (two errors) or none (one): F1 is between the
    share of right rows and that of an F1 of one error each.
    """
    measure = Measure(exists=False)
    for share in SHARES[::7]:
        for missing in (0.0, 0.5, 1.0):  # of the wrong ones
            wrong = 1 - share
            f1 = 2 * share / (2 * share + wrong * (2 - missing))
            above = 0.0
            for hits, chance in enumerate(chances(units, share)):
                for none, split in enumerate(chances(units - hits, missing)):
                    rows = [RIGHT] * hits + [MISSING] * none + [OTHER] * (units - hits - none)
                    above += chance * split * (measure.at_least(rows, 0.05) > f1)
            assert above <= 0.05 + 1e-9


def test_four_of_four_are_no_certainty():
    assert round(share_at_least(4, 4, 0.05), 3) == 0.473
    assert round(f1_at_least(4, 0, 0.05), 3) == 0.642
    assert round(Measure(exists=True).at_least([RIGHT] * 4, 0.05), 3) == 0.642
    assert round(Measure(exists=False).at_least([RIGHT] * 4, 0.05), 3) == 0.473
    assert share_at_least(400, 400, 0.05) < 1


@pytest.mark.parametrize("exists", [True, False])
def test_without_a_true_answer_nothing_is_shown(exists):
    """Also if all rows agree that there is none."""
    measure = Measure(exists)
    for units in ([], [NONE] * 400, [SPURIOUS] * 3, [NONE] * 400 + [MISSING]):
        assert measure.at_least(units, 0.05) == 0
    assert measure.f1([NONE] * 400) is None


@pytest.mark.parametrize("exists", [True, False])
def test_rows_that_both_leave_out_change_no_bound(exists):
    measure, some = Measure(exists), [RIGHT] * 30 + [MISSING] * 2
    assert measure.at_least(some + [NONE] * 900, 0.05) == measure.at_least(some, 0.05)
    assert measure.at_most(some + [NONE] * 900, 0.05) == measure.at_most(some, 0.05)


def test_another_answer_is_wrong_and_missing():
    """One row of four with another answer: three hits of four answers and four true ones. Its bound is that
    of a share of rows, which a row without an answer lowers as much.
    """
    measure = Measure(exists=False)
    another, none = [RIGHT] * 3 + [OTHER], [RIGHT] * 3 + [MISSING]
    assert measure.f1(another) == 0.75
    assert measure.f1(none) == pytest.approx(6 / 7)
    bound = share_at_least(3, 4, 0.05)
    assert measure.at_least(another, 0.05) == measure.at_least(none, 0.05) == bound


def test_a_wrong_and_a_missing_row_are_two_errors():
    measure = Measure(exists=True)
    rows = [RIGHT] * 40 + [SPURIOUS, MISSING]
    assert measure.f1(rows) == pytest.approx(80 / 82)
    assert measure.at_least(rows, 0.05) == f1_at_least(40, 2, 0.05)


@pytest.mark.parametrize("units", [[(3, 4, 4)], [RIGHT] * 80 + [(0.5, 1, 2)]])
def test_units_of_several_answers_have_no_bound(units):
    assert Measure(exists=True).at_least(units, 0.05) is None
    assert Measure(exists=False).at_least(units, 0.05) is None
    assert Measure(exists=True, bernoulli=False).at_least([RIGHT] * 400, 0.05) is None


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("floor", [0.5, 0.9, 0.95, 0.99])
def test_the_answers_that_are_needed_are_the_fewest_that_show_the_floor(floor, exists):
    measure, error = Measure(exists), 0.05 / 8
    needed = measure.needed(floor, error)
    assert measure.at_least([RIGHT] * needed, error) >= floor
    assert measure.at_least([RIGHT] * (needed - 1), error) < floor


@pytest.mark.parametrize("exists", [True, False])
def test_the_upper_bound_is_below_f1_with_at_most_the_error(exists):
    measure = Measure(exists)
    for units in (5, 20, 60):
        rows = [[RIGHT] * k + [MISSING if exists else OTHER] * (units - k) for k in range(units + 1)]  # fmt: skip
        bounds = np.array([measure.at_most(each, 0.1) for each in rows])
        for share in SHARES[::5]:
            f1 = 2 * share / (1 + share) if exists else share
            assert chances(units, share)[bounds < f1].sum() <= 0.1 + 1e-9
