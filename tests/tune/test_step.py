"""The tuning of a step against a server: what is never chosen, what ends before it costs, and what does not
end the search.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import semgraph as sg
from semgraph.errors import ModelUnavailable, PlanError
from tests.llm.server import Answer, ModelServer, error
from tests.tune.judges import leaking, notes, opened, share, truth_of, tuned

BOTH = ["default", "small"]
RULES = "Rules: " + "a pipe leaks if water comes out of it, however little. " * 12
NO = '''"""Says no without a call."""

from semgraph.operator import Context, Cost, Implementation, Observed, Outcome, Rows, SemFilter
from semgraph.operator import RowEstimate, dataclass, pa


@dataclass(frozen=True)
class No(Implementation[SemFilter]):
    same = False

    def estimate(self, node: SemFilter, rows: RowEstimate, seen: Observed | None) -> Cost:
        return Cost(calls=0)

    async def answer(self, node: SemFilter, rows: Rows, ctx: Context) -> pa.Table:
        BODY
'''
SAYS_NO = "return [Outcome({'keep': False})] * len(rows.items)"


@pytest.fixture
async def session(server: ModelServer, tmp_path: Path) -> AsyncIterator[sg.Session]:
    async with opened(server, tmp_path) as made:
        yield made


def with_own(server: ModelServer, folder: Path, body: str) -> sg.Session:
    """A session with an implementation of a filter of its own."""
    own = folder / "own" / "sem_filter"
    own.mkdir(parents=True)
    (own / "no.py").write_text(NO.replace("BODY", body))
    return opened(server, folder, operators=[folder / "own"])


def small(text: str = "") -> Any:
    """The errors of the small model: where it has a text."""
    return lambda texts, at, model: "nano" in model and text in texts[at]


def tried(result: Any) -> dict[str, Any]:
    return {each.name: each for each in result.tried}


class TestIsNeverChosen:
    async def test_a_model_that_always_says_no_where_three_of_a_hundred_are_true(
        self, session, judge
    ):
        """It agrees with the reference on 97 rows of 100."""
        judge.errs = small("leaks")
        rows = notes(200, lambda n: n % 33 == 0)
        result = await tuned(session, leaking(rows), floor=0.3, models=BOTH, units="row")
        assert result.status == "kept"
        of_small = [t for name, t in tried(result).items() if "@ small" in name and t.units]
        assert len(of_small) >= 3
        assert {each.f1 for each in of_small} == {0.0}
        assert {each.at_least for each in of_small} == {0.0}

    async def test_an_implementation_that_says_no_for_nothing(self, server, tmp_path):
        rows = notes(400, lambda n: n % 33 == 0)
        async with with_own(server, tmp_path, SAYS_NO) as session:
            options = {"floor": 0.6, "units": "row"}
            without = await tuned(session, leaking(rows), **options)
            by_truth = await tuned(session, leaking(rows), truth=truth_of(rows), **options)
        for result in (without, by_truth):
            assert tried(result)["good=no"].cost == 0
            assert tried(result)["good=no"].verdict in {"not shown", "hopeless"}
            assert (result.status, result.choices) == ("kept", {})

    @pytest.mark.parametrize("truth", [True, False])
    async def test_a_model_whose_rows_fail(self, session, judge, truth):
        """Also not where most rows are rightly dropped, and so are those that fail."""
        judge.fault = lambda body, _: Answer("perhaps") if "nano" in body["model"] else None
        rows = notes(100, lambda n: n % 4 == 0)
        plan = leaking(rows, on_error="null")
        options = {"truth": truth_of(rows)} if truth else {}
        result = await tuned(session, plan, floor=0.5, models=BOTH, units="row", **options)
        of_small = [t for name, t in tried(result).items() if "@ small" in name and t.units]
        assert of_small
        assert all(each.verdict != "shown" and not each.f1 for each in of_small)
        assert result.status == "kept"


class TestAnErrorNeverRaisesAScore:
    @pytest.mark.parametrize("truth", [True, False])
    async def test_of_the_endpoint(self, server, tmp_path, judge, truth):
        """Answers that are no verdicts, to every third text, right or wrong."""
        judge.errs = lambda texts, at, model: "nano" in model and share(texts[at]) < 0.1
        rows = notes(100, lambda n: n % 2 == 0)
        options = {"truth": truth_of(rows)} if truth else {}
        options |= {"floor": 0.5, "units": "row", "models": BOTH}
        scores = []
        for fails in (False, True):
            said = judge.said
            judge.said = lambda texts, at, model, said=said, fails=fails: (
                "perhaps" if fails and "nano" in model and share("fails", texts[at]) < 0.3
                else said(texts, at, model)
            )  # fmt: skip
            async with opened(server, tmp_path) as session:
                result = await tuned(session, leaking(rows, on_error="null"), **options)
            scores.append({n: t.f1 for n, t in tried(result).items() if t.f1 is not None})
        name = "good=packed(rows=40) @ small"
        assert scores[0][name] > 0.8
        assert scores[1][name] < scores[0][name] - 0.1

    async def test_of_an_implementation(self, server, tmp_path):
        """It fails on each row: right on none, though most are rightly dropped."""
        body = 'return [Outcome(None, "broken: no idea")] * len(rows.items)'
        rows = notes(200, lambda n: n % 4 == 0)
        async with with_own(server, tmp_path, body) as session:
            options = {"truth": truth_of(rows), "floor": 0.7, "units": "row"}
            result = await tuned(session, leaking(rows, on_error="null"), **options)
        assert tried(result)["good=no"].f1 == 0.0
        assert tried(result)["good=no"].verdict == "hopeless"


class TestOneThatRaisesHasFailedAndTheSearchGoesOn:
    async def test_an_implementation(self, server, tmp_path):
        rows = notes(400)
        async with with_own(server, tmp_path, 'raise ValueError("not today")') as session:
            options = {"truth": truth_of(rows), "floor": 0.8, "use": {"good": "per_row"}}
            result = await tuned(session, leaking(rows, RULES), **options)
        failed = tried(result)["good=no"]
        assert failed.verdict == "failed"
        assert "raised ValueError: not today" in failed.why
        assert "no.py:15" in failed.why
        assert result.status == "shown"

    async def test_an_implementation_that_raises_late(self, server, tmp_path):
        """Not before it has an answer, and not in the pilot."""
        body = """table = await ctx.ask_packed(node, rows, rows.blocks(node, left=50))
        if len(rows.items) > 50:
            raise ValueError("too many")
        return table"""
        rows = notes(400)
        async with with_own(server, tmp_path, body) as session:
            options = {"truth": truth_of(rows), "floor": 0.8, "units": "row"}
            result = await tuned(session, leaking(rows, RULES), use={"good": "per_row"}, **options)
        assert tried(result)["good=no"].verdict == "failed"
        assert "too many" in tried(result)["good=no"].why
        assert result.status == "shown"

    async def test_a_model_that_lacks_what_an_implementation_needs(self, session):
        rows = notes(300)
        result = await tuned(
            session, leaking(rows, RULES), floor=0.8, models=BOTH, truth=truth_of(rows)
        )
        failed = tried(result)["good=logit @ small"]
        assert failed.verdict == "failed"
        assert "no log-probabilities" in failed.why
        assert result.status == "shown"

    async def test_but_a_reference_that_raises_ends_it(self, session, judge):
        judge.fault = lambda body, _: error(401, "wrong key") if "mini" in body["model"] else None
        with pytest.raises(ModelUnavailable, match="key"):
            await tuned(session, leaking(notes(100)), floor=0.6, models=BOTH)


class TestEndsBeforeItCosts:
    async def test_where_too_few_true_answers_can_show_the_floor(self, session, server):
        rows = notes(400, lambda n: n < 40)
        plan = leaking(rows, RULES)
        with pytest.raises(
            PlanError, match=r"40.*bout \d+ rows would do|check more rows"
        ) as failed:
            await tuned(session, plan, floor=0.95, truth=truth_of(rows), units="row",
                        use={"good": "per_row"})  # fmt: skip
        assert server.requests == []
        assert "0.95 is shown by" in str(failed.value)
        assert "400 checked rows have 40" in str(failed.value)

    async def test_where_it_would_cost_more_than_it_saves(self, session, server):
        rows = notes(400)
        options = {"floor": 0.8, "models": BOTH, "truth": truth_of(rows)}
        result = await tuned(session, leaking(rows), rows=3, **options)
        assert result.status == "kept"
        assert "and save at most" in result.reason
        assert "on 3 rows" in result.reason
        assert not any(each.units for each in result.tried)
        pilot = len(server.requests)
        server.requests.clear()
        again = await tuned(session, leaking(rows), rows=1_000_000, **options)
        assert again.status == "shown"
        assert len(server.requests) > pilot

    async def test_where_little_can_be_gained(self, session, server):
        """A short prompt, of the plan's own model: packing does not pay."""
        rows = notes(400)
        result = await tuned(session, leaking(rows), floor=0.8, truth=truth_of(rows))
        assert result.status == "kept"
        assert result.reason.startswith(("at most", "about"))
        assert result.reason.endswith("to gain")
        assert not any(each.units for each in result.tried)
        assert result.paid.calls == len(server.requests) < 100

    async def test_where_a_user_says_no(self, session, server):
        rows, lines = notes(400), []
        options = {"floor": 0.8, "models": BOTH, "truth": truth_of(rows)}
        result = await tuned(session, leaking(rows), ask=lines.append, **options)
        assert (result.status, result.reason) == ("kept", "the search was not begun")
        assert [line.split(":")[0] for line in lines[0]] == ["power", "gain", "search"]


async def test_of_equal_candidates_at_equal_prices_the_reference_stays(server, tmp_path):
    """The same model twice, under two names: only its other packings could be cheaper."""
    price = {"llm": f"openai:gpt-4.1-mini@{server.base_url}?price=1/4",
             "models": {"small": f"openai:gpt-4.1-nano@{server.base_url}?price=1/4"}}  # fmt: skip
    rows = notes(400)
    async with opened(server, tmp_path, **price) as session:
        result = await tuned(session, leaking(rows), floor=0.8, models=BOTH, truth=truth_of(rows))
    same = tried(result)["good=packed(rows=20) @ small"]
    assert (same.verdict, same.why) == ("not tried", "it saves less than a tenth")
    assert result.status == "kept"


async def test_a_family_whose_quality_does_not_fall_with_risk_keeps_the_floor(session, judge):
    """Five rows in a call are read worse than forty."""
    judge.errs = lambda texts, at, _: len(texts) in {2, 5} and share(texts[at]) < 0.5
    rows = notes(400)
    options = {"floor": 0.8, "truth": truth_of(rows), "units": "row", "use": {"good": "per_row"}}
    result = await tuned(session, leaking(rows, RULES), **options)
    assert result.status == "shown"
    chosen = result.best
    assert chosen.name not in {"good=packed(rows=2)", "good=packed(rows=5)"}
    assert chosen.at_least >= 0.8


async def test_what_decides_by_the_other_rows_is_not_tried_on_a_sample(session, server):
    """A cascade asks the model about each of a few rows, and about a share of many."""
    rows = notes(400)
    options = {"floor": 0.8, "truth": truth_of(rows), "use": {"good": "per_row"}}
    result = await tuned(session, leaking(rows, RULES), **options)
    cascade = [each for each in result.tried if "cascade" in each.name]
    assert cascade
    assert {each.verdict for each in cascade} == {"refused"}
    assert "it learns from all rows" in cascade[0].why


async def test_rows_that_ask_the_same_count_once_which_is_said(session, judge):
    """The text of half of the rows is answered wrongly: one question of many."""
    judge.errs = small("Pipe 0 ")
    rows = notes(200)
    rows += [{**rows[0], "id": number} for number in range(200, 400)]
    options = {"floor": 0.8, "truth": truth_of(rows), "models": BOTH, "units": "row"}
    result = await tuned(session, leaking(rows), **options)
    assert result.status == "shown"
    assert "Rows that ask the same count once: 400 rows ask 200 questions." in result.caveats
