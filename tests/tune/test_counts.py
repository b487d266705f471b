"""What is counted, and over what: true answers, rows that ask the same, rows that share a call of the
reference, and costs.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

import semgraph as sg
from semgraph.compare.comparison import Spent, Trial
from semgraph.compare.trial import Attempt
from semgraph.errors import PlanError
from semgraph.tune.plans import PlanTuning
from semgraph.tune.walk import Counted, Entry, Measure, Walk
from tests.llm.server import ModelServer
from tests.tune.judges import leaking, notes, opened, truth_of, tuned

BOTH = ["default", "small"]
RULES = "Rules: " + "a pipe leaks if water comes out of it, however little. " * 12


@pytest.fixture
async def session(server: ModelServer, tmp_path: Path) -> AsyncIterator[sg.Session]:
    async with opened(server, tmp_path) as made:
        yield made


class TestPower:
    async def test_of_rare_answers_is_not_judged_by_twenty_rows(self, session):
        """With this seed the pilot has none of the 3 % that leak."""
        rows = notes(1_500, lambda n: n % 33 == 0)
        options = {"floor": 0.6, "models": BOTH, "units": "row", "sample": 1_500, "seed": 1}
        result = await tuned(session, leaking(rows), **options)
        assert result.status == "shown"

    async def test_counts_labels_of_a_question_and_not_rows(self, session, server):
        rows = notes(400)
        plan = sg.table(rows, key="id").sem_map("Who wrote “{text}”?", returns={"who": "string"})
        truth = [{"id": n, "who": "Ann"} for n in range(20)]
        with pytest.raises(PlanError, match="400 checked rows have 20"):
            await tuned(session, plan, floor=0.95, models=BOTH, units="row", truth=truth)
        assert server.requests == []

    async def test_names_the_tests_that_the_error_is_divided_by(self, server, tmp_path):
        """Also where there are so many candidates that families share it."""
        other = {
            "models": {n: f"openai:gpt-4.1-nano-{n}@{server.base_url}?price=.1/.4" for n in "abc"}
        }
        rows = notes(400)
        async with opened(server, tmp_path, **other) as session:
            result = await tuned(
                session, leaking(rows, RULES), floor=0.8, models=["default", *"abc"],
                truth=truth_of(rows), units="row",
            )  # fmt: skip
        assert result.rule.startswith("families")
        (line,) = (line for line in result.before if line.startswith("power"))
        tests = int(re.search(r"\((\d+) tests\)", line)[1])
        tried = [each.alpha for each in result.tried if each.units]
        assert tried == pytest.approx([0.05 * 0.9 / tests] * len(tried))


class TestAPackedReference:
    async def test_answers_checked_rows_in_separate_calls_too(self, session):
        options = {"floor": 0.9, "models": BOTH, "use": {"good": "packed(rows=20)"}}
        with pytest.raises(PlanError, match="About 580 rows would do, and the input has 400"):
            await tuned(session, leaking(notes(400), RULES), **options)


async def test_rows_that_ask_the_same_are_one_question_which_the_promise_says(session, judge):
    """Half of the rows are answered wrongly, all for one question."""
    judge.errs = lambda texts, at, model: "nano" in model and texts[at] == "Pipe leaks."
    rows = [{"id": n, "text": f"Pipe {n} leaks." if n % 2 else "Pipe leaks."} for n in range(800)]
    options = {"floor": 0.9, "models": BOTH, "units": "row"}
    result = await tuned(session, leaking(rows), **options)
    assert "over different questions like those of the rows" in result.promise
    assert "800 rows ask 401 questions" in result.guarantee
    other = await tuned(session, leaking(notes(400)), **options)
    assert "over rows like the input" in other.promise
    assert "questions" not in other.guarantee


def test_returned_rows_that_are_equal_count_each():
    """Two thirds of the products are named wrongly, all alike."""

    def attempt(often: str) -> Attempt:
        products = [often] * 200 + [f"Lamp{n}" for n in range(100)]
        return Attempt(Trial(1, Spent(), Spent()), tables={"only": pa.table({"product": products})})

    measure = Measure(exists=False)
    of = SimpleNamespace(plans=SimpleNamespace(truth=None), walk=SimpleNamespace(measure=measure))
    counts = PlanTuning._counts(of, attempt("Pot"), attempt("Kettle"))  # type: ignore[arg-type]
    assert measure.f1(counts) == pytest.approx(1 / 3)
    assert measure.at_least(counts, 0.05) < 1 / 3


class TestBelowAPrice:
    async def test_a_reference_stays_with_whose_answers_all_others_are_compared(self, session):
        result = await tuned(session, leaking(notes(400)), per_1000=100, models=BOTH, units="row")
        assert result.status == "kept"
        assert result.reason == "the reference costs less than the price, and nothing agrees more"

    async def test_a_reference_stays_that_is_right_more_often(self, session, judge):
        judge.errs = lambda texts, at, model: "nano" in model or len(texts) > 1
        rows = notes(100)
        options = {"models": BOTH, "units": "row", "truth": truth_of(rows)}
        result = await tuned(session, leaking(rows), per_1000=0.1, **options)
        assert (result.status, result.reason) == ("kept", "nothing below the price is better")

    def test_none_is_chosen_that_costs_more_as_measured(self):
        walk = Walk([Entry("a", 1.0, 50), Entry("b", 2.0, 50)], Measure(True), None, 0.05, 50, 2.0)
        steps = walk.steps()
        assert next(steps).name == "a"
        assert steps.send(Counted([(1, 1, 1)] * 40 + [(0, 0, 1)] * 10, cost=1.5)).name == "b"
        with pytest.raises(StopIteration):
            steps.send(Counted([(1, 1, 1)] * 50, cost=2.5))
        assert walk.chosen == walk.found == "a"
        assert walk.results["b"].why == "it costs more, as measured"

    def test_of_what_cannot_be_shown_the_best_is_found(self):
        measure = Measure(exists=False, bernoulli=False)
        walk = Walk([Entry("a", 1.0, 50), Entry("b", 2.0, 50)], measure, None, 0.05, 50)
        steps = walk.steps()
        next(steps)
        steps.send(Counted([(0, 2, 2)] * 50))
        with pytest.raises(StopIteration):
            steps.send(Counted([(1, 2, 2)] * 50))
        assert (walk.chosen, walk.found) == ("", "b")


async def test_a_model_that_lacks_something_ends_no_search_for_dearer_candidates(session, judge):
    """It is the reference's own, which is below the floor; and so are all cheaper ones."""
    judge.errs = lambda texts, at, model: "nano" in model and int(texts[at].split()[1]) % 3 == 0
    rows = notes(400)
    options = {"models": ["small", "default"], "truth": truth_of(rows), "units": "row"}
    result = await tuned(session, leaking(rows), floor=0.9, **options)
    of = {each.name: each for each in result.tried}
    assert of["good=logit @ small"].verdict == "failed"
    assert "no log-probabilities" in of["good=logit @ small"].why
    assert result.status == "shown"
    assert "@ small" not in result.chosen


def test_an_upper_bound_is_not_below_the_f1_of_missing_answers():
    """A missing answer is half an error for F1."""
    units = [(1, 1, 1)] * 40 + [(0, 0, 1)] * 20
    measure = Measure(exists=False)
    assert measure.f1(units) == 0.8
    assert measure.at_most(units, 0.05) > 0.8
    assert measure.at_most([(1, 1, 1)] * 40 + [(0, 1, 1)] * 20, 0.05) < 0.8
