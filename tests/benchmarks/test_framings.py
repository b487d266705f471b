"""Framings of yes and no: the labelled rows, and what is measured of their scores."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest

from benchmarks.real.asking import Asking, Noted
from benchmarks.real.framings import CHOSEN, FRAMINGS, JSON, Kind, judged, measures, questions
from semgraph.conformance.oracle import Grams, Mind, Oracle
from semgraph.llm.base import Limits

KINDS = get_args(Kind)


def test_there_are_two_hundred_labelled_rows_and_no_task_is_in_both_splits():
    tasks = {
        (kind, split): questions(kind, split) for kind in KINDS for split in ("development", "test")
    }
    assert sum(len(task.rows) for own in tasks.values() for task in own) >= 300
    for kind in KINDS:
        assert (
            sum(len(task.rows) for split in ("development", "test") for task in tasks[kind, split])
            >= 100
        )
        names = [{task.name for task in tasks[kind, split]} for split in ("development", "test")]
        assert not names[0] & names[1]
        texts = [
            {str(row) for task in tasks[kind, split] for row in task.rows}
            for split in ("development", "test")
        ]
        assert not texts[0] & texts[1]


@pytest.mark.parametrize("kind", KINDS)
def test_each_task_has_both_answers_and_several_wordings(kind: Kind):
    for split in ("development", "test"):
        for task in questions(kind, split):
            assert 0.4 <= sum(task.labels) / len(task.labels) <= 0.6
            assert len(task.wordings) >= 2
            assert all("{text}" in wording["item"] for wording in task.wordings)


def test_scores_are_measured_by_default_calibrated_and_divided():
    scores = [2.0 + n / 10 for n in range(12)] + [4.0 + n / 10 for n in range(12)]
    found = measures(scores, [False] * 12 + [True] * 12, 0.5, graded=True)
    assert (found["right"], found["even"], found["auc"]) == (0.5, 0.5, 1.0)
    assert (found["calibrated"], found["split"]) == (1.0, 1.0)


@pytest.fixture
def own() -> Callable[[Mind], Asking]:
    return lambda mind: Asking(Noted(Oracle(mind, Limits(logprobs=True))), Grams())


@pytest.mark.parametrize("framing", FRAMINGS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_model_that_always_says_yes_is_right_half_of_the_time(
    own: Any, kind: Kind, framing: str
):
    asking = own(Mind(answer=lambda text: {"answer": "yes"}, match=lambda left, right: {}))
    figures = await judged(asking, kind, "test", framing)
    assert 0.4 <= figures["right"] <= 0.6
    assert figures["asked"] == asking.figures()["calls"]
    rows = sum(len(task.rows) for task in questions(kind, "test"))
    assert (figures["asked"] > rows) == (framing == CHOSEN)
    assert ("auc" in figures) == (framing != JSON)
