"""The scores of public data sets, against values worked out by hand."""

from __future__ import annotations

import pytest

from benchmarks.public.scores import (
    all_at,
    any_at,
    best_f1,
    exact,
    locomo,
    normal,
    of_limited,
    recall_at,
    relative_error,
    spearman,
    stems,
    token_f1,
)


def test_words_are_compared_by_their_stems() -> None:
    assert stems(["running", "flies", "generously", "caresses", "Ponies", "café", "2022", "x"]) == [
        "run", "fli", "gener", "caress", "poni", "café", "2022", "x",
    ]  # fmt: skip


def test_case_punctuation_and_articles_do_not_count() -> None:
    assert normal("The  U.S.A., and a Dog!") == "usa and dog"
    assert normal("The cat and the dog", "a|an|the|and") == "cat dog"


def test_f1_counts_a_word_as_often_as_it_stands_there() -> None:
    # 2 of 3 words given are right, 2 of 4 wanted are given: P 2/3, R 1/2, F1 4/7
    assert token_f1(["red", "red", "blue"], ["red", "red", "green", "black"]) == pytest.approx(
        4 / 7
    )
    assert token_f1([], ["red"]) == token_f1(["blue"], ["red"]) == 0


@pytest.mark.parametrize(
    ("answer", "truth", "category", "score"),
    [
        ("7 May 2023", "7 May 2023", 2, 1.0),
        ("in May 2023", "7 May 2023", 2, 2 / 3),  # 2 of 3 and 2 of 3
        ("painting", "She paints", 4, 2 / 3),  # stems: 1 of 1, 1 of 2
        ("Likely yes", "Likely yes; she likes books", 3, 1.0),  # reasons do not count
        ("pottery, swimming", "pottery, camping, swims", 1, 2 / 3),  # 1, 0, 1
        ("That is not mentioned.", "", 5, 1.0),
        ("There is no information available on it", "", 5, 1.0),
        ("A red bowl", "", 5, 0.0),
        ("", "7 May 2023", 2, 0.0),
    ],
)
def test_locomo_scores_by_category(answer: str, truth: str, category: int, score: float) -> None:
    assert locomo(answer, truth, category) == pytest.approx(score)


def test_an_answer_is_compared_with_all_true_ones() -> None:
    truths = ["United States of America", "USA"]
    assert exact("the U.S.A.", truths) == 1
    assert exact("America", truths) == 0
    assert best_f1("America", truths) == pytest.approx(2 * 1 * 0.25 / 1.25)


def test_recall_counts_the_wanted_items_among_the_first() -> None:
    found, wanted = ["a", "b", "c", "d"], {"b", "d"}
    assert [recall_at(k, found, wanted) for k in (1, 2, 4)] == [0, 0.5, 1]
    assert [any_at(k, found, wanted) for k in (1, 2)] == [0, 1]
    assert [all_at(k, found, wanted) for k in (3, 4)] == [0, 1]


def test_where_five_are_wanted_any_five_will_do() -> None:
    truth = set(range(100))
    assert of_limited([1, 2, 3, 4, 5], truth, 5) == (1, 1, 1)
    assert of_limited([1, 2, 3, 400, 500, 6], truth, 5) == pytest.approx(
        (0.6, 0.6, 0.6)
    )  # the sixth is not looked at
    assert of_limited([1, 2], {1, 3, 4, 5}) == pytest.approx((0.5, 0.25, 1 / 3))
    assert of_limited([], truth, 5) == (0, 0, 0)


def test_numbers_are_off_by_their_true_size() -> None:
    assert relative_error({"n": 8}, {"n": 10}) == pytest.approx(0.2)
    assert relative_error(
        {"POSITIVE": 3, "NEGATIVE": 9}, {"POSITIVE": 2, "NEGATIVE": 10}
    ) == pytest.approx(0.3)
    assert relative_error({"n": 2}, {"n": 0}) == 1
    assert relative_error({"n": 0}, {"n": 0}) == 0


def test_ranks_correlate_and_ties_share_theirs() -> None:
    truth = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}
    assert spearman({"a": 10, "b": 20, "c": 30, "d": 40}, truth) == pytest.approx(1)
    assert spearman({"a": 4, "b": 3, "c": 2, "d": 1}, truth) == pytest.approx(-1)
    assert spearman({"a": 1, "b": 2, "c": 2}, truth) == pytest.approx(
        3**0.5 / 2
    )  # ranks 1, 2.5, 2.5 and 1, 2, 3
    assert spearman({"a": 2, "b": 2}, truth) == 0
    assert spearman({"x": 1, "y": 2}, truth) == 0
