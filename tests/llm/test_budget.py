"""What a run may spend: admitted before it is sent, however many are in flight."""

from __future__ import annotations

import asyncio

import pytest

from semgraph.errors import BudgetReached, PlanError, RowError
from semgraph.llm.journal import Journal
from semgraph.llm.openai import OpenAI
from semgraph.llm.stack import Budget, Budgeted, Limiter, Retried, RetryPolicy, Spending, Stack
from semgraph.llm.tokens import FlatPrice
from tests.llm.server import Answer, Fault, ModelServer, error

QUICK = RetryPolicy(attempts=3, first=0.001, longest=0.001)


@pytest.fixture
async def priced(server: ModelServer):
    """A model at one dollar per thousand tokens, whatever they are for."""
    endpoint = OpenAI("m", server.base_url, price=FlatPrice(1000, 1000), timeout=600)
    yield endpoint
    await endpoint.aclose()


async def flood(model: Budgeted, ask, count: int, **more):
    """Ask with 64 in flight, as an operator does; the outcomes in order."""
    places = asyncio.Semaphore(64)

    async def one(i: int):
        async with places:
            return await model.complete(ask(f"{i:04d}", **more))

    return await asyncio.gather(*(one(i) for i in range(count)), return_exceptions=True)


def answered(outcomes) -> int:
    assert all(isinstance(o, BudgetReached) for o in outcomes if isinstance(o, BaseException))
    return sum(not isinstance(o, BaseException) for o in outcomes)


async def test_calls_end_exactly_at_their_limit(server: ModelServer, endpoint, ask):
    server.latency = 0.005
    outcomes = await flood(Budgeted(endpoint, Budget(max_calls=150)), ask, 300)
    assert answered(outcomes) == len(server.requests) == 150


async def test_tokens_never_pass_their_limit_and_are_used_up(server: ModelServer, priced, ask):
    """Each request may take 1,080 tokens and takes 31 at the server's count: the limit is for what
    is really used.
    """

    async def answer(body: dict) -> Answer:
        return Answer("{}", usage={"prompt_tokens": 30, "completion_tokens": 1})

    server.answer, server.latency = answer, 0.002
    budget = Budget(max_tokens=10_000)
    outcomes = await flood(Budgeted(priced, budget), ask, 600, max_tokens=1000)
    assert budget.spent.tokens == 31 * answered(outcomes) <= 10_000
    # The last one is not sent when the most that it may take no longer fits.
    assert budget.spent.tokens > 10_000 - 1100
    assert len(server.requests) == answered(outcomes)


async def test_dollars_never_pass_their_limit(server: ModelServer, priced, ask):
    async def answer(body: dict) -> Answer:
        return Answer("{}", usage={"prompt_tokens": 10, "completion_tokens": 40})

    server.answer, server.latency = answer, 0.002
    budget = Budget(max_usd=2.00)
    outcomes = await flood(Budgeted(priced, budget), ask, 200, max_tokens=40)
    assert budget.spent.usd == pytest.approx(0.05 * answered(outcomes))
    assert 1.85 < budget.spent.usd <= 2.00


async def test_the_limit_holds_if_every_answer_is_as_long_as_allowed(
    server: ModelServer, priced, ask
):
    sent = await measure(priced, ask("0000", max_tokens=50))

    async def answer(body: dict) -> Answer:
        return Answer("{}", usage={"prompt_tokens": sent, "completion_tokens": 50})

    server.answer, server.latency = answer, 0.002
    budget = Budget(max_tokens=(sent + 50) * 20 + 1)
    outcomes = await flood(Budgeted(priced, budget), ask, 100, max_tokens=50)
    assert answered(outcomes) == 20
    assert budget.spent.tokens == (sent + 50) * 20


async def measure(model, request) -> int:
    from semgraph.llm.tokens import prompt_tokens

    return prompt_tokens(model, request)


async def test_nothing_is_sent_after_max_seconds(server: ModelServer, endpoint, ask):
    budget = Budget()
    model = Budgeted(endpoint, budget)
    await model.complete(ask("in time"))
    budget.max_seconds = 0.2
    await asyncio.sleep(0.25)
    with pytest.raises(
        BudgetReached, match=r"stopped before call 2: it would pass max_seconds 0\.2 \(spent 0\)"
    ):
        await model.complete(ask("late"))
    assert len(server.requests) == 1


async def test_max_seconds_ends_a_repeated_call(server: ModelServer, endpoint, ask):
    server.answer = lambda _: error(500, "oops")
    patient = RetryPolicy(attempts=1000)
    model = Budgeted(Retried(endpoint, patient), Budget(max_seconds=0.3))
    with pytest.raises(
        BudgetReached, match=r"stopped while a call was under way: max_seconds 0\.3 passed"
    ):
        await model.complete(ask("never"))


@pytest.mark.parametrize(
    ("limits", "spent", "most", "message"),
    [
        (
            {"max_usd": 2.0},
            Spending(811, 5, 1.98),
            Spending(1, 0, 0.03),
            "call 812: it would pass max_usd 2.00 (spent 1.98)",
        ),
        (
            {"max_usd": 0.01},
            Spending(2, 5, 0.0095),
            Spending(1, 0, 1),
            "call 3: it would pass max_usd 0.010 (spent 0.0095)",
        ),
        (
            {"max_calls": 1000},
            Spending(1000),
            Spending(1),
            "call 1,001: it would pass max_calls 1,000 (spent 1,000)",
        ),
        (
            {"max_tokens": 20_000},
            Spending(7, 19_800),
            Spending(1, 201),
            "call 8: it would pass max_tokens 20,000 (spent 19,800)",
        ),
    ],
)
async def test_the_message_names_the_limit_and_the_spending(
    limits: dict, spent: Spending, most: Spending, message: str
):
    budget = Budget(**limits)
    budget.spent = spent
    with pytest.raises(BudgetReached) as caught:
        await budget.reserve(most)
    assert str(caught.value) == f"stopped before {message}"


async def test_a_limit_may_be_reached_exactly():
    budget = Budget(max_tokens=100)
    await budget.reserve(Spending(1, 100))
    budget.charge(Spending(1, 100), Spending(1, 100))
    with pytest.raises(BudgetReached):
        await budget.reserve(Spending(1, 1))


async def test_reservations_of_others_are_awaited_in_turn():
    budget = Budget(max_tokens=100)
    await budget.reserve(Spending(1, 90))
    order: list[str] = []

    async def reserve(name: str, tokens: int) -> None:
        await budget.reserve(Spending(1, tokens))
        order.append(name)

    large, small = (
        asyncio.create_task(reserve("large", 60)),
        asyncio.create_task(reserve("small", 10)),
    )
    await asyncio.sleep(0.01)
    assert order == []
    budget.charge(Spending(1, 90), Spending(1, 20))
    await asyncio.gather(large, small)
    assert order == ["large", "small"]


async def test_a_cancelled_wait_does_not_block_others():
    budget = Budget(max_tokens=100)
    await budget.reserve(Spending(1, 90))
    waiting = [asyncio.create_task(budget.reserve(Spending(1, 50))) for _ in range(2)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    budget.charge(Spending(1, 90), Spending(1, 10))
    await waiting[1]
    assert waiting[0].cancelled()


async def test_a_cancelled_request_is_charged_nothing(server: ModelServer, endpoint, ask):
    async def answer(body: dict) -> Fault:
        return Fault(hang=True)

    server.answer = answer
    budget = Budget(max_calls=1)
    task = asyncio.create_task(Budgeted(endpoint, budget).complete(ask()))
    await server.until(lambda server: server.requests)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert budget.spent == Spending()
    await budget.reserve(Spending(1))


async def test_a_truncated_answer_is_charged_and_an_error_is_not(server: ModelServer, priced, ask):
    async def answer(body: dict):
        return (
            error(400, "no")
            if body["messages"][-1]["content"] == "bad"
            else Answer("{" * 40, finish="length")
        )

    server.answer = answer
    budget = Budget()
    model = Budgeted(priced, budget)
    for text in ("bad", "long"):
        with pytest.raises(RowError):
            await model.complete(ask(text))
    assert budget.spent.calls == 1
    assert budget.spent.tokens > 10
    assert budget.spent.usd == pytest.approx(budget.spent.tokens / 1000)


async def test_repeated_attempts_are_one_call(server: ModelServer, endpoint, ask):
    async def answer(body: dict):
        return error(500, "oops") if len(server.requests) < 3 else "{}"

    server.answer = answer
    budget = Budget(max_calls=1)
    model = Budgeted(Retried(endpoint, RetryPolicy(first=0.001)), budget)
    assert (await model.complete(ask())).attempts == 3
    assert budget.spent.calls == 1


async def test_a_limit_in_dollars_needs_a_price(server: ModelServer, ask):
    unpriced = Budgeted(OpenAI("Qwen3", server.base_url), Budget(max_usd=5))
    with pytest.raises(
        PlanError,
        match=r"max_usd 5\.00 cannot be enforced: no price is known for openai:Qwen3@http",
    ):
        await unpriced.complete(ask())
    assert not server.requests
    counted = Budgeted(OpenAI("Qwen3", server.base_url), Budget(max_calls=5))
    await counted.complete(ask())
    await counted.aclose()


async def test_requests_in_flight_are_awaited_at_the_limit(server: ModelServer, endpoint, ask):
    gate = asyncio.Event()

    async def slow(body: dict) -> str:
        await gate.wait()
        return "{}"

    server.answer = slow
    model = Stack(budget=Budget(max_calls=3)).model(endpoint, Limiter(8))
    asked = [asyncio.create_task(model.complete(ask(f"{n}"))) for n in range(4)]
    await server.until(lambda s: len(s.requests) == 3)
    _, pending = await asyncio.wait(asked, timeout=0.05)
    assert len(pending) == 4, "it is not said before the others are answered"
    gate.set()
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    assert [isinstance(o, BudgetReached) for o in outcomes] == [False, False, False, True]


async def test_nothing_is_awaited_after_max_seconds(server: ModelServer, endpoint, ask):
    async def never(body: dict) -> str:
        await asyncio.Event().wait()
        return ""

    server.answer = never
    budget = Budget()
    model = Stack(budget=budget).model(endpoint, Limiter(8))
    hanging = asyncio.create_task(model.complete(ask("1")))
    await server.until(lambda s: s.requests)
    budget.max_seconds = 0.0
    async with asyncio.timeout(30):
        with pytest.raises(BudgetReached, match="max_seconds"):
            await model.complete(ask("2"))
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)


async def test_a_budget_within_another_is_bound_by_both(server: ModelServer, endpoint, ask):
    shared = Budget(max_calls=10, owner=" of all")
    first, second = (Budget(max_calls=7, within=shared) for _ in range(2))
    assert answered(await flood(Budgeted(endpoint, first), ask, 20)) == 7
    outcomes = await flood(Budgeted(endpoint, second), ask, 20)
    assert answered(outcomes) == 3
    assert {str(outcome) for outcome in outcomes if isinstance(outcome, BudgetReached)} == {
        "stopped before call 11: it would pass max_calls 10 of all (spent 10)"
    }
    assert (first.spent.calls, second.spent.calls, shared.spent.calls) == (7, 3, 10)
    assert len(server.requests) == 10


async def test_budgets_within_one_are_used_up_by_runs_at_the_same_time(
    server: ModelServer, priced, ask
):
    async def answer(body: dict) -> Answer:
        return Answer("{}", usage={"prompt_tokens": 10, "completion_tokens": 40})

    server.answer, server.latency = answer, 0.002
    shared = Budget(max_usd=2.00)
    runs = [Budgeted(priced, Budget(max_usd=0.8, within=shared)) for _ in range(4)]
    outcomes = await asyncio.gather(*(flood(run, ask, 60, max_tokens=40) for run in runs))
    assert shared.spent.usd == pytest.approx(0.05 * sum(map(answered, outcomes)))
    assert 1.85 < shared.spent.usd <= 2.00
    assert all(run.budget.spent.usd <= 0.8 for run in runs)


async def test_what_the_inner_budget_refuses_or_fails_is_not_kept_of_the_outer_one(
    server: ModelServer, endpoint, ask
):
    shared = Budget(max_calls=2)
    with pytest.raises(BudgetReached):
        await Budget(max_calls=0, within=shared).reserve(Spending(1))
    server.answer = lambda _body: never()

    async def never() -> str:
        await asyncio.Event().wait()
        return ""

    hanging = asyncio.create_task(Budgeted(endpoint, Budget(within=shared)).complete(ask("1")))
    await server.until(lambda s: s.requests)
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    assert not shared.passed(shared.spent + Spending(2))
    await Budget(within=shared).reserve(Spending(2))  # would wait for what is still reserved


async def test_a_shared_limit_in_dollars_needs_prices_and_tokens(server: ModelServer, ask):
    shared = Budget(max_usd=5)
    assert Budget(within=shared).counts_tokens
    assert not Budget(within=Budget(max_calls=5)).counts_tokens
    unpriced = Budgeted(OpenAI("Qwen3", server.base_url), Budget(within=shared))
    with pytest.raises(PlanError, match=r"max_usd 5\.00 cannot be enforced: no price is known"):
        await unpriced.complete(ask())
    assert not server.requests


@pytest.mark.parametrize(
    ("limits", "counted"),
    [
        ({"max_calls": 90}, lambda calls, tokens: calls),
        ({"max_tokens": 5_000}, lambda calls, tokens: tokens),
        ({"max_usd": 5.0}, lambda calls, tokens: tokens / 1000),
    ],
    ids=["calls", "tokens", "dollars"],
)
async def test_a_limit_is_used_up_although_a_request_could_cost_half_of_it(
    server: ModelServer, priced, ask, limits: dict, counted
):
    """What a request may take, 2,100 tokens, is many times what it takes."""
    tokens = 0

    async def answer(body: dict) -> Answer:
        nonlocal tokens
        took = 1 + len(server.requests) % 20
        assert took <= body["max_tokens"]
        tokens += 40 + took
        return Answer("{}", usage={"prompt_tokens": 40, "completion_tokens": took})

    server.answer, server.latency = answer, 0.002
    outcomes = await flood(Budgeted(priced, Budget(**limits)), ask, 300, max_tokens=2048)
    used = counted(answered(outcomes), tokens)
    (limit,) = limits.values()
    assert 0.9 * limit <= used <= limit
    assert len(server.requests) == answered(outcomes)


async def test_several_requests_are_under_way_near_a_limit(server: ModelServer, priced, ask):
    async def answer(body: dict) -> Answer:
        return Answer("{}", usage={"prompt_tokens": 40, "completion_tokens": 5})

    server.answer = answer
    model = Budgeted(priced, Budget(max_tokens=3_400))
    for n in range(30):
        await model.complete(ask(f"{n}", max_tokens=2048))
    gate, server.most_in_flight = asyncio.Event(), 0

    async def held(body: dict) -> Answer:
        await gate.wait()
        return await answer(body)

    server.answer = held
    asked = [
        asyncio.create_task(model.complete(ask(f"more {n}", max_tokens=2048))) for n in range(8)
    ]
    await server.until(lambda server: server.in_flight == 8)
    gate.set()
    await asyncio.gather(*asked)


async def test_an_answer_cut_by_a_limit_ends_the_run_and_is_not_recorded(
    server: ModelServer, endpoint, ask, journal: Journal
):
    async def answer(body: dict) -> Answer:
        took = 1000 if body["messages"][-1]["content"] == "long" else 5
        took, finish = (took, "stop") if took <= body["max_tokens"] else (64, "length")
        return Answer("{}", finish, usage={"prompt_tokens": 40, "completion_tokens": took})

    server.answer = answer
    budget = Budget(max_tokens=3_400)
    model = Stack(QUICK, budget, journal).model(endpoint, Limiter())
    for n in range(30):
        await model.complete(ask(f"{n}", max_tokens=2048))
    long = ask("long", max_tokens=2048)
    with pytest.raises(
        BudgetReached, match="an answer that did not end within 64 tokens"
    ) as caught:
        await model.complete(long)
    assert isinstance(caught.value.__cause__, RowError)
    assert [body["max_tokens"] for body in server.requests] == [2048] * 30 + [64]
    assert budget.spent == Spending(31, 30 * 45 + 104, budget.spent.usd)
    # Other requests are still sent, and a run with a higher limit sends this one in full.
    await model.complete(ask("31", max_tokens=2048))
    later = await Stack(QUICK, Budget(), journal).model(endpoint, Limiter()).complete(long)
    assert (later.origin, later.usage.completion) == ("issued", 1000)


async def test_a_limit_holds_for_tokens_as_the_endpoint_counts_them(server: ModelServer, ask):
    """The endpoint counts three times the tokens that are estimated."""
    endpoint, tokens = OpenAI("Qwen3", server.base_url, timeout=600), 0
    prompt = 3 * await measure(endpoint, ask("0000"))

    async def answer(body: dict) -> Answer:
        nonlocal tokens
        tokens += prompt + 10
        return Answer("{}", usage={"prompt_tokens": prompt, "completion_tokens": 10})

    server.answer, server.latency = answer, 0.002
    outcomes = await flood(Budgeted(endpoint, Budget(max_tokens=60_000)), ask, 600, max_tokens=64)
    await endpoint.aclose()
    assert 0.9 * 60_000 <= tokens <= 60_000
    assert len(server.requests) == answered(outcomes)


async def test_a_budget_is_shared_by_event_loops_of_several_threads() -> None:
    """Requests wait for those of other loops, and none is lost or counted twice."""
    budget, wide, one = Budget(max_calls=700), Spending(300), Spending(1)  # two of four threads fit

    async def spend() -> None:
        for _ in range(25):
            await budget.reserve(wide)
            await asyncio.sleep(0)
            budget.charge(wide, one)

    await asyncio.gather(*(asyncio.to_thread(asyncio.run, spend()) for _ in range(4)))
    assert budget.spent.calls == 100
    assert budget.fits(Spending(600))
    assert not budget.fits(Spending(601))
