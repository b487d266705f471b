"""Rows against true rows, counted by hand; intervals and differences as the bootstrap makes
them.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semgraph.scores import Score, agreement, answers, difference, pooled, score, tally

TRUTH = [{"id": 1, "of": "a"}, {"id": 2, "of": "b"}, {"id": 3, "of": None}, {"id": 4, "of": "d"}]


def said(**of: str | None) -> list[dict[str, object]]:
    return [{"id": int(key[1:]), "of": value} for key, value in of.items()]


def scored(rows, truth=TRUTH):
    return score(tally(answers(rows, ["id"], ["of"]), answers(truth, ["id"], ["of"])))


class TestByHand:
    def test_two_right_one_wrong_one_missing(self):
        found = scored(said(n1="a", n2="x", n3=None, n4="d"))
        assert (found.precision, found.recall, found.f1) == (2 / 3, 2 / 3, 2 / 3)
        assert found.counts == (2, 3, 3)

    def test_what_is_answered_where_nothing_should_be_costs_precision_alone(self):
        found = scored(said(n1="a", n2="b", n3="c", n4="d"))
        assert (found.precision, found.recall) == (3 / 4, 1.0)

    def test_what_is_not_answered_costs_recall_alone(self):
        found = scored(said(n1="a"))
        assert (found.precision, found.recall, found.f1) == (1.0, 1 / 3, 0.5)

    def test_nothing_answered_has_no_precision_and_an_f1_of_zero(self):
        found = scored([])
        assert (found.precision, found.recall, found.f1) == (None, 0.0, 0.0)

    def test_nothing_wanted_and_nothing_answered_is_right(self):
        assert scored(said(n3=None), said(n3=None)).f1 == 1.0

    def test_without_compared_columns_being_there_is_the_answer(self):
        found = score(
            tally(answers([{"id": 1}, {"id": 2}], ["id"]), answers([{"id": 2}, {"id": 3}], ["id"]))
        )
        assert (found.precision, found.recall) == (0.5, 0.5)

    def test_a_second_answer_to_a_unit_that_wants_one_is_wrong(self):
        found = scored([*said(n1="a", n2="b", n4="d"), {"id": 1, "of": "a"}])
        assert found.counts == (3, 4, 3)

    def test_lists_structs_and_nan_are_values(self):
        rows = [{"id": [1], "of": {"x": [1, 2]}}, {"id": [2], "of": float("nan")}]
        assert answers(rows, ["id"], ["of"]) == {
            ("[1]",): Counter({('{"x":[1,2]}',): 1}),
            ("[2]",): Counter(),
        }

    def test_agreement_counts_units_with_the_same_answers(self):
        ours, theirs = (
            answers(said(**of), ["id"], ["of"])
            for of in ({"n1": "a", "n2": "b"}, {"n1": "a", "n2": "x"})
        )
        assert agreement((ours, theirs)).value == 0.5

    def test_agreement_over_trials_counts_each_unit_in_each(self):
        right, wrong = (
            answers(said(n1="a", n2="b"), ["id"], ["of"]),
            answers(said(n1="x", n2="b"), ["id"], ["of"]),
        )
        assert agreement((right, right), (wrong, right)).value == 0.75

    def test_a_unit_asked_about_and_found_by_neither_agrees(self):
        ours, theirs = (
            answers(rows, ["id"], units=[(1,), (2,), (3,)]) for rows in ([{"id": 1}], [{"id": 2}])
        )
        assert agreement((ours, theirs)).value == pytest.approx(1 / 3)

    def test_trials_are_pooled_by_unit(self):
        right, wrong = (
            {("u",): (1, 1, 1), ("v",): (1, 1, 1)},
            {("u",): (0, 1, 1), ("v",): (1, 1, 1)},
        )
        assert score(pooled([right, wrong])).counts == (3, 4, 4)
        assert pooled([right, wrong])["u",] == (1, 2, 2)

    def test_the_score_of_counts(self):
        assert Score.of(0, 0, 2) == Score(None, 0.0, 0.0, None, (0, 0, 2))
        assert Score.of(0, 0, 0) == Score(None, None, None, None, (0, 0, 0))

    def test_without_units_there_is_no_score(self):
        assert score({}).f1 is None


class TestIntervals:
    def test_the_interval_holds_the_value_and_narrows_with_more_units(self):
        few, many = ({i: (int(i % 5 > 0), 1, 1) for i in range(n)} for n in (20, 2000))
        narrow, wide = score(many).interval, score(few).interval
        assert wide.low < score(few).f1 < wide.high
        assert narrow.high - narrow.low < (wide.high - wide.low) / 5

    def test_it_is_about_as_wide_as_the_binomial_says(self):
        low, high = score({i: (int(i % 5 > 0), 1, 1) for i in range(1000)}).interval
        assert (high - low) / (2 * 1.96) == pytest.approx((0.8 * 0.2 / 1000) ** 0.5, rel=0.1)

    def test_a_difference_is_paired(self):
        """The same ten errors on both sides, one more on ours: paired the interval is far narrower
        than either's.
        """
        theirs = {i: (int(i >= 10), 1, 1) for i in range(100)}
        ours = theirs | {50: (0, 1, 1)}
        value, interval = difference(ours, theirs)
        assert value == pytest.approx(-0.01)
        assert interval.high - interval.low < 0.05
        own = score(ours).interval
        assert own.high - own.low > 0.1


row = st.fixed_dictionaries({"id": st.integers(0, 6), "of": st.sampled_from(["a", "b", "c", None])})


class TestProperties:
    @given(st.lists(row))
    @settings(max_examples=60, deadline=None)
    def test_the_truth_scores_one_against_itself(self, rows):
        own = answers(rows, ["id"], ["of"])
        assert score(tally(own, own)).f1 == (1.0 if rows else None)
        assert agreement((own, own)).value == 1.0

    @given(st.lists(row), st.lists(row), st.randoms(use_true_random=False))
    @settings(max_examples=60, deadline=None)
    def test_the_order_of_rows_changes_nothing(self, rows, truth, chance: random.Random):
        mixed = (chance.sample(each, len(each)) for each in (rows, truth))
        assert scored(rows, truth) == scored(*mixed)

    @given(st.lists(row), st.lists(row))
    @settings(max_examples=60, deadline=None)
    def test_precision_one_way_is_recall_the_other(self, rows, truth):
        one, other = scored(rows, truth), scored(truth, rows)
        assert (one.precision, one.f1) == (other.recall, other.f1)
