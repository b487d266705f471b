"""Which model answers which role, and what the wrappers do together."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from semgraph.errors import BudgetReached, PlanError, RowError
from semgraph.llm.base import Message, Request
from semgraph.llm.journal import Journal
from semgraph.llm.openai import OpenAI
from semgraph.llm.stack import Budget, Coalesced, Limiter, RetryPolicy, Roles, Stack, bound
from semgraph.llm.tokens import FlatPrice
from tests.llm.server import Answer, ModelServer, error

QUICK = RetryPolicy(attempts=3, first=0.001, longest=0.001)


@pytest.fixture
async def models(server: ModelServer):
    models = [OpenAI(name, server.base_url) for name in ("large", "small", "judge")]
    yield models
    for model in models:
        await model.aclose()


def of(role: str) -> Request:
    return Request(role, (Message("user", "hi"),), "{}")


class TestRoles:
    async def test_each_role_is_answered_by_its_model(self, server: ModelServer, models):
        large, small, judge = models
        roles = Roles(large, small=small, judge=judge)
        for role in ("small", "default", "judge"):
            await roles.complete(of(role))
        assert [request["model"] for request in server.requests] == ["small", "large", "judge"]

    @pytest.mark.parametrize("role", ["small", "judge"])
    async def test_a_role_without_a_model_falls_back_to_default(
        self, server: ModelServer, models, role: str
    ):
        await Roles(models[0]).complete(of(role))
        assert server.requests[0]["model"] == "large"

    async def test_a_misspelt_role_is_refused(self, server: ModelServer, models):
        with pytest.raises(
            PlanError, match=r'"smal"\. Roles with a model: default\. Did you mean "small"'
        ):
            await Roles(models[0]).complete(of("smal"))
        assert server.requests == []

    def test_limits_and_tokenizer_are_those_of_the_roles_model(self, models):
        large, small, _ = models
        roles = Roles(large, small=small)
        assert roles.name == large.name
        assert bound(roles, "small") is small
        assert bound(large, "small") is large

    async def test_one_model_in_two_roles_is_closed_once(self, server: ModelServer):
        model = OpenAI("m", server.base_url)
        roles = Roles(model, small=model, judge=model)
        await roles.complete(of("judge"))
        await roles.aclose()
        await roles.aclose()


class TestStack:
    def test_the_stack_has_the_documented_order(self, endpoint, journal: Journal):
        model = Stack(budget=Budget(), journal=journal).model(endpoint, Limiter())
        order = []
        while hasattr(model, "inner"):
            order.append(type(model).__name__)
            model = model.inner
        wrappers = "Drained Coalesced Journalled Budgeted Traced Retried Limited"
        assert order == wrappers.split()
        assert model is endpoint

    async def test_without_a_journal_nothing_is_kept(self, server: ModelServer, endpoint, ask):
        model = Stack().model(endpoint, Limiter())
        assert isinstance(model, Coalesced)
        assert [(await model.complete(ask())).origin for _ in range(2)] == ["issued", "issued"]

    async def test_calls_are_answers_and_attempts_are_requests(
        self, server: ModelServer, endpoint, journal, ask
    ):
        """100 rows, 10 of them distinct, the first attempt of each failing: 10 calls, 20 attempts,
        then nothing.
        """
        seen: set[str] = set()

        async def answer(body: dict):
            text = body["messages"][-1]["content"]
            if text in seen:
                return "{}"
            seen.add(text)
            return error(500, "oops")

        server.answer, server.latency = answer, 0.005
        budget = Budget(max_calls=10)
        model = Stack(retry=QUICK, budget=budget, journal=journal).model(endpoint, Limiter(64))
        rows = [ask(str(i % 10)) for i in range(100)]
        replies = await asyncio.gather(*map(model.complete, rows))
        assert [
            sum(r.origin == o for r in replies) for o in ("issued", "coalesced", "journal")
        ] == [10, 90, 0]
        assert sum(reply.attempts for reply in replies) == len(server.requests) == 20
        assert budget.spent.calls == 10

        again = [await model.complete(row) for row in rows]
        assert {reply.origin for reply in again} == {"journal"}
        assert sum(reply.attempts for reply in again) == 0
        assert len(server.requests) == 20

    async def test_a_rerun_pays_only_for_the_failed_row(self, server, endpoint, journal, ask):
        bad = True

        async def answer(body: dict):
            return error(400, "no") if bad and body["messages"][-1]["content"] == "42" else "{}"

        server.answer = answer
        model = Stack(journal=journal).model(endpoint, Limiter(64))
        outcomes = await asyncio.gather(
            *(model.complete(ask(str(i))) for i in range(100)), return_exceptions=True
        )
        assert [i for i, outcome in enumerate(outcomes) if isinstance(outcome, RowError)] == [42]
        server.requests.clear()
        bad = False
        replies = await asyncio.gather(*(model.complete(ask(str(i))) for i in range(100)))
        assert len(server.requests) == 1
        assert replies[42].origin == "issued"

    async def test_one_budget_holds_over_all_models(self, models, ask):
        budget = Budget(max_calls=3)
        large, small = (Stack(budget=budget).model(model, Limiter()) for model in models[:2])
        roles = Roles(large, small=small)
        for role in ("default", "small", "default"):
            await roles.complete(of(role))
        with pytest.raises(BudgetReached, match="call 4"):
            await roles.complete(of("small"))

    async def test_journalled_answers_cost_nothing(self, endpoint, journal: Journal, ask):
        await Stack(journal=journal).model(endpoint, Limiter()).complete(ask())
        broke = Stack(budget=Budget(max_calls=0), journal=journal).model(endpoint, Limiter())
        assert (await broke.complete(ask())).origin == "journal"
        with pytest.raises(BudgetReached):
            await broke.complete(ask("other"))

    async def test_a_run_that_stopped_at_its_budget_is_resumed(
        self, server, endpoint, journal, ask
    ):
        rows = [ask(str(i)) for i in range(50)]
        for limit, sent in ((20, 20), (20, 40), (20, 50)):
            model = Stack(budget=Budget(max_calls=limit), journal=journal).model(
                endpoint, Limiter(8)
            )
            await asyncio.gather(*map(model.complete, rows), return_exceptions=True)
            assert len(server.requests) == sent

    async def test_a_truncated_answer_is_recorded_and_stays_an_error(
        self, server: ModelServer, endpoint, journal, ask
    ):
        async def answer(body: dict):
            return Answer("{", finish="length")

        server.answer = answer
        model = Stack(journal=journal).model(endpoint, Limiter())
        errors = []
        for _ in range(2):
            with pytest.raises(RowError) as caught:
                await model.complete(ask())
            errors.append(caught.value)
        assert len(server.requests) == 1
        assert [error.spent.origin for error in errors] == ["issued", "journal"]
        assert {(error.kind, str(error)) for error in errors} == {("truncated", str(errors[0]))}

    async def test_scopes_share_no_answers_and_trials_are_replayed(
        self, server, endpoint, journal, ask
    ):
        arms = [
            Stack(journal=journal, scope=f"arm {i}").model(endpoint, Limiter()) for i in range(2)
        ]
        replies = [await arm.complete(ask(trial=trial)) for arm in arms for trial in range(3)]
        assert {reply.origin for reply in replies} == {"issued"}
        assert len(server.requests) == 6

    async def test_a_limit_in_dollars_holds_over_a_flood(
        self, server: ModelServer, tmp_path: Path, ask
    ):
        async def answer(body: dict) -> Answer:
            return Answer("{}", usage={"prompt_tokens": 50, "completion_tokens": 50})

        server.answer, server.latency = answer, 0.002
        endpoint = OpenAI("m", server.base_url, price=FlatPrice(1000, 1000))
        journal, budget = Journal(tmp_path / "j.db"), Budget(max_usd=3)
        model = Stack(budget=budget, journal=journal).model(endpoint, Limiter(64))
        flood = (model.complete(ask(str(i), max_tokens=100)) for i in range(100))
        outcomes = await asyncio.gather(*flood, return_exceptions=True)
        paid = [outcome.dollars for outcome in outcomes if not isinstance(outcome, BaseException)]
        assert sum(paid) == pytest.approx(budget.spent.usd)
        assert 2.7 < budget.spent.usd <= 3
        await endpoint.aclose()
        journal.close()
