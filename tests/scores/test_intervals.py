"""Intervals hold: also where all rows agree, and for several variants at once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest

from semgraph.scores import agreement, answers, difference, holm, proportion, score

DRAWS = 2_000
SLACK = 3 * (0.05 * 0.95 / DRAWS) ** 0.5  # three standard errors of a level of 5 %


def labels(right):
    """Rows of which each takes one answer."""
    return {i: (int(hit), 1, 1) for i, hit in enumerate(right)}


def kept(right, share_kept=0.3):
    """Rows that a filter keeps or drops; a wrong one is a row that should have been dropped."""
    keep = np.arange(len(right)) < share_kept * len(right)
    return {
        i: (1, 1, 1) if hit and true else (0, 0, 0) if hit else (0, int(not true), int(true))
        for i, (hit, true) in enumerate(zip(right, keep, strict=True))
    }


class TestExact:
    def test_four_of_four(self):
        low, high = proportion(4, 4)
        assert (round(low, 3), high) == (0.473, 1.0)

    @pytest.mark.parametrize(("hits", "units"), [(1, 3), (9, 10), (37, 40), (500, 1000)])
    def test_the_interval_is_that_of_clopper_and_pearson(self, hits, units):
        assert proportion(hits, units) == pytest.approx(
            tuple(binomtest(hits, units).proportion_ci(0.95)), abs=1e-9
        )

    @pytest.mark.parametrize("units", [1, 4, 300])
    def test_without_an_error_it_is_the_one_sided_one(self, units):
        low = binomtest(units, units, alternative="greater").proportion_ci(0.95).low
        assert proportion(units, units) == pytest.approx((low, 1.0))
        assert proportion(0, units) == pytest.approx((0.0, 1 - low))

    def test_f1_of_rows_that_are_kept_is_bounded_by_their_jaccard_index(self):
        """Of 50 rows 20 are kept rightly, 2 wrongly, 28 dropped rightly: a share of 20 of 22."""
        units = dict.fromkeys(range(20), (1, 1, 1)) | {20: (0, 1, 0), 21: (0, 0, 1)}
        units |= dict.fromkeys(range(22, 50), (0, 0, 0))
        low, high = proportion(20, 22)
        assert score(units).interval == pytest.approx((2 * low / (1 + low), 2 * high / (1 + high)))

    def test_rows_without_an_error_in_several_trials_count_once(self):
        assert score(dict.fromkeys(range(4), (3, 3, 3))).interval == proportion(4, 4)

    def test_equal_trials_say_no_more_than_one(self):
        right, wrong = dict.fromkeys(range(49), (3, 3, 3)), {49: (0, 3, 3)}
        assert score(right | wrong).interval == proportion(49, 50)
        assert score(right | {49: (0, 3, 0)}).interval == score(
            dict.fromkeys(range(49), (1, 1, 1)) | {49: (0, 1, 0)}
        ).interval  # fmt: skip

    def test_rows_that_agree_in_no_trial_count_once(self):
        one, other = (
            answers([{"id": n, "of": of} for n in range(4)], ["id"], ["of"]) for of in "ab"
        )
        assert agreement(*[(one, other)] * 3).interval == proportion(0, 4)

    def test_edges_of_one_graph_are_no_independent_draws(self):
        assert score(labels([True] * 20), independent=False).interval is None

    def test_one_row_says_little_and_none_says_nothing(self):
        assert score(labels([True])).interval == pytest.approx((0.05, 1.0))
        assert score({}).interval is None


class TestLevel:
    """Over seeded draws, an end of an interval is wrong in at most 5 %, where an error is possible
    at both ends in at most 2.5 %.
    """

    @pytest.mark.parametrize("units", [labels, kept])
    @pytest.mark.parametrize("true", [0.7, 0.95, 0.99])
    def test_of_f1(self, units, true):
        chance = np.random.default_rng(1)
        many = score(units(chance.random(200_000) < true)).f1
        found = [score(units(chance.random(60) < true)).interval for _ in range(DRAWS)]
        assert sum(low > many for low, _ in found) / DRAWS <= 0.05 + SLACK
        assert sum(high < many for _, high in found) / DRAWS <= 0.05 + SLACK
        assert sum(low <= many <= high for low, high in found) / DRAWS >= 0.925

    def test_of_agreement(self):
        chance, rows = np.random.default_rng(2), [{"id": i, "of": "a"} for i in range(30)]
        own, wrong, times = answers(rows, ["id"], ["of"]), 0, DRAWS // 4
        for _ in range(times):
            other = [row | {"of": "a" if chance.random() < 0.95 else "b"} for row in rows]
            low, high = agreement((own, answers(other, ["id"], ["of"]))).interval
            wrong += not low <= 0.95 <= high
        assert wrong / times <= 0.075

    def test_of_several_differences_where_there_is_none(self):
        """Three variants as good as the reference: any difference is shown in about 5 %, where
        without a correction it is in about 12 %.
        """
        chance, shown, times = np.random.default_rng(3), 0, DRAWS // 4
        for _ in range(times):
            reference, *others = (labels(chance.random(80) < 0.8) for _ in range(4))
            found = holm([(other, reference) for other in others])
            shown += any(not each.interval.low <= 0 <= each.interval.high for each in found)
        assert shown / times <= 0.05 + 2 * SLACK


class TestDifferences:
    def test_two_equal_answers_of_few_rows_do_not_show_equality(self):
        units = labels([True, True, False, True])
        value, (low, high) = difference(units, units)
        assert value == 0
        assert (low, high) == pytest.approx((-0.527, 0.527), abs=0.001)

    def test_one_difference_is_not_corrected(self):
        ours, theirs = labels([False] * 5 + [True] * 45), labels([True] * 50)
        assert holm([(ours, theirs)]) == [difference(ours, theirs)]

    def test_more_variants_make_wider_intervals(self):
        theirs = labels([True] * 50)
        pairs = [(labels([False] * n + [True] * (50 - n)), theirs) for n in (1, 2, 3)]
        alone = [difference(*pair).interval for pair in pairs]
        together = [each.interval for each in holm(pairs)]
        assert [b.low <= a.low for a, b in zip(alone, together, strict=True)] == [True] * 3
        assert together != alone

    def test_of_lists_agreement_is_by_elements(self):
        """Three of four elements of a list in common, and a row that agrees."""
        ours = answers(
            [{"id": 1, "of": x} for x in "abcd"] + [{"id": 2, "of": "a"}], ["id"], ["of"]
        )
        theirs = answers(
            [{"id": 1, "of": x} for x in "abce"] + [{"id": 2, "of": "a"}], ["id"], ["of"]
        )
        assert agreement((ours, theirs)).value == pytest.approx((0.75 + 1) / 2)


class TestFewDifferences:
    """Resampling sees no variance where all that differs differs alike."""

    @pytest.mark.parametrize(
        ("better", "of", "units"), [(2, 2, 2), (4, 4, 300), (5, 5, 5), (6, 7, 40)]
    )
    def test_none_is_shown_where_the_exact_test_of_mcnemar_shows_none(self, better, of, units):
        ours = labels(n < better or n >= of for n in range(units))
        theirs = labels(n >= better for n in range(units))
        assert binomtest(better, of).pvalue > 0.05
        found = difference(ours, theirs)
        assert found.interval.low <= 0 < found.value == pytest.approx((2 * better - of) / units)

    def test_where_all_rows_differ_alike_the_interval_is_exact(self):
        low, high = difference(labels([True] * 20), labels([False] * 20)).interval
        exact = binomtest(20, 20).proportion_ci(0.95).low
        assert (low, high) == pytest.approx((2 * exact - 1, 1.0))

    def test_few_queries_show_nothing_however_much_they_gain(self):
        gains = [(0.9, 0.1), (0.8, 0.2), (0.7, 0.1)]
        ours, theirs = ({n: (of[i], 1, 1) for n, of in enumerate(gains)} for i in (0, 1))
        assert difference(ours, theirs).interval.low < 0
        more = [
            {n: (value, 1, 1) for n, value in enumerate(values * 4)}
            for values in zip(*gains, strict=True)
        ]
        assert difference(*more).interval.low > 0
